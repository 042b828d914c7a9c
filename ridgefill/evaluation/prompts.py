"""From a suite's sample to the tokens a model reads: chat template, answer prefix, offsets."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from transformers import PreTrainedTokenizerBase

from ridgefill.suites.ruler import RulerSample


@dataclass(frozen=True)
class Prompt:
    """A prompt as text, token ids and character offsets of each token."""

    text: str
    ids: list[int]
    offsets: list[tuple[int, int]]

    @property
    def sha256(self) -> str:
        """SHA-256 of the prompt's UTF-8 text."""
        return hashlib.sha256(self.text.encode()).hexdigest()


def opening(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """The mark that the tokenizer itself puts before a text, for models trained with one; else nothing."""
    alone = list(tokenizer("")["input_ids"])
    return alone[:1] if alone and alone[0] == tokenizer.bos_token_id else []


def ends(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """Ids of tokens that end an answer; none for a tokenizer without an end of text."""
    return set() if tokenizer.eos_token_id is None else {int(tokenizer.eos_token_id)}


def plain_text(tokenizer: PreTrainedTokenizerBase, text: str) -> str:
    """A text without the chat template: after the tokenizer's own opening mark, if it has one."""
    return (str(tokenizer.bos_token) if opening(tokenizer) else "") + text


def encoded(tokenizer: PreTrainedTokenizerBase, text: str) -> Prompt:
    """The prompt whose text has its opening mark or template already."""
    made = tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
    return Prompt(text, list(made["input_ids"]), [tuple(pair) for pair in made["offset_mapping"]])


def chat_text(tokenizer: PreTrainedTokenizerBase, question: str) -> str:
    """A user turn in the model's chat template, ready for the answer.

    For a model without a template, the question after the tokenizer's own opening mark, if it has one.
    """
    if not tokenizer.chat_template:
        return plain_text(tokenizer, question)
    turns = [{"role": "user", "content": question}]
    text: str = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    return text


def ruler_prompt(tokenizer: PreTrainedTokenizerBase, sample: RulerSample) -> Prompt:
    """The sample's user turn with its answer prefix after the template, as RULER places it."""
    return encoded(tokenizer, chat_text(tokenizer, sample.question_prompt) + sample.answer_prefix)


def chat_overhead(tokenizer: PreTrainedTokenizerBase) -> int:
    """Tokens that the chat template adds around a user turn."""
    return len(tokenizer(chat_text(tokenizer, ""), add_special_tokens=False)["input_ids"])
