"""TensorPlay: strided tensors on any device, reverse mode.

Numerical runs see the caller's own tensors, with grad mode on, perturbed through a NumPy view of their memory, which
leaves version counters alone: as on torch, functions may close over their inputs or differentiate inside. Gradients of
complex tensors follow torch's convention.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorplay

from .base import Array, Engine, Evaluator, Linearization, Snapshot, type_name

__all__ = ["TensorplayEngine"]


class TensorplayEngine(Engine):
    name = "tensorplay"

    def is_tensor(self, x: Any) -> bool:
        return isinstance(x, tensorplay.Tensor)

    def requires_grad(self, x: Any) -> bool:
        return _carries_grad(x)

    def array(self, x: Any) -> Array:
        return _host(x)

    def tensor(self, values: Array, like: Any = None) -> Any:
        x = tensorplay.from_numpy(values)
        return (x if like is None else x.to(device=like.device)).requires_grad_()

    def snapshot(self, x: Any) -> Snapshot:
        kept = x.data.clone()

        def restore() -> bool:
            if _host(x).tobytes() == _host(kept).tobytes():
                return False
            x.data.copy_(kept)
            return True

        return Snapshot(restore)

    def linearize(self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]) -> Linearization:
        outputs = _runner(func, inputs)()
        arrays = tuple(map(_host, outputs))
        direct = tuple(map(_shares, arrays, outputs))
        leaves = [inputs[i] for i in checked]

        def like_output(k: int, values: Array) -> Any:
            g = tensorplay.from_numpy(np.asarray(values, order="C"))
            return g if direct[k] else g.to(device=outputs[k].device, dtype=outputs[k].dtype)

        def pullback(cotangents: Mapping[int, Array | None]) -> list[Array | None]:
            outs, grads = [], []
            for k, g in cotangents.items():
                if g is not None:
                    outs.append(outputs[k])
                    grads.append(like_output(k, g))
                elif type(outputs[k].grad_fn).__name__ == "PyNode":
                    # only a Function sees None: to its own operations tensorplay gives zeros, and of a wrong shape, so
                    # that x @ y and x[0] would fail here
                    outs.append(_UndefinedGrad.apply(outputs[k]))
                    grads.append(tensorplay.zeros_like(outputs[k]))
            if not outs:
                return [None] * len(leaves)
            found = tensorplay.autograd.grad(outs, leaves, grads, retain_graph=True, allow_unused=True)
            return [None if g is None else _host(g) for g in found]

        return Linearization(arrays, tuple(map(_carries_grad, outputs)), pullback)

    def gradient(self, func: Callable[..., Any], checked: Sequence[int], count: int) -> Callable[..., Any]:
        def vjp(*args: Any) -> tuple[Any, ...]:
            inputs = [a.requires_grad_() if i in checked else a for i, a in enumerate(args[:count])]
            outputs = [o for o in _runner(func, inputs)() if _carries_grad(o)]
            grads = tensorplay.autograd.grad(
                outputs, [inputs[i] for i in checked], args[count:], create_graph=True, allow_unused=True
            )
            return tuple(g for g in grads if g is not None)

        return vjp

    def evaluators(
        self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int], masked: bool = False
    ) -> Iterator[Evaluator]:
        buffers: dict[int, Array] = {}  # by the identity of the input: the same one twice is one variable
        stand_ins = []  # for memory that NumPy cannot write: on another device, bfloat16, half complex
        for x in (inputs[i] for i in checked):
            if id(x) not in buffers:
                buffers[id(x)] = buffer = _host(x)
                if not _shares(buffer, x):
                    stand_ins.append((x.data, buffer, x.data.clone()))
        call = _runner(func, inputs)

        def run() -> tuple[Array, ...]:
            for values, buffer, _ in stand_ins:
                values.copy_(tensorplay.from_numpy(buffer))
            try:
                return tuple(map(_host, call()))
            finally:
                for values, _, original in stand_ins:
                    values.copy_(original)

        yield Evaluator(tuple(buffers[id(inputs[i])] for i in checked), run, True)


class _UndefinedGrad(tensorplay.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        return None


def _runner(func: Callable[..., Any], inputs: Sequence[Any]) -> Callable[[], tuple[Any, ...]]:
    """``run() -> outputs``, which leaves the graph of `inputs` alone.

    A Function whose forward returns its input makes tensorplay declare the caller's own tensor its result, a leaf no
    more: it is made a leaf again, and the output becomes another tensor with the same memory.
    """
    tensors = [(x, x.requires_grad, x.grad_fn, x._output_nr) for x in inputs if isinstance(x, tensorplay.Tensor)]

    def run() -> tuple[Any, ...]:
        taken: dict[int, Any] = {}
        try:
            result = func(*inputs)
        finally:
            for x, required, node, number in tensors:
                if x.grad_fn is not node:
                    taken[id(x)] = alias = x.detach().requires_grad_()
                    alias._set_grad_fn(x.grad_fn, x._output_nr)
                    x._set_grad_fn(node, number)
                    x.requires_grad_(required)
        outputs = tuple(result) if isinstance(result, tuple | list) else (result,)
        for k, o in enumerate(outputs):
            if not isinstance(o, tensorplay.Tensor):
                raise TypeError(
                    f"func returned {type_name(o)} as output {k}: it must return a tensor or a tuple of them"
                )
            if o.is_sparse:
                raise ValueError(
                    f"Sparse output is not supported at gradcheck on tensorplay: call to_dense() on output {k}"
                )
        return tuple(taken.get(id(o), o) for o in outputs) if taken else outputs

    return run


def _carries_grad(x: Any) -> bool:
    return bool(x.requires_grad) and bool(x.is_floating_point() or x.is_complex())


def _host(x: Any) -> Array:
    """Values on the host: a view of the tensor's own memory wherever NumPy can have one."""
    if x.is_sparse:
        raise ValueError("Sparse tensors are not supported at gradcheck on tensorplay: please call to_dense() on them")
    x = x.detach()
    try:
        array: Array = x.numpy()
    except (TypeError, RuntimeError):
        array = x.cpu().numpy()
    return array


def _shares(array: Array, x: Any) -> bool:
    return array.size == 0 or bool(array.__array_interface__["data"][0] == x.data_ptr())
