"""`calibration`: can the bands and probabilities of a fitted model be trusted?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import beta, norm

from mogp.data import Array, LabelData, MultiOutputData
from mogp.training.evidence import Evidence, evidence, some_of

LEVELS = (0.5, 0.8, 0.95)
"""Shares that the bands of `Calibration.table` promise."""
NARROW, WIDE = 0.90, 0.98
"""A band of 95 % is reported when it certainly holds less, or more, than this."""
HALF = 0.1
"""A band of 50 % is reported when its share is certainly further than this from a half."""
LITTLE = 0.01
"""A gain of log density, in nats a target, that is not worth a model."""
FEW = 10
"""With fewer rows an output is not judged."""
_DOUBT = 0.05
_OFF = 0.05


@dataclass(frozen=True)
class Calibration:
    """How predictions compare with targets, output by output; `str()` says it in words.

    Attributes:
        table: a row for each output. `kind` of its targets; `how` predictions came about ("left
            out": each target predicted by the others; "held out"; "seen": the model was trained on
            it, so that bands cannot be judged); `rows` looked at; mean `log density` of a target,
            `constant` that of the constant prediction that fits the training targets best, `gain`
            their difference with standard error `±`; `50 %`, `80 %`, `95 %`: share of targets
            inside these bands, with `low` and `high`, a 95 % interval of the last; for classes and
            labels `confidence`, the mean probability of what was thought most probable (or of the
            labels), `right`, how often that was so, `error`, the expected calibration error over
            ten groups of like probability, and `z`, `right - confidence` in standard errors;
            `missing`: share of rows that could not be left out.
        points: a row for each target: `output`, `log density`, `rank` (randomised PIT: uniform on
            0 to 1 if calibrated), `probability`, `happened`.
        findings: what stands out, in sentences; empty if nothing does.
        note: what was looked at, in words.
        sampled: the sample that was looked at, in words; "" if it was all.

    >>> import numpy as np
    >>> from mogp import MultiOutputData
    >>> from mogp.models import ExactLMC
    >>> from mogp.training import calibration
    >>> x = np.linspace(0, 1, 8)
    >>> found = calibration(ExactLMC(data := MultiOutputData.from_arrays(x, np.sin(6 * x))), data)
    >>> found.table[["how", "rows"]].iloc[0].tolist()
    ['left out', 8]
    """

    table: pd.DataFrame
    points: pd.DataFrame
    findings: tuple[str, ...]
    note: str
    sampled: str = ""

    @property
    def useless(self) -> tuple[str, ...]:
        """Outputs for which the model is no better than a constant."""
        return tuple(self.table.index[_no_better(self.table)])

    def __str__(self) -> str:
        shown = self.table.drop(columns=["±", "missing", "z"]).dropna(axis=1, how="all")
        text = shown.to_string(float_format=lambda v: f"{v:.3g}")
        return "\n".join([text, *(f"- {one}" for one in self.findings), self.note])


def calibration(
    model: Any,
    data: MultiOutputData | LabelData,
    *,
    held_out: MultiOutputData | LabelData | None = None,
    rows: int = 1000,
    outputs: int = 1000,
    samples: int = 1000,
    seed: int = 0,
) -> Calibration:
    """Compare predictions of a fitted model with targets: bands, probabilities, densities.

    Of training data, each target is predicted by the others without fitting again
    (`mogp.models.left_out`); chains and labels cannot do this, and their predictions have seen the
    targets. Rows that have neighbours say nothing of gaps between rows: to judge these, train
    without a gap, and give what lies in it as `held_out`.

    Counts fall on the edges of bands. Their ranks are randomised between the probability below the
    target and that up to it, so that a calibrated band of 95 % holds 95 % of them, too.

    Args:
        model: a fitted model of `mogp`.
        data: what the model was trained on.
        held_out: data that it was trained without, to compare with in place of the training data.
        rows: at most so many of each output, drawn at random.
        outputs: at most so many, drawn at random.
        samples: draws behind ranks.
        seed: of all draws.

    >>> import numpy as np
    >>> from mogp import MultiOutputData, fit
    >>> from mogp.models import ExactLMC
    >>> x = np.linspace(0, 1, 30)
    >>> y = np.sin(6 * x) + 0.1 * np.random.default_rng(0).normal(size=30)
    >>> data = MultiOutputData.from_arrays(x, y)
    >>> model = ExactLMC(data)
    >>> history = fit(model, data, progress=False)

    >>> from mogp.training import calibration
    >>> found = calibration(model, data)
    >>> bool(found.table["gain"].iloc[0] > 0.5), found.findings
    (True, ())
    """
    some, sampled = some_of(data if held_out is None else held_out, rows, outputs, seed)
    each = evidence(model, some, None if held_out is None else data, samples, seed)
    table = pd.DataFrame([_row(one) for one in each]).set_index("output")
    points = pd.concat([_points(one) for one in each], ignore_index=True)
    return Calibration(table, points, tuple(_findings(table)), _note(table, sampled), sampled)


def _row(one: Evidence) -> dict[str, Any]:
    gain = one.log_density - one.constant
    n = len(gain)
    spread = float(gain.std() / np.sqrt(n)) if n > 1 else np.nan
    found: dict[str, Any] = {
        "output": one.name,
        "kind": one.kind,
        "how": one.how,
        "rows": n,
        "log density": float(one.log_density.mean()) if n else np.nan,
        "constant": float(one.constant.mean()) if n else np.nan,
        "gain": float(gain.mean()) if n else np.nan,
        "±": spread,
    }
    inside = dict.fromkeys([f"{level:.0%}".replace("%", " %") for level in LEVELS], np.nan)
    found |= {**inside, "low": np.nan, "high": np.nan}
    if one.rank is not None and one.how != "seen" and n:
        within = [np.abs(one.rank - 0.5) <= level / 2 for level in LEVELS]
        low, high = binomial_interval(int(within[-1].sum()), n)
        found |= dict(zip(inside, (float(w.mean()) for w in within), strict=True))
        found |= {"low": low, "high": high}
    found |= {"confidence": np.nan, "right": np.nan, "error": np.nan, "z": np.nan}
    if one.probability is not None and one.happened is not None and n:
        p, happened = one.probability, one.happened.astype(float)
        found |= {"confidence": float(p.mean()), "right": float(happened.mean())}
        found["error"] = calibration_error(p, happened)
        sd = np.sqrt(np.sum(p * (1 - p)))
        found["z"] = float((happened - p).sum() / max(sd, 1e-12))
    return {**found, "missing": one.missing}


def binomial_interval(inside: int, of: int, doubt: float = 0.05) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share.

    Args:
        inside: how many were.
        of: of how many.
        doubt: one minus the confidence.

    >>> [round(end, 2) for end in binomial_interval(90, 100)]
    [0.82, 0.95]
    """
    low = 0.0 if inside == 0 else float(beta.ppf(doubt / 2, inside, of - inside + 1))
    high = 1.0 if inside == of else float(beta.ppf(1 - doubt / 2, inside + 1, of - inside))
    return low, high


def calibration_error(probability: Array, happened: Array, groups: int = 10) -> float:
    """Expected calibration error: mean distance of share and mean probability, over groups.

    Args:
        probability: `[n]`.
        happened: `[n]`, zeros and ones.
        groups: of rows of like probability, of like size.

    >>> calibration_error(np.full(10, 0.9), np.ones(10))
    0.1
    """
    order = np.array_split(np.argsort(probability, kind="stable"), groups)
    off = [len(g) * abs(probability[g].mean() - happened[g].mean()) for g in order if len(g)]
    return round(float(np.sum(off) / len(probability)), 12)


def _points(one: Evidence) -> pd.DataFrame:
    n = max(len(one.log_density), 0 if one.probability is None else len(one.probability))
    density = one.log_density if len(one.log_density) == n else np.full(n, np.nan)
    nothing = np.full(n, np.nan)
    return pd.DataFrame(
        {
            "output": one.name,
            "how": one.how,
            "log density": density,
            "rank": nothing if one.rank is None else one.rank,
            "probability": nothing if one.probability is None else one.probability,
            "happened": nothing if one.happened is None else one.happened.astype(float),
        }
    )


def _no_better(table: pd.DataFrame) -> Array:
    """Gains within a standard error of nothing, or too small to be worth a model."""
    least = np.fmax(LITTLE, table["±"].to_numpy(float))
    enough = table["rows"].to_numpy(int) >= FEW
    return np.asarray(enough & (table["gain"].to_numpy(float) <= least))


def _findings(table: pd.DataFrame) -> list[str]:
    """What stands out; outputs of which the same is to be said share a sentence."""
    doubt = _DOUBT / max(len(table), 1)
    judged = table[table["rows"] >= FEW]
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, row in judged.iterrows():
        for said, advice in (_band(row, doubt), _sure(row, doubt)):
            if advice:
                alike.setdefault(advice, []).append((str(name), said))
    found = []
    for advice, outputs in alike.items():
        name, said = outputs[0]
        more = f" (and {len(outputs) - 1} others alike)" if len(outputs) > 1 else ""
        found.append(said.format(name=f"{name!r}{more}") + advice)
    return [*_unpredicted(table), *_useless(table), *found]


def _unpredicted(table: pd.DataFrame) -> list[str]:
    none = table.index[table["rows"] == 0]
    some = table.index[(table["rows"] > 0) & (table["missing"] > 0) & (table["how"] != "left out")]
    said = []
    if len(none):
        said.append(f"Predictions are not finite for {_listed(none)}: parameters have run off.")
    if len(some):
        said.append(f"Some predictions are not finite for {_listed(some)}.")
    return said


def _useless(table: pd.DataFrame) -> list[str]:
    bad = table[_no_better(table)]
    if bad.empty:
        return []
    first = bad.iloc[0]
    numbers = (
        f"log density {first['log density']:.3g} a target, a constant has {first['constant']:.3g}"
    )
    said = f"No better than a constant for {_listed(bad.index)} ({numbers})"
    return [
        f"{said}. Look at the units of the columns and at the lengthscales, train longer or from"
        " another start; or these inputs do not tell this output."
    ]


def _band(row: pd.Series[Any], doubt: float) -> tuple[str, str]:
    """What is wrong with the bands of an output, and what to do; the output is to be named."""
    if not np.isfinite(row["95 %"]):
        return "", ""
    n = int(row["rows"])
    said = "The {} band of {{name}} holds {:.0%} of {} targets {}: "
    low, high = binomial_interval(round(row["95 %"] * n), n, doubt)
    told = said.format("95 %", row["95 %"], n, row["how"])
    if high < NARROW:
        return told, (
            "too narrow. Let the noise be larger or have heavier tails, use fewer inducing points"
            " or latents, or widen bands by what held-out rows show."
        )
    if low > WIDE:
        return told, (
            "too wide. Train longer, use more inducing points, or a noise that changes with the"
            " inputs."
        )
    low, high = binomial_interval(round(row["50 %"] * n), n, doubt)
    told = said.format("50 %", row["50 %"], n, row["how"])
    if low > 0.5 + HALF:
        return told, (
            "most errors are small and a few large. Use a noise with heavier tails (StudentT), or"
            " one that changes with the inputs."
        )
    if high < 0.5 - HALF:
        return told, "too narrow in the middle. Look at the targets for groups or ties."
    return "", ""


def _sure(row: pd.Series[Any], doubt: float) -> tuple[str, str]:
    """The same of the probabilities of classes."""
    if row["how"] == "seen" or row["kind"] != "class":
        return "", ""
    off = row["confidence"] - row["right"]
    if abs(off) < _OFF or abs(row["z"]) < norm.ppf(1 - doubt / 2):
        return "", ""
    said = (
        f"Classes of {{name}} are predicted with probability {row['confidence']:.0%} on average,"
        f" and {row['right']:.0%} are right: "
    )
    if off > 0:
        return said, "too sure. Use fewer inducing points, or temper by held-out rows."
    return said, "not sure enough. Train longer, or use more inducing points."


def _note(table: pd.DataFrame, sampled: str) -> str:
    how = set(table["how"])
    said = [f"Looked at {sampled}."] if sampled else []
    if "left out" in how:
        said.append(
            "Rows were left out one by one: where they have neighbours this says nothing of gaps"
            " between them; hold out a gap to judge these."
        )
    if "seen" in how:
        said.append(
            "Some predictions had seen their targets, and their bands are not judged: hold out"
            " rows, and call calibration(model, data, held_out=rows)."
        )
    return " ".join(said)


def _listed(names: Any) -> str:
    shown = ", ".join(repr(str(name)) for name in names[:3])
    return f"{shown} and {len(names) - 3} others" if len(names) > 3 else shown
