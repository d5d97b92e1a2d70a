"""The gene data are the published ones, with the protocols of the documents; the stand-in looks like them."""

from __future__ import annotations

import csv

import numpy as np
import pytest
from alike import assert_alike, assert_same_options

from mogp.datasets import DataFormatError, DataUnavailableError, genes
from mogp.datasets.genes import ENTRIES, EXPRESSION, GENES, SAMPLES, SHAPES, kalinka, kalinka_standin


@pytest.fixture
def mirror(shared_data, monkeypatch):
    monkeypatch.setenv("MOGP_DATA_MIRROR", str(shared_data))
    return shared_data


def test_four_genes_are_standardised_rows_of_the_published_table(mirror):
    with (mirror / EXPRESSION).open(newline="") as lines:
        rows = {row[0]: np.array(row[1:], float) for row in csv.reader(lines)}
    samples = np.loadtxt(mirror / SAMPLES, delimiter=",")
    data, raw = kalinka(), kalinka(standardise=False)
    assert (len(rows), data.outputs) == (3590, GENES)
    for d, gene in enumerate(GENES):
        np.testing.assert_array_equal(raw.Y[:, d], rows[gene])
        np.testing.assert_allclose(data.Y[:, d], (rows[gene] - rows[gene].mean()) / rows[gene].std())
    np.testing.assert_array_equal(data.X[:, 0], samples[:, 1])
    np.testing.assert_array_equal(data.replica, samples[:, 0] - 1)
    np.testing.assert_allclose(data.Y * data.extras["sd"] + data.extras["mean"], raw.Y)


def test_series_have_the_published_sizes_and_times(mirror):
    data = kalinka()
    assert np.bincount(data.replica).tolist() == [8, 8, 8, 8, 10, 5, 4, 5]
    assert np.unique(data.X).tolist() == list(range(2, 21, 2))
    assert not np.isnan(data.Y).any()
    assert data.held_out is None
    assert SHAPES[EXPRESSION](mirror / EXPRESSION) == "3590 genes x 56 samples"
    expected = "56 samples, 8 replicates of 8, 8, 8, 8, 10, 5, 4, 5, 10 time points"
    assert SHAPES[SAMPLES](mirror / SAMPLES) == expected


@pytest.mark.parametrize("repetition", [0, 1, 2])
def test_points_protocol_trains_on_half_of_each_series(mirror, repetition):
    data = kalinka(protocol="points", repetition=repetition)
    assert (~data.held_out).sum(axis=0).tolist() == [27] * 4
    assert data.held_out.sum(axis=0).tolist() == [29] * 4
    for d in range(4):
        for r, (size, half) in enumerate(zip([8, 8, 8, 8, 10, 5, 4, 5], [4, 4, 4, 4, 5, 2, 2, 2], strict=True)):
            train = np.random.RandomState(d + 1000 * repetition).permutation(size)[:half]
            assert set(np.flatnonzero(~data.held_out[data.replica == r, d])) == set(train)


def test_replica_protocol_holds_out_one_series_a_gene(mirror):
    for repetition in (0, 5, 9):
        data = kalinka(protocol="replica", repetition=repetition)
        for d in range(4):
            assert set(data.replica[data.held_out[:, d]]) == {(d + repetition) % 8}
            assert data.held_out[:, d].sum() == np.sum(data.replica == (d + repetition) % 8)
    assert np.isnan(data.train.Y).sum() == data.held_out.sum()
    np.testing.assert_array_equal(data.test.Y[~np.isnan(data.test.Y)], data.Y[data.held_out])


def test_other_genes_come_in_the_order_asked_for(mirror):
    data = kalinka(genes=("tld", "Osi15"))
    assert data.outputs == ("tld", "Osi15")
    np.testing.assert_array_equal(data.Y[:, 1], kalinka().Y[:, 3])


def test_standin_has_the_same_form_and_difficulty(mirror):
    assert_same_options(ENTRIES["kalinka"])
    scores = []
    for load in (kalinka, kalinka_standin):
        data = load(protocol="points")
        errors = []
        for d in range(4):
            test = data.held_out[:, d]
            nearest = np.argsort(np.abs(data.X[test] - data.X[~test].T), axis=1, kind="stable")[:, :4]
            errors.append((data.Y[test, d] - data.Y[~test, d][nearest].mean(axis=1)) ** 2)
        scores.append(1.0 - np.mean(errors) / data.Y[data.held_out].var())
    assert scores[0] == pytest.approx(scores[1], abs=0.15)
    assert_alike(kalinka(protocol="points"), kalinka_standin(protocol="points"))
    assert kalinka_standin().digest == kalinka_standin().digest
    assert kalinka_standin(genes=("tld",)).Y.shape == (56, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"genes": ("Osi16",)}, "no gene 'Osi16' among 3590; there is, for example, Osi"),
        ({"genes": ()}, "give a sequence of different names"),
        ({"genes": "Osi15"}, "give a sequence of different names"),
        ({"genes": ("Osi15", "Osi15")}, "give a sequence of different names"),
        ({"protocol": "rows"}, "'points', 'replica' or None"),
        ({"repetition": -1}, "count from 0"),
    ],
)
def test_an_unknown_option_is_met_with_those_there_are(mirror, options, said):
    with pytest.raises(ValueError, match=said):
        kalinka(**options)


def test_without_the_files_the_error_says_how_to_get_them(monkeypatch):
    monkeypatch.setenv("MOGP_OFFLINE", "1")
    with pytest.raises(DataUnavailableError, match="mogp data fetch kalinka"):
        kalinka()


@pytest.mark.parametrize(
    ("expression", "samples", "said"),
    [
        ("a,1,2\nb,3,4\n", "1,2\n", "2 samples, but samples.csv describes 1"),
        ("a,1,2\na,3,4\n", "1,2\n1,4\n", "a gene is there twice"),
        ("a,1,2\nb,3,x\n", "1,2\n1,4\n", "must be numbers"),
        ("a,1,2\nb,3,4\n", "1,2\n3,4\n", "numbered 1, 2"),
    ],
)
def test_a_table_that_does_not_fit_its_samples_is_refused(tmp_path, monkeypatch, expression, samples, said):
    files = {EXPRESSION: tmp_path / "expression.csv", SAMPLES: tmp_path / "samples.csv"}
    files[EXPRESSION].write_text(expression)
    files[SAMPLES].write_text(samples)
    monkeypatch.setattr(genes, "path_of", files.__getitem__)
    with pytest.raises(DataFormatError, match=said):
        kalinka(genes=("a",))
