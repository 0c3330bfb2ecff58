"""Weight divided by its own norm, the norm taken outside of the graph."""

import torch

CAUSE = "detached"
EXPECT = "fail"


def FUNC(w):
    return w / w.detach().norm()


def make_inputs():
    g = torch.Generator().manual_seed(32)
    return (torch.randn(4, generator=g, dtype=torch.float64).requires_grad_(),)


VARIANTS = [{"func": lambda w: w / w.norm(), "expect": "pass", "why": "inside the graph it passes"}]
