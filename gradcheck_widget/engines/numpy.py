"""The embedded engine: `Tensor` and plain NumPy arrays, which count as tensors that require grad."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..tensor import Tensor, grad
from ..tensor.core import pullback_of
from .base import Array, Engine, Evaluator, Linearization, type_name

__all__ = ["NumpyEngine"]


class NumpyEngine(Engine):
    name = "numpy"

    def is_tensor(self, x: Any) -> bool:
        return isinstance(x, Tensor) or (isinstance(x, np.ndarray) and x.dtype.kind in "fc")

    def requires_grad(self, x: Any) -> bool:
        return x.requires_grad if isinstance(x, Tensor) else True

    def array(self, x: Any) -> Array:
        return x.data if isinstance(x, Tensor) else np.asarray(x)

    def tensor(self, values: Array, like: Any = None) -> Tensor:
        return Tensor(values, requires_grad=True)

    def copy(self, x: Any) -> Any:
        values = self.array(x).copy(order="K")
        return Tensor(values, requires_grad=True) if isinstance(x, Tensor) else values

    def linearize(self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]) -> Linearization:
        args = _as_tensors(inputs, checked)
        outputs = _outputs(func(*args))
        tensors = {k: o for k, o in enumerate(outputs) if isinstance(o, Tensor) and o.requires_grad}
        leaves = [args[i] for i in checked]
        maps: dict[frozenset[int], Callable[..., Any]] = {}

        def pullback(cotangents: Mapping[int, Array | None]) -> list[Array | None]:
            wanted = frozenset(cotangents)
            if wanted not in maps:
                maps[wanted] = pullback_of({k: t for k, t in tensors.items() if k in wanted}, leaves)
            return [None if g is None else np.asarray(g) for g in maps[wanted](cotangents, False)]

        return Linearization(tuple(map(_array, outputs)), tuple(k in tensors for k in range(len(outputs))), pullback)

    def evaluators(
        self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int], masked: bool = False
    ) -> Iterator[Evaluator]:
        own = list(inputs)
        buffers: dict[int, Array] = {}  # by the identity of the input: the same one twice is one variable
        for i in checked:
            x, array = inputs[i], self.array(inputs[i])
            if id(x) not in buffers:
                # a read-only array cannot be perturbed in place: its stand-in is
                buffers[id(x)] = array if array.flags.writeable else array.copy()
            if not array.flags.writeable:
                own[i] = Tensor(buffers[id(x)], requires_grad=True)
        written = tuple(buffers[id(inputs[i])] for i in checked)
        arrays = [x.data if isinstance(x, Tensor) else x for x in own]
        detached = [Tensor(a) if self.is_tensor(x) else x for a, x in zip(arrays, own, strict=True)]
        recorded = _as_tensors(own, checked)
        for args, plain in ((arrays, False), (detached, False), (recorded, True)):
            yield Evaluator(written, _runner(func, args), plain)

    def gradient(self, func: Callable[..., Any], checked: Sequence[int], count: int) -> Callable[..., Any]:
        def vjp(*args: Any) -> tuple[Any, ...]:
            recorded = any(isinstance(a, Tensor) and a.requires_grad for a in args)
            inputs = list(args[:count])
            for i in checked:
                x = inputs[i]
                if not (isinstance(x, Tensor) and x.requires_grad):
                    inputs[i] = Tensor(x, requires_grad=True)
            outputs = [o for o in _outputs(func(*inputs)) if isinstance(o, Tensor) and o.requires_grad]
            grads = grad(outputs, [inputs[i] for i in checked], args[count:], create_graph=recorded)
            return tuple(g for g in grads if g is not None)

        return vjp


def _as_tensors(inputs: Sequence[Any], checked: Sequence[int]) -> list[Any]:
    """The caller's Tensors as they are; plain arrays wrapped, one and the same array in one and the same Tensor."""
    wrapped: dict[int, Tensor] = {}
    args = list(inputs)
    for i in checked:
        if not isinstance(args[i], Tensor):
            args[i] = wrapped.setdefault(id(args[i]), Tensor(args[i], requires_grad=True))
    return args


def _runner(func: Callable[..., Any], args: Sequence[Any]) -> Callable[[], tuple[Array, ...]]:
    def run() -> tuple[Array, ...]:
        out = func(*args)
        if type(out) is np.ndarray:
            return (out,)
        if isinstance(out, np.generic):
            return (np.asarray(out),)
        return tuple(map(_array, _outputs(out)))

    return run


def _outputs(result: Any) -> tuple[Any, ...]:
    outputs = tuple(result) if isinstance(result, tuple | list) else (result,)
    for k, o in enumerate(outputs):
        if not isinstance(o, Tensor | np.ndarray | np.generic):
            raise TypeError(
                f"func returned {type_name(o)} as output {k}: it must return a Tensor or an array, or a tuple of them"
            )
    return outputs


def _array(x: Any) -> Array:
    return x.data if isinstance(x, Tensor) else np.asarray(x)
