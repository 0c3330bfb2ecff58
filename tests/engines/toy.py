"""A framework of 50 lines and the engine that teaches it to the checker: all that `Engine` asks for, and no more."""

from __future__ import annotations

import numpy as np

from gradcheck_widget.engines import Engine, Evaluator, Linearization


class Toy:
    """An array that remembers what it was computed from: pairs of a parent and its vector-Jacobian product."""

    def __init__(self, values, parents=()):
        self.values = np.asarray(values)
        self.parents = parents

    def __mul__(self, other):
        if not isinstance(other, Toy):
            return self.apply(self.values * other, lambda g: g * np.conj(other))
        a, b = self.values, other.values
        return Toy(a * b, [(self, lambda g: g * np.conj(b)), (other, lambda g: g * np.conj(a))])

    __rmul__ = __mul__

    def sum(self):
        return self.apply(self.values.sum(), lambda g: np.broadcast_to(g, self.values.shape))

    def apply(self, values, vjp):
        """Another tensor with `values`, whose cotangent ``vjp`` brings back: the way to write a derivative."""
        return Toy(values, [(self, vjp)])


def history(outputs):
    """All tensors that `outputs` were computed from, each after its parents, themselves included."""
    seen = {}

    def visit(x):
        if id(x) not in seen:
            for parent, _ in x.parents:
                visit(parent)
            seen[id(x)] = x

    for o in outputs:
        visit(o)
    return list(seen.values())


def cotangents(outputs, given):
    """By the identity of the tensor: what `given` for `outputs` brings back to all that they were computed from."""
    found = {}

    def add(x, g):
        g = g if np.iscomplexobj(x.values) else np.real(g)
        found[id(x)] = found[id(x)] + g if id(x) in found else g

    for o, g in zip(outputs, given, strict=True):
        add(o, g)
    for x in reversed(history(outputs)):
        for parent, vjp in x.parents if id(x) in found else ():
            add(parent, vjp(found[id(x)]))
    return found


class ToyEngine(Engine):
    name = "toy"

    def is_tensor(self, x):
        return isinstance(x, Toy)

    def requires_grad(self, x):
        return x.values.dtype.kind in "fc"

    def array(self, x):
        return x.values

    def tensor(self, values, like=None):
        return Toy(values)

    def linearize(self, func, inputs, checked):
        outputs = results(func(*inputs))

        def pullback(given):  # None is an undefined cotangent: it counts as zeros
            known = {k: np.zeros_like(outputs[k].values) if g is None else g for k, g in given.items()}
            found = cotangents([outputs[k] for k in known], list(known.values()))
            return [found.get(id(inputs[i])) for i in checked]

        carried = [any(x is inputs[i] for x in history([o]) for i in checked) for o in outputs]
        return Linearization(tuple(o.values for o in outputs), tuple(carried), pullback)

    def evaluators(self, func, inputs, checked, masked=False):
        def run():
            return tuple(o.values for o in results(func(*inputs)))

        yield Evaluator(tuple(inputs[i].values for i in checked), run, plain=True)


def results(result):
    outputs = result if isinstance(result, tuple) else (result,)
    for k, o in enumerate(outputs):
        if not isinstance(o, Toy):
            raise TypeError(f"func returned {type(o).__name__} as output {k}: it must return a Toy or a tuple of them")
    return outputs
