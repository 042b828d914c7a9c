# What every rule file may use.

# Tables that every report has; those of the verdicts are there only when the claim predicts something.
TABLES = ["main", "contrasts", "split_curve", "tasks", "lam", "fit", "cost", "setup"]
FIGURES = ["pareto", "split_curve", "lam_curve", "tasks", "widths", "cost"]


def asked(question):
    """An input or parameter function whose refusal stops the planning with one sentence."""

    def answer(wildcards):
        try:
            return question(wildcards)
        except Refused as refusal:
            raise WorkflowError(str(refusal)) from None

    return answer
