"""Run by the engine's own interpreter: one engine, told by lines of JSON what to do, answering by lines of JSON.

The only argument is JSON, the engine's own arguments. A line names an act, one of the functions below, with its
arguments; ``budget`` is the most rows of a step while it lasts, and ``mapped`` whether the split layer's map is asked.
Everything happens in this process, so that the engine's parts can be reached.
"""

import json
import os
import sys

import torch
from vllm import LLM, SamplingParams

LOGPROBS = 5


def core_of(llm):
    """The part with the scheduler and the worker."""
    return llm.llm_engine.engine_core.engine_core


def model_of(llm):
    """The model that the worker runs."""
    return core_of(llm).model_executor.driver_worker.worker.model_runner.model


def sampling(new, switch, prompt_logprobs=None):
    """Greedy, ``new`` tokens, with the log-probabilities of the best few."""
    extra = None if switch is None else {"ridgefill": switch}
    options = {"temperature": 0.0, "logprobs": LOGPROBS, "detokenize": False, "ignore_eos": True}
    return SamplingParams(max_tokens=new, extra_args=extra, prompt_logprobs=prompt_logprobs, **options)


def told(output):
    """Tokens of one finished request, and for each the best few with their log-probabilities."""
    done = output.outputs[0]
    best = [sorted((token, one.logprob) for token, one in at.items()) for at in done.logprobs]
    rows = [one and sorted((token, at.logprob) for token, at in one.items()) for one in output.prompt_logprobs or []]
    return {"tokens": list(done.token_ids), "logprobs": best, "prompt": rows, "cached": output.num_cached_tokens}


def generate(llm, prompts, switches, new, together=True, prompt_logprobs=None):
    """All prompts at once, or one after the other."""
    groups = [list(range(len(prompts)))] if together else [[place] for place in range(len(prompts))]
    answers = []
    for group in groups:
        asked = [{"prompt_token_ids": prompts[place]} for place in group]
        params = [sampling(new, switches[place], prompt_logprobs) for place in group]
        answers += [told(one) for one in llm.generate(asked, params, use_tqdm=False)]
    return answers


def staggered(llm, prompts, switches, new, every, abort=None):
    """Each prompt is added ``every`` steps after the one before; ``abort``: place and step of one taken away."""
    engine, done, step = llm.llm_engine, {}, 0
    scheduler = core_of(llm).scheduler
    counted, stock = [], scheduler._preempt_request

    def preempt(request, *args, **kwargs):
        counted.append(request.request_id)
        return stock(request, *args, **kwargs)

    scheduler._preempt_request = preempt
    waiting = list(range(len(prompts)))
    while waiting or engine.has_unfinished_requests():
        while waiting and step >= waiting[0] * every:
            place = waiting.pop(0)
            prompt = {"prompt_token_ids": prompts[place]}
            engine.add_request(f"r{place}", prompt, sampling(new, switches[place]))
        if abort is not None and step == abort[1]:
            engine.abort_request([f"r{abort[0]}"])
        done |= {output.request_id: told(output) for output in engine.step() if output.finished}
        step += 1
    scheduler._preempt_request = stock
    return {"answers": [done.get(f"r{place}") for place in range(len(prompts))], "preempted": counted, "steps": step}


def oracle(llm, prompt, new):
    """Exact, then filled from the exact run's own layer inputs."""
    model = model_of(llm)
    late = model.late
    seen = {layer: [] for layer in range(late.split, len(model.model.layers))}

    def keep(layer):
        def hook(_, given, named):
            _, hidden, residual = given or (None, named["hidden_states"], named["residual"])
            seen[layer].append(hidden + residual)

        return hook

    hooks = [model.model.layers[layer].register_forward_pre_hook(keep(layer), with_kwargs=True) for layer in seen]
    exact = generate(llm, [prompt], [0], new)
    for hook in hooks:
        hook.remove()
    true = {layer: torch.cat(parts) for layer, parts in seen.items()}
    asked = dict.fromkeys(seen, 0)

    def predict(layer, state):
        begin = asked[layer]
        asked[layer] += len(state)
        return true[layer][begin : begin + len(state)]

    stock, late.predict = late.predict, predict
    filled = generate(llm, [prompt], [1], new)
    late.predict = stock
    return {"exact": exact[0], "filled": filled[0], "predicted": asked}


ACTS = {"generate": generate, "staggered": staggered, "oracle": oracle}


def perform(llm, act, budget=None, mapped=None, **arguments):
    """One act under its own budget and split layer; both are put back."""
    scheduler, late = core_of(llm).scheduler, getattr(model_of(llm), "late", None)
    before = scheduler.max_num_scheduled_tokens, getattr(late, "true_split", None)
    scheduler.max_num_scheduled_tokens = budget or before[0]
    if mapped is not None:
        late.true_split = not mapped
    try:
        return ACTS[act](llm, **arguments)
    finally:
        scheduler.max_num_scheduled_tokens = before[0]
        if late is not None:
            late.true_split = before[1]


def main(arguments):
    """Start the engine, then one answer for each line. What the engine prints goes where its log goes."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    llm = LLM(**json.loads(arguments))
    for line in sys.stdin:
        print(json.dumps(perform(llm, **json.loads(line))), file=answers, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
