"""Other methods over the same concept scores, fitted, applied and read like :class:`~choqolate.ChoqolateClassifier`."""

from choqolate.baselines.budget import budget_for
from choqolate.baselines.linear import LinearBottleneck, fit_linear_runs
from choqolate.baselines.logistic import LogisticLasso, LogisticRidge
from choqolate.baselines.pcbm import PCBM
from choqolate.baselines.pscbm import PSCBM
from choqolate.baselines.slr_avd import SLRAVD
from choqolate.baselines.sparse_autoencoder import SparseAutoencoder
from choqolate.estimators.bottleneck import Bottleneck, fit_together

__all__ = ["PCBM", "PSCBM", "SLRAVD", "Bottleneck", "LinearBottleneck", "SparseAutoencoder"]
__all__ += ["LogisticLasso", "LogisticRidge"]
__all__ += ["budget_for", "fit_linear_runs", "fit_together"]
