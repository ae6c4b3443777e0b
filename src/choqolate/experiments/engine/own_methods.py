"""Estimators of the user's own among the methods, given as module:Class; what they do wrong is said in a sentence."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from choqolate._util.text import listed
from choqolate.data.provenance import Provenance
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.explain.model_protocols import ConceptModel


class OwnMethod(NamedTuple):
    """An estimator of the user's own.

    Attributes:
        name: as given, module:Class.
        title: that of the class.
        estimator: not fitted.
        code: hash of its source.
    """

    name: str
    title: str
    estimator: Any
    code: str

    def train(
        self, rows: ConceptScores, seeds: Sequence[int], settings: Sequence[Mapping[str, Any]]
    ) -> list[list[ConceptModel]]:
        """A model for every seed of every setting; parameters that the estimator does not have are left out."""
        return [[self._fit(rows, {"random_state": seed} | dict(setting)) for seed in seeds] for setting in settings]

    def _fit(self, rows: ConceptScores, wanted: Mapping[str, Any]) -> OwnModel:
        with _naming(self.name, "fit"):
            known = self.estimator.get_params()
            model = clone(self.estimator).set_params(**{key: wanted[key] for key in wanted if key in known})
            model.fit(rows.frame, rows.labels)
        return OwnModel(self.name, model, rows)


class OwnModel(BaseEstimator):
    """A fitted estimator of the user's own: it does what a :class:`ConceptModel` does, or says what it does instead."""

    def __init__(self, name: str, model: Any, rows: ConceptScores) -> None:
        self._name, self._model = name, model
        self.concepts_ = list(rows.concepts)
        self.feature_names_in_ = np.array(self.concepts_, dtype=object)  # it was fitted on a data frame
        self.classes_ = np.unique(np.asarray(rows.labels, dtype=str))
        self.provenance_ = Provenance()
        given = getattr(self, "node_attributions_", None)
        self.node_attributions_ = _matrix(
            given, (None, len(self.concepts_)), f"{name} to have node_attributions_ of shape (nodes, {{}}) after fit"
        )
        self.class_attributions_ = getattr(self, "class_attributions_", None)

    def __getattr__(self, attribute: str) -> Any:
        """What it has beyond that, such as ``n_parameters_`` or ``random_state``."""
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        try:
            return getattr(self._model, attribute)
        except AttributeError:  # it may be optional
            raise
        except Exception as error:
            raise _failure(self._name, attribute, error) from error

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"OwnModel({self._name})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """It has none: it is fitted, and not made again."""
        return {}

    def fit(self, X: Any, y: Any) -> OwnModel:
        """It is fitted; scikit-learn takes only what has this for an estimator."""
        raise ChoqolateError(f"Expected {self._name} to be fitted once, but it is fitted. Make a new one.")

    def predict(self, X: Any) -> np.ndarray:
        """Labels as text, each of them one that the training rows have."""
        with _naming(self._name, "predict"):
            found = np.asarray(self._model.predict(X))
        if found.shape != (len(X),):
            raise ChoqolateError(
                f"Expected the predict of {self._name} to give one label per row, shape ({len(X)},), but it gives "
                f"shape {found.shape}."
            )
        labels = found.astype(str)
        strange = sorted(set(labels.tolist()) - set(self.classes_.tolist()))
        if strange:
            raise ChoqolateError(
                f"Expected the predict of {self._name} to give labels as it gets them in fit, such as "
                f"{listed(self.classes_.tolist(), 3)}, but it gives {listed(strange, 3)}. "
                "Turn indices back into labels, for example with classes_[indices]."
            )
        return labels

    def transform(self, X: Any) -> np.ndarray:
        """Node values, a matrix of numbers with one row per image."""
        with _naming(self._name, "transform"):
            given = self._model.transform(X)
        return _matrix(given, (len(X), None), f"the transform of {self._name} to give a matrix of shape ({{}}, nodes)")


def load_own(name: str) -> OwnMethod:
    """An estimator of the user's own by its name, module:Class; modules in the working directory are found.

    Raises:
        ChoqolateError: if it cannot be imported and made, or lacks what is measured.
    """
    module, _, attribute = name.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # where people keep what they are working on
    try:
        made = getattr(importlib.import_module(module), attribute)
        estimator = made() if inspect.isclass(made) else made
    except Exception as error:
        raise ChoqolateError(
            f"Expected a method as module:Class that can be imported and made without arguments, but {name} cannot: "
            f"{type(error).__name__}: {error}"
        ) from error
    lacking = [needed for needed in ("fit", "predict", "transform") if not callable(getattr(estimator, needed, None))]
    if lacking or not isinstance(estimator, BaseEstimator):
        came = f"it has no {lacking[0]}" if lacking else "it does not derive from sklearn.base.BaseEstimator"
        raise ChoqolateError(
            f"Expected {name} to be an estimator of scikit-learn with fit, predict and transform, but {came}."
        )
    source = inspect.getsourcefile(type(estimator))
    code = hashlib.sha256(Path(source).read_bytes()).hexdigest()[:16] if source is not None else ""
    return OwnMethod(name, attribute, estimator, code)


def _matrix(given: Any, shape: tuple[int | None, int | None], expected: str) -> np.ndarray:
    """Whatever numpy turns into a matrix of finite numbers whose rows or columns are as many as they must be."""
    size = next(length for length in shape if length is not None)
    begin = f"Expected {expected.format(size)}, but"
    if given is None:
        raise ChoqolateError(f"{begin} there is none.")
    try:
        matrix = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ChoqolateError(f"{begin} it holds other things than numbers, or rows that differ: {error}") from None
    if matrix.ndim != 2 or any(length not in (None, came) for length, came in zip(shape, matrix.shape, strict=True)):
        raise ChoqolateError(f"{begin} its shape is {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise ChoqolateError(f"{begin} {int((~np.isfinite(matrix)).sum())} of its numbers are NaN or infinite.")
    return matrix


@contextmanager
def _naming(name: str, what: str) -> Iterator[None]:
    """Any error of the user's code as a failure of this method alone."""
    try:
        yield
    except Exception as error:
        raise _failure(name, what, error) from error


def _failure(name: str, what: str, error: Exception) -> ChoqolateError:
    return ChoqolateError(f"The {what} of {name} failed with {type(error).__name__}: {error}")
