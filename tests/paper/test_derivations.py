"""Every published number that others imply is checked against them, over all that they can stand for.

The formulas are data/paper/derivations.csv. One that does not come out is a finding, marked there and listed in
docs/paper.md; marking one that does come out fails as well.
"""

import csv
import re
from pathlib import Path

import pytest

from ridgefill.paper.data import Cell
from ridgefill.paper.derive import check
from ridgefill.paper.intervals import printed

ROOT = Path(__file__).resolve().parents[2]
with (ROOT / "data/paper/derivations.csv").open(encoding="utf-8", newline="") as stream:
    LINES = list(csv.DictReader(stream))


@pytest.fixture(scope="module")
def numbers(paper):
    return paper.numbers()


@pytest.mark.parametrize("line", range(len(LINES)), ids=[f"{line['target']}#{n}" for n, line in enumerate(LINES)])
def test_the_number_follows_exactly_where_it_is_said_to(paper, numbers, line):
    """Published and derived intervals share a number, or the derivation is marked as not holding, with a reason."""
    outcome = check(paper.derivations[line], numbers, ROOT)
    assert outcome.holds == outcome.derivation.holds, (outcome.published, outcome.derived)
    assert outcome.derivation.holds or outcome.derivation.note


def test_a_digit_more_or_less_would_be_noticed(paper, numbers):
    """Moving a contrast, a speedup, a ceiling or a share by one or two in its last digit breaks its derivation."""
    moved = {
        "Table 18: llama-3.1-8b ridgefill@12/4096-identity nll_novel": "0.503",
        "Table 8: qwen3.8-27b ridgefill_resident@16/4096-stock speedup_120000": "1.282",
        "sec 5.3: ceiling_16k": "1.79",
        "Table 23: qwen3-8b splice_exact_keys@13/4096 gap_closed": "10.8",
        "sec 2.5: mac_crossover_vs_pop_qwen3_split13": "10.7",
    }
    for target, value in moved.items():
        about = [one for one in paper.derivations if one.target == target and target not in one.formula]
        assert not all(check(one, numbers | {target: printed(value)}, ROOT).holds for one in about), target


def derivable(cell: Cell) -> bool:
    return bool(cell.baseline) and cell.status == "printed" and cell.unit in ("points", "nats")


def test_every_difference_whose_arms_are_printed_is_checked(paper):
    """No contrast that has both arms in the same table, at the same split and tail, is left out."""
    arms = {(c.ref, c.model, c.arm, c.split, c.tail, c.metric) for c in paper.cells if c.value and not c.baseline}
    targets = {one.target for one in paper.derivations}
    left_out = [
        cell.key
        for cell in paper.cells
        if derivable(cell)
        and all(
            (cell.ref, cell.model, arm, cell.split, cell.tail, cell.metric) in arms for arm in (cell.arm, cell.baseline)
        )
        and cell.key not in targets
    ]
    assert left_out == []


def test_samples_are_those_of_the_evaluation_sets(paper):
    """n of every filled-region cell, document loss and key-token loss is the count that Table 5 gives."""
    sets = {(one.subject, one.setting): int(one.value) for one in paper.settings if one.value.isdigit()}
    named = {
        "ruler_filled_8k_32k": "filled_region_samples_8k_32k",
        "ruler_filled_8k_64k": "filled_region_samples_all_lengths",
        "nll_novel": "long_documents",
        "nll_key": "key_token_documents",
    }
    seen = 0
    for cell in paper.cells:
        wanted = sets.get((cell.model, named.get(cell.metric, "")))
        if wanted is not None and cell.n is not None:
            assert cell.n == wanted, cell.key
            seen += 1
    assert seen > 200


def test_the_page_lists_what_does_not_follow_with_both_values(paper, numbers):
    """docs/paper.md has one line for each derivation that fails, both values in it, and no other."""
    section = (ROOT / "docs/paper.md").read_text(encoding="utf-8").split("## Numbers that do not follow", 1)[1]
    listed = re.findall(r"^\| `([^`]+)` \| ([^|]+) \| ([^|]+) \|", section, re.MULTILINE)
    outcomes = {one.target: check(one, numbers, ROOT) for one in paper.derivations if not one.holds}
    assert [target for target, _, _ in listed] == list(outcomes)
    for target, published, derived in listed:
        assert printed(published.strip()).meets(outcomes[target].published), target
        assert printed(derived.strip()).meets(outcomes[target].derived), target
