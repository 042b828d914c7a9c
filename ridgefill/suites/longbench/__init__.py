"""LongBench v1 and v2 (EVALUATION section 1): the user's own data files, prompts, scores and summaries; no torch.

    v1: files.read_v1 -> prompts.prompt_for -> (a model, greedy) -> scores.score -> summary.summarise
    v2: files.read_v2 -> v2.reasoning_prompt -> (a model) -> v2.answer_prompt -> (a model) -> v2.judge -> summary

Neither data nor the official prompts are part of this project. Both come from files whose SHA-256 is recorded;
without a file of prompts our own wording is used and the results are labelled ``longbench-style``.
"""
