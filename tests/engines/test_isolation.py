"""A framework that the user's inputs did not bring along is never imported, and none of them is needed."""

from __future__ import annotations

import subprocess
import sys

import pytest

FRAMEWORKS = ("torch", "jax", "tensorplay", "autograd")
HEAD = """
import sys, warnings
import numpy as np

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in BLOCKED:
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Blocked())
from gradcheck_widget import gradcheck, GradcheckWidget
"""
USE = {
    "numpy": "assert gradcheck(np.tanh, np.ones(3))\nassert GradcheckWidget(np.tanh, np.ones(3)).passed",
    "torch": "import torch\nassert gradcheck(torch.tanh, torch.ones(3, dtype=torch.float64, requires_grad=True))",
    "jax": "import jax\njax.config.update('jax_enable_x64', True)\nassert gradcheck(jax.numpy.tanh, jax.numpy.ones(3))",
    "tensorplay": "import tensorplay as tp\n"
    "assert gradcheck(lambda x: x.tanh(), tp.tensor([0.5, 1.0], dtype=tp.float64, requires_grad=True))",
    "autograd": "import autograd.numpy as anp\nassert gradcheck(anp.tanh, np.ones(3), engine='autograd')",
}


def run(code, blocked=()):
    done = subprocess.run(
        [sys.executable, "-c", HEAD.replace("BLOCKED", repr(tuple(blocked))) + code], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", USE)
def test_the_package_works_with_one_framework_and_none_of_the_others(name):
    run(USE[name], [f for f in FRAMEWORKS if f != name])


@pytest.mark.parametrize("name", USE)
def test_checking_imports_no_other_framework_though_all_are_installed(name):
    others = [f for f in FRAMEWORKS if f != name]
    before = "before = set(sys.modules)\n" if name == "numpy" else f"import {name}\nbefore = set(sys.modules)\n"
    after = f"\nfound = set({others!r}) & (set(sys.modules) - before)\nassert not found, found"
    run(before + USE[name] + after)


def test_inputs_of_numpy_are_not_looked_at_with_a_framework_that_happens_to_be_loaded():
    checked = "import torch\nassert gradcheck(np.tanh, np.ones(3))\n"
    run(checked + "assert 'gradcheck_widget.engines.torch' not in sys.modules")
