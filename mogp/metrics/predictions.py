"""Scores of means, densities, draws and classes: NumPy arrays in, a float out."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def nlpd(log_density: ArrayLike) -> float:
    r"""Negative log predictive density, $-\frac1N\sum_n \log p(y_n)$.

    Args:
        log_density: the log densities $\log p(y_n)$, any shape.

    >>> from mogp.metrics import nlpd
    >>> nlpd([-1.0, -2.0])
    1.5
    """
    (log_p,) = _same_shape(log_density=log_density)
    return float(-np.mean(log_p))


def hll(log_density: ArrayLike, *, scale: float = 1.0, average: bool = False) -> float:
    r"""Held-out log-likelihood, $\sum_n \log\frac1S\sum_s p_s(y_n) - N\log\text{scale}$.

    Args:
        log_density: $\log p_s(y_n)$, [S, N], for $S$ sampled paths, or [N] for one density.
        scale: what the targets were divided by before the model saw them; the likelihood is then
            that of the targets in their own units.
        average: divide by $N$.

    >>> import numpy as np
    >>> from mogp.metrics import hll
    >>> paths = np.log([[0.2, 0.5], [0.4, 0.5]])
    >>> round(hll(paths), 3)
    -1.897
    """
    log_p = _finite("log_density", log_density)
    if log_p.ndim not in (1, 2):
        raise ValueError(
            f"log_density has shape {log_p.shape}; expected (points,) or (paths, points)."
        )
    if not scale > 0:
        raise ValueError(
            f"scale is {scale}; expected the positive number that the targets were divided by."
        )
    # Densities of paths are averaged in logarithms: they may be too small to exponentiate.
    paths = np.atleast_2d(log_p)
    points = np.logaddexp.reduce(paths, axis=0) - np.log(len(paths)) - np.log(scale)
    return float(np.mean(points) if average else np.sum(points))


def rmse(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Root mean squared error, $\sqrt{\frac1N\sum_n (y_n - \hat y_n)^2}$.

    Args:
        y: targets, any shape.
        mean: predictions $\hat y$, of the same shape.

    >>> from mogp.metrics import rmse
    >>> rmse([1.0, 2.0], [3.0, 0.0])
    2.0
    """
    y, mean = _same_shape(y=y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def smse(
    y: ArrayLike,
    mean: ArrayLike,
    *,
    reference: Literal["test", "train"] = "test",
    y_train: ArrayLike | None = None,
) -> float:
    r"""Standardised mean squared error of one output.

    $$\sum_n (y_n - \hat y_n)^2 \Big/ \sum_n (y_n - \bar y)^2.$$

    Args:
        y: targets, any shape.
        mean: predictions $\hat y$, of the same shape.
        reference: "test" if $\bar y$ is the mean of `y`, "train" if it is that of `y_train`.
        y_train: training targets, with `reference="train"`.

    >>> from mogp.metrics import smse
    >>> smse([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])
    0.5
    """
    y, mean = _same_shape(y=y, mean=mean)
    if reference not in ("test", "train"):
        raise ValueError(f'reference is {reference!r}; expected "test" or "train".')
    if (reference == "train") != (y_train is not None):
        raise ValueError('give y_train if, and only if, reference="train".')
    centre = np.mean(y) if y_train is None else np.mean(_finite("y_train", y_train))
    spread = np.sum((y - centre) ** 2)
    if spread == 0:
        raise ValueError(
            f"all {y.size} targets equal the reference {centre}: the score has no scale. Use rmse"
            " instead."
        )
    return float(np.sum((y - mean) ** 2) / spread)


def nmse(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Normalised mean squared error, $1 - R^2$, over all outputs at once.

    It is `smse` with the test mean; `smse` is usually taken of each output and averaged.

    Args:
        y: targets, any shape.
        mean: predictions $\hat y$, of the same shape.

    >>> from mogp.metrics import nmse
    >>> nmse([[0.0, 1.0], [2.0, 3.0]], [[0.0, 1.0], [2.0, 2.0]])
    0.2
    """
    return smse(y, mean)


def r2(y: ArrayLike, mean: ArrayLike) -> float:
    r"""Coefficient of determination, $R^2$.

    $$R^2 = 1 - \sum_n (y_n - \hat y_n)^2 \Big/ \sum_n (y_n - \bar y)^2.$$

    Args:
        y: targets, any shape.
        mean: predictions $\hat y$, of the same shape.

    >>> from mogp.metrics import r2
    >>> r2([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])
    0.5
    """
    return 1.0 - smse(y, mean)


def weighted_precision(labels: ArrayLike, predicted: ArrayLike) -> float:
    r"""Precision weighted by class, $\sum_l \frac{n_l}{N} P_l$.

    $P_l$ is the share of the rows predicted as class $l$ that are of it (0 if there are none),
    $n_l$ the number of rows of class $l$.

    Args:
        labels: true classes, any shape.
        predicted: predicted classes, of the same shape.

    >>> from mogp.metrics import weighted_precision
    >>> round(weighted_precision([0, 0, 1, 1], [0, 1, 1, 1]), 3)
    0.833
    """
    return _weighted("precision", labels, predicted)


def weighted_recall(labels: ArrayLike, predicted: ArrayLike) -> float:
    r"""Recall weighted by class, $\sum_l \frac{n_l}{N} R_l$, which is the accuracy.

    $R_l$ is the share of the rows of class $l$ that are predicted as such.

    Args:
        labels: true classes, any shape.
        predicted: predicted classes, of the same shape.

    >>> from mogp.metrics import weighted_recall
    >>> weighted_recall([0, 0, 1, 1], [0, 1, 1, 1])
    0.75
    """
    return _weighted("recall", labels, predicted)


def weighted_f1(labels: ArrayLike, predicted: ArrayLike) -> float:
    r"""F1 weighted by class, $\sum_l \frac{n_l}{N} \frac{2 P_l R_l}{P_l + R_l}$.

    A class whose denominator is 0 has F1 0.

    Args:
        labels: true classes, any shape.
        predicted: predicted classes, of the same shape.

    >>> from mogp.metrics import weighted_f1
    >>> round(weighted_f1([0, 0, 1, 1], [0, 1, 1, 1]), 3)
    0.733
    """
    return _weighted("f1", labels, predicted)


def _weighted(
    score: Literal["precision", "recall", "f1"], labels: ArrayLike, predicted: ArrayLike
) -> float:
    from sklearn.metrics import precision_recall_fscore_support

    true, guessed = _same_shape(labels=labels, predicted=predicted)
    scores = precision_recall_fscore_support(
        true.ravel(), guessed.ravel(), average="weighted", zero_division=0
    )
    return float(scores[("precision", "recall", "f1").index(score)])


def auc(labels: ArrayLike, scores: ArrayLike) -> float:
    r"""Area under the ROC curve.

    For $C$ classes it is each against the rest, $\sum_k \frac{n_k}{N}\mathrm{AUC}_k$; classes
    without a row have weight zero.

    Args:
        labels: [N], classes 0..C-1.
        scores: [N] or [N, 1], of class 1 against class 0; or [N, C], one column for each class.

    >>> from mogp.metrics import auc
    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    from sklearn.metrics import roc_auc_score

    true, score = _finite("labels", labels).ravel(), _finite("scores", scores)
    score = score[:, None] if score.ndim == 1 else score
    if score.ndim != 2 or len(score) != len(true):
        raise ValueError(
            f"scores have shape {np.shape(scores)} for {len(true)} labels; expected (rows,) or"
            " (rows, classes)."
        )
    classes = max(2, score.shape[1])
    present, counts = np.unique(true, return_counts=True)
    if not np.all(np.isin(present, np.arange(classes))):
        raise ValueError(
            f"labels are {present.tolist()}; expected whole numbers from 0 to {classes - 1}."
        )
    if len(present) == 1:
        raise ValueError(
            f"all {len(true)} labels are {present[0]:g}: the ROC curve needs rows of at least two"
            " classes."
        )
    if score.shape[1] == 1:
        return float(roc_auc_score(true, score[:, 0]))
    each = [roc_auc_score(true == k, score[:, int(k)]) for k in present]
    return float(np.average(each, weights=counts))


def crps(y: ArrayLike, samples: ArrayLike) -> float:
    r"""Continuous ranked probability score, from draws.

    $$\frac1N\sum_n (\mathbb E|Y_n - y_n| - \tfrac12\mathbb E|Y_n - Y_n'|).$$

    A proper score in the units of the targets, for any likelihood with ordered targets (real,
    positive, counts; for 0 and 1 it is the Brier score). It is unbiased: the second expectation is
    over pairs of different draws.

    Args:
        y: [N] targets (any shape).
        samples: [S, N], $S \ge 2$ draws of $Y_n$, such as `model.predict_y_samples` gives.

    >>> from mogp.metrics import crps
    >>> round(crps([1.0], [[0.0], [2.0], [4.0]]), 3)
    0.333
    """
    target, draws = _finite("y", y), _finite("samples", samples)
    if draws.shape[1:] != target.shape or len(draws) < 2:
        raise ValueError(
            f"samples have shape {draws.shape}; expected at least two draws, (draws, *y.shape) ="
            f" (draws, *{target.shape})."
        )
    count = len(draws)
    ranked = np.sort(draws, axis=0)
    # The sum of |a - b| over all pairs, from sorted draws: O(S log S), with no table of pairs.
    place = (2 * np.arange(1, count + 1) - count - 1).reshape(-1, *[1] * target.ndim)
    spread = 2 * np.sum(place * ranked, axis=0) / (count * (count - 1))
    return float(np.mean(np.mean(np.abs(draws - target), axis=0) - 0.5 * spread))


def brier(labels: ArrayLike, probabilities: ArrayLike) -> float:
    r"""Brier score, a proper score of class probabilities.

    It is $\frac1N\sum_n (p_n - y_n)^2$ for two classes, and
    $\frac1N\sum_n\sum_k (p_{nk} - \mathbb 1[y_n = k])^2$ for more.

    Args:
        labels: [N], classes 0..C-1.
        probabilities: [N] or [N, 1], of class 1; or [N, C].

    >>> from mogp.metrics import brier
    >>> brier([0, 1], [0.5, 1.0])
    0.125
    """
    true, p = _finite("labels", labels).ravel(), _finite("probabilities", probabilities)
    p = p[:, None] if p.ndim == 1 else p
    if p.ndim != 2 or len(p) != len(true):
        raise ValueError(
            f"probabilities have shape {np.shape(probabilities)} for {len(true)} labels; expected"
            " (rows,) or (rows, classes)."
        )
    if np.any(p < 0) or np.any(p > 1):
        raise ValueError(
            f"probabilities run from {p.min():.3g} to {p.max():.3g}; expected numbers from 0 to 1."
        )
    classes = max(2, p.shape[1])
    if not np.all(np.isin(true, np.arange(classes))):
        raise ValueError(
            f"labels are {np.unique(true).tolist()}; expected whole numbers from 0 to"
            f" {classes - 1}."
        )
    if p.shape[1] == 1:
        return float(np.mean((p[:, 0] - true) ** 2))
    return float(np.mean(np.sum((p - (true[:, None] == np.arange(classes))) ** 2, axis=1)))


def interval_coverage(y: ArrayLike, lower: ArrayLike, upper: ArrayLike) -> float:
    r"""The share of targets inside their intervals, $\frac1N\sum_n \mathbb 1[l_n \le y_n \le u_n]$.

    Args:
        y: targets, any shape.
        lower: lower ends $l$, of the same shape.
        upper: upper ends $u$, of the same shape.

    >>> from mogp.metrics import interval_coverage
    >>> interval_coverage([0.0, 1.0, 5.0, 2.0], [-1.0] * 4, [3.0] * 4)
    0.75
    """
    y, low, high = _same_shape(y=y, lower=lower, upper=upper)
    return float(np.mean((low <= y) & (y <= high)))


def coverage(y: ArrayLike, samples: ArrayLike, level: float = 0.95) -> float:
    r"""The share of targets inside central intervals of predictive draws.

    The interval of a point runs from the $\frac{1-\text{level}}2$ to the
    $\frac{1+\text{level}}2$ quantile of its draws, ends included.

    Args:
        y: [N] targets (any shape).
        samples: [S, N], $S$ draws of the same shape.
        level: the share of the draws that an interval holds.

    >>> import numpy as np
    >>> from mogp.metrics import coverage
    >>> samples = np.linspace(0, 10, 101)[:, None].repeat(4, axis=1)
    >>> coverage([1.0, 3.0, 6.0, 9.0], samples, level=0.5)
    0.5
    """
    if not 0 < level < 1:
        raise ValueError(f"level is {level}; expected a number between 0 and 1, such as 0.95.")
    target, draws = _finite("y", y), _finite("samples", samples)
    if draws.shape[1:] != target.shape:
        raise ValueError(
            f"samples have shape {draws.shape}; expected (draws, *y.shape) = (draws,"
            f" *{target.shape})."
        )
    lower, upper = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return interval_coverage(target, lower, upper)


def calibration_curve(
    y: ArrayLike, samples: ArrayLike, levels: ArrayLike | None = None
) -> tuple[Array, Array]:
    """Coverage at several levels: the two are equal if predictions are calibrated.

    Args:
        y: [N] targets (any shape).
        samples: [S, N], $S$ draws of the same shape.
        levels: [K]; 0.05, 0.10, ..., 0.95 if None.

    Returns:
        The levels and the `coverage` at each, [K].

    >>> import numpy as np
    >>> from mogp.metrics import calibration_curve
    >>> samples = np.linspace(0, 10, 101)[:, None].repeat(4, axis=1)
    >>> levels, covered = calibration_curve([1.0, 3.0, 6.0, 9.0], samples, levels=[0.5, 0.9])
    >>> covered.tolist()
    [0.5, 1.0]
    """
    chosen = np.linspace(0.05, 0.95, 19) if levels is None else _finite("levels", levels).ravel()
    return chosen, np.array([coverage(y, samples, level) for level in chosen])


def _same_shape(**arrays: ArrayLike) -> list[Array]:
    """The arrays, finite, not empty and of one shape."""
    checked = {name: _finite(name, array) for name, array in arrays.items()}
    if len({array.shape for array in checked.values()}) > 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in checked.items())
        raise ValueError(f"shapes differ: {shapes}; give arrays of one shape.")
    return list(checked.values())


def _finite(name: str, array: ArrayLike) -> Array:
    numbers = np.asarray(array, dtype=np.float64)
    if numbers.size == 0:
        raise ValueError(f"{name} is empty (shape {numbers.shape}); there is nothing to score.")
    bad = np.argwhere(~np.isfinite(numbers))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        raise ValueError(
            f"{name} has {len(bad)} non-finite value{'s' if len(bad) > 1 else ''}, first at {at}"
            f" ({numbers[at]}); drop those points or find out why they were predicted."
        )
    return numbers
