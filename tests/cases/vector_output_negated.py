"""c + r*sin(phi + a) for a vector of angles, derivative with the wrong sign."""

import numpy as np

CAUSE = "sign-flip"
EXPECT = "fail"

R, C, PHI = 1.0, 1.0, np.pi / 12


def forward(a):
    return C + R * np.sin(PHI + a)


def backward(grad_out, a):
    return (grad_out * -R * np.cos(PHI + a),)


FUNC = (forward, backward)


def make_inputs():
    return (np.linspace(0.0, 2.5, 6),)


VARIANTS = [{"func": (forward, lambda g, a: (g * R * np.cos(PHI + a),)), "expect": "pass", "why": "right sign passes"}]
