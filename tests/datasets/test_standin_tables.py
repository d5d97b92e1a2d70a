from __future__ import annotations

import numpy as np

from mogp.datasets.scaling import standardised, unit_interval
from mogp.datasets.tables import Column, class_table, regression_table

COLUMNS = (Column(-1.0, 1.0, 3), Column(0.0, 10.0, 0), Column(5.0, 5.0, 1))


def test_features_keep_to_their_ranges_and_decimals():
    table = regression_table(500, COLUMNS, Column(2.0, 3.0, 1), traits=2, linear=1.0, wiggly=0.5, noise=0.1, seed=0)
    assert table.shape == (500, 4)
    for values, column in zip(table.T, (*COLUMNS, Column(2.0, 3.0, 1)), strict=True):
        assert column.low <= values.min() <= values.max() <= column.high
        np.testing.assert_allclose(values, np.round(values, column.decimals), atol=1e-12)


def test_noise_hides_the_target():
    def explained(noise):
        columns = [Column(0.0, 1.0, 6)] * 3
        table = regression_table(
            4000, columns, Column(0.0, 1.0, 6), traits=3, linear=1.0, wiggly=0.0, noise=noise, seed=1
        )
        design = np.column_stack([table[:, :-1], np.ones(4000)])
        residual = table[:, -1] - design @ np.linalg.lstsq(design, table[:, -1], rcond=None)[0]
        return 1.0 - residual.var() / table[:, -1].var()

    scores = [explained(noise) for noise in (0.1, 1.0, 10.0)]
    assert scores[0] > 0.8 > scores[1] > 0.1 > scores[2]


def test_classes_have_the_asked_sizes():
    table = class_table((3, 5, 2), COLUMNS, traits=2, separation=1.0, seed=0)
    np.testing.assert_array_equal(np.bincount(table[:, -1].astype(int)), [3, 5, 2])
    assert (np.diff(table[:, -1]) < 0).any()


def test_constant_columns_become_zero():
    values = np.column_stack([np.full(7, 0.998), np.arange(7.0)])
    scaled, mean, sd = standardised(values)
    assert (scaled[:, 0] == 0.0).all()
    assert (mean[0], sd[0]) == (0.998, 1.0)
    np.testing.assert_allclose(scaled[:, 1], (np.arange(7) - 3) / 2.0, rtol=1e-11)
    unit, low, span = unit_interval(values, 0.1, 0.9)
    assert (unit[:, 0] == 0.1).all()
    np.testing.assert_allclose(unit[:, 1], np.clip(np.arange(7) / 6, 0.1, 0.9))
    assert (low.tolist(), span.tolist()) == ([0.998, 0.0], [1.0, 6.0])
