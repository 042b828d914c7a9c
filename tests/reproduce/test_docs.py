"""The pages on reproduction quote what the ledger, the results and the code say now."""

from __future__ import annotations

import re

import pytest

from ridgefill.errors import ResultsError
from workflow.compare import columns
from workflow.reproduce.__main__ import main
from workflow.reproduce.artifact import counted, with_counted
from workflow.reproduce.evidence import gather

from .conftest import ROOT

ARTIFACT = (ROOT / "docs/artifact.md").read_text("utf-8")
REPRODUCE = (ROOT / "docs/reproduce.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def test_the_counts_of_the_artifact_sheet_are_counted():
    """Written again they are the same; else: python -m workflow.reproduce.artifact."""
    assert with_counted(ARTIFACT, counted(gather(ROOT))) == ARTIFACT


def test_a_wrong_count_would_be_noticed():
    """The block is replaced as a whole, so another digit in it is another page."""
    block = counted(gather(ROOT))
    changed = block.replace("7 supported, 1 refuted", "8 supported")
    assert changed != block
    assert with_counted(ARTIFACT, changed) != ARTIFACT


def test_a_page_without_its_marks_is_refused():
    """Instead of being left as it is."""
    with pytest.raises(ResultsError, match="marks"):
        with_counted(ARTIFACT.replace("<!-- counted: end -->", ""), "")


def test_the_counts_are_those_a_reproduction_ends_with(tmp_path, monkeypatch, capsys):
    """The predictions of the sheet and of the command's last line."""
    monkeypatch.chdir(ROOT)
    assert main(["--only", "smollm2_lengths", "--out", str(tmp_path / "out"), "--jobs", "1"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    fell = re.search(r"(\d+) predictions \(([^)]*)\)", last)
    sheet = re.search(r"(\d+) predictions \(([^)]*)\)", ARTIFACT)
    assert fell[1] == sheet[1]
    assert sorted(fell[2].split(", ")) == sorted(sheet[2].split(", "))


def test_the_bounds_of_the_page_are_those_of_the_code():
    """Each number of the table of tolerances."""
    for bound in (columns.LOSS, columns.REFITTED_LOSS):
        lean, spread = (f"{value:.0e}".replace("e-0", "e-") for value in (bound.lean, bound.spread))
        absolute = f"{bound.absolute:.0e}".replace("e-0", "e-")
        row = next(line for line in REPRODUCE.splitlines() if f"within {absolute} nats a token" in line)
        assert re.search(rf"mean.* {lean}, root mean square .*{spread}", row)
    assert (
        f"within {columns.COSINE.absolute:.0e}; within {columns.FITTED.relative:.1%}".replace("e-0", "e-").replace(
            "%", " %"
        )
        in REPRODUCE
    )
    assert f"within {columns.RECOUNT:.0%}".replace("%", " %") + " when another version" in REPRODUCE
    assert f"at most {columns.MOST_SHARE:.0%}".replace("%", " %") + " of its arm's answers" in REPRODUCE


@pytest.mark.parametrize("page", ["docs/artifact.md", "docs/reproduce.md"])
def test_every_target_and_link_of_the_pages_is_there(page):
    """`make X` is a target, and linked files exist."""
    text = (ROOT / page).read_text("utf-8")
    targets = set(re.findall(r"(?:^    |`)make ([a-z-]+)", text, re.MULTILINE))
    assert {"reproduce", "reproduce-full"} <= targets
    assert [target for target in targets if not re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)] == []
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []


def test_make_help_names_the_targets():
    """A bare `make` says what there is."""
    assert re.search(r"^\.DEFAULT_GOAL := help", MAKEFILE, re.MULTILINE)
    shown = MAKEFILE.split("\nhelp:\n")[1].split("\n\n")[0]
    for target in ("demo", "reproduce", "reproduce-full", "test", "lint", "bench", "clean"):
        assert f"make {target}" in shown
