"""The fully synthetic data of many annotators: one input, simulated annotators (Giraldo, §9.2,
§9.3).
"""

from __future__ import annotations

import numpy as np

from mogp.datasets.annotate import annotate_classes, annotate_values
from mogp.datasets.dataset import Array, Dataset
from mogp.datasets.draws import rounded
from mogp.datasets.entry import Entry
from mogp.datasets.making import made


def annotators_synth_class(*, N: int = 1000, test: int = 2000, seed: int = 0) -> Dataset:
    """Three classes over [0, 1], labelled by five annotators whose skill changes with x (paper L,
    figures 1 and 2).

    The class is the largest of sin 2πx, -sin 2πx and 0.5 - sin 2π(x + 1/4). N inputs are uniform,
    and `test` equally spaced ones are held out and not annotated. The text says 1000 and 2000, the
    defaults; its table II says 100, and an earlier draft 100 and 200. `seed` draws inputs and wrong
    labels. `per_row` has "annotations" and "reliability", with a column for each annotator.
    """
    x, held_out = _places(N, test, seed)
    phase = 2.0 * np.pi * x
    scores = np.hstack([np.sin(phase), -np.sin(phase), 0.5 - np.sin(phase + 0.5 * np.pi)])
    dataset = made(
        "annotators-synth-class",
        "synthetic",
        f"three classes over [0, 1], {N} points labelled by five annotators, {test} held out",
        "J. J. Giraldo (2021), paper L, figure 1",
        X=x,
        Y=scores.argmax(axis=1)[:, None].astype(float),
        inputs=("x",),
        outputs=("class",),
        likelihoods=("Softmax",),
        held_out=held_out,
        classes={"class": ("1", "2", "3")},
    )
    return annotate_classes(dataset, seed=seed, embedding="input")


def annotators_synth_reg(*, N: int = 100, test: int = 1000, seed: int = 0) -> Dataset:
    """The curve sin 2πx sin 6πx, told by five annotators whose noise changes with x (paper L,
    figures 3 and 4).

    N inputs are uniform on [0, 1], and `test` equally spaced ones (how many is not stated) are held
    out and not annotated. `seed` draws inputs and noise. `per_row` has "annotations" and the
    "variance" of their noise, with a column for each annotator.
    """
    x, held_out = _places(N, test, seed)
    dataset = made(
        "annotators-synth-reg",
        "synthetic",
        f"a curve over [0, 1], {N} points told by five annotators, {test} held out",
        "J. J. Giraldo (2021), paper L, figure 3",
        X=x,
        Y=rounded(np.sin(2.0 * np.pi * x) * np.sin(6.0 * np.pi * x)),
        inputs=("x",),
        outputs=("y",),
        likelihoods=("Gaussian",),
        held_out=held_out,
    )
    return annotate_values(dataset, seed=seed, embedding="input")


def _places(N: int, test: int, seed: int) -> tuple[Array, Array]:
    """Inputs [N + test, 1] and which of them are held out."""
    if N < 1 or test < 2:
        raise ValueError(f"N={N}, test={test}; expected at least one training and two test points.")
    x = np.concatenate(
        [np.sort(np.random.default_rng([seed, 9]).uniform(size=N)), np.linspace(0.0, 1.0, test)]
    )
    return x[:, None], np.repeat([False, True], [N, test])


ENTRIES = {
    "annotators-synth-class": Entry(annotators_synth_class),
    "annotators-synth-reg": Entry(annotators_synth_reg),
}
