"""Convolutional kernels: all evaluations of `PatchStack` against double loops and GPflow's own kernel."""

from __future__ import annotations

import gpflow
import numpy as np
import pytest
import tensorflow as tf
from gpflow.kernels import Convolutional

from mogp.kernels import Patches, PatchStack
from mogp.kernels.known_patches import TwoLevels

CUT = Patches(image=(5, 6), patch=(2, 3))
ROUTES = ["table", "pieces"]


def images(count: int, seed: int = 0, values: int | None = 2) -> np.ndarray:
    """`[count, 30]`, of a few grey values, or any."""
    rng = np.random.default_rng(seed)
    shape = (count, CUT.pixels)
    return rng.uniform(size=shape) if values is None else rng.integers(0, values, shape).astype(float)


def kernels(cut: Patches = CUT, count: int = 2, seed: int = 1) -> list[Convolutional]:
    """With weights and lengthscales at random."""
    rng = np.random.default_rng(seed)
    made = cut.kernels(count)
    for kernel in made:
        kernel.weights.assign(rng.normal(size=cut.number))
        kernel.base_kernel.lengthscales.assign(rng.uniform(0.6, 2.0, kernel.base_kernel.lengthscales.shape))
        kernel.base_kernel.variance.assign(rng.uniform(0.5, 2.0))
    return made


def equally_weighted(cut: Patches, count: int = 2) -> list[Convolutional]:
    made = cut.kernels(count)
    for kernel in made:
        kernel.weights.assign(np.ones(cut.number))
    return made


def stack(route: str, made: list[Convolutional], X: np.ndarray, **options) -> PatchStack:
    return PatchStack(made, table=X if route == "table" else None, **options)


def windows(image: np.ndarray, cut: Patches) -> list[np.ndarray]:
    """The patches of one image, by two loops."""
    picture = image.reshape(cut.image)
    (H, W), (h, w) = cut.image, cut.patch
    return [picture[r : r + h, c : c + w].reshape(-1) for r in range(H - h + 1) for c in range(W - w + 1)]


def response(kernel: Convolutional):
    """The squared exponential of a kernel, on two patches."""
    variance, lengthscales = float(kernel.base_kernel.variance.numpy()), kernel.base_kernel.lengthscales.numpy()
    return lambda a, b: variance * np.exp(-0.5 * np.sum(((a - b) / lengthscales) ** 2))


def by_loops(kernel: Convolutional, X: np.ndarray, X2: np.ndarray) -> np.ndarray:
    w, k = np.asarray(kernel.weights), response(kernel)
    K = np.zeros((len(X), len(X2)))
    for n, x in enumerate(X):
        for m, x2 in enumerate(X2):
            for p, a in enumerate(windows(x, CUT)):
                for q, b in enumerate(windows(x2, CUT)):
                    K[n, m] += w[p] * w[q] * k(a, b)
    return K / CUT.number**2


def cross_by_loops(kernel: Convolutional, Z: np.ndarray, X: np.ndarray) -> np.ndarray:
    w, k = np.asarray(kernel.weights), response(kernel)
    each = [[sum(w[p] * k(z, a) for p, a in enumerate(windows(x, CUT))) for x in X] for z in Z]
    return np.array(each) / CUT.number


# ------------------------------------------------------------------------------------------------- how images are cut


def test_patches_are_all_windows_row_by_row_as_gpflow_cuts_them():
    X = images(3, values=None)
    assert (CUT.pixels, CUT.length, CUT.number) == (30, 6, 16)
    np.testing.assert_array_equal(CUT.cut(X), [windows(x, CUT) for x in X])
    np.testing.assert_array_equal(CUT.cut(X), kernels()[0].get_patches(X))


@pytest.mark.parametrize(
    ("image", "patch"), [((5, 6), (6, 2)), ((5, 6), (2, 7)), ((5, 6), (0, 2)), ((0, 6), (0, 2)), ((5, 6), (-1, 2))]
)
def test_patches_that_do_not_fit_are_refused(image, patch):
    with pytest.raises(ValueError, match="do not fit"):
        Patches(image, patch)


@pytest.mark.parametrize("X", [np.zeros((2, 29)), np.zeros((2, 31)), np.zeros(30), np.zeros((2, 5, 6))])
def test_images_of_another_size_are_refused(X):
    with pytest.raises(ValueError, match=r"expected \[N, 30\], 5 x 6"):
        CUT.cut(X)


def test_lengthscales_and_weights_are_shared_or_not_as_asked():
    assert Patches((5, 6), (2, 3)).kernels(2)[0].base_kernel.lengthscales.shape == ()
    assert Patches((5, 6), (2, 3), ard=True).kernels(2)[0].base_kernel.lengthscales.shape == (6,)
    own, shared = (PatchStack(Patches((5, 6), (2, 3), shared_weights=s).kernels(3)) for s in (False, True))
    assert [v.shape for v in own.trainable_variables].count((16,)) == 3
    assert [v.shape for v in shared.trainable_variables].count((16,)) == 1


# ------------------------------------------------------------------------------------------------- covariances


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("values", [2, None])
@pytest.mark.parametrize("ard", [False, True])
def test_covariances_are_those_of_the_double_loops_and_of_gpflow(route, values, ard):
    """T4.2 and T4.5: image with image, image with patch, and the diagonal."""
    X, X2, Z = images(3, 0, values), images(2, 1, values), np.random.default_rng(3).uniform(size=(2, 4, 6))
    made = kernels(Patches((5, 6), (2, 3), ard=ard))
    found = stack(route, made, X)
    K = found.K(tf.constant(X)).numpy()
    np.testing.assert_allclose(K, [by_loops(k, X, X) for k in made], rtol=1e-9)
    np.testing.assert_allclose(found.K(tf.constant(X), tf.constant(X2)), [by_loops(k, X, X2) for k in made], rtol=1e-9)
    np.testing.assert_allclose(K, [k.K(X) for k in made], rtol=1e-9)
    diagonal = found.K_diag(tf.constant(X)).numpy()
    np.testing.assert_allclose(diagonal, np.diagonal(K, axis1=1, axis2=2), rtol=1e-9)
    np.testing.assert_allclose(diagonal, [k.K_diag(X) for k in made], rtol=1e-9)
    Kuf = found.Kuf(tf.constant(Z), tf.constant(X)).numpy()
    np.testing.assert_allclose(Kuf, [cross_by_loops(k, z, X) for k, z in zip(made, Z, strict=True)], rtol=1e-9)
    stock = [
        gpflow.covariances.Kuf(gpflow.inducing_variables.InducingPatches(z), k, tf.constant(X))
        for k, z in zip(made, Z, strict=True)
    ]
    np.testing.assert_allclose(Kuf, stock, rtol=1e-9)


@pytest.mark.parametrize("route", ROUTES)
def test_a_set_of_patches_shared_by_all_kernels_serves_each(route):
    X, Z = images(3), np.random.default_rng(3).uniform(size=(4, 6))
    found = stack(route, kernels(), X)
    np.testing.assert_allclose(
        found.Kuf(tf.constant(Z), tf.constant(X)), found.Kuf(tf.constant(np.stack([Z, Z])), tf.constant(X)), rtol=1e-12
    )


@pytest.mark.parametrize("route", ROUTES)
def test_images_and_patches_together_have_a_positive_semidefinite_covariance(route):
    """T4.2: the two covariances and the responses at the patches belong to one Gaussian process."""
    X, Z = images(6), images(8, 5)[:, : CUT.length]
    found = stack(route, kernels(), X)
    K, Kuf = found.K(tf.constant(X)).numpy(), found.Kuf(tf.constant(Z), tf.constant(X)).numpy()
    for g, kernel in enumerate(found.kernels):
        joint = np.block([[K[g], Kuf[g].T], [Kuf[g], kernel.base_kernel(Z).numpy()]])
        assert np.linalg.eigvalsh(joint).min() > -1e-10


@pytest.mark.parametrize("route", ROUTES)
def test_with_equal_weights_the_order_of_patches_does_not_matter_and_with_others_it_does(route):
    """T4.3: two lines of pixels with the same multiset of pairs; and single pixels in any order."""
    pairs, pixels = Patches((1, 7), (1, 2)), Patches((1, 7), (1, 1))
    X = np.array([[0, 0, 1, 0, 1, 1, 0], [0, 0, 1, 1, 0, 1, 0], [1, 0, 0, 1, 1, 0, 1.0]])
    assert sorted(map(tuple, pairs.cut(X[:2])[0])) == sorted(map(tuple, pairs.cut(X[:2])[1]))
    for cut, images_with_the_same in ((pairs, X), (pixels, np.stack([X[0], X[0][[3, 1, 0, 6, 2, 5, 4]], X[2]]))):
        same = stack(route, equally_weighted(cut), images_with_the_same)
        K = same.K(tf.constant(images_with_the_same)).numpy()
        np.testing.assert_allclose(K[:, 0], K[:, 1], rtol=1e-12)
        diagonal = same.K_diag(tf.constant(images_with_the_same)).numpy()
        np.testing.assert_allclose(diagonal[:, 0], diagonal[:, 1], rtol=1e-12)
        weighted = stack(route, kernels(cut), images_with_the_same).K_diag(tf.constant(images_with_the_same)).numpy()
        assert np.all(np.abs(weighted[:, 0] - weighted[:, 1]) > 1e-4)


@pytest.mark.parametrize("route", ROUTES)
def test_scaled_weights_scale_the_kernel_by_the_square(route):
    """T4.4; the cross-covariance scales by the factor itself."""
    X, Z, made = images(4), images(3, 5)[:, : CUT.length], kernels()
    found = stack(route, made, X)
    before = [found.K(tf.constant(X)), found.K_diag(tf.constant(X)), found.Kuf(tf.constant(Z), tf.constant(X))]
    for kernel in made:
        kernel.weights.assign(3 * kernel.weights)
    after = [found.K(tf.constant(X)), found.K_diag(tf.constant(X)), found.Kuf(tf.constant(Z), tf.constant(X))]
    for one, other, factor in zip(before, after, (9, 9, 3), strict=True):
        np.testing.assert_allclose(other, factor * one, rtol=1e-10)


def test_a_patch_as_large_as_the_image_gives_the_kernel_on_images():
    """T4.1 for the covariances."""
    cut, X, Z = Patches((5, 6), (5, 6), ard=True), images(4, values=None), images(3, 7, values=None)
    for kernel in (made := equally_weighted(cut)):
        kernel.base_kernel.lengthscales.assign(np.random.default_rng(0).uniform(1, 3, 30))
    found = PatchStack(made)
    np.testing.assert_allclose(found.K(tf.constant(X)), [k.base_kernel(X) for k in made], rtol=1e-9)
    np.testing.assert_allclose(found.K_diag(tf.constant(X)), np.ones((2, 4)), rtol=1e-12)
    np.testing.assert_allclose(
        found.Kuf(tf.constant(Z), tf.constant(X)), [k.base_kernel(Z, X) for k in made], rtol=1e-9
    )


# ------------------------------------------------------------------------------------------------- two ways, one result


def value_and_gradient(found: PatchStack, X: np.ndarray, Z: np.ndarray) -> list[np.ndarray]:
    """Diagonal and cross-covariance, and the gradient of a sum of functions of them by all that they depend on."""
    z = tf.Variable(Z)
    variables = [*found.trainable_variables, z]
    with tf.GradientTape() as tape:
        diagonal, cross = found.K_diag(tf.constant(X)), found.Kuf(z, tf.constant(X))
        value = tf.reduce_sum(tf.sin(3 * diagonal)) + tf.reduce_sum(tf.cos(cross))
    return [
        diagonal.numpy(),
        cross.numpy(),
        *(tf.convert_to_tensor(g).numpy() for g in tape.gradient(value, variables)),
    ]


PIECES = [1, 16**2 * 8 * 2, 2 * 16**2 * 8 * 2, 3 * 16**2 * 8 * 2, 7 * 16**2 * 8 * 2, 1 << 30]


@pytest.mark.parametrize("count", [1, 6, 7])
@pytest.mark.parametrize("size", PIECES)
def test_pieces_of_any_size_give_the_values_and_gradients_of_the_whole(size, count):
    """T4.6: one image at a time, two, three, just the batch, and more than it; batches that pieces do not divide."""
    X, Z = images(count, values=None), np.random.default_rng(2).uniform(size=(2, 3, 6))
    made = kernels()

    class Whole:
        trainable_variables = PatchStack(made).trainable_variables
        K_diag = staticmethod(lambda X: tf.stack([k.K_diag(X) for k in made]))
        Kuf = staticmethod(
            lambda Z, X: tf.stack(
                [
                    tf.reduce_sum(k.base_kernel.K(z, k.get_patches(X)) * k.weights, 2) / 16.0
                    for k, z in zip(made, tf.unstack(Z), strict=True)
                ]
            )
        )

    found = value_and_gradient(PatchStack(made, bytes_at_once=size), X, Z)
    for one, other in zip(found, value_and_gradient(Whole, X, Z), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


def test_pieces_are_taken_one_after_the_other():
    """TensorFlow runs ten turns of a loop at once unless told otherwise, and ten pieces need ten times the memory."""
    found, Z = PatchStack(kernels(), bytes_at_once=1), tf.Variable(np.zeros((2, 3, 6)))
    X = tf.constant(images(7))

    def both() -> list[tf.Tensor]:
        with tf.GradientTape() as tape:
            value = tf.reduce_sum(found.K_diag(X)) + tf.reduce_sum(found.Kuf(Z, X))
        return tape.gradient(value, [*found.trainable_variables, Z])

    graph = tf.function(both, autograph=False).get_concrete_function().graph
    loops = [op.get_attr("parallel_iterations") for op in graph.get_operations() if "While" in op.type]
    assert len(loops) == 4
    assert set(loops) == {1}


@pytest.mark.parametrize("shared_weights", [False, True])
def test_the_table_gives_the_values_and_gradients_of_the_double_sum(shared_weights):
    X, Z = images(7), np.random.default_rng(2).uniform(size=(2, 3, 6))
    made = kernels(Patches((5, 6), (2, 3), ard=True, shared_weights=shared_weights))
    by_table, in_pieces = (value_and_gradient(stack(route, made, X), X, Z) for route in ROUTES)
    for one, other in zip(by_table, in_pieces, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


def test_patches_that_are_not_in_the_table_are_summed_directly():
    """Alone, and among known ones; prediction needs no other model."""
    train, Z = images(4), np.random.default_rng(2).uniform(size=(2, 3, 6))
    made = kernels()
    found = PatchStack(made, table=train)
    for new in (images(2, 9, values=None), np.concatenate([train[:1], images(1, 9, values=None)]), 0.5 * train[:2]):
        np.testing.assert_allclose(found.K_diag(tf.constant(new)), [k.K_diag(new) for k in made], rtol=1e-9)
        expected = [
            gpflow.covariances.Kuf(gpflow.inducing_variables.InducingPatches(z), k, tf.constant(new))
            for k, z in zip(made, Z, strict=True)
        ]
        np.testing.assert_allclose(found.Kuf(tf.constant(Z), tf.constant(new)), expected, rtol=1e-9)


@pytest.mark.parametrize("change", [1e-9, -1e-9, 1e-3])
def test_a_patch_next_to_one_in_the_table_is_not_taken_for_it(change):
    train = images(4)
    made = kernels()
    made[0].base_kernel.lengthscales.assign(1e-3)
    moved = train + change * images(4, 8)
    found = PatchStack(made, table=train).K_diag(tf.constant(moved))
    np.testing.assert_allclose(found, [k.K_diag(moved) for k in made], rtol=1e-7)


@pytest.mark.parametrize("route", ROUTES)
def test_equal_images_have_equal_rows(route):
    X = images(3)[[0, 1, 0, 2, 0]]
    found = stack(route, kernels(), X)
    K = found.K(tf.constant(X)).numpy()
    np.testing.assert_allclose(K[:, 0], K[:, 2], rtol=1e-12)
    diagonal = found.K_diag(tf.constant(X)).numpy()
    np.testing.assert_allclose(diagonal[:, [0, 0]], diagonal[:, [2, 4]], rtol=1e-12)


def test_images_with_many_distinct_patches_have_no_table_and_the_same_values():
    """More than the largest table: 60 images of 5 x 6 real pixels have 960 patches, 200 have 3200."""
    X = images(200, values=None)
    made = kernels(count=1)
    np.testing.assert_allclose(
        PatchStack(made, table=X).K_diag(tf.constant(X[:3])), [k.K_diag(X[:3]) for k in made], rtol=1e-9
    )


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("known", [True, False])
def test_a_graph_for_any_number_of_images_gives_the_eager_values(route, known):
    X, Z = images(6), np.random.default_rng(2).uniform(size=(2, 3, 6))
    found = stack(route, kernels(), X, bytes_at_once=2 * 16**2 * 8 * 2)

    @tf.function(input_signature=[tf.TensorSpec([None, 30], tf.float64)], autograph=False)
    def both(x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return found.K_diag(x), found.Kuf(tf.constant(Z), x)

    for count in (1, 2, 5):
        new = X[:count] if known else images(count, 4, values=None)
        for one, other in zip(
            both(new), (found.K_diag(tf.constant(new)), found.Kuf(tf.constant(Z), tf.constant(new))), strict=True
        ):
            np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("route", ROUTES)
def test_float32_gives_float32_close_to_float64(route):
    X, Z = images(4), np.random.default_rng(2).uniform(size=(2, 3, 6))
    exact = stack(route, kernels(), X)
    expected = [exact.K_diag(tf.constant(X)), exact.Kuf(tf.constant(Z), tf.constant(X))]
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32)):
        single = stack(route, kernels(), X)
        x = tf.constant(X, tf.float32)
        found = [single.K_diag(x), single.Kuf(tf.constant(Z, tf.float32), x)]
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == tf.float32
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-5)


# --------------------------------------------------------------------------------------- images of two levels

LARGE = Patches(image=(9, 10), patch=(8, 8))


def two_levels(count: int, seed: int = 0, low: float = 0.0, high: float = 1.0) -> np.ndarray:
    """`[count, 90]` whose patches of 64 pixels are too many for a table."""
    return np.where(np.random.default_rng(seed).uniform(size=(count, LARGE.pixels)) < 0.8, high, low)


def gradients(found, X: np.ndarray, variables) -> list[np.ndarray]:
    """Diagonal of `found`, and the gradient of a sum of functions of it."""
    with tf.GradientTape() as tape:
        diagonal = found.K_diag(tf.constant(X))
        value = tf.reduce_sum(tf.sin(3 * diagonal))
    return [diagonal.numpy(), *(tf.convert_to_tensor(g).numpy() for g in tape.gradient(value, variables))]


def diagonal_by_loops(kernel: Convolutional, X: np.ndarray, cut: Patches) -> list[float]:
    w, k = np.asarray(kernel.weights), response(kernel)
    return [
        sum(w[p] * w[q] * k(a, b) for p, a in enumerate(windows(x, cut)) for q, b in enumerate(windows(x, cut)))
        / cut.number**2
        for x in X
    ]


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-0.5, 2.0)])
@pytest.mark.parametrize("ard", [False, True])
def test_variances_of_images_of_two_levels_are_those_of_the_double_loops_with_the_gradients_of_gpflow(low, high, ard):
    X = two_levels(5, 0, low, high)
    made = kernels(Patches(LARGE.image, LARGE.patch, ard=ard), count=3)
    for kernel in made:
        kernel.base_kernel.lengthscales.assign(3.0 * kernel.base_kernel.lengthscales)
    found = PatchStack(made, table=X)
    variables = found.trainable_variables

    class Stock:
        K_diag = staticmethod(lambda X: tf.stack([kernel.K_diag(X) for kernel in made]))

    ours, theirs = gradients(found, X, variables), gradients(Stock, X, variables)
    np.testing.assert_allclose(ours[0], [diagonal_by_loops(k, X, LARGE) for k in made], rtol=1e-9)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("size", [1, 2 * 16 * 21, 1 << 30])
def test_variances_by_distance_in_pieces_of_any_size_are_those_of_the_whole(size):
    """One image at a time, two, and all; with gradients, and for a graph that knows no number of images."""
    X, made = two_levels(7), kernels(LARGE)
    whole, pieces = PatchStack(made, table=X), PatchStack(made, table=X, bytes_at_once=size)
    variables = whole.trainable_variables
    expected = gradients(whole, X, variables)
    for one, other in zip(gradients(pieces, X, variables), expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-14)
    graph = tf.function(pieces.K_diag, input_signature=[tf.TensorSpec([None, 90], tf.float64)], autograph=False)
    for count in (1, 6):
        np.testing.assert_allclose(graph(tf.constant(X[:count])), expected[0][:, :count], rtol=1e-10)


def test_images_of_other_levels_are_summed_directly():
    """Grey ones, and ones whose two levels are others: prediction needs no other model."""
    made = kernels(LARGE)
    found = PatchStack(made, table=two_levels(4))
    for new in (np.random.default_rng(1).uniform(size=(2, 90)), 0.5 * two_levels(2, 3), two_levels(2, 3) + 1e-9):
        np.testing.assert_allclose(found.K_diag(tf.constant(new)), [k.K_diag(new) for k in made], rtol=1e-9)


def test_sums_by_distance_add_products_of_weights_over_all_ordered_pairs():
    X, w = two_levels(3), np.random.default_rng(2).normal(size=(2, LARGE.number))
    expected = np.zeros((2, 3, LARGE.length + 1))
    for n, x in enumerate(X):
        cut = windows(x, LARGE)
        for p, a in enumerate(cut):
            for q, b in enumerate(cut):
                expected[:, n, int(np.sum(a != b))] += w[:, p] * w[:, q]
    levels = TwoLevels.of(X)
    found = levels.sums(LARGE.windows(tf.constant(X)), tf.constant(w))
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-13)
    assert TwoLevels.of(np.ones((2, 90))) is None
    assert TwoLevels.of(np.random.default_rng(0).uniform(size=(2, 90))) is None


@pytest.mark.parametrize("base", [gpflow.kernels.Matern32, gpflow.kernels.RationalQuadratic])
@pytest.mark.parametrize("binary", [False, True])
def test_any_stationary_kernel_on_patches_has_the_values_and_gradients_of_gpflow(base, binary):
    """With all its parameters, the variance among them."""
    rng = np.random.default_rng(0)
    X = two_levels(3) if binary else rng.uniform(size=(3, 90))
    made = [Convolutional(base(lengthscales=2.0 + g, variance=0.7 + g), (9, 10), (8, 8)) for g in range(2)]
    for kernel in made:
        kernel.weights.assign(rng.normal(size=LARGE.number))
    found = PatchStack(made, table=X)

    class Stock:
        K_diag = staticmethod(lambda X: tf.stack([kernel.K_diag(X) for kernel in made]))

    variables = found.trainable_variables
    assert len(variables) == 2 * (4 if base is gpflow.kernels.RationalQuadratic else 3)
    for one, other in zip(gradients(found, X, variables), gradients(Stock, X, variables), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize("ard", [False, True])
@pytest.mark.parametrize("size", [1, 1 << 30])
def test_the_gradient_by_shared_patches_is_the_sum_of_those_by_equal_separate_ones(ard, size):
    X, Z = images(4, values=None), np.random.default_rng(2).uniform(size=(3, 6))
    found = PatchStack(kernels(Patches((5, 6), (2, 3), ard=ard), count=3), bytes_at_once=size)
    *shared, by_one = value_and_gradient(found, X, Z)
    *separate, by_each = value_and_gradient(found, X, np.stack([Z] * 3))
    np.testing.assert_allclose(by_one, by_each.sum(0), rtol=1e-9, atol=1e-12)
    for one, other in zip(shared, separate, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("sets", [None, 2])
@pytest.mark.parametrize("ard", [False, True])
def test_covariances_with_patches_have_the_gradients_of_the_sums_written_out(sets, ard):
    """Kernel by kernel and image by image, with GPflow's kernels on the windows."""
    X = images(3, values=None)
    Z = tf.Variable(np.random.default_rng(2).uniform(size=(4, 6) if sets is None else (2, 4, 6)))
    made = kernels(Patches((5, 6), (2, 3), ard=ard))
    found = PatchStack(made)
    variables = [*found.trainable_variables, Z]

    def written_out() -> tf.Tensor:
        each = [Z, Z] if sets is None else tf.unstack(Z)
        cut = [np.stack(windows(x, CUT)) for x in X]
        return tf.stack(
            [
                tf.stack([tf.linalg.matvec(k.base_kernel.K(z, c), k.weights) / CUT.number for c in cut], 1)
                for k, z in zip(made, each, strict=True)
            ]
        )

    results = []
    for covariances in (lambda: found.Kuf(tf.convert_to_tensor(Z), tf.constant(X)), written_out):
        with tf.GradientTape() as tape:
            value = covariances()
            total = tf.reduce_sum(tf.cos(3 * value))
        results.append([value, *(tf.convert_to_tensor(g) for g in tape.gradient(total, variables))])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-12)


def test_float32_variances_and_gradients_of_images_of_two_levels_are_finite_and_close():
    X = two_levels(4)
    exact = PatchStack(kernels(LARGE), table=X)
    expected = gradients(exact, X, exact.trainable_variables)
    with gpflow.config.as_context(gpflow.config.Config(float=np.float32)):
        single = PatchStack(kernels(LARGE), table=X)
        found = gradients(single, X.astype(np.float32), single.trainable_variables)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=1e-4)


# ------------------------------------------------------------------------------------------------------- errors


def test_kernels_that_are_not_patch_kernels_are_refused():
    with pytest.raises(TypeError, match="SquaredExponential"):
        PatchStack([gpflow.kernels.SquaredExponential()])
    with pytest.raises(TypeError, match="Linear"):
        PatchStack([Convolutional(gpflow.kernels.Linear(), (5, 6), (2, 3))])


def test_kernels_on_different_images_are_refused():
    with pytest.raises(ValueError, match="differ in their bases, images, patches"):
        PatchStack([*Patches((5, 6), (2, 3)).kernels(1), *Patches((5, 6), (3, 3)).kernels(1)])


def test_a_table_of_images_of_another_size_is_refused():
    with pytest.raises(ValueError, match=r"expected \[N, 30\]"):
        PatchStack(kernels(), table=np.zeros((2, 31)))
