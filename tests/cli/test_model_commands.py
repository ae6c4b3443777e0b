"""The commands fit, eval, remove, apply and export; most run in this process."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import shlex
import sys
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import typer
from rich.cells import cell_len
from scipy.stats import binomtest

import choqolate as cq
from choqolate.cli import main
from choqolate.cli.application import app
from choqolate.cli.fit_command import ClassInteractions, Interactions, Schedule, Start, fit
from choqolate.cli.model_commands import Mode, Split
from choqolate.data.column_roles import ROW_COLUMNS
from choqolate.data.scores import ConceptScores
from choqolate.data.splits import SPLITS
from choqolate.datasets.birds import render_birds
from choqolate.integral.layer import INTERACTIONS
from choqolate.network.architecture import CLASS_INTERACTIONS
from choqolate.network.cluster_start import STARTS
from choqolate.network.removal import MODES
from choqolate.network.training import SCHEDULES
from choqolate.report.model_origin import FIT_OPTIONS, commands
from tests.cli.test_data_commands import choqolate as run_here
from tests.small_tables import CONCEPTS, bird_scores

ODD = ["[red]web[/] :smile:", "a\nb", "🏄‍♀️ surfer", "[/]", "sea", "forest"]


def write_table(path, n_rows=150, **changes):
    X, y, groups = bird_scores(n_rows)
    split = np.array(["train", "train", "test"])[np.arange(n_rows) % 3]
    fields = dict(scores=X.to_numpy(), concepts=CONCEPTS, labels=y, groups=groups, split=split)
    ConceptScores(**fields | changes).save(path)
    return path


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with tables, and a model that was trained by the command."""
    folder = tmp_path_factory.mktemp("cli")
    write_table(folder / "birds.parquet", spurious=["sea", "forest"])
    write_table(folder / "whole.csv", split=None)
    write_table(folder / "plain.csv", split=None, groups=None)
    (folder / "photos").mkdir()
    (folder / "photos" / "gull.jpg").write_bytes(b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = run_here("fit", "birds.parquet", "-o", "model", "--paper", "--nodes", "3", "--epochs", "5")
    assert (done.code, done.err) == (0, "")
    (folder / "said.txt").write_text(done.out)
    return folder


@pytest.fixture
def run(place, monkeypatch, capsys):
    """Run a command in this process: exit code, standard output, standard error."""
    monkeypatch.chdir(place)

    def call(*arguments, width=120):
        monkeypatch.setattr(sys, "argv", ["choqolate", *map(str, arguments)])
        monkeypatch.setenv("COLUMNS", str(width))
        monkeypatch.setenv("NO_COLOR", "1")
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = stop.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def interval(share, rows):
    """As the terminal shows it."""
    found = binomtest(round(share * rows), rows).proportion_ci(method="wilson")
    return f"{found.low:.2f} – {found.high:.2f}"


def test_fit_trains_saves_and_reports(place):
    said = (place / "said.txt").read_text()
    model = cq.load(place / "model")
    assert model.get_params()["n_nodes"] == 3
    assert not model.verbose
    assert model.provenance_.data.split == "given"
    table = ConceptScores.load(place / "birds.parquet")
    assert "6 concepts, 3 nodes, 2 classes" in said
    accuracies = [model.score(part.frame, part.labels) for part in (table.part("train"), table.part("test"))]
    cells = [f"{value:.3f} +{interval(value, rows)}" for value, rows in zip(accuracies, (100, 50), strict=True)]
    assert re.search(r"accuracy +{} +{}\n".format(*cells), said)
    assert re.search(r"\nalways predict (landbird|waterbird) +0\.\d+ +0", said)
    for word in ("training", "held out", "worst group", "Attribution Gini", "Node Coherence", "landbird", "waterbird"):
        assert word in said
    leading = model.concepts_[int(model.node_attributions_[0].argmax())]
    assert f"\n0     {leading} {model.node_attributions_[0].max():.3f}, " in said
    assert "choqolate eval model birds.parquet" in said
    assert "choqolate remove model " in said


def test_the_defaults_and_choices_are_those_of_the_library():
    defaults = {name: p.default for name, p in inspect.signature(fit).parameters.items()}
    ours = cq.ChoqolateClassifier().get_params()
    searched = {"nodes", "temperature", "interactions"}
    assert [defaults[name] for name in searched] == [None] * 3
    own = {"scores", "output", "leave_out", "paper", "trade_off", "runs", "bipolar", "no_bipolar"}
    own |= {f"{role}_column" for role in ROW_COLUMNS}
    place = {"stream", "workers", "engine", "address"}  # where and how rows are read, not what is trained
    assert defaults["rank"] == str(ours["rank"])  # text, because it may be auto
    for name in defaults.keys() - searched - own - place - {"rank"}:
        assert defaults[name] == ours[{"seed": "random_state"}.get(name, name)], name
    assert set(Interactions) == {*INTERACTIONS, "auto"}
    assert set(ClassInteractions) == set(CLASS_INTERACTIONS)
    assert tuple(Start) == STARTS
    assert tuple(Schedule) == SCHEDULES
    assert tuple(Mode) == MODES
    assert tuple(Split) == (*SPLITS, "all")


def test_commands_on_a_page_use_options_that_there_are():
    fit_command = typer.main.get_command(app).commands["fit"]
    options = {name: option for option in fit_command.params for name in option.opts}
    assert set(FIT_OPTIONS) <= set(cq.ChoqolateClassifier().get_params())
    others = {
        "--output",
        "-o",
        "--device",
        "--leave-out",
        "scores",
        "--no-bipolar",
        "--sparsity",
        "--trade-off",
        "--runs",
        "--stream",
        "--workers",
        "--engine",
        "--address",
        *(f"--{role}-column" for role in ROW_COLUMNS),
    }
    assert {*FIT_OPTIONS.values(), "--paper"} == options.keys() - others


def test_all_options_of_fit_reach_the_model(run):
    options = "--nodes 0 --temperature 0.01 --l1 0.02 --epochs 2 --batch-size 64 --learning-rate 0.05 --bipolar"
    more = "--interactions factored --rank 2 --class-weight balanced --seed 3 --device cpu"
    left_out = ["--leave-out", "sea", "--leave-out", "crest"]
    code, said, _ = run("fit", "whole.csv", "-o", "options", *options.split(), *more.split(), *left_out)
    assert code == 0
    model = cq.load("options")
    wanted = dict(n_nodes=None, temperature=0.01, l1=0.02, epochs=2, batch_size=64, learning_rate=0.05, bipolar=True)
    wanted |= dict(interactions="factored", rank=2, class_weight="balanced", random_state=3, device="cpu")
    assert {name: model.get_params()[name] for name in wanted} == wanted
    assert model.concepts_ == ["webbed feet", "long bill", "hooked bill", "forest"]
    assert "no nodes" in said
    assert "held out: test rows of the split that was made for training" in said


def test_fit_searches_unless_told_otherwise(run, place):
    code, said, notes = run("fit", "birds.parquet", "-o", "searched", "--epochs", "5", "--seed", "1")
    assert code == 0
    assert said.startswith("searching on the training rows: nodes, temperature, interactions; --paper")
    model = cq.load("searched")
    assert [model.get_params()[name] for name in ("n_nodes", "temperature", "interactions")] == ["auto"] * 3
    assert f"chosen: {model.search_.choice} (validation accuracy, averaged over groups," in said
    assert "the paper's settings: " in said
    assert f"rule: {model.search_.rule}" in said
    assert "doubtful" in notes  # 150 rows hardly allow a choice
    command = next(line for line in commands(model) if " fit " in line)
    assert (
        run(*shlex.split(command.replace("scores.parquet", "birds.parquet").replace("-o model", "-o again"))[1:])[0]
        == 0
    )
    again = cq.load("again")
    assert again.search_ is None
    assert again.network_.identity == model.network_.identity  # the page's command trains the same network


def test_what_is_given_is_not_searched(run):
    options = (
        "--nodes 5 --interactions none --class-interactions pairwise --no-bipolar --init random --schedule constant"
    )
    code, said, _ = run("fit", "birds.parquet", "-o", "given", "--epochs", "3", *options.split())
    assert code == 0
    assert said.startswith("searching on the training rows: temperature;")
    model = cq.load("given")
    assert {trial.n_nodes for trial in model.search_.trials} == {5}
    built = model.network_.architecture
    assert (built.interactions, built.class_kind, built.bipolar) == ("none", "pairwise", False)
    assert (model.search_.init, model.search_.schedule) == ("random", "constant")


def test_runs_mark_the_nodes_that_recur(run):
    for runs, found in (("1", None), ("4", 3)):
        options = ["--paper", "--nodes", "3", "--epochs", "3", "--runs", runs]
        code, said, _ = run("fit", "birds.parquet", "-o", "runs", *options)
        assert code == 0
        stability = cq.load("runs").stability_
        assert (None if stability is None else stability.n_others) == found
        assert ("recurs" in said) == (found is not None)


def test_sparsity_asks_for_the_most_accurate_setting_at_that_gini(run):
    code, said, _ = run("fit", "birds.parquet", "-o", "sparse", "--epochs", "20", "--sparsity", "0.5")
    assert code == 0
    found = cq.load("sparse").search_
    dense = [trial for trial in found.trials if trial.gini >= 0.5]
    assert found.choice.accuracy == max(trial.accuracy for trial in dense)
    assert "with an Attribution Gini of at least 0.5" in said


def test_fit_without_held_out_rows_says_so(run):
    write_table("train.csv", split=["train"] * 150)
    code, said, notes = run("fit", "train.csv", "-o", "all-train", "--paper", "--epochs", "1")
    assert code == 0
    assert "held out" not in said
    columns = "label: column 'label' · split: column 'split' · group: column 'group' · 6 concepts"
    assert notes.splitlines() == [
        f"choqolate: note: train.csv: {columns}",
        "choqolate: note: not evaluated on held-out rows: all rows with a label are for training",
    ]


def test_columns_are_named(run):
    X, labels, groups = bird_scores(60)
    X.assign(species=labels, site=groups, z=np.arange(60) / 60).to_csv("named.csv", index=False)
    code, said, error = run("fit", "named.csv", "-o", "named", "--paper", "--epochs", "1")
    assert (code, said) == (2, "")
    assert "column 'species' has '" in error
    assert (
        "If it is the label, call it 'label', or name it with label_column='species' (--label-column species)" in error
    )
    columns = ["--label-column", "species", "--group-column", "site"]
    code, said, error = run("fit", "named.csv", "-o", "named", "--paper", "--epochs", "1", "--runs", "1", *columns)
    assert code == 0
    assert "named.csv: label: column 'species' · group: column 'site' · 7 concepts\n" in error
    assert "z" in cq.load("named").concepts_
    proposed = [line.split() for line in said.splitlines() if "named.csv" in line and line.startswith("  choqolate")]
    assert [line[1] for line in proposed] == ["eval", "explain", "remove"]
    assert all(line[-4:] == columns for line in proposed)
    code, said, error = run(*proposed[0][1:])
    assert code == 0
    assert "landbird on land" in said
    code, said, error = run("predict", "named", "named.csv", "-o", "named-predictions.csv", *columns)
    assert code == 0
    assert "label" in Path("named-predictions.csv").read_text().splitlines()[0]
    code, said, error = run("eval", "named", "named.csv", "--label-column", "spices")
    assert code == 2
    assert "Did you mean 'species'?" in error


def test_eval_prints_tables(run):
    code, said, notes = run("eval", "model", "birds.parquet")
    assert (code, notes) == (0, "")
    result = cq.load("model").score(*_test_rows())
    assert re.search(rf"\naccuracy +{result:.3f} +{interval(result, 50)}\n", said)
    for name in ("landbird", "waterbird", "landbird on land", "test rows of the table", "taken for"):
        assert name in said


def _test_rows():
    part = ConceptScores.load("birds.parquet").part("test")
    return part.frame, part.labels


def test_eval_prints_nothing_but_json_when_asked(run):
    code, said, notes = run("eval", "model", "birds.parquet", "--json", "--split", "all")
    assert (code, notes) == (0, "")
    numbers = json.loads(said)
    assert numbers["rows"] == 150
    assert numbers["majority"]["accuracy"] == numbers["class_rows"][numbers["majority"]["class"]] / 150
    low, high = numbers["accuracy_interval"]
    assert low < numbers["accuracy"] < high
    assert numbers["group_intervals"].keys() == numbers["group_rows"].keys()
    assert numbers["class_rows"].keys() == {"landbird", "waterbird"}
    code, said, _ = run("eval", "model", "plain.csv", "--json")
    assert json.loads(said)["worst_group"] is None


def test_remove_reports_what_every_node_lost_and_leaves_the_model_alone(place, run):
    before = {path.name: path.read_bytes() for path in (place / "model").iterdir()}
    code, said, notes = run("remove", "model", "sea", "-o", "edited", "--scores", "birds.parquet")
    assert (code, notes) == (0, "")
    edited = cq.load("edited")
    assert edited.removal_.concepts == ("sea",)
    for node, lost in enumerate(edited.removal_.mass_lost):
        assert re.search(rf"\n{node} +{lost:.1%} +", said)
    model = cq.load("model")
    old, new = model.score(*_test_rows()), edited.score(*_test_rows())
    assert re.search(rf"accuracy +50 +{old:.3f} +{new:.3f} +{re.escape(f'{new - old:+.3f}')} +-0", said)
    assert re.search(
        r"\naccuracy: [-+][\d.]+ points \(.* to .*\) on 50 images: may be due to chance \(p = 1.00\)\n", said
    )
    assert "landbird on water" in said
    assert {path.name: path.read_bytes() for path in (place / "model").iterdir()} == before
    code, said, _ = run("eval", "edited", "birds.parquet")
    assert "edited: removed 'sea' (rescale)\n" in said
    code, _, _ = run("remove", "edited", "crest", "-o", "edited")
    assert cq.load("edited").removal_.concepts == ("sea", "crest")


def test_concepts_to_remove_come_from_arguments_files_and_marks(place, run):
    (place / "words.txt").write_text("# places\nsea | ocean\n\n forest \n")
    run("remove", "model", "crest", "sea", "--from", "words.txt", "-o", "three")
    assert cq.load("three").removal_.concepts == ("crest", "sea", "forest")
    code, *_ = run("remove", "model", "--spurious", "-o", "marked", "--mode", "impute", "--nodes", "0,2")
    assert code == 0
    edit = cq.load("marked").edits_[0]
    assert (edit.concepts, edit.nodes, edit.mode) == (("sea", "forest"), (0, 2), "impute")
    run("fit", "plain.csv", "-o", "unmarked", "--paper", "--epochs", "1")
    code, _, error = run("remove", "unmarked", "--spurious", "-o", "marked")
    assert code == 2
    assert "neither the model nor the scores given mark any" in error
    code, *_ = run("remove", "unmarked", "--spurious", "-o", "marked", "--scores", "birds.parquet")
    assert code == 0
    assert cq.load("marked").removal_.concepts == ("sea", "forest")


def test_edits_of_a_file_are_applied_measured_and_saved(place, run):
    model = cq.load(place / "model")
    edited = model.remove_concepts("sea", note="background").reweight_concepts({"forest": 0.2}, nodes=[0])
    cq.save_edits(edited, place / "edits.json")
    code, said, err = run("apply", "model", "edits.json", "-o", "applied", "--scores", "birds.parquet")
    assert (code, err) == (0, "")
    assert "removed: sea" in said
    assert "reweighted: forest by 0.2" in said
    assert "worst group" in said
    back = cq.load(place / "applied")
    X = bird_scores(150)[0]
    np.testing.assert_array_equal(back.class_scores(X), edited.class_scores(X))
    assert back.edits_ == edited.edits_
    cq.save_edits(edited.recalibrate(X), place / "recalibrated.json")
    assert (
        run(
            "fit",
            "birds.parquet",
            "-o",
            "other",
            "--paper",
            "--nodes",
            "3",
            "--epochs",
            "5",
            "--seed",
            "0",
            "--l1",
            "0",
        )[0]
        == 0
    )
    code, _, err = run("apply", "other", "recalibrated.json", "-o", "nowhere")
    assert code == 2
    assert "does not fit this model" in err
    assert not (place / "nowhere").exists()


def test_who_removed_concepts_and_why_is_kept(place, run):
    arguments = ["remove", "model", "sea", "-o", "noted", "--author", "Ada", "--reason", "the sea is background"]
    assert run(*arguments)[0] == 0
    note = cq.load(place / "noted").edits_[0].note
    assert (note.author, note.reason, note.reviewed) == ("Ada", "the sea is background", None)
    assert note.time is not None


def test_export_writes_the_edited_model_and_says_what_it_takes_and_gives(place, run):
    run("remove", "model", "sea", "-o", "corrected", "--recalibrate", "birds.parquet")
    code, said, err = run("export", "corrected", "-o", "exported/model.onnx")
    assert (code, err) == (0, "")
    assert "edited: removed 'sea' (rescale); recalibrated on 100 rows\n" in said
    columns = {"scores": 6, "node_values": 3, "class_scores": 2, "probabilities": 2}
    shapes = re.findall(r"^(?:in|out)put +(\w+) +float32 +\[batch, (\d+)\]", said, re.MULTILINE)
    assert {name: int(size) for name, size in shapes} == columns
    assert "The ONNX model is in exported/model.onnx (" in said
    session = onnxruntime.InferenceSession(place / "exported" / "model.onnx", providers=["CPUExecutionProvider"])
    X = bird_scores(150)[0].astype(np.float32)
    (got,) = session.run(["probabilities"], {"scores": X.to_numpy()})
    np.testing.assert_allclose(got, cq.load("corrected").predict_proba(X), atol=1e-6)


def test_export_without_the_package_says_how_to_install_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    code, said, error = run("export", "model", "-o", "missing.onnx")
    assert (code, said) == (2, "")
    assert "Install it with pip install 'choqolate[onnx]'." in error
    assert error.count("\n") == 1


def test_recalibration_uses_the_training_rows(run):
    code, said, _ = run("remove", "model", "sea", "-o", "shifted", "--recalibrate", "birds.parquet")
    assert code == 0
    part = ConceptScores.load("birds.parquet").part("train")
    wanted = cq.load("model").remove_concepts("sea", recalibrate=part.frame)
    np.testing.assert_array_equal(cq.load("shifted").class_shift_, wanted.class_shift_)
    assert "recalibrated, class scores shifted by: landbird" in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "fit birds.parquet -o birds.parquet",
            "Expected a folder for the model, but birds.parquet is a file. Choose another name.",
        ),
        ("fit birds.parquet -o whole.csv/model", "whole.csv is a file: choose another path"),
        (
            "fit birds.parquet -o photos",
            "Expected a new or empty folder for the model, but photos holds other things. Choose another one.",
        ),
        ("remove model sea -o photos", "photos holds other things"),
        ("fit nothing.csv -o new", "nothing.csv is not there"),
        ("fit birds.parquet -o new --epochs 0", "expected epochs to be a whole number of at least 1, got 0"),
        ("fit birds.parquet -o new --nodes -1", "expected n_nodes"),
        ("fit birds.parquet -o new --nodes many", "Expected --nodes to be a whole number, or auto, but got 'many'."),
        ("fit birds.parquet -o new --temperature hot", "Expected --temperature to be a number above 0, or auto"),
        ("fit birds.parquet -o new --bipolar --no-bipolar", "Expected --bipolar or --no-bipolar, but got both."),
        ("fit birds.parquet -o new --trade-off curve.txt", "ends in .png, .svg or .pdf, but got curve.txt"),
        ("fit birds.parquet -o new --paper --sparsity 0.9", "sparsity needs a search."),
        ("fit birds.parquet -o new --leave-out see", "did you mean 'sea'"),
        ("eval nothing birds.parquet", "expected a model folder with config.json at nothing"),
        ("eval model birds.parquet --split val", "rows for 'train', 'test' only"),
        ("eval model whole.csv --split test", "not the one that the model was trained on"),
        ("remove model -o new", "expected concepts to remove, got none"),
        ("remove model see -o new", "did you mean 'sea'"),
        ("remove model sea -o new --nodes 0,x", "expected --nodes to be numbers such as 0,3, got '0,x'"),
        ("remove model sea -o new --nodes 7", "Expected indices of nodes from 0 to 2"),
        ("remove model --from nothing.txt -o new", "nothing.txt cannot be read"),
        ("remove model sea -o birds.parquet", "birds.parquet is a file"),
        ("export model -o new", "Expected a file that ends in .onnx, got new. Choose another name."),
        ("export model -o birds.parquet/new.onnx", "birds.parquet is a file: choose another path"),
        ("export nothing -o new.onnx", "expected a model folder with config.json at nothing"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(run, arguments, message):
    code, said, error = run(*arguments.split())
    assert (code, said) == (2, "")
    assert error.startswith("choqolate: ")
    assert message in error
    assert sum(not line.startswith("choqolate: note: ") for line in error.splitlines()) == 1
    assert not os.path.exists("new")


@pytest.mark.parametrize(
    "arguments",
    [
        "fit birds.parquet",
        "eval model",
        "remove model sea",
        "export model",
        "fit birds.parquet -o n --interactions odd",
    ],
)
def test_mistakes_of_usage_are_exit_code_2(run, arguments):
    code, said, error = run(*arguments.split())
    assert (code, said) == (2, "")
    assert "Usage: choqolate" in error


def test_an_error_of_ours_is_exit_code_1(run, monkeypatch):
    monkeypatch.setattr("choqolate.data.score_file.open_scores", lambda path, stream, **columns: 1 / 0)
    code, said, error = run("eval", "model", "birds.parquet")
    assert (code, said) == (1, "")
    assert "an error of ours, ZeroDivisionError" in error
    assert error.count("\n") == 1


def test_warnings_of_ours_are_notes_of_one_line(run):
    code, _, notes = run("fit", "birds.parquet", "-o", "one", "--paper", "--nodes", "1", "--epochs", "1")
    assert code == 0
    assert re.fullmatch(r"choqolate: note: with one node all classes get the same score: .*\n", notes)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("n_classes", [2, 12])
def test_names_are_printed_as_they_are_and_tables_fit(run, width, n_classes):
    X, y, _ = bird_scores(240)
    names = ["[bold]bird", "b\nird", *(f"a bird called {'x' * n}" for n in range(3, 60, 6))][:n_classes]
    labels = [names[(2 * row + (label == "waterbird")) % n_classes] for row, label in enumerate(y)]
    table = ConceptScores(X.to_numpy(), ODD, labels=labels, groups=[f"{label} :smile: [/x]" for label in labels])
    table.save("odd.parquet")
    code, said, _ = run("fit", "odd.parquet", "-o", "odd", "--paper", "--epochs", "2", width=width)
    assert code == 0
    for arguments in (
        ["eval", "odd", "odd.parquet"],
        ["remove", "odd", *ODD[:4], "-o", "odd2", "--scores", "odd.parquet"],
    ):
        code, more, error = run(*arguments, width=width)
        assert code == 0, error
        said += more
    for name in ("[red]web[/] :smile: ", "a\\nb ", "🏄‍♀️ surfer ", "[/] ", "[bold]bird", "b\\nird", ":smile: [/x]"):
        assert name in said, name
    lines = [line for line in said.splitlines() if not line.startswith("  choqolate")]
    assert max(map(cell_len, lines)) <= width


def test_output_that_the_terminal_cannot_spell_stops_nothing(place, monkeypatch):
    write_table(place / "surf.csv", concepts=ODD)
    terminal = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.chdir(place)
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setattr("sys.argv", ["choqolate", "fit", "surf.csv", "-o", "surf", "--paper", "--epochs", "1"])
    main()
    terminal.seek(0)
    assert "\\U0001f3c4" in terminal.read()


@pytest.mark.parametrize("command", ["fit", "eval", "remove", "apply", "export"])
def test_every_command_has_an_example(run, command):
    code, said, _ = run(command, "--help")
    assert code == 0
    assert f"Example: choqolate {command} " in said


def test_the_trade_off_is_drawn(run, tmp_path):
    for options in ([], ["--paper"]):
        curve = tmp_path / "curve.png"
        code, said, _ = run("fit", "birds.parquet", "-o", "drawn", "--epochs", "3", "--trade-off", curve, *options)
        assert code == 0
        assert curve.read_bytes().startswith(b"\x89PNG")
        assert f"The trade-off is drawn in {curve}." in said
        assert "Logistic regression on all concepts, which is not sparse, reaches" in said
        curve.unlink()


# ---------------------------------------------------------------- controls


@pytest.fixture(scope="module")
def other_names(place):
    """Scores of the same images for other names."""
    table = ConceptScores.load(place / "birds.parquet")
    scores = np.random.default_rng(1).random((len(table), 8))
    names = ["anvil", "banjo", "cactus", "drum", "easel", "fjord", "glove", "harp"]
    ConceptScores(scores, names, rows=table.rows).save(place / "others.parquet")
    return "others.parquet"


def test_eval_with_controls_shows_them_beside_the_model(run, place, other_names):
    code, out, err = run(
        "eval", "model", "birds.parquet", "--controls", "--others", other_names, "--draws", 2, width=80
    )

    assert (code, err) == (0, "")
    assert all(cell_len(line) <= 80 for line in out.splitlines())
    controls = cq.run_controls(
        cq.load(place / "model"),
        ConceptScores.load(place / "birds.parquet"),
        others=ConceptScores.load(place / other_names),
        seeds=range(2),
    )
    for row in controls.rows:
        assert re.search(rf"^{row.name} .*{row.concepts_per_class.text(1)}$", out, re.MULTILINE)
    assert "random names: drawn from another table of scores" in out
    assert " ".join(controls.lines()[0].replace("−", "-").split()) in " ".join(out.split())


def test_eval_with_controls_as_json(run, other_names):
    code, out, _ = run("eval", "model", "birds.parquet", "--controls", "--others", other_names, "--draws", 1, "--json")

    numbers = json.loads(out)
    assert code == 0
    assert numbers["rows"] == 50
    assert [row["name"] for row in numbers["controls"]["rows"]][2] == "random names"
    assert "controls" not in json.loads(run("eval", "model", "birds.parquet", "--json")[1])


def test_controls_of_an_edited_model_say_what_is_left(run, place):
    run("remove", "model", "sea", "forest", "-o", "core")

    code, out, err = run("eval", "core", "birds.parquet", "--controls", "--draws", 1)

    assert (code, err) == (0, "")
    assert "A linear probe computes the 2 removed concepts from the other 4 scores" in " ".join(out.split())


def test_explain_with_controls_writes_them_into_the_report(run, place):
    code, out, _ = run("explain", "model", "--scores", "birds.parquet", "--controls", "--draws", 1, "-o", "c.html")

    assert code == 0
    assert "random directions" in out
    page = (place / "c.html").read_text()
    assert '<section id="controls">' in page


def test_embeddings_give_directions_of_their_space(run, place):
    rows = render_birds(place / "scenes", 60, parts=("train",), verbose=False)
    found = cq.embed(rows, cq.load_backbone("mini"), place / "vectors", workers=0)
    cq.score(found, ["webbed feet", "sea", "forest"]).with_columns(split=None).save(place / "scenes.parquet")
    run("fit", "scenes.parquet", "-o", "scenes-model", "--paper", "--nodes", "3", "--epochs", "3")

    code, out, _ = run(
        "eval", "scenes-model", "scenes.parquet", "--controls", "--embeddings", "vectors", "--draws", 1, "--json"
    )

    controls = json.loads(out)["controls"]
    assert code == 0
    assert [row["source"] for row in controls["rows"] if row["name"] == "random directions"] == [
        "drawn in the embedding space"
    ]
    assert "the backbone mini never saw" in controls["missing"]


def test_options_of_controls_need_controls(run, other_names):
    for command in (["eval", "model", "birds.parquet"], ["explain", "model", "--scores", "birds.parquet"]):
        for option in (["--others", other_names], ["--draws", 3]):
            code, _, err = run(*command, *option)
            assert (code, f"{option[0]} has no effect without --controls. Add --controls." in err) == (2, True)
        code, _, err = run(*command, "--controls", "--others", "nowhere.parquet")
        assert (code, "nowhere.parquet does not exist" in err) == (2, True)
    code, _, err = run("eval", "model", "birds.parquet", "--controls", "--stream")
    assert (code, "Controls need the table in memory" in err) == (2, True)
    code, _, err = run("eval", "model", "birds.parquet", "--controls", "--split", "val")
    assert (code, "Controls are measured on the held-out rows" in err) == (2, True)
    code, _, err = run("explain", "model", "--controls")
    assert (code, "Expected --scores" in err) == (2, True)
    code, _, err = run("explain", "model", "--scores", "birds.parquet", "--controls", "--against", "model")
    assert (code, "Expected --controls or --against, but got both" in err) == (2, True)
