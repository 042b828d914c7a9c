"""One call fits what the workflow fits, chooses ``lam`` by what is written, and refuses what cannot be fitted."""

import copy
import runpy
from pathlib import Path

import pytest
import torch

from ridgefill.capture import capture
from ridgefill.errors import ConfigError, ModelError, NumericsError, TextError
from ridgefill.fitting import fit_maps
from ridgefill.ridge import factorise, solve
from ridgefill.ridge_options import LowRankMaps

NAIVE = runpy.run_path(str(Path(__file__).parents[1] / "naive" / "regression.py"))
SPLIT, LAYERS, WIDTH = 3, 6, 32
GRID = (0.001, 0.1, 1.0)


@pytest.fixture(scope="module")
def documents(prompt):
    """Eight documents of 60 to 67 random tokens."""
    return [prompt(60 + number, seed=number) for number in range(8)]


@pytest.fixture(scope="module")
def heldout(prompt):
    """Two more."""
    return [prompt(50, seed=90), prompt(70, seed=91)]


@pytest.fixture
def fresh(tiny):
    """A copy of the tiny model whose parameters ask for gradients, as loaded ones do."""
    return copy.deepcopy(tiny()).requires_grad_(True)


def same_maps(found, expected):
    return all(
        torch.equal(found.weights[layer], expected.weights[layer])
        and torch.equal(found.biases[layer], expected.biases[layer])
        for layer in range(SPLIT, LAYERS)
    )


def test_maps_are_least_squares_on_the_stock_models_hidden_states(tiny, documents):
    """Layer inputs come from the stock model; every layer is solved alone from all rows at once."""
    found = fit_maps(tiny(), documents, split=SPLIT, lam=0.03).maps
    states = [tiny()(ids, output_hidden_states=True).hidden_states for ids in documents]
    rows = {layer: torch.cat([one[layer][0] for one in states]) for layer in range(SPLIT, LAYERS)}
    for layer in range(SPLIT, LAYERS):
        weight, bias = NAIVE["ridge"](rows[SPLIT], rows[layer], 0.03)
        # fp32 activations in chunks: a few roundings of the largest entry.
        assert float((found.weights[layer] - weight).abs().max()) <= 1e-5 * float(weight.abs().max())
        size = max(float(bias.abs().max()), float(rows[layer].mean(0).abs().max()))
        assert float((found.biases[layer] - bias).abs().max()) <= 1e-5 * size


def test_it_is_the_workflows_fit_bit_for_bit(tiny, adapter, documents):
    """Capture, factorise and solve on the same pieces give the same numbers, and the record says which."""
    made = fit_maps(tiny(), documents, split=SPLIT, lam=0.03)
    factors = factorise(capture(adapter, [ids[0].tolist() for ids in documents], [SPLIT]), SPLIT)
    assert same_maps(made.maps, solve(factors, 0.03))
    assert made.maps.split == SPLIT
    assert made.architecture == adapter.fingerprint
    assert {key: made.fit[key] for key in ("lam", "alpha", "condition", "rows")} == factors.record(0.03)


def test_documents_may_be_tensors_of_either_shape_or_lists(tiny, documents):
    """``[1, n]``, ``[n]``, a list of ints, and a generator of them."""
    expected = fit_maps(tiny(), documents, split=SPLIT).maps
    assert same_maps(fit_maps(tiny(), [ids[0] for ids in documents], split=SPLIT).maps, expected)
    assert same_maps(fit_maps(tiny(), (ids[0].tolist() for ids in documents), split=SPLIT).maps, expected)


def test_long_documents_are_cut_and_rows_are_strided(tiny, prompt):
    """200 tokens in chunks of 64 leave a rest of 8, which is dropped; every third row of a piece counts."""
    made = fit_maps(tiny(), [prompt(200)], split=SPLIT, chunk=64)
    assert made.fit["rows"] == 192
    assert fit_maps(tiny(), [prompt(200)], split=SPLIT, chunk=64, stride=3).fit["rows"] == 3 * 22


@pytest.mark.parametrize("options", [{}, {"towards": "identity"}, {"rank": 8}])
def test_lam_is_the_one_whose_maps_write_best(tiny, documents, heldout, options):
    """No single lam of the grid has a better write cosine on the held-out rows than the chosen one."""
    singles = {
        lam: fit_maps(tiny(), documents, split=SPLIT, lam=lam, heldout=heldout, **options).fit["write_cosine"]
        for lam in GRID
    }
    made = fit_maps(tiny(), documents, split=SPLIT, lam=None, lam_grid=GRID, heldout=heldout, **options)
    assert len(set(singles.values())) == len(GRID)
    assert made.fit["lam"] == max(singles, key=singles.get)
    assert made.fit["write_cosine"] == max(singles.values())
    assert made.fit["heldout_rows"] == 120


def test_every_layer_may_have_its_own_lam(tiny, documents, heldout):
    """Each layer's weights are those of its own best lam, so the mean can only rise."""
    words = {"split": SPLIT, "lam_grid": (0.0001, 0.01, 1.0), "heldout": heldout}
    shared = fit_maps(tiny(), documents, **words)
    made = fit_maps(tiny(), documents, **words, lam_for="layer")
    lams = {int(layer): lam for layer, lam in made.fit["lam_by_layer"].items()}
    assert sorted(lams) == [3, 4, 5]
    assert len({lams[4], lams[5]}) == 2
    for layer, lam in lams.items():
        alone = fit_maps(tiny(), documents, split=SPLIT, lam=lam)
        assert torch.equal(made.maps.weights[layer], alone.maps.weights[layer])
    assert made.fit["write_cosine"] > shared.fit["write_cosine"]


def test_low_rank_maps_stay_factors_in_memory_and_files_hold_them_multiplied_out(tiny, documents, tmp_path):
    """Saved and loaded again, the same prediction to bf16 rounding of weights; the record keeps the options."""
    from ridgefill import RidgeFillMaps

    made = fit_maps(tiny(), documents, split=SPLIT, rank=5, towards="identity")
    assert isinstance(made.maps, LowRankMaps)
    assert (made.fit["towards"], made.fit["rank"]) == ("identity", 5)
    made.save_pretrained(tmp_path / "maps")
    loaded = RidgeFillMaps.from_pretrained(tmp_path / "maps")
    for layer in range(SPLIT, LAYERS):
        assert torch.equal(loaded.maps.weights[layer], made.maps.weights[layer].bfloat16())
    assert loaded.fit["rank"] == 5


def test_a_plain_fit_says_nothing_of_options(tiny, documents):
    """Only what was asked for is recorded."""
    assert not {"towards", "rank", "lam_by_layer", "write_cosine"} & set(fit_maps(tiny(), documents, split=SPLIT).fit)


def test_the_callers_model_can_be_trained_afterwards(documents, fresh):
    """Fitting neither freezes parameters nor changes their values."""
    before = {name: value.clone() for name, value in fresh.state_dict().items()}
    fit_maps(fresh, documents, split=SPLIT)
    assert all(parameter.requires_grad for parameter in fresh.parameters())
    assert all(torch.equal(value, before[name]) for name, value in fresh.state_dict().items())


def test_the_last_layer_can_be_the_split(tiny, documents, heldout):
    """Nothing but its own map is fitted; any lam writes the same there, so the largest is taken."""
    made = fit_maps(tiny(), documents, split=5, lam=None, lam_grid=GRID, heldout=heldout, lam_for="layer")
    assert sorted(made.maps.weights) == [5]
    assert made.fit["lam"] == 1.0


def test_progress_is_told_to_whoever_listens_and_short_work_is_silent(tiny, documents, heldout, capfd):
    """Both stages count tokens up to their totals; without a listener nothing is printed in the first seconds."""
    seen = []
    fit_maps(tiny(), documents, split=SPLIT, heldout=heldout, progress=lambda *told: seen.append(told))
    tokens = sum(ids.numel() for ids in documents)
    assert [told for told in seen if told[1] == told[2]] == [("capture", tokens, tokens), ("lam", 120, 120)]
    assert [done for stage, done, _ in seen if stage == "capture"] == sorted(
        done for stage, done, _ in seen if stage == "capture"
    )
    fit_maps(tiny(), documents, split=SPLIT)
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"split": 0}, ConfigError, "split 0 is outside the model; expected 1 to 5"),
        ({"split": 6}, ConfigError, "split 6 is outside the model; expected 1 to 5"),
        ({"lam": -0.1}, ConfigError, "lam is -0.1; expected numbers of at least 0"),
        ({"lam": float("nan")}, ConfigError, "lam is nan"),
        ({"lam_grid": ()}, ConfigError, "lam is empty"),
        ({"lam": None}, ConfigError, "choosing lam needs held-out documents and none were given"),
        ({"lam_grid": (0.1, 1.0)}, ConfigError, "choosing lam needs held-out documents"),
        ({"lam_for": "layer"}, ConfigError, "a lam for each layer is chosen from a grid, and one lam was given"),
        ({"towards": "one"}, ConfigError, "towards is 'one'; expected 'zero' or 'identity'"),
        ({"rank": 33}, ConfigError, "rank is 33; expected 1 to 32"),
        ({"chunk": 0}, ConfigError, "chunk is 0 and stride 1; expected at least 1 of each"),
        ({"stride": 20}, NumericsError, "the documents give 31 rows for maps of width 32"),
    ],
)
def test_settings_that_cannot_be_fitted_are_refused(tiny, documents, settings, error, message):
    """One sentence each, before the model runs."""
    with pytest.raises(error, match=message):
        fit_maps(tiny(), documents, **{"split": SPLIT, **settings})


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (torch.zeros(1, 0, dtype=torch.int64), "document 8 is empty"),
        (
            torch.zeros(2, 40, dtype=torch.int64),
            r"document 8 has shape \[2, 40\]; expected token ids \[1, n\] or \[n\]",
        ),
        (torch.tensor([3, 97]), "document 8 holds 3 to 97 .*expected token ids 0 to 96"),
        (torch.tensor([-1, 5]), "document 8 holds -1 to 5"),
        (torch.tensor([0.5, 1.0]), "document 8 holds 0.5 to 1.0 .*float32"),
    ],
)
def test_documents_that_are_not_token_ids_are_refused_by_number(tiny, documents, document, message):
    """Counted from 0; the stock model would fail inside, or not at all."""
    with pytest.raises(TextError, match=message):
        fit_maps(tiny(), [*documents, document], split=SPLIT)


def test_no_documents_and_held_out_documents_that_were_fitted_on_are_refused(tiny, documents):
    """Both would give numbers that mean nothing."""
    with pytest.raises(TextError, match="no document was given"):
        fit_maps(tiny(), [], split=SPLIT)
    with pytest.raises(TextError, match="a held-out document is also fitted on"):
        fit_maps(tiny(), documents, split=SPLIT, lam=None, heldout=documents[3:4])


def test_a_singular_fit_is_refused(tiny):
    """Enough rows that say too little: the same short document over and over."""
    with pytest.raises(NumericsError, match="split 3 is singular"):
        fit_maps(tiny(), [torch.arange(10) for _ in range(8)], split=SPLIT)


def test_another_kind_of_model_is_refused_by_type(documents):
    """The supported families are named."""
    with pytest.raises(ModelError, match="found a model of type 'Linear'"):
        fit_maps(torch.nn.Linear(2, 2), documents, split=SPLIT)
