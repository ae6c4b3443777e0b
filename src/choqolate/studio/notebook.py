"""The studio in a notebook: a server of its own behind a frame."""

from __future__ import annotations

import os
import threading
import time
from html import escape
from typing import TYPE_CHECKING, Any

from choqolate._util.checks import check_number
from choqolate.errors import ChoqolateError
from choqolate.studio.access import SELF
from choqolate.studio.launch import LOOPBACK, base_address, check_packages, listen, make_server

if TYPE_CHECKING:
    import socket

    import uvicorn

    from choqolate.data.scores import ConceptScores
    from choqolate.estimators.classifier import ChoqolateClassifier

FRAMES = f"{SELF} http://localhost:* http://127.0.0.1:* https://localhost:* https://127.0.0.1:* vscode-webview:"
_PATIENCE = 10  # seconds


class StudioFrame:
    """A studio that runs beside a notebook, shown in a frame.

    Attributes:
        url: of the page, for a browser on the same machine.
        height: of the frame in pixels.
    """

    def __init__(self, server: uvicorn.Server, listening: socket.socket, height: int) -> None:
        self.url = f"{base_address(LOOPBACK, listening)}/"
        self.height = height
        self._server = server
        self._thread = threading.Thread(target=server.run, args=([listening],), name="choqolate studio", daemon=True)
        self._thread.start()
        self._wait(lambda: server.started)

    def close(self) -> None:
        """Stop the server; the frame shows nothing new from then on."""
        self._server.should_exit = True
        self._thread.join(_PATIENCE)

    @property
    def is_open(self) -> bool:
        """Whether the server runs."""
        return self._thread.is_alive()

    def __repr__(self) -> str:
        return f"Studio at {self.url}" if self.is_open else "Studio (closed)"

    def _repr_html_(self) -> str:
        if not self.is_open:
            return f"<p>{escape(repr(self))}</p>"
        frame = f'<iframe src="{escape(self.url)}" width="100%" height="{self.height}" title="CHOQOLATE studio"'
        link = f'<a href="{escape(self.url)}" target="_blank" rel="noopener">Open the studio in a tab</a>'
        return f'{frame} style="border: 0" allow="clipboard-write"></iframe><p>{link}</p>'

    def _wait(self, ready: Any) -> None:
        until = time.monotonic() + _PATIENCE
        while not ready():
            if time.monotonic() > until or not self.is_open:
                raise ChoqolateError("Expected the studio's server to start, but it did not. Its log says more.")
            time.sleep(0.01)


def show_studio(
    classifier: ChoqolateClassifier,
    scores: ConceptScores | str | os.PathLike[str],
    *,
    height: int = 800,
    **options: Any,
) -> StudioFrame:
    """Show the studio of a classifier in a notebook.

    The server listens on this machine only and ends with the process, or with :meth:`StudioFrame.close`. If the
    notebook runs on another machine, forward the port of ``url``, or export a file
    (:func:`~choqolate.studio.export_studio`).

    Args:
        classifier: fitted.
        scores: a table of its concepts, or the file of one.
        height: of the frame in pixels.
        **options: ``title``, ``names``, ``images``, ``rows``, ``save_to`` and ``backbone``, see
            :func:`~choqolate.studio.create_app`.

    Returns:
        A frame that a notebook shows, with ``url`` and ``close()``.

    Raises:
        ChoqolateError: if the packages of the server are not installed, or the table does not fit the classifier.
    """
    check_packages()
    check_number("height", height, minimum=100, whole=True)
    from choqolate.data.scores import ConceptScores
    from choqolate.studio.app_server import create_app

    table = scores if isinstance(scores, ConceptScores) else ConceptScores.load(os.fspath(scores))
    app = create_app(classifier, table, frame_ancestors=FRAMES, **options)
    return StudioFrame(make_server(app), listen(LOOPBACK, 0), height)
