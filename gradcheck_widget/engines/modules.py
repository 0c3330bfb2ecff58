"""A module (torch.nn.Module and its like) as a function of its inputs and its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["with_parameters"]


def with_parameters(module: Any, *inputs: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What to hand to `gradcheck` or `GradcheckWidget` to check a module with respect to its parameters, by name.

    Parameters
    ----------
    module : torch.nn.Module
        Or anything that is callable and has ``named_parameters()``.
    *inputs
        What ``module(*inputs)`` takes. Those that require grad are checked too.

    Returns
    -------
    func, inputs
        To be unpacked: ``gradcheck(*with_parameters(module, x))``. The Jacobians are named after the parameters that
        require grad: ``parameters['0.weight']``.

    Raises
    ------
    TypeError
        If `module` has no ``named_parameters()``.
    """
    if not hasattr(module, "named_parameters"):
        raise TypeError(f"with_parameters needs a module with named_parameters(), got {type(module).__name__}")
    parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}

    def func(*args: Any) -> Any:
        return module(*args[:-1])  # the module holds its parameters itself: they are perturbed where they are

    # the names that reports use
    names = list(inspect.signature(getattr(module, "forward", module)).parameters)[: len(inputs)]
    if "parameters" in names:
        names = []
    names += [f"input{i}" for i in range(len(names), len(inputs))]
    kind = inspect.Parameter.POSITIONAL_ONLY
    func.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [inspect.Parameter(name, kind) for name in (*names, "parameters")]
    )
    return func, (*inputs, parameters)
