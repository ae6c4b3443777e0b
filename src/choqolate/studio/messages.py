"""What the studio's page and its server say to each other, as the OpenAPI schema describes it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_EDITS = 300  # in one request
MOST_VALUES = 500  # rows whose values are asked for in one request
MOST_ROWS = 5000  # in one answer

Name = Annotated[str, Field(max_length=10_000)]
Unit = Annotated[float, Field(ge=0, le=1)]


class _Exact(BaseModel):
    """Nothing is converted and nothing is ignored: what is not understood is refused."""

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class EditNote(_Exact):
    """Who made an edit, when and why, and whether somebody has reviewed it."""

    author: Name | None = None
    time: Name | None = None
    reason: Annotated[str, Field(max_length=100_000)] | None = None
    reviewed: bool | None = None


class NodeReference(_Exact):
    """A node, by its leading concepts and their shares."""

    node: Annotated[int, Field(ge=0)]
    leading: dict[Name, Annotated[float, Field(gt=0)]]
    class_name: Annotated[str | None, Field(alias="class", max_length=10_000)] = None


class _EditEntry(_Exact):
    note: EditNote | None = None


class RemoveEntry(_EditEntry):
    """Concepts are removed from some nodes, or from all."""

    edit: Literal["remove"]
    concepts: list[Name]
    nodes: list[NodeReference] | None = None
    mode: Literal["rescale", "canonical", "impute"] = "rescale"


class ReweightEntry(_EditEntry):
    """Concepts count more or less in some nodes, or in all."""

    edit: Literal["reweight"]
    factors: dict[Name, Annotated[float, Field(ge=0)]]
    nodes: list[NodeReference] | None = None


class RecalibrateEntry(_EditEntry):
    """Class scores are shifted; the server computes the shift again unless it is asked not to."""

    edit: Literal["recalibrate"]
    shift: list[float]
    rows: int | None = None
    fingerprint: Name | None = None


class RestoreEntry(_EditEntry):
    """Concepts are as they were trained."""

    edit: Literal["restore"]
    concepts: list[Name] | None = None


class SimplifyEntry(_EditEntry):
    """Nodes keep their heaviest terms."""

    edit: Literal["simplify"]
    max_terms: Annotated[int, Field(ge=1)] | None = None
    mass: Annotated[float, Field(gt=0, le=1)] | None = None
    classes: bool = False


EditEntry = Annotated[
    RemoveEntry | ReweightEntry | RecalibrateEntry | RestoreEntry | SimplifyEntry, Field(discriminator="edit")
]


class EditedNetwork(BaseModel):
    """Which model the edits were made to, and in which state it was; without one, as it was trained."""

    model_config = ConfigDict(extra="ignore", strict=True)

    identity: Name
    state: Name = ""


class EditsDocument(BaseModel):
    """A file of edits, as choqolate.save_edits writes it; there may be no edits."""

    model_config = ConfigDict(extra="ignore", strict=True, allow_inf_nan=False)

    format: Literal["choqolate-edits"]
    format_version: Literal[1]
    model: EditedNetwork
    edits: Annotated[list[EditEntry], Field(max_length=MOST_EDITS)]

    def as_file(self) -> dict[str, Any]:
        """The document as :func:`choqolate.estimators.edits_file.apply_document` takes it."""
        return self.model_dump(by_alias=True, exclude_unset=True)


class NumbersRequest(_Exact):
    """Edits, and what to compute for them."""

    document: EditsDocument
    rows: Annotated[
        list[Annotated[int, Field(ge=0)]],
        Field(max_length=MOST_VALUES, description="Places of rows in the order of the bundle."),
    ] = []
    recalibrate: Annotated[
        bool, Field(description="Compute recalibrations again on the training rows, as saving does.")
    ] = True
    covered: Annotated[bool, Field(description="Also measure the rows that are covered until the final check.")] = False


class Hits(BaseModel):
    """How many of some rows are predicted correctly."""

    hits: int
    rows: int
    accuracy: Unit


class NamedHits(Hits):
    """The same, of a group with a name."""

    name: str


class Measured(BaseModel):
    """How good a model is on some labeled rows: all, each class and group, and the worst group of ten rows or more."""

    all: Hits
    classes: list[NamedHits]
    groups: list[NamedHits]
    worst_group: NamedHits | None


class Numbers(BaseModel):
    """What Python computes for edits; one entry per row that was asked for."""

    audit: Measured | None
    covered: Measured | None
    shift: list[float]
    node_values: list[list[float]]
    scores: list[list[float]]
    predicted: list[int]
    warnings: list[str]


class SavedModel(BaseModel):
    """Where an edited model was saved, and how good it is on the rows that edits are judged on."""

    folder: str
    audit: Measured | None
    shift: list[float]
    warnings: list[str]


class ScoredImage(BaseModel):
    """An image as the model sees it: scaled scores of its concepts, why to doubt them, and a small JPEG in base64."""

    scores: list[Unit]
    warnings: list[str]
    thumbnail: str


class Problem(BaseModel):
    """Why a request was not answered."""

    error: str
