"""GPy's exact ICM regression: time of one objective and gradient, in the peers' environment; prints one JSON line.

D=3 outputs, N=150 rows each, one RBF kernel, rank 1, one thread: the model of `mogp.models.ExactLMC` in peers.py.
"""

import json
import time

import GPy
import numpy as np

D, N, STEPS = 3, 150, 20
rng = np.random.default_rng(0)
X = rng.uniform(0, 1, (N, 1))
Y = [np.sin(6 * X + d) + 0.1 * rng.normal(size=X.shape) for d in range(D)]
kernel = GPy.util.multioutput.ICM(input_dim=1, num_outputs=D, kernel=GPy.kern.RBF(1), W_rank=1)
model = GPy.models.GPCoregionalizedRegression([X] * D, Y, kernel=kernel)
start = model.optimizer_array.copy()


def step(k: int) -> None:
    model.optimizer_array = start + 1e-6 * k
    model.objective_function()
    model.objective_function_gradients()


began = time.perf_counter()
step(0)
first = time.perf_counter() - began
laps = []
for k in range(1, STEPS + 1):
    began = time.perf_counter()
    step(k)
    laps.append(time.perf_counter() - began)
print(json.dumps({"first": first, "step": float(np.median(laps))}))
