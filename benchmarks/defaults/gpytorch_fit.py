"""GPyTorch's multitask GP, run in the peers' environment: python gpytorch_fit.py IN.npz OUT.npz

Reads X [N, P], task [N], y [N] of all outputs, X_test, task_test, standardised; writes mean, var and CPU seconds.
Up to 1500 targets an exact multitask GP (Hadamard), as in GPyTorch's examples; beyond, its variational LMC.
"""

import sys
import time

import gpytorch
import numpy as np
import torch

EXACT, POINTS, BATCH, STEPS = 1500, 100, 256, 3000
torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
torch.manual_seed(0)


class Exact(gpytorch.models.ExactGP):
    """An ARD squared exponential times an index kernel."""

    def __init__(self, inputs, y, likelihood, tasks):
        super().__init__(inputs, y, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.RBFKernel(ard_num_dims=inputs[0].shape[1])
        self.task_module = gpytorch.kernels.IndexKernel(num_tasks=tasks, rank=min(tasks, 3))

    def forward(self, x, i):
        covariance = self.covar_module(x).mul(self.task_module(i))
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), covariance)


class Variational(gpytorch.models.ApproximateGP):
    """An LMC with at most three latent GPs."""

    def __init__(self, Z, tasks):
        Q = min(tasks, 3)
        inner = gpytorch.variational.VariationalStrategy(
            self,
            Z.repeat(Q, 1, 1),
            gpytorch.variational.CholeskyVariationalDistribution(len(Z), batch_shape=torch.Size([Q])),
            learn_inducing_locations=True,
        )
        super().__init__(
            gpytorch.variational.LMCVariationalStrategy(inner, num_tasks=tasks, num_latents=Q, latent_dim=-1)
        )
        batch = torch.Size([Q])
        self.mean_module = gpytorch.means.ConstantMean(batch_shape=batch)
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=Z.shape[1], batch_shape=batch)
        kernel.lengthscale = Z.shape[1] ** 0.5
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel, batch_shape=batch)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def exact(X, task, y, tasks):
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    model = Exact((X, task), y, likelihood, tasks)
    model.covar_module.lengthscale = X.shape[1] ** 0.5
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    model.train(), likelihood.train()
    adam = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(200):
        adam.zero_grad()
        loss = -objective(model(X, task), y, [X, task])
        loss.backward()
        adam.step()
    model.eval(), likelihood.eval()
    return lambda x, i: likelihood(model(x, i), [x, i])


def variational(X, task, y, tasks):
    rows = torch.from_numpy(np.random.default_rng(0).permutation(len(X))[:POINTS])
    model = Variational(X[rows], tasks)
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    model.train(), likelihood.train()
    adam = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.01)
    generator = torch.Generator().manual_seed(0)
    for _ in range(STEPS):
        some = torch.randint(len(X), (BATCH,), generator=generator)
        adam.zero_grad()
        loss = -objective(model(X[some], task_indices=task[some]), y[some])
        loss.backward()
        adam.step()
    model.eval(), likelihood.eval()
    return lambda x, i: likelihood(model(x, task_indices=i))


def main():
    given = np.load(sys.argv[1])
    X, y, X_test = (torch.from_numpy(given[name]) for name in ("X", "y", "X_test"))
    task, task_test = (torch.from_numpy(given[name].astype(np.int64)) for name in ("task", "task_test"))
    began = time.process_time()
    fit, shape = (exact, (-1, 1)) if len(y) <= EXACT else (variational, (-1,))
    predict = fit(X, task.reshape(shape), y, int(given["tasks"]))
    cpu = time.process_time() - began
    parts = []
    with torch.no_grad(), gpytorch.settings.fast_pred_var(False):
        for some in torch.split(torch.arange(len(X_test)), 500):
            found = predict(X_test[some], task_test[some].reshape(shape))
            parts.append(np.stack([found.mean.numpy(), found.variance.numpy()]))
    mean, var = np.concatenate(parts, axis=1)
    np.savez(sys.argv[2], mean=mean, var=var, cpu_s=cpu)


if __name__ == "__main__":
    main()
