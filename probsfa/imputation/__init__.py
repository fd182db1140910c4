"""Imputation of missing values: a scikit-learn imputer, and methods compared by hidden values.

:class:`ProbabilisticImputer` is a step of scikit-learn pipelines. The methods that are compared each have a
name and ``fill(X, times=None)``, which returns a :class:`Filled`: completed values and, where the method has
them, standard deviations. :func:`compare_methods` hides observed values, lets every method impute them and
scores the results with :mod:`probsfa.metrics`.

Examples
--------
>>> from probsfa.datasets import make_slow_mixture
>>> from probsfa.imputation import ColumnMean, HiddenCells, LinearInterpolation, compare_methods
>>> X = make_slow_mixture(400, 4, timescales=[100.0, 20.0], noise_variance=0.01, random_state=0).data
>>> [comparison] = compare_methods(X, [ColumnMean(), LinearInterpolation()], [HiddenCells(0.1)])
>>> print(comparison.hidden)
10 % of the observed values hidden, single values
>>> mean, linear = comparison.scores
>>> linear.rmse < 0.6 * mean.rmse
True
"""

from probsfa.imputation.comparison import Comparison as Comparison
from probsfa.imputation.comparison import Errors as Errors
from probsfa.imputation.comparison import Progress as Progress
from probsfa.imputation.comparison import Score as Score
from probsfa.imputation.comparison import compare_methods as compare_methods
from probsfa.imputation.comparison import score as score
from probsfa.imputation.filled import Filled as Filled
from probsfa.imputation.filled import Method as Method
from probsfa.imputation.hiding import HiddenBlocks as HiddenBlocks
from probsfa.imputation.hiding import HiddenCells as HiddenCells
from probsfa.imputation.hiding import Hiding as Hiding
from probsfa.imputation.hiding import hide as hide
from probsfa.imputation.imputer import ProbabilisticImputer as ProbabilisticImputer
from probsfa.imputation.methods import ClassicSFA as ClassicSFA
from probsfa.imputation.methods import ColumnMean as ColumnMean
from probsfa.imputation.methods import EstimatorImputation as EstimatorImputation
from probsfa.imputation.methods import IterativeRegression as IterativeRegression
from probsfa.imputation.methods import LinearInterpolation as LinearInterpolation
from probsfa.imputation.methods import default_methods as default_methods
from probsfa.imputation.methods import fit_quietly as fit_quietly

__all__ = [
    "ClassicSFA",
    "ColumnMean",
    "Comparison",
    "Errors",
    "EstimatorImputation",
    "Filled",
    "HiddenBlocks",
    "HiddenCells",
    "Hiding",
    "IterativeRegression",
    "LinearInterpolation",
    "Method",
    "ProbabilisticImputer",
    "Progress",
    "Score",
    "compare_methods",
    "default_methods",
    "fit_quietly",
    "hide",
    "score",
]
