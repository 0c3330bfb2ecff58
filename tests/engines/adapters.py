"""Each engine as `conformance` knows it: how to make its tensors, a few operations, derivatives written by hand."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from conformance import Adapter
from toy import Toy, ToyEngine

import gradcheck_widget


def _numpy(tensor):
    def custom(forward, vjp, jvp=None):
        class Custom(gradcheck_widget.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return forward(x)

            @staticmethod
            def backward(ctx, g):
                return vjp(*ctx.saved_tensors, g)

        return Custom.apply

    return Adapter(
        engine=None, name="numpy", tensor=tensor, constant=np.array,
        values=lambda x: x.data if isinstance(x, gradcheck_widget.Tensor) else x,
        tanh=np.tanh, exp=np.exp, absolute=np.abs, conj=np.conj, real=np.real, angle=np.angle, total=np.sum,
        detach=lambda x: x.detach() if isinstance(x, gradcheck_widget.Tensor) else x, custom=custom,
    )  # fmt: skip


def numpy_tensors():
    return _numpy(lambda v: gradcheck_widget.Tensor(np.array(v), requires_grad=True))


def numpy_arrays():
    return _numpy(np.array)


def torch():
    torch = pytest.importorskip("torch")

    def custom(forward, vjp, jvp=None):
        class Custom(torch.autograd.Function):
            generate_vmap_rule = True

            @staticmethod
            def forward(x):
                return forward(x)

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)
                ctx.save_for_forward(*inputs)

            @staticmethod
            def backward(ctx, g):
                return vjp(*ctx.saved_tensors, g)

            @staticmethod
            def jvp(ctx, t):
                return jvp(*ctx.saved_tensors, t)

        return Custom.apply

    return Adapter(
        engine=None, name="torch", tensor=lambda v: torch.tensor(v, requires_grad=True), constant=torch.tensor,
        values=lambda x: x.detach().resolve_conj().numpy(),
        tanh=torch.tanh, exp=torch.exp, absolute=torch.abs, conj=torch.conj, real=torch.real, angle=torch.angle,
        total=torch.sum, detach=lambda x: x.detach(), custom=custom,
    )  # fmt: skip


def jax():
    jax = pytest.importorskip("jax")
    jnp = jax.numpy

    @contextlib.contextmanager
    def double_precision():
        before = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", True)
        try:
            yield
        finally:
            jax.config.update("jax_enable_x64", before)

    def custom(forward, vjp, jvp=None):
        if jvp is not None:
            func = jax.custom_jvp(forward)
            func.defjvp(lambda x, t: (forward(*x), jvp(*x, *t)))
        else:  # a cotangent of jax is the conjugate of PyTorch's, in whose convention `vjp` is written
            func = jax.custom_vjp(forward)
            func.defvjp(lambda x: (forward(x), x), lambda x, g: (jnp.conj(vjp(x, jnp.conj(g))),))
        return lambda x: func(x)

    return Adapter(
        engine=None, name="jax", tensor=jnp.asarray, constant=jnp.asarray, values=np.asarray,
        tanh=jnp.tanh, exp=jnp.exp, absolute=jnp.abs, conj=jnp.conj, real=jnp.real, angle=jnp.angle, total=jnp.sum,
        detach=jax.lax.stop_gradient, custom=custom, tells_detached=False, memory=False, surroundings=double_precision,
    )  # fmt: skip


def tensorplay():
    tensorplay = pytest.importorskip("tensorplay")

    def custom(forward, vjp, jvp=None):
        class Custom(tensorplay.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return forward(x)

            @staticmethod
            def backward(ctx, g):
                return vjp(*ctx.saved_tensors, g)

        return Custom.apply

    def constant(values):
        return tensorplay.from_numpy(np.array(values))

    return Adapter(
        engine=None, name="tensorplay", tensor=lambda v: constant(v).requires_grad_(), constant=constant,
        values=lambda x: x.detach().numpy(),
        tanh=tensorplay.tanh, exp=tensorplay.exp, absolute=tensorplay.abs, conj=lambda z: z.conj(),
        real=lambda z: tensorplay.view_as_real(z)[..., 0],  # the derivative of tensorplay.real 1.0.0 is wrong
        angle=tensorplay.angle, total=tensorplay.sum, detach=lambda x: x.detach(), custom=custom,
        views={"a slice": lambda x: x[:, 1:], "a row": lambda x: x[1], "all in a row": lambda x: x.reshape(-1)},
    )  # fmt: skip


def autograd():
    anp = pytest.importorskip("autograd.numpy")
    from autograd.extend import defjvp, defvjp, primitive
    from autograd.tracer import getval

    def custom(forward, vjp, jvp=None):
        # a cotangent of autograd is the conjugate of PyTorch's, in whose convention `vjp` is written
        func = primitive(forward)
        defvjp(func, lambda ans, x: lambda g: anp.conj(vjp(x, anp.conj(g))))
        if jvp is not None:
            defjvp(func, lambda t, ans, x: jvp(x, t))
        return func

    return Adapter(
        engine="autograd", name="autograd", tensor=np.array, constant=np.array, values=np.asarray,
        tanh=anp.tanh, exp=anp.exp, absolute=anp.abs, conj=anp.conj, real=anp.real, angle=anp.angle, total=anp.sum,
        detach=getval, custom=custom,
    )  # fmt: skip


def toy():
    def custom(forward, vjp, jvp=None):
        return lambda x: x.apply(forward(Toy(x.values)).values, lambda g: vjp(Toy(x.values), Toy(g)).values)

    def real_valued(func, slope):  # its slope as PyTorch has it: d/da + 1j * d/db
        return lambda x: x.apply(func(x.values), lambda g: g * slope(x.values))

    def holomorphic(func, slope):
        return real_valued(func, lambda v: np.conj(slope(v)))

    return Adapter(
        engine=ToyEngine(), name="toy", tensor=lambda v: Toy(np.array(v)), constant=lambda v: Toy(np.array(v)),
        values=lambda x: x.values,
        tanh=holomorphic(np.tanh, lambda v: 1 - np.tanh(v) ** 2), exp=holomorphic(np.exp, np.exp),
        absolute=real_valued(np.abs, np.sign), angle=real_valued(np.angle, lambda v: 1j * v / abs(v) ** 2),
        real=real_valued(lambda v: v.real.copy(), lambda v: 1.0), conj=lambda z: z.apply(np.conj(z.values), np.conj),
        total=Toy.sum, detach=lambda x: Toy(x.values), custom=custom, views={}, second=False,
    )  # fmt: skip


ENGINES = {
    "numpy tensors": numpy_tensors,
    "numpy arrays": numpy_arrays,
    "torch": torch,
    "jax": jax,
    "tensorplay": tensorplay,
    "autograd": autograd,
    "toy": toy,
}
