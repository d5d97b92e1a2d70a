"""A step of GPyTorch's LMC variational model, timed in the peers' environment; prints one JSON line.

Q=3, D=10, batch 500, M=100, double precision, one thread: the model of lmc_step.py.
"""

import json
import time

import gpytorch
import numpy as np
import torch

Q, D, BATCH, M, P, STEPS = 3, 10, 500, 100, 2, 20

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (BATCH, P))
Y = np.sin(X @ rng.normal(size=(P, D)) * 3) + 0.1 * rng.normal(size=(BATCH, D))
X, Y = torch.from_numpy(X), torch.from_numpy(Y)


class LMC(gpytorch.models.ApproximateGP):
    def __init__(self):
        points = X[:M].repeat(Q, 1, 1)
        inner = gpytorch.variational.VariationalStrategy(
            self,
            points,
            gpytorch.variational.CholeskyVariationalDistribution(M, batch_shape=torch.Size([Q])),
            learn_inducing_locations=True,
        )
        super().__init__(gpytorch.variational.LMCVariationalStrategy(inner, num_tasks=D, num_latents=Q, latent_dim=-1))
        self.mean_module = gpytorch.means.ZeroMean(batch_shape=torch.Size([Q]))
        self.covar_module = gpytorch.kernels.RBFKernel(ard_num_dims=P, batch_shape=torch.Size([Q]))

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


model = LMC()
likelihood = gpytorch.likelihoods.MultitaskGaussianLikelihood(num_tasks=D, rank=0, has_task_noise=False)
objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=BATCH)
optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.001)
model.train()


def step():
    optimiser.zero_grad()
    loss = -objective(model(X), Y)
    loss.backward()
    optimiser.step()
    return float(loss)


began = time.perf_counter()
step()
first = time.perf_counter() - began
laps = []
for _ in range(STEPS):
    began = time.perf_counter()
    step()
    laps.append(time.perf_counter() - began)
print(json.dumps({"first": first, "step": float(np.median(laps))}))
