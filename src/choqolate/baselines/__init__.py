"""Other methods over the same concept scores, fitted, applied and read like :class:`~choqolate.ChoqolateClassifier`."""

from choqolate.baselines.linear import LinearBottleneck, fit_linear_runs

__all__ = ["LinearBottleneck", "fit_linear_runs"]
