"""Providers of measures: found by entry point, asked in order, and one sentence when one is broken."""

import importlib
import sys
from importlib.metadata import EntryPoint

import pytest

from ledger import measures
from ledger.measures import MeasureError, find_lookup

SET = {"model": "m", "split": 1, "subset": None}
MODULE = """\
asked = []
def lookup(metric, arm, baseline, where):
    return {"estimate": 1.5, "n": 4, "status": metric + arm + str(baseline) + str(where["split"])}
def knows(folder, files):
    asked.append(("knows", folder, files))
    return lookup
def knows_not(folder, files):
    asked.append(("knows_not", folder, files))
def fails(folder, files):
    raise RuntimeError("the third column\\nis upside down")
def answers_text(folder, files):
    return "yes"
def lookup_fails(folder, files):
    def broken(*arguments):
        raise KeyError("item")
    return broken
def lookup_answers_none(folder, files):
    return lambda *arguments: None
"""


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Make the given name -> object the only installed providers; returns the module behind them."""
    (tmp_path / "formats_of_a_test.py").write_text(MODULE, "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "formats_of_a_test", raising=False)

    def installed(*pairs):
        points = [EntryPoint(name, value, measures.GROUP) for name, value in pairs]
        monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: points)
        return importlib.import_module("formats_of_a_test")

    return installed


def test_providers_are_asked_by_name_until_one_knows_the_format(install, tmp_path):
    """Name order, not the order of installation; a None passes the question on, an answer ends it."""
    module = install(
        ("c", "formats_of_a_test:fails"), ("b", "formats_of_a_test:knows"), ("a", "formats_of_a_test:knows_not")
    )
    name, lookup = find_lookup(tmp_path, ["x.parquet"])
    assert (name, lookup("m", "a", None, SET)["status"]) == ("b", "maNone1")
    assert module.asked == [(kind, tmp_path, ("x.parquet",)) for kind in ("knows_not", "knows")]


def test_a_format_that_nobody_knows_has_no_lookup(install, tmp_path):
    """None, so that a prediction's own policy for missing numbers decides."""
    install(("a", "formats_of_a_test:knows_not"))
    assert find_lookup(tmp_path, ["x.csv"]) is None


def test_without_files_nobody_is_asked(install, tmp_path):
    """An experiment without results cannot fail because of a broken package."""
    install(("a", "no_such_module:knows"))
    assert find_lookup(tmp_path, []) is None


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("no_such_module:knows", r"mine \(no_such_module:knows\) cannot be loaded \(No module named"),
        ("formats_of_a_test:absent", "mine .* cannot be loaded .*absent"),
        ("formats_of_a_test:fails", "mine refused .*: the third column is upside down$"),
        ("formats_of_a_test:answers_text", "mine answered str, expected a function or None"),
    ],
)
def test_a_broken_provider_is_one_sentence_that_names_it(install, tmp_path, value, words):
    """It is never passed over: another provider would then decide by other numbers."""
    install(("mine", value), ("table", "formats_of_a_test:knows"))
    with pytest.raises(MeasureError, match=words) as caught:
        find_lookup(tmp_path, ["x.parquet"])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "words"),
    [("lookup_fails", "mine found no number for nll of ours: 'item'"), ("lookup_answers_none", "NoneType for nll")],
)
def test_a_lookup_that_fails_later_names_its_provider_too(install, tmp_path, provider, words):
    """Numbers are computed when a rule asks, long after the provider was chosen."""
    install(("mine", f"formats_of_a_test:{provider}"))
    _, lookup = find_lookup(tmp_path, ["x.parquet"])
    with pytest.raises(MeasureError, match=words):
        lookup("nll", "ours", None, SET)


def test_no_provider_at_all_says_what_to_type(install, tmp_path):
    """As in a checkout that was never installed."""
    install()
    with pytest.raises(MeasureError, match=r"no installed package provides measures .*pip install"):
        find_lookup(tmp_path, ["x.parquet"])


def test_two_packages_may_not_share_a_name(install, tmp_path):
    """Which of them decides would depend on the order of installation; one package found twice is fine."""
    install(("a", "formats_of_a_test:knows"), ("a", "formats_of_a_test:knows"))
    assert find_lookup(tmp_path, ["x.parquet"])[0] == "a"
    install(("a", "formats_of_a_test:knows"), ("a", "formats_of_a_test:knows_not"))
    with pytest.raises(MeasureError, match=r"called a .*:knows and .*:knows_not"):
        find_lookup(tmp_path, ["x.parquet"])


def test_an_installed_package_is_found_by_its_entry_point(tmp_path, monkeypatch):
    """Through the metadata that pip writes, beside the two providers of this project."""
    (tmp_path / "formats_on_disk.py").write_text(MODULE, "utf-8")
    info = tmp_path / "formats_on_disk-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: formats-on-disk\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text("[ledger.measures]\nan_early_name = formats_on_disk:knows\n", "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert [name for name, _ in measures._providers()] == ["an_early_name", "ridgefill", "table"]
    assert find_lookup(tmp_path, ["x.parquet"])[0] == "an_early_name"
