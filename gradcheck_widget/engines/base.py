"""What the checker asks of a framework. Everything that crosses this line is a NumPy array.

An engine never decides anything about tolerances or verdicts; it runs the user's function and its derivative.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

__all__ = [
    "Array",
    "Engine",
    "Evaluator",
    "Linearization",
    "Pushforward",
    "Snapshot",
    "flatten",
    "overlapping",
    "type_name",
]

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
    batched : callable, optional
        ``batched(k, cotangents)``: the same for output k alone and many cotangents at once, stacked along a new first
        axis, as are the gradients. Raises RuntimeError where the function cannot be batched.
    paths : tuple of str
        Where output k stands in a nested result: ``['loss']``; '' for a bare output or one of a tuple.
    """

    outputs: tuple[Array, ...]
    differentiable: tuple[bool, ...]
    pullback: Callable[[Mapping[int, Array | None]], list[Array | None]]
    batched: Callable[[int, Array], list[Array | None]] | None = None
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pushforward:
    """The forward-mode derivative of ``func`` at its inputs.

    Attributes
    ----------
    push : callable
        ``push(tangents)``: `tangents` maps numbers of checked inputs to arrays of their shape and dtype; an input left
        out has no tangent (undefined). Returns, for each output, its tangent or None (none flows there).
    batched : callable, optional
        ``batched(i, tangents)``: many tangents of checked input i at once, stacked along a new first axis.
    """

    push: Callable[[Mapping[int, Array]], list[Array | None]]
    batched: Callable[[int, Array], list[Array | None]] | None = None


@dataclass(frozen=True)
class Evaluator:
    """One way of running ``func`` without differentiating it: write into `buffers`, then call `run`.

    Attributes
    ----------
    buffers : tuple of ndarray
        One for each checked input; the caller's own memory wherever that can be written. An input that is given twice
        has one buffer, if its framework takes it for one variable.
    run : callable
        ``run() -> tuple of ndarray`` evaluates at the present contents of `buffers`. Results may alias a buffer.
    plain : bool
        True: exactly what the user would do, with the caller's own tensors. False: a shortcut, whose failures are
        decided again the plain way.
    positions : tuple of (ndarray or None)
        For a sparse input, the flat positions of the buffer's elements in the dense tensor; None: all, in order.
    """

    buffers: tuple[Array, ...]
    run: Callable[[], tuple[Array, ...]]
    plain: bool
    positions: tuple[Array | None, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """The bits of a tensor. ``restore()`` puts them back and tells whether they had changed."""

    restore: Callable[[], bool]


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
        """The values of tensor `x` on the host (dense), sharing its memory if that is possible."""

    @abstractmethod
    def tensor(self, values: Array, like: Any = None) -> Any:
        """A new tensor that requires grad, holding `values`, where `like` (one of the inputs) is."""

    @abstractmethod
    def linearize(self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]) -> Linearization:
        """Run `func` and record it; `checked` are the positions of the inputs to differentiate."""

    @abstractmethod
    def evaluators(
        self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int], masked: bool = False
    ) -> Iterator[Evaluator]:
        """Ways of running `func`, the quickest first; the last is the plain one.

        `masked`: move only the specified elements of sparse inputs.
        """

    def gradient(self, func: Callable[..., Any], checked: Sequence[int], count: int) -> Callable[..., Any]:
        """``g(*inputs, *grad_outputs)``: the vjp of `func`, itself differentiable, for `gradgradcheck` alone.

        `count` is the number of inputs of `func`; inputs on which no output depends give no result.
        """
        raise NotImplementedError(f"the {self.name} engine has no second derivatives")

    def pushforward(self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]) -> Pushforward:
        """Forward mode; only asked of engines that support ``check_forward_ad``."""
        raise NotImplementedError(f"the {self.name} engine has no forward mode")

    def flatten(self, tree: Any) -> tuple[list[Any], list[str], Callable[[Sequence[Any]], Any]]:
        """The leaves of a nested input, their paths, and the function that puts leaves back into the structure."""
        return flatten(tree, self.is_tensor)

    def snapshot(self, x: Any) -> Snapshot:
        """Remember the bits of the tensor `x`. Here: of one whose `array` is its memory."""
        values = self.array(x)
        kept = values.copy()

        def restore() -> bool:
            if not values.flags.writeable or values.tobytes() == kept.tobytes():
                return False
            values[...] = kept
            return True

        return Snapshot(restore)

    def copy(self, x: Any) -> Any:
        """A tensor of its own memory with the values, dtype and kind of the checked tensor `x`."""
        return self.tensor(self.array(x).copy(order="K"), like=x)

    def precision_hint(self, x: Any) -> str:
        """Why the tensor `x` is not in double precision and what to do, where the framework has a reason of its own."""
        return ""

    def memory(self, x: Any) -> Array:
        """The array in whose memory the tensor `x` keeps its elements, to be looked at for overlaps."""
        return self.array(x)


def flatten(
    tree: Any, is_leaf: Callable[[Any], bool], path: str = ""
) -> tuple[list[Any], list[str], Callable[[Sequence[Any]], Any]]:
    """Leaves of nested tuples, lists and dicts in order, their paths (``['dense'][0]``), and the way back.

    What holds no leaf in the sense of `is_leaf` is one itself, and comes back as the same object.
    """
    if is_leaf(tree) or not isinstance(tree, tuple | list | dict):
        return [tree], [path], lambda leaves: leaves[0]
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    parts = [flatten(tree[key], is_leaf, f"{path}[{key!r}]") for key in keys]
    if not any(is_leaf(x) for part in parts for x in part[0]):
        return [tree], [path], lambda leaves: leaves[0]
    counts = [len(part[0]) for part in parts]

    def rebuild(leaves: Sequence[Any]) -> Any:
        values, start = [], 0
        for count, part in zip(counts, parts, strict=True):
            values.append(part[2](leaves[start : start + count]))
            start += count
        if isinstance(tree, dict):
            return type(tree)(zip(keys, values, strict=True))
        return type(tree)(*values) if hasattr(tree, "_fields") else type(tree)(values)

    return [x for part in parts for x in part[0]], [p for part in parts for p in part[1]], rebuild


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


def type_name(x: Any) -> str:
    """What an error message calls an object: ``str``, ``torch.Tensor``."""
    kind = type(x)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
