"""``python -m workflow.reproduce.study``: what was predicted and found, put into docs/study.md where it asks.

The page marks the places: ``<!-- found: EXPERIMENT P1 P2, EXPERIMENT P4 -->`` up to ``<!-- end -->``. What stands
between is written from the published results: the predictions with their verdicts, and every comparison that they
rest on with its interval and number of samples.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from ridgefill.errors import ResultsError, RidgeFillError
from ridgefill.files import write_text
from ridgefill.measures import in_points
from ridgefill.tables.folder import METRIC_LABELS, Folder, arm_label, metric_kind, stat_entry
from ridgefill.tables.grid import MINUS
from ridgefill.tables.verdicts import Outcome, leaves, load_outcomes
from workflow.reproduce.evidence import PUBLISHED

PAGE = Path("docs/study.md")
PLACE = re.compile(r"<!-- found: (?P<asked>[^>]*?) -->\n.*?<!-- end -->", re.DOTALL)


def filled(page: str, root: Path) -> str:
    """The page with every marked place written anew. Raises ResultsError for an experiment or prediction not there."""
    study_of = cache(lambda name: Study(root / PUBLISHED / name))

    def written(place: re.Match[str]) -> str:
        lines = ["| Run | Predicted | Fell | Measured |", "|---|---|---|---|"]
        for asked in place["asked"].split(","):
            name, *ids = asked.split()
            lines += [study_of(name).row(one) for one in ids]
        return f"<!-- found: {place['asked']} -->\n" + "\n".join(lines) + "\n<!-- end -->"

    return PLACE.sub(written, page)


class Study:
    """One published experiment: its predictions as they fell, and its measures."""

    def __init__(self, results: Path) -> None:
        if not results.is_dir():
            raise ResultsError(f"{PAGE} asks for {results.name}, which is not published in {PUBLISHED}")
        self.name, self.folder = results.name, Folder(results)
        self.outcomes: Mapping[str, Outcome] = {one.id: one for one in load_outcomes(results)}

    def row(self, prediction: str) -> str:
        """One line of the table."""
        if prediction not in self.outcomes:
            raise ResultsError(f"{PAGE} asks for prediction {prediction} of {self.name}, which has none such")
        one = self.outcomes[prediction]
        measured = "<br>".join(self._measured(one.rule))
        said = one.says.replace("|", "\\|")
        run = f"[{self.name}](../{PUBLISHED}/{self.name}/report.html) {prediction}"
        return f"| {run} | {said} | {one.verdict} | {measured} |"

    def _measured(self, rule: Mapping[str, Any]) -> Iterator[str]:
        """Each comparison of a rule once, however many of its ends are looked at."""
        seen = set()
        for leaf in leaves(rule):
            metric, arm, baseline = str(leaf["metric"]), str(leaf["arm"]), leaf.get("baseline")
            split = (leaf.get("set") or {}).get("split", self.folder.settings.split)
            if (metric, arm, baseline, split) in seen:
                continue
            seen.add((metric, arm, baseline, split))
            stat = self.folder.measures.statistic(metric, arm, baseline, int(split))
            kind = metric_kind(metric, baseline is not None)
            shown = stat_entry("study", stat, kind, self.folder.metric_origin("measure", metric)).text
            arms = arm_label(arm) + (f" {MINUS} {arm_label(str(baseline))}" if baseline else "")
            unit = "points" if in_points(metric) else "nats"
            yield f"{arms}, {METRIC_LABELS.get(metric, metric)}, split {split}: {shown} {unit}, n = {stat.n}"


def main() -> int:
    """Entry point: rewrite the page."""
    try:
        write_text(PAGE, filled(PAGE.read_text(encoding="utf-8"), Path.cwd()))
    except RidgeFillError as error:
        sys.stderr.write(f"error: {error}\n")
        return error.exit_code
    except OSError as error:
        sys.stderr.write(f"error: {PAGE} cannot be read ({error.strerror}); run from the project's root\n")
        return 1
    sys.stdout.write(f"{PAGE}: written again from the published results\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
