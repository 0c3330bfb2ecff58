"""The README tells the truth: its code runs, its table of functions is the engine's, its commands are two."""

from __future__ import annotations

import operator
import re
from pathlib import Path

import jax
import numpy as np
import pytest

from gradcheck_widget.tensor.core import CONSTANT, HANDLERS, RULES

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, re.S)


@pytest.fixture
def jax_settings_restored():
    before = jax.config.jax_enable_x64
    yield
    jax.config.update("jax_enable_x64", before)


def test_every_python_block_runs_and_every_promised_true_is_true(jax_settings_restored):
    namespace: dict[str, object] = {}
    ran = 0
    for block in blocks("python"):
        if "->" in block and "*," in block:  # the signature
            continue
        *body, last = block.rstrip().splitlines()
        if last.endswith("True"):
            exec("\n".join(body), namespace)
            assert eval(last, namespace) is True, last
        else:
            exec(block, namespace)
        ran += 1
    assert ran >= 6


def test_there_are_exactly_two_commands_and_ci_runs_the_second():
    commands = [c.strip() for c in blocks("sh")]
    assert len(commands) == 2
    assert commands[1] == "bash tests/run.sh"
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("exec bash tests/run.sh")


def public_name(func):
    name = func.__name__
    if getattr(np, name, None) is func:
        return f"np.{name}"
    for module in ("linalg", "lib.stride_tricks"):
        if getattr(operator.attrgetter(module)(np), name, None) is func:
            return f"np.{module}.{name}"
    return None


def test_table_of_functions_is_what_the_engine_supports():
    """A function that is missing from the table is not found; one too many is a promise that does not hold."""
    table = README.split("## Supported NumPy functions")[1].split("\n## ")[0]
    listed = set(re.findall(r"`(np\.[a-z_.A-Z0-9]+)`", table.split("Anything else")[0])) - {
        "np.asarray",
        "np.abs",
        "np.conj",
    }
    supported = {public_name(f) for f in (*RULES, *HANDLERS, *CONSTANT)} - {None}
    assert listed == supported


@pytest.mark.parametrize("target", re.findall(r"\]\(((?!http)[^)#]+)\)", README))
def test_links_lead_somewhere(target):
    assert (ROOT / target).exists()
