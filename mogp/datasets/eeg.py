"""Electroencephalograms: one second of the brain's voltage at electrodes on the scalp, with gaps to
be filled.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mogp.datasets.dataset import Dataset, Source
from mogp.datasets.draws import draw, rounded
from mogp.datasets.entry import Entry
from mogp.datasets.formats.archives import gunzip, read_members
from mogp.datasets.formats.delimited import parse_table, read_table
from mogp.datasets.formats.errors import DataFormatError
from mogp.datasets.gaps import Gaps, held_out, pattern_of
from mogp.datasets.making import made
from mogp.datasets.store import path_of

Floats = NDArray[np.float64]
Condition = Literal["S1 obj", "S2 match", "S2 nomatch"]

SAMPLES = 256
"""Of a trial: one second."""

ELECTRODES = (
    *(
        "FP1",
        "FP2",
        "F7",
        "F8",
        "AF1",
        "AF2",
        "FZ",
        "F4",
        "F3",
        "FC6",
        "FC5",
        "FC2",
        "FC1",
        "T8",
        "T7",
        "CZ",
    ),
    *(
        "C3",
        "C4",
        "CP5",
        "CP6",
        "CP1",
        "CP2",
        "P3",
        "P4",
        "PZ",
        "P8",
        "P7",
        "PO2",
        "PO1",
        "O2",
        "O1",
        "X",
    ),
    *(
        "AF7",
        "AF8",
        "F5",
        "F6",
        "FT7",
        "FT8",
        "FPZ",
        "FC4",
        "FC3",
        "C6",
        "C5",
        "F2",
        "F1",
        "TP8",
        "TP7",
        "AFZ",
    ),
    *(
        "CP3",
        "CP4",
        "P5",
        "P6",
        "C1",
        "C2",
        "PO7",
        "PO8",
        "FCZ",
        "POZ",
        "OZ",
        "P2",
        "P1",
        "CPZ",
        "nd",
        "Y",
    ),
)

ALCOHOLICS = (364, 365, 368, 369, 370, 371, 372, 375, 377, 378)
CONTROLS = (337, 338, 339, 340, 341, 342, 344, 345, 346, 347)

GAPS: dict[str, Gaps] = {
    "base": dict.fromkeys(("FZ", "F1", "F2"), (156, 256)),
    "diagnosis": {
        **dict.fromkeys(("FZ", "F1", "F2"), (150, 200)),
        **dict.fromkeys(("F3", "F4"), (200, 256)),
    },
    "failure": {
        **dict.fromkeys(("F3", "F4"), (100, 150)),
        **dict.fromkeys(("F1", "F2"), (150, 200)),
    },
    "cross-channel": dict.fromkeys(("F3", "F4"), (150, 200)),
    "long": dict.fromkeys(("F3", "F4", "F5"), (151, 256)),
    "bidirectional": {
        **dict.fromkeys(("FZ", "F1", "F2"), (150, 200)),
        **dict.fromkeys(("F3", "F4"), (50, 100)),
        **dict.fromkeys(("F5", "F6"), (100, 150)),
    },
    "bidirectional-short": {
        **dict.fromkeys(("FZ", "F1", "F2"), (175, 200)),
        **dict.fromkeys(("F3", "F4"), (50, 75)),
        **dict.fromkeys(("F5", "F6"), (100, 125)),
    },
}
GAPS["combined"] = GAPS["bidirectional"]

_LATERAL = ("F3", "F4", "F5", "F6", "FZ", "F1", "F2")
_MEDIAL = ("FZ", "F1", "F2", "F3", "F4", "F5", "F6")
ORDERS = {
    name: _MEDIAL for name in ("diagnosis", "bidirectional", "bidirectional-short", "combined")
}

FIRST_TRIALS = "eeg/smni_cmi_train_first_trial_16subjects.tar.gz"
"""First trials of the 16 subjects up to number 345 and 375."""
ALL_TRIALS = "eeg/SMNI_CMI_TRAIN.tar.gz"
"""Ten trials of each condition of all 20 subjects."""
TEN_TRIALS: dict[tuple[int, str], str] = {
    (337, "S1 obj"): "eeg/c_1_co2c0000337.tar.gz",
    (337, "S2 match"): "eeg/c_m_co2c0000337.tar.gz",
    (337, "S2 nomatch"): "eeg/c_n_co2c0000337.tar.gz",
    (364, "S1 obj"): "eeg/a_1_co2a0000364.tar.gz",
    (364, "S2 match"): "eeg/a_m_co2a0000364.tar.gz",
    (364, "S2 nomatch"): "eeg/a_n_co2a0000364.tar.gz",
}


def eeg(
    *,
    subject: int = 337,
    trial: int = 0,
    condition: Condition = "S1 obj",
    electrodes: Sequence[str] | None = None,
    missing: str | Gaps | None = "base",
) -> Dataset:
    """Voltage (µV) at seven frontal electrodes over one second, 256 samples (UCI EEG Database).

    Args:
        subject: 337 to 347 without 343 (controls), or 364 to 378 (alcoholics).
        trial: counts the trials of the subject under the condition; the documents use the first.
        condition: of the stimuli: one picture, or a second that matches the first or not.
        electrodes: the outputs, in order; None for the order of the experiment that `missing`
            names: F3, F4, F5, F6, FZ, F1, F2, or FZ, F1, …, F6 where gaps run backwards.
        missing: the targets to hold out, named after the experiment of Xia's: "base" (table 4.2),
            "diagnosis" (figure 3.2), "failure" (4.9a), "cross-channel" (4.9b), "long" (4.10b),
            "bidirectional" and "bidirectional-short" (4.11, subject 345), "combined" (4.13; its
            ranges are not given and taken to be those of "bidirectional"); or gaps as {electrode:
            (start, stop)}; or None.
    """
    _check(subject, trial, condition)
    return _dataset(
        "real",
        _real_trial(subject, trial, condition),
        subject,
        trial,
        condition,
        electrodes,
        missing,
    )


def eeg_standin(
    *,
    subject: int = 337,
    trial: int = 0,
    condition: Condition = "S1 obj",
    electrodes: Sequence[str] | None = None,
    missing: str | Gaps | None = "base",
) -> Dataset:
    """Synthetic voltages: smooth random waves that near electrodes share; options are those of
    `eeg`.
    """
    _check(subject, trial, condition)
    seed = [subject, trial, list(CONDITIONS).index(condition)]
    return _dataset(
        "stand-in",
        _waves(np.random.default_rng(seed)),
        subject,
        trial,
        condition,
        electrodes,
        missing,
    )


CONDITIONS: tuple[Condition, ...] = ("S1 obj", "S2 match", "S2 nomatch")


def _check(subject: int, trial: int, condition: str) -> None:
    if subject not in CONTROLS + ALCOHOLICS:
        raise ValueError(
            f"subject={subject}; there are {', '.join(map(str, CONTROLS + ALCOHOLICS))}."
        )
    if condition not in CONDITIONS:
        raise ValueError(
            f"condition={condition!r}; choose one of {', '.join(map(repr, CONDITIONS))}."
        )
    if not 0 <= trial < 10:
        raise ValueError(f"trial={trial}; there are ten of each condition, 0 to 9.")


def _dataset(
    source: Source,
    volts: dict[str, Floats],
    subject: int,
    trial: int,
    condition: Condition,
    electrodes: Sequence[str] | None,
    missing: str | Gaps | None,
) -> Dataset:
    gaps = pattern_of(missing, GAPS)
    chosen = (
        ORDERS.get(missing if isinstance(missing, str) else "", _LATERAL)
        if electrodes is None
        else electrodes
    )
    unknown = [name for name in chosen if name not in volts]
    if unknown or not chosen or len(set(chosen)) < len(chosen):
        raise ValueError(
            f"electrodes={tuple(chosen)}; choose different ones of {', '.join(volts)}."
        )
    which = "alcoholic" if subject in ALCOHOLICS else "control"
    return made(
        "eeg",
        source,
        f"voltage at {len(chosen)} electrodes over one second: {which} {subject}, trial {trial} of"
        f" {condition!r}",
        X=np.arange(SAMPLES)[:, None] / SAMPLES,
        Y=np.column_stack([volts[name] for name in chosen]),
        inputs=("time",),
        outputs=tuple(chosen),
        likelihoods=("Gaussian",),
        held_out=held_out(gaps, chosen, SAMPLES),
    )


def _real_trial(subject: int, trial: int, condition: Condition) -> dict[str, Floats]:
    sources = [TEN_TRIALS[subject, condition]] if (subject, condition) in TEN_TRIALS else []
    if (trial, condition) == (0, CONDITIONS[0]) and (subject <= 345 or 364 <= subject <= 375):
        sources.append(FIRST_TRIALS)
    path = path_of(*sources, ALL_TRIALS)
    trials = _trials(path, subject, condition)
    if trial >= len(trials):
        raise DataFormatError(
            path, f"holds {len(trials)} trials {condition!r} of subject {subject}, no trial {trial}"
        )
    return read_trial(*trials[trial])


def _trials(path: Path, subject: int, condition: Condition) -> list[tuple[bytes, str]]:
    """Texts and names of the subject's trials under the condition, in their order."""
    members = read_members(
        path, lambda name: f"co2{_group(subject)}0000{subject}" in name.rpartition("/")[2]
    )
    texts = (
        (gunzip(text, name) if name.endswith(".gz") else text, f"{path}:{name}")
        for name, text in members.items()
    )
    return [(text, name) for text, name in texts if _condition(text) == condition]


def _group(subject: int) -> str:
    return "a" if subject in ALCOHOLICS else "c"


def _condition(text: bytes) -> str:
    """As the header says (`# S1 obj , trial 0`), or in a table, its first row."""
    found = re.search(rb"S1 obj|S2 match|S2 nomatch", text[:1000])
    return found.group().decode() if found else ""


def read_trial(content: bytes, name: Path | str) -> dict[str, Floats]:
    """Voltages [256] of the 64 electrodes of a trial, in the published text format or as a CSV
    table of the same.
    """
    import pandas as pd

    if content.startswith(b"#"):
        table = parse_table(content, name, delimiter=None, header=False, columns=4, comment="#")
        table.columns = ["trial number", "sensor position", "sample num", "sensor value"]
    else:
        table = parse_table(content, name, index=True)
    needed = {"sensor position", "sample num", "sensor value"}
    if not needed <= set(table.columns):
        raise DataFormatError(
            name, f"lacks the columns {', '.join(sorted(needed - set(table.columns)))}"
        )
    sample, value = table["sample num"].to_numpy(), table["sensor value"].to_numpy()
    if sample.dtype.kind != "i" or value.dtype.kind not in "if":
        raise DataFormatError(name, "holds samples or values that are not numbers")
    code, electrodes = pd.factorize(table["sensor position"])
    if len(electrodes) != len(ELECTRODES) or not ((sample >= 0) & (sample < SAMPLES)).all():
        raise DataFormatError(
            name, f"has {len(electrodes)} electrodes; expected 64, each with samples 0 to 255"
        )
    place = code * SAMPLES + sample
    if len(place) != 64 * SAMPLES or len(np.unique(place)) != len(place):
        raise DataFormatError(name, "has a sample twice, or lacks one")
    volts = np.empty(len(place))
    volts[place] = value
    return dict(zip(map(str, electrodes), volts.reshape(64, SAMPLES), strict=True))


def _waves(rng: np.random.Generator) -> dict[str, Floats]:
    """Nine waves of 20 to 200 ms, each loaded on an area of the scalp, and a little of an
    electrode's own.

    Voltages come in steps of 0.488 µV, as the recorder's do.
    """
    time = np.arange(SAMPLES)[:, None] / SAMPLES
    places = np.array([_place(name) for name in ELECTRODES])
    waves = np.column_stack(
        [draw(time, lengthscale, rng) for lengthscale in (*np.linspace(0.02, 0.06, 8), 0.2)]
    )
    loads = np.column_stack([1.0 + 0.6 * draw(places, 2.5, rng) for _ in range(9)]) * (
        *(1.5,) * 8,
        3.0,
    )
    noise = rng.standard_normal((SAMPLES + 2, len(ELECTRODES)))
    own = noise[:-2] + 2.0 * noise[1:-1] + noise[2:]
    volts = rounded(np.round((waves @ loads.T + 0.3 * own) / 0.488) * 0.488)
    return dict(zip(ELECTRODES, volts.T, strict=True))


def _place(name: str) -> tuple[float, float]:
    """Left (-) to right and front (-) to back, from the letters and the number: odd is left, even
    right, Z middle.
    """
    letters = name.rstrip("0123456789Z")
    side = int("0" + "".join(filter(str.isdigit, name)))
    rows = {
        "FP": -4,
        "AF": -3,
        "F": -2,
        "FC": -1,
        "FT": -1,
        "C": 0,
        "T": 0,
        "CP": 1,
        "TP": 1,
        "P": 2,
        "PO": 3,
        "O": 4,
    }
    return (side + 1) // 2 * (-1.0 if side % 2 else 1.0), float(rows.get(letters, 5))


ENTRIES = {"eeg": Entry(eeg, standin=eeg_standin)}


def _shape_of_trials(path: Path) -> str:
    trials = [
        read_trial(gunzip(text, name) if name.endswith(".gz") else text, f"{path}:{name}")
        for name, text in read_members(path).items()
    ]
    sizes = {(len(volts), len(samples)) for volts in trials for samples in volts.values()}
    unit = "subjects" if path.name == Path(FIRST_TRIALS).name else "trials"
    return f"{len(trials)} {unit} x " + ", ".join(
        f"{electrodes} x {samples}" for electrodes, samples in sorted(sizes)
    )


def _shape_of_table(path: Path) -> str:
    table = read_table(path, index=True)
    return f"{len(table)} x {table.shape[1]}"


SHAPES: dict[str, Callable[[Path], str]] = {
    "eeg/*.tar.gz": _shape_of_trials,
    "eeg/*.csv": _shape_of_table,
}
