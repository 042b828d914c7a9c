"""Verdicts again, from the Parquet files that results name: numbers, reasons, and what cannot be decided."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from ledger import measures
from ledger.branches import create_branch, open_for_writing
from ledger.cli import main
from ledger.launch import find_registration, launch
from ledger.registration import register
from ledger.reports import Report
from ledger.verify import verify

CLAIM = Path("workflow/claims/demo.yaml")
SCORES = Path("results/demo/scores.parquet")
# Paired differences 0, 1, 2, 3, 0, 1, ...: 10 of each, so their mean is 60/40.
VALUES = {"ridgefill": [5.0 + number % 4 for number in range(40)], "identity": [5.0] * 40}
RULE = '{{metric: {metric}, arm: ridgefill, {baseline}set: {{model: m, split: 19}}, statistic: {what}, op: ">", \
threshold: "{threshold}"}}'


def rule(what: str = "estimate", threshold: str = "0", metric: str = "ruler_filled", paired: bool = True) -> str:
    """A condition as YAML."""
    baseline = "baseline: identity, " if paired else ""
    return RULE.format(what=what, threshold=threshold, metric=metric, baseline=baseline)


def predict(project: Path, *rules: str, min_n: int = 1, missing: str = "undecided", branch: str = "local") -> None:
    """Register the claim with predictions h1, h2, ... of these rules."""
    text = (project / CLAIM).read_text()
    items = [
        f'  - id: h{number}\n    says: "it is so"\n    rule: {item}\n    min_n: {min_n}\n    missing: {missing}\n'
        for number, item in enumerate(rules, 1)
    ]
    (project / CLAIM).write_text(text[: text.index("predictions:")] + "predictions:\n" + "".join(items))
    ledger = create_branch(project, "main") if branch == "main" else open_for_writing(project, branch)
    register(project, ledger, CLAIM)


def decided(report: Report):
    """The only registration that was decided."""
    (item,) = [item for branch in report.branches for item in branch.decided]
    return item


def names(report: Report) -> list[str]:
    """Verdicts in the order of the claim."""
    return [verdict.verdict for verdict in decided(report).verdicts]


def errors(report: Report) -> set[str]:
    """Codes of all errors."""
    return {finding.code for finding in report.errors}


def test_numbers_are_those_computed_by_hand(project: Path, measured) -> None:
    """Mean of the paired differences 60/40, of the arm alone 6.5; both bounds lie below the mean, in order."""
    predict(project, rule(), rule(paired=False), rule("ci_low"), rule("ci_high"), rule("lower_bound"))
    measured(project, VALUES)
    item = decided(verify(project))
    values = [verdict.values[0]["value"] for verdict in item.verdicts]
    assert values[:2] == [1.5, 6.5]
    # The mean of 40 such differences has the standard error sqrt(1.25 / 40) = 0.177.
    deviation = math.sqrt(1.25 / 40)
    assert values[2] == pytest.approx(1.5 - 1.96 * deviation, abs=0.05)
    assert values[3] == pytest.approx(1.5 + 1.96 * deviation, abs=0.05)
    assert values[4] == pytest.approx(1.5 - 1.645 * deviation, abs=0.05)
    assert {verdict.values[0]["n"] for verdict in item.verdicts} == {40}
    assert item.measured_by == "table"


def test_a_threshold_is_met_missed_or_not_to_be_judged(project: Path, measured) -> None:
    """1.5 is above 1.4 and not above itself; ``all`` and ``any`` combine what is known and what is not."""
    known, missed, unknown = rule(threshold="1.4"), rule(threshold="1.5"), rule(metric="speed")
    combined = [f"{{all: [{known}, {unknown}]}}", f"{{any: [{known}, {unknown}]}}", f"{{all: [{missed}, {unknown}]}}"]
    predict(project, known, missed, unknown, *combined)
    measured(project, VALUES)
    outcomes = ["supported", "refuted", "undecided", "undecided", "supported", "refuted"]
    assert names(verify(project)) == outcomes


def test_too_few_items_decide_nothing(project: Path, measured) -> None:
    """41 were asked for and 40 are there; then 40, of which one has no value in one arm."""
    predict(project, rule(), min_n=40)
    measured(project, VALUES)
    assert names(verify(project)) == ["supported"]
    measured(project, {**VALUES, "identity": [None, *VALUES["identity"][1:]]})
    report = verify(project)
    assert names(report) == ["undecided"]
    assert "rests on 39 items, at least 40 were asked for" in decided(report).verdicts[0].reason


@pytest.mark.parametrize("missing", ["undecided", "refuted"])
def test_a_number_that_does_not_exist_is_judged_as_the_claim_says(project: Path, measured, missing: str) -> None:
    """A metric nobody measured, and an arm whose every value is NULL."""
    predict(project, rule(metric="speed"), rule(), missing=missing)
    measured(project, {**VALUES, "identity": [None] * 40})
    report = verify(project)
    assert names(report) == [missing, missing]
    assert "there is no such number" in decided(report).verdicts[0].reason


@pytest.mark.parametrize("missing", ["undecided", "refuted"])
def test_an_output_that_is_not_here_decides_nothing(project: Path, measured, missing: str) -> None:
    """Its numbers exist elsewhere, so a policy for missing numbers has no say."""
    predict(project, rule(), missing=missing)
    measured(project, VALUES)
    (project / SCORES).unlink()
    report = verify(project)
    assert report.ok
    assert names(report) == ["undecided"]
    assert "its output scores.parquet is not here" in decided(report).verdicts[0].reason
    assert "1 undecided; not measured" in report.text()


@pytest.mark.parametrize("missing", ["undecided", "refuted"])
def test_an_output_with_other_bytes_decides_nothing(project: Path, measured, forging, missing: str) -> None:
    """However good its numbers look."""
    predict(project, rule(threshold="5"), missing=missing)
    measured(project, VALUES)
    rows = [
        {"metric": "ruler_filled", "arm": arm, "item": str(item), "value": value}
        for arm, value in (("ridgefill", 99.0), ("identity", 0.0))
        for item in range(40)
    ]
    forging.write_table(project / SCORES, rows)
    report = verify(project)
    assert (errors(report), report.exit_code) == ({"output_changed"}, 5)
    assert names(report) == ["undecided"]
    assert "has other bytes than recorded" in decided(report).verdicts[0].reason


def test_an_output_that_another_registration_replaced_decides_only_for_that_one(project: Path, measured) -> None:
    """Two registrations of one experiment write the same file: the first cannot be judged by the second's numbers."""
    predict(project, rule())
    measured(project, VALUES)
    predict(project, rule(threshold="1"))
    measured(project, VALUES)
    first, second = verify(project).branches[0].decided
    assert [first.verdicts[0].verdict, second.verdicts[0].verdict] == ["undecided", "supported"]
    assert "replaced by that of another registration's run" in first.verdicts[0].reason


def test_the_files_of_several_runs_are_read_together(project: Path, measured) -> None:
    """One table from two outputs of one registration."""
    predict(project, rule())
    measured(project, {"ridgefill": VALUES["ridgefill"]}, name="ours.parquet")
    measured(project, {"identity": VALUES["identity"]}, name="theirs.parquet")
    report = verify(project)
    assert names(report) == ["supported"]
    assert [path for path, _ in decided(report).files] == ["ours.parquet", "theirs.parquet"]


def test_a_run_that_failed_or_predicts_nothing_gives_no_verdict(project: Path, measured) -> None:
    """Not undecided: there is nothing to decide."""
    predict(project, rule())
    with pytest.raises(RuntimeError), launch(project, "local", find_registration(project, ["local"], CLAIM), "ruler"):
        raise RuntimeError("stopped")
    assert verify(project).branches[0].decided == ()
    text = (project / CLAIM).read_text()
    (project / CLAIM).write_text(text[: text.index("predictions:")] + "predictions: []\n")
    register(project, open_for_writing(project, "local"), CLAIM)
    measured(project, VALUES)
    assert verify(project).branches[0].decided == ()


def test_a_provider_that_fails_leaves_its_sentence_and_no_traceback(project: Path, measured, monkeypatch) -> None:
    """When it is asked for a number, and when it is asked for the file."""
    predict(project, rule())
    measured(project, VALUES)

    def broken(*arguments):
        raise measures.MeasureError("the provider of measures mine found no number: upside down")

    for answer in (lambda folder, files: ("mine", broken), broken):
        monkeypatch.setattr("ledger.verdicts.find_lookup", answer)
        report = verify(project)
        assert names(report) == ["undecided"]
        assert "upside down" in decided(report).verdicts[0].reason


def test_results_that_hold_a_nan_are_refused(project: Path, measured) -> None:
    """An error of its own, whatever the verdict would be."""
    predict(project, rule())
    measured(project, {**VALUES, "identity": [math.nan, *VALUES["identity"][1:]]})
    report = verify(project)
    assert (errors(report), report.exit_code) == ({"not_a_number"}, 5)
    assert "column value of demo/scores.parquet" in report.errors[0].message
    assert names(report) == ["undecided"]


def publish(project: Path, *verdicts: tuple[str, str], folder: str = "results") -> None:
    """Put a ``verdicts.json`` beside the results."""
    rows = [{"id": name, "verdict": verdict} for name, verdict in verdicts]
    (project / folder / "demo/verdicts.json").write_text(json.dumps(rows))


@pytest.mark.parametrize(("branch", "folder"), [("local", "results"), ("main", "data/results")])
def test_published_verdicts_must_be_those_that_come_out(project: Path, measured, branch: str, folder: str) -> None:
    """Beside the results of the branch; exit code 5, as for a result file with other bytes."""
    predict(project, rule(), rule(threshold="9"), branch=branch)
    measured(project, VALUES, branch=branch)
    publish(project, ("h1", "supported"), ("h2", "refuted"), folder=folder)
    assert verify(project).ok
    publish(project, ("h1", "supported"), ("h2", "supported"), folder=folder)
    report = verify(project)
    assert (errors(report), report.exit_code) == ({"wrong_verdict"}, 5)
    assert "says supported for h2, its rule gives refuted" in report.errors[0].message


def test_a_deviation_must_be_published_as_one(project: Path, measured) -> None:
    """What the rule alone gives is not enough after an amendment."""
    predict(project, rule())
    measured(project, VALUES)
    text = (project / CLAIM).read_text().replace('threshold: "0"', 'threshold: "1"')
    (project / CLAIM).write_text(text)
    assert main(["amend", "--root", str(project), "1", str(CLAIM), "--reason", "why"]) == 0
    publish(project, ("h1", "supported"))
    assert errors(verify(project)) == {"wrong_verdict"}
    publish(project, ("h1", "deviated"))
    assert verify(project).ok


def test_published_verdicts_without_their_results_are_a_note(project: Path, measured) -> None:
    """They cannot be checked here, and that is said."""
    predict(project, rule())
    measured(project, VALUES)
    publish(project, ("h1", "refuted"))
    (project / SCORES).unlink()
    report = verify(project)
    assert report.ok
    assert "verdicts_unchecked" in {finding.code for finding in report.branches[0].findings}


def test_the_command_says_from_what_it_decided(project: Path, measured, capsys) -> None:
    """Registration, run, hashes of configs and results, rule and number; the same as JSON."""
    predict(project, rule(), rule(metric="speed"))
    measured(project, VALUES)
    capsys.readouterr()
    assert main(["verdicts", "--root", str(project)]) == 0
    out = capsys.readouterr().out
    for part in ("#1 of local", "confirmatory", "start #2", "ok #3", "h1", "SUPPORTED", "met with 1.5 (n = 40)"):
        assert part in out
    for part in ("UNDECIDED", "there is no such number (missing)", "never started: capture", "ledger verified"):
        assert part in out
    assert main(["verdicts", "--root", str(project), "--json"]) == 0
    (item,) = json.loads(capsys.readouterr().out)["branches"][0]["verdicts"]
    assert [row["verdict"] for row in item["verdicts"]] == ["supported", "undecided"]
    assert {row["path"] for row in item["files"]} == {"scores.parquet"}
    assert item["verdicts"][0]["rule"].startswith("estimate of ruler_filled(ridgefill - identity")
