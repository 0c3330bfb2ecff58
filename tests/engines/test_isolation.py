"""A framework that the user's inputs did not bring along is never imported, and none of them is needed."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

HEAD = """
import sys
import numpy as np

class Missing:  # as if they were not installed
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in MISSING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from gradcheck_widget import GradcheckWidget, gradcheck, gradgradcheck
"""
USE = {
    "torch": """
import torch
x = torch.ones(3, dtype=torch.float64, requires_grad=True)
assert gradcheck(torch.tanh, x) and gradgradcheck(torch.tanh, x)
""",
    "jax": """
import jax
jax.config.update("jax_enable_x64", True)
assert gradcheck(lambda p: jax.numpy.tanh(p["w"]), {"w": jax.numpy.ones(3)})
""",
    "tensorplay": """
import tensorplay
x = tensorplay.from_numpy(np.ones(3)).requires_grad_()
assert gradcheck(tensorplay.tanh, x) and gradgradcheck(lambda x: x * x, x)
""",
    "autograd": """
import autograd.numpy as anp
assert gradcheck(anp.tanh, np.ones(3), engine="autograd")
""",
}
NUMPY = """
assert gradcheck(lambda p, n: np.tanh(p["w"]) * n, ({"w": np.ones(3)}, 2.0))
assert gradgradcheck(np.tanh, np.ones(3))
widget = GradcheckWidget(np.tanh, np.ones(3))
widget.wait(60)
assert widget.passed
"""
NAMED = """
for name in MISSING:
    try:
        gradcheck(np.tanh, np.ones(3), engine=name)
    except ImportError as error:
        assert f"pip install {name}" in str(error), error
    else:
        raise SystemExit(f"{name} is there")
"""
# with none of them, with each alone, and with each missing alone
SUBSETS = [(), *itertools.combinations(USE, 1), *itertools.combinations(USE, 3)]


def run(code, missing=()):
    code = (HEAD + code).replace("MISSING", repr(tuple(missing)))
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def loaded_by(code):
    """Which frameworks, and which of our engines, are there after the code and were not before."""
    return run(f"""
before = set(sys.modules)
{code}
names = {tuple(USE)!r}
news = [m for m in sorted(set(sys.modules) - before) if m in names or m.startswith("gradcheck_widget.engines.")]
print(*(m.removeprefix("gradcheck_widget.") for m in news))
""").split()


@pytest.mark.parametrize("installed", SUBSETS, ids=lambda names: "+".join(names) or "none")
def test_any_of_the_frameworks_may_be_missing(installed):
    missing = [name for name in USE if name not in installed]
    run(NUMPY + "".join(USE[name] for name in installed) + NAMED, missing)


def test_the_import_of_the_package_imports_no_framework_and_no_engine():
    code = f"print([m for m in {tuple(USE)!r} if m in sys.modules or 'gradcheck_widget.engines.' + m in sys.modules])"
    assert run(code) == "[]"


def test_checking_arrays_imports_no_framework_though_all_are_installed():
    assert loaded_by(NUMPY) == ["engines.numpy"]


@pytest.mark.parametrize("name", USE)
def test_checking_one_framework_imports_no_other_though_all_are_installed(name):
    assert loaded_by(USE[name]) == [f"engines.{name}", name] if name > "engines" else [name, f"engines.{name}"]


def test_arrays_are_not_handed_to_a_framework_that_happens_to_be_loaded():
    assert "engines.torch" not in loaded_by("import torch, jax" + NUMPY)
