"""Which registration is meant by ``EXPERIMENT/RUN``, or by a bare ``RUN`` when only one can be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ledger.branches import branch_names, open_branch
from ledger.errors import NotInClaim, Unregistered, UsageError
from ledger.history import History, histories
from ledger.pinning import changed_files
from ledger.registration import Registration, check_allowed, find_registration, stored_claim


@dataclass(frozen=True)
class _Candidate:
    """A registration whose body is here: its branch, its claim file, its experiment and run ids."""

    branch: str
    history: History
    claim_path: str
    experiment: str
    runs: tuple[str, ...]

    def stands(self, root: Path) -> bool:
        """Whether it was not voided and what it pins is on the disk as registered."""
        body = self.history.current.body or {}
        return self.history.void is None and not any(changed_files(root, body))

    def text(self) -> str:
        """``demo/ruler of ...`` for a list of choices."""
        return f"{self.experiment} in {self.claim_path} (#{self.history.current.seq} of branch {self.branch})"


def choose_run(root: Path, branches: Sequence[str], name: str, claim: Path | None = None) -> tuple[Registration, str]:
    """The registration and the run id that ``name`` means, looked for in ``branches``.

    ``claim`` (a path) decides among several claims that have the run. Raises the refusals of
    ``find_registration``, NotInClaim when no registered claim has the run, UsageError when several have.
    """
    experiment, _, run_id = name.rpartition("/")
    path = claim if claim is not None else _claim_of(root, branches, experiment, run_id)
    registration = find_registration(root, branches, Path(path))
    if experiment not in ("", registration.claim.experiment):
        raise NotInClaim(
            f"the claim {registration.claim_path} is of the experiment {registration.claim.experiment!r}, not "
            f"{experiment!r}; type {registration.claim.experiment}/{run_id}"
        )
    check_allowed(registration, run_id, {})
    return registration, run_id


def _claim_of(root: Path, branches: Sequence[str], experiment: str, run_id: str) -> str:
    """Path of the claim file to look at; it need not stand, in which case its refusal tells why."""
    known = [item for item in _candidates(root, branches) if experiment in ("", item.experiment)]
    if not known:
        what = f"the experiment {experiment!r}" if experiment else f"a claim with the run {run_id!r}"
        raise Unregistered(f"{what} is not registered here; type `ledger register CLAIM.yaml` first")
    having = [item for item in known if run_id in item.runs]
    standing = {item.claim_path: item for item in reversed(having) if item.stands(root)}
    if len(standing) > 1:
        listed = "; ".join(sorted(item.text() for item in standing.values()))
        raise UsageError(
            f"found the run {run_id!r} in several registered claims ({listed}), expected one: type "
            f"EXPERIMENT/{run_id}, or name the claim with --claim FILE"
        )
    if not having and not experiment and len({item.claim_path for item in known}) > 1:
        runs = sorted({f"{item.experiment}/{run}" for item in known for run in item.runs})
        raise NotInClaim(f"no registered claim has the run {run_id!r}, expected one of {', '.join(runs)}")
    likely = sorted(having or known, key=lambda item: item.history.void is None)
    return next(iter(standing), likely[-1].claim_path)


def _candidates(root: Path, branches: Sequence[str]) -> list[_Candidate]:
    """Registrations of the branches that exist, in their order, oldest first."""
    found = []
    here = branch_names(root)
    for branch in dict.fromkeys(branches):
        for history in histories(open_branch(root, branch).entries()) if branch in here else ():
            claim, body = stored_claim(history.current), history.current.body
            if claim is not None and body is not None:
                runs = tuple(run.id for run in claim.runs)
                path = str(body["claim_file"]["path"])
                found.append(_Candidate(branch, history, path, claim.experiment, runs))
    return found
