"""What can go wrong, in words: what was found, what was expected, what to do."""


class DopeError(Exception):
    """Every error that dope raises on purpose."""


class InputError(DopeError, ValueError):
    """The caller's input cannot be worked with; nothing was computed."""


class MissingExtraError(DopeError, ImportError):
    """An optional package is needed for what was asked."""
