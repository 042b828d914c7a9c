"""Claims about data/paper: it is what was transcribed, it holds no text, and a damaged file is refused."""

import csv
import hashlib
import re
import shutil
from pathlib import Path

import pytest

from ridgefill.errors import ConfigError, ResultsError
from ridgefill.paper.data import STATUSES
from ridgefill.paper.files import FILES, FOLDER, find_root, load_paper

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared" / "paper"
needs_paper = pytest.mark.skipif(
    not SHARED.is_dir(), reason=f"the paper's text and first transcription are not at {SHARED}"
)
REFS = {"seed 001 abstract": "abstract", "seed 002 card": "card"}


def lines(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.fixture
def copy(tmp_path):
    shutil.copytree(ROOT / FOLDER, tmp_path / FOLDER)
    return tmp_path


def change(copy, name, old, new, sums=True):
    """Replace the first ``old`` in a file of the copy; ``sums`` corrects SHA256SUMS as well."""
    path = copy / FOLDER / name
    text = path.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    if sums:
        table = "".join(f"{hashlib.sha256((copy / FOLDER / one).read_bytes()).hexdigest()}  {one}\n" for one in FILES)
        (copy / FOLDER / "SHA256SUMS").write_text(table, encoding="utf-8")


@needs_paper
def test_every_number_is_the_transcribed_one():
    """Cell by cell, fact by fact: value, interval, n, unit and restored sign are those of the first transcription."""
    kept = (
        "model",
        "split",
        "tail",
        "arm",
        "baseline",
        "metric",
        "n",
        "value",
        "ci_low",
        "ci_high",
        "unit",
        "sign_restored",
    )
    ours, theirs = lines(ROOT / FOLDER / "tables.csv"), lines(SHARED / "tables.csv")
    assert [[row[name] for name in kept] for row in ours] == [[row[name] for name in kept] for row in theirs]
    assert [row["ref"] for row in ours] == [REFS.get(row["ref"], row["ref"]) for row in theirs]
    facts = {
        (REFS.get(row["ref"], row["ref"]), row["name"]): (row["value"], row["unit"])
        for row in lines(SHARED / "facts.csv")
    }
    for row in lines(ROOT / FOLDER / "facts.csv"):
        assert facts[row["ref"], row["name"]] == (row["value"], row["unit"])


@needs_paper
def test_no_run_of_words_is_the_papers():
    """No note, title or setting shares five words in a row with the paper, its abstract page or the maps' card."""

    def runs(text):
        words = re.findall(r"[a-z0-9.]+", text.lower())
        return {" ".join(words[i : i + 5]) for i in range(len(words) - 4)}

    theirs = set().union(*(runs(path.read_text(encoding="utf-8")) for path in SHARED.glob("00*.txt")))
    assert len(theirs) > 10_000
    columns = {"tables.csv": ["note"], "facts.csv": ["note"], "settings.csv": ["note", "value"], "index.csv": ["title"]}
    shared = {
        (name, run)
        for name, wanted in (columns | {"derivations.csv": ["note"]}).items()
        for row in lines(ROOT / FOLDER / name)
        for column in wanted
        for run in runs(row[column]) & theirs
    }
    assert shared == set()


def test_values_and_statuses_go_together(paper):
    """A cell without a value says n/a or not run, and each table and each status occurs."""
    assert {cell.status for cell in paper.cells} == set(STATUSES)
    assert len(paper.cells) == 912
    for cell in paper.cells:
        assert (cell.value is None) == (cell.status in ("n/a", "not run"))


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("tables.csv", "1.006,,,nats", "1.0O6,,,nats", r"line \d+: found '1.0O6' where a decimal"),
        ("tables.csv", "0.501,0.307,0.748", "0.801,0.307,0.748", "lies outside its interval"),
        ("tables.csv", ",printed,", ",seen,", "found 'seen', expected one of printed"),
        ("tables.csv", "stock,,ruler13_32k", "stock,,ruler13_16k", "stands there twice"),
        ("tables.csv", "Table 8,qwen3.8-27b,16,", "Table 8,qwen3.8-27b,sixteen,", "line 3: invalid literal"),
        ("index.csv", "sec 9,Conclusion,arms", "sec 99,Conclusion,arms", "not in both index.csv and tables.csv"),
        ("index.csv", "sec 9,Conclusion,arms", "sec 9,Conclusion,circles", "expected one of arms"),
        ("derivations.csv", ",yes,", ",maybe,", "expected one of yes, no"),
    ],
)  # fmt: skip
def test_a_malformed_file_is_refused_with_its_place(copy, name, old, new, message):
    """Even with a correct hash: one sentence that names the file and what was expected."""
    change(copy, name, old, new)
    with pytest.raises(ResultsError, match=message):
        load_paper(copy)


def test_a_changed_file_is_refused(copy):
    """One digit changed, with the sums as they were."""
    change(copy, "tables.csv", "1.006", "1.007", sums=False)
    with pytest.raises(ResultsError, match=r"tables.csv hashes to \w{12}, expected \w{12}"):
        load_paper(copy)


def test_a_missing_file_is_refused(copy):
    """As is one that the sums do not list."""
    (copy / FOLDER / "facts.csv").unlink()
    with pytest.raises(ResultsError, match="hashes to nothing"):
        load_paper(copy)
    (copy / FOLDER / "SHA256SUMS").write_text("", encoding="utf-8")
    with pytest.raises(ResultsError, match="lists"):
        load_paper(copy)


def test_without_the_numbers_the_root_is_asked_for(tmp_path):
    """A folder without data/paper is one sentence that says what to name."""
    with pytest.raises(ConfigError, match="--root"):
        find_root(tmp_path)
