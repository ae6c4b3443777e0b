"""What the test rows allow to tell, said below tables whose ± is over seeds alone."""

from __future__ import annotations

from collections import Counter

from choqolate._util.text import counted
from choqolate.analysis.interval_text import share_text, small_groups_text
from choqolate.experiments.engine.experiment import Collected
from choqolate.experiments.engine.sources import Source
from choqolate.metrics import Proportion


def rows_notes(collected: Collected) -> list[str]:
    """Sampling error of the test rows, the majority baseline and groups that are too small, for each data set."""
    return [_rows_note(source) for source in collected.runs]


def _rows_note(source: Source) -> str:
    table = source.load()
    train, test = table.part("train").labelled(), table.part("test").labelled()
    assert train.labels is not None
    assert test.labels is not None
    rows = Proportion(len(test) // 2, len(test))
    all_on = f"All runs are measured on the same {counted(len(test), 'test row')} of {source.title}"
    if rows.too_few:
        return f"{all_on}: too few to tell how accurate a method is."
    majority = Counter(train.labels.tolist()).most_common(1)[0][0]
    baseline = Proportion(int((test.labels == majority).sum()), len(test))
    reach = 100 * (rows.interval[1] - rows.value)
    said = (
        f"{all_on}. A standard deviation over runs does not show how much depends on these rows: the 95% interval of "
        f"one accuracy reaches up to ± {reach:.1f} points. Always predicting “{majority}” is right on "
        f"{share_text(baseline)}."
    )
    groups = Counter(group for group in ([] if test.groups is None else test.groups.tolist()) if group is not None)
    small = {name: count for name, count in sorted(groups.items()) if Proportion(0, count).too_few}
    if small:
        said += f" Groups that are too small to tell: {small_groups_text(small)}; the worst group may be one of them."
    return said
