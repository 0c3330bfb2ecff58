"""Our slow check beside torch's own, in one process and one thread: python tests/benchmarks/torch_check.py.

Prints medians and their ratio (ours / torch, below 1 means quicker); the verdicts must be equal.
"""

from __future__ import annotations

import statistics
import time

import torch

from gradcheck_widget import gradcheck

REPEATS = 5


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


def leaf(*shape):
    return torch.rand(shape, dtype=torch.float64, requires_grad=True)


def cases():
    for n in (10, 100, 1000):
        yield f"tanh n={n}", torch.tanh, (leaf(n),)
    yield "matmul 8 x 8", torch.matmul, (leaf(8, 8), leaf(8, 8))
    data = torch.rand(32, 10, dtype=torch.float64)
    yield (
        "network, 500 parameters, scalar loss",
        lambda a, b, c: ((torch.tanh(data @ a + b) @ c) ** 2).mean(),
        (leaf(10, 40), leaf(40), leaf(40, 2)),
    )
    yield "layer norm 8 x 12", lambda x, w, b: torch.layer_norm(x, (12,), w, b), (leaf(8, 12), leaf(12), leaf(12))
    yield "custom Function n=100", Cube.apply, (leaf(100),)
    yield "sum of sines n=1000", lambda x: x.sin().sum(), (leaf(1000),)


def seconds(check, func, inputs):
    begin = time.perf_counter()
    assert check(func, inputs)
    return time.perf_counter() - begin


def main():
    torch.set_num_threads(1)
    torch.manual_seed(0)
    ratios = []
    print(f"torch {torch.__version__}; medians of {REPEATS}, one thread\n")
    print(f"{'case':40} {'torch ms':>10} {'ours ms':>10} {'ratio':>7}")
    for name, func, inputs in cases():
        times = [
            (seconds(torch.autograd.gradcheck, func, inputs), seconds(gradcheck, func, inputs)) for _ in range(REPEATS)
        ]
        theirs, ours = (statistics.median(t[k] for t in times) for k in (0, 1))
        ratios.append(ours / theirs)
        print(f"{name:40} {theirs * 1e3:10.1f} {ours * 1e3:10.1f} {ours / theirs:7.2f}")
    print(f"\nmedian ratio {statistics.median(ratios):.2f}, largest {max(ratios):.2f}")


if __name__ == "__main__":
    main()
