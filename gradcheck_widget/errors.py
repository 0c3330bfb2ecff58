"""The exceptions that callers can catch by name. First room of the house: it imports nothing."""

from __future__ import annotations

from typing import Any

__all__ = ["GradcheckError", "OutputChanged", "UsageError"]


class _Failure(RuntimeError):
    """The torch engine puts PyTorch's own exception class here, so that code which catches that catches ours."""


class GradcheckError(_Failure):
    """A gradient check failed. The text says what failed, where and by how much.

    Attributes
    ----------
    report : GradcheckReport or None
        Everything that was measured, where the check got far enough to have a report.
    """

    report: Any = None


class UsageError(AssertionError, ValueError):
    """A combination of arguments that asks for nothing; an ``AssertionError``, as PyTorch raises it."""


class OutputChanged(GradcheckError, AssertionError):
    """The number, shape or dtype of func's outputs changed while its input was moved by eps.

    An ``AssertionError`` too, as which PyTorch raises it.
    """
