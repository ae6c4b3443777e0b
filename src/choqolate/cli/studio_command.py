"""The command that opens the studio or writes it to a file: studio."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from choqolate.cli.application import app
from choqolate.cli.arguments import Columns, ModelFolder, names_columns
from choqolate.errors import ChoqolateError

if TYPE_CHECKING:
    from choqolate.studio.studio_file import StudioFile

HERE, ROWS = "127.0.0.1", 2000


@app.command()
@names_columns
def studio(
    model: ModelFolder,
    columns: Columns,
    scores: Annotated[
        Path, typer.Option(metavar="SCORES", help="Table of concept scores to audit the model on.", show_default=False)
    ],
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the studio to a single HTML file instead of starting a server.",
            show_default=False,
        ),
    ] = None,
    images: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the images of SCORES, if they have moved.", show_default=False),
    ] = None,
    rows: Annotated[
        int, typer.Option(metavar="N", min=1, help="Number of rows to load at first, or to write to FILE.")
    ] = ROWS,
    title: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Title of the page. By default, the name of MODEL.", show_default=False),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on. Any other than the loopback requires a token.")
    ] = HERE,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=0,
            max=65535,
            help="Port to listen on. By default, the first free one from 8765; 0 picks any free port.",
            show_default=False,
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Host name that browsers may use for the server. Can be repeated.",
            show_default=False,
        ),
    ] = None,
    root_path: Annotated[
        str, typer.Option(metavar="PATH", help="URL path under which a proxy serves the page.", show_default=False)
    ] = "",
    save_to: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder to save the edited model to. By default, MODEL-edited.",
            show_default=False,
        ),
    ] = None,
    backbone: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Encoder to score dropped images with, if it has moved.", show_default=False),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
) -> None:
    """Audit a model in the browser: remove concepts, see which images and groups are affected, keep a history.

    Example: [bold]choqolate studio model --scores scores.parquet[/]

    Example: [bold]choqolate studio model --scores scores.parquet --export audit.html[/]
    """
    from choqolate.cli.terminal import load_table, printable_name, say
    from choqolate.studio.launch import check_packages, serve_studio

    if export is None:
        check_packages()
    elif host != HERE or port is not None or allow_host or root_path or save_to is not None or backbone is not None:
        raise ChoqolateError("Expected --export or server options, but got both. A file has no server.")
    say(f"Reading {printable_name(model)} and {printable_name(scores)} ...")
    from choqolate.estimators.model_folder import load
    from choqolate.report.model_page import check_page

    if export is not None:
        from choqolate.cli.terminal import note_existing

        check_page(export)
        note_existing(export)
    classifier, table = load(model), load_table(scores, columns)
    title = model.resolve().name if title is None else title
    names = (str(model), str(scores))
    if export is not None:
        from choqolate.studio import export_studio

        written = export_studio(
            classifier, table, export, rows=rows, images=images, names=names, title=title, verbose=True
        )
        _show_file(written, model)
        return
    serve_studio(
        classifier,
        table,
        title=title,
        names=names,
        images=images,
        rows=rows,
        host=host,
        port=port,
        allow_hosts=tuple(allow_host or ()),
        root_path=root_path,
        save_to=save_to,
        backbone=backbone,
        open_browser=browser,
        tell=say,
        verbose=True,
    )


def _show_file(written: StudioFile, model: Path) -> None:
    """What is in the file, and what to do with it."""
    from choqolate.cli.terminal import open_console, show_next

    console = open_console()
    unreadable = f"; {written.unreadable:,} could not be read" if written.unreadable else ""
    thumbnails = f"{written.images:,} thumbnails of up to {written.side} pixels" if written.images else "none"
    console.print(f"Rows: {written.chosen}", markup=False)
    console.print(f"Edits are judged on {written.audit}.", markup=False)
    console.print(f"Covered until the final check: {written.covered}.", markup=False)
    console.print(f"Images: {thumbnails}{unreadable}.", markup=False)
    console.print(
        f"Size: {written.megabytes}. The file needs no server: open it, mail it, or put it on a static host. Its "
        "Export view downloads the edits as edits.json.",
        markup=False,
    )
    show_next("The studio is", written.path, ("apply", model, "edits.json", "-o", f"{model}-edited"))
