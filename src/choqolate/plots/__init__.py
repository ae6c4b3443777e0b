"""Pictures for papers and notebooks, drawn with matplotlib: every function takes ``ax=`` and returns the axes."""

from choqolate.plots.correlation import correlation_heatmap

__all__ = ["correlation_heatmap"]
