"""What a cell id stands for: the query whose rows it is made of, which of those rows, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ridgefill.errors import ResultsError
from ridgefill.measures import OWN_SPLIT
from ridgefill.tables.folder import METRIC_FILES, METRIC_LABELS, arm_label

ENDS = {".low": "lower end", ".high": "upper end"}
DOCUMENTS = "documents/tokens.parquet"
NO_ROWS = "none"


@dataclass(frozen=True)
class Basis:
    """Rows and what they make.

    query: file name of the SQL. where: columns of the query's result that pick this cell's rows. makes: a key of
    :data:`ridgefill.tracing.numbers.MAKES`, or empty where only the second code path makes the number. end: low or
    high where the cell is an end of the interval. parameters: those of the query. rows: a key of
    :data:`ridgefill.tracing.rows.INPUTS` where the rows are not the query's own.
    """

    query: str
    where: Mapping[str, Any]
    makes: str
    file: str
    words: str
    end: str = ""
    metric: str = ""
    arm: str = ""
    baseline: str = ""
    split: int | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    rows: str = ""


@dataclass(frozen=True)
class Context:
    """What a basis depends on beside the id: the primary split, and the rule of every leaf of the claim."""

    split: int
    leaves: Mapping[str, Mapping[str, Any]]
    """By cell id without its last part: ``verdicts.P1.0``."""


def basis_of(cell: str, context: Context) -> Basis | None:
    """What ``cell`` rests on, None where its table is not one of those that are told apart here.

    Raises ResultsError for a cell that is not named as those of its table are.
    """
    end = next((end for end in ENDS if cell.endswith(end)), "")
    table, _, rest = cell.removesuffix(end).partition(".")
    if table not in _TABLES or not rest:
        return None
    try:
        found = _TABLES[table](rest, context)
    except (KeyError, ValueError) as error:
        raise ResultsError(
            f"the cell {cell!r} is not named as table {table} names its cells ({error}); use the ridgefill that made it"
        ) from error
    parameters = {"split": context.split, "own": list(OWN_SPLIT), **found.parameters}
    split = context.split if found.split is None else found.split
    return replace(found, end=ENDS.get(end, ""), parameters=parameters, split=split)


def unknown(cell: str, query: str, split: int) -> Basis:
    """A basis without rows, of a number whose table is not told apart here."""
    table = cell.partition(".")[0]
    parameters = {"split": split, "own": list(OWN_SPLIT)}
    return Basis(query, {}, "", "experiment.json", f"a number of table {table}", parameters=parameters, rows=NO_ROWS)


def _measured(query: str, name: str, arm: str, makes: str, against: str = "", **where: Any) -> Basis:
    file = next((place for prefix, place in METRIC_FILES.items() if name.startswith(prefix)), DOCUMENTS)
    what = METRIC_LABELS.get(name, name.replace("_", " "))
    beside = f", against {arm_label(against)}" if against else ""
    chosen = {"arm": arm, **where}
    return Basis(query, chosen, makes, file, f"{what}: {arm_label(arm)}{beside}", "", name, arm, against)


def _quality(query: str, name: str, arm: str, **where: Any) -> Basis:
    """Points as they are, losses against exact."""
    if name.startswith("ruler"):
        return _measured(query, name, arm, "mean", **where)
    return _measured(query, name, arm, "difference", "exact", **where)


def _main(rest: str, context: Context) -> Basis:
    arm, name = rest.split(".", 1)
    if name in ("mac_share", "ceiling"):
        return _cost(f"ruler.{arm}.{name}", context)
    if name.endswith(".loss"):
        metric = name.removesuffix(".loss")
        return _measured("main.sql", metric, arm, "mean", metric=metric)
    return _quality("main.sql", name, arm, metric=name)


def _contrasts(rest: str, context: Context) -> Basis:
    pair, metric, *more = rest.split(".")
    arm, _, baseline = pair.partition("-")
    found = _measured("contrasts.sql", metric, arm, "difference", baseline, baseline=baseline, metric=metric)
    return _named(found, more, {"n": "pairs", "lower": ""})


def _named(found: Basis, more: list[str], makes: Mapping[str, str]) -> Basis:
    """``found`` for a cell with another last part, which is made otherwise."""
    if not more:
        return found
    words = {"n": "how many items", "lower": "one-sided lower bound", "bound": "one-sided bound"}
    return replace(found, makes=makes[more[0]], words=f"{found.words}: {words.get(more[0], more[0].replace('_', ' '))}")


def _split_curve(rest: str, context: Context) -> Basis:
    split, arm, metric = rest.split(".")
    found = _quality("split_curve.sql", metric, arm, split=int(split), metric=metric)
    return replace(found, split=int(split), words=f"{found.words}, split {split}")


def _tasks(rest: str, context: Context) -> Basis:
    arm, task, length = rest.split(".")
    found = _measured("tasks.sql", f"ruler_{task}", arm, "mean", task=task, length=int(length))
    return replace(found, words=f"RULER {task} at {length} tokens: {arm_label(arm)}")


def _splices(rest: str, context: Context) -> Basis:
    arm, name = rest.split(".")
    shares = {"loss_removed": "nll_novel", "gap_closed": "ruler_filled"}
    if name not in shares:
        base = _quality("splices.sql", name, arm, metric=name)
        # The second side of its rows is the fill, which the shares are of.
        return replace(base, makes="from_exact") if base.makes == "difference" else base
    found = _measured("splices.sql", shares[name], arm, name, "ridgefill", metric=shares[name])
    return replace(found, words=f"{name.replace('_', ' ')} of what {arm_label('ridgefill')} loses: {arm_label(arm)}")


def _suites(rest: str, context: Context) -> Basis:
    arm, metric = rest.split(".")
    return _measured("suites.sql", metric, arm, "mean", metric=metric)


def _post_prompt(rest: str, context: Context) -> Basis:
    arm, name = rest.split(".")
    metric = "agreement_text_top1" if name == "top1" else "agreement_text_kl"
    words = {"top1": "top-1", "kl": "KL, mean"}.get(name, f"KL, {name.replace('_', ' ')}")
    found = _measured("post_prompt.sql", metric, arm, f"post_{name}")
    return replace(found, words=f"along the tokens after the prompt, {words}: {arm_label(arm)}")


def _longbench(metric: str) -> Callable[[str, Context], Basis]:
    def found(rest: str, context: Context) -> Basis:
        arm, group, name = rest.split(".", 1)[0], rest.split(".", 1)[1].rsplit(".", 1)[0], rest.rsplit(".", 1)[1]
        makes = {
            "n": "count", "score": "average" if group == "average" else "mean", "accuracy": "mean", "pairs": "pairs",
            "difference": "difference", "arm_only": "wins", "exact_only": "losses", "p_value": "",
        }[name]  # fmt: skip
        where = {} if group in ("all", "average") else {"group": group}
        baseline = "exact" if makes in ("pairs", "difference", "wins", "losses", "") else ""
        base = _measured("longbench.sql", metric, arm, makes, baseline, metric=metric, **where)
        return replace(base, words=f"{base.words}, {group} items: {name.replace('_', ' ')}")

    return found


def _losses(table: str) -> Callable[[str, Context], Basis]:
    def found(rest: str, context: Context) -> Basis:
        arm, name = rest.split(".")
        kind, _, number = name.partition("_")
        makes = f"tail_{number}" if table == "tails" else "gap"
        picked = "key" if kind == "token" else kind
        base = _measured("loss_differences.sql", f"nll_{picked}", arm, makes, "exact", kind=picked)
        if kind == "token":
            base = replace(base, makes=f"token_{number}")
        what = f"{number} of differences in loss" if table == "tails" else "perplexity gap"
        items = f"key tokens{' of all documents' if kind == 'token' else ''}" if picked == "key" else f"{kind} tokens"
        return replace(base, words=f"{what}, {items}: {arm_label(arm)}, against {arm_label('exact')}")

    return found


def _non_inferiority(rest: str, context: Context) -> Basis:
    pair, name = rest.split(".")
    arm, _, baseline = pair.partition("-")
    base = _measured("non_inferiority.sql", "ruler_filled", arm, "difference", baseline, baseline=baseline)
    makes = {"n": "pairs", "difference": "difference", "floor": "floor", "bootstrap": "", "bound": "", "verdict": ""}
    return _named(base, [name], makes)


def _verdicts(rest: str, context: Context) -> Basis:
    identity, name = rest.rsplit(".", 1)
    if name == "verdict":
        words = f"what prediction {identity} came to"
        return Basis("measure.sql", {}, "word", "verdicts.json", words, rows="outcomes", parameters={"id": identity})
    leaf = context.leaves[f"verdicts.{identity}"]
    where, baseline = leaf.get("set") or {}, leaf.get("baseline")
    split = context.split if where.get("split") is None else int(where["split"])
    arm, metric = str(leaf["arm"]), str(leaf["metric"])
    makes = {"estimate": "difference" if baseline else "mean"}.get(str(leaf["statistic"]), "")
    makes = ("pairs" if baseline else "count") if name == "n" else makes
    base = _measured("measure.sql", metric, arm, makes, str(baseline or ""))
    subset = None if where.get("subset") is None else str(where["subset"])
    parameters = {"metric": metric, "arm": arm, "baseline": baseline or arm, "split": split, "subset": subset}
    said = {"observed": str(leaf["statistic"]).replace("_", " "), "n": "how many items"}[name]
    return replace(base, where={}, split=split, parameters=parameters, words=f"{base.words}: {said}")


def _summary(rest: str, context: Context) -> Basis:
    words = "how many predictions were made" if rest == "predictions" else f"how many predictions are {rest}"
    return Basis("measure.sql", {}, "outcomes", "verdicts.json", words, rows="outcomes", parameters={"word": rest})


def _cost(rest: str, context: Context) -> Basis:
    suite, arm, name = rest.split(".")
    timed = name in ("seconds", "measured_share", "speedup")
    file = "timings" if timed else {"ruler": "samples", "documents": "documents"}[suite]
    words = {
        "prompts": "prompts", "macs": "multiply-accumulates of a prompt", "mac_share": "work, as a share of exact's",
        "ceiling": "ceiling: exact's work over its own", "seconds": "prefill, median seconds",
        "measured_share": "time, as a share of exact's on the same prompt", "speedup": "times faster than exact",
    }[name]  # fmt: skip
    return Basis(
        "cost.sql", {"suite": suite, "arm": arm}, f"cost_{name}", f"{suite}/{file}.parquet",
        f"{words}: {arm_label(arm)} on {suite}", arm=arm, rows="timings" if timed else f"work_{suite}",
    )  # fmt: skip


def _spending(rest: str, context: Context) -> Basis:
    suite, arm, name = rest.split(".")
    words = {"tail": "tail, tokens", "selected": "exact rows of the prefix", "selection": "work of picking rows",
             "correction": "work of corrections", "off": "how far off the arm it is matched to"}[name]  # fmt: skip
    return Basis("spending.sql", {"suite": suite, "arm": arm}, f"spent_{name}", f"{suite}/arms.parquet",
                 f"{words}: {arm_label(arm)} on {suite}", arm=arm, rows=f"spent_{suite}")  # fmt: skip


def _fit(rest: str, context: Context) -> Basis:
    split, name = rest.split(".")
    return Basis("fit.sql", {"split": int(split)}, f"fit_{name}", "fit/fit_layers.parquet",
                 f"fitted maps at split {split}: {name.replace('_', ' ')}", split=int(split), rows="fit")  # fmt: skip


def _lam(rest: str, context: Context) -> Basis:
    split, (lam, part) = rest.split(".", 1)[0], rest.split(".", 1)[1].rsplit(".", 1)
    where = {"split": int(split), "lam": lam, "component": part}
    words = f"held-out cosine of {part} at split {split} and lam {lam}, mean over the late layers"
    return Basis("lam.sql", where, "lam", "lam/lam_curve.parquet", words, split=int(split), rows="lam")


def _speed(table: str, file: str) -> Callable[[str, Context], Basis]:
    def found(rest: str, context: Context) -> Basis:
        arm, length, name = rest.split(".")
        words = f"{name.replace('_', ' ')} at {length} tokens: {arm_label(arm)}"
        return Basis(f"{table}.sql", {"arm": arm, "length": int(length)}, f"{table}_{name}", file, words, arm=arm)

    return found


def _unfilled(rest: str, context: Context) -> Basis:
    phase, arm, name = rest.split(".")
    if name == "long":
        words, where = f"first token of long prompts, {phase}: {arm_label(arm)}", {"phase": phase, "arm": arm}
        return Basis("unfilled_long.sql", where, "serving_first_token", "served/pairs.parquet", words, arm=arm)
    metric, more = ("served_first", ["n"]) if name == "n" else (name, [])
    found = _measured("unfilled.sql", metric, arm, "mean", phase=phase, metric=metric)
    return _named(replace(found, words=f"{found.words}, {phase.replace('_', ' ')}"), more, {"n": "count"})


def _setup(rest: str, context: Context) -> Basis:
    given = rest in ("layers", "split", "tail", "resamples")
    words = f"{rest.replace('_', ' ')}, {'as configured' if given else 'counted on the exact arm'}"
    return Basis("setup.sql", {}, f"setup_{rest}", "ruler/samples.parquet", words, rows="config" if given else "")


_TIMED = {"speed": "speed/requests", "serving": "serving/runs", "served": "served/requests", "mixed": "served/runs"}
_TABLES: Mapping[str, Callable[[str, Context], Basis]] = {
    "main": _main,
    "contrasts": _contrasts,
    "split_curve": _split_curve,
    "tasks": _tasks,
    "splices": _splices,
    "suites": _suites,
    "post_prompt": _post_prompt,
    "longbench_v1": _longbench("longbench_v1"),
    "longbench_v2": _longbench("longbench_v2"),
    "perplexity": _losses("perplexity"),
    "tails": _losses("tails"),
    "non_inferiority": _non_inferiority,
    "verdicts": _verdicts,
    "summary": _summary,
    "cost": _cost,
    "spending": _spending,
    "fit": _fit,
    "lam": _lam,
    **{table: _speed(table, f"{file}.parquet") for table, file in _TIMED.items()},
    "unfilled": _unfilled,
    "setup": _setup,
}
