"""What a pass is worth: reasons to doubt it."""

from __future__ import annotations

from collections.abc import Generator

from ..findings import Finding
from ..jacobians import Progress
from .context import Case

__all__ = ["cautions"]


def cautions(case: Case) -> Generator[Progress, None, list[Finding]]:
    """All that speaks against the pass, the surest first."""
    yield Progress(0, 1)
    return []
