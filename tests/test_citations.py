import numpy as np

import mogp
from mogp import MultiOutputData
from mogp.likelihoods import Bernoulli, Gaussian, HeteroscedasticGaussian
from mogp.models import ccgp, hetmogp_lmc
from mogp.posteriors import Parsimonious
from mogp.priors import ICM


def keys(text: str) -> set[str]:
    return {line.split("{")[1].rstrip(",") for line in text.splitlines() if line.startswith("@")}


def test_cite_names_what_the_model_is_built_from_and_nothing_else():
    data = MultiOutputData.from_arrays(np.arange(5.0), np.eye(5)[:, :2])
    both = keys(mogp.cite(hetmogp_lmc(data, [Gaussian(), Bernoulli()], inducing=3, scaling=None)))
    assert {"hensman2013big", "matthews2017gpflow", "moreno2018het", "alvarez2012kernels"} <= both
    assert not {"bonilla2008multitask", "panos2019thesis", "saul2016chained"} & both
    one = keys(
        mogp.cite(
            ccgp(
                data.take({}).from_arrays(np.arange(5.0), np.arange(5.0)),
                HeteroscedasticGaussian(),
                inducing=3,
                scaling=None,
            )
        )
    )
    assert "saul2016chained" in one
    assert "moreno2018het" not in one


def test_cite_covers_every_choice():
    import gpflow

    from mogp.inducing import given_points
    from mogp.models import SparseMOGP

    model = SparseMOGP(
        ICM(gpflow.kernels.RBF(), functions=2), given_points(np.zeros((2, 1))), [Gaussian(), Gaussian()], Parsimonious()
    )
    assert {"bonilla2008multitask", "panos2019thesis"} <= keys(mogp.cite(model))


def test_every_key_that_cite_uses_is_in_the_bibliography():
    from mogp import citations

    known = citations._entries()
    assert not {key for group in citations._BUILT_FROM.values() for key in group} - set(known)
