"""What a stuck user reads: each refusal names the input or the output, and the rule, whatever the engine."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import partial

import adapters
import numpy as np
import pytest
from conformance import Counted, X, Y
from numpy.lib.stride_tricks import as_strided, sliding_window_view
from toy import Toy, ToyEngine

from gradcheck_widget import GradcheckError, GradcheckWidget, Tensor, gradcheck, gradcheck_report, gradgradcheck

pytestmark = pytest.mark.filterwarnings("ignore")
PYTREES = ("jax", "autograd")  # in which numbers are outputs too, and dicts hold outputs


@pytest.fixture(params=adapters.ENGINES)
def a(request):
    adapter = adapters.ENGINES[request.param]()
    with adapter.surroundings():
        yield adapter


@pytest.fixture
def many():
    """Tensors of several frameworks at once."""
    made = {name: adapters.ENGINES[name]() for name in ("numpy tensors", "torch", "jax", "tensorplay")}
    with made["jax"].surroundings():
        yield {name: adapter.tensor(X) for name, adapter in made.items()}


CHECKS = (gradcheck, partial(gradcheck, raise_exception=False), gradcheck_report, gradgradcheck)


def refused(error, words, func, inputs, calls=(*CHECKS, GradcheckWidget), **settings):
    """Every way in refuses it in these words, before anything is shown; gives the text."""
    for call in calls:
        with pytest.raises(error, match=words) as caught:
            call(func, inputs, **settings)
        assert not isinstance(caught.value, GradcheckError)  # wrong usage is no failed check
    return str(caught.value)


# -- inputs -----------------------------------------------------------------------------------------------------
PAIRS = [
    ("numpy tensors", "torch"), ("torch", "jax"), ("jax", "tensorplay"), ("tensorplay", "torch"),
    ("numpy tensors", "jax"), ("tensorplay", "numpy tensors"),
]  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS, ids="+".join)
def test_tensors_of_two_frameworks_are_refused_and_both_inputs_are_named(pair, many):
    x, y = (many[name] for name in pair)
    home = {"numpy tensors": "gradcheck_widget", "torch": "torch", "jax": "jaxlib", "tensorplay": "tensorplay"}
    first, second = (rf"{home[name]}\.\S+" for name in pair)
    refused(TypeError, rf"of one framework, but input 0 is {first} and input 1 is {second}", lambda x, y: x, (x, y))
    words = rf"input 1\['w'\]\[0\] is {first} and input 1\['b'\] is {second}"
    refused(TypeError, words, lambda n, p: n, ("name", {"w": [x], "b": y}))


def test_arrays_of_numpy_beside_the_tensors_of_a_framework_are_data_and_no_second_framework(many):
    report = gradcheck_report(lambda x, data: x * many["torch"].new_tensor(data), (many["torch"], Y))
    assert report.passed and [p.input_index for p in report.pairs] == [0]
    report = gradcheck_report(lambda x, data: x * data, (many["jax"], Y))
    assert report.passed and [p.input_index for p in report.pairs] == [0]


def test_inputs_without_anything_to_check_are_told_what_they_are_and_what_to_do(a):
    words = "gradcheck expects at least one input tensor to require gradient, but none of them does: "
    integers = a.constant(np.arange(3))
    inputs = (integers, {"n": integers, "k": 1})
    text = refused(ValueError, rf"{words}input 0 is \S+.*; input 1(\['n'\])? is", a.exp, inputs, engine=a.engine)
    what_to_do = {
        "numpy": "Pass a float64 or complex128 NumPy array",
        "torch": "convert what is to be checked to float64",
        "jax": "convert what is to be checked to float64",
        "tensorplay": "convert what is to be checked to float64",
        "autograd": "Pass a float64 or complex128 NumPy array",
        "toy": "convert what is to be checked to float64",
    }
    assert what_to_do[a.name] in text
    assert ("Tensor(x, requires_grad=True)" in text) == (a.name == "numpy")  # which helps nobody else


def test_tensors_that_do_not_require_grad_are_named_by_their_path():
    for name in ("torch", "tensorplay"):
        a = adapters.ENGINES[name]()
        inputs = ({"w": a.constant(X), "b": [a.constant(Y)]}, 2)
        words = r"input 0\['w'\] is .*(?i:float64) that does not require grad; input 0\['b'\]\[0\]"
        assert "Call requires_grad_()" in refused(ValueError, words, a.exp, inputs)
    text = refused(ValueError, "input 0 is Tensor of float64 that does not require grad", np.exp, Tensor(X))
    assert "Tensor(x, requires_grad=True)" in text


def test_no_inputs_and_numbers_instead_of_tensors_are_told_so():
    refused(ValueError, "there are no inputs", lambda: 1, ())
    refused(ValueError, "input 0 is float; input 1 is float", lambda x, y: x, [1.0, 2.0])
    many = refused(ValueError, "input 5 is int; ... and 94 more", lambda *x: x, list(range(100)))
    assert len(many) < 400


def test_tensors_of_an_unknown_library_are_told_to_name_an_engine():
    refused(ValueError, r"input 0 is toy\.Toy\..*engine=", lambda x: x, Toy(X))


def test_the_wrong_engine_by_name_is_not_answered_with_pass_an_array_when_it_was_one(many):
    for name in ("torch", "jax", "tensorplay"):
        text = refused(ValueError, f"input 0 is ndarray of float64.*takes tensors of {name}", np.exp, X, engine=name)
        assert "NumPy array" not in text
    for name in ("numpy", "autograd"):
        refused(ValueError, rf"input 0 is torch\.Tensor.*name another engine than {name}", np.exp, many["torch"],
                engine=name)  # fmt: skip


@pytest.mark.parametrize("engine", ["nope", "Torch", "", 3, [], {}, ToyEngine], ids=repr)
def test_an_engine_that_does_not_exist_lists_those_there_are(engine):
    words = f"engine must be one of numpy, torch, jax, tensorplay, autograd, or an Engine; got {engine!r}"
    text = refused(ValueError, re.escape(words), np.exp, X, engine=engine)
    assert ("pass an instance, ToyEngine()" in text) == (engine is ToyEngine)


def text_without(name, error):
    """What the import of the engine says if that of its framework raises the `error`."""
    code = f"""
import sys
class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == {name!r}:
            raise {error}
sys.meta_path.insert(0, Finder())
import numpy as np
from gradcheck_widget import gradcheck
try:
    gradcheck(np.sin, np.ones(3), engine={name!r})
except ImportError as error:
    print(error)
assert gradcheck(np.sin, np.ones(3))
"""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("name", ["torch", "jax", "tensorplay", "autograd"])
def test_an_engine_whose_framework_is_missing_says_what_to_install(name):
    text = text_without(name, f'ModuleNotFoundError("No module named {name!r}", name={name!r})')
    assert text == f"engine={name!r} needs the package {name}, which is not installed: pip install {name}"


def test_an_engine_whose_framework_is_broken_says_why_and_not_that_it_is_missing():
    text = text_without("torch", "ImportError('libtorch_cpu.so: cannot open shared object file')")
    assert "pip install" not in text
    assert text.endswith("torch, which cannot be imported: libtorch_cpu.so: cannot open shared object file")


@pytest.mark.parametrize("name", ["torch", "jax", "tensorplay", "autograd"])
def test_a_framework_whose_import_is_forbidden_is_not_missed(name, monkeypatch):
    """``sys.modules[name] = None`` is Python's way of saying so."""
    monkeypatch.setitem(sys.modules, name, None)
    assert gradcheck(lambda x, y: x["w"] * y, ({"w": X}, Y))


def test_func_and_inputs_the_wrong_way_round_is_seen(a):
    x = a.tensor(X)
    text = refused(TypeError, r"func must be callable, got .*: func comes first, then inputs", x, a.exp,
                   engine=a.engine)  # fmt: skip
    assert len(text) < 120  # not the whole tensor


# -- shared memory ----------------------------------------------------------------------------------------------
def sharing(a):
    """Tensors that have elements in the same memory."""
    if a.name == "jax":
        pytest.skip("arrays of jax have no strides")
    if a.name in ("torch", "tensorplay"):
        row = a.constant(np.arange(6.0))
        return [
            x.requires_grad_()
            for x in (a.constant(np.ones(1)).expand(3), row.unfold(0, 3, 1), row.as_strided((4, 2), (1, 1)))
        ]
    row = np.arange(6.0)
    arrays = (np.broadcast_to(np.ones(1), (3,)), sliding_window_view(row, 3), as_strided(row, (4, 2), (8, 8)))
    return [viewing(a, x) for x in arrays]


def viewing(a, x):
    """A tensor in the memory of the array `x`."""
    if a.name == "toy":
        return Toy(x)
    return Tensor(x, requires_grad=True) if isinstance(a.tensor(X), Tensor) else x


def test_elements_that_share_memory_are_refused_before_func_runs(a):
    ran = []
    for x in sharing(a):
        words = r"The 1th input has (a dimension with stride 0|elements that share memory) \(input 1 .*strides \(.*copy"
        refused(RuntimeError, words, lambda n, p: ran.append(1), ("name", {"w": x}), engine=a.engine)
        text = refused(RuntimeError, "non-overlapping", lambda n, p: ran.append(1), ("name", {"w": x}), engine=a.engine)
        assert "input 1 p['w']" in text
        assert a.check(lambda x: x * x, a.tensor(a.values(x)))  # a copy, as it says
    assert not ran


def test_two_inputs_that_share_memory_are_named_by_their_paths(a):
    if a.name == "jax":
        pytest.skip("nobody can write into the arrays of jax")
    if a.name in ("torch", "tensorplay"):
        row = a.constant(np.arange(4.0))
        x, y = row[:3].requires_grad_(), row[1:].requires_grad_()
    else:
        row = np.arange(4.0)
        x, y = viewing(a, row[:3]), viewing(a, row[1:])
    words = r"input 0 p\['u'\] and input 1 'q' share memory.*copy"
    refused(RuntimeError, words, lambda p, q: p["u"] * q, ({"u": x}, y), engine=a.engine)


# -- outputs ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("result", [None, "text", 3.0, {"loss": 1.0}, {"loss": "text"}, object()], ids=repr)
def test_what_func_returns_instead_of_a_tensor_is_named_with_its_place(a, result):
    """At each place: alone, and beside a tensor."""
    calls = [partial(a.check, raise_exception=False), a.check, a.report]
    legal = a.name in PYTREES and (result == 3.0 or result == {"loss": 1.0})
    for call in calls:
        for func, place in ((lambda x: result, 0), (lambda x: (x * 2.0, result), 1)):
            if legal:  # a constant
                assert call(func, a.tensor(X))
                continue
            if a.name == "jax" and result is None:
                if place == 1:  # None is a pytree without leaves
                    assert call(func, a.tensor(X))
                else:
                    with pytest.raises(TypeError, match="func returned NoneType as its output: it must return"):
                        call(func, a.tensor(X))
                continue
            with pytest.raises(TypeError) as caught:
                call(func, a.tensor(X))
            text, nested = str(caught.value), a.name in PYTREES and isinstance(result, dict)
            kind = "str" if nested else type(result).__name__
            assert re.match(rf"func returned {kind} as output {place}\b.*: it must return ", text), text
            assert "['loss']" in text or not nested


def test_a_tensor_of_another_framework_is_no_output_and_its_place_is_named(a, many):
    other = many["jax" if a.name == "torch" else "torch"]
    for call in (a.check, a.report):
        with pytest.raises(TypeError, match=r"func returned [\w.]+ as output 1\b.*: it must return "):
            call(lambda x: (x * 2.0, other), a.tensor(X))


CHANGES = {
    "shape": (np.ones(4), r"output 1: \(3,\) float64, now \(4,\) float64"),
    "broadcastable shape": (np.ones((1, 3)), r"output 1: \(3,\) float64, now \(1, 3\) float64"),
    "dtype": (np.ones(3, np.float32), r"output 1: \(3,\) float64, now \(3,\) float32"),
    "more outputs": (None, "2 outputs, now 3"),
    "fewer outputs": (None, "2 outputs, now 1"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_outputs_that_change_when_an_input_moves_are_named_with_the_element(a, change):
    other, words = CHANGES[change]

    def changed(y):
        return {"more outputs": (y, y, y), "fewer outputs": (y,)}.get(change) or (y, a.constant(other))

    func = Counted(lambda x: (x * 2.0, x * 2.0) if func.calls < 3 else changed(x * 2.0))
    x = a.tensor(X)
    for fast in (False, True) if "fast_mode" in a.supports else (False,):
        func.calls = 0
        report = a.report(func, x, fast_mode=fast)
        assert not report.passed and a.values(x).tobytes() == X.tobytes()
        text = report.error_text()
        assert "Expected `func` to return outputs with the same shape and dtype when inputs are perturbed" in text
        assert re.search(rf"when input 0 'x' \[\d\] moved by .*{words}", text)
        func.calls = 0
        assert not a.check(func, x, fast_mode=fast, raise_exception=False)
        func.calls = 0
        with pytest.raises(GradcheckError, match="outputs with the same shape and dtype"):
            a.check(func, x, fast_mode=fast)


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_outputs_of_torch_are_named_with_the_way_out(layout):
    a = adapters.torch()
    func = {"coo": lambda x: (x, x.to_sparse()), "csr": lambda x: (x, x.to_sparse_csr())}[layout]
    refused(ValueError, r"Sparse output is not supported.*output 1.*to_dense", func, a.tensor(np.eye(3)), CHECKS)


def test_sparse_outputs_of_tensorplay_are_named_with_the_way_out():
    a = adapters.tensorplay()
    refused(ValueError, r"(?s)(?=.*output 1)(?=.*to_dense)", lambda x: (x, x.to_sparse()), a.tensor(np.eye(3)), CHECKS)
