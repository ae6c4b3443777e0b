"""The error type of the package, and its warnings."""


class ChoqolateError(ValueError):
    """Something the caller can fix: the message says what was expected, what came, and what to do."""


class NothingLeftError(ChoqolateError):
    """A removal would leave nothing of some node."""


class ChoqolateWarning(UserWarning):
    """The result is defined, but probably not what the caller has in mind."""


class DoubtfulChoiceWarning(ChoqolateWarning):
    """A search chose settings, but the validation rows hardly allow a choice."""


class SmallRemainderWarning(ChoqolateWarning):
    """A removal leaves little of some nodes."""
