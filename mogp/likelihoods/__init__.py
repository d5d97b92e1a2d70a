"""Likelihoods: how the targets of an output depend on the latent functions it owns.

| likelihood | functions | targets |
|---|---|---|
| `Gaussian` | mean | real |
| `HeteroscedasticGaussian` | mean, log variance | real |
| `Beta` | log a, log b | in (0, 1) |
| `Gamma` | log shape, log rate | positive |
| `Exponential` | log rate | positive |
| `Bernoulli` | logit | 0 or 1 |
| `Poisson` | log rate | counts |
| `ZeroInflatedPoisson` | logit of extra zeros, log rate | counts |
| `Softmax`, `AugmentReduce`, `OneVsEach`, `RobustMax` | one for each class | labels 0, 1, ... |
| `BernoulliLabels` | one for each label | which labels a point has |
| `AnnotatedClasses` | one for each class and annotator | labels, one column per annotator |
| `AnnotatedValues` | truth, log variance of each annotator | real, one column per annotator |

All are `gpflow.likelihoods.Likelihood`s, and GPflow's own can stand in their place. `PerOutput`
gives each output its own. `check_targets` and `sample_y` work for both kinds.
"""

from mogp.likelihoods.annotated_classes import AnnotatedClasses
from mogp.likelihoods.annotated_values import AnnotatedValues
from mogp.likelihoods.annotators import Annotators
from mogp.likelihoods.augment import AugmentReduce
from mogp.likelihoods.base import (
    DistributionLikelihood,
    ReadsFunctions,
    Targets,
    bounded,
    bounded_exp,
)
from mogp.likelihoods.constants import best_constants, density_slopes
from mogp.likelihoods.continuous import Beta, Exponential, Gamma, Gaussian, HeteroscedasticGaussian
from mogp.likelihoods.discrete import Bernoulli, Poisson, ZeroInflatedPoisson
from mogp.likelihoods.labels import BernoulliLabels
from mogp.likelihoods.multiclass import RobustMax, Softmax
from mogp.likelihoods.one_vs_each import OneVsEach
from mogp.likelihoods.per_output import PerOutput
from mogp.likelihoods.sampling import conditional, sample_y
from mogp.likelihoods.targets import TargetRule, check_targets, target_rules
from mogp.likelihoods.units import function_units, has_units

__all__ = [
    "AnnotatedClasses",
    "AnnotatedValues",
    "Annotators",
    "AugmentReduce",
    "Bernoulli",
    "BernoulliLabels",
    "Beta",
    "DistributionLikelihood",
    "Exponential",
    "Gamma",
    "Gaussian",
    "HeteroscedasticGaussian",
    "OneVsEach",
    "PerOutput",
    "Poisson",
    "ReadsFunctions",
    "RobustMax",
    "Softmax",
    "TargetRule",
    "Targets",
    "ZeroInflatedPoisson",
    "best_constants",
    "bounded",
    "bounded_exp",
    "check_targets",
    "conditional",
    "density_slopes",
    "function_units",
    "has_units",
    "sample_y",
    "target_rules",
]
