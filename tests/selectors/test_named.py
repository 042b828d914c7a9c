"""Selectors as an experiment's file writes them: every kind, every setting, and what is refused by name."""

import importlib.util
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from ridgefill.arm_specs import ArmSpec, arm_from
from ridgefill.arms import ArmSettings
from ridgefill.cost import Geometry
from ridgefill.errors import ConfigError
from ridgefill.rows import plan_rows
from ridgefill.selectors import named
from ridgefill.selectors.attention import AttentionRows
from ridgefill.selectors.budget import ProbeBudget
from ridgefill.selectors.context import Context, Selector
from ridgefill.selectors.controls import Control, LastRows, RandomRows
from ridgefill.selectors.lexical import LexicalNet
from ridgefill.selectors.named import SELECTORS, selector_from
from ridgefill.selectors.probed import ProbedRows
from ridgefill.selectors.protected import ProtectedTokens

PAGE = (Path(__file__).parents[2] / "docs/add-an-arm.md").read_text(encoding="utf-8")


def all_selectors(base=Selector):
    """Every class that ridgefill has below ``Selector``."""
    for made in base.__subclasses__():
        if made.__module__.startswith("ridgefill."):
            yield made
        yield from all_selectors(made)


def test_every_selector_has_a_kind():
    """But the base of the controls, which picks nothing itself; and the page lists every kind."""
    assert set(SELECTORS.values()) == set(all_selectors()) - {Control}
    listed = PAGE.split("Kinds of rows:")[1].split(". ")[0]
    assert [kind for kind in SELECTORS if f"`{kind}`" not in listed] == []


@pytest.mark.parametrize("kind", SELECTORS)
def test_a_kind_alone_is_the_selector_as_it_is_by_default(kind):
    """Nothing but the kind has to be given."""
    assert selector_from({"kind": kind}) == SELECTORS[kind]()


OTHER = {
    "share": 0.25, "window": 9, "run": 6, "occurrences": 3, "sentence_rows": 11, "probing": 33, "special": False,
}  # fmt: skip
NESTED = {
    "like": ({"kind": "random", "like": {"kind": "digits"}}, RandomRows(like=SELECTORS["digits"]())),
    "budget": ({"factor": 2, "rarer_share": 0, "attention_share": 1, "window": 5}, ProbeBudget(2.0, 0.0, 1.0, 5)),
    "lexical": ({"run": 7, "share": 0.5}, LexicalNet(run=7, share=0.5)),
}


@pytest.mark.parametrize("kind", SELECTORS)
def test_every_setting_of_a_kind_can_be_given(kind):
    """Numbers, switches and what is made of settings of its own."""
    for field in fields(SELECTORS[kind]):
        given, value = NESTED.get(field.name) or (OTHER[field.name],) * 2
        assert selector_from({"kind": kind, field.name: given}) == SELECTORS[kind](**{field.name: value})


def test_null_takes_a_part_away_where_there_may_be_none():
    """A probe without its lexical net, a control with a share of its own; unlike the net that nothing was said of."""
    assert selector_from({"kind": "probe", "lexical": None}) == ProbedRows(lexical=None) != ProbedRows()
    assert selector_from({"kind": "last", "like": None}) == LastRows()


REFUSED = [
    ({}, "rows of kind None are not known; expected one of attention, question_blind, random"),
    ({"kind": ["digits"]}, "rows of kind ['digits'] are not known"),
    ({"kind": "digits", "share": 0.1}, "rows of kind digits have no setting 'share'; expected none"),
    ({"kind": "attention", 3: 4, "heads": 2}, "rows of kind attention have no setting 3; expected share, window"),
    ({"kind": "attention", "share": "0.1"}, "rows: attention.share: Input should be a valid number, found '0.1'"),
    ({"kind": "attention", "share": True}, "rows: attention.share: Input should be a valid number, found True"),
    ({"kind": "attention", "share": -0.1}, "attention.share: Input should be greater than or equal to 0, found -0.1"),
    ({"kind": "attention", "share": 1.1}, "attention.share: Input should be less than or equal to 1, found 1.1"),
    ({"kind": "attention", "share": float("nan")}, "attention.share: Input should be a finite number, found nan"),
    ({"kind": "attention", "window": 0}, "attention.window: Input should be greater than or equal to 1, found 0"),
    ({"kind": "attention", "window": 1.0}, "attention.window: Input should be a valid integer, found 1.0"),
    ({"kind": "attention", "window": True}, "attention.window: Input should be a valid integer, found True"),
    ({"kind": "attention", "window": None}, "attention.window: Input should be a valid integer, found None"),
    ({"kind": "random", "like": "attention"}, "rows: random.like: expected a mapping of settings or null, found 'att"),
    ({"kind": "random", "like": {"share": 0.1}}, "rows of kind None are not known"),
    ({"kind": "random", "like": {"kind": "last", "like": 1}}, "last.like: expected a mapping of settings or null"),
    ({"kind": "probe", "budget": None}, "rows: probe.budget: expected a mapping of settings, found None"),
    ({"kind": "probe", "budget": 0.5}, "rows: probe.budget: expected a mapping of settings, found 0.5"),
    ({"kind": "probe", "budget": {"kind": "all"}}, "rows of kind probe.budget have no setting 'kind'; expected factor"),
    ({"kind": "probe", "budget": {"factor": -1}}, "probe.budget.factor: Input should be greater than or equal to 0"),
    ({"kind": "probe", "budget": {"rarer_share": 2}}, "probe.budget.rarer_share: Input should be less than or equal"),
    ({"kind": "probe", "lexical": False}, "rows: probe.lexical: expected a mapping of settings or null, found False"),
    ({"kind": "probe", "lexical": {"run": "4"}}, "rows: probe.lexical.run: Input should be a valid integer, found '4'"),
    ({"kind": "probe", "special": 1}, "rows: probe.special: Input should be a valid boolean, found 1"),
]


@pytest.mark.parametrize(("given", "sentence"), REFUSED)
def test_a_wrong_kind_setting_or_value_is_named(given, sentence):
    """With where it stands, what was found and what was expected."""
    with pytest.raises(ConfigError) as caught:
        selector_from(given)
    assert sentence in str(caught.value)


def test_the_selector_of_the_page_works_in_an_arm(tmp_path, monkeypatch):
    """Its file as the page prints it, loaded as a module, and its line among the others."""
    code = PAGE.split("## Adding a selector")[1].split("\n\n", 2)[2].split("\n\nAnd one line")[0]
    line = PAGE.split("`ridgefill/selectors/named.py`:\n\n")[1].split("\n\n")[0]
    path = tmp_path / "spaced.py"
    path.write_text("".join(one.removeprefix("    ") + "\n" for one in code.splitlines()))
    found = importlib.util.spec_from_file_location("spaced_of_the_page", path)
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, found.name, module)
    found.loader.exec_module(module)
    added = eval(f"{{{line}}}", vars(module))
    monkeypatch.setattr(named, "SELECTORS", {**SELECTORS, **added})
    with pytest.raises(ConfigError, match=r"spaced\.step: Input should be greater than or equal to 1"):
        selector_from({"kind": "spaced", "step": 0})
    spec = ArmSpec(name="spaced", like="ridgefill", rows={"kind": "spaced", "step": 7})
    arm = arm_from(spec, ArmSettings(layers=6, split=3, tail=20))
    plan = plan_rows(arm, Context((0,) * 50, 0), Geometry(layers=6, hidden=32, q=32, kv=16, ff=64))
    assert plan.selected == (0, 7, 14, 21, 28)
    control = selector_from({"kind": "random", "like": {"kind": "spaced", "step": 7}})
    assert len(control.rows(Context((0,) * 50, 30))) == len(plan.selected)


def test_rows_that_differ_in_a_setting_are_another_selector():
    """So that a table of arms can tell them apart."""
    assert selector_from({"kind": "attention", "share": 0.2}) != AttentionRows()
    assert selector_from({"kind": "protected", "share": 0.25}) == ProtectedTokens()
