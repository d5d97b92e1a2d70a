"""Wrong targets are refused in words that name the output, the likelihood, the row and the way out."""

import numpy as np
import pytest
from gpflow import likelihoods as stock

from mogp import likelihoods
from mogp.likelihoods import check_targets

COUNTS = [likelihoods.Poisson(), likelihoods.ZeroInflatedPoisson(), stock.Poisson()]
POSITIVE = [likelihoods.Gamma(), likelihoods.Exponential(), stock.Gamma(), stock.Exponential()]
SHARES = [likelihoods.Beta(), stock.Beta()]
BINARY = [likelihoods.Bernoulli(), stock.Bernoulli()]
LABELS = [likelihoods.Softmax(3), likelihoods.RobustMax(3), stock.Softmax(3), stock.MultiClass(3)]
REAL = [likelihoods.Gaussian(), likelihoods.HeteroscedasticGaussian(), stock.Gaussian(), stock.StudentT()]
ORDINAL = [stock.Ordinal(np.array([0.0, 1.0]))]


def named(likelihood):
    return f"{type(likelihood).__module__.split('.')[0]}.{type(likelihood).__name__}"


def column(*values):
    return np.array(values, dtype=float)[:, None]


def test_the_message_for_negative_counts_reads_as_documented():
    Y = np.ones((40, 1))
    Y[[17, 20, 30]] = -2.0
    with pytest.raises(ValueError) as error:  # noqa: PT011
        check_targets(likelihoods.Poisson(), Y, "counts")
    assert str(error.value) == (
        "output 'counts' (Poisson) has 3 negative targets, first at row 17 (-2.0); counts must be >= 0. "
        "Drop or correct those rows, or use likelihoods.Gaussian() for signed targets."
    )


@pytest.mark.parametrize(
    ("group", "bad", "message"),
    [
        (COUNTS, 2.5, "1 fractional target, first at row 1 .*whole numbers"),
        (COUNTS, -1.0, "1 negative target, first at row 1"),
        (POSITIVE, 0.0, "1 zero or negative target, .*must be > 0"),
        (POSITIVE, -3.0, "1 zero or negative target"),
        (SHARES, 1.0, r"1 out-of-range target, .*numpy.clip\(y, 1e-5, 1 - 1e-5\)"),
        (SHARES, 0.0, "1 out-of-range target"),
        (BINARY, 2.0, "1 non-binary target, .*must be 0 or 1"),
        (LABELS, 3.0, "1 unknown-class target, .*from 0 to 2"),
        (LABELS, -1.0, "1 unknown-class target"),
        (LABELS, 0.5, "1 unknown-class target"),
        (ORDINAL, 3.0, "from 0 to 2"),
        (REAL + COUNTS + POSITIVE + SHARES + BINARY + LABELS, np.nan, "1 non-finite target, first at row 1 .nan."),
        (REAL + COUNTS + POSITIVE + SHARES + BINARY + LABELS, np.inf, "1 non-finite target"),
    ],
)
def test_a_target_outside_the_domain_is_refused(group, bad, message):
    good = 0.5 if group is SHARES else 1.0
    for likelihood in group:
        first = 0.5 if likelihood in SHARES else good
        with pytest.raises(ValueError, match=message):
            check_targets(likelihood, column(first, bad), "y")


@pytest.mark.parametrize(
    ("group", "values"),
    [
        (REAL, (-1e9, 0.0, 3.5)),
        (COUNTS, (0, 1, 1e9)),
        (POSITIVE, (1e-300, 1e300)),
        (SHARES, (1e-9, 1 - 1e-9)),
        (BINARY, (0, 1)),
        (LABELS, (0, 1, 2)),
    ],
)
def test_targets_inside_the_domain_pass(group, values):
    for likelihood in group:
        check_targets(likelihood, column(*values), "y")
        check_targets(likelihood, np.zeros((0, 1)), "an output without rows")


def test_integer_and_boolean_targets_pass():
    check_targets(likelihoods.Poisson(), np.array([[0], [3]]), "y")
    check_targets(likelihoods.Bernoulli(), np.array([[True], [False]]), "y")


def test_words_as_targets_are_refused_with_advice():
    with pytest.raises(ValueError, match=r"output 'kind' \(Softmax\) has targets that are not numbers.*return_inverse"):
        check_targets(likelihoods.Softmax(2), np.array([["cat"], ["dog"]]), "kind")


@pytest.mark.parametrize("shape", [(4, 2), (4,), (4, 1, 1)])
@pytest.mark.parametrize(
    "likelihood", [likelihoods.Poisson(), likelihoods.Gaussian(), stock.Gaussian(), stock.Softmax(2)], ids=named
)
def test_targets_that_are_not_one_column_are_refused(likelihood, shape):
    with pytest.raises(ValueError, match=r"has targets of shape .*expected \(rows, 1\)"):
        check_targets(likelihood, np.ones(shape), "y")


def test_an_unknown_likelihood_is_held_to_finite_targets_only():
    class Own(stock.MonteCarloLikelihood):
        def _log_prob(self, X, F, Y):
            return -((F - Y) ** 2)[..., 0]

    own = Own(input_dim=None, latent_dim=1, observation_dim=None)
    check_targets(own, np.array([[-3.0, 2.5]]), "y")
    with pytest.raises(ValueError, match=r"output 'y' \(Own\) has 1 non-finite target"):
        check_targets(own, column(np.nan), "y")
