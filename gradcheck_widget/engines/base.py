"""What the checker asks of a framework. Everything that crosses this line is a NumPy array.

An engine never decides anything about tolerances or verdicts; it runs the user's function and its derivative.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

__all__ = ["Array", "Engine", "Evaluator", "Linearization", "overlapping"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Linearization:
    """``func`` at its inputs, with its reverse-mode derivative.

    Attributes
    ----------
    outputs : tuple of ndarray
        Their memory may be that of an input (a function may return a view).
    differentiable : tuple of bool
        Whether output k carries a gradient.
    pullback : callable
        ``pullback(cotangents)``: `cotangents` maps output numbers to arrays of their shape and dtype, or to None
        (undefined). Outputs left out take no part. Returns, for each checked input, an array or None (no gradient).
    """

    outputs: tuple[Array, ...]
    differentiable: tuple[bool, ...]
    pullback: Callable[[Mapping[int, Array | None]], list[Array | None]]


@dataclass(frozen=True)
class Evaluator:
    """One way of running ``func`` without differentiating it: write into `buffers`, then call `run`.

    Attributes
    ----------
    buffers : tuple of ndarray
        One for each checked input; the caller's own memory wherever that can be written.
    run : callable
        ``run() -> tuple of ndarray`` evaluates at the present contents of `buffers`. Results may alias a buffer.
    plain : bool
        True: exactly what the user would do, with the caller's own tensors. False: a shortcut, whose failures are
        decided again the plain way.
    """

    buffers: tuple[Array, ...]
    run: Callable[[], tuple[Array, ...]]
    plain: bool


class Engine(ABC):
    """A framework. ``supports`` names the flags of `gradcheck` that it can do beyond reverse mode."""

    name: ClassVar[str]
    supports: ClassVar[frozenset[str]] = frozenset()

    @abstractmethod
    def is_tensor(self, x: Any) -> bool:
        """Whether `x` is one of this engine's tensors; other inputs are passed through untouched."""

    @abstractmethod
    def requires_grad(self, x: Any) -> bool:
        """Whether derivatives with respect to the tensor `x` are to be checked."""

    @abstractmethod
    def array(self, x: Any) -> Array:
        """The values of tensor `x` on the host, sharing its memory if that is possible."""

    @abstractmethod
    def linearize(self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]) -> Linearization:
        """Run `func` and record it; `checked` are the positions of the inputs to differentiate."""

    @abstractmethod
    def evaluators(
        self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]
    ) -> Iterator[Evaluator]:
        """Ways of running `func`, the quickest first; the last is the plain one."""

    @abstractmethod
    def gradient(self, func: Callable[..., Any], checked: Sequence[int], count: int) -> Callable[..., Any]:
        """``g(*inputs, *grad_outputs)``: the vjp of `func`, itself differentiable, for `gradgradcheck`.

        `count` is the number of inputs of `func`; inputs on which no output depends give no result.
        """

    @abstractmethod
    def tensor(self, values: Array) -> Any:
        """A new tensor that requires grad, holding `values`."""


def overlapping(x: Array) -> bool:
    """Whether two elements of `x` share memory: a real overlap, not only a stride of 0."""
    if x.size < 2:
        return False
    axes = sorted((abs(s), n) for s, n in zip(x.strides, x.shape, strict=True) if n > 1)
    reach = x.itemsize  # bytes covered by the axes so far
    for stride, n in axes:
        if stride < reach:
            break
        reach = stride * (n - 1) + reach
    else:
        return False
    # the axes interlock: compare the addresses themselves
    address = np.zeros((), np.int64)
    for stride, n in axes:
        address = np.add.outer(address, stride * np.arange(n))
    gaps = np.diff(np.sort(address, axis=None))
    return bool((gaps < x.itemsize).any())
