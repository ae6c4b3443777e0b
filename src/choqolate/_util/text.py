"""Text for people: counts, lists of names, and names that every file format takes."""

from __future__ import annotations

from collections.abc import Sequence

_LONGEST_NAME = 200


def printable(text: str) -> str:
    r"""Text that every file format takes; bytes of a file's name that are no UTF-8 are spelled out.

    >>> printable("caf\udce9.jpg")
    'caf\\xe9.jpg'
    """
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    except UnicodeEncodeError:  # half a surrogate pair that no file's name gave
        return text.encode("utf-8", "backslashreplace").decode("utf-8")


def visible(text: str) -> str:
    r"""Text on one line that no terminal obeys: control and invisible characters are spelled out.

    These are line breaks, escape sequences and what turns the direction of writing; joined emoji stay whole.

    >>> print(visible("sea\x1b[31m\n\u202etxt.exe"))
    sea\x1b[31m\n\u202etxt.exe
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\u200d" else repr(c)[1:-1] for c in text)


def capital(text: str) -> str:
    """A sentence with a capital at its start; the rest is left alone.

    >>> capital("if the model did not read 'Sea', it would say landbird")
    "If the model did not read 'Sea', it would say landbird"
    """
    return text[:1].upper() + text[1:]


def counted(number: int, singular: str, plural: str | None = None) -> str:
    """``1 image``, ``12,000 images``."""
    return f"{number:,} {singular if number == 1 else plural or singular + 's'}"


def listed(names: Sequence[object], most: int = 5) -> str:
    """``'a', 'b' and 3 more``; very long names are cut."""
    cut = [text if len(text := str(name)) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}..." for name in names[:most]]
    shown = ", ".join(map(repr, cut))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def as_size(n_bytes: float) -> str:
    """An amount of bytes in the unit that suits it.

    >>> as_size(0), as_size(999_499), as_size(12_345_678), as_size(2.5e12)
    ('0 bytes', '999 kB', '12 MB', '2,500 GB')
    """
    if n_bytes < 1000:
        return counted(round(n_bytes), "byte")
    unit, name = next(((u, n) for u, n in ((1e3, "kB"), (1e6, "MB")) if n_bytes < 1000 * u), (1e9, "GB"))
    return f"{n_bytes / unit:,.{1 if n_bytes < 10 * unit else 0}f} {name}"


def duration(seconds: float) -> str:
    """A time in the unit that suits it.

    >>> duration(7.4), duration(89), duration(720), duration(5399), duration(11_100)
    ('7 s', '89 s', '12 min', '90 min', '3 h 5 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes <= 90 else f"{minutes // 60} h {minutes % 60} min"
