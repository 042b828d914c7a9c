"""What ``RIDGEFILL_VLLM`` and a request may say."""

from pathlib import Path

import pytest
from pyarrow.parquet import read_table

from ridgefill.errors import ConfigError
from ridgefill.vllm_plugin import register
from ridgefill.vllm_plugin.settings import Settings, parse_settings, settings_from_environment, wanted

ROOT = Path(__file__).parents[2]


def test_a_path_is_a_folder_of_maps_with_every_default():
    """As short as it can be."""
    assert parse_settings("/maps") == Settings("/maps")


def test_json_sets_the_rest():
    """All fields."""
    text = '{"maps": "m", "tail": 64, "min_filled": 8, "default": false, "split_layer": "mapped", "split": 19, '
    text += '"rows": ["special", "digits"]}'
    assert parse_settings(text) == Settings("m", 64, 8, False, "mapped", 19, ("special", "digits"))


@pytest.mark.parametrize(
    ("text", "about"),
    [
        ('{"maps": "m"', "begins as JSON but is not"),
        ('{"maps": "m", "tial": 64}', "'tial'; expected only maps, tail"),
        ('{"tail": 64}', "maps None"),
        ('{"maps": "m", "tail": 0}', "tail 0; expected a whole number, at least 1"),
        ('{"maps": "m", "tail": true}', "tail True"),
        ('{"maps": "m", "min_filled": "9"}', "min_filled '9'"),
        ('{"maps": "m", "default": 1}', "default 1; expected true or false"),
        ('{"maps": "m", "split_layer": "both"}', "split_layer 'both'; expected exact or mapped"),
        ('{"maps": "m", "split": 0}', "split 0"),
        ('{"maps": "m", "rows": "digits"}', "rows 'digits'; expected a list of digits and special"),
        ('{"maps": "m", "rows": ["attention"]}', "rows ..attention.*; expected a list"),
        ('{"maps": "m", "rows": [["digits"]]}', "expected a list of digits and special"),
    ],
)
def test_what_cannot_be_meant_is_named(text, about):
    """One sentence, with the field and what was expected."""
    with pytest.raises(ConfigError, match=about):
        parse_settings(text)


def test_without_the_variable_the_plugin_does_nothing(monkeypatch):
    """It does not even import the engine, which this environment lacks."""
    monkeypatch.delenv("RIDGEFILL_VLLM", raising=False)
    assert settings_from_environment() is None
    register()
    monkeypatch.setenv("RIDGEFILL_VLLM", " ")
    register()


@pytest.mark.parametrize(
    ("extra", "answer"),
    [
        (None, True),
        ({"other": 0}, True),
        ({"ridgefill": 0}, False),
        ({"ridgefill": False}, False),
        ({"ridgefill": "off"}, False),
        ({"ridgefill": 1}, True),
        ({"ridgefill": "True"}, True),
        ({"ridgefill": 2}, None),
        ({"ridgefill": ["1"]}, None),
    ],
)
def test_a_request_switches_itself(extra, answer):
    """Bodies carry no booleans, so numbers and words do it too."""
    assert wanted(Settings("m"), extra) is answer


def test_the_default_can_be_exact():
    """Then only requests that ask are filled."""
    settings = Settings("m", default=False)
    assert wanted(settings, {}) is False
    assert wanted(settings, {"ridgefill": 1}) is True


def test_the_smallest_bulk_that_is_filled_is_the_one_that_was_measured():
    """Of the published run: the first whose every filled request was sooner than the exact one of its pair."""
    table = read_table(ROOT / "data/results/smollm2_vllm/served/requests.parquet")
    sooner: dict[int, list[bool]] = {}
    for row in table.to_pylist():
        sooner.setdefault(row["filled_rows"], []).append(row["seconds"] < row["exact_seconds"])
    assert len(sooner) > 2
    assert min(bulk for bulk, each in sooner.items() if all(each)) == Settings("maps").min_filled
