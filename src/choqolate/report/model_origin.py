"""Where a model comes from, and what to type to make it again."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Sequence
from pathlib import Path

import choqolate
from choqolate._util.text import counted, listed
from choqolate.data.provenance import BackboneRecord, Provenance, VocabularyRecord
from choqolate.datasets import DATASETS
from choqolate.datasets.coco import COCO, PSEUDO_LABELS
from choqolate.estimators.classifier import ChoqolateClassifier
from choqolate.estimators.edits_file import edits_document
from choqolate.network.edits import Recalibrate, Remove

# parameters of the classifier and the options of `choqolate fit` that set them; a test compares them with the command
FIT_OPTIONS = {
    "n_nodes": "--nodes",
    "temperature": "--temperature",
    "l1": "--l1",
    "epochs": "--epochs",
    "batch_size": "--batch-size",
    "learning_rate": "--learning-rate",
    "interactions": "--interactions",
    "rank": "--rank",
    "class_interactions": "--class-interactions",
    "bipolar": "--bipolar",
    "init": "--init",
    "schedule": "--schedule",
    "class_weight": "--class-weight",
    "random_state": "--seed",
}
_NOT_PART_OF_IT = ("device", "verbose", "track", "sparsity")  # they change where and how, not what


_START = {
    "random": "random",
    "clusters": "each node with 80% of its weight on one cluster of correlated concepts",
}
_SCHEDULE = {"constant": "constant", "cosine": "falls to zero (cosine)"}


def facts(model: ChoqolateClassifier) -> list[tuple[str, str]]:
    """Terms and what is known of them: encoder, prompts, data, hyperparameters, seed, versions."""
    known = model.provenance_
    backbone, vocabulary, data = known.backbone, known.vocabulary, known.data
    parameters = model.trained_settings
    names = [name for name in parameters if name not in (*_NOT_PART_OF_IT, "random_state")]
    history, left_out, versions = model.history_, data.left_out or (), known.versions or {}
    terms = [
        ("encoder", _backbone_name(backbone)),
        ("its identity", backbone.identity),
        ("prompts", _prompts(vocabulary)),
        ("concepts", f"{len(model.concepts_):,}{_marked(vocabulary)}"),
        ("source of the images", known.source),
        ("labels", known.labels_from),
        ("training rows", f"{data.rows:,}" if data.rows is not None else None),
        ("their split", data.split),
        ("fingerprint of the scores", data.fingerprint),
        ("left out of training", listed(left_out, 20) if left_out else None),
        ("hyperparameters", ", ".join(f"{name} {parameters[name]}" for name in names)),
        ("start of the nodes", _START[parameters["init"]] if not model.one_layer_ else None),
        ("learning rate", _SCHEDULE[parameters["schedule"]]),
        *_search(model),
        ("seed", parameters["random_state"]),
        (
            "at the end of training",
            f"loss {history['loss'][-1]:.4f}, accuracy {history['accuracy'][-1]:.3f} (on training rows)",
        ),
        ("trained with", ", ".join(f"{name} {version}" for name, version in versions.items()) or None),
        ("this page made with", f"choqolate {choqolate.__version__}"),
    ]
    return [(name, str(text)) for name, text in terms if text is not None]


def _search(model: ChoqolateClassifier) -> list[tuple[str, str]]:
    """How the hyperparameters were chosen, if they were."""
    found = model.search_
    if found is None:
        return []
    rows = counted(found.rows, "validation row")
    tried = f"{counted(len(found.trials), 'setting')}, measured on {rows} of the training part"
    lines = [line.split(": ", 1) for line in found.lines()]
    return [
        ("search", tried),
        *((f"search, {term}", text) for term, text in lines),
        *(("search, doubtful", doubt) for doubt in found.doubts),
    ]


def _backbone_name(backbone: BackboneRecord) -> str | None:
    """What the encoder is called; of a folder on somebody's machine the last part."""
    name = backbone.name
    return Path(name).name if name is not None and os.path.isabs(name) else name


def _prompts(vocabulary: VocabularyRecord) -> str | None:
    templates = vocabulary.templates
    return "the word itself" if templates == ("{}",) else listed(templates, 10) if templates else None


def _marked(vocabulary: VocabularyRecord) -> str:
    spurious = vocabulary.spurious
    return f", {len(spurious):,} of them marked as spurious" if spurious else ""


def words(model: ChoqolateClassifier) -> dict[str, list[str]]:
    """Files that the commands need, by name: one concept per line with its synonyms after ``|``, and edits as JSON."""
    vocabulary = model.provenance_.vocabulary
    synonyms, marked = vocabulary.synonyms or {}, set(vocabulary.spurious or ())
    files: dict[str, list[str]] = {"words.txt": [], "spurious.txt": []}
    for name in dict.fromkeys([*model.concepts_, *_left_out(model)]):
        files["spurious.txt" if name in marked else "words.txt"].append(" | ".join([name, *synonyms.get(name, ())]))
    if _removals(model) is None:
        files["edits.json"] = json.dumps(edits_document(model), indent=2, ensure_ascii=False).splitlines()
    return {file: lines for file, lines in files.items() if lines}


def _left_out(model: ChoqolateClassifier) -> list[str]:
    return list(model.provenance_.data.left_out or ())


def commands(model: ChoqolateClassifier) -> list[str]:
    """What to type for the same model and page, from the images on; Python where the command line cannot say it."""
    removals, folder = _removals(model), "model"
    lines = [*_score(model), _fit(model)]
    if removals is None:
        lines.append("choqolate apply model edits.json -o edited")
        folder = "edited"
    for number, (edit, recalibrated) in enumerate(removals or [], start=1):
        edited = "edited" if len(removals or []) == 1 else f"edited-{number}"
        lines.append(shlex.join(_remove(edit, folder, edited, recalibrated=recalibrated)))
        folder = edited
    return [*lines, f"choqolate explain {folder} --scores scores.parquet -o report.html"]


def _removals(model: ChoqolateClassifier) -> list[tuple[Remove, bool]] | None:
    """The removals of a model, each with whether a recalibration follows; ``None`` if it has edits of other kinds."""
    removals: list[tuple[Remove, bool]] = []
    for edit in model.network_.edits:
        if isinstance(edit, Remove):
            removals.append((edit, False))
        elif isinstance(edit, Recalibrate) and removals and not removals[-1][1]:
            removals[-1] = (removals[-1][0], True)
        else:
            return None
    return removals


def _score(model: ChoqolateClassifier) -> list[str]:
    """How the scores were made, if that is known."""
    known = model.provenance_
    name = _backbone_name(known.backbone)
    if name is None:
        return []
    command = ["choqolate", "score", "IMAGES/", "--concepts", "words.txt", "--backbone", name]
    command += ["--spurious", "spurious.txt"] if "spurious.txt" in words(model) else []
    command += ["--dataset", known.source, *_label_file(known)] if known.source in DATASETS else []
    for template in known.vocabulary.templates or ():
        command += [] if template == "{}" else ["--template", template]
    return [shlex.join([*command, "-o", "scores.parquet"])]


def _label_file(known: Provenance) -> list[str]:
    """The option that names a file of labels, for a data set that comes without."""
    if known.source != COCO.name:
        return []
    predicted = (known.labels_from or "").startswith(PSEUDO_LABELS)
    return ["--option", "places=coco.places.csv" if predicted else "labels=coco.csv"]


def _fit(model: ChoqolateClassifier) -> str:
    usual, seed = ChoqolateClassifier().trained_settings, model.random_state
    changed = {
        name: value
        for name, value in model.trained_settings.items()
        if value != usual[name] and name not in _NOT_PART_OF_IT
    }
    unknown_seed = not isinstance(seed, int)
    if unknown_seed:
        changed.pop("random_state", None)
    left_out = _left_out(model)
    if model.provenance_.data.fingerprint is None:
        given = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        return f"# in Python, on the X and y of the training: cq.ChoqolateClassifier({given}).fit(X, y).save('model')"
    if any(name not in FIT_OPTIONS for name in changed) or isinstance(changed.get("class_weight"), dict):
        changed |= {"leave_out": left_out} if left_out else {}
        given = "".join(f", {name}={value!r}" for name, value in changed.items())
        line = shlex.join(
            ["python", "-c", f"import choqolate as cq; cq.fit_scores('scores.parquet'{given}).save('model')"]
        )
    else:
        command = ["choqolate", "fit", "scores.parquet", "-o", "model", "--paper"]
        for name, value in changed.items():
            flag = [] if name == "bipolar" else [str(0 if value is None else value)]  # no nodes are called 0
            command += [FIT_OPTIONS[name], *flag]
        for name in left_out:
            command += ["--leave-out", name]
        line = shlex.join(command)
    return f"{line}  # the seed is not known" if unknown_seed else line


def removal_command(model: str, concepts: Sequence[str], *options: str) -> list[str]:
    """`choqolate remove` with options first: names may begin with a dash."""
    dashes = ["--"] if any(name.startswith("-") for name in concepts) else []
    return ["choqolate", "remove", model, *options, *dashes, *concepts]


def _remove(edit: Remove, folder: str, edited: str, *, recalibrated: bool) -> list[str]:
    command = ["-o", edited]
    command += [] if edit.mode == "rescale" else ["--mode", edit.mode]
    command += [] if edit.nodes is None else ["--nodes", ",".join(map(str, edit.nodes))]
    command += ["--recalibrate", "scores.parquet"] if recalibrated else []
    return removal_command(folder, edit.concepts, *command)
