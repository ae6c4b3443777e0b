"""Reports as HTML pages that need nothing but themselves: styles and images are inside, and no script is."""

from __future__ import annotations

import base64
import math
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from choqolate._util.numbers import NOTHING, Spread, decimal, fine_decimal
from choqolate._util.text import capital, counted, printable
from choqolate.analysis.interval_text import change_text, judged_text, p_text, percent_range, point_range, verdict_text


def render(template: str, *, package: str = "choqolate.report", **context: Any) -> str:
    """The page of a template. Whatever the context holds is text: markup in it is escaped.

    Args:
        template: name of a file in ``templates/`` of the package; pages extend ``base.html`` of this one.
        package: where the template is.
        **context: what the template asks for; it is an error if something is missing.
    """
    return printable(_environment(package).get_template(template).render(context))


def data_uri(content: bytes, kind: str) -> str:
    """A file as an address that holds all of it.

    Args:
        content: of the file.
        kind: its media type.

    >>> data_uri(b"GIF89a", "image/gif")
    'data:image/gif;base64,R0lGODlh'
    """
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def share(value: float | None, digits: int = 1) -> str:
    """A share in percent; of a share that is rounded to zero, two digits that count.

    >>> share(0.8532), share(0.00002134), share(float("nan"))
    ('85.3%', '0.0021%', '–')
    """
    return NOTHING if value is None or math.isnan(value) else f"{fine_decimal(100 * value, digits)}%"


def unbroken(text: str) -> str:
    r"""Keep the parts of a p-value on one line.

    >>> unbroken("75.0% (70.9 to 78.7): may be due to chance (p = 0.29)")
    '75.0% (70.9 to 78.7): may be due to chance (p\xa0=\xa00.29)'
    """
    for part in ("p = ", "p < "):
        text = text.replace(part, part.replace(" ", "\N{NO-BREAK SPACE}"))
    return text


def mean_std(value: Spread, digits: int = 2, *, scale: float = 1, signed: bool = False) -> str:
    r"""Mean and standard deviation as :meth:`Spread.text` writes them, on one line.

    >>> mean_std(Spread(0.8532, 0.0121), 1, scale=100)
    '85.3\xa0±\xa01.2'
    """
    return value.text(digits, scale=scale, signed=signed).replace(" ", "\N{NO-BREAK SPACE}")


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, "choqolate.report"))]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(
        share=share,
        mean_std=mean_std,
        number=decimal,
        fine_number=fine_decimal,
        count="{:,}".format,
        counted=counted,
        capital=capital,
    )
    environment.filters.update(
        percent_range=percent_range,
        point_range=point_range,
        change=change_text,
        judged=judged_text,
        verdict=verdict_text,
        p=p_text,
        unbroken=unbroken,
    )
    return environment
