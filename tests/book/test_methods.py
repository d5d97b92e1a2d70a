"""The documents' names of models: what they say, and what the library makes of them."""

from __future__ import annotations

import numpy as np
import pytest

from mogp.book.methods import LabelMethod
from mogp.data.labels import LabelData
from mogp.models import mlgpf
from mogp.posteriors import Parsimonious

N, D, K, P, M = 12, 4, 5, 3, 4
KERNELS = ("LINEAR", "LINEAR-l", "SE", "SE-p-l", "ARD", "ARD/LINEAR")


@pytest.fixture(scope="module")
def data() -> LabelData:
    rng = np.random.default_rng(7)
    return LabelData.of(rng.normal(size=(N, D)), (rng.random((N, K)) < 0.3).astype(int), normalise=True)


TABLE_4_11 = {
    # (inputs, labels, M, P, R): millions for ARD, ARD-S, ARD-S-B, ARD-PP, ARD-S-PP, ARD-S-B-PP; None: not legible
    "Bibtex": ((1836, 159, 400, 159, 1000), (13.6, 13.2, 15.1, 0.9, 0.6, 2.4)),
    "Delicious": ((500, 983, 400, 300, 250), (24.7, 24.6, 24.7, 0.7, 0.6, 0.8)),
    "Mediamill": ((120, 101, 500, 101, 120), (12.8, 12.8, 12.8, 0.2, 0.2, 0.2)),
    "EUR-Lex": ((5000, 3993, 400, 500, 70), (44.3, 42.3, 42.7, 4.4, 2.4, 2.8)),
    "RCV1": ((47236, 2456, 500, 30, 2500), (27.5, 5.1, 123.2, 23.8, 1.4, 119.4)),
    "Wiki10": ((101938, 30938, 600, 700, 2500), (209.6, 149.9, 404.8, 83.8, 24.1, 279.0)),
    "AmazonCat": ((203882, 13330, 600, 550, 10000), (229.4, 113.0, 2151.9, 130.5, 14.2, 2053.0)),
    "Delicious-Large": ((782585, 205443, 350, 700, 2000), (461.9, 188.7, 1753.9, 419.2, 146.0, 1711.2)),
    "WikiLSHTC": ((1617899, 325056, 500, 600, 500), (1081.4, 272.7, 1081.6, None, None, None)),
}
COLUMNS = ("ARD", "ARD-S", "ARD-S-B", "ARD-PP", "ARD-S-PP", "ARD-S-B-PP")


@pytest.mark.parametrize("name", TABLE_4_11)
def test_numbers_of_parameters_are_those_of_table_4_11(name):
    """Panos 10.32."""
    (inputs, outputs, M, P, R), printed = TABLE_4_11[name]
    for method, millions in zip(COLUMNS, printed, strict=True):
        counted = LabelMethod.parse(method).parameters(inputs, outputs, P, M, R) / 1e6
        assert millions is None or abs(counted - millions) < 0.1, method


@pytest.mark.parametrize(
    "flags", ["", "-S", "-S-B", "-FX", "-S-FX", "-S-B-FX", "-UN", "-S-UN", "-PP", "-S-B-PP", "-PP-AG"]
)
@pytest.mark.parametrize("kernel", KERNELS)
def test_models_have_the_parameters_that_their_names_say(kernel, flags, data):
    """Panos 10.32."""
    name = kernel + flags
    method = LabelMethod.parse(name)
    assert str(method) == name
    more = {"subspace_dim": 2} if method.subspace else {}
    model = mlgpf(data, **method.options, **more, latents=P, inducing=M)
    assert sum(int(np.prod(v.shape)) for v in model.trainable_variables) == method.parameters(D, K, P, M, 2)
    assert isinstance(model.posterior, Parsimonious) == method.parsimonious
    assert model.inducing.unit == method.unit


def test_names_may_be_written_as_printed():
    assert LabelMethod.parse("SE-p-ℓ-PP") == LabelMethod("SE-p-l", parsimonious=True)
    assert LabelMethod.parse("LINEAR-ℓ-S") == LabelMethod("LINEAR-l", subspace=True)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("RBF", "begins with one of LINEAR"),
        ("ARDS", "begins with one of"),
        ("ARD-PP-S", "in this order"),
        ("ARD-B", "in this order"),
        ("ARD-S-S", "once each"),
        ("ARD-X", "there is no -X"),
        ("", "begins with one of"),
    ],
)
def test_names_that_are_none_are_refused(name, problem):
    with pytest.raises(ValueError, match=problem):
        LabelMethod.parse(name)
