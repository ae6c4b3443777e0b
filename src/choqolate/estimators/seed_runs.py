"""Many runs side by side: the features of the first layer do not depend on the run, so runs share them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any

from choqolate._util.checks import check_number
from choqolate.errors import ChoqolateError
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.concept_estimator import check_seeds
from choqolate.estimators.search import search
from choqolate.estimators.search_record import Search
from choqolate.estimators.side_by_side import RunSpec, TrainingSet, runs_at_once, train_side_by_side


def fit_runs(
    X: Any,
    y: Any,
    seeds: Iterable[int],
    *,
    temperatures: Iterable[float] | None = None,
    sample_weight: Any = None,
    groups: Any = None,
    **parameters: Any,
) -> list[ChoqolateClassifier]:
    """Train one classifier for each seed, side by side in one pass over the data.

    The features of the first layer do not depend on the run, so twenty runs cost as much as a few. A run is the same
    as if it had been trained alone, up to rounding (in float64, to about 1e-10). With ``shuffle="seed"`` runs of
    different seeds see different batches, so that each seed takes a pass of its own.

    Args:
        X: raw concept scores ``(n, M)``.
        y: labels ``(n,)``.
        seeds: the ``random_state`` of each run.
        temperatures: train all seeds at each of these temperatures, in the same pass; runs of one follow each other.
        sample_weight: weights ``(n,)``.
        groups: group of each row ``(n,)``, for the search, see :meth:`ChoqolateClassifier.fit`.
        **parameters: any other parameter of :class:`ChoqolateClassifier`. What is ``"auto"`` is searched once, with the
            first seed, and is the same for all runs.

    >>> from sklearn.datasets import load_wine
    >>> wine = load_wine(return_X_y=True)
    >>> [run.random_state for run in fit_runs(*wine, seeds=range(3), n_nodes=4, epochs=2)]
    [0, 1, 2]
    >>> runs = fit_runs(*wine, seeds=range(2), temperatures=[0.005, 0.02], n_nodes=4, epochs=2)
    >>> [(run.temperature, run.random_state) for run in runs]
    [(0.005, 0), (0.005, 1), (0.02, 0), (0.02, 1)]
    """
    seeds = check_seeds(seeds, parameters)
    prototype = ChoqolateClassifier(**parameters)
    if temperatures is not None and "temperature" in parameters:
        raise ChoqolateError("expected temperature=... or temperatures=..., got both: leave one out")
    if temperatures is not None and prototype.is_searching:
        raise ChoqolateError(
            "Expected temperatures=... or a search, but got both. Leave temperatures out, or give n_nodes and "
            "interactions."
        )
    data, _ = prototype.prepare(X, y, sample_weight, groups)
    found = search(prototype, data, seeds[0]) if prototype.is_searching else None
    if found is not None:
        prototype = prototype.with_settings(found.settings)
    wanted = [RunSpec(seed, T) for T in _temperatures(temperatures, prototype.temperature_) for seed in seeds]
    return fit_runs_prepared(prototype, data, wanted, found)


def fit_runs_prepared(
    prototype: ChoqolateClassifier, data: TrainingSet, wanted: Sequence[RunSpec], found: Search | None = None
) -> list[ChoqolateClassifier]:
    """Train as many runs side by side as memory allows, without a search.

    Args:
        prototype: its parameters are used, except for its temperature and its seed.
        data: what :meth:`ChoqolateClassifier.prepare` gives.
        wanted: the runs.
        found: the search that chose the parameters.
    """
    together = runs_at_once(prototype, len(data.concepts), len(data.classes))
    runs: list[ChoqolateClassifier] = []
    for start in range(0, len(wanted), together):
        some = wanted[start : start + together]
        for run, trained in zip(some, train_side_by_side(prototype, data, some), strict=True):
            runs.append(copy.copy(prototype).set_params(random_state=run.seed, temperature=run.temperature))
            runs[-1].keep(trained, found)
    return runs


def _temperatures(temperatures: Iterable[float] | None, usual: float) -> list[float]:
    if temperatures is not None and not isinstance(temperatures, Iterable):
        raise ChoqolateError(f"expected temperatures to be several, such as [0.005, 0.02], got {temperatures!r}")
    several = [usual] if temperatures is None else list(temperatures)
    if not several:
        raise ChoqolateError("expected at least one temperature, got none")
    for temperature in several:
        check_number("temperatures", temperature, minimum=0, strict=True)
    return several
