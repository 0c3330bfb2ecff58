"""Phase of a complex number; gradient with the imaginary direction reversed."""

import torch

CAUSE = "complex-convention"
EXPECT = "fail"


class Phase(torch.autograd.Function):
    @staticmethod
    def forward(ctx, z):
        ctx.save_for_backward(z)
        return torch.atan2(z.imag, z.real)

    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        r2 = z.real**2 + z.imag**2
        return torch.complex(-g * z.imag / r2, -g * z.real / r2)


FUNC = Phase.apply


def make_inputs():
    g = torch.Generator().manual_seed(79)
    return (torch.randn(3, generator=g, dtype=torch.complex128).requires_grad_(),)


class PhaseRight(Phase):
    @staticmethod
    def backward(ctx, g):
        (z,) = ctx.saved_tensors
        r2 = z.real**2 + z.imag**2
        return torch.complex(-g * z.imag / r2, g * z.real / r2)


VARIANTS = [{"func": PhaseRight.apply, "expect": "pass", "why": "with the sign turned it passes"}]
