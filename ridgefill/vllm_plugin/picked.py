"""Tokens whose rows run every layer wherever they stand in a prompt (paper section 2.4, Appendix I.2).

What a rule picks by the token alone is known before any layer runs, is the same in every chunk and for every question,
and is shared by all prompts that begin alike, so that the prefix cache need not know of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ridgefill.selectors.context import Context, Selector
from ridgefill.selectors.digits import DigitTokens
from ridgefill.selectors.special import SpecialTokens
from ridgefill.selectors.tokens import special_ids, token_texts

RULES: Mapping[str, Selector] = {"digits": DigitTokens(), "special": SpecialTokens()}
"""Selectors that look at each token by itself."""

Flags = NDArray[np.bool_]


def picked_tokens(rules: Sequence[str], tokenizer: Any, vocabulary: int) -> Flags | None:
    """Bool ``[vocabulary]``, true for the token ids that any of ``rules`` picks; None without rules.

    tokenizer: a transformers tokenizer. vocabulary: the model's, which may be larger than the tokenizer's.
    """
    if not rules:
        return None
    # Asked about a prompt of all its tokens, a rule that looks at each by itself tells which of them it picks.
    ids = tuple(range(min(len(tokenizer), vocabulary)))
    chosen = [RULES[name] for name in rules]
    texts = token_texts(tokenizer, ids) if any("texts" in rule.needs for rule in chosen) else None
    everything = Context(ids, len(ids), texts=texts, special=special_ids(tokenizer))
    flags = np.zeros(vocabulary, np.bool_)
    for rule in chosen:
        flags[list(rule.rows(everything))] = True
    return flags
