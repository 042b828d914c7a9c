"""What YAML is known to read as something else: refused with file, line and key, or taken as it is written."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ledger.claims import load_claim
from ledger.errors import ClaimError

# Where a value is tried: what it replaces, its key, how to find it in the claim, what may stand there.
PLACES: dict[str, tuple[str, str, str, Callable[[Any], Any], set[str]]] = {
    "who": ('who: "A. Person"', "who: {}", "who", lambda data: data["who"], {"text"}),
    "title": ('title: "Ridge beats identity"', "title: {}", "title", lambda data: data["title"], {"text"}),
    "override": (
        "dtype: [bfloat16]", "dtype: [{}]", "overrides.dtype[0]", lambda data: data["overrides"]["dtype"][0], {"text"}
    ),
    "threshold": (
        'threshold: "0"', "threshold: {}", "predictions[0].rule.threshold",
        lambda data: data["predictions"][0]["rule"]["threshold"], {"decimal"},
    ),
    "min_n": (
        "min_n: 30", "min_n: {}", "predictions[0].min_n", lambda data: data["predictions"][0]["min_n"], {"count"}
    ),
}  # fmt: skip

# (as written, what it is: a kind that some places take, with the value it has there; or else what is said of it)
LITERAL = [
    ("no", "text", "no"),
    ("yes", "text", "yes"),
    ("on", "text", "on"),
    ("off", "text", "off"),
    ("y", "text", "y"),
    ("12:30:00", "text", "12:30:00"),
    ("1:30", "text", "1:30"),
    ("&anchor plain", "text", "plain"),
    ("'1e-5'", "text", "1e-5"),
    ('"2026-01-31"', "text", "2026-01-31"),
    ('"null"', "text", "null"),
    ("'017'", "text", "017"),
    ("'-0.10'", "decimal", "-0.10"),
    ('"1.10"', "decimal", "1.10"),
    ("17", "count", 17),
]
REFUSED = [
    ("true", "found true, expected"),
    ("False", "found false, expected"),
    ("~", "found nothing, expected"),
    ("null", "found nothing, expected"),
    ("", "found nothing, expected"),
    ("017", "found the number 017, expected a plain whole number, or text in quotes"),
    ("08", "found the number 08, expected a plain whole number, or text in quotes"),
    ("0o17", "found the number 0o17, expected a plain whole number, or text in quotes"),
    ("0x10", "found the number 0x10, expected a plain whole number, or text in quotes"),
    ("0b11", "found the number 0b11, expected a plain whole number, or text in quotes"),
    ("1_000", "found the number 1_000, expected a plain whole number, or text in quotes"),
    ("+5", "found the number +5, expected a plain whole number, or text in quotes"),
    ("-0", "found 0, expected"),
    ("1e-5", "found the number 1e-5, expected it in quotes"),
    ("1e5", "found the number 1e5, expected it in quotes"),
    ("1.10", "found the number 1.10, expected it in quotes"),
    ("30.0", "found the number 30.0, expected it in quotes"),
    (".nan", "found the number .nan, expected it in quotes"),
    (".inf", "found the number .inf, expected it in quotes"),
    ("-.INF", "found the number -.INF, expected it in quotes"),
    ("2026-01-31", "found the date 2026-01-31, expected text: put it in quotes"),
    ("2026-13-45", "found the date 2026-13-45, expected text: put it in quotes"),
    ("2026-01-31T12:30:00Z", "found the date 2026-01-31T12:30:00Z, expected text: put it in quotes"),
    ("<<", "found <<, expected text: put it in quotes"),
    ("=", "found =, expected text: put it in quotes"),
    ('"\\ud800"', "found half a character ('\\ud800'), expected Unicode text"),
    ("*anchor", "found an alias, expected every value written out"),
    ("&anchor [*anchor]", "found an alias, expected every value written out"),
    ("!!python/object:os.system x", "found the tag !!python/object:os.system, expected plain values"),
    ("!!python/object/apply:os.system [x]", "found the tag !!python/object/apply:os.system, expected plain values"),
    ("!local x", "found the tag !local, expected plain values"),
    ("!!str 1.10", "found the tag !!str, expected plain values"),
    ('!!int "30"', "found the tag !!int, expected plain values"),
    ("!!bool maybe", "found the tag !!bool, expected plain values"),
    ("!!float 1", "found the tag !!float, expected plain values"),
    ("!!binary aGk=", "found the tag !!binary, expected plain values"),
    ("!!set {a}", "found the tag !!set, expected plain values"),
    ("! x", "found the tag !, expected plain values"),
    ("@x", "this is not valid YAML"),
    ("%x", "this is not valid YAML"),
    ("- x", "this is not valid YAML"),
]


def read(folder: Path, text: str | bytes) -> Any:
    """Load a claim from text or bytes and return its data."""
    path = folder / "claim.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return load_claim(path, "claim.yaml").data


def refusal_of(folder: Path, text: str | bytes) -> str:
    """The one sentence that says why a claim is refused."""
    with pytest.raises(ClaimError) as refusal:
        read(folder, text)
    message = str(refusal.value)
    assert re.match(r"claim\.yaml:[0-9]+: ", message)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("written", "kind", "value"), LITERAL)
def test_text_in_quotes_and_words_mean_what_is_written(
    tmp_path: Path, claim_text: str, place: str, written: str, kind: str, value: Any
) -> None:
    """Taken literally where its kind may stand, and refused with line and key everywhere else."""
    old, new, key, find, kinds = PLACES[place]
    text = claim_text.replace(old, new.format(written))
    line = claim_text[: claim_text.index(old)].count("\n") + 1
    if kind in kinds or (kind == "decimal" and "text" in kinds):
        assert find(read(tmp_path, text)) == value
    else:
        assert refusal_of(tmp_path, text).startswith(f"claim.yaml:{line}: {key}: found ")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize(("written", "says"), REFUSED)
def test_what_could_be_read_as_something_else_is_refused_where_it_stands(
    tmp_path: Path, claim_text: str, place: str, written: str, says: str
) -> None:
    """In any place the sentence names the line and, once the file is YAML at all, the key and what is there."""
    old, new, key, _, _ = PLACES[place]
    line = claim_text[: claim_text.index(old)].count("\n") + 1
    message = refusal_of(tmp_path, claim_text.replace(old, new.format(written)))
    if place == "override" and not written:
        says, key = "found a list, expected a list of the values", "overrides.dtype"
    assert says in message
    assert message.startswith(f"claim.yaml:{line}: ")
    if "alias" not in says and "tag" not in says and "not valid" not in says:
        assert message.startswith(f"claim.yaml:{line}: {key}: ")


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("min_n: 30", "min_n: 30\n    min_n: 31", '18: found duplicate key "min_n", expected every key once'),
        ("min_n: 30", "min_n: 30\n    'min_n': 31", '18: found duplicate key "min_n", expected every key once'),
        ('op: ">"', 'op: ">", op: "<"', '16: found duplicate key "op", expected every key once'),
        ("dtype: [bfloat16]", "<<: {dtype: [a]}", "7: overrides: found the key '<<', expected text as a key"),
        ("dtype: [bfloat16]", "x: &a {}\n  <<: *a", "8: found an alias, expected every value written out"),
        ("dtype: [bfloat16]", "true: [a]", "7: overrides: found the key 'true', expected text as a key"),
        ("dtype: [bfloat16]", "1.10: [a]", "7: overrides: found the key '1.10', expected text as a key"),
        ("dtype: [bfloat16]", "? [a, b]\n  : [c]", "7: overrides: found the key of several parts, expected text"),
        ("  dtype:", "\tdtype:", "7: this is not valid YAML"),
        ("experiment: demo", "experiment: demo\t# tab", "4: this is not valid YAML"),
        ('who: "A.', '%YAML 1.1\n---\nwho: "A.', "2: found a YAML directive, expected none"),
        ('who: "A.', '%YAML 1.3\n---\nwho: "A.', "1: this is not valid YAML"),
        ('who: "A.', '%TAG ! tag:yaml.org,2002:\n---\nwho: "A.', "2: found a YAML directive, expected none"),
        ("missing: undecided\n", "missing: undecided\n---\nwho: x\n", "19: this is not valid YAML"),
        ("missing: undecided\n", "missing: undecided\n--- \n", "19: this is not valid YAML"),
    ],
)
def test_keys_tabs_directives_and_second_documents_are_refused(
    tmp_path: Path, claim_text: str, old: str, new: str, says: str
) -> None:
    """Nothing is merged, overwritten, switched to older rules or left unread in silence."""
    assert old in claim_text
    assert refusal_of(tmp_path, claim_text.replace(old, new)).startswith(f"claim.yaml:{says}")


@pytest.mark.parametrize(
    "encode",
    [
        lambda text: text.encode("utf-8-sig"),
        lambda text: text.replace("\n", "\r\n").encode(),
        lambda text: f"---\n{text}...\n".encode(),
        lambda text: f"%YAML 1.2\n---\n{text}".encode(),
    ],
    ids=["byte order mark", "crlf", "document markers", "yaml 1.2"],
)
def test_marks_around_the_text_change_nothing(tmp_path: Path, claim_text: str, encode: Callable[[str], bytes]) -> None:
    """A byte order mark, CRLF or document markers give the same claim as the bare text."""
    assert read(tmp_path, encode(claim_text)) == read(tmp_path, claim_text)


def test_other_encodings_are_refused(tmp_path: Path, claim_text: str) -> None:
    """UTF-16 and Latin-1 are named as what they are not."""
    assert "not UTF-8" in refusal_of(tmp_path, claim_text.encode("utf-16"))
    assert "not UTF-8" in refusal_of(tmp_path, claim_text.replace("A. Person", "É. Person").encode("latin-1"))
