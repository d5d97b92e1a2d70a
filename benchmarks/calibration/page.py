"""Writes the guide's page "Honest intervals" from the results: python -m calibration.page

Every number on the page comes from simulated.csv and why.csv; titles and what is left out come from the families.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import norm

from calibration.checks import BINS, FALSE_ALARMS, Checked, check
from calibration.results import REAL, SIMULATED, read

PAGE = Path(__file__).parent.parent.parent / "chapters" / "guide" / "calibration.md"
PLACES = {"near": "near rows", "away": "away from rows"}
STEPS = (("Kronecker", "factorised"), ("joint, as fitted",), ("exact", "exact, H at its mean"))
TRAINED = ("exact, trained on", "exact, trained on, own parts")
Described = Mapping[str, tuple[str, str]]
Tested = dict[str, dict[str, Checked]]


def page(simulated: pd.DataFrame, real: pd.DataFrame, families: Described, untested: Sequence[str]) -> str:
    """The page.

    Args:
        simulated: a row for each data set drawn.
        real: a row for each posterior, split and data set.
        families: title, and what the posterior leaves out, of each family by name.
        untested: sentences on what was not judged.
    """
    tested = {
        name: {place: check(rows[place].to_numpy(float)) for place in PLACES}
        for name in families
        if len(rows := simulated[simulated["family"] == name])
    }
    return "\n".join(
        [
            *_introduction(_tests(tested)),
            *_summary(tested, families),
            *_verdicts(tested, families),
            *_causes(tested, families),
            *_table(tested, families),
            *_optima(simulated, families),
            *_real(real),
            *_end(untested),
        ]
    )


def _introduction(tests: int) -> Iterator[str]:
    yield from f"""---
html_theme.sidebar_secondary.remove: true
---

<!-- written by benchmarks/calibration/page.py from simulated.csv and why.csv beside it: do not edit -->

# Honest intervals

A band of 95 % may hold less than 95 % for two reasons: the **posterior** is an approximation that is too sure, or the
**model** is wrong. This page tells them apart. On data drawn from a model's own prior nothing can be wrong but the
posterior; on real data posteriors of one model are laid beside each other, up to the exact one.

## The posterior: simulated data

For each family, functions are drawn from the prior (dense covariances), targets from the likelihood; the model has
the hyper-parameters that drew them, and inducing inputs at all 36 inputs unless the title says otherwise, so that only
the posterior family is judged. It is trained with all else fixed. Then it is asked for a function that was drawn, at
one input **near rows**, and at one **away from rows**: in a gap in which the function (or all of its kind) has no
target, or in a replica that was not observed. Functions of classes are judged by their differences, of which labels
tell.

- **error / sd** is the root mean square of (truth - mean) / sd: 1 if calibrated, 2 if bands are half as wide as they
  should be. Brackets are 95 % intervals.
- **inside 50, 80, 95 %** is the share of drawn functions inside such bands.
- The verdict is that of two tests: that the ranks of the truth fall evenly into {BINS} bins, and that its squared
  distances are those of a calibrated Gaussian, on both sides. If all families were calibrated, one "too narrow", "too
  wide" or "uneven" would be in the whole table with probability {FALSE_ALARMS:.0%} (Bonferroni over all tests).
  "Calibrated" is no proof: errors that are {_found(tests, 400):.0%} larger than promised are found in half of such
  studies with 400 data sets, {_found(tests, 100):.0%} with 100.

""".splitlines()


def _found(tests: int, data_sets: int) -> float:
    """How much too large errors are that the test on their squares finds in half of all studies."""
    return float(norm.isf(FALSE_ALARMS / tests / 2)) / np.sqrt(2 * data_sets)


def _summary(tested: Tested, families: Described) -> Iterator[str]:
    count = _tests(tested)
    exact = {name: own for name, own in tested.items() if not families[name][1]}
    failed = [families[n][0] for n, own in exact.items() if any(c.verdict(count) != "calibrated" for c in own.values())]
    yield (
        f"**Exact posteriors must pass.** {len(exact) - len(failed)} of {len(exact)} do"
        + (f"; {'; '.join(failed)} did not." if failed else ".")
        + " The others leave something out, and the table shows what that costs."
    )
    yield ""


CAUSES = {
    "**Latent GPs that are taken apart.** Targets tell of sums of latent GPs; what they do not tell is a difference,"
    " and a Gaussian for each latent GP takes it for known. Where targets are Gaussian, `fit` ends with the joint"
    " posterior, in closed form; for other targets there is `SparseMOGP(…, posterior=Joint())`, trained by natural"
    " gradients": (
        *("lmc-full", "lmc-joint", "bernoulli", "bernoulli-joint", "poisson", "poisson-joint"),
        *("hetero", "hetero-joint", "ccgp", "ccgp-joint"),
    ),
    "**A Kronecker product for a covariance that is none.** The same on the grid of a hierarchy; `fit` ends with the"
    " joint posterior": ("hmogp-kron", "hmogp-joint", "lvmogp-kron", "lvmogp-joint"),
    "**Too few inducing inputs.** The bound takes what lies between them for told. Taking it for noise mends that, but"
    " then q is no longer the best of the bound, and the library does not do so. More inducing inputs do": (
        *("lmc-joint-10", "lmc-mended-10", "lmc-joint", "hmogp-joint-18", "hmogp-joint"),
    ),
    "**Means in place of functions.** A GPAR reads the mean of the output before, as if it were the output": (
        *("gpar", "gpar-functions", "gpar-noisy"),
    ),
}
"""What makes bands too narrow, and families that show it."""


def _causes(tested: Tested, families: Described) -> Iterator[str]:
    yield "### What makes bands too narrow"
    yield ""
    yield "Shares of functions inside 95 % bands away from rows:"
    yield ""
    for said, names in CAUSES.items():
        shown = [f"{families[n][0]}: {tested[n]['away'].coverage[-1]:.2f}" for n in names if n in tested]
        if shown:
            yield f"- {said}. {'; '.join(shown)}."
    yield ""


def _tests(tested: Tested) -> int:
    """Two for each family and place."""
    return 2 * sum(len(own) for own in tested.values())


def _verdicts(tested: Tested, families: Described) -> Iterator[str]:
    count = _tests(tested)
    yield "| family | its posterior leaves out | near rows | away from rows |"
    yield "|---|---|---|---|"
    for name, own in tested.items():
        cells = []
        for one in own.values():
            verdict, (low, high) = one.verdict(count), one.inside[-1]
            shown = verdict if verdict == "calibrated" else f"**{verdict}**"
            cells.append(f"{shown}: {one.coverage[-1]:.2f} ({low:.2f} to {high:.2f})")
        title, out = families[name]
        yield f"| {title} | {out or 'nothing'} | {' | '.join(cells)} |"
    yield ""
    yield "Shares of drawn functions inside 95 % bands, with their 95 % intervals."
    yield ""


def _table(tested: Tested, families: Described) -> Iterator[str]:
    yield "### The numbers in full"
    yield ""
    for place, words in PLACES.items():
        yield f"| {words} | error / sd | inside 50 % | 80 % | 95 % | p, bins | p, squares | sets |"
        yield "|---|---|---|---|---|---|---|---|"
        for name, own in tested.items():
            one = own[place]
            shares = " | ".join(f"{share:.2f}" for share in one.coverage)
            ratio = f"{one.ratio:.2f} ({one.low:.2f} to {one.high:.2f})"
            tests = f"{one.p_bins:.1g} | {one.p_spread:.1g}"
            yield f"| {families[name][0]} | {ratio} | {shares} | {tests} | {one.n} |"
        yield ""


def _optima(simulated: pd.DataFrame, families: Described) -> Iterator[str]:
    rises = simulated.assign(rise=simulated["rise"].abs()).groupby("family")["rise"].agg(["median", "max"])
    named = rises[rises["max"] > 0.01]
    yield "### Were they at their optimum?"
    yield ""
    yield (
        "Closed forms are. Natural gradients end where the last step changed the bound by less than 0.01 nats in every"
        " data set, except for these (median, and most):"
        if len(named)
        else "Closed forms are. Natural gradients end where the last step changed the bound by less than 0.01 nats."
    )
    yield ""
    if len(named):
        said = [f"{families[n][0]}: {m:.2g}, {most:.2g}" for n, m, most in named.itertuples() if n in families]
        yield from (f"- {one}" for one in said)
        yield ""
        yield (
            "The bound of GPLAR is estimated from sampled paths, and its number is the change of a mean over 50 steps;"
            " that of a trained HMOGP-LV is the median change of a step in the last 50."
        )
        yield ""


def _real(real: pd.DataFrame) -> Iterator[str]:
    if real.empty:
        return
    yield from """## The model: real data

Why does coverage fall when the bound rises? A model is fitted as a user would. Then, with its hyper-parameters as they
are, its posterior is exchanged for a worse one and for the exact one: what changes is the approximation's, and what the
exact posterior lacks is the model's. For LMC the exact model is trained on (40 iterations of L-BFGS), as it is, and
with a Matérn-3/2 GP of its own for each output. Targets are held out as in [the study of defaults](defaults.md).

### Whose fault is it?

Points of coverage that 95 % bands lack, means over splits. A negative number: the step takes coverage away, or bands
cover more than 95 %. The last two columns are what the exact model lacks when it is trained on, without own parts and
with them.

| data, model | q as trained lacks | a joint q mends | all inputs mend | the model lacks | trained on | own parts |
|---|---|---|---|---|---|---|""".splitlines()
    every = real.groupby(["data", "model"], sort=False)
    yield from (_fault(data, model, own) for (data, model), own in every)
    yield ""
    yield from """- **A joint q** has covariances between latent GPs, or on a grid any covariance in place of a
  Kronecker product. `fit` ends with it, in closed form, where targets are Gaussian.
- **All inputs** means the exact posterior in place of inducing inputs.
- **Trained on**, with no approximation left, the evidence of eeg rises, and coverage falls further: an LMC of few
  latent GPs must take what an output does alone for noise, or for something that it shares with others. The higher the
  bound, the more of it is shared, noise and lengthscales shrink, and an output that is not observed for a while is told
  by the others what they cannot know. That is why coverage falls when the bound rises, and it is the model's.
- **Own parts**, a GP for each output besides, take most of it away, with a higher evidence where both were trained on
  all rows. The evidence chooses among models; it does not say that one is missing. `hetmogp_lmc` has own parts by
  default where few latent GPs make many Gaussian outputs (`own=`).

On data of your own: hold out a gap, and compare `calibration(model, rest, held_out=gap)` before and after
`model.joint_posterior(rest)`, with more inducing inputs, and with `ExactLMC`. What none of them mends is the model.

### The rows behind it

Medians over the splits, with the least and the largest. NLPD and sds are in units of the training targets, NMSE is
the mean squared error over the variance of the held-out targets, a mean over outputs. The evidence of a model that was
trained on fewer rows is left out.
""".splitlines()
    yield ""
    for (data, model), own in every:
        yield f"**{data}: {model}** ({own['split'].nunique()} splits)"
        yield ""
        yield "| posterior | inside 95 % | error / sd | NLPD | NMSE | bound or evidence | noise sd | lengthscale |"
        yield "|---|---|---|---|---|---|---|---|"
        for name in _order(own["posterior"].unique()):
            rows = own[own["posterior"] == name]
            cells = [_spread(rows[c]) for c in ("inside95", "ratio", "nlpd", "nmse")]
            cells += [_middle(rows["bound"], ".0f"), _middle(rows["noise_sd"]), _middle(rows["lengthscale"])]
            yield f"| {name} | {' | '.join(cells)} |"
        yield ""


def _fault(data: str, model: str, own: pd.DataFrame) -> str:
    """A row: what is lacking to 95 %, in points, from one posterior to the next."""
    lacking = 100 * (0.95 - own.groupby("posterior")["inside95"].mean())
    trained, joint, exact = (lacking[next(p for p in _order(lacking.index) if p in names)] for names in STEPS)
    cells = [trained, trained - joint, joint - exact, exact]
    shown = [f"{value:.1f}" for value in cells]
    shown += [_points(lacking.get(name)) for name in TRAINED]
    return f"| {data}, {model} | {' | '.join(shown)} |"


def _points(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}"


def _order(names: Iterable[str]) -> list[str]:
    """From the worst approximation to the richest model."""
    rank = [name for step in STEPS for name in step]
    return sorted(names, key=lambda name: rank.index(name) if name in rank else len(rank))


def _spread(values: pd.Series) -> str:
    known = values.dropna()
    if known.empty:
        return ""
    middle, least, most = (f"{v:.2f}" for v in (known.median(), known.min(), known.max()))
    return middle if len(known) == 1 else f"{middle} ({least} to {most})"


def _middle(values: pd.Series, form: str = ".2f") -> str:
    known = values.dropna()
    return "" if known.empty else format(float(np.median(known)), form)


def _end(untested: Sequence[str]) -> Iterator[str]:
    yield "## What was not judged"
    yield ""
    yield from (f"- {one}." for one in untested)
    yield ""
    yield from """Hyper-parameters are known in the simulations. A fit has to find them, and its bands do not hold what
it does not know of them. It chooses them under its bound, which may shun those under which its posterior is poor: what
the tables show at the true ones need not show in a fit.

`make bench-calibration` runs what is lacking and writes this page. Families are in
`benchmarks/calibration/mixtures.py`, `hierarchies.py` and `chains.py`; a row for each data set is in `simulated.csv`,
for each posterior of real data in `why.csv`.""".splitlines()


def main() -> None:
    """Write the page."""
    from calibration.families import FAMILIES, NOT_TESTED

    parser = argparse.ArgumentParser(description="Write the page from the results.")
    parser.add_argument("--to", type=Path, default=PAGE)
    asked = parser.parse_args()
    described = {name: (family.title, family.leaves_out) for name, family in FAMILIES.items()}
    text = page(read(SIMULATED), read(REAL), described, NOT_TESTED)
    asked.to.write_text(text.rstrip() + "\n", encoding="utf-8")
    print(f"wrote {asked.to}")


if __name__ == "__main__":
    main()
