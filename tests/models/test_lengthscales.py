"""Start lengthscales by hand."""

from __future__ import annotations

import numpy as np
import pytest

from mogp.models.lengthscales import start_lengthscales

X = np.array([[0.0, 10.0], [4.0, 10.0], [1.0, 13.0]])


def test_each_rule_by_hand():
    assert start_lengthscales(X, "diagonal") == pytest.approx(0.5)
    assert start_lengthscales(X, "range") == pytest.approx(3.5 / 4)
    assert start_lengthscales(X, "columns") == pytest.approx([0.4, 0.3])
    assert start_lengthscales(X, "median") == pytest.approx(4.0)


def test_one_row_and_constant_columns_still_give_a_positive_number():
    same = np.ones((3, 2))
    assert start_lengthscales(same, "diagonal") == 1e-3
    assert start_lengthscales(same[:1], "range") == 1e-3
    assert start_lengthscales(same, "columns") == [1.0, 1.0]
    assert start_lengthscales(same, "median") == 1.0


def test_the_median_of_many_rows_is_that_of_a_seeded_subset():
    many = np.random.default_rng(0).normal(size=(2000, 3))
    assert start_lengthscales(many, "median", 1) == start_lengthscales(many, "median", 1)
    assert start_lengthscales(many, "median", 1) == pytest.approx(start_lengthscales(many[:500], "median"), rel=0.05)


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="rule='mean'; choose"):
        start_lengthscales(X, "mean")
