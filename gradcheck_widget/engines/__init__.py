"""Which engine the inputs belong to. Nothing is imported here that the user's inputs did not bring along."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .base import Engine, Evaluator, Linearization
from .numpy import NumpyEngine

__all__ = ["ENGINES", "Engine", "Evaluator", "Linearization", "NumpyEngine", "find_engine"]

ENGINES: tuple[Engine, ...] = (NumpyEngine(),)


def find_engine(inputs: Sequence[Any]) -> Engine:
    """The engine whose tensors are among `inputs`; the embedded one if there are none."""
    for engine in ENGINES:
        if any(engine.is_tensor(x) for x in inputs):
            return engine
    return ENGINES[0]
