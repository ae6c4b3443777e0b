"""Where a model comes from, and what to type to make it again."""

from __future__ import annotations

import platform
import shlex
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

import choqolate
from choqolate.classifier import ChoqolateClassifier
from choqolate.datasets import DATASETS
from choqolate.validation import listed

if TYPE_CHECKING:
    from choqolate.removal import Edit

# parameters of the classifier and the options of `choqolate fit` that set them
_OPTIONS = {
    "n_nodes": "--nodes",
    "temperature": "--temperature",
    "l1": "--l1",
    "epochs": "--epochs",
    "batch_size": "--batch-size",
    "learning_rate": "--learning-rate",
    "interactions": "--interactions",
    "rank": "--rank",
    "bipolar": "--bipolar",
    "class_weight": "--class-weight",
    "random_state": "--seed",
}
_NOT_PART_OF_IT = ("device", "verbose", "track")  # they change where and how, not what


def section(model: ChoqolateClassifier, name: str) -> dict[str, Any]:
    """A part of the model's provenance, which anyone may have written."""
    found = model.provenance_.get(name)
    return found if isinstance(found, dict) else {}


def facts(model: ChoqolateClassifier) -> list[tuple[str, str]]:
    """Terms and what is known of them: encoder, prompts, data, hyperparameters, versions, seed."""
    backbone, vocabulary, data = (section(model, name) for name in ("backbone", "vocabulary", "data"))
    parameters = model.get_params()
    names = [name for name in parameters if name not in (*_NOT_PART_OF_IT, "random_state")]
    history = model.history_
    known = [
        ("encoder", backbone.get("name")),
        ("its identity", backbone.get("identity")),
        ("prompts", _prompts(vocabulary)),
        ("concepts", f"{len(model.concepts_):,}{_marked(vocabulary)}"),
        ("source of the pictures", model.provenance_.get("source")),
        (
            "training rows",
            f"{data['rows']:,}, split {data.get('split')}" if isinstance(data.get("rows"), int) else None,
        ),
        ("fingerprint of the scores", data.get("fingerprint")),
        ("left out of training", listed(data["left_out"], 20) if data.get("left_out") else None),
        ("hyperparameters", ", ".join(f"{name} {parameters[name]}" for name in names)),
        ("seed", str(parameters["random_state"])),
        ("at the end of training", f"loss {history['loss'][-1]:.4f}, accuracy {history['accuracy'][-1]:.3f}"),
        ("versions", _versions()),
    ]
    return [(name, str(text)) for name, text in known if text is not None]


def _prompts(vocabulary: dict[str, Any]) -> str | None:
    templates = vocabulary.get("templates")
    if not isinstance(templates, list) or not templates:
        return None
    return "the word itself" if templates == ["{}"] else listed(templates, 10)


def _marked(vocabulary: dict[str, Any]) -> str:
    spurious = vocabulary.get("spurious")
    return f", {len(spurious):,} of them marked as spurious" if isinstance(spurious, list) and spurious else ""


def _versions() -> str:
    return (
        f"choqolate {choqolate.__version__}, torch {torch.__version__}, numpy {np.__version__}, "
        f"Python {platform.python_version()}"
    )


def words(model: ChoqolateClassifier) -> dict[str, list[str]]:
    """The vocabulary as files of words have it, by name of the file: a concept a line, its synonyms after ``|``."""
    vocabulary = section(model, "vocabulary")
    synonyms, spurious = vocabulary.get("synonyms"), vocabulary.get("spurious")
    known = synonyms if isinstance(synonyms, dict) else {}
    marked = set(spurious) if isinstance(spurious, list) else set()
    files: dict[str, list[str]] = {"words.txt": [], "spurious.txt": []}
    for name in model.concepts_:
        line = " | ".join([name, *map(str, known.get(name, ()))])
        files["spurious.txt" if name in marked else "words.txt"].append(line)
    return {file: lines for file, lines in files.items() if lines}


def commands(model: ChoqolateClassifier) -> list[str]:
    """What to type for the same model and page, from the pictures on; Python where the command line cannot say it."""
    backbone, vocabulary = section(model, "backbone"), section(model, "vocabulary")
    lines = []
    if backbone.get("name"):
        score = ["choqolate", "score", "PICTURES/", "--concepts", "words.txt", "--backbone", str(backbone["name"])]
        score += ["--spurious", "spurious.txt"] if vocabulary.get("spurious") else []
        source = model.provenance_.get("source")
        score += ["--dataset", str(source)] if source in DATASETS else []
        for template in vocabulary.get("templates") or ():
            score += [] if template == "{}" else ["--template", str(template)]
        lines.append(shlex.join([*score, "-o", "scores.parquet"]))
    lines.append(_fit(model))
    folder = "model"
    for number, edit in enumerate(model.edits_, start=1):
        edited = "edited" if len(model.edits_) == 1 else f"edited-{number}"
        last = number == len(model.edits_)
        lines.append(shlex.join(_remove(edit, folder, edited, recalibrated=last and bool(model.class_shift_.any()))))
        folder = edited
    return [*lines, f"choqolate explain {folder} --scores scores.parquet -o report.html"]


def _fit(model: ChoqolateClassifier) -> str:
    usual = ChoqolateClassifier().get_params()
    changed = {
        name: value
        for name, value in model.get_params().items()
        if value != usual[name] and name not in _NOT_PART_OF_IT
    }
    if any(name not in _OPTIONS for name in changed) or isinstance(changed.get("class_weight"), dict):
        given = ", ".join(f"{name}={value!r}" for name, value in changed.items())
        return f"python -c \"import choqolate as cq; cq.fit_scores('scores.parquet', {given}).save('model')\""
    command = ["choqolate", "fit", "scores.parquet", "-o", "model"]
    for name, value in changed.items():
        if name == "bipolar":
            command.append("--bipolar")
        else:
            command += [_OPTIONS[name], str(0 if name == "n_nodes" and value is None else value)]
    for name in section(model, "data").get("left_out") or ():
        command += ["--leave-out", str(name)]
    return shlex.join(command)


def _remove(edit: Edit, folder: str, edited: str, *, recalibrated: bool) -> list[str]:
    command = ["choqolate", "remove", folder, "-o", edited]
    command += [] if edit.mode == "rescale" else ["--mode", edit.mode]
    command += [] if edit.nodes is None else ["--nodes", ",".join(map(str, edit.nodes))]
    command += ["--recalibrate", "scores.parquet"] if recalibrated else []
    dashes = ["--"] if any(name.startswith("-") for name in edit.concepts) else []
    return [*command, *dashes, *edit.concepts]
