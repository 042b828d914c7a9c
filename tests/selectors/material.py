"""Prompts of a small made-up vocabulary, as selectors see them."""

from hypothesis import strategies as st

from ridgefill.selectors.context import Context
from ridgefill.selectors.tokens import SpecialIds

# Control, unknown and user-defined tokens first, the first of them without a character of text.
SPECIAL = ["", "<|end|>", "<unk>", "\n\n"]
ORDINARY = [
    " alpha", " beta", " gamma", " Alpha", "Beta", "gam", "ma", " delta7", "7", " 42", "-", ". ", ".", "?", '." ',
    "\n", " ", "Ünder", "ß", "�", "。", " _x", "don't", "(1)", " e",
]  # fmt: skip
VOCABULARY = [*SPECIAL, *ORDINARY]
IDS = SpecialIds(control=frozenset({0, 1}), unknown=frozenset({2}), user_defined=frozenset({3}))


def made(ids, prefix, **more):
    """A context of these ids, whose text is their texts one after the other."""
    texts, offsets, place = [VOCABULARY[token] for token in ids], [], 0
    for text in texts:
        # Some tokenizers give a token without characters the offsets of nothing.
        offsets.append((place, place + len(text)) if text else (0, 0))
        place += len(text)
    more = {"texts": tuple(texts), "text": "".join(texts), "offsets": tuple(offsets), "special": IDS} | more
    return Context(tuple(ids), prefix, **more)


@st.composite
def prompts(draw, most=60):
    """Contexts of random tokens, a random prefix and up to two stretches written by a template."""
    ids = draw(st.lists(st.integers(0, len(VOCABULARY) - 1), min_size=1, max_size=most))
    # The end often says again what was said before.
    ids += ids[slice(*sorted(draw(st.tuples(*[st.integers(0, len(ids))] * 2))))]
    spots = draw(st.lists(st.integers(0, len(ids)), max_size=4).filter(lambda found: len(found) % 2 == 0))
    template = tuple(zip(sorted(spots)[::2], sorted(spots)[1::2], strict=True))
    return made(ids, draw(st.integers(0, len(ids))), template=template, seed=draw(st.integers(0, 2**63 - 1)))
