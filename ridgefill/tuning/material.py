"""Texts of a search in four roles that share nothing: fitting, choosing ``lam``, development, confirmation."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from ridgefill.errors import TextError
from ridgefill.suites.overlap import RUN, RunIndex, words_of
from ridgefill.suites.words import Words

FEWEST_WORDS = 32
ROLES = ("calibration", "confirmation", "development", "heldout")
SHARES = {"calibration": 0.5, "confirmation": 0.2, "development": 0.2, "heldout": 0.1}


@dataclass(frozen=True)
class Text:
    """One text with the domain whose documents are resampled together."""

    name: str
    domain: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class Stage:
    """What one stage, development or confirmation, draws its samples and documents from.

    essays: the haystack. words: for the needles' keys. seed: of the samples, the stage's own.
    """

    name: str
    essays: tuple[Text, ...]
    documents: tuple[Text, ...]
    words: Words
    seed: int

    @property
    def texts(self) -> tuple[Text, ...]:
        """Every text that the stage reads."""
        return tuple({one.name: one for one in (*self.essays, *self.documents)}.values())


@dataclass(frozen=True)
class Material:
    """All texts of a search. Raises ``TextError`` when two roles share a text, a run of words, keys, or a seed."""

    calibration: tuple[Text, ...]
    heldout: tuple[Text, ...]
    development: Stage
    confirmation: Stage

    def __post_init__(self) -> None:
        _require_texts(self)
        require_apart(
            {"calibration": self.calibration, "held-out": self.heldout, "development": self.development.texts},
            ("confirmation", self.confirmation.texts),
        )
        require_apart(
            {"calibration": self.calibration, "held-out": self.heldout}, ("development", self.development.texts)
        )
        shared = set(self.development.words.adjectives) & set(self.confirmation.words.adjectives)
        if shared or self.development.seed == self.confirmation.seed:
            raise TextError(
                f"development and confirmation share {len(shared)} first words of keys, or their seed; expected "
                "samples of which none can be in both"
            )


def require_apart(others: dict[str, tuple[Text, ...]], against: tuple[str, tuple[Text, ...]]) -> None:
    """Raise ``TextError``, naming both, when a text of another role shares a run of words with ``against``'s."""
    role, texts = against
    index = RunIndex()
    for one in texts:
        index.add(one.name, one.text)
    for other, given in others.items():
        for one in given:
            if one.name in {text.name for text in texts}:
                raise TextError(f"{one.name} is a {other} and a {role} text; expected it in one role only")
            if found := index.findings(one.name, one.text):
                raise TextError(
                    f"the {other} text {one.name} and the {role} text {found[0].evaluation} share a run of "
                    f"{found[0].words} words, where less than {RUN} are allowed; take one of them out"
                )


def stage_seed(seed: int, stage: str) -> int:
    """The seed of a stage's samples, 63 bits."""
    return int.from_bytes(hashlib.sha256(f"tune/{seed}/{stage}".encode()).digest()[:8], "big") >> 1


def stages(
    essays: tuple[Sequence[Text], Sequence[Text]],
    documents: tuple[Sequence[Text], Sequence[Text]],
    words: Words,
    seed: int,
) -> tuple[Stage, Stage]:
    """Development and confirmation, each with every other word, so that no needle's key can be in both."""
    adjectives, nouns = tuple(dict.fromkeys(words.adjectives)), tuple(dict.fromkeys(words.nouns))
    first, second = (
        Stage(
            name,
            tuple(essays[place]),
            tuple(documents[place]),
            Words(adjectives[place::2], nouns[place::2]),
            stage_seed(seed, name),
        )
        for place, name in enumerate(("development", "confirmation"))
    )
    return first, second


def own_material(texts: Sequence[tuple[str, str]], chars: int, seed: int) -> Material:
    """Material from one folder's texts (name, content). Raises ``TextError`` when they cannot be dealt into four roles.

    Texts that share a run of words go to one role. Half of all text is for fitting. A stage's documents are its texts
    in parts of ``chars`` characters.
    """
    dealt = deal(texts)
    words = own_words([text for _, text in texts])
    made = {role: tuple(Text(name, _domain(name), text) for name, text in dealt[role]) for role in ROLES}
    read = (made["development"], made["confirmation"])
    cut = [[part for one in texts for part in parts(one, chars)] for texts in read]
    return Material(made["calibration"], made["heldout"], *stages(read, (cut[0], cut[1]), words, seed))


def parts(text: Text, chars: int) -> list[Text]:
    """A text in consecutive parts of ``chars`` characters, without the rest; whole when it is shorter."""
    count = max(1, len(text.text) // chars)
    if count == 1:
        return [text]
    cut = (text.text[place * chars : (place + 1) * chars] for place in range(count))
    return [Text(f"{text.name}, part {number}", text.domain, one) for number, one in enumerate(cut, 1)]


def deal(texts: Sequence[tuple[str, str]]) -> dict[str, list[tuple[str, str]]]:
    """Texts by role, whole groups of related ones together: the largest groups first, each to the role that lacks most.

    Raises ``TextError`` for fewer groups than roles.
    """
    groups = related(texts)
    if len(groups) < len(ROLES):
        raise TextError(
            f"{len(texts)} texts were given, which share no run of {RUN} words in {len(groups)} groups; expected "
            f"{len(ROLES)} or more, for {', '.join(ROLES)}. Give more files, or cut long ones into several"
        )
    groups.sort(key=lambda group: (-_size(group), group[0][0]))
    total = sum(map(_size, groups))
    dealt = {role: list(group) for role, group in zip(ROLES, groups, strict=False)}
    for group in groups[len(ROLES) :]:
        lacks = {role: SHARES[role] * total - _size(dealt[role]) for role in ROLES}
        dealt[max(ROLES, key=lacks.__getitem__)] += group
    return {role: sorted(dealt[role]) for role in ROLES}


def related(texts: Sequence[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """Groups of texts that share a run of words with one another, directly or through others."""
    index = RunIndex()
    group_of: dict[str, int] = {}
    for number, (name, text) in enumerate(texts):
        # A run is known by the first text that has it, so every text that shares it meets that one.
        met = {group_of[finding.evaluation] for finding in index.findings(name, text)}
        index.add(name, text)
        group_of = {one: number if group in met else group for one, group in group_of.items()} | {name: number}
    groups: dict[int, list[tuple[str, str]]] = {}
    for name, text in texts:
        groups.setdefault(group_of[name], []).append((name, text))
    return list(groups.values())


def own_words(texts: Sequence[str]) -> Words:
    """Words for keys out of the texts themselves. Raises ``TextError`` for too few."""
    found = sorted({word for text in texts for word in words_of(text) if word.isascii() and word.isalpha()})
    usable = [word for word in found if 3 <= len(word) <= 12]
    if len(usable) < FEWEST_WORDS:
        raise TextError(
            f"the texts hold {len(usable)} different words of 3 to 12 letters a to z; expected {FEWEST_WORDS} or more, "
            "which needles are named by. Give more text"
        )
    return Words(tuple(usable[::2]), tuple(usable[1::2]))


def _require_texts(material: Material) -> None:
    stages = (material.development, material.confirmation)
    empty = [name for name in ("calibration", "heldout") if not getattr(material, name)]
    empty += [f"{one.name} {part}" for one in stages for part in ("essays", "documents") if not getattr(one, part)]
    if empty:
        raise TextError(f"there are no texts for {', '.join(empty)}; give more texts")


def _size(group: Sequence[tuple[str, str]]) -> int:
    return sum(len(text) for _, text in group)


def _domain(name: str) -> str:
    """The folder that a file lies in: files of a folder are of one kind."""
    return name.rpartition("/")[0] or "texts"
