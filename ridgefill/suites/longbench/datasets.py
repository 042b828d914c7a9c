"""The 21 datasets of LongBench v1 (THUDM 2e00731): how each is asked, how long it may answer, how it is scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ridgefill.errors import ConfigError

Metric = Literal["f1", "rouge_l", "classification", "retrieval", "count", "code"]


@dataclass(frozen=True)
class Dataset:
    """One dataset.

    ``metric`` names its scorer and ``language`` what it reads (``en``, ``zh`` or ``code``); ``new_tokens`` is
    the budget of the answer; ``chat`` says whether the prompt goes into the chat template; ``first_line``
    that only the answer's first line is scored; ``stop_at_newline`` that decoding ends at a line break, which
    like the end of the text may not be its first token.
    """

    name: str
    metric: Metric
    new_tokens: int
    language: Literal["en", "zh", "code"] = "en"
    chat: bool = True
    first_line: bool = False
    stop_at_newline: bool = False

    @property
    def reference_pattern(self) -> str | None:
        """What a reference must contain, its number in the first group; None where any text will do."""
        if self.metric != "retrieval":
            return None
        return r"段落(\d+)" if self.language == "zh" else r"Paragraph (\d+)"


DATASETS: Mapping[str, Dataset] = MappingProxyType(
    {
        dataset.name: dataset
        for dataset in (
            Dataset("narrativeqa", "f1", 128),
            Dataset("qasper", "f1", 128),
            Dataset("multifieldqa_en", "f1", 64),
            Dataset("multifieldqa_zh", "f1", 64, "zh"),
            Dataset("hotpotqa", "f1", 32),
            Dataset("2wikimqa", "f1", 32),
            Dataset("musique", "f1", 32),
            Dataset("dureader", "rouge_l", 128, "zh"),
            Dataset("gov_report", "rouge_l", 512),
            Dataset("qmsum", "rouge_l", 512),
            Dataset("multi_news", "rouge_l", 512),
            Dataset("vcsum", "rouge_l", 512, "zh"),
            Dataset("trec", "classification", 64, chat=False, first_line=True),
            Dataset("triviaqa", "f1", 32, chat=False, first_line=True),
            Dataset("samsum", "rouge_l", 128, chat=False, first_line=True, stop_at_newline=True),
            Dataset("lsht", "classification", 64, "zh", chat=False, first_line=True),
            Dataset("passage_count", "count", 32),
            Dataset("passage_retrieval_en", "retrieval", 32),
            Dataset("passage_retrieval_zh", "retrieval", 32, "zh"),
            Dataset("lcc", "code", 64, "code", chat=False),
            Dataset("repobench-p", "code", 64, "code", chat=False),
        )
    }
)


def find_dataset(name: str) -> Dataset:
    """The dataset called ``name``; ConfigError names the known ones."""
    if name not in DATASETS:
        raise ConfigError(f"no LongBench dataset {name!r}; the known ones are {', '.join(DATASETS)}")
    return DATASETS[name]
