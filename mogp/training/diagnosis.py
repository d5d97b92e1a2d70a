"""What to know about a fitted model, in words: convergence, use, bands, columns, latents."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
from scipy.spatial.distance import cdist

from mogp.data import Array, LabelData, MultiOutputData
from mogp.inducing import FunctionPoints
from mogp.linalg import cholesky_and_jitter, first_jitter
from mogp.models.base import MOGP
from mogp.posteriors import Full, Joint
from mogp.training.calibration import FEW, calibration
from mogp.training.collapse import COLLAPSED
from mogp.training.convergence import convergence
from mogp.training.evidence import FAULTS
from mogp.training.scales import badly_scaled

_ROWS, _OUTPUTS, _DRAWS = 1000, 20, 300


@dataclass(frozen=True)
class Diagnosis:
    """Findings about a fitted model; `str()` gives them as a short list.

    Attributes:
        converged: whether the objective had stopped rising; None if too few steps to tell.
        findings: one sentence each; empty if nothing stands out.
        useful: whether the model predicts better than a constant, for every output that was looked
            at; None if none was.

    >>> print(Diagnosis(converged=True, findings=("One latent GP is not used.",)))
    Converged.
    - One latent GP is not used.
    >>> print(Diagnosis(converged=True, findings=(), useful=False))
    Stopped rising, but no better than a constant.
    """

    converged: bool | None
    findings: tuple[str, ...]
    useful: bool | None = None

    def __str__(self) -> str:
        said = {
            True: "Converged.",
            False: "Not converged yet.",
            None: "Too few steps to tell whether it converged.",
        }[self.converged]
        if self.useful is False:
            begun = "Stopped rising, but" if self.converged else f"{said[:-1]}, and"
            said = f"{begun} no better than a constant."
        return "\n".join([said, *(f"- {f}" for f in self.findings)])


def diagnose(
    model: Any,
    elbo: Array,
    deterministic: bool = False,
    data: Any = None,
    converged: bool | None = None,
) -> Diagnosis:
    """Look at a fitted model, at the objective along its training, and at the data.

    Of large data a sample is looked at: 1000 rows of each of 20 outputs. Data are not looked at
    when there were too few steps to tell whether the objective has stopped rising.

    Args:
        model: any; the parts that a `SparseMOGP` has are looked at where they are there.
        elbo: the objective at every step.
        deterministic: whether the objective was the same function at every step.
        data: what it was trained on; None, or a function of batches, is not looked at.
        converged: what the optimiser says itself; by the objective if None.

    >>> import numpy as np
    >>> from mogp.models import ExactLMC
    >>> from mogp import MultiOutputData
    >>> model = ExactLMC(MultiOutputData.from_arrays([0.0, 1.0], [1.0, 2.0]))
    >>> diagnose(model, np.array([-3.0, -2.0])).converged is None
    True
    """
    findings: list[str] = []
    if converged is None:
        converged, findings = convergence(elbo, deterministic)
    useful = None
    if (
        converged is not None
        and isinstance(model, MOGP)
        and isinstance(data, MultiOutputData | LabelData)
    ):
        useful, told = _against_data(model, data)
        findings += told
    trained = () if converged is None else COLLAPSED
    for look in (*trained, _jitter, _dead_latents, _idle_dimensions, _coinciding_points):
        findings += look(model)
    return Diagnosis(converged, tuple(findings), useful)


def _against_data(model: MOGP, data: MultiOutputData | LabelData) -> tuple[bool | None, list[str]]:
    """Whether it beats a constant, and what comparing its predictions with targets shows."""
    columns = badly_scaled(model, data)
    try:
        found = calibration(model, data, rows=_ROWS, outputs=_OUTPUTS, samples=_DRAWS)
    except FAULTS as error:
        return None, [*columns, f"Predictions fail: {str(error).splitlines()[0]}"]
    judged = bool((found.table["rows"] >= FEW).any())
    useful = not found.useless if judged else None
    return useful, [
        *found.findings[: useful is False],
        *columns,
        *found.findings[useful is False :],
    ]


def _jitter(model: Any) -> list[str]:
    if not (
        hasattr(model, "inducing")
        and hasattr(model, "prior")
        and isinstance(model.posterior, Full | Joint)
    ):
        return []
    Kuu = model.inducing.Kuu(model.prior.kernels)
    try:
        used = cholesky_and_jitter(Kuu, name="Kuu")[1].numpy()
    except tf.errors.InvalidArgumentError:
        return [
            "Kuu cannot be factorised: the kernels or the inducing points hold values that are out"
            " of range."
        ]
    raised = np.flatnonzero(used > first_jitter(Kuu).numpy() * 1.01)
    if len(raised) == 0:
        return []
    which = ", ".join(map(str, raised))
    why = "inducing points lie closer together than the lengthscale can tell apart"
    return [f"Kuu of kernel {which} needed jitter of {used.max():.1g}: {why}."]


def _dead_latents(model: Any) -> list[str]:
    W = getattr(getattr(model, "prior", None), "W", None)
    if W is None:
        return []
    scales = np.mean(tf.linalg.diag_part(model.inducing.Kuu(model.prior.kernels)), axis=1)
    power = np.asarray(W) ** 2 * np.tile(scales, model.prior.copies)
    share = power / np.maximum(power.sum(1, keepdims=True), 1e-300)
    shared = getattr(model.prior, "shared", power.shape[1])  # own parts may well be nothing
    dead = np.flatnonzero(share.max(0)[:shared] < 0.01)
    if len(dead) in (0, power.shape[1]):
        return []
    which, enough = ", ".join(map(str, dead)), shared - len(dead)
    return [
        f"Latent GP {which} makes up less than 1 % of every function: {enough} latent GPs would do."
    ]


def _idle_dimensions(model: Any) -> list[str]:
    """Latent dimensions of outputs over which the kernel hardly changes."""
    kernel, means = getattr(model, "latent_kernel", None), getattr(model, "latent_mean", None)
    if kernel is None or means is None or means.shape[0] < 2:
        return []
    reach = np.ptp(np.asarray(means), axis=0) / np.asarray(kernel.lengthscales)
    idle = np.flatnonzero(reach < 0.1)
    if len(idle) == 0:
        return []
    which, rest = ", ".join(map(str, idle)), len(reach) - len(idle)
    if rest == 0:
        return [
            "Outputs lie within a tenth of a latent lengthscale of each other: they are taken to be"
            " one function."
        ]
    return [
        f"Outputs differ by less than a tenth of a lengthscale in latent dimension {which}:"
        f" latent_dim={rest} would do."
    ]


def _coinciding_points(model: Any) -> list[str]:
    Z = getattr(getattr(model, "inducing", None), "Z", None)
    kernels = getattr(getattr(getattr(model, "prior", None), "kernels", None), "kernels", ())
    if Z is None or isinstance(model.inducing, FunctionPoints):
        return []
    sets = np.asarray(Z) if len(Z.shape) == 3 else np.repeat(np.asarray(Z)[None], len(kernels), 0)
    findings = []
    for g, (points, kernel) in enumerate(zip(sets, kernels, strict=True)):
        if not hasattr(kernel, "lengthscales"):
            continue
        scaled = np.asarray(kernel.slice(points)[0]) / np.asarray(kernel.lengthscales)
        distance = cdist(scaled, scaled) + 1e9 * np.eye(len(points))
        close = int((distance.min(1) < 1e-2).sum())
        if close:
            findings.append(
                f"{close} inducing points of kernel {g} lie within 1 % of a lengthscale of another:"
                " fewer would do."
            )
    return findings
