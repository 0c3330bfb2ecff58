"""Check hand-written derivatives, and see where they are wrong. ``help(gradcheck)`` is the place to start."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .check import gradcheck, gradcheck_report, gradgradcheck
from .engines.modules import with_parameters
from .errors import GradcheckError
from .report import GradcheckReport
from .tensor import Function, Tensor, from_backward, from_jacobian

if TYPE_CHECKING:
    from .widget import GradcheckWidget

__version__ = "0.1.0"

__all__ = [
    "Function",
    "GradcheckError",
    "GradcheckReport",
    "GradcheckWidget",
    "Tensor",
    "from_backward",
    "from_jacobian",
    "gradcheck",
    "gradcheck_report",
    "gradgradcheck",
    "with_parameters",
]


def __getattr__(name: str) -> Any:
    # ipywidgets and matplotlib are loaded by the first use of the widget, not by the import of the checker
    if name == "GradcheckWidget":
        from .widget import GradcheckWidget

        return GradcheckWidget
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
