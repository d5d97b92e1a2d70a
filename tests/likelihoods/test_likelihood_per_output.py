"""Which functions belong to which output, and that data and likelihoods fit."""

from dataclasses import dataclass

import gpflow
import numpy as np
import pytest

from mogp import likelihoods
from mogp.likelihoods import PerOutput


@dataclass(frozen=True)
class Output:
    name: str
    Y: np.ndarray


@dataclass(frozen=True)
class Data:
    outputs: list[Output]


def data(**targets):
    return Data([Output(name, np.array(values, float)[:, None]) for name, values in targets.items()])


def mixed():
    return PerOutput(
        [
            likelihoods.HeteroscedasticGaussian(),
            likelihoods.Poisson(),
            likelihoods.Softmax(3),
            gpflow.likelihoods.Gaussian(),
        ]
    )


def test_functions_are_contiguous_in_order_and_cover_all():
    container = mixed()
    assert container.latent_dims == (2, 1, 3, 1)
    assert container.num_functions == 7
    assert [container.functions(d) for d in range(4)] == [range(2), range(2, 3), range(3, 6), range(6, 7)]
    with pytest.raises(IndexError):
        container.functions(4)


def test_function_names_say_what_each_function_is():
    assert mixed().function_names(["price", "visits", "kind", "other"]) == [
        "price/mean",
        "price/log variance",
        "visits/log rate",
        "kind/class 0",
        "kind/class 1",
        "kind/class 2",
        "other/f",
    ]
    pair = PerOutput([gpflow.likelihoods.HeteroskedasticTFPConditional()])
    assert pair.function_names(["y"]) == ["y/f1", "y/f2"]


def test_every_likelihood_has_a_label_for_each_function(case):
    likelihood = case.make()
    assert len(likelihood.function_labels) == likelihood.latent_dim == case.functions


def test_parameters_of_all_outputs_are_found_and_shared_ones_once():
    shared = likelihoods.Gaussian(0.2)
    container = PerOutput([shared, shared, likelihoods.Gaussian(0.3)])
    assert len(container.trainable_variables) == 2


def test_good_data_pass_and_bad_targets_name_the_output():
    container = PerOutput({"price": likelihoods.Gaussian(), "visits": likelihoods.Poisson()})
    container.check(data(price=[1.5, -2], visits=[3]))
    with pytest.raises(ValueError, match=r"output 'visits' \(Poisson\) has 1 negative target, first at row 1"):
        container.check(data(price=[1.5], visits=[3, -1]))


def test_a_wrong_number_of_outputs_is_refused():
    container = PerOutput([likelihoods.Gaussian(), likelihoods.Poisson()])
    with pytest.raises(ValueError, match=r"2 likelihoods \(Gaussian, Poisson\) for 1 outputs"):
        container.check(data(price=[1.0]))
    with pytest.raises(ValueError, match="for 3 outputs"):
        container.function_names(["a", "b", "c"])


@pytest.mark.parametrize("names", [("visits", "price"), ("price", "visitors")])
def test_names_must_be_those_of_the_data_in_their_order(names):
    container = PerOutput({name: likelihoods.Gaussian() for name in names})
    assert container.output_names == names
    with pytest.raises(
        ValueError, match=r"the likelihoods are for the outputs .*, the data have \['price', 'visits'\]"
    ):
        container.check(data(price=[1.0], visits=[2.0]))


def test_no_likelihood_and_things_that_are_none_are_refused():
    with pytest.raises(ValueError, match="given no likelihood"):
        PerOutput([])
    with pytest.raises(TypeError, match=r"likelihood 1 is <class .*Poisson.*give an object such as"):
        PerOutput([likelihoods.Gaussian(), likelihoods.Poisson])


def test_one_output_is_enough():
    container = PerOutput([likelihoods.Beta()])
    assert container.functions(0) == range(2)
    container.check(data(share=[0.2, 0.7]))
