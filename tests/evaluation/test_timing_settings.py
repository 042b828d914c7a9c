"""What an experiment may ask of speed and serving: refused while it is read, by the key that is wrong."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from ridgefill.config import check_fits_model, load_experiment, load_model
from ridgefill.errors import ConfigError
from ridgefill.suite_settings import ServingSuite, SpeedSuite
from workflow.gate import RUNS, more_suites, needed_runs

ROOT = Path(__file__).resolve().parents[2]
SERVING = {"lengths": (1024, 2048), "users": 4, "user_prompt": 64, "new_tokens": 10, "chunk": 256, "repeats": 3}


@pytest.fixture
def experiment():
    """``experiment(speed=..., serving=...)``: the embedded one with those suites."""
    plain = load_experiment("smollm2_split19", ROOT)
    return lambda **suites: plain.model_copy(update={"suites": plain.suites.model_copy(update=suites)})


@pytest.fixture
def model():
    return load_model("smollm2-135m-instruct", ROOT)


@pytest.mark.parametrize(
    ("suites", "message"),
    [
        ({"speed": SpeedSuite(lengths=(100,), repeats=5)}, r"suites\.speed\.lengths 100 is 100 tokens"),
        ({"speed": SpeedSuite(lengths=(9000,), repeats=5)}, r"suites\.speed\.lengths 9000 .* \(8192\)"),
        ({"serving": ServingSuite(**SERVING | {"lengths": (64,)})}, r"suites\.serving\.lengths 64 is 64 tokens"),
        ({"serving": ServingSuite(**SERVING | {"user_prompt": 8190})}, r"user_prompt plus new_tokens is 8200 tokens"),
        ({"speed": SpeedSuite(lengths=(1024,), repeats=5, arms=("rigdefill",))}, r"speed\.arms: has 'rigdefill'"),
    ],
)
def test_a_suite_that_does_not_fit_is_refused_by_its_key(experiment, model, suites, message):
    """Inside the tail, beyond the context, or of an arm that the experiment does not run."""
    with pytest.raises(ConfigError, match=f"here: .*{message}"):
        check_fits_model(experiment(**suites), model, "here")


def test_suites_that_fit_pass(experiment, model):
    """Both, with arms that the experiment runs."""
    speed = SpeedSuite(lengths=(1024, 8192), repeats=5, arms=("ridgefill", "identity"))
    check_fits_model(experiment(speed=speed, serving=ServingSuite(**SERVING)), model, "here")


@pytest.mark.parametrize(("new", "chunk", "chunks"), [(8, 256, 8), (1, 2048, 1), (3, 1000, 3)])
def test_users_must_outlast_the_longest_prompt(new, chunk, chunks):
    """A token after each chunk, and one that they hold when it arrives."""
    with pytest.raises(ValidationError, match=rf"new_tokens \({new}\) must exceed the {chunks} chunks"):
        ServingSuite(**SERVING | {"new_tokens": new, "chunk": chunk})
    assert ServingSuite(**SERVING | {"new_tokens": new + 1, "chunk": chunk}).new_tokens == new + 1


def test_fewer_than_five_timed_requests_are_refused():
    """The protocol's least."""
    with pytest.raises(ValidationError, match="greater than or equal to 5"):
        SpeedSuite(lengths=(1024,), repeats=4)


def test_each_suite_is_a_run_that_has_to_be_registered(experiment, model):
    """After those of every experiment; none without its suite, so published registrations stay what they are."""
    assert needed_runs(experiment(), model) == RUNS
    both = experiment(speed=SpeedSuite(lengths=(1024,), repeats=5), serving=ServingSuite(**SERVING))
    assert more_suites(both) == ("speed", "serving")
    assert needed_runs(both, model) == (*RUNS, "speed", "serving")
