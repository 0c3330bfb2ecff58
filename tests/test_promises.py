"""What no check may ever do: change the caller's data, hide an exception, or touch anything global."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import warnings

import numpy as np
import pytest

from gradcheck_widget import Function, GradcheckError, Tensor, from_backward, gradcheck, gradcheck_report, gradgradcheck

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

AWKWARD = np.array([1.5, -0.0, np.inf, 5e-324, np.nan, 0.25])
AWKWARD[4:5].view(np.uint64)[0] = 0x7FF4_0000_DEAD_BEEF  # a signalling NaN that carries a payload


class Memory:
    """An input of a kind of memory, and the bytes of all that it lives in."""

    def __init__(self, kind):
        self.base = {
            "contiguous": AWKWARD.copy,
            "every second of a larger array": lambda: np.repeat(AWKWARD, 2),
            "column of a matrix": lambda: np.tile(AWKWARD[:, None], (1, 3)),
            "backwards": AWKWARD.copy,
            "fortran": lambda: np.asfortranarray(AWKWARD.reshape(2, 3)),
            "complex": lambda: (AWKWARD.copy()).view(complex),
            "imaginary part": lambda: np.repeat(AWKWARD, 2).view(complex),
            "big-endian": lambda: AWKWARD.astype(">f8"),
            "long double": lambda: AWKWARD.astype(np.longdouble),
        }[kind]()
        self.x = {
            "every second of a larger array": lambda b: b[::2],
            "column of a matrix": lambda b: b[:, 1],
            "backwards": lambda b: b[::-1],
            "imaginary part": lambda b: b.imag,
        }.get(kind, lambda b: b)(self.base)
        self.before = self.base.tobytes()

    @property
    def untouched(self):
        return self.base.tobytes() == self.before


KINDS = [
    "contiguous",
    "every second of a larger array",
    "column of a matrix",
    "backwards",
    "fortran",
    "complex",
    "imaginary part",
    "big-endian",
    "long double",
]


def doubled(factor=2.0):
    return from_backward(lambda x: (x * 2, None), lambda g, c: g * factor)


def intruder(after, then, func=lambda x: x * 2):
    """`func`, until it is called for the `after`-th time: then ``then(array)``."""
    calls = 0

    def intruded(x):
        nonlocal calls
        calls += 1
        if calls == after:
            then(x.data if isinstance(x, Tensor) else x)
        return func(x)

    return intruded


def runs(func, x):
    """How many runs of func a whole check takes."""
    count = 0

    def counted(x):
        nonlocal count
        count += 1
        return func(x)

    gradcheck(counted, x, raise_exception=False)
    return count


def throw(error):
    def then(x):
        raise error

    return then


def spoil_and_throw(error):
    def then(x):
        x[...] = 7.0
        raise error

    return then


# -- the bits of the inputs -------------------------------------------------------------------------------------
@pytest.mark.parametrize("make", [lambda x: x, lambda x: Tensor(x, requires_grad=True)], ids=["array", "tensor"])
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_bit_identical_after_any_verdict(kind, make):
    m = Memory(kind)
    for func in (np.negative, doubled(), doubled(3.0), lambda x: x, lambda x: x.reshape(-1)):
        gradcheck(func, make(m.x), raise_exception=False)
        assert m.untouched
        gradgradcheck(np.negative, make(m.x), raise_exception=False)
        assert m.untouched


def test_inputs_are_bit_identical_after_a_pass_and_after_a_failure_of_finite_values():
    x = np.repeat(np.array([0.3, -0.0, 1.7]), 2)
    before = x.tobytes()
    assert gradcheck(np.sin, x[::2])
    assert not gradcheck(doubled(3.0), x[::2], raise_exception=False)
    with pytest.raises(GradcheckError):
        gradcheck(doubled(3.0), x[::2])
    assert x.tobytes() == before


@pytest.mark.parametrize("then", [throw, spoil_and_throw], ids=["raises", "overwrites and raises"])
@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt(), SystemExit(3)], ids=repr)
@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_bit_identical_after_an_exception_in_func_at_every_call(kind, error, then):
    for k in range(1, runs(lambda x: x * 2, Memory(kind).x) + 1):
        m = Memory(kind)
        func = intruder(k, then(error))
        try:
            gradcheck(func, m.x, raise_exception=False)
        except BaseException as caught:
            assert caught is error  # it reaches the user as it is
        else:  # only a try of a shortcut may be lost
            assert isinstance(error, Exception) and k in (2, 3, 4)
        assert m.untouched


@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt()], ids=repr)
def test_every_input_is_bit_identical_when_func_overwrites_another_one_than_is_moved(error):
    for k in range(1, 14):
        a, b = AWKWARD[:2].copy(), AWKWARD[2:].copy()
        before = a.tobytes(), b.tobytes()
        calls = 0

        def func(a, b):
            nonlocal calls
            calls += 1
            if calls == k:
                for x in (a, b):
                    (x.data if isinstance(x, Tensor) else x)[...] = 7.0
                raise error
            return a * b.sum()

        try:
            gradcheck(func, (a, b), raise_exception=False)
        except BaseException as caught:
            assert caught is error
        assert (a.tobytes(), b.tobytes()) == before


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_are_bit_identical_when_func_overwrites_them_at_every_call(kind):
    def overwrite(x):
        x[...] = 7.0

    for k in range(1, runs(lambda x: x * 2, Memory(kind).x) + 1):
        m = Memory(kind)
        gradcheck(intruder(k, overwrite), m.x, raise_exception=False)
        assert m.untouched


@pytest.mark.parametrize("spoil", [False, True], ids=["raises", "overwrites and raises"])
@pytest.mark.parametrize("error", [KeyError("mine"), KeyboardInterrupt()], ids=repr)
def test_inputs_are_bit_identical_after_an_exception_in_backward_at_every_call(error, spoil):
    pulls = 0
    fatal = 0

    def backward(g, x):
        nonlocal pulls
        pulls += 1
        if pulls == fatal:
            if spoil:
                x[...] = 7.0
            raise error
        return g * 2

    f = from_backward(lambda x: (x * 2, x), backward)
    gradcheck(f, AWKWARD.copy(), raise_exception=False)
    for k in range(1, pulls + 1):
        m = Memory("every second of a larger array")
        pulls, fatal = 0, k
        try:
            gradcheck(f, m.x, raise_exception=False)
        except BaseException as caught:
            assert caught is error
        else:  # an exception for an undefined grad_output is a finding
            assert isinstance(error, Exception) and k == 2 * AWKWARD.size + 2
        assert m.untouched


def test_tensors_that_are_not_checked_are_bit_identical_too():
    x, buffer = np.array([1.0, 2.0]), np.array([0.0, -0.0])

    def func(x, running):
        running.data[...] += 1.0  # such as a batch norm's running mean
        return x * 2

    before = buffer.tobytes()
    assert gradcheck(func, (x, Tensor(buffer)))
    assert buffer.tobytes() == before


# -- Ctrl-C -----------------------------------------------------------------------------------------------------
def test_a_signal_raised_inside_func_at_every_call_leaves_the_inputs_as_they_were():
    code = """
    import signal
    import numpy as np
    from gradcheck_widget import gradcheck

    signal.signal(signal.SIGINT, signal.default_int_handler)
    base = np.repeat(np.array([0.5, -0.0, np.nan, 1.5]), 2)
    before, total, interrupted = base.tobytes(), 13, 0
    for spoil in (False, True):
        for k in range(1, total):
            calls = 0

            def func(x):
                global calls
                calls += 1
                if calls == k:
                    if spoil:
                        (x if isinstance(x, np.ndarray) else x.data)[...] = 7.0
                    signal.raise_signal(signal.SIGINT)
                return x * 2

            try:
                gradcheck(func, base[::2], raise_exception=False)
            except KeyboardInterrupt:
                interrupted += 1
            assert base.tobytes() == before, (spoil, k)
    print(interrupted)
    """
    assert run(code) == "24"


def test_ctrl_c_at_any_moment_leaves_the_inputs_as_they_were():
    code = """
    import random, signal, time
    import numpy as np
    from gradcheck_widget import Tensor, from_backward, gradcheck

    signal.signal(signal.SIGALRM, signal.default_int_handler)  # what Ctrl-C does, at a time of our choosing
    random.seed(0)
    base = np.repeat(np.linspace(0.5, 1.5, 24), 2)
    base[4] = -0.0
    before = base.tobytes()

    def in_place(x):
        values = x.data if isinstance(x, Tensor) else x
        values *= 2.0
        values += 1.0
        return np.exp(x)

    wrong = from_backward(lambda x: (np.sin(x), x), lambda g, x: g * np.sin(x))
    interrupted = 0
    for func in (np.tanh, wrong, in_place):
        start = time.perf_counter()
        gradcheck(func, base[::2], raise_exception=False)
        takes = time.perf_counter() - start
        for _ in range(600):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, takes))
                gradcheck(func, base[::2], raise_exception=False)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupted += 1
            assert base.tobytes() == before, func
    print(interrupted > 100)
    """
    assert run(code) == "True"


def run(code):
    result = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


# -- exceptions -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("check", [gradcheck, gradcheck_report, gradgradcheck])
def test_an_exception_of_the_first_run_is_the_users_own_without_a_note(check):
    error = ZeroDivisionError("mine")
    with pytest.raises(ZeroDivisionError) as caught:
        check(intruder(1, throw(error)), np.ones(2))
    assert caught.value is error
    assert not hasattr(error, "__notes__")


def test_an_exception_while_an_element_is_moved_names_it():
    def func(x):
        values = x.data if isinstance(x, Tensor) else x
        if values[1] < 2 and values[0] == 1:
            raise np.linalg.LinAlgError("mine")
        return x * 2

    with pytest.raises(np.linalg.LinAlgError, match="mine") as caught:
        gradcheck(func, np.array([1.0, 2.0]))
    assert caught.value.__notes__ == ["gradcheck was evaluating func at x - eps of input 0 'x' [1], eps=1e-06"]


def test_an_exception_in_backward_names_the_output_element():
    error = ValueError("mine")

    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise error

    with pytest.raises(ValueError) as caught:
        gradcheck(Fails.apply, np.ones(2), raise_exception=False)
    assert caught.value is error
    assert error.__notes__ == ["gradcheck was pulling back a unit cotangent at output 0 [0]"]


# -- nothing global ---------------------------------------------------------------------------------------------
def test_nothing_global_changes_whatever_the_verdict():
    def state():
        kind, keys, *rest = np.random.get_state()  # noqa: NPY002
        return kind, keys.tobytes(), rest, np.geterr(), np.geterrcall(), list(warnings.filters), np.get_printoptions()

    with np.errstate(all="warn", divide="ignore"):
        before = state()
        for func in (np.tanh, doubled(3.0), lambda x: x / 0, intruder(8, throw(KeyError()))):
            for check in (gradcheck, gradcheck_report, gradgradcheck):
                try:
                    check(func, AWKWARD.copy())
                except (GradcheckError, KeyError, NotImplementedError):
                    pass
                assert state() == before


def test_no_check_of_ours_raises_where_numpy_is_set_to_raise():
    flat = np.array([np.inf, np.nan, 1e308, -1e308])
    f = from_backward(lambda x: (flat * 1, x), lambda g, x: np.where(g == 0, 0.0, flat))
    with np.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        report = gradcheck_report(f, np.array([1.0, 1e300, -0.0, np.inf]))
        assert not report.judge(atol=1e300, rtol=1e300).passed
        assert str(report) and report._repr_html_() and report.to_json()


def test_the_users_warnings_are_seen():
    def func(x):
        warnings.warn("mine", DeprecationWarning, stacklevel=1)
        return x * 2

    with pytest.warns(DeprecationWarning, match="mine"):
        assert gradcheck(func, np.ones(2))


@pytest.mark.filterwarnings("default::RuntimeWarning")
def test_the_warnings_of_numpy_in_func_are_seen_while_an_element_is_moved():
    with pytest.warns(RuntimeWarning, match="invalid value encountered in sqrt"):
        gradcheck(np.sqrt, np.array([1e-7]), raise_exception=False)  # x - eps is negative


def test_no_warning_comes_of_points_that_the_check_need_not_visit():
    # x - eps is in the domain, though only just
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradcheck(np.sqrt, np.array([1e-6, 1.0]), raise_exception=False)


def test_the_error_state_of_numpy_inside_func_is_the_users():
    seen = set()

    def func(x):
        seen.add(tuple(np.geterr().items()))
        return x * 2

    with np.errstate(under="call", invalid="ignore"):
        gradcheck(func, np.ones(2))
        expected = tuple(np.geterr().items())
    assert expected in seen


def test_a_check_loads_neither_matplotlib_nor_widgets():
    code = """
    import sys
    import numpy as np
    from gradcheck_widget import gradcheck, gradcheck_report, gradgradcheck

    gradcheck(np.tanh, np.ones(2)), gradgradcheck(np.tanh, np.ones(2))
    gradcheck_report(lambda x: x.data * 2, np.ones(2))._repr_html_()
    print([m for m in ("matplotlib", "ipywidgets", "IPython", "torch", "scipy") if m in sys.modules])
    """
    assert run(code) == "[]"
