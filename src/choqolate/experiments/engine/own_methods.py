"""Estimators of the user's own among the methods, given as module:Class; what they do wrong is said in a sentence."""

from __future__ import annotations

import copy
import hashlib
import importlib
import inspect
import json
import os
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, clone

from choqolate._util.text import listed
from choqolate.data.provenance import Provenance
from choqolate.data.scores import ConceptScores
from choqolate.errors import ChoqolateError
from choqolate.explain.model_protocols import ConceptModel

_OF_CLASSES = ("class_scores", "predict_proba")  # a method need not have them
_SAME_FOR_ALL = ("random_state", "n_nodes", "steps", "epochs", "batch_size")
_ERRORS = (Exception, SystemExit)  # a method that calls sys.exit ends itself, not the comparison


class OwnMethod(NamedTuple):
    """An estimator of the user's own.

    Attributes:
        name: as given, module:Class.
        title: the attribute ``title`` of the class, or its name.
        estimator: not fitted.
        code: hash of the source files of its class and of the base classes.
        grid: the attribute ``tuning_grid`` of the class: values to try of each parameter on validation rows.
        dials: the attribute ``tuning_dials``: the same for parameters that trade accuracy for sparsity.
    """

    name: str
    title: str
    estimator: Any
    code: str
    grid: Mapping[str, Sequence[Any]]
    dials: Mapping[str, Sequence[Any]]

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
            given, ("nodes", len(self.concepts_)), f"{name} to have node_attributions_ of shape {{}} after fit"
        )
        of_classes, order = getattr(self, "class_attributions_", None), self._order()
        self.class_attributions_ = None
        if of_classes is not None:
            shape = (len(self.classes_), len(self.node_attributions_))
            self.class_attributions_ = _matrix(of_classes, shape, f"class_attributions_ of {name} of shape {{}}")[order]

    def __getattr__(self, attribute: str) -> Any:
        """What it has beyond that, such as ``n_parameters_`` or ``random_state``."""
        if attribute.startswith("_"):
            raise AttributeError(attribute)
        try:
            found = getattr(self._model, attribute)
        except AttributeError:  # it may be optional
            raise
        except _ERRORS as error:
            raise _failure(self._name, attribute, error) from error
        if attribute == "remove_concepts":
            return self._remove
        return partial(self._by_class, attribute) if attribute in _OF_CLASSES else found

    def _order(self) -> np.ndarray:
        """The place of each class in the estimator: as its ``classes_`` say, else sorted as text."""
        wanted = self.classes_.tolist()
        with _naming(self._name, "classes_"):
            given = [str(label) for label in getattr(self._model, "classes_", wanted)]
        missing, unexpected = Counter(wanted) - Counter(given), Counter(given) - Counter(wanted)
        if missing or unexpected:
            differences = {"Missing": missing, "Unexpected": unexpected}
            said = [f" {what}: {listed(list(names), 3)}." for what, names in differences.items() if names]
            raise ChoqolateError(
                f"Expected classes_ of {self._name} to have every label that fit gets once.{''.join(said)}"
            )
        return np.array([given.index(label) for label in wanted])

    def _by_class(self, what: str, X: Any) -> np.ndarray:
        """Class scores or probabilities, one column per class in the order of ``classes_``."""
        with _naming(self._name, what):
            given = getattr(self._model, what)(X)
        expected = f"the {what} of {self._name} to give a matrix of shape {{}}"
        return _matrix(given, (len(X), len(self.classes_)), expected)[:, self._order()]

    def _remove(self, names: Any) -> OwnModel:
        edited = copy.copy(self)
        edited._model = _call(self._name, self._model.remove_concepts, names)
        if not hasattr(edited._model, "predict"):
            raise ChoqolateError(
                f"Expected remove_concepts of {self._name} to return a fitted estimator, but it returned "
                f"{edited._model!r}."
            )
        return edited

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        return f"OwnModel({self._name})"

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """It has none: it is fitted, and not made again."""
        return {}

    def fit(self, X: Any, y: Any) -> OwnModel:
        """It is fitted; scikit-learn takes only what has this for an estimator."""
        raise ChoqolateError(f"Expected {self._name} to be fitted once, but it is fitted. Make a new one.")

    def node_inputs(self, X: Any) -> np.ndarray:
        """What the nodes weigh: the scores, unless the estimator says something else."""
        given = _call(self._name, self._model.node_inputs, X) if hasattr(self._model, "node_inputs") else X
        return _matrix(given, (len(X), "inputs"), f"the node_inputs of {self._name} to give a matrix of shape {{}}")

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
        return _matrix(given, (len(X), "nodes"), f"the transform of {self._name} to give a matrix of shape {{}}")


def _call(name: str, method: Callable[..., Any], *arguments: Any) -> Any:
    with _naming(name, method.__name__):
        return method(*arguments)


def load_own(name: str) -> OwnMethod:
    """An estimator of the user's own by its name, module:Class; modules in the working directory are found.

    Raises:
        ChoqolateError: if it cannot be imported and made, or lacks what is measured.
    """
    module, _, attribute = name.partition(":")
    if Path(module).name != module or module.startswith(".") or module.endswith(".py"):
        raise ChoqolateError(
            f"Expected the name of a module without folders and .py, such as {Path(module).stem.strip('.')}:{attribute}"
            f", but got {name}. Modules are searched in the current folder and among the installed packages."
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # where people keep what they are working on
    try:
        made = getattr(importlib.import_module(module), attribute)
        estimator = made() if inspect.isclass(made) else made
    except _ERRORS as error:
        searched = ""
        if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
            searched = f". Modules are searched in the current folder, {os.getcwd()}, and among the installed packages."
        raise ChoqolateError(
            f"Expected a method as module:Class that can be imported and made without arguments, but {name} cannot: "
            f"{type(error).__name__}: {error}{searched}"
        ) from error
    lacking = [needed for needed in ("fit", "predict", "transform") if not callable(getattr(estimator, needed, None))]
    if lacking or not isinstance(estimator, BaseEstimator):
        came = f"it has no {lacking[0]}" if lacking else "it does not derive from sklearn.base.BaseEstimator"
        raise ChoqolateError(
            f"Expected {name} to be an estimator of scikit-learn with fit, predict and transform, but {came}."
        )
    title = getattr(estimator, "title", None)
    grid, dials = (_values_to_try(name, estimator, said) for said in ("tuning_grid", "tuning_dials"))
    title = title if isinstance(title, str) and title else attribute
    return OwnMethod(name, title, estimator, _code_of(type(estimator)), grid, dials)


def _code_of(kind: type) -> str:
    """Hash of the source files of a class and of its base classes, without bases from installed packages."""
    own, *bases = map(_source_of, kind.__mro__)
    files = dict.fromkeys([own, *(file for file in bases if file is not None and not _is_installed(file))])
    return hashlib.sha256(b"".join(file.read_bytes() for file in files if file is not None)).hexdigest()[:16]


def _source_of(kind: type) -> Path | None:
    """The file of a class; ``None`` if it is built in, or not defined in a file."""
    try:
        found = inspect.getsourcefile(kind)
    except (OSError, TypeError):
        return None
    return Path(found) if found is not None and Path(found).is_file() else None


def _is_installed(file: Path) -> bool:
    """Whether a file is part of the standard library or of an installed package."""
    installed = {"site-packages", "dist-packages"} & set(file.parts)
    return bool(installed) or file.is_relative_to(sysconfig.get_path("stdlib"))


def _values_to_try(name: str, estimator: Any, attribute: str) -> dict[str, list[Any]]:
    """A dictionary from parameters to values; both go into the results file."""
    given = getattr(estimator, attribute, None)
    if given is None:
        return {}
    known = estimator.get_params()
    expected = f"Expected {attribute} of {name} to be a dictionary from its parameters to lists of values"
    if not isinstance(given, Mapping):
        raise ChoqolateError(f"{expected}, but it is {given!r}.")
    unknown = [parameter for parameter in given if parameter not in known]
    if unknown:
        raise ChoqolateError(f"{expected}, but it has no parameter {unknown[0]!r}. It has {listed(sorted(known))}.")
    common = [parameter for parameter in given if parameter in _SAME_FOR_ALL]
    if common:
        raise ChoqolateError(
            f"{expected}, but it has {common[0]!r}, which a comparison sets for all methods alike. Leave it out."
        )
    values: dict[str, list[Any]] = {}
    for parameter, several in given.items():
        try:
            values[parameter] = json.loads(json.dumps([_plain(one) for one in several], allow_nan=False))
        except (TypeError, ValueError):
            values[parameter] = []
        if not values[parameter] or isinstance(several, str):
            raise ChoqolateError(
                f"{expected}, such as {{'penalty': [0.001, 0.01]}}, but {parameter!r} has {several!r}. "
                "Values are finite numbers, strings, booleans or None."
            )
    return values


def _plain(value: Any) -> Any:
    """A number of numpy as one of Python."""
    return value.item() if isinstance(value, np.generic) else value


def _matrix(given: Any, shape: tuple[int | str, int | str], expected: str) -> np.ndarray:
    """Whatever numpy turns into a matrix of finite numbers of a shape; a text in it stands for any length."""
    begin = f"Expected {expected.format(f'({shape[0]}, {shape[1]})')}, but"
    if given is None:
        raise ChoqolateError(f"{begin} there is none.")
    try:
        matrix = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, RuntimeError) as error:
        raise ChoqolateError(f"{begin} it holds other things than numbers, or rows that differ: {error}") from None
    if matrix.ndim != 2 or any(
        isinstance(wanted, int) and came != wanted for came, wanted in zip(matrix.shape, shape, strict=True)
    ):
        raise ChoqolateError(f"{begin} its shape is {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise ChoqolateError(f"{begin} {int((~np.isfinite(matrix)).sum())} of its numbers are NaN or infinite.")
    return matrix


@contextmanager
def _naming(name: str, what: str) -> Iterator[None]:
    """Any error of the user's code as a failure of this method alone."""
    try:
        yield
    except _ERRORS as error:
        raise _failure(name, what, error) from error


def _failure(name: str, what: str, error: BaseException) -> ChoqolateError:
    return ChoqolateError(f"The {what} of {name} failed with {type(error).__name__}: {error}")
