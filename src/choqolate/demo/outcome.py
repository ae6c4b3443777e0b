"""What several runs of one model do."""

from __future__ import annotations

from dataclasses import dataclass

from choqolate._util.numbers import Spread
from choqolate.analysis.evaluation import Evaluation


@dataclass(frozen=True)
class Outcome:
    """What the runs of one model do on the test rows.

    Attributes:
        name: of the model, or of what was done to it.
        runs: one evaluation for each seed.
    """

    name: str
    runs: tuple[Evaluation, ...]

    @property
    def accuracy(self) -> Spread:
        return Spread.over([run.accuracy for run in self.runs])

    @property
    def worst_group(self) -> Spread:
        """Of each run's own worst group."""
        return Spread.over(self.worst_groups)

    @property
    def worst_groups(self) -> list[float]:
        """Accuracy in the worst group, run by run."""
        return [min(run.group_accuracy.values()) for run in self.runs]

    @property
    def gini(self) -> Spread:
        return Spread.over([run.attribution_gini for run in self.runs])

    @property
    def coherence(self) -> Spread:
        return Spread.over([run.node_coherence for run in self.runs])

    def group(self, name: str) -> Spread:
        """Accuracy in one group."""
        return Spread.over([run.group_accuracy[name] for run in self.runs])
