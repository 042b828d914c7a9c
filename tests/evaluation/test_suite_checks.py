"""Agreement and turns as an experiment's file asks for them: what fits the model, and which arms they run."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from ridgefill.config import check_fits_model, experiment_arms, load_experiment, load_model
from ridgefill.errors import ConfigError
from ridgefill.suite_settings import AgreementSuite, TurnsSuite
from workflow.gate import needed_runs
from workflow.jobs.agreement import suite_arms

ROOT = Path(__file__).parents[2]


def experiment_with(**suites):
    """The embedded experiment (split 19, tail 128 of 8,192 tokens) with further suites, and its model."""
    experiment = load_experiment("smollm2_split19", ROOT)
    changed = experiment.model_copy(update={"suites": experiment.suites.model_copy(update=suites)})
    return changed, load_model(experiment.model, ROOT)


@pytest.mark.parametrize(
    ("suites", "message"),
    [
        (
            {"agreement": AgreementSuite(documents=2, lengths=(1024, 7681))},
            r"agreement\.lengths 7681 plus new_tokens is",
        ),
        (
            {"agreement": AgreementSuite(documents=2, lengths=(128,))},
            r"agreement\.lengths 128 .* over the tail \(128\)",
        ),
        ({"turns": TurnsSuite(lengths=(8193,), samples=2)}, r"turns\.lengths 8193, with 384 after the prompt, is 8193"),
        ({"turns": TurnsSuite(lengths=(320,), samples=2, new_tokens=32)}, r"turns\.lengths 320, with 192 after the"),
        ({"turns": TurnsSuite(lengths=(1024,), samples=2, arms=("exact", "kva"))}, r"turns\.arms: has 'kva'"),
    ],
)
def test_lengths_and_arms_that_cannot_be_run_are_named(suites, message):
    """Continuations and both turns count towards the context, and what is before them has to be over the tail."""
    with pytest.raises(ConfigError, match=message):
        check_fits_model(*experiment_with(**suites), "here")


def test_lengths_at_the_limits_are_taken():
    """The last token of the context may be used, and a prompt of one token over the tail is one."""
    check_fits_model(
        *experiment_with(
            agreement=AgreementSuite(documents=2, lengths=(129, 7680)),
            turns=TurnsSuite(lengths=(513, 8192), samples=2),
        ),
        "here",
    )


def test_suites_are_left_out_of_what_is_hashed_and_registered_unless_they_are_there():
    """An experiment without them has neither the keys nor the runs; with them, a run of each name."""
    plain, model = experiment_with()
    assert not {"agreement", "turns"} & set(plain.model_dump(mode="json")["suites"])
    assert not {"agreement", "turns"} & set(needed_runs(plain, model))
    both, _ = experiment_with(
        agreement=AgreementSuite(documents=2, lengths=(512,)), turns=TurnsSuite(lengths=(1024,), samples=1)
    )
    assert needed_runs(both, model)[-2:] == ("agreement", "turns")
    assert both.suites.agreement.new_tokens == 512


def test_a_suite_runs_the_arms_it_names_and_exact_at_their_own_split():
    """All of the experiment's arms when none is named; never those of the split curve alone."""
    experiment, model = experiment_with()
    bench = SimpleNamespace(arms=experiment_arms(experiment, model.geometry.layers))
    job = SimpleNamespace(experiment=experiment)
    assert [arm.name for arm in suite_arms(job, bench, None)] == list(experiment.arms)
    chosen = suite_arms(job, bench, ("ridgefill", "no_fill"))
    assert [arm.key for arm in chosen] == ["exact", "no_fill@19", "ridgefill@19"]
    assert len(bench.arms) > len(experiment.arms)
