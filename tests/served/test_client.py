"""The client: what it asks, when tokens were there, and what it makes of answers that are none."""

from threading import Barrier

import pytest

from ridgefill.served.client import Asked, ask, ask_among, ask_together
from ridgefill.served.server import ServerError


def test_a_request_says_what_was_meant(fake):
    """Token ids as they are, greedy, without an end; the switch only where one was given."""
    running, server = fake()
    for fill in (None, True, False):
        ask(running, Asked([3, 4], 2, fill))
    assert [body.get("vllm_xargs") for body in server.asked] == [None, {"ridgefill": 1}, {"ridgefill": 0}]
    assert {key: server.asked[0][key] for key in ("prompt", "max_tokens", "temperature", "ignore_eos", "stream")} == {
        "prompt": [3, 4], "max_tokens": 2, "temperature": 0, "ignore_eos": True, "stream": True,
    }  # fmt: skip


@pytest.mark.parametrize("each", [1, 2, 5])
def test_tokens_have_the_moment_at_which_their_event_was_there(fake, each):
    """Those of one event have the same, so a client that gets two at once sees a gap of nothing."""
    running, _ = fake(wait=lambda *_: 0.05, step=0.02, each=each)
    answer = ask(running, Asked([1], 5))
    assert answer.tokens == (1, 2, 3, 4, 5)
    assert answer.first >= 0.05
    assert len(answer.gaps) == 4
    assert [gap > 0 for gap in answer.gaps] == [place % each == each - 1 for place in range(4)]


@pytest.mark.parametrize(
    ("how", "about"),
    [
        ({"status": 503}, "the server answered 503"),
        ({"more": 2}, "gave 5 tokens; expected the 3 asked for"),
    ],
)
def test_an_answer_that_is_none_is_an_error(fake, how, about):
    """One sentence."""
    running, _ = fake(**how)
    with pytest.raises(ServerError, match=about):
        ask(running, Asked([1], 3))


def test_a_server_that_stopped_says_its_last_words(fake):
    """Its own refusal, where it wrote one."""
    running, server = fake(log="noise\nridgefill.errors.MapError: these maps do not fit\nmore noise\n")
    server.shutdown()
    server.server_close()
    running.process.kill()
    running.process.wait()
    with pytest.raises(ServerError, match=r"stopped with exit status -9 \(these maps do not fit\); its log is"):
        ask(running, Asked([1], 3))


def test_requests_together_overlap_and_keep_their_order(fake):
    """None of ten is answered before all are there."""
    there = Barrier(10)
    running, _ = fake(wait=lambda *_: there.wait(30) and 0.0)
    answers = ask_together(running, [Asked([place], 1) for place in range(10)])
    assert [answer.tokens for answer in answers] == [(place,) for place in range(10)]
    assert max(answer.begin for answer in answers) <= min(answer.times[0] for answer in answers)


def test_a_late_request_is_sent_when_every_user_has_a_token(fake):
    """And no sooner, though one of them waits long for it."""
    running, _ = fake(wait=lambda prompt, _: 0.3 if prompt == [1] else 0.0, step=0.05)
    users, late = ask_among(running, [Asked([0], 12), Asked([1], 12)], Asked([2], 1))
    assert late.begin >= max(user.times[0] for user in users)
    assert late.times[0] <= min(user.times[-1] for user in users)
