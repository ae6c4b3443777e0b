"""Reports as HTML pages that need nothing but themselves: styles and images are inside, and no script is."""

from __future__ import annotations

import base64
import math
from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from choqolate._util.text import printable

NOTHING = "–"  # stands for a number that is not defined


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


def share(value: float, digits: int = 1) -> str:
    r"""A share as per cent, with a no-break space before the sign.

    >>> share(0.8532), share(float("nan"))
    ('85.3\xa0%', '–')
    """
    return NOTHING if math.isnan(value) else f"{number(100 * value, digits)}\N{NO-BREAK SPACE}%"


def mean_std(value: tuple[float, float | None], digits: int = 2, *, scale: float = 1, signed: bool = False) -> str:
    r"""Mean and standard deviation; the mean alone if there is no other.

    Args:
        value: both of them.
        digits: after the point.
        scale: a factor of both: 100 for per cent.
        signed: whether a mean above zero has its sign.

    >>> mean_std((0.8532, 0.0121), 1, scale=100), mean_std((-0.032, 0.01), signed=True), mean_std((0.5, None))
    ('85.3\xa0±\xa01.2', '−0.03\xa0±\xa00.01', '0.50')
    """
    mean, std = value
    if math.isnan(mean):
        return NOTHING
    text = number(scale * mean, digits, signed=signed)
    return text if std is None else f"{text}\N{NO-BREAK SPACE}±\N{NO-BREAK SPACE}{number(scale * std, digits)}"


def number(value: float, digits: int = 2, *, signed: bool = False) -> str:
    """A number with a true minus sign, and none before zero.

    >>> number(-1.25, 1), number(-0.001), number(3, 1, signed=True), number(0, 1, signed=True), number(1234.5, 1)
    ('−1.2', '0.00', '+3.0', '0.0', '1,234.5')
    """
    if math.isnan(value):
        return NOTHING
    rounded = round(value, digits) + 0.0  # turns -0.0 into 0.0
    return f"{rounded:{'+' if signed and rounded else ''},.{digits}f}".replace("-", "−")


def capital(text: str) -> str:
    """A sentence with a capital at its start; the rest is left alone.

    >>> capital("if the model did not read 'Sea', it would say landbird")
    "If the model did not read 'Sea', it would say landbird"
    """
    return text[:1].upper() + text[1:]


def count(value: int) -> str:
    """A whole number with commas.

    >>> count(6000)
    '6,000'
    """
    return f"{value:,}"


@cache
def _environment(package: str) -> Environment:
    environment = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in dict.fromkeys((package, "choqolate.report"))]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    environment.filters.update(share=share, mean_std=mean_std, number=number, count=count, capital=capital)
    return environment
