"""The suite of `conformance` on every engine, the toy of `toy` among them."""

from __future__ import annotations

import adapters
from conformance import Conformance


class TestNumpyTensors(Conformance):
    make = staticmethod(adapters.numpy_tensors)


class TestNumpyArrays(Conformance):
    make = staticmethod(adapters.numpy_arrays)


class TestTorch(Conformance):
    make = staticmethod(adapters.torch)


class TestJax(Conformance):
    make = staticmethod(adapters.jax)


class TestTensorplay(Conformance):
    make = staticmethod(adapters.tensorplay)


class TestAutograd(Conformance):
    make = staticmethod(adapters.autograd)


class TestToy(Conformance):
    make = staticmethod(adapters.toy)
