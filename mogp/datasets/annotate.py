"""Simulated annotators whose skill depends on the input and on one another (Giraldo, paper L;
specification §9.2).

For a coordinate x in [0, 1] of a row, Q = 3 curves μ_q(x) are mixed by weights w, one column for
each of R annotators: f_r = Σ_q w_qr μ_q(x). For classes, λ_r = 1 / (1 + exp(-f_r)) is the
annotator's reliability: the label is right where λ_r >= 1/2 and wrong elsewhere. For values,
exp(f_r) is the variance of the annotator's noise.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from mogp.datasets.dataset import Dataset
from mogp.datasets.draws import Floats, rounded

Embedding = Literal["tsne", "input", "pca"]

W_CLASSES = np.array(
    [[0.4, 0.7, -0.5, 0.0, -0.7], [0.4, -1.0, -0.1, -0.8, 1.0], [3.1, -1.8, -0.6, -1.2, 1.0]]
)
W_VALUES = np.array(
    [
        [-0.10, 0.01, -0.05, 0.01, -0.01],
        [0.10, -0.01, 0.01, -0.05, 0.05],
        [-2.3, -1.77, 0.54, 0.9, 1.42],
    ]
)
TSNE_ROWS = 5000
"""Above this, t-SNE is fitted to `TSNE_SAMPLE` rows, and the others get the mean of their five
nearest neighbours.
"""
TSNE_SAMPLE = 2000


def annotate_classes(
    dataset: Dataset, *, seed: int = 0, embedding: Embedding = "tsne", W: Floats = W_CLASSES
) -> Dataset:
    """The data set with the labels that R annotators give (SLFM-C).

    Adds to `per_row`: "annotations" [N, R], class numbers, NaN where the published split holds the
    row out, and "reliability" [N, R], λ. An unreliable annotator of K > 2 classes names one of the
    others, all as likely.

    Args:
        dataset: with one output, whose targets are class numbers.
        seed: of the wrong labels and of the embedding.
        embedding: how a row gets its coordinate: "tsne" (the specification's), "pca" (its first
            principal component) or "input" (the input itself, where there is only one; "tsne" does
            the same then). It is stretched to [0, 1].
        W: [3, R] weights.
    """
    K = len(dataset.classes.get(dataset.outputs[0], ()))
    if len(dataset.outputs) != 1 or K < 2:
        raise ValueError(
            f"{dataset.name} has outputs {', '.join(dataset.outputs)}; annotate_classes needs a"
            " single one that has classes. For real-valued targets use annotate_values."
        )
    x, rng = _coordinate(dataset, embedding, seed), np.random.default_rng(seed)
    reliability = rounded(1.0 / (1.0 + np.exp(-(_class_curves(x) @ _weights(W)))))
    shift = rng.integers(1, K, reliability.shape)
    labels = np.where(reliability >= 0.5, dataset.Y, (dataset.Y + shift) % K)
    return _annotated(dataset, labels, reliability=reliability)


def annotate_values(
    dataset: Dataset, *, seed: int = 0, embedding: Embedding = "tsne", W: Floats = W_VALUES
) -> Dataset:
    """The data set with the values that R annotators give (SLFM-R): the target plus N(0, exp f_r).

    Adds to `per_row`: "annotations" [N, R], NaN where the published split holds the row out, and
    "variance" [N, R]. The variances suit targets of unit standard deviation. The arguments are
    those of `annotate_classes`.
    """
    if len(dataset.outputs) != 1 or dataset.classes:
        raise ValueError(
            f"{dataset.name} has outputs"
            f" {', '.join(dataset.outputs)}{' with classes' if dataset.classes else ''};"
            " annotate_values needs a single real-valued one."
        )
    x, rng = _coordinate(dataset, embedding, seed), np.random.default_rng(seed)
    variance = rounded(np.exp(_value_curves(x) @ _weights(W)))
    values = rounded(dataset.Y + np.sqrt(variance) * rng.standard_normal(variance.shape))
    return _annotated(dataset, values, variance=variance)


def _annotated(dataset: Dataset, annotations: Floats, **per_row: Floats) -> Dataset:
    held_out = (
        np.zeros(len(dataset), bool)
        if dataset.held_out is None
        else dataset.held_out.reshape(len(dataset))
    )
    annotations = np.where(held_out[:, None], np.nan, annotations)
    return replace(dataset, per_row={**dataset.per_row, "annotations": annotations, **per_row})


def _class_curves(x: Floats) -> Floats:
    first = 4.5 * np.cos(2.0 * np.pi * x + 1.5 * np.pi) - 3.0 * np.sin(
        4.3 * np.pi * x + 0.3 * np.pi
    )
    second = 4.5 * np.cos(1.5 * np.pi * x + 0.5 * np.pi) + 5.0 * np.sin(
        3.0 * np.pi * x + 1.5 * np.pi
    )
    return np.column_stack([first, second, np.ones_like(x)])


def _value_curves(x: Floats) -> Floats:
    first = 4.0 * np.cos(7.0 * np.pi * x + 2.4 * np.pi)
    second = -4.5 * np.cos(8.0 * np.pi * x + 0.25 * np.pi)
    curves: Floats = _class_curves(x) + np.column_stack([first, second, np.zeros_like(x)])
    return curves


def _weights(W: Floats) -> Floats:
    W = np.asarray(W, np.float64)
    if W.ndim != 2 or W.shape[0] != 3 or not np.isfinite(W).all():
        raise ValueError(
            f"W has shape {W.shape}; expected finite weights [3, R], a column for each annotator."
        )
    return W


def _coordinate(dataset: Dataset, embedding: Embedding, seed: int) -> Floats:
    """A coordinate [N] in [0, 1] of every row."""
    X, P = dataset.dense().X, dataset.X.shape[1]
    if embedding not in ("tsne", "input", "pca"):
        raise ValueError(f'embedding={embedding!r}; expected "tsne", "input" or "pca".')
    if embedding == "input" and P != 1:
        raise ValueError(
            f'{dataset.name} has {P} inputs; embedding="input" needs one. Use "tsne" or "pca".'
        )
    x = X[:, 0] if P == 1 else _first_component(X) if embedding == "pca" else _tsne(X, seed)
    span = np.ptp(x)
    coordinate: Floats = (x - x.min()) / (span if span > 0.0 else 1.0)
    return coordinate


def _first_component(X: Floats) -> Floats:
    from sklearn.decomposition import PCA

    scores: Floats = PCA(1, svd_solver="covariance_eigh").fit_transform(X)[:, 0]
    return scores


def _tsne(X: Floats, seed: int) -> Floats:
    from sklearn.manifold import TSNE
    from sklearn.neighbors import KNeighborsRegressor
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

    N = len(X)
    sample = np.arange(N)
    if N > TSNE_ROWS:
        sample = np.sort(np.random.default_rng(seed).choice(N, TSNE_SAMPLE, replace=False))
    perplexity = min(30.0, max(1.0, (len(sample) - 1) / 3))
    tsne = TSNE(1, perplexity=perplexity, init="pca", random_state=seed, n_jobs=1)
    with threadpool_limits(
        1
    ):  # n_jobs does not hold back OpenMP: more threads take nine times the CPU time
        x: Floats = tsne.fit_transform(X[sample])[:, 0].astype(np.float64)
    if N > TSNE_ROWS:
        x = KNeighborsRegressor(5, weights="distance").fit(X[sample], x).predict(X)
    return x
