"""The OpenAPI schema is true: whatever is sent, the server answers as it says, and never with an error of its own."""

from __future__ import annotations

import pytest
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from schemathesis import GenerationMode, checks

from choqolate.estimators.edits_file import edits_document
from choqolate.studio import create_app
from tests.studio.running import running

EXAMPLES = 25
CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.response_headers_conformance,
]
EDITS = ["POST /api/numbers", "POST /api/model", "POST /api/model.zip", "POST /api/report"]
OPERATIONS = ["GET /api/bundle", "GET /api/rows", "GET /api/images/{number}", "POST /api/score", *EDITS]


@pytest.fixture(scope="module")
def api(studio_place, tmp_path_factory):
    folder = tmp_path_factory.mktemp("openapi")
    app = create_app(studio_place.model, studio_place.table, page=studio_place.page, save_to=folder / "edited")
    with running(app) as server:
        yield schemathesis.openapi.from_url(f"http://127.0.0.1:{server.port}/api/openapi.json")


def ask_many(api, operation, mode, change=lambda body: body):
    """Send what the schema allows, or what it does not allow; returns how often each status came back."""
    method, path = operation.split(" ")
    statuses = {}

    @seed(0)
    @settings(max_examples=EXAMPLES, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(api[path][method].as_strategy(generation_mode=mode))
    def ask(case):
        case.body = change(case.body)
        answer = case.call_and_validate(checks=CHECKS)
        statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1

    ask()
    return statuses


def test_all_operations_are_tried(api):
    assert sorted(one.ok().label for one in api.get_all_operations()) == sorted(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_the_schema_allows_is_answered(api, operation):
    assert ask_many(api, operation, GenerationMode.POSITIVE)


@pytest.mark.parametrize("operation", OPERATIONS[1:])  # there is nothing to get wrong about the first
def test_what_the_schema_does_not_allow_is_refused(api, operation):
    assert ask_many(api, operation, GenerationMode.NEGATIVE)


@pytest.mark.parametrize("operation", EDITS[:3])
def test_edits_of_this_model_are_answered(api, operation, studio_place):
    """Random edits, but of concepts and nodes that the model has."""
    model = studio_place.model
    nodes = edits_document(model.remove_concepts("sea", nodes=[0, 1, 2]))["edits"][0]["nodes"]

    def known(names):
        return [model.concepts_[len(name) % len(model.concepts_)] for name in names]

    def sharpened(body):
        document = body.get("document", body)
        document["model"] = {"identity": model.network_.identity}
        for entry in document["edits"]:
            if entry.get("concepts"):
                entry["concepts"] = known(entry["concepts"])
            if entry.get("factors"):
                entry["factors"] = dict(zip(known(entry["factors"]), entry["factors"].values(), strict=True))
            if entry.get("nodes"):
                entry["nodes"] = nodes[: len(entry["nodes"])]
            if "shift" in entry:
                entry["shift"] = (entry["shift"] + [0.0, 0.0])[:2]
            entry["note"] = (entry.get("note") or {}) | {"reviewed": True}
        return body

    assert 200 in ask_many(api, operation, GenerationMode.POSITIVE, sharpened)
