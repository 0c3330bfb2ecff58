"""JAX: arrays of any pytree on any device, reverse, forward and batched mode.

A cotangent of JAX is the conjugate of PyTorch's (it pairs as ``sum(c * t)``, not as ``sum(conj(c) * t)``), so complex
cotangents and gradients are conjugated on their way through this file. Tangents are the same in both.

Nothing is compiled here. ``jit`` would freeze whatever func takes from outside of its arguments (a counter, random
numbers of NumPy), so that a derivative which fails could pass; and its outputs often differ in the last bits. A func
that is slow to run can be handed over as ``jax.jit(func)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np
from jax.tree_util import SequenceKey, keystr, tree_flatten_with_path, tree_unflatten

from .base import Array, Engine, Evaluator, Linearization, Pushforward, Snapshot, type_name

__all__ = ["JaxEngine"]

T = TypeVar("T", bound=Callable[..., Any])
_jax: Any = jax  # for names that its stubs lack
_enable_x64 = _jax.enable_x64 if hasattr(jax, "enable_x64") else _jax.experimental.enable_x64


class JaxEngine(Engine):
    name = "jax"
    supports = frozenset({"check_forward_ad", "check_batched_grad", "check_batched_forward_grad", "fast_mode"})

    def is_tensor(self, x: Any) -> bool:
        return isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer)

    def requires_grad(self, x: Any) -> bool:
        return _is_inexact(x)

    def array(self, x: Any) -> Array:
        return np.array(_host(x))  # a copy: two arrays may have one buffer, which nobody can write to

    def tensor(self, values: Array, like: Any = None) -> Any:
        return _in_double([values])(_placed)(values, values.dtype, like)

    def copy(self, x: Any) -> Any:
        return _in_double([x])(_copies)([x])[0]  # the caller may give the original away (donate_argnums)

    def snapshot(self, x: Any) -> Snapshot:
        return Snapshot(lambda: False)  # no bit of it can change

    def flatten(self, tree: Any) -> tuple[list[Any], list[str], Callable[[Sequence[Any]], Any]]:
        found, treedef = tree_flatten_with_path(tree)
        return [x for _, x in found], [keystr(p) for p, _ in found], lambda leaves: tree_unflatten(treedef, leaves)

    def precision_hint(self, x: Any) -> str:
        if _jax.config.jax_enable_x64:
            return ""
        return "jax has 64-bit types switched off: jax.config.update('jax_enable_x64', True) before the arrays are made"

    # -- reverse mode -------------------------------------------------------------------------------------
    def linearize(self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]) -> Linearization:
        in_double, paths = _in_double(inputs), []  # type: ignore[var-annotated]

        @in_double
        def recorded() -> Any:
            args = _copies(inputs)
            outputs, vjp = jax.vjp(_of_leaves(func, args, checked, paths), *(args[i] for i in checked))
            zeros = [jnp.zeros_like(o) if _is_inexact(o) else np.zeros(o.shape, jax.dtypes.float0) for o in outputs]
            return outputs, vjp, zeros

        outputs, vjp, zeros = recorded()

        def cotangent(k: int, g: Array) -> Any:
            return _placed(np.conj(g), outputs[k].dtype)

        @in_double
        def pullback(cotangents: Mapping[int, Array | None]) -> list[Array | None]:
            given = [cotangents.get(k) for k in range(len(outputs))]
            return [
                np.conj(_host(g))
                for g in vjp([zeros[k] if g is None else cotangent(k, g) for k, g in enumerate(given)])
            ]

        @in_double
        def batched(k: int, cotangents: Array) -> list[Array | None]:
            gradients = _vmapped(lambda g: vjp([*zeros[:k], g, *zeros[k + 1 :]]), cotangent(k, cotangents))
            return [np.conj(_host(g)) for g in gradients]

        return Linearization(
            tuple(map(_host, outputs)), tuple(map(_is_inexact, outputs)), pullback, batched, tuple(paths)
        )

    def gradient(self, func: Callable[..., Any], checked: Sequence[int], count: int) -> Callable[..., Any]:
        def vjp(*args: Any) -> tuple[Any, ...]:
            call = _of_leaves(func, args[:count], checked)
            outputs, pull = jax.vjp(
                lambda *leaves: [o for o in call(*leaves) if _is_inexact(o)], *(args[i] for i in checked)
            )
            given = [jnp.conj(g).astype(o.dtype) for g, o in zip(args[count:], outputs, strict=True)]
            return tuple(map(jnp.conj, pull(given)))

        return vjp

    # -- running without differentiating --------------------------------------------------------------------
    def evaluators(
        self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int], masked: bool = False
    ) -> Iterator[Evaluator]:
        args, buffers = list(inputs), {i: self.array(inputs[i]) for i in checked}
        tensors = [i for i, x in enumerate(inputs) if self.is_tensor(x)]
        held: dict[int, bytes | None] = {}  # what args are made of

        @_in_double(inputs)
        def run() -> tuple[Array, ...]:
            for i in tensors:
                now = buffers[i].tobytes() if i in buffers else None
                # deleted: given away by the last run (donate_argnums)
                if i not in held or held[i] != now or args[i].is_deleted():
                    held[i], x = now, inputs[i]
                    args[i] = _placed(buffers[i], x.dtype, x) if i in buffers else x.copy()
            return tuple(map(_host, _outputs(func(*args))))

        yield Evaluator(tuple(buffers.values()), run, True)

    # -- forward mode -------------------------------------------------------------------------------------
    def pushforward(self, func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int]) -> Pushforward:
        def tangents_at(tangents: Mapping[int, Any]) -> list[Any]:
            args = _copies(inputs)
            leaves = [args[i] for i in checked]
            try:
                _, found = jax.jvp(
                    _of_leaves(func, args, checked),
                    leaves,
                    [tangents[n] if n in tangents else jnp.zeros_like(x) for n, x in enumerate(leaves)],
                )
            except TypeError as error:
                if "custom_vjp" in str(error):
                    error.add_note(
                        "gradcheck was in forward mode, which a function with jax.custom_vjp does not have: leave "
                        "check_forward_ad out, or define the rule with jax.custom_jvp, which serves both modes"
                    )
                raise
            return list(found)

        def tangent(n: int, values: Array) -> Any:
            return _placed(values, inputs[checked[n]].dtype)

        @_in_double(inputs)
        def push(tangents: Mapping[int, Array]) -> list[Array | None]:
            found = tangents_at({n: tangent(n, t) for n, t in tangents.items()})
            return [None if t.dtype == jax.dtypes.float0 else _host(t) for t in found]

        @_in_double(inputs)
        def batched(n: int, tangents: Array) -> list[Array | None]:
            def one(t: Any) -> list[Any]:  # None, which is no leaf, where no tangent flows
                return [None if o.dtype == jax.dtypes.float0 else o for o in tangents_at({n: t})]

            return [None if t is None else _host(t) for t in _vmapped(one, tangent(n, tangents))]

        return Pushforward(push, batched)


def _of_leaves(
    func: Callable[..., Any], inputs: Sequence[Any], checked: Sequence[int], paths: list[str] | None = None
) -> Callable[..., list[Any]]:
    """func as a function of the checked inputs that returns its output leaves, whose paths it puts into `paths`."""

    def call(*leaves: Any) -> list[Any]:
        args = list(inputs)
        for i, leaf in zip(checked, leaves, strict=True):
            args[i] = leaf
        return _outputs(func(*args), paths)

    return call


def _outputs(result: Any, paths: list[str] | None = None) -> list[Any]:
    found, _ = tree_flatten_with_path(result)
    if not found:
        what = type(result).__name__ + (" without an array" if result is not None else "")
        raise TypeError(f"func returned {what} as its output: it must return an array or a pytree of them")
    for k, (path, o) in enumerate(found):
        if not (isinstance(o, jax.Array | int | float | complex) or _is_numeric(o)):
            where = f"output {k}" + (f" {keystr(path)}" if path else "")
            raise TypeError(f"func returned {type_name(o)} as {where}: it must return an array or a pytree of them")
    if paths is not None:
        flat = type(result) in (tuple, list)
        paths[:] = ["" if flat and len(p) == 1 and isinstance(p[0], SequenceKey) else keystr(p) for p, _ in found]
    return [o if isinstance(o, jax.Array) else jnp.asarray(o) for _, o in found]


def _is_numeric(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.generic) and x.dtype.kind in "biufcV"


def _is_inexact(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def _host(x: Any) -> Array:
    if jnp.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    values = np.asarray(x)
    if values.dtype.kind == "V":  # bfloat16, float8 or int4, which NumPy knows by name only
        return values.astype(np.float32 if _is_inexact(x) else np.int32)
    return values


def _copies(inputs: Sequence[Any]) -> list[Any]:
    """The caller's arrays are not handed to func: a jitted function that donates its arguments would delete them."""
    return [x.copy() if isinstance(x, jax.Array) else x for x in inputs]


def _placed(values: Array, dtype: Any, like: Any = None) -> Any:
    """A new array that holds a copy of `values`, on the devices of `like` and as weakly typed."""
    values = np.array(values, dtype)  # device_put may keep and show the memory it is given
    sharding = None
    if like is not None and like._committed:  # an array that is not goes where the others are
        sharding = like.sharding if like.shape == values.shape or len(like.devices()) == 1 else None
    x = jax.device_put(values, sharding)
    return like.at[...].set(x) if like is not None and like.shape == x.shape and like.weak_type else x


def _in_double(inputs: Sequence[Any]) -> Callable[[T], T]:
    """Let a function run with 64-bit types on if `inputs` have some: the switch may have been on where they were made
    and be off here, in another thread or outside of a `with` block."""
    wide = any(getattr(x, "dtype", None) in (np.float64, np.complex128) for x in inputs)

    def decorate(function: Any) -> Any:
        def call(*args: Any) -> Any:
            if not wide or _jax.config.jax_enable_x64:
                return function(*args)
            with _enable_x64(True):
                return function(*args)

        return call

    return decorate


def _vmapped(function: Callable[[Any], Any], stacked: Any) -> Any:
    try:
        return jax.vmap(function)(stacked)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise RuntimeError(f"jax.vmap cannot batch the derivative of func: {why}") from error
