"""What a search for settings tried, what it chose, and why: plain data that is saved with a model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from choqolate._util.text import counted
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    import pandas as pd

AUTO = "auto"
SEARCHED = ("n_nodes", "temperature", "interactions")  # parameters that a search is about
MAY_BE_AUTO = (*SEARCHED, "rank")
PAPER = {"n_nodes": 8, "interactions": "pairwise", "class_interactions": None, "bipolar": False, "temperature": 0.005}


_KINDS = {"none": "weighted means", "pairwise": "all pairs", "factored": "factored pairs"}
_SECOND = {"none": "weighted means", "pairwise": "all pairs"}


@dataclass(frozen=True)
class Trial:
    """One setting, and what it reached on validation rows.

    Attributes:
        n_nodes, interactions, class_interactions, bipolar, temperature: see :class:`~choqolate.ChoqolateClassifier`.
        accuracy: on the validation rows; the mean over groups where groups are known.
        gini: Attribution Gini, per concept, mean over the nodes.
        coherence: Node Coherence, per concept, mean over the nodes; ``None`` if not defined.
        concepts_per_class: concepts that carry 95% of a class, mean over the classes.
        n_parameters: number of trained parameters.
        rank: number of products of factored interactions; ``None`` for others.
        accuracy_low, accuracy_high: ends of the 95% interval of ``accuracy``; ``None`` in models saved without them.
    """

    n_nodes: int | None
    interactions: str
    class_interactions: str | None
    bipolar: bool
    temperature: float
    accuracy: float
    gini: float
    coherence: float | None
    concepts_per_class: float
    n_parameters: int
    rank: int | None = None
    accuracy_low: float | None = None
    accuracy_high: float | None = None

    def __post_init__(self) -> None:
        numbers = {name: getattr(self, name) for name in ("temperature", "accuracy", "gini", "concepts_per_class")}
        optional = ("coherence", "accuracy_low", "accuracy_high")
        numbers |= {name: value for name in optional if (value := getattr(self, name)) is not None}
        for name, value in numbers.items():
            if not _is_number(value):
                raise ChoqolateError(f"Expected {name} of a trial to be a number, got {value!r}.")
        if not 0 <= self.accuracy <= 1:
            raise ChoqolateError(f"Expected the accuracy of a trial to be from 0 to 1, got {self.accuracy!r}.")
        if not _is_count(self.n_parameters) or not (self.n_nodes is None or _is_count(self.n_nodes)):
            raise ChoqolateError(f"Expected numbers of nodes and parameters, got {self.n_nodes!r} nodes.")
        if self.interactions not in _KINDS or self.class_interactions not in (None, *_SECOND):
            raise ChoqolateError(f"Expected kinds of interactions, got {self.interactions!r}.")
        if self.rank is not None and (not isinstance(self.rank, int) or self.rank < 1):
            raise ChoqolateError(f"Expected the rank of a trial to be a whole number of at least 1, got {self.rank!r}.")

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters of the classifier."""
        return {name: getattr(self, name) for name in PAPER} | ({} if self.rank is None else {"rank": self.rank})

    def __str__(self) -> str:
        nodes = "one layer" if self.n_nodes is None else counted(self.n_nodes, "node")
        own = "" if self.class_interactions is None else f" (classes: {_SECOND[self.class_interactions]})"
        rank = "" if self.rank is None else f" of rank {self.rank}"
        bipolar = ", bipolar" if self.bipolar else ""
        return f"{nodes}, {_KINDS[self.interactions]}{rank}{own}{bipolar}, temperature {self.temperature:g}"


@dataclass(frozen=True, repr=False)
class Search:
    """What was tried, what was chosen, and why.

    Attributes:
        trials: every setting, in the order in which it was tried.
        chosen: index of the one that was taken.
        paper: the paper's settings, measured on the first fold of these rows; ``None`` where they take too much memory.
        init, schedule: how the trials were trained, and the chosen one after them.
        rule: how the choice was made, in words.
        standard_error: of the best accuracy.
        rows: number of validation rows.
        n_concepts: number of concepts.
        by_group: whether accuracy is the mean over groups.
        doubts: what makes the choice doubtful, in sentences.
        seconds: that the search took.
        untried: what was not tried, and why, in sentences.
    """

    trials: tuple[Trial, ...]
    chosen: int
    paper: Trial | None
    init: str
    schedule: str
    rule: str
    standard_error: float
    rows: int
    n_concepts: int
    by_group: bool
    doubts: tuple[str, ...]
    seconds: float
    untried: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.chosen, int) or not 0 <= self.chosen < len(self.trials):
            raise ChoqolateError(f"Expected the index of one of {len(self.trials)} trials, got {self.chosen!r}.")
        if not (_is_count(self.rows) and _is_count(self.n_concepts)):
            raise ChoqolateError(f"Expected numbers of rows and concepts, got {self.rows!r} and {self.n_concepts!r}.")
        if not (_is_number(self.standard_error) and _is_number(self.seconds)):
            raise ChoqolateError(f"Expected the seconds of a search as a number, got {self.seconds!r}.")
        if not all(
            isinstance(text, str) for text in (self.rule, self.init, self.schedule, *self.doubts, *self.untried)
        ):
            raise ChoqolateError("Expected the rule and the doubts of a search as text.")

    def __repr__(self) -> str:
        tried = counted(len(self.trials), "setting")
        return f"Search({tried}; chosen: {self.choice}, accuracy {self.choice.accuracy:.3f})"

    @property
    def choice(self) -> Trial:
        """The setting that was taken."""
        return self.trials[self.chosen]

    @property
    def best(self) -> Trial:
        """The setting with the highest accuracy."""
        return max(self.trials, key=lambda trial: trial.accuracy)

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters of a classifier with the setting that was taken."""
        return self.choice.settings | {"init": self.init, "schedule": self.schedule}

    @property
    def frame(self) -> pd.DataFrame:
        """One row per setting."""
        import pandas as pd

        return pd.DataFrame([asdict(trial) for trial in self.trials])

    def lines(self) -> list[str]:
        """What was chosen and what was given up, in sentences."""
        choice, best = self.choice, self.best
        kind = "validation accuracy, averaged over groups," if self.by_group else "validation accuracy"
        said = [f"chosen: {choice} ({kind} {_measured(choice)})"]
        if best.accuracy > choice.accuracy:
            lost = f"{100 * (best.accuracy - choice.accuracy):.1f} points of accuracy given up"
            said.append(f"most accurate: {best} ({_measured(best)}); {lost}")
        if self.paper is not None:
            said.append(f"the paper's settings: {_measured(self.paper)}, on the first fold of the validation rows")
        if choice.accuracy_low is not None:
            said.append(f"in parentheses: 95% intervals of accuracies on {counted(self.rows, 'validation row')}")
        return [*said, *self.untried, f"rule: {self.rule}"]

    def as_dict(self) -> dict[str, Any]:
        """The search as JSON-compatible data; :meth:`from_dict` reads it."""
        said = asdict(self)
        return said | {name: list(said[name]) for name in ("trials", "doubts", "untried")}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Search:
        """Read what :meth:`as_dict` wrote.

        Raises:
            ChoqolateError: if it is incomplete or damaged.
        """
        try:
            said = {"untried": (), **said}  # older models have no such list
            known = {field.name: said[field.name] for field in fields(cls)}
            trials = tuple(Trial(**trial) for trial in said["trials"])
            paper = None if said["paper"] is None else Trial(**said["paper"])
            if isinstance(said["doubts"], str) or isinstance(said["untried"], str):
                raise ValueError("doubts are no list")
            texts = {name: tuple(said[name]) for name in ("doubts", "untried")}
            found = cls(**known | {"trials": trials, "paper": paper} | texts)
            found.lines()
        except (KeyError, TypeError, ValueError) as error:
            raise ChoqolateError(f"The record of the search is incomplete or damaged: {error}") from error
        return found


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) > 0


def _measured(trial: Trial) -> str:
    ends = ""
    if trial.accuracy_low is not None and trial.accuracy_high is not None:
        ends = f" ({trial.accuracy_low:.2f} to {trial.accuracy_high:.2f})"
    return f"{trial.accuracy:.3f}{ends}, Gini {trial.gini:.2f}, {trial.concepts_per_class:.1f} concepts per class"
