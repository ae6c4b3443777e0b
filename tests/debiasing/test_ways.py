from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest

import choqolate as cq
from choqolate.datasets.birds import BIRDS, render_birds
from choqolate.debiasing import DEBIASING, Case, cbdebug, missing
from choqolate.estimators.table_training import fit_scores_runs
from tests.debiasing.tables import biased_table, trained

PARAMETERS = dict(n_nodes=4, epochs=15, temperature=0.05, device="cpu")
MODES = ["rescale", "canonical", "impute"]
REMOVALS = [name for mode in MODES for name in (mode, f"{mode}-recalibrated")]
PROJECTIONS = ["ortho-proj", "ortho-proj-retrained", "ortho-cali", "ortho-cali-retrained"]
RETRAININGS = ["cbdebug-unweighted", "cbdebug", "cbdebug-augmented", "permutation-weights"]
NAMES = ["baseline", "oracle", *REMOVALS, *PROJECTIONS, *RETRAININGS, "dfr", "group-dro"]


@pytest.fixture(scope="module")
def case(tmp_path_factory):
    """A few drawn birds, with all that any method needs."""
    folder = tmp_path_factory.mktemp("methods")
    backbone = cq.load_backbone("mini", device="cpu")
    embeddings = cq.embed(render_birds(folder / "birds", 160, workers=1), backbone, folder / "vectors", workers=0)
    table = cq.score(embeddings, cq.Vocabulary.parse(BIRDS.core, BIRDS.spurious), backbone)
    models = fit_scores_runs(table, [3, 4], **PARAMETERS)
    core = [name for name in table.concepts if name not in table.spurious]
    return Case(models, table, table.spurious, PARAMETERS, embeddings, backbone, core, folder / "birds")


def test_rows_are_these_with_names_and_titles_of_their_own():
    assert list(DEBIASING) == NAMES == [method.name for method in DEBIASING.values()]
    assert len({method.title for method in DEBIASING.values()}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_row_gives_models_and_a_table_to_measure_them_on(case, name):
    method = DEBIASING[name]
    assert missing(method, case) is None
    before = [cq.evaluate(model, case.table, "test") for model in case.models]
    models, table = method.apply(case)
    assert len(models) == 2
    assert np.array_equal(table.groups, case.table.groups)
    for model, other in zip(models, case.models, strict=True):
        result = cq.evaluate(model, table, "test")
        assert 0 <= result.worst_group[1] <= result.accuracy <= 1
        moved = not np.array_equal(
            model.class_scores(table.part("test").select(model.concepts_).frame),
            other.class_scores(case.table.part("test").frame),
        )
        assert moved == (name != "baseline")
    assert [cq.evaluate(model, case.table, "test") for model in case.models] == before  # nobody edits the given ones


@pytest.mark.parametrize("mode", MODES)
def test_removal_is_that_of_the_models(case, mode):
    train, test = case.table.part("train").frame, case.table.part("test").frame
    plain, shifted = (DEBIASING[name].apply(case)[0] for name in (mode, f"{mode}-recalibrated"))
    for model, one, other in zip(case.models, plain, shifted, strict=True):
        expected = model.remove_concepts(case.spurious, mode=mode)
        assert np.array_equal(one.class_scores(test), expected.class_scores(test))
        again = model.remove_concepts(case.spurious, mode=mode, recalibrate=train)
        assert np.array_equal(other.class_scores(test), again.class_scores(test))


def test_the_oracle_never_saw_the_spurious_concepts(case):
    models, table = DEBIASING["oracle"].apply(case)
    expected = fit_scores_runs(case.table, [3, 4], leave_out=case.spurious, **PARAMETERS)
    for model, other in zip(models, expected, strict=True):
        assert not set(model.concepts_) & set(case.spurious)
        X = table.part("test").select(model.concepts_).frame
        assert np.array_equal(model.class_scores(X), other.class_scores(X))


def test_retraining_without_weights_is_the_oracle_with_balanced_classes(case):
    models, _ = DEBIASING["cbdebug-unweighted"].apply(case)
    expected = fit_scores_runs(
        case.table, [3, 4], leave_out=case.spurious, class_weight="balanced", sample_weight=None, **PARAMETERS
    )
    for model, other in zip(models, expected, strict=True):
        X = case.table.part("test").select(model.concepts_).frame
        np.testing.assert_allclose(model.class_scores(X), other.class_scores(X), atol=1e-6)


def test_weights_of_a_case_serve_all_rows_that_use_them(case, monkeypatch):
    fresh = replace(case)
    weights = fresh.weights
    assert weights.shape == (96,)
    monkeypatch.setattr("choqolate.debiasing.registry.permutation_weights", None)  # once is enough
    for name in ("cbdebug", "permutation-weights"):
        models, _ = DEBIASING[name].apply(fresh)
        expected = cbdebug(case.models, case.table, case.spurious, weights=weights, keep_concepts=name != "cbdebug")
        X = case.table.part("test").select(models[0].concepts_).frame
        assert np.array_equal(models[0].class_scores(X), expected[0].class_scores(X))


def test_projected_tables_keep_the_weights_or_train_anew(case):
    (kept, _), table = DEBIASING["ortho-proj"].apply(case)
    assert not table.frame[list(case.spurious)].to_numpy().any()
    for name, theta in case.models[0].parameters_.items():
        assert np.array_equal(kept.parameters_[name], theta)
    (again, _), same = DEBIASING["ortho-proj-retrained"].apply(case)
    assert np.array_equal(same.scores, table.scores)
    assert not set(again.concepts_) & set(case.spurious)
    (expected,) = fit_scores_runs(table, [3], leave_out=case.spurious, **PARAMETERS)
    X = table.part("test").select(again.concepts_).frame
    np.testing.assert_allclose(again.class_scores(X), expected.class_scores(X), rtol=0, atol=1e-3)
    assert again.get_params() == expected.get_params()


def test_subjects_are_the_classes_by_default(case):
    with pytest.raises(cq.ChoqolateError, match="mini never saw 'landbird', 'waterbird'"):
        DEBIASING["ortho-cali"].apply(replace(case, subjects=None))


@pytest.mark.parametrize(
    ("change", "needed_by", "says"),
    [
        ({"embeddings": None}, "embeddings", "the embeddings of the images, not only their scores: give"),
        ({"images": None}, "images", "the images themselves: give the folder"),
        ({"images": "half"}, "images", "the images of all 96 training rows: 95 are not in"),
        ({"table": "no prompts"}, "images", "a table that names its prompts and its encoder: score the images"),
        ({"spurious": ()}, "spurious_words", "the names of the spurious concepts: mark them"),
        ({"table": "no groups"}, "group_labels", "the groups of training rows: add a column"),
        ({"models": "no nodes"}, "nodes", "models with nodes"),
    ],
)
def test_what_a_case_lacks_is_said_of_the_methods_that_need_it(case, tmp_path, change, needed_by, says):
    if change.get("table") == "no groups":
        change = {"table": replace(case.table, groups=None)}
    if change.get("table") == "no prompts":
        change = {"table": replace(case.table, provenance=None)}
    if change.get("images") == "half":
        first = case.table.part("train").paths[0]
        (tmp_path / first).parent.mkdir(parents=True)
        (tmp_path / first).write_bytes((case.images / first).read_bytes())
        change = {"images": tmp_path}
    if "models" in change:
        change = {"models": trained(biased_table(60, 0, 20), 1, n_nodes=None, epochs=1)}
    lacking = replace(case, **change)
    for method in DEBIASING.values():
        sentence = missing(method, lacking)
        assert (sentence is not None) == getattr(method.needs, needed_by)
        assert sentence is None or sentence.startswith(f"{method.title} needs {says}")


def test_every_method_needs_training_rows(case):
    unsplit = replace(case, table=replace(case.table, split=None))
    assert all("with_split()" in missing(method, unsplit) for method in DEBIASING.values())


def test_needs_are_those_of_the_paper():
    """Of the rows of its table: fine-tuning, group labels, test time; where they differ from ours, see below."""
    paper = {
        "rescale": (False, False, True),
        "ortho-proj": (True, False, True),
        "ortho-cali": (True, False, True),
        "dfr": (True, True, True),
        "group-dro": (True, True, True),
    }
    ours = {name: DEBIASING[name].needs for name in paper}
    assert {name: (n.group_labels, n.test_time) for name, n in ours.items()} == {
        name: row[1:] for name, row in paper.items()
    }
    differ = [name for name, row in paper.items() if ours[name].retraining != row[0]]
    assert differ == ["ortho-proj", "ortho-cali"]  # nothing is trained where the weights stay
    assert not any(astuple(DEBIASING["baseline"].needs))
