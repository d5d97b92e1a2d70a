"""Kernels over a tree of replicas, against their definition entry by entry."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow.kernels import Linear, Matern32, SquaredExponential
from hypothesis import given, settings
from hypothesis import strategies as st

from mogp.kernels import KernelStack, SameNode, hierarchical, on_inputs, with_replica
from mogp.kernels.hierarchy import tree_size

TREE = [("L", 0, 0), ("L", 0, 1), ("L", 1, 0), ("M", 0, 0), ("M", 0, 0), ("M", 1, 1)]


def level(variance: float, lengthscale: float) -> Matern32:
    return Matern32(variance=variance, lengthscales=lengthscale)


def k(a: float, b: float, variance: float, lengthscale: float) -> float:
    r = np.sqrt(3) * abs(a - b) / lengthscale
    return variance * (1 + r) * np.exp(-r)


def rows(count: int, replicas: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.uniform(0, 3, count), rng.integers(0, replicas, count)])


# ----------------------------------------------------------------------------------------------------- two levels


def test_two_levels_add_a_function_of_the_replica_to_a_shared_one():
    A, B = rows(7, 3), rows(5, 3, seed=1)
    expected = [[k(a, b, 0.7, 1.3) + (r == s) * k(a, b, 0.4, 0.5) for b, s in B] for a, r in A]
    kernel = hierarchical([level(0.7, 1.3), level(0.4, 0.5)], 1)
    np.testing.assert_allclose(kernel(A, B), expected, rtol=1e-12)
    np.testing.assert_allclose(kernel(A, full_cov=False), np.full(7, 1.1), rtol=1e-12)
    np.testing.assert_allclose(np.diag(kernel(A)), np.full(7, 1.1), rtol=1e-9)


def test_common_inputs_give_a_kronecker_sum_over_replicas():
    """H10: `K = J_R ⊗ K_g + I_R ⊗ K_f`."""
    x, R = np.linspace(0, 2, 4), 3
    K_g, K_f = ([[k(a, b, *p) for b in x] for a in x] for p in ((0.7, 1.3), (0.4, 0.5)))
    table = np.column_stack([np.tile(x, R), np.repeat(np.arange(R), len(x))])
    expected = np.kron(np.ones((R, R)), K_g) + np.kron(np.eye(R), K_f)
    np.testing.assert_allclose(hierarchical([level(0.7, 1.3), level(0.4, 0.5)], 1)(table), expected, rtol=1e-10)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.integers(0, 5)), min_size=1, max_size=12),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), min_size=6, max_size=6),
)
def test_the_covariance_is_positive_semidefinite_for_any_labels(points, tree):
    """H10."""
    X = np.array([(x, r) for x, r in points], float)
    kernel = hierarchical([level(0.7, 1.3), level(0.4, 0.5), level(0.2, 0.3)], 1, tree=tree)
    assert np.linalg.eigvalsh(kernel(X).numpy()).min() > -1e-9


def test_one_kernel_knows_nothing_of_replicas():
    A = rows(6, 4)
    kernel = hierarchical([level(0.7, 1.3)], 1)
    np.testing.assert_allclose(kernel(A), [[k(a, b, 0.7, 1.3) for b, _ in A] for a, _ in A], rtol=1e-12)


# ---------------------------------------------------------------------------------------------------- deeper trees


def test_three_levels_and_more_are_the_sum_over_shared_prefixes():
    numbers = np.unique(np.array(TREE), return_inverse=True)[1].reshape(-1, 3)
    A, B = rows(9, 6), rows(8, 6, seed=2)
    parameters = [(0.7, 1.3), (0.4, 0.5), (0.3, 0.9), (0.2, 0.4)]
    expected = np.zeros((9, 8))
    for i, (a, r) in enumerate(A):
        for j, (b, s) in enumerate(B):
            shared = [TREE[int(r)][:depth] == TREE[int(s)][:depth] for depth in range(4)]
            expected[i, j] = sum(k(a, b, *p) for p, same in zip(parameters, shared, strict=True) if same)
    kernel = hierarchical([level(*p) for p in parameters], 1, tree=numbers)
    np.testing.assert_allclose(kernel(A, B), expected, rtol=1e-12)
    assert tree_size(kernel) == 6


def test_a_node_is_its_whole_path():
    """Strain 0 of one lab is not strain 0 of another."""
    kernel = hierarchical([level(1, 1), level(1, 1), level(1, 1)], 1, tree=[(0, 0), (1, 0), (0, 0)])
    np.testing.assert_allclose(kernel(np.array([[0.0, 0], [0.0, 1], [0.0, 2]])), [[3, 1, 3], [1, 3, 1], [3, 1, 3]])
    assert tree_size(kernel) == 3


def test_a_tree_of_one_level_may_be_a_list():
    X = np.array([[0.0, 0], [0.0, 1], [0.0, 2]])
    K = hierarchical([level(1, 1), level(1, 1)], 1, tree=[5, 7, 5])(X)
    np.testing.assert_allclose(K, [[2, 1, 2], [1, 2, 1], [2, 1, 2]])


def test_without_a_tree_any_replica_number_will_do():
    kernel = hierarchical([level(1, 1), level(1, 1)], 1)
    assert tree_size(kernel) is None
    np.testing.assert_allclose(kernel(np.array([[0.0, 0], [0.0, 10_000]])), [[2, 1], [1, 2]])


@pytest.mark.parametrize(
    ("kernels", "tree", "said"),
    [
        ([], None, "no kernels were given"),
        ([1, 2, 3], None, r"3 kernels.*tree=\[R, 2\]"),
        ([1, 2, 3], [(0,), (1,)], r"shape \(2, 1\); expected \[replicas, 2\]"),
        ([1, 2, 3], [0, 1], r"shape \(2,\); expected \[replicas, 2\]"),
        ([1, 2], np.zeros((0, 1)), r"shape \(0, 1\)"),
    ],
)
def test_trees_that_do_not_fit_are_refused(kernels, tree, said):
    with pytest.raises(ValueError, match=said):
        hierarchical([level(1, 1) for _ in kernels], 1, tree)


# ------------------------------------------------------------------------------------------------------ the parts


def test_a_kernel_and_its_parts_are_kept_to_the_inputs():
    X = np.random.default_rng(0).normal(size=(5, 3))
    both = SquaredExponential(lengthscales=[0.5, 0.8]) + Linear(active_dims=[1]) * Matern32()
    expected = (SquaredExponential(lengthscales=[0.5, 0.8]) + Linear(active_dims=[1]) * Matern32())(X[:, :2])
    np.testing.assert_allclose(on_inputs(both, 2)(X), expected, rtol=1e-12)


def test_the_same_node_is_read_off_its_column_in_any_float():
    replica = np.array([0, 1, 1, 2, 999_999], float)
    same = SameNode(1)
    for dtype in (np.float64, np.float32):
        with gpflow.config.as_context(gpflow.config.Config(float=dtype)):
            X = with_replica(np.zeros((5, 1)), replica)
            assert X.dtype == dtype
            np.testing.assert_array_equal(same(X), replica[:, None] == replica)
            np.testing.assert_array_equal(same(X, full_cov=False), np.ones(5))


def test_replica_numbers_carry_no_gradient():
    """They are never trained, and the covariance does not change for labels that are a rounding error away."""
    kernel, X = hierarchical([level(1, 1), level(0.5, 1)], 1), tf.Variable(rows(5, 3))
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(tf.sin(kernel(X, tf.constant(rows(4, 3, 1)))))
    assert np.all(tape.gradient(value, X).numpy()[:, 1] == 0)
    np.testing.assert_array_equal(kernel(X.numpy()), kernel(X.numpy() + np.array([0, 1e-9])))


@pytest.mark.parametrize("tree", [None, [(0,), (0,), (1,)]])
def test_stacked_hierarchies_are_evaluated_as_each_on_its_own(tree):
    kernels = [hierarchical([level(0.3 * i, i), level(i, 0.4)], 1, tree) for i in (1, 2, 3)]
    X, own = rows(5, 3), np.stack([rows(4, 3, s) for s in range(3)])
    stack = KernelStack(kernels)
    np.testing.assert_allclose(stack.K(tf.constant(X)), [one(X) for one in kernels], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        stack.K(tf.constant(own), tf.constant(X)), [a(b, X) for a, b in zip(kernels, own, strict=True)], rtol=1e-10
    )
    np.testing.assert_allclose(stack.K_diag(tf.constant(X)), [one(X, full_cov=False) for one in kernels], rtol=1e-12)


def test_hierarchies_over_different_trees_are_not_confused():
    X = np.array([[0.0, 0], [0.0, 1]])
    kernels = [hierarchical([level(1, 1), level(1, 1)], 1, tree=t) for t in ([0, 0], [0, 1])]
    np.testing.assert_allclose(KernelStack(kernels).K(tf.constant(X))[:, 0, 1], [2, 1])
