"""Large and chosen vocabularies on real CLIP scores, from saved embeddings.

    python benchmarks/large_vocabulary.py images.npz coco.npz lvis.npz openimages.npz --classes classes.txt

Files are as for ``real_scores.py``; ``classes.txt`` lists the names of the classes, one per line, so that concepts that
name a class are dropped. Every list is measured alone, then all of them together, then 100 of them: chosen on training
rows by ``choqolate vocabulary``, and at random as a control. ``--keep 0`` measures the lists alone, and ``--center``
subtracts the mean training image and the mean text before the cosines.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from real_scores import unit

import choqolate as cq
from choqolate.concepts.vocabulary_choice import choose_vocabulary
from choqolate.concepts.word_lists import WordList


def read_table(images: str, lists: list[str], center: bool) -> tuple[cq.ConceptScores, dict[str, list[str]]]:
    """Scores for all names, each once, and the names of each list."""
    pixels = np.load(images)
    names, vectors, by_list = [], [], {}
    for path in lists:
        texts = np.load(path)
        by_list[Path(path).stem] = [str(name) for name in texts["names"]]
        names += by_list[Path(path).stem]
        vectors.append(unit(texts["embeddings"]))
    tidy = [name.replace("_", " ").casefold() for name in names]
    first = [tidy.index(name) for name in dict.fromkeys(tidy)]
    labels, split = [str(label) for label in pixels["labels"]], [str(part) for part in pixels["split"]]
    shown, words = unit(pixels["embeddings"]), np.concatenate(vectors)[first]
    if center:
        shown, words = unit(shown - shown[np.array(split) == "train"].mean(0)), unit(words - words.mean(0))
    scores = shown @ words.T
    return cq.ConceptScores(scores, [names[i] for i in first], labels=labels, split=split), by_list


def measure(table: cq.ConceptScores, settings: dict, seeds: int) -> str:
    """Accuracy, Attribution Gini, Node Coherence and concepts with 95% of the weight, on test rows."""
    train, test = table.part("train"), table.part("test")
    runs = cq.fit_runs(train.frame, train.labels, seeds=range(seeds), **settings)
    correlation = cq.metrics.concept_correlation(test.scores)
    rows = []
    for run in runs:
        attributions = run.node_attributions_
        weights = np.sort(attributions, axis=1)[:, ::-1].cumsum(axis=1)
        rows.append(
            (
                cq.metrics.accuracy(test.labels, run.predict(test)),
                cq.metrics.mean_over_nodes(cq.metrics.attribution_gini(attributions)).mean,
                cq.metrics.mean_over_nodes(cq.metrics.node_coherence(attributions, _doubled(correlation, run))).mean,
                float((weights < 0.95).sum(axis=1).mean() + 1),
            )
        )
    cells = [f"{np.mean(column):.3f} ± {np.std(column, ddof=1):.3f}" for column in list(zip(*rows, strict=True))[:3]]
    return " | ".join([*cells, f"{np.mean([row[3] for row in rows]):.1f}"])


def _doubled(correlation: np.ndarray, run: cq.ChoqolateClassifier) -> np.ndarray:
    """Correlation with the absence of each concept as well, where a model has it as an input."""
    return np.block([[correlation, -correlation], [-correlation, correlation]]) if run.bipolar else correlation


def main() -> None:
    """Measure and print one table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("images")
    parser.add_argument("lists", nargs="+")
    parser.add_argument("--classes", required=True)
    parser.add_argument("--keep", type=int, default=100, help="concepts to choose; 0 measures the lists alone")
    parser.add_argument("--center", action="store_true", help="subtract the mean image and the mean text")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--nodes", type=int, help="nodes; by default one layer")
    parser.add_argument("--interactions", default="none", help="of vocabularies of more than 200 concepts")
    parser.add_argument("--few-interactions", default="none", help="of smaller vocabularies")
    parser.add_argument("--temperature", type=float, default=0.005)
    parser.add_argument("--bipolar", action="store_true")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", cq.ChoqolateWarning)
    table, by_list = read_table(arguments.images, arguments.lists, arguments.center)
    classes = Path(arguments.classes).read_text(encoding="utf-8").splitlines()

    def show(name: str, concepts: tuple[str, ...]) -> None:
        form = arguments.interactions if len(concepts) > 200 else arguments.few_interactions
        settings = {"n_nodes": arguments.nodes, "interactions": form, "temperature": arguments.temperature}
        settings["bipolar"] = arguments.bipolar
        found = measure(table.select(concepts), settings, arguments.seeds)
        print(f"| {name} | {len(concepts):,} | {form} | {found} |", flush=True)

    print("| concepts | number | interactions | accuracy | Gini | coherence | concepts for 95% |")
    print("|---|---|---|---|---|---|---|")
    column = {name.replace("_", " ").casefold(): name for name in table.concepts}

    def columns(choice: cq.Vocabulary) -> tuple[str, ...]:
        return tuple(column[name.casefold()] for name in choice.concepts)

    for name, words in by_list.items():
        clean = choose_vocabulary(WordList.of(words), classes=classes).vocabulary
        show(name, columns(clean))
    if not arguments.keep:
        return
    whole = choose_vocabulary(WordList.of(table.concepts), classes=classes).vocabulary
    everything = columns(whole)
    show("all lists", everything)
    for way in ("medoids", "relevance"):
        chosen = choose_vocabulary(everything, table, keep=arguments.keep, by=way, classes=classes).vocabulary
        show(f"{arguments.keep} by {way}", columns(chosen))
    for draw in range(3):
        drawn = np.random.default_rng(draw).choice(len(everything), arguments.keep, replace=False)
        show(f"{arguments.keep} at random ({draw})", tuple(everything[i] for i in np.sort(drawn)))


if __name__ == "__main__":
    main()
