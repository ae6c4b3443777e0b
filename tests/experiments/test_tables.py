"""Tables: what is printed is read back, and compared with numpy's means and deviations."""

import io
import math
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from choqolate._util.markup import CHECK
from choqolate._util.spreadsheet import as_cell, from_cell
from choqolate.errors import ChoqolateError
from choqolate.experiments.engine.tables import Cell, Column, Row, Table
from choqolate.experiments.paper import published as paper

NAN = math.nan
ACCURACY = Column("accuracy", percent=True, higher_is_better=True)


def one_column(column, *cells):
    return Table("Title", ("Method",), (column,), [Row((f"m{k}",), (cell,)) for k, cell in enumerate(cells)])


# --- readers that know the formats, not the code ---


def markdown_rows(text):
    """The cells of all lines of the pipe table, without the rule, escapes undone."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1] for line in lines]
    assert all(re.fullmatch(r" (:-+|-+:) ", cell) for cell in cells[1])
    return [[re.sub(r"\\(\W|_)", r"\1", cell.strip()) for cell in row] for row in (cells[0], *cells[2:])]


def markdown_notes(text):
    return dict(re.findall(r"^- \((\w+)\) (.*)$", text, flags=re.M))


def latex_rows(text):
    r"""The cells of each line that ends in \\, a spanning one as often as it is wide."""
    rows = []
    for line in text.splitlines():
        if line.endswith(r" \\"):
            row = []
            for cell in re.split(r"(?<!\\)&", line[:-3]):
                span = re.fullmatch(r"\\multicolumn\{(\d+)\}\{c\}\{(.*)\}", cell.strip())
                row += [span[2]] * int(span[1]) if span else [cell.strip()]
            rows.append(row)
    return rows


def check_latex(text):
    """Braces and environments close, dollars come in pairs, every row has as many cells as there are columns."""
    bare = re.sub(r"\\[\\{}$&%#_]", "", text)
    depth = 0
    for sign in bare:
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    assert all(line.count("$") % 2 == 0 for line in bare.splitlines())
    assert re.findall(r"\\begin\{(\w+)\}", text) == re.findall(r"\\end\{(\w+)\}", text)[::-1]
    (columns,) = re.findall(r"\\begin\{tabular\}\{([lc]+)\}", text)
    rows = latex_rows(text)
    assert all(len(row) == len(columns) for row in rows)
    for start, end in re.findall(r"\\cmidrule\(lr\)\{(\d+)-(\d+)\}", text):
        assert 1 <= int(start) < int(end) <= len(columns)
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 1
    return rows


# --- numbers ---

numbers = st.floats(-5, 5)
cells = st.builds(
    Cell,
    values=st.none() | st.lists(numbers | st.just(NAN), max_size=5).map(tuple),
    paper=st.none() | st.tuples(numbers, st.none() | st.floats(0, 2)),
    note=st.none() | st.sampled_from(["no groups", "a|b & 50% of *_all_* <b> \\ `x` [y](z) {n} ~^#$"]),
)
texts = st.text(st.sampled_from("aB1 _*|\\&%$#{}~^<>[]`✓–±é-"), max_size=8)


@st.composite
def tables(draw):
    n_heads, n_columns = draw(st.integers(1, 2)), draw(st.integers(1, 4))
    direction = st.sampled_from([None, True, False])
    groups = sorted(draw(st.lists(st.sampled_from(["", "cub", "coco"]), min_size=n_columns, max_size=n_columns)))
    columns = [Column(f"metric_{k}", group, draw(st.booleans()), draw(direction)) for k, group in enumerate(groups)]
    row = st.builds(Row, st.tuples(*[texts] * n_heads), st.tuples(*[cells] * n_columns))
    return Table(draw(texts), [f"head {k}" for k in range(n_heads)], columns, draw(st.lists(row, max_size=4)))


def printed(value, percent):
    text = f"{100 * value:.2f}" if percent else f"{value:.3f}"
    return text.removeprefix("-") if float(text) == 0 else text


def expected_entry(cell, column):
    """Mean and deviation as text, from numpy."""
    values = np.array(cell.values or (), dtype=float)
    values = values[~np.isnan(values)]
    if not len(values):
        return "–"
    deviation = f" ± {printed(values.std(ddof=1), column.percent)}" if len(values) > 1 else ""
    return printed(values.mean(), column.percent) + deviation


def expected_grid(table):
    grid = []
    for row in table.rows:
        line = [" ".join(text.split()) for text in row.texts]
        for k, (cell, column) in enumerate(zip(row.cells, table.columns, strict=True)):
            line.append(expected_entry(cell, column))
            if any(other.cells[k].paper for other in table.rows):
                parts = [printed(part, column.percent) for part in cell.paper or () if part is not None]
                line.append(" ± ".join(parts))
        grid.append(line)
    return grid


def with_minus(text):
    return text.replace("-", "−") if re.fullmatch(r"[<>]?-\d+(\.\d+)?( ± [\d.]+)?", text) else text


def without_marks(text):
    return re.sub(r" \([a-z, ]+\)$", "", text).replace("**", "")


@given(tables())
def test_markdown_reads_back(table):
    text = table.to_markdown()
    rows = markdown_rows(text)
    heads = len(table.heads)
    expected = [[with_minus(text) for text in row] for row in expected_grid(table)]
    assert [row[:heads] + [without_marks(cell) for cell in row[heads:]] for row in rows[1:]] == expected
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(line) for line in lines}) == 1


@given(tables())
def test_every_mark_has_its_note_and_every_note_its_mark(table):
    text = table.to_markdown()
    used = {mark for row in markdown_rows(text)[1:] for cell in row[len(table.heads) :] for mark in marks_of(cell)}
    assert used == set(markdown_notes(text))
    for row in table.rows:
        assert all(cell.note is None or markdown_notes(text) for cell in row.cells)


def marks_of(cell):
    found = re.search(r" \(([a-z, ]+)\)$", cell)
    return found[1].split(", ") if found else []


@given(tables())
def test_latex_is_well_formed_and_has_the_same_numbers(table):
    rows = check_latex(table.to_latex())
    body = rows[len(rows) - len(table.rows) :]
    for line, wanted in zip(body, expected_grid(table), strict=True):
        for cell, number in list(zip(line, wanted, strict=True))[len(table.heads) :]:
            plain = re.sub(r"\\textsuperscript\{.*\}", "", cell)
            plain = re.sub(r"^\$(?:\\mathbf\{(.*)\}|(.*))\$$", r"\1\2", plain).replace(r"\pm", "±")
            assert plain == ("--" if number == "–" else number)


@given(tables())
def test_csv_holds_the_numbers_in_full(table):
    heads = list(map(as_cell, table.heads))
    frame = pd.read_csv(io.StringIO(table.to_csv()), dtype=dict.fromkeys(heads, str), keep_default_na=False)
    assert len(frame) == len(table.rows)
    for (_, line), row in zip(frame.iterrows(), table.rows, strict=True):
        assert [from_cell(line[head]) for head in heads] == list(row.texts)
        for cell, column in zip(row.cells, table.columns, strict=True):
            name = f"{column.group}: {column.name}" if column.group else column.name
            values = [value for value in cell.values or () if not math.isnan(value)]
            wanted = {
                "mean": np.mean(values) if values else None,
                "std": np.std(values, ddof=1) if len(values) > 1 else None,
                "runs": len(values),
                "paper mean": cell.paper[0] if cell.paper else None,
                "paper std": cell.paper[1] if cell.paper else None,
            }
            if as_cell(f"{name} paper mean") not in frame:
                assert not any(row.cells[table.columns.index(column)].paper for row in table.rows)
                del wanted["paper mean"], wanted["paper std"]
            for part, value in wanted.items():
                got = line[as_cell(f"{name} {part}")]
                assert got == "" if value is None else float(got) == pytest.approx(value, rel=1e-12)


# --- what is bold ---


def bold(table):
    return [cell.startswith("**") for cell in (row[1] for row in markdown_rows(table.to_markdown())[1:])]


def test_a_mean_of_fewer_than_half_of_the_runs_is_never_bold():
    cells = Cell((0.5, 0.5, 0.5)), Cell((0.9, math.nan, math.nan)), Cell((0.4, 0.4, math.nan))
    table = Table(
        "T",
        ("M",),
        (Column("x", higher_is_better=True),),
        [Row((name,), (c,)) for name, c in zip("abc", cells, strict=True)],
    )
    assert bold(table) == [True, False, False]


def test_the_best_mean_is_bold_not_the_best_run():
    cells = Cell((0.5, 0.5)), Cell((0.9, 0.0)), Cell((0.4, 0.7))
    assert bold(one_column(ACCURACY, *cells)) == [False, False, True]
    assert bold(one_column(Column("loss", higher_is_better=False), *cells)) == [False, True, False]
    assert bold(one_column(Column("seconds"), *cells)) == [False] * 3


def test_what_prints_the_same_is_bold_together():
    assert bold(one_column(ACCURACY, Cell((0.50001,)), Cell((0.50004,)), Cell((0.4999,)))) == [True, True, False]
    assert bold(one_column(ACCURACY, Cell((0.50001,)), Cell((0.5001,)))) == [False, True]


def test_numbers_are_compared_not_texts():
    assert bold(one_column(ACCURACY, Cell((0.0912,)), Cell((1.0,)), Cell((-0.5,)))) == [False, True, False]
    assert bold(one_column(Column("delta", higher_is_better=False), Cell((-0.0001,)), Cell((-2.0,)))) == [False, True]


def test_nothing_to_compare_is_not_bold():
    assert bold(one_column(ACCURACY, Cell((0.5, 0.6)))) == [False]
    assert bold(one_column(ACCURACY, Cell((0.5, 0.6)), Cell(None), Cell((NAN,)))) == [False] * 3
    assert "bold" not in one_column(ACCURACY, Cell((0.5,))).to_markdown()


def test_the_numbers_of_the_paper_do_not_compete():
    table = one_column(ACCURACY, Cell((0.5,), (0.99, None)), Cell((0.6,), (0.1, None)))
    assert markdown_rows(table.to_markdown())[1:] == [["m0", "50.00", "99.00"], ["m1", "**60.00**", "10.00"]]


def test_bold_in_latex():
    table = one_column(ACCURACY, Cell((0.5, 0.6)), Cell((0.6, 0.7)))
    body = check_latex(table.to_latex())[-2:]
    assert body == [["m0", r"$55.00 \pm 7.07$"], ["m1", r"$\mathbf{65.00 \pm 7.07}$"]]


# --- what is missing ---


def test_cells_that_were_not_run_say_why():
    text = one_column(
        ACCURACY, Cell((0.5, 0.6)), Cell(note="no groups"), Cell(()), Cell(note="no groups")
    ).to_markdown()
    assert [row[1] for row in markdown_rows(text)[1:]] == ["55.00 ± 7.07", "– (a)", "– (b)", "– (a)"]
    assert markdown_notes(text) == {"a": "no groups", "b": "not run"}


def test_undefined_runs_are_left_out_and_counted():
    cells = Cell((0.2, NAN, 0.4, math.inf, None)), Cell((NAN,) * 5, (0.1, 0.2)), Cell((1.0,) * 5)
    text = one_column(Column("coherence"), *cells).to_markdown()
    assert [row[1] for row in markdown_rows(text)[1:]] == ["0.300 ± 0.141 (a)", "– (b)", "1.000 ± 0.000"]
    assert markdown_notes(text) == {
        "a": "undefined in 3 of 5 runs, which are left out",
        "b": "undefined in 5 of 5 runs",
    }


def test_more_notes_than_letters():
    text = one_column(ACCURACY, *(Cell(note=f"reason {k}") for k in range(30))).to_markdown()
    assert markdown_notes(text)["bb"] == "reason 27"
    assert len(markdown_notes(text)) == 30


def test_the_caption_tells_the_number_of_runs():
    def caption(*cells):
        return one_column(Column("gini"), *cells).to_markdown().splitlines()[0]

    two, three = Cell((0.1, 0.2)), Cell((0.1, 0.2, 0.3))
    assert caption(two, two) == "**Title.** Mean ± standard deviation over 2 runs."
    assert caption(Cell((0.1,))) == "**Title.** Values of 1 run."
    assert caption(Cell(None)) == "**Title.**"
    assert caption(two, three, three).endswith("over 3 runs, unless a note says otherwise.")
    text = one_column(Column("gini"), two, three, three).to_markdown()
    assert markdown_notes(text) == {"a": "2 runs"}
    assert markdown_rows(text)[1][1] == "0.150 ± 0.071 (a)"


# --- heads ---


def grouped():
    columns = [
        Column("accuracy", "cats & dogs", percent=True, higher_is_better=True),
        Column("gini", "cats & dogs", higher_is_better=True),
        Column("gini", "cub"),
        Column("seconds"),
    ]
    with_paper = Cell((0.9, 0.8), paper.accuracy("cub", "pcbm"))
    return Table(
        "T", ("Method", "l1"), columns, [Row(("PCBM", CHECK), (with_paper, Cell((0.1,)), Cell(), Cell((2.0,))))]
    )


def test_heads_of_markdown():
    heads = markdown_rows(grouped().to_markdown())[0]
    assert heads == [
        "Method",
        "l1",
        "cats & dogs: accuracy (%) ↑",
        "paper",
        "cats & dogs: gini ↑",
        "cub: gini",
        "seconds",
    ]


def test_heads_of_latex():
    text = grouped().to_latex()
    rows = check_latex(text)
    top = [r"cats \& dogs"] * 3
    assert rows[0] == ["", "", *top, "cub", ""]
    assert rows[1] == ["", "", *[r"accuracy (\%) $\uparrow$"] * 2, r"gini $\uparrow$", "gini", "seconds"]
    assert rows[2] == ["Method", "l1", "ours", "paper", "", "", ""]
    assert rows[3][:4] == ["PCBM", r"\checkmark{}", r"$85.00 \pm 7.07$\textsuperscript{a}", r"$18.59 \pm 11.38$"]
    assert re.findall(r"\\cmidrule\(lr\)\{(\d-\d)\}", text) == ["3-5", "3-4"]


def test_columns_without_a_group_have_no_rule_above():
    columns = [Column("gini", "cub"), Column("gini", "coco"), ACCURACY]
    row = Row(("PCBM",), (Cell((0.1,), (0.1, 0.1)), Cell((0.1,)), Cell((0.1,), (0.1, 0.1))))
    text = Table("T", ("Method",), columns, [row]).to_latex()
    assert check_latex(text)[0] == ["", "cub", "cub", "coco", "", ""]
    assert re.findall(r"\\cmidrule\(lr\)\{(\d-\d)\}", text) == ["2-3", "2-3", "5-6"]


def test_latex_says_which_packages_it_needs():
    assert grouped().to_latex().startswith("% needs \\usepackage{booktabs,amssymb}\n")
    assert one_column(ACCURACY, Cell()).to_latex().startswith("% needs \\usepackage{booktabs}\n")


def test_special_characters():
    row = Row((r"a_b & 5% #1 {x} ~^\ $|<[*",), (Cell((0.5,)),))
    text = Table("50% & more", ("Method",), (ACCURACY,), [row]).to_latex()
    (cell, _) = check_latex(text)[-1]
    assert cell == (r"a\_b \& 5\% \#1 \{x\} \textasciitilde{}\textasciicircum{}\textbackslash{} \$$|$$<${[}{*}")
    assert r"\textbf{50\% \& more.}" in text


def test_a_row_that_begins_with_a_bracket_is_no_argument_of_the_line_break():
    rows = [Row((name,), (Cell((0.5,)),)) for name in ("a", "[2pt]", "*")]
    assert [row[0] for row in check_latex(Table("T", ("Method",), (ACCURACY,), rows).to_latex())[-2:]] == [
        "{[}2pt{]}",
        "{*}",
    ]


def test_markdown_leaves_alone_what_is_no_markup():
    rows = [Row((text,), ()) for text in ("8_nodes", "<0.001", "R&D", "a-b")]
    text = Table("T", ("Method",), (), rows).to_markdown()
    assert "\\" not in text
    assert r"\<b>\_x\_ \&lt; \*y\*" in Table("<b>_x_ &lt; *y*", ("Method",), (), rows).to_markdown()


def test_a_table_of_texts_alone():
    table = Table("Significance", ("Baseline", "Δ", "p"), (), [Row(("PCBM", "-0.13", "<0.001"), ())])
    assert markdown_rows(table.to_markdown()) == [["Baseline", "Δ", "p"], ["PCBM", "−0.13", "<0.001"]]
    assert check_latex(table.to_latex()) == [["Baseline", r"$\Delta$", "p"], ["PCBM", "$-0.13$", "$<0.001$"]]
    assert table.to_csv() == "Baseline,Δ,p\nPCBM,-0.13,<0.001\n"


def test_all_numbers_of_a_table_have_the_same_minus_sign():
    rows = [Row(("-0.54", "−0.83 to −0.21", "x-1"), (Cell((-0.001, -0.003)),))]
    table = Table("T", ("Δ", "range", "name"), (Column("coherence"),), rows)
    assert markdown_rows(table.to_markdown())[1] == ["−0.54", "−0.83 to −0.21", "x-1", "−0.002 ± 0.001"]
    assert [text for text, _ in table.printed().rows[0]] == ["-0.54", "-0.83 to -0.21", "x-1", "-0.002 ± 0.001"]
    assert table.to_csv().splitlines()[1].startswith("-0.54,-0.83 to -0.21,x-1,-0.002,")
    assert check_latex(table.to_latex())[1] == ["$-0.54$", "$-$0.83 to $-$0.21", "x-1", r"$-0.002 \pm 0.001$"]


def test_every_accuracy_of_the_paper_prints_as_in_the_paper():
    """Shares times 100, with two decimals: no digit is lost."""
    cells = [Cell(None, paper.accuracy("cats-dogs-cars", method)) for method in ("pcbm", "slr-avd", "choqolate")]
    rows = markdown_rows(one_column(ACCURACY, *cells).to_markdown())
    assert [row[2] for row in rows] == ["paper", "96.70 ± 0.72", "90.37 ± 17.70", "95.12 ± 0.27"]


# --- mistakes ---


def test_rows_must_fit():
    with pytest.raises(ChoqolateError, match="expected 1 texts and 1 cells"):
        Table("T", ("Method",), (ACCURACY,), [Row(("a",), ())])
    with pytest.raises(ChoqolateError, match="expected 1 texts and 1 cells"):
        Table("T", ("Method",), (ACCURACY,), [Row(("a", "b"), (Cell(),))])


def test_columns_must_differ():
    with pytest.raises(ChoqolateError, match="'accuracy' more than once"):
        Table("T", ("Method",), (ACCURACY, ACCURACY), [])
    with pytest.raises(ChoqolateError, match="at least one column"):
        Table("T", (), (), [])
