"""Forward goes through NumPy, so the output does not require grad at all."""

import torch

CAUSE = "detached"
EXPECT = "fail"


def FUNC(x):
    return torch.from_numpy(x.detach().numpy() * 2.0)


def make_inputs():
    g = torch.Generator().manual_seed(34)
    return (torch.randn(3, generator=g, dtype=torch.float64).requires_grad_(),)


VARIANTS = [{"func": lambda x: x * 2.0, "expect": "pass", "why": "inside the graph it passes"}]
