"""The Bayesian GPLVM as a `LatentMOGP`: rows of a table are outputs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from gpflow.kernels import Linear, SquaredExponential
from gpflow.utilities import set_trainable

from mogp.data import MultiOutputData
from mogp.inducing import ReplicaPoints
from mogp.kernels import hierarchical
from mogp.likelihoods import Gaussian
from mogp.models.latent import LatentMOGP
from mogp.models.latent_start import Smoothed, explain, start_values


def bayesian_gplvm(
    data: MultiOutputData,
    *,
    latent_dim: int = 2,
    latent_inducing: int = 20,
    noise: float = 0.1,
    seed: int = 0,
) -> LatentMOGP:
    r"""Bayesian GPLVM (Titsias and Lawrence 2010): a latent variable for each row of a table.

    A row is an output of a `LatentMOGP`, a column an input, and columns are independent:
    $\mathrm{cov}[f_n(c), f_{n'}(c')] = k_H(h_n, h_{n'})\,\mathbb 1[c = c']$. One noise level for
    all rows is what the original has: `set_trainable(model.noise, False)` keeps it.

    Args:
        data: the table, as `rows_as_outputs` makes it.
        latent_dim: $Q_H$.
        latent_inducing: $M_H$.
        noise: start value of the noise variances.
        seed: of the start values.

    >>> import numpy as np
    >>> from mogp.models import bayesian_gplvm, rows_as_outputs
    >>> Y = np.random.default_rng(0).normal(size=(6, 3))
    >>> model = bayesian_gplvm(rows_as_outputs(Y), latent_inducing=2)
    >>> model.latent_mean.shape.as_list()
    [6, 2]
    """
    C = data.input_dim
    if not np.array_equal(data.X, np.eye(C)) or any(
        o.Y.shape[1] != 1 or not np.array_equal(o.rows, np.arange(C)) for o in data.outputs
    ):
        raise ValueError(
            f"the data have {data.num_outputs} outputs over inputs of shape {data.X.shape};"
            " expected a table with a row an output and a column an input: make the data with"
            " rows_as_outputs(Y)."
        )
    table = np.stack([o.Y[:, 0] for o in data.outputs])
    columns = hierarchical([Linear(variance=1.0)], C)
    points = ReplicaPoints(np.eye(C), np.zeros(C, int))
    set_trainable(columns, False)
    set_trainable(points, False)
    smoothed = Smoothed(table, np.ones(table.shape))
    found = start_values("pca", smoothed, len(table), latent_dim, latent_inducing, seed)
    latent_kernel = SquaredExponential(
        variance=max(float(table.var()), 1e-6), lengthscales=np.ones(latent_dim)
    )
    model = LatentMOGP(
        columns,
        latent_kernel,
        points,
        found.Z,
        found.mean,
        found.var,
        likelihood=Gaussian(np.full(len(table), noise)),
        names=data.schema,
    )
    explain(model, table, np.ones(table.shape))
    return model


def rows_as_outputs(Y: npt.ArrayLike) -> MultiOutputData:
    """A table as data of `bayesian_gplvm`: every row is an output, every column an input.

    Args:
        Y: `[N, C]` finite numbers.

    Returns:
        `N` outputs "row 0", "row 1", …, each observed at the `C` unit vectors.

    >>> from mogp.models import rows_as_outputs
    >>> rows_as_outputs([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    MultiOutputData(3 outputs over 2 inputs of dimension 2; 'row 0': 2, 'row 1': 2, 'row 2': 2)
    """
    table = np.asarray(Y, dtype=float)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ValueError(f"Y has shape {table.shape}; expected [rows, columns] of finite numbers.")
    names = [f"row {n}" for n in range(len(table))]
    return MultiOutputData.from_arrays(np.eye(table.shape[1]), table.T, names=names)
