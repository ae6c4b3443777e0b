"""Small classifiers with random parameters, never trained, and the blobs that the engine of the studio reads."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass

import numpy as np
import torch
from safetensors.numpy import save

import choqolate as cq
from choqolate.network.architecture import Architecture
from choqolate.network.fitted import FittedNetwork
from choqolate.network.scaling import MinMax
from choqolate.studio.model_arrays import describe_network

CONCEPTS = ("sea", "lake", "crest", "long bill", "webbed feet", "forest", 'it\'s a "bird"')
CLASSES = np.array(["gull", "owl", "wren"])
N_ROWS = 36
FORMS = {
    "pairwise": {},
    "factored": {"interactions": "factored", "rank": 2},
    "none": {"interactions": "none"},
    "additive classes": {"class_interactions": "none"},
    "one layer": {"n_nodes": None},
    "one layer, bipolar, factored": {"n_nodes": None, "bipolar": True, "interactions": "factored", "rank": 1},
    "bipolar": {"bipolar": True},
    "free": {"free_weights": True},
    "free, none": {"free_weights": True, "interactions": "none"},
}


@dataclass(frozen=True)
class Table:
    """Scaled scores as the page has them, in single precision, with labels (-1: none) and groups."""

    z: np.ndarray
    label: np.ndarray
    group: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        """What Python computes with."""
        return self.z.astype(np.float64)


def random_table(seed: int, n_rows: int = N_ROWS, n_concepts: int = len(CONCEPTS)) -> Table:
    """Random rows; some scores are equal, zero or one, and some rows have no label."""
    rng = np.random.default_rng(seed)
    z = rng.random((n_rows, n_concepts))
    z[rng.random(z.shape) < 0.2] = 0.5
    z[rng.random(z.shape) < 0.05] = 0.0
    z[rng.random(z.shape) < 0.05] = 1.0
    label = rng.integers(-1, len(CLASSES), n_rows).astype(np.int32)
    return Table(z.astype(np.float32), label, rng.integers(0, 3, n_rows).astype(np.int32))


def random_classifier(
    form: str, seed: int, spread: float = 2.0, *, concepts: tuple[str, ...] = CONCEPTS, n_nodes: int = 4
) -> cq.ChoqolateClassifier:
    """A classifier whose parameters are normal with some spread: the larger it is, the fewer weights matter."""
    options = {"n_nodes": n_nodes, **FORMS[form]}
    architecture = Architecture(**options)
    generator = torch.Generator().manual_seed(seed)
    width = 1.0 if architecture.free_weights else spread
    shapes = architecture.shapes(len(concepts), len(CLASSES))
    parameters = {
        name: width * torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()
    }
    rng = np.random.default_rng(seed)
    shares = rng.dirichlet(np.full(len(CLASSES), 5.0))
    scaling = MinMax(np.zeros(len(concepts)), np.ones(len(concepts)))
    classifier = cq.ChoqolateClassifier(**options, temperature=0.1)
    classifier.n_features_in_ = len(concepts)
    classifier.network_ = FittedNetwork(
        architecture, concepts, CLASSES, scaling, rng.random(len(concepts)), shares, parameters
    )
    return classifier


def bundle_parts(classifier: cq.ChoqolateClassifier, table: Table) -> tuple[dict, dict[str, np.ndarray]]:
    """A document and arrays such as the studio serves, with as little of them as the engine needs."""
    model, arrays = describe_network(classifier)
    n_rows = len(table.z)
    zeros = np.zeros(n_rows, dtype=np.int32)
    rows = {
        "total": n_rows,
        "groups": [f"group {g}" for g in range(int(table.group.max()) + 1)],
        "strata": [{"split": None, "group": None, "total": n_rows}],
        "paths": [],
    }
    columns = {"z": table.z, "label": table.label, "group": table.group, "split": zeros, "stratum": zeros}
    columns |= {"number": np.arange(n_rows, dtype=np.int32), "role": zeros.astype(np.uint8)}
    columns |= {"has_image": zeros.astype(np.uint8)}
    document = {
        "choqolate_version": cq.__version__,
        "model": model,
        "rows": rows,
        "probability_temperature": classifier.probability_temperature_,
    }
    return document, arrays | {f"rows.{name}": column for name, column in columns.items()}


def bundle_text(classifier: cq.ChoqolateClassifier, table: Table) -> str:
    """The same as one blob, in base64."""
    document, arrays = bundle_parts(classifier, table)
    return encoded(document, arrays)


def encoded(document: dict, arrays: dict[str, np.ndarray]) -> str:
    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return base64.b64encode(save(contiguous, metadata={"studio": json.dumps(document)})).decode()
