"""How the logistic regression of scikit-learn is told to heed ``l1_ratio``."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LogisticRegression

ELASTIC_NET: dict[str, Any] = {} if LogisticRegression().penalty == "deprecated" else {"penalty": "elasticnet"}
"""Nothing since scikit-learn 1.8; before, ``l1_ratio`` without it is ignored."""
