# What every rule file may use.


def asked(question):
    """An input or parameter function whose refusal stops the planning with one sentence."""

    def answer(wildcards):
        try:
            return question(wildcards)
        except Refused as refusal:
            raise WorkflowError(str(refusal)) from None

    return answer
