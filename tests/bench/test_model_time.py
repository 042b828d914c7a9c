"""When a model ran is noted for each process, and the time without any is the wall time less their union."""

import json
import time

import pytest
import torch

from ridgefill.errors import ResultsError
from ridgefill.evaluation.model_time import ASKED, covered, noting_model_time, read_spans


class Slow(torch.nn.Module):
    """A module around a module; each waits."""

    def __init__(self, inner=None, seconds=0.02):
        super().__init__()
        self.inner, self.seconds = inner, seconds

    def forward(self, x):
        time.sleep(self.seconds)
        return self.inner(x) if self.inner else x


def test_time_inside_modules_is_noted_and_time_between_them_is_not(tmp_path):
    """Nested calls count once."""
    model, x = Slow(Slow()), torch.zeros(1)
    begin = time.monotonic()
    with noting_model_time({ASKED: str(tmp_path)}):
        model(x)
        time.sleep(0.2)
        model(x)
    wall = time.monotonic() - begin
    spans = read_spans(tmp_path)
    assert len(spans) == 2
    assert 0.08 <= covered(spans) <= wall - 0.2


def test_calls_in_quick_succession_are_one_span(tmp_path):
    """What lies between the modules of one pass is the pass's own work."""
    model = Slow(seconds=0.0)
    with noting_model_time({ASKED: str(tmp_path)}):
        for _ in range(50):
            model(torch.zeros(1))
    assert len(read_spans(tmp_path)) < 50


def test_a_module_that_fails_ends_its_span_and_hooks_are_taken_off(tmp_path):
    """The next call is not taken for an inner one."""

    class Broken(torch.nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    with noting_model_time({ASKED: str(tmp_path)}):
        with pytest.raises(ValueError, match="broken"):
            Broken()(torch.zeros(1))
        time.sleep(0.01)
        Slow()(torch.zeros(1))
    before = read_spans(tmp_path)
    Slow()(torch.zeros(1))
    assert len(before) == 2
    assert read_spans(tmp_path) == before


def test_nothing_is_written_unless_asked(tmp_path):
    """An ordinary run has no hooks."""
    with noting_model_time({}):
        Slow()(torch.zeros(1))
    assert not list(tmp_path.iterdir())


def test_processes_that_overlap_are_counted_once(tmp_path):
    """The union, whatever the order of the files."""
    (tmp_path / "1.json").write_text(json.dumps([[0.0, 2.0], [5.0, 6.0]]), "utf-8")
    (tmp_path / "2.json").write_text(json.dumps([[1.0, 3.0]]), "utf-8")
    assert covered(read_spans(tmp_path)) == 4.0


def test_a_file_of_another_kind_is_refused(tmp_path):
    """With its name."""
    (tmp_path / "1.json").write_text('{"a": 1}', "utf-8")
    with pytest.raises(ResultsError, match=r"1\.json holds no times of a model"):
        read_spans(tmp_path)
