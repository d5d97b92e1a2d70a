"""The documents' names of models, as keywords of the library's constructors (Panos, chapters 3 and
4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

__all__ = ["CLASS_METHODS", "LabelMethod"]

CLASS_METHODS: dict[str, dict[str, Any]] = {
    "OvsE-P": {"posterior": "parsimonious"},
    "OvsE-F": {"posterior": "full"},
    "OvsE-P-SH": {"shared": True, "shared_kernel": False, "posterior": "parsimonious"},
    "OvsE-F-SH": {"shared": True, "posterior": "full"},
    "RM-P": {"posterior": "parsimonious"},
    "RM-F": {"posterior": "full"},
}
"""Keywords of `ovse` (OvsE) and `robust_max` (RM) by the name of the method in chapter 3: a
parsimonious (P) or full (F) posterior, inducing inputs that all classes share (SH)."""

KernelName = Literal["LINEAR", "LINEAR-l", "SE", "SE-p-l", "ARD", "ARD/LINEAR"]
_KERNELS = {
    "LINEAR": "linear",
    "LINEAR-l": "linear-ard",
    "SE": "se",
    "SE-p-l": "se",
    "ARD": "ard",
    "ARD/LINEAR": "ard+linear",
}


@dataclass(frozen=True)
class LabelMethod:
    """A variant of MLGPF by its name in the thesis, `KERNEL[-S[-B]][-FX][-UN][-PP][-AG]`.

    Attributes:
        kernel: "LINEAR", "LINEAR-l" (a weight for each input), "SE", "SE-p-l" (a lengthscale for
            each factor), "ARD" or "ARD/LINEAR" (their sum).
        subspace: inducing inputs are coordinates on a basis (S).
        train_basis: the basis is trained too (B).
        fixed: inducing inputs stay where they start (FX).
        unit: inducing inputs are of length one; not, with UN.
        parsimonious: the posterior of `2M` parameters a factor (PP) in place of the full one.
        autograd: trained with RMSProp, as the thesis's second implementation (AG); the model is the
            same.
    """

    kernel: KernelName
    subspace: bool = False
    train_basis: bool = False
    fixed: bool = False
    unit: bool = True
    parsimonious: bool = False
    autograd: bool = False

    @classmethod
    def parse(cls, name: str) -> LabelMethod:
        """The method of a name such as "ARD-S-PP"; ℓ may be written l.

        >>> LabelMethod.parse("ARD-S-PP") == LabelMethod("ARD", subspace=True, parsimonious=True)
        True
        """
        plain = name.replace("ℓ", "l")
        kernels = [k for k in get_args(KernelName) if plain == k or plain.startswith(k + "-")]
        if not kernels:
            raise ValueError(
                f"{name!r} names no method: a name begins with one of"
                f" {', '.join(get_args(KernelName))}, then come any of -S, -S-B, -FX, -UN, -PP,"
                " -AG, in this order."
            )
        kernel: KernelName = max(kernels, key=len)
        tokens = plain[len(kernel) :].split("-")[1:]
        order = ["S", "B", "FX", "UN", "PP", "AG"]
        unknown = [t for t in tokens if t not in order]
        if (
            unknown
            or tokens != sorted(set(tokens), key=order.index)
            or ("B" in tokens and "S" not in tokens)
        ):
            raise ValueError(
                f"{name!r} names no method: after {kernel} come any of -S, -S-B, -FX, -UN, -PP,"
                " -AG, once each and in this"
                f" order{f'; there is no -{unknown[0]}' if unknown else ''}."
            )
        return cls(
            kernel,
            "S" in tokens,
            "B" in tokens,
            "FX" in tokens,
            "UN" not in tokens,
            "PP" in tokens,
            "AG" in tokens,
        )

    def __str__(self) -> str:
        flags = (
            self.subspace,
            self.train_basis,
            self.fixed,
            not self.unit,
            self.parsimonious,
            self.autograd,
        )
        return "-".join(
            [
                self.kernel,
                *(t for t, on in zip(("S", "B", "FX", "UN", "PP", "AG"), flags, strict=True) if on),
            ]
        )

    @property
    def options(self) -> dict[str, Any]:
        """Keywords of `mlgpf`; with S it also needs `subspace_dim`, or points in a subspace.

        >>> LabelMethod.parse("SE-p-l-FX").options["shared_kernel"]
        False
        """
        return {
            "kernel": _KERNELS[self.kernel],
            "shared_kernel": self.kernel != "SE-p-l",
            "train_basis": self.train_basis and not self.fixed,
            "train_inducing": not self.fixed,
            "unit": self.unit,
            "posterior": "parsimonious" if self.parsimonious else "full",
        }

    def parameters(
        self, inputs: int, labels: int, factors: int, inducing: int, rank: int = 0
    ) -> int:
        """Trainable numbers of the model (Table 4.3): loadings, biases, posterior, inducing inputs
        and kernel.
        """
        posterior = 2 * inducing if self.parsimonious else inducing + inducing * (inducing + 1) // 2
        points = inducing * rank if self.subspace else inducing * inputs
        points += rank * inputs if self.train_basis else 0
        kernel = {"LINEAR": 0, "SE": 1, "SE-p-l": factors}.get(self.kernel, inputs)
        return (
            labels * factors + labels + factors * posterior + (0 if self.fixed else points) + kernel
        )
