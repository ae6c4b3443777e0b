"""The rooms of the house stand in the order of CONTRIBUTING's table, and each keeps to itself what is private."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "choqolate"
TABLE = re.findall(r"^\| (`\w+/`.*?) \|", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"), re.M)
ROOMS = [name for row in TABLE for name in re.findall(r"`(\w+)/`", row)]  # the lowest first
TREES = {path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def room_of(path: Path) -> str:
    return path.parts[0] if len(path.parts) > 1 else ""


def imported(tree: ast.AST):
    """All that is imported of the package, as names below it; what plot, plot_* and studio methods show is left out."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and (node.name.split("_")[0] == "plot" or node.name == "studio"):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "choqolate":
            yield from (f"{node.module}.{alias.name}".removeprefix("choqolate.") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("choqolate.") for alias in node.names if "choqolate." in alias.name)
        yield from imported(node)


def private_names(tree: ast.AST) -> set[str]:
    """Names with one underscore that a module defines: functions, classes, variables, attributes."""
    defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    stored = (node for node in ast.walk(tree) if isinstance(getattr(node, "ctx", None), ast.Store))
    defined |= {getattr(node, "attr", getattr(node, "id", "")) for node in stored}
    return {name for name in defined if name.startswith("_") and not name.startswith("__")}


def test_no_room_imports_a_higher_one():
    rank = {"errors": -1, **{room: place for place, room in enumerate(ROOMS)}}
    upward = [
        f"{path} imports {name}"
        for path, tree in TREES.items()
        if path.name != "__init__.py" or room_of(path)
        for name in imported(tree)
        if rank.get(name.split(".")[0], -1) > rank[room_of(path) or path.stem]
    ]
    assert upward == []


def test_no_room_touches_what_is_private_to_another():
    own = {room: set().union(*(private_names(t) for p, t in TREES.items() if room_of(p) == room)) for room in ROOMS}
    touched = []
    for path, tree in TREES.items():
        others = set().union(*own.values()) - own.get(room_of(path), set())
        attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in others]
        touched += [
            f"{path}: .{node.attr}" for node in attributes if getattr(node.value, "id", "") not in ("self", "cls")
        ]
        touched += [f"{path}: {name}" for name in imported(tree) if name.rpartition(".")[2] in others]
    assert touched == []


def test_every_module_has_a_room_and_every_room_its_place():
    assert {path.name for path in SOURCE.glob("*.py")} == {"__init__.py", "errors.py"}
    found = {path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert found <= set(ROOMS)
    assert set(ROOMS) - found <= {"studio"}


def test_a_file_name_says_which_room_it_is_in():
    names = [path.name for path in TREES if path.name != "__init__.py"]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_a_class_name_stands_for_one_thing():
    names = [node.name for tree in TREES.values() for node in tree.body if isinstance(node, ast.ClassDef)]
    assert sorted({name for name in names if names.count(name) > 1}) == []
