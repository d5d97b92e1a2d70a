"""The scikit-learn front."""

from mogp.estimators.labels import MLGPFClassifier

__all__ = ["MLGPFClassifier"]
