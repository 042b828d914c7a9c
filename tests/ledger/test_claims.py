"""Claims: what is accepted, and how everything else is explained."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ledger.claims import claim_from, load_claim
from ledger.errors import ClaimError

LEAF = "{metric: ruler_filled, arm: ridgefill, baseline: identity, set: {model: m, split: 19}, "


def load(tmp_path: Path, text: str):
    path = tmp_path / "claim.yaml"
    path.write_text(text, encoding="utf-8")
    return load_claim(path, "claim.yaml")


def test_a_valid_claim_becomes_frozen_values(tmp_path: Path, claim_text: str) -> None:
    """All parts of a claim are there, and the stored data gives the same claim again."""
    claim = load(tmp_path, claim_text)
    assert claim.experiment == "demo"
    assert claim.arms == ("exact", "identity", "ridgefill")
    assert claim.overrides == {"dtype": ("bfloat16",)}
    assert claim.configs == ("workflow/config/demo.yaml", "workflow/config/model.yaml")
    assert claim.run("ruler") is not None
    assert claim.run("other") is None
    assert [prediction.id for prediction in claim.predictions] == ["h1"]
    assert claim_from(claim.data) == claim


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("experiment: demo", "experiment: demo\nexperiment: x", "duplicate key"),
        ("experiment: demo", "experimant: demo", "unknown key"),
        ("experiment: demo\n", "", "'experiment' is missing"),
        ("experiment: demo", "experiment: no", None),
        ("experiment: demo", "experiment: 017", "found the number 017, expected a plain whole number"),
        ("experiment: demo", "experiment: 1.10", "found the number 1.10, expected it in quotes"),
        ("experiment: demo", "experiment: 2026-01-31", "put it in quotes"),
        ("experiment: demo", "experiment: 12:30:00", "expected a name"),
        ("experiment: demo", "experiment: a b", "expected a name"),
        ("experiment: demo", "experiment: true", "found true"),
        ("experiment: demo", "experiment:", "found nothing"),
        ("experiment: demo", "experiment: !!python/name:os.system x", "not valid YAML"),
        ("experiment: demo", "experiment: &a demo\n# *a", None),
        ('threshold: "0"', "threshold: 0.5", "expected it in quotes"),
        ('threshold: "0"', "threshold: 1e-5", "quotes"),
        ('threshold: "0"', 'threshold: "1e-5"', "a plain decimal number in quotes"),
        ('threshold: "0"', "threshold: 0", "a plain decimal number in quotes"),
        ('threshold: "0"', 'threshold: "00"', "a plain decimal number in quotes"),
        ('threshold: "0"', 'threshold: "nan"', "a plain decimal number in quotes"),
        ('op: ">"', 'op: "=="', "one of > >= < <="),
        ("statistic: ci_low", "statistic: __import__", "estimate, ci_low, ci_high or lower_bound"),
        ("arm: ridgefill", "arm: ridgefil", "expected one of exact, identity, ridgefill"),
        ("set: {model: m, split: 19}", "set: {model: m, split: -1}", "a layer number"),
        ("set: {model: m, split: 19}", "set: {model: m}", "'split' is missing"),
        ("min_n: 30", "min_n: 0", "at least 1"),
        ("missing: undecided", "missing: supported", "undecided or refuted"),
        ("- id: ruler", "- id: capture", "twice"),
        ("[workflow/config/model.yaml]", "[/etc/passwd]", "relative path"),
        ("[workflow/config/model.yaml]", "[../x.yaml]", "relative path"),
        ("[workflow/config/model.yaml]", "[]", "a list of different config files"),
        ("dtype: [bfloat16]", "dtype: [*a]", "alias"),
        ("dtype: [bfloat16]", "dtype: []", "list of the values"),
        ("dtype: [bfloat16]", "dtype: [16]", "a value in quotes"),
    ],
)
def test_what_is_wrong_is_named_with_line_key_and_expectation(
    tmp_path: Path, claim_text: str, old: str, new: str, says: str | None
) -> None:
    """Each mistake gives one sentence that starts with file and line; harmless YAML is taken literally."""
    assert old in claim_text
    text = claim_text.replace(old, new, 1)
    if new.endswith("*a]"):
        text = text.replace("experiment: demo", "experiment: &a demo")
    if says is None:
        assert load(tmp_path, text).experiment in ("no", "demo")
        return
    with pytest.raises(ClaimError) as refusal:
        load(tmp_path, text)
    message = str(refusal.value)
    assert says in message
    assert "\n" not in message
    found = re.match(r"claim\.yaml:(\d+): ", message)
    assert found, message
    line = claim_text[: claim_text.index(old)].count("\n") + 1
    assert int(found[1]) == {"duplicate key": line + 1, "'experiment' is missing": 1}.get(says, line), message


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        (f'{{all: [{LEAF}statistic: ci_low, op: ">", threshold: "0"}}]}}', None),
        (f'{{any: [{{all: [{LEAF}statistic: estimate, op: "<=", threshold: "-0.25"}}]}}]}}', None),
        ("{all: []}", "a list of one or more rules"),
        ("{all: [], any: []}", "unknown key"),
        ("{not: 1}", "unknown key"),
        ("{}", "is missing"),
        ('"ci_low > 0"', "a condition, or all"),
        (f'{{all: [{LEAF}statistic: ci_low, op: ">"}}]}}', "'threshold' is missing"),
    ],
)
def test_the_rule_grammar_is_closed(tmp_path: Path, claim_text: str, rule: str, says: str | None) -> None:
    """all, any and conditions nest; anything else is refused where it stands."""
    text = re.sub(r"rule: .*\n", f"rule: {rule}\n", claim_text)
    if says is None:
        assert load(tmp_path, text).predictions
        return
    with pytest.raises(ClaimError, match=re.escape(says)):
        load(tmp_path, text)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "expected"),
        (b"- a\n", "found a list"),
        (b"a: 1\n---\nb: 2\n", "not valid YAML"),
        (b"a: [\n", "not valid YAML"),
        (b"a: '\xff'\n", "not UTF-8"),
        (b"\x00", "not valid YAML"),
        (b"1: x\n", "expected text as a key"),
        (b"[" * 100000, "nested 51 deep"),
        (b"a: " + b"x" * (1 << 20), "at most"),
    ],
)
def test_files_that_are_no_claim_at_all(tmp_path: Path, data: bytes, says: str) -> None:
    """Empty files, lists, several documents, foreign bytes and huge files end in one sentence."""
    path = tmp_path / "claim.yaml"
    path.write_bytes(data)
    with pytest.raises(ClaimError, match=says):
        load_claim(path, "claim.yaml")


def test_a_missing_claim_file_is_named(tmp_path: Path) -> None:
    """The message names the file that cannot be read."""
    with pytest.raises(ClaimError, match=r"absent\.yaml"):
        load_claim(tmp_path / "absent.yaml")
