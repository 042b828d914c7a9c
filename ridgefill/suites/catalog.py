"""Every suite that an experiment can have: what it measures, what it needs, and which published numbers it is about."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Need = Literal[
    "words", "essays", "documents", "questions", "official", "chat", "longbench_v1", "longbench_v2", "templates",
    "segmenter", "engine", "device",
]  # fmt: skip

NEEDS: dict[Need, str] = {
    "words": "words for keys, a pinned package",
    "essays": "the haystack's essays, a pinned package, or your own as suites.ruler.essays_text",
    "documents": "frozen documents of the manifest, from pinned packages",
    "questions": "questions: our own small set, or SQuAD 2.0 dev as suites.ruler.squad and HotpotQA dev distractor as "
    "suites.ruler.hotpotqa",
    "official": "with source: official, your folder of samples that the pinned RULER generator made",
    "chat": "a chat template of the model; without one, turns are plain text",
    "longbench_v1": "your unpacked LongBench data, suites.longbench_v1.folder",
    "longbench_v2": "your LongBench v2 data.json, suites.longbench_v2.file",
    "templates": "official prompts, if results are to be called official: your copies of the files; else our wording",
    "segmenter": "for Chinese questions and summaries, the package jieba",
    "engine": "vLLM in an environment of its own, which `make vllm-setup` builds",
    "device": "nothing more; seconds are those of the machine that runs it",
}
"""What a suite may need, in words."""


@dataclass(frozen=True)
class Suite:
    """One entry.

    setting: the key below ``suites`` of an experiment that asks for it; run: its name as a run, a folder of results and
    a heading. tasks: those of ``suites.ruler.tasks``, for a group of them. published: pattern of the paper's metrics.
    """

    name: str
    setting: str
    about: str
    needs: tuple[Need, ...]
    published: str
    tasks: tuple[str, ...] = ()

    def answers(self, metric: str) -> bool:
        """Whether the paper's ``metric`` is the quantity that this suite measures."""
        return re.fullmatch(self.published, metric) is not None


_FILLED = r"ruler_filled_\w+|ruler_(eight|four_needle)_tasks_\w+|ruler_needles_all|ruler13_\w+"


def _ruler(name: str, about: str, needs: tuple[Need, ...], *tasks: str) -> Suite:
    own = "|".join(rf"ruler_{task}_(16k|32k)" for task in tasks)
    return Suite(name, "ruler", about, (*needs, "official"), f"{_FILLED}|{own}", tasks)


CATALOG: tuple[Suite, ...] = (
    _ruler(
        "ruler_single", "One needle in noise or essays: a number or a uuid is asked for.", ("words", "essays"),
        "niah_single_1", "niah_single_2", "niah_single_3",
    ),
    _ruler(
        "ruler_multikey", "One needle among others like it, of four keys or of nothing but needles.",
        ("words", "essays"), "niah_multikey_1", "niah_multikey_2", "niah_multikey_3",
    ),
    _ruler(
        "ruler_multi", "Four values of one key, or four keys at once.", ("words", "essays"),
        "niah_multivalue", "niah_multiquery",
    ),
    _ruler("ruler_tracing", "Variables that are set to one another over four hops.", (), "vt"),
    _ruler("ruler_counting", "The commonest words of a list, plain or coded.", ("words",), "cwe", "fwe"),
    _ruler("ruler_reading", "Questions about one paragraph, or two, among many.", ("questions",), "qa_1", "qa_2"),
    Suite(
        "ruler_language", "ruler", "Codes of keys in the language of the hybrids trained here, which know no other.",
        (), r"(?!)", ("one_key", "four_keys", "four_asked"),
    ),
    Suite(
        "documents", "documents", "Loss on the text that follows a long document: novel tokens, key tokens, all.",
        ("documents",), r"nll_(novel|key)|ppl_gap_novel|nll_(mean|median)_(16k|32k).*",
    ),
    Suite(
        "agreement", "agreement", "How closely an arm follows exact's own greedy words, and the text's: top-1 and KL.",
        ("documents",), r"decode_(agreement|kl)|top1_agreement_\w+|kl_(mean|median|p99)_(16k|32k).*",
    ),
    Suite(
        "turns", "turns", "A second question asked of a cache that was filled for the first.",
        ("words", "essays", "chat"), r"turn2",
    ),
    Suite(
        "longbench_v1", "longbench_v1", "LongBench: 21 datasets of questions, summaries, classes and code; greedy.",
        ("longbench_v1", "templates", "segmenter", "chat"), r"longbench_v1_\w+",
    ),
    Suite(
        "longbench_v2", "longbench_v2", "LongBench v2: 503 questions with four choices, reasoned about, then answered.",
        ("longbench_v2", "templates", "chat"), r"longbench_v2_\w+",
    ),
    Suite(
        "speed", "speed", "Time to first token of every arm, in turn with exact in one process.",
        ("documents", "device"), r"ttft_s_\w+|speedup_\w+|request_64k_s|vram_over_stock_mib_\w+",
    ),
    Suite(
        "serving", "serving", "One long prefill among users who decode: its time, and what theirs becomes.",
        ("documents", "device"), r"mixed_\w+",
    ),
    Suite(
        "served", "served", "vLLM's server, filling, seen by its client: long prompts, users, short requests.",
        ("documents", "engine", "device"), r"mixed_\w+|ttft_s_\w+|speedup_\w+",
    ),
)  # fmt: skip
"""All suites, RULER's thirteen tasks by group, and ours."""
