import numpy as np
import pytest

from mogp import MultiOutputData
from mogp.experiments import choose
from mogp.likelihoods import Gaussian
from mogp.models import SparseMOGP, hetmogp_lmc


@pytest.fixture(scope="module")
def wiggly() -> MultiOutputData:
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 90)
    return MultiOutputData.from_arrays(x, np.sin(25 * x)[:, None] + 0.05 * rng.normal(size=(90, 1)))


def build(data: MultiOutputData, inducing: int) -> SparseMOGP:
    return hetmogp_lmc(data, Gaussian(0.1), latents=1, inducing=inducing, scaling=None)


def test_too_few_inducing_points_for_a_wiggly_function_are_not_chosen(wiggly, tmp_path):
    choice = choose(build, wiggly, {"inducing": [2, 20]}, folds=2, cache=tmp_path)
    assert choice.best == {"inducing": 20}
    assert "inducing=20" in str(choice)
    by_size = choice.scores.set_index("inducing")["nlpd"]
    assert by_size[2] > by_size[20] + 0.5
    assert list(tmp_path.iterdir()), "finished fits are kept"


@pytest.mark.parametrize(("grid", "folds", "words"), [({}, 2, "no candidates"), ({"inducing": [2]}, 1, "at least two")])
def test_choose_refuses_what_it_cannot_score(wiggly, grid, folds, words):
    with pytest.raises(ValueError, match=words):
        choose(build, wiggly, grid, folds=folds)
