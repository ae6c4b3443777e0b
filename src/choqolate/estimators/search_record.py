"""What a search for settings tried, what it chose, and why: plain data that is saved with a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

PAPER = {"n_nodes": 8, "interactions": "pairwise", "class_interactions": None, "bipolar": False, "temperature": 0.005}


@dataclass(frozen=True)
class Trial:
    """One setting, and what it reached on validation rows.

    Attributes:
        n_nodes, interactions, class_interactions, bipolar, temperature: see :class:`~choqolate.ChoqolateClassifier`.
        accuracy: on the validation rows; the mean over groups where groups are known.
        gini: Attribution Gini, per concept, mean over the nodes.
        coherence: Node Coherence, per concept, mean over the nodes; ``None`` if not defined.
        concepts_per_class: concepts that carry 95 % of a class, mean over the classes.
        n_parameters: number of trained parameters.
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

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters of the classifier."""
        return {name: getattr(self, name) for name in PAPER}

    def __str__(self) -> str:
        nodes = "one layer" if self.n_nodes is None else f"{self.n_nodes} nodes"
        kind = {"none": "weighted means", "pairwise": "all pairs", "factored": "factored pairs"}[self.interactions]
        second = {"none": " (classes: weighted means)", "pairwise": " (classes: all pairs)"}
        own = "" if self.class_interactions is None else second[self.class_interactions]
        return f"{nodes}, {kind}{own}{', bipolar' if self.bipolar else ''}, temperature {self.temperature:g}"


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
        by_group: whether accuracy is the mean over groups.
        doubts: what makes the choice doubtful, in sentences.
        seconds: that the search took.
    """

    trials: tuple[Trial, ...]
    chosen: int
    paper: Trial | None
    init: str
    schedule: str
    rule: str
    standard_error: float
    rows: int
    by_group: bool
    doubts: tuple[str, ...]
    seconds: float

    def __repr__(self) -> str:
        return f"Search({len(self.trials)} settings; chosen: {self.choice}, accuracy {self.choice.accuracy:.3f})"

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
        kind = "mean over groups of the validation accuracy" if self.by_group else "validation accuracy"
        said = [f"chosen: {choice} ({kind} {_measured(choice)})"]
        if best.accuracy > choice.accuracy:
            lost = f"{100 * (best.accuracy - choice.accuracy):.1f} points of accuracy given up"
            said.append(f"most accurate: {best} ({_measured(best)}); {lost}")
        if self.paper is not None:
            said.append(f"the paper's settings: {_measured(self.paper)}")
        return [*said, f"rule: {self.rule}"]

    def as_dict(self) -> dict[str, Any]:
        """The search such as JSON can hold; :meth:`from_dict` reads it."""
        return asdict(self) | {"trials": [asdict(trial) for trial in self.trials], "doubts": list(self.doubts)}

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Search:
        """Read what :meth:`as_dict` wrote."""
        trials = tuple(Trial(**trial) for trial in said["trials"])
        paper = None if said["paper"] is None else Trial(**said["paper"])
        return cls(**{**said, "trials": trials, "paper": paper, "doubts": tuple(said["doubts"])})


def _measured(trial: Trial) -> str:
    return f"{trial.accuracy:.3f}, Gini {trial.gini:.2f}, {trial.concepts_per_class:.1f} concepts per class"
