"""Mistakes that people made: each file of cases/ is a function with the verdict that a user must get.

FUNC is a NumPy pair ``(forward(*inputs) -> out, backward(grad_out, *inputs) -> gradients)`` or a function of torch
tensors. CAUSE names the mistake; WRT, where set, the inputs of a pair that are checked; REFUSED, where set, the
exception that refuses the inputs, or that the function itself raises. Each of VARIANTS changes FUNC, the inputs or the
settings, and has a verdict of its own.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from gradcheck_widget import GradcheckError, Tensor, from_backward, gradcheck

PATHS = sorted(Path(__file__).with_name("cases").glob("*.py"))


def load(path: Path) -> ModuleType:
    """A new module each time, since some cases keep state."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def verdict(case: ModuleType, func: Any = None, inputs: Any = None, check: Any = None, **words: str) -> str:
    func = func or case.FUNC
    values = (inputs or case.make_inputs)()
    if isinstance(func, tuple):
        forward, backward = func
        wrt = getattr(case, "WRT", range(len(values)))
        func = from_backward(lambda *xs: (forward(*xs), xs), lambda g, xs: backward(g, *xs))
        values = [x if i in wrt else Tensor(x) for i, x in enumerate(values)]
    try:
        gradcheck(func, values, **(check or {}))
    except (GradcheckError, getattr(case, "REFUSED", GradcheckError)):
        return "fail"
    return "pass"


def trials() -> list[Any]:
    made = []
    for path in PATHS:
        case = load(path)
        made.append(pytest.param(path, None, case.EXPECT, id=f"{path.stem}-{case.CAUSE}"))
        for k, variant in enumerate(getattr(case, "VARIANTS", [])):
            made.append(pytest.param(path, k, variant["expect"], id=f"{path.stem}-{variant['why']}"))
    return made


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::RuntimeWarning")
@pytest.mark.parametrize(("path", "variant", "expected"), trials())
def test_a_mistake_gets_the_verdict_it_must_get(path, variant, expected):
    case = load(path)
    assert verdict(case, **({} if variant is None else case.VARIANTS[variant])) == expected


def test_the_cases_hold_both_verdicts():
    assert {load(path).EXPECT for path in PATHS} == {"pass", "fail"}
    assert len(PATHS) == 50
