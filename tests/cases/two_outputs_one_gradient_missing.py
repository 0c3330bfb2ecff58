"""Function with two outputs; only one of them is used downstream."""

import torch

CAUSE = "undefined-grad"
EXPECT = "fail"
REFUSED = TypeError


class SinAndSquare(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x.sin(), x * x

    @staticmethod
    def backward(ctx, g1, g2):
        (x,) = ctx.saved_tensors
        return g1 * x.cos() + g2 * (2 * x)


FUNC = SinAndSquare.apply


def make_inputs():
    g = torch.Generator().manual_seed(81)
    return (torch.randn(3, generator=g, dtype=torch.float64).requires_grad_(),)


class Handles(SinAndSquare):
    @staticmethod
    def backward(ctx, g1, g2):
        (x,) = ctx.saved_tensors
        out = None
        for g, d in ((g1, x.cos()), (g2, 2 * x)):
            if g is not None:
                out = g * d if out is None else out + g * d
        return out


VARIANTS = [{"func": Handles.apply, "expect": "pass", "why": "treating None as zero passes"}]
