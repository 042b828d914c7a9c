"""Texts in the synthetic language: plain files made from a seed, in an archive whose bytes are always the same.

``calibration`` and ``heldout`` are episodes as training has them, all questions at the end. The other folders are
domains of evaluation documents: needles first, and behind them filler in which questions are asked one by one, so that
a stretch of it holds tokens that only the far context tells, and tokens that nothing before tells.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import MappingProxyType

from ridgefill.errors import TextError
from ridgefill.hybrid.language import DIGITS, DISTRACTORS, Sentence, Task, episode, filler, needle, question, spell

CALIBRATION, HELD_OUT = 140, 12
"""Episodes of either role: 142,000 tokens and 12,000."""
DOCUMENTS = 16
"""Documents of each domain."""
EPISODE = 1024
MOST_KEYS = 8
"""Needles of an episode, at most; longer episodes of training have as many."""
NEEDLES_END, QUESTIONS_BEGIN, QUESTIONS_END, END = 920, 1020, 1290, 2100
"""Pieces of a document: needles come before the first, questions between the next two. With a prompt of 1,024 tokens
needles are before its tail, and nearly all questions behind it. The rest is filler: suites that go by characters take
5.5 of them for a token, and the language has 4."""


@dataclass(frozen=True)
class Domain:
    """What documents of a domain hold. keys: what needles are about. needles: of a document, each asked about once.
    numbered: share of filler sentences with a number."""

    keys: tuple[str, ...]
    needles: int
    numbered: float = DISTRACTORS


def _among(listed: str) -> tuple[str, ...]:
    return tuple(listed.split())


DOMAINS: Mapping[str, Domain] = MappingProxyType(
    {
        "animals": Domain(
            _among("camel dolphin dragon eagle falcon lizard otter panther parrot pigeon raven salmon tiger zebra"), 8
        ),
        "household": Domain(
            _among(
                "barrel basket blanket bottle bucket candle carpet cradle crayon goblet hammer jacket kettle ladder "
                "lantern mirror needle pillow saddle"
            ),
            12,
        ),
        "minerals": Domain(
            _among("bronze cobalt copper coral diamond flint fossil granite ivory marble nickel onyx pebble sapphire"),
            8,
            numbered=0.4,
        ),
        "plants": Domain(
            _among("apple cactus cedar cherry cotton daisy garlic ginger hazel iris jasmine lemon maple olive orchid"),
            4,
        ),
    }
)
"""Domains of documents: what is asked for, how much of it there is, and how many numbers distract."""


def files() -> dict[str, str]:
    """Every text by its path in the archive."""
    made = {f"calibration/{place:03}.txt": _episode("calibration", place) for place in range(CALIBRATION)}
    made |= {f"heldout/{place:03}.txt": _episode("heldout", place) for place in range(HELD_OUT)}
    for name, domain in DOMAINS.items():
        made |= {f"{name}/{place:03}.txt": _document(name, domain, place) for place in range(DOCUMENTS)}
    return made


def _episode(role: str, place: int) -> str:
    random = Random(f"text/{role}/{place}")
    keys = random.randint(1, MOST_KEYS)
    return spell(episode(Task(EPISODE, keys, keys), random).pieces)


def _document(name: str, domain: Domain, place: int) -> str:
    random = Random(f"text/{name}/{place}")
    keys = random.sample(domain.keys, domain.needles)
    codes = random.sample(range(10 ** (DIGITS - 1), 10**DIGITS), domain.needles)
    said = [needle(key, code) for key, code in zip(keys, codes, strict=True)]
    asked = [question(key, code) for key, code in zip(keys, codes, strict=True)]
    parts: list[tuple[int, list[Sentence]]] = [
        (NEEDLES_END, said), (QUESTIONS_BEGIN, []), (QUESTIONS_END, asked), (END, [])
    ]  # fmt: skip
    pieces: list[str] = []
    for end, among in parts:
        sentences = filler(end - len(pieces) - sum(map(len, among)), set(codes), random, domain.numbered)
        for one in among:
            sentences.insert(random.randint(0, len(sentences)), one)
        pieces += (piece for sentence in sentences for piece in sentence)
    return spell(pieces)


def archive() -> bytes:
    """All files as a zip, nothing compressed and no time in it, so that its SHA-256 follows from the texts alone."""
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as opened:
        for name, text in sorted(files().items()):
            member = zipfile.ZipInfo(name)
            member.create_system = 3  # the same on every system
            opened.writestr(member, text)
    return written.getvalue()


GENERATORS: Mapping[tuple[str, str], Callable[[], bytes]] = MappingProxyType({("hybrid-language", "1"): archive})
"""Archives that are made rather than fetched, by name and version."""


def generate(name: str, version: str, path: Path) -> None:
    """Write a generated archive. Raises TextError for a name or version that no generator has."""
    if (name, version) not in GENERATORS:
        known = ", ".join(f"{one} {number}" for one, number in GENERATORS)
        raise TextError(f"no generator makes {name} {version}; expected one of {known}")
    path.write_bytes(GENERATORS[name, version]())
