"""HIPS autograd: functions written with ``autograd.numpy`` on plain arrays. Chosen by ``engine="autograd"`` alone.

Its cotangents are the conjugates of PyTorch's, so complex cotangents and gradients are conjugated on their way through
this file. Tangents are the same in both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd.builtins import DictBox, SequenceBox
from autograd.core import JVPNode, VJPNode, add_outgrads
from autograd.tracer import isbox, new_box, trace_stack
from autograd.util import toposort

from .base import Array, Engine, Evaluator, Linearization, Pushforward, type_name

__all__ = ["AutogradEngine"]


class AutogradEngine(Engine):
    name = "autograd"
    supports = frozenset({"check_forward_ad"})

    def is_tensor(self, x: Any) -> bool:
        return isinstance(x, np.ndarray) and x.dtype.kind in "fc"

    def requires_grad(self, x: Any) -> bool:
        return True

    def array(self, x: Any) -> Array:
        return np.asarray(x)

    def tensor(self, values: Array, like: Any = None) -> Array:
        return values

    def linearize(self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]) -> Linearization:
        roots = {id(inputs[i]): VJPNode.new_root() for i in checked}
        outputs, nodes, paths = _trace(func, inputs, checked, roots)

        def pullback(cotangents: Mapping[int, Array | None]) -> list[Array | None]:
            wanted = [k for k in cotangents if nodes[k] is not None]
            given = [cotangents[k] for k in wanted]
            found = _backward(
                [nodes[k] for k in wanted],
                [np.zeros_like(outputs[k]) if g is None else np.conj(g) for k, g in zip(wanted, given, strict=True)],
            )
            gradients = [found.get(roots[id(inputs[i])]) for i in checked]
            return [None if g is None else np.conj(g) for g in gradients]

        carried = tuple(node is not None for node in nodes)
        return Linearization(tuple(map(np.asarray, outputs)), carried, pullback, paths=paths)

    def gradient(self, func: Callable[..., Any], checked: Sequence[int], count: int) -> Callable[..., Any]:
        def vjp(*args: Any) -> tuple[Any, ...]:
            inputs = args[:count]
            roots = {id(inputs[i]): VJPNode.new_root() for i in checked}
            _, nodes, _ = _trace(func, inputs, checked, roots)
            found = _backward([node for node in nodes if node is not None], list(map(_conj, args[count:])))
            gradients = [found.get(roots[id(inputs[i])]) for i in checked]
            return tuple(_conj(g) for g in gradients if g is not None)

        return vjp

    def pushforward(self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]) -> Pushforward:
        def push(tangents: Mapping[int, Array]) -> list[Array | None]:
            total: dict[int, Any] = {}  # by the identity of the input: one passed twice is one variable
            for n, t in tangents.items():
                key = id(inputs[checked[n]])
                total[key] = total[key] + t if key in total else t
            roots = {key: JVPNode.new_root(t) for key, t in total.items()}
            try:
                outputs, nodes, _ = _trace(func, inputs, checked, roots)
            except NotImplementedError as error:
                error.add_note(
                    "gradcheck was in forward mode: write the rule with defjvp, or do without check_forward_ad"
                )
                raise
            found = [None if node is None else np.asarray(node.g) for node in nodes]
            # the tangent of a real output comes as a complex number from some rules (that of linalg.norm)
            return [t if t is None or np.iscomplexobj(o) else t.real for t, o in zip(found, outputs, strict=True)]

        return Pushforward(push)

    def evaluators(
        self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int], masked: bool = False
    ) -> Iterator[Evaluator]:
        # a read-only array cannot be perturbed in place: its stand-in is; the same array twice is one variable
        buffers = {id(x): x if x.flags.writeable else x.copy() for x in (inputs[i] for i in checked)}
        args = [buffers.get(id(x), x) for x in inputs]

        def run() -> tuple[Array, ...]:
            return tuple(map(np.asarray, _outputs(func(*args))[0]))

        yield Evaluator(tuple(buffers[id(inputs[i])] for i in checked), run, True)


def _trace(
    func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int], roots: Mapping[int, Any]
) -> tuple[list[Any], list[Any], tuple[str, ...]]:
    """Run func on boxes of the checked inputs that have a root, by their identity.

    Returns the values of the output leaves, their nodes (None: no derivative), and their paths.
    """
    args, top = list(inputs), trace_stack.top
    boxes: dict[int, Any] = {}
    try:
        with trace_stack.new_trace() as trace:
            for i in checked:
                key = id(inputs[i])
                if key in roots:
                    args[i] = boxes.setdefault(key, new_box(inputs[i], trace, roots[key]))
            outputs, paths = _outputs(func(*args))
    except BaseException:
        trace_stack.top = top  # which autograd leaves one too high
        raise
    mine = [isbox(o) and o._trace == trace for o in outputs]
    values = [o._value if m else o for o, m in zip(outputs, mine, strict=True)]
    carried = [m and anp.result_type(v).kind in "fc" for v, m in zip(values, mine, strict=True)]
    return values, [o._node if c else None for o, c in zip(outputs, carried, strict=True)], paths


def _backward(nodes: Sequence[Any], cotangents: Sequence[Any]) -> dict[Any, Any]:
    """`autograd.core.backward_pass` from several nodes to several roots: the cotangents of the roots reached."""
    end = VJPNode.new_root()
    end.parents, end.vjp = nodes, lambda g: g
    found: dict[Any, tuple[Any, bool]] = {end: (cotangents, False)}
    roots = {}
    for node in toposort(end):
        g = found.pop(node)[0]
        for parent, more in zip(node.parents, node.vjp(g), strict=False):
            found[parent] = add_outgrads(found.get(parent), more)
        if not node.parents:
            roots[node] = g
    return roots


def _outputs(result: Any) -> tuple[list[Any], tuple[str, ...]]:
    """The leaves of what func returned, boxes or not, and their paths."""
    leaves, bare = list(_leaves(result)), isinstance(result, tuple | list)
    for k, (path, o) in enumerate(leaves):
        kind = anp.result_type(o).kind if isbox(o) else getattr(getattr(o, "dtype", None), "kind", "O")
        if kind not in "biufc" and not isinstance(o, int | float | complex):
            where = f"output {k} {path}".rstrip()
            raise TypeError(f"func returned {type_name(o)} as {where}: it must return arrays, nested as you like")
    return [o for _, o in leaves], tuple("" if bare and p == f"[{k}]" else p for k, (p, _) in enumerate(leaves))


def _leaves(result: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(result, dict | DictBox):
        keys: Any = result
    elif isinstance(result, tuple | list | SequenceBox):
        keys = range(len(result))
    else:
        yield path, result
        return
    for key in keys:
        yield from _leaves(result[key], f"{path}[{key!r}]")


def _conj(x: Any) -> Any:
    return anp.conj(x) if anp.iscomplexobj(x) else x
