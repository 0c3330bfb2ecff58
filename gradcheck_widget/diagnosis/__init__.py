"""Why a check failed, and what a pass is worth.

Read `main` first: what is looked at, in which order. `elements` tells of one element, from a ladder of steps, whether
the gradient or the step is to blame; `structure` compares the two Jacobians of a wrong gradient; `probing` runs func at
other points; `passes` doubts a pass; `usage` explains exceptions.
"""

from __future__ import annotations

from .main import caution_steps, diagnose, diagnosis_steps
from .usage import attach, explain

__all__ = ["attach", "caution_steps", "diagnose", "diagnosis_steps", "explain"]
