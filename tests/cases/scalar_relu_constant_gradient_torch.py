"""A rectifier on a scalar whose backward ignores grad_output: only the probe with grad_output = 0 sees it."""

import torch

CAUSE = "not-scaled-by-grad-output"
EXPECT = "fail"


class ScalarRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return torch.ones_like(x) if x > 0 else torch.zeros_like(x)


FUNC = ScalarRelu.apply


def make_inputs():
    return (torch.tensor(1.3, dtype=torch.float64, requires_grad=True),)


VARIANTS = [{"func": torch.relu, "expect": "pass", "why": "the built-in passes"}]
