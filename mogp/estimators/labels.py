"""`MLGPFClassifier`: the multi-label factor model with the manners of scikit-learn's
classifiers.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse import csr_array, issparse, vstack
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from mogp.data import Array
from mogp.data.labels import LabelData, Matrix, unit_rows
from mogp.models import mlgpf
from mogp.models.choices import PosteriorName
from mogp.optimizers import Adam
from mogp.training import fit

_NUMBERS_AT_ONCE = 1 << 24


class MLGPFClassifier(ClassifierMixin, BaseEstimator):
    r"""Any number of labels for each point, out of up to very many, by `mogp.models.mlgpf`.

    `Y [N, K]` of zeros and ones, dense or sparse, says which labels a point has. A vector of
    classes is taken as labels of which a point has exactly one: where labels $k$ have probabilities
    $p_k$ each, that one is $k$ with probability

    $$\frac{p_k/(1 - p_k)}{\sum_j p_j/(1 - p_j)}.$$

    Args:
        latents: latent GPs.
        inducing: inducing points.
        kernel: a GPflow kernel or a name such as "ard", "se", "linear", see `mogp.models.mlgpf`;
            "ard" if None.
        subspace_dim: dimension of the subspace that the inducing points lie in; None for free ones.
        train_basis: train the basis of the subspace too.
        posterior: "full" or "parsimonious".
        negatives: labels sampled at each step, in place of all; worth while from some thousands of
            labels.
        steps: of training.
        batch_size: points a step.
        learning_rate: of Adam.
        normalise: bring all inputs to length one, as the thesis does.
        random_state: of start values, mini-batches and sampled labels.

    Attributes:
        classes_: `[K]`, the classes; label numbers where there are labels.
        model_: the trained `mogp.models.LabelMOGP`.
        history_: how training went, a `mogp.History`.
        multilabel_: whether it was fitted to labels, not to classes.

    >>> import numpy as np
    >>> from mogp import MLGPFClassifier
    >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]])
    >>> Y = np.array([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]])
    >>> classifier = MLGPFClassifier(latents=2, inducing=3, steps=2, random_state=0).fit(X, Y)
    >>> classifier.predict_proba(X).shape
    (4, 3)
    """

    def __init__(
        self,
        *,
        latents: int = 30,
        inducing: int = 100,
        kernel: Any = None,
        subspace_dim: int | None = None,
        train_basis: bool = False,
        posterior: PosteriorName = "full",
        negatives: int | None = None,
        steps: int = 1000,
        batch_size: int = 500,
        learning_rate: float = 0.01,
        normalise: bool = True,
        random_state: Any = None,
    ) -> None:
        self.latents = latents
        self.inducing = inducing
        self.kernel = kernel
        self.subspace_dim = subspace_dim
        self.train_basis = train_basis
        self.posterior = posterior
        self.negatives = negatives
        self.steps = steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.normalise = normalise
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        return tags

    def fit(self, X: Any, y: Any) -> Self:
        """Train on points `X [N, P]`, dense or sparse, and labels `[N, K]` or classes `[N]`."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", multi_output=True, dtype=(np.float64, np.float32)
        )
        check_classification_targets(y)
        data = LabelData.of(X, self._targets(y), normalise=self.normalise)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.model_ = mlgpf(
            data,
            latents=self.latents,
            inducing=self.inducing,
            kernel=self.kernel,
            subspace_dim=self.subspace_dim,
            train_basis=self.train_basis,
            posterior=self.posterior,
            negatives=self.negatives,
            seed=seed,
        )
        self.history_ = fit(
            self.model_,
            data,
            steps=self.steps,
            optimizer=Adam(self.learning_rate, lazy=self.negatives is not None),
            batch_size=self.batch_size,
            seed=seed,
            progress=False,
        )
        return self

    def predict(self, X: Any) -> Any:
        """Labels that are more probable than not, `[N, K]` (sparse if they were in `fit`); or
        classes `[N]`.
        """
        inputs = self._inputs(X)
        if not self.multilabel_:
            return self.classes_[np.argmax(self.model_.log_odds(inputs), axis=1)]
        rows = max(1, _NUMBERS_AT_ONCE // len(self.classes_))
        starts = range(0, inputs.shape[0], rows)
        found = [
            csr_array(self.model_.scores(inputs[start : start + rows]) > 0, dtype=np.int64)
            for start in starts
        ]
        labels = vstack(found, format="csr")
        return labels if self._sparse else labels.toarray()

    def predict_proba(self, X: Any) -> Array:
        """Probabilities of the labels, each by itself, or of the classes, `[N, K]`."""
        inputs = self._inputs(X)
        if self.multilabel_:
            return self.model_.predict_proba(inputs)
        probabilities: Array = softmax(self.model_.log_odds(inputs), axis=1)
        return probabilities

    def decision_function(self, X: Any) -> Array:
        """Log-odds of the labels or classes, `[N, K]`; for two classes of the second against the
        first, `[N]`.
        """
        inputs = self._inputs(X)
        odds = self.model_.log_odds(inputs)
        return odds if self.multilabel_ or len(self.classes_) > 2 else odds[:, 1] - odds[:, 0]

    def top_k(self, X: Any, k: int = 5) -> Array:
        """The `k` labels or classes with the largest mean utilities, best first, `[N, k]`, without
        a table `[N, K]`.
        """
        inputs = self._inputs(X)
        ranked: Array = self.classes_[self.model_.top_labels(inputs, k).labels]
        return ranked

    def _targets(self, y: Any) -> Any:
        """Indicators of the labels; notes what is to be predicted."""
        kind = type_of_target(y)
        self.multilabel_ = kind == "multilabel-indicator"
        self._sparse = issparse(y)
        if self.multilabel_:
            self.classes_ = np.arange(y.shape[1])
            return y
        if kind not in ("binary", "multiclass"):
            raise ValueError(
                f"y is of the type {kind!r}; expected a class for each point, or zeros and ones [N,"
                " K] that say which labels it has."
            )
        self.classes_, codes = np.unique(column_or_1d(y, warn=True), return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"y has one class only, {self.classes_[0]!r}; at least two classes are needed."
            )
        return csr_array((np.ones(len(codes)), codes, np.arange(len(codes) + 1)))

    def _inputs(self, X: Any) -> Matrix:
        check_is_fitted(self)
        inputs: Matrix = validate_data(
            self, X, accept_sparse="csr", dtype=(np.float64, np.float32), reset=False
        )
        return unit_rows(inputs) if self.normalise else inputs
