"""The parts of pictures that decide something: labels, the front, the timeline's events and its axis."""

import hashlib
import json
import shutil
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ridgefill.tables.figures import timeline_pictures
from ridgefill.tables.grid import Cell, Origin
from ridgefill.tables.history import Attempt, Event, load_history
from ridgefill.tables.labels import spread
from ridgefill.tables.pareto import Mark, front
from ridgefill.tables.timeline import clock, span_words
from ridgefill.tables.widths import width_panels

BEGIN = datetime(2026, 11, 29, 12, tzinfo=UTC)


@given(st.lists(st.floats(-0.5, 1.5), min_size=1, max_size=30), st.floats(0.001, 0.2))
def test_labels_keep_their_order_and_their_distance(wanted, gap):
    """All within the axis, none nearer than the gap, or than fits, and in the order of what they name."""
    places = spread(wanted, gap)
    least = min(gap, 1 / max(1, len(wanted) - 1))
    ordered = [place for _, place in sorted(zip(wanted, places, strict=True))]
    assert all(-1e-9 <= place <= 1 + 1e-9 for place in places)
    assert all(b - a >= least - 1e-9 for a, b in pairwise(ordered))


def test_labels_with_room_stay_where_they_are():
    """Only those that would overlap move, half each."""
    assert spread([0.1, 0.5, 0.9], 0.1) == pytest.approx([0.1, 0.5, 0.9])
    assert spread([0.5, 0.5], 0.1) == pytest.approx([0.45, 0.55])


def test_the_front_leaves_out_what_another_arm_beats():
    """An arm that costs more and keeps no more is not on it, whichever direction is better."""
    marks = [Mark(name, work, kept, kept, kept) for name, work, kept in (("a", 1, 10), ("b", 2, 5), ("c", 3, 20))]
    assert [mark.arm for mark in front(marks, up=True)] == ["a", "c"]
    assert [mark.arm for mark in front(marks, up=False)] == ["a", "b"]


def test_pauses_are_cut_and_running_time_is_not():
    """Ten minutes of running stay ten times one minute; a day in between is as long as a share of both."""
    times = [BEGIN + timedelta(minutes=m) for m in (0, 1, 24 * 60, 24 * 60 + 10)]
    events = [Event("main", i, what, "r", time) for i, (what, time) in enumerate(
        zip(("started", "finished") * 2, times, strict=True))]  # fmt: skip
    attempts = [Attempt("r", events[0], events[1], False), Attempt("r", events[2], events[3], True)]
    axis = clock(events, attempts)
    a, b, c, d = (axis.at(time) for time in times)
    assert (b - a, d - c) == (60, 600)
    assert c - b == pytest.approx(0.12 * 660)
    assert [length for _, length in axis.pauses] == [24 * 3600 - 60]
    assert [span_words(length) for length in (90, 7200, 200_000)] == ["2 min", "2 h", "2 d"]


def published_entries(root):
    """How many entries the published ledger has: the number of the next."""
    return len(list((root / "data/ledger/main/entries").iterdir()))


@pytest.fixture
def ledger(root, tmp_path):
    """The published ledger with an amendment, a second start without a result, and a void after it."""
    folder = shutil.copytree(root / "data/ledger/main", tmp_path / "ledger/main").parent
    claim = json.loads((folder / "main/bodies/00000004.json").read_text())
    pointer = {"seq": 4, "leaf": "0" * 64}
    start = json.loads((folder / "main/bodies/00000019.json").read_text())
    more = [
        ("amend", claim | {"registration": pointer, "reason": "A word was wrong."}),
        ("start", start),
        ("void", {"registration": pointer, "reason": "It was a mistake."}),
    ]
    first = published_entries(root)
    for seq, (kind, body) in enumerate(more, start=first):
        header = {"seq": seq, "kind": kind, "time": f"2030-01-01T0{seq - first}:00:00Z", "grade": None}
        for place, value in (("entries", header), ("bodies", body)):
            (folder / "main" / place / f"{seq:08d}.json").write_text(json.dumps(value))
    return folder


def test_the_timeline_has_every_kind_of_entry(ledger, published, root):
    """Registered, started, finished, amended, voided; which attempts count; and a picture with their names."""
    history = load_history(ledger, published / "smollm2_split19/provenance.json", "smollm2_split19")
    assert [event.what for event in history.events] == [
        "registered", *("started", "finished") * 8, "amended", "started", "voided",
    ]  # fmt: skip
    assert [(one.run, one.used) for one in history.attempts][3:6] == [
        ("documents", False), ("capture", True), ("fit", True),
    ]  # fmt: skip
    assert history.attempts[-1].end is None
    assert history.events[-1].words == "It was a mistake."
    (picture,) = timeline_pictures(history)
    first = published_entries(root)
    for words in ("registered (main/4)", f"amended (main/{first})", f"voided (main/{first + 2})", "documents"):
        assert words in picture.wide


def test_another_ledger_gives_no_timeline(ledger, published, tmp_path):
    """A registration that is not there byte for byte is not these results'; neither is no ledger at all."""
    provenance = published / "smollm2_split19/provenance.json"
    entry = ledger / "main/entries/00000004.json"
    assert hashlib.sha256(b"\0" + entry.read_bytes()).hexdigest() in provenance.read_text()
    entry.write_bytes(entry.read_bytes().replace(b"2026", b"2025"))
    assert load_history(ledger, provenance, "smollm2_split19") is None
    assert load_history(tmp_path / "nothing", provenance, "smollm2_split19") is None
    assert load_history(None, provenance, "smollm2_split19") is None


def test_withheld_bodies_are_passed_over(ledger, published, root):
    """Entries whose bodies are not published leave the rest of the timeline standing."""
    (ledger / f"main/bodies/{published_entries(root):08d}.json").unlink()
    history = load_history(ledger, published / "smollm2_split19/provenance.json", "smollm2_split19")
    assert "amended" not in {event.what for event in history.events}


def test_losses_without_width_are_not_drawn():
    """With no interval that has a width there is no panel of losses, and no score means none of scores."""
    origin = Origin("main.sql", "documents", "main/1")
    cells = {
        f"main.a.nll_all{end}": Cell(f"main.a.nll_all{end}", 0.1, "nats_difference", 3, origin)
        for end in ("", ".low", ".high")
    }
    assert width_panels(cells) == []
    cells["main.a.nll_all.high"] = Cell("main.a.nll_all.high", 0.2, "nats_difference", 3, origin)
    assert [title for title, _ in width_panels(cells)] == ["Losses: which intervals leave out zero"]
