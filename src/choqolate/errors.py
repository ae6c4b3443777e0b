"""The one error type and the one warning type of the package."""


class ChoqolateError(ValueError):
    """Something the caller can mend: the message says what was expected, what came, and what to do."""


class ChoqolateWarning(UserWarning):
    """The result is defined, but probably not what the caller has in mind."""
