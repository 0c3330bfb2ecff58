"""The suite of `conformance` on every engine, the toy of `toy` among them."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

pytest.register_assert_rewrite("conformance")

from conformance import Adapter, Conformance  # noqa: E402
from toy import Toy, ToyEngine  # noqa: E402

import gradcheck_widget  # noqa: E402


def numpy_adapter(tensors=True):
    def custom(forward, vjp):
        class Custom(gradcheck_widget.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return forward(x)

            @staticmethod
            def backward(ctx, g):
                return vjp(*ctx.saved_tensors, g)

        return Custom.apply

    def tensor(values):
        values = np.array(values)
        return gradcheck_widget.Tensor(values, requires_grad=True) if tensors else values

    return Adapter(
        engine=None, name="numpy", tensor=tensor, constant=np.array,
        values=lambda x: x.data if isinstance(x, gradcheck_widget.Tensor) else x,
        tanh=np.tanh, exp=np.exp, absolute=np.abs, conj=np.conj, real=np.real, total=np.sum, custom=custom,
    )  # fmt: skip


def torch_adapter():
    torch = pytest.importorskip("torch")

    def custom(forward, vjp):
        class Custom(torch.autograd.Function):
            generate_vmap_rule = True

            @staticmethod
            def forward(x):
                return forward(x)

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

            @staticmethod
            def backward(ctx, g):
                return vjp(*ctx.saved_tensors, g)

        return Custom.apply

    return Adapter(
        engine=None, name="torch", tensor=lambda v: torch.tensor(v, requires_grad=True), constant=torch.tensor,
        values=lambda x: x.detach().resolve_conj().numpy(),
        tanh=torch.tanh, exp=torch.exp, absolute=torch.abs, conj=torch.conj, real=torch.real, total=torch.sum,
        custom=custom,
    )  # fmt: skip


def jax_adapter():
    jax = pytest.importorskip("jax")

    @contextlib.contextmanager
    def double_precision():
        before = jax.config.jax_enable_x64
        jax.config.update("jax_enable_x64", True)
        try:
            yield
        finally:
            jax.config.update("jax_enable_x64", before)

    def custom(forward, vjp):
        # a cotangent of jax is the conjugate of PyTorch's, in whose convention `vjp` is written
        func = jax.custom_vjp(forward)
        func.defvjp(lambda x: (forward(x), x), lambda x, g: (jax.numpy.conj(vjp(x, jax.numpy.conj(g))),))
        return lambda x: func(x)

    return Adapter(
        engine=None, name="jax", tensor=jax.numpy.asarray, constant=jax.numpy.asarray, values=np.asarray,
        tanh=jax.numpy.tanh, exp=jax.numpy.exp, absolute=jax.numpy.abs, conj=jax.numpy.conj, real=jax.numpy.real,
        total=jax.numpy.sum, custom=custom, memory=False, surroundings=double_precision,
    )  # fmt: skip


def tensorplay_adapter():
    tensorplay = pytest.importorskip("tensorplay")

    def custom(forward, vjp):
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
        total=tensorplay.sum, custom=custom,
        views={"a slice": lambda x: x[:, 1:], "a row": lambda x: x[1], "all in a row": lambda x: x.reshape(-1)},
    )  # fmt: skip


def autograd_adapter():
    anp = pytest.importorskip("autograd.numpy")
    from autograd.extend import defvjp, primitive

    def custom(forward, vjp):
        # a cotangent of autograd is the conjugate of PyTorch's, in whose convention `vjp` is written
        func = primitive(forward)
        defvjp(func, lambda ans, x: lambda g: anp.conj(vjp(x, anp.conj(g))))
        return func

    return Adapter(
        engine="autograd", name="autograd", tensor=np.array, constant=np.array, values=np.asarray,
        tanh=anp.tanh, exp=anp.exp, absolute=anp.abs, conj=anp.conj, real=anp.real, total=anp.sum, custom=custom,
    )  # fmt: skip


def toy_adapter():
    def custom(forward, vjp):
        return lambda x: x.apply(forward(Toy(x.values)).values, lambda g: vjp(Toy(x.values), Toy(g)).values)

    def of_values(func, slope):
        return lambda x: x.apply(func(x.values), lambda g: g * np.conj(slope(x.values)))

    return Adapter(
        engine=ToyEngine(), name="toy", tensor=lambda v: Toy(np.array(v)), constant=lambda v: Toy(np.array(v)),
        values=lambda x: x.values,
        tanh=of_values(np.tanh, lambda v: 1 - np.tanh(v) ** 2), exp=of_values(np.exp, np.exp),
        absolute=of_values(np.abs, np.sign), conj=lambda z: z.apply(np.conj(z.values), np.conj),
        real=lambda z: z.apply(z.values.real.copy(), lambda g: g + 0j), total=lambda x: x.sum(), custom=custom,
        views={}, second=False,
    )  # fmt: skip


class TestNumpyTensors(Conformance):
    make = staticmethod(numpy_adapter)


class TestNumpyArrays(Conformance):
    make = staticmethod(lambda: numpy_adapter(tensors=False))


class TestTorch(Conformance):
    make = staticmethod(torch_adapter)


class TestJax(Conformance):
    make = staticmethod(jax_adapter)


class TestTensorplay(Conformance):
    make = staticmethod(tensorplay_adapter)


class TestAutograd(Conformance):
    make = staticmethod(autograd_adapter)


class TestToy(Conformance):
    make = staticmethod(toy_adapter)
