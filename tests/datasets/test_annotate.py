from __future__ import annotations

import numpy as np
import pytest

from mogp.datasets import Dataset, annotate
from mogp.datasets.annotate import annotate_classes, annotate_values


def table(N=200, P=1, K=3, held_out=None, scale=1.0):
    rng = np.random.default_rng(5)
    X = scale * rng.uniform(size=(N, P))
    X[:2] = [[0.0] * P, [scale] * P]
    fields = {"X": X, "inputs": ("x",), "held_out": held_out}
    if K:
        Y = rng.integers(K, size=(N, 1)).astype(float)
        classes = {"y": tuple("abcdefg"[:K])}
        return Dataset(
            "t", "synthetic", "", "", "", Y=Y, outputs=("y",), likelihoods=("Softmax",), classes=classes, **fields
        )
    Y = rng.standard_normal((N, 1))
    return Dataset("t", "synthetic", "", "", "", Y=Y, outputs=("y",), likelihoods=("Gaussian",), **fields)


def curves(x, kind):
    """The formulas of the specification, one input and one annotator at a time."""
    from math import cos, pi, sin

    mu1 = 4.5 * cos(2 * pi * x + 1.5 * pi) - 3 * sin(4.3 * pi * x + 0.3 * pi)
    mu2 = 4.5 * cos(1.5 * pi * x + 0.5 * pi) + 5 * sin(3 * pi * x + 1.5 * pi)
    if kind == "R":
        mu1 += 4 * cos(7 * pi * x + 2.4 * pi)
        mu2 -= 4.5 * cos(8 * pi * x + 0.25 * pi)
    return mu1, mu2, 1.0


W_C = """0.4  0.7 -0.5  0.0 -0.7
 0.4 -1.0 -0.1 -0.8  1.0
 3.1 -1.8 -0.6 -1.2  1.0"""
W_R = """-0.10  0.01 -0.05  0.01 -0.01
 0.10 -0.01  0.01 -0.05  0.05
-2.3  -1.77  0.54  0.9   1.42"""


def mixed(X, kind, printed):
    W = [[float(w) for w in row.split()] for row in printed.splitlines()]
    return np.array([[sum(m * W[q][r] for q, m in enumerate(curves(x, kind))) for r in range(5)] for x in X[:, 0]])


def test_reliabilities_and_variances_are_the_printed_formulas():
    classes, values = annotate_classes(table()), annotate_values(table(K=0))
    f = mixed(classes.X, "C", W_C)
    np.testing.assert_allclose(classes.per_row["reliability"], 1 / (1 + np.exp(-f)), atol=1e-8)
    np.testing.assert_allclose(values.per_row["variance"], np.exp(mixed(values.X, "R", W_R)), rtol=1e-7)


@pytest.mark.parametrize("K", [2, 3, 7])
def test_labels_are_right_exactly_where_the_annotator_is_reliable(K):
    data = annotate_classes(table(N=4000, K=K))
    labels, reliable = data.per_row["annotations"], data.per_row["reliability"] >= 0.5
    np.testing.assert_array_equal(labels == data.Y, reliable)
    assert set(np.unique(labels)) == set(range(K))
    wrong = (labels - data.Y)[~reliable] % K
    shares = np.bincount(wrong.astype(int), minlength=K)[1:] / len(wrong)
    np.testing.assert_allclose(shares, 1 / (K - 1), atol=0.03)


def test_noise_of_values_has_the_stated_variance():
    data = annotate_values(table(N=20000, K=0))
    standard = (data.per_row["annotations"] - data.Y) / np.sqrt(data.per_row["variance"])
    np.testing.assert_allclose(standard.mean(axis=0), 0.0, atol=0.03)
    np.testing.assert_allclose(standard.var(axis=0), 1.0, atol=0.04)


def test_held_out_rows_are_not_annotated_and_keep_their_reliability():
    held_out = np.arange(200) >= 150
    data = annotate_classes(table(held_out=held_out))
    np.testing.assert_array_equal(np.isnan(data.per_row["annotations"]).all(axis=1), held_out)
    assert np.isfinite(data.per_row["reliability"]).all()


def test_one_input_is_stretched_to_the_unit_interval():
    near, far = annotate_classes(table()), annotate_classes(table(scale=50.0))
    np.testing.assert_allclose(near.per_row["reliability"], far.per_row["reliability"], atol=1e-8)


@pytest.mark.parametrize("embedding", ["pca", "tsne"])
def test_many_inputs_are_embedded_reproducibly(embedding):
    data = table(N=60, P=4)
    first, second = (annotate_classes(data, embedding=embedding, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.per_row["annotations"], second.per_row["annotations"])
    assert first.digest == data.digest


def test_pca_coordinate_is_the_first_left_singular_vector_stretched():
    data = table(N=80, P=3)
    first = np.linalg.svd(data.X - data.X.mean(0), full_matrices=False)[0][:, 0]
    coordinate = annotate._coordinate(data, "pca", 0)
    assert (coordinate.min(), coordinate.max()) == (0.0, 1.0)
    assert abs(np.corrcoef(coordinate, first)[0, 1]) > 1 - 1e-9


def test_large_tables_are_embedded_through_a_sample(monkeypatch):
    monkeypatch.setattr(annotate, "TSNE_ROWS", 100)
    monkeypatch.setattr(annotate, "TSNE_SAMPLE", 40)
    coordinate = annotate._coordinate(table(N=300, P=2), "tsne", 0)
    assert coordinate.shape == (300,)
    assert (coordinate.min(), coordinate.max()) == (0.0, 1.0)


def test_weights_may_be_overridden():
    always = annotate_classes(table(), W=np.array([[0.0], [0.0], [5.0]]))
    np.testing.assert_array_equal(always.per_row["annotations"], always.Y)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: annotate_classes(table(K=0)), "annotate_values"),
        (lambda: annotate_values(table()), "with classes"),
        (lambda: annotate_classes(table(P=2), embedding="input"), "2 inputs"),
        (lambda: annotate_classes(table(), embedding="umap"), "umap"),
        (lambda: annotate_classes(table(), W=np.zeros((2, 5))), r"\[3, R\]"),
        (lambda: annotate_values(table(K=0), W=np.full((3, 5), np.nan)), "finite"),
    ],
)
def test_what_cannot_be_annotated_is_refused(call, words):
    with pytest.raises(ValueError, match=words):
        call()
