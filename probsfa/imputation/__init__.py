"""Imputation of missing values: a scikit-learn imputer, and a comparison of methods on hidden values.

:class:`ProbabilisticImputer` is a step of scikit-learn pipelines. An imputation method is an object with a
name and a method ``fill(X, times=None)``. The result is a :class:`Filled`: completed values and, for some
methods, standard deviations. :func:`compare_methods` hides observed values, imputes them by every method and
scores the results with :mod:`probsfa.metrics`.

Examples
--------
>>> from probsfa.datasets import make_slow_mixture
>>> from probsfa.imputation import ColumnMean, HiddenValues, LinearInterpolation, compare_methods
>>> X = make_slow_mixture(400, 4, timescales=[100.0, 20.0], noise_variance=0.01, random_state=0).data
>>> [comparison] = compare_methods(X, [ColumnMean(), LinearInterpolation()], [HiddenValues(0.1)])
>>> print(comparison.hidden)
10 % of the observed values hidden, single values
>>> mean, linear = comparison.scores
>>> linear.rmse < 0.6 * mean.rmse
True
"""

from probsfa._lazy import deprecated
from probsfa.imputation.comparison import Comparison as Comparison
from probsfa.imputation.comparison import Score as Score
from probsfa.imputation.comparison import compare_methods as compare_methods
from probsfa.imputation.filled import Filled as Filled
from probsfa.imputation.hiding import HiddenBlocks as HiddenBlocks
from probsfa.imputation.hiding import HiddenValues as HiddenValues
from probsfa.imputation.imputer import ProbabilisticImputer as ProbabilisticImputer
from probsfa.imputation.methods import ClassicSFA as ClassicSFA
from probsfa.imputation.methods import ColumnMean as ColumnMean
from probsfa.imputation.methods import EstimatorImputation as EstimatorImputation
from probsfa.imputation.methods import IterativeRegression as IterativeRegression
from probsfa.imputation.methods import LinearInterpolation as LinearInterpolation
from probsfa.imputation.methods import default_methods as default_methods

__all__ = [
    "ClassicSFA",
    "ColumnMean",
    "Comparison",
    "EstimatorImputation",
    "Filled",
    "HiddenBlocks",
    "HiddenValues",
    "IterativeRegression",
    "LinearInterpolation",
    "ProbabilisticImputer",
    "Score",
    "compare_methods",
    "default_methods",
]

_INTERNAL_ADVICE = "It is internal and has no replacement."
_METRICS_ADVICE = "Use compare_methods, or the functions of probsfa.metrics."
_MASKS_ADVICE = "Use probsfa.datasets.hide_values or hide_blocks, which return the mask of hidden values."
__getattr__ = deprecated(
    __name__,
    {
        "HiddenCells": ("probsfa.imputation.hiding:HiddenValues", "Use HiddenValues, its new name."),
        "Errors": ("probsfa.imputation.comparison:Errors", _METRICS_ADVICE),
        "score": ("probsfa.imputation.comparison:errors_of", _METRICS_ADVICE),
        "Progress": ("probsfa.imputation.comparison:Progress", _INTERNAL_ADVICE),
        "Method": (
            "probsfa.imputation.filled:Method",
            "Any object with an attribute `name` and a method `fill` is accepted.",
        ),
        "Hiding": (
            "probsfa.imputation.hiding:HiddenPattern",
            "Any object with an attribute `name` and a method `choose` is accepted.",
        ),
        "hide": ("probsfa.imputation.hiding:without_hidden", _MASKS_ADVICE),
        "fit_quietly": ("probsfa.imputation.methods:fit_quietly", _INTERNAL_ADVICE),
    },
)
