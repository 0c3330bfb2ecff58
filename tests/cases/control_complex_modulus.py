"""|z|^2 of complex inputs with the engine's own gradient."""

import torch

CAUSE = "none"
EXPECT = "pass"


def FUNC(z):
    return (z * z.conj()).real + 0.5 * z.imag


def make_inputs():
    g = torch.Generator().manual_seed(93)
    return (torch.randn(3, generator=g, dtype=torch.complex128).requires_grad_(),)
