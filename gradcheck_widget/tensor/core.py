"""Reverse-mode differentiation on NumPy arrays: the tape, the Tensor that writes it, and the pullback.

An operation on Tensors runs NumPy's own function on the arrays inside and, if an argument requires grad, leaves
a `Node` behind. A node knows its primitive, its arguments and its result; a *rule*, one for each argument that
can be differentiated, turns the cotangent of the result into the cotangent of that argument:

    rule(g, ans, *args, **kwargs) -> cotangent of one argument

Rules use nothing but NumPy functions and operators, which work on arrays and on Tensors alike. So the same rule
serves twice: a first-order pullback hands it bare arrays and runs at NumPy's speed; a pullback with ``graph=True``
hands it Tensors, is itself recorded, and can be differentiated again.

Complex numbers follow PyTorch: the gradient of a real loss L at z = a + bi is dL/da + i dL/db, so that a
holomorphic f pulls g back to ``g * conj(f'(z))``.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

__all__ = ["Node", "Tensor", "apply", "constant", "defvjp", "fit", "grad", "implements", "pullback_of", "raw"]

Array = Any  # an ndarray in a first-order pullback, a Tensor in a recorded one
Rule = Callable[..., Array]

RULES: dict[Callable[..., Any], dict[int, Rule]] = {}  # primitive -> rule of each argument
VARIADIC: dict[Callable[..., Any], Callable[..., Array]] = {}  # primitive -> rule(k, g, ans, *args) for argument k
HANDLERS: dict[Callable[..., Any], Callable[..., Any]] = {}  # NumPy function -> its implementation for Tensors
CONSTANT: set[Callable[..., Any]] = set()  # functions whose derivative is 0 or has no meaning: they run on the arrays

_serial = itertools.count()


class Node:
    """One recorded operation; ``parents[i]`` is (node, output index) of the i-th argument that requires grad."""

    __slots__ = ("outputs", "parents", "serial")

    def __init__(self, parents: tuple[tuple[Node, int], ...] = (), outputs: int = 1) -> None:
        self.parents = parents
        self.outputs = outputs
        self.serial = next(_serial)  # parents always carry smaller numbers: a topological order

    def pull(self, cotangents: list[Array | None], graph: bool) -> Sequence[Array | None]:
        """The cotangents of the parents, given those of the outputs. A leaf has none."""
        return ()


class _Operation(Node):
    """A call of a primitive with a rule for each argument that requires grad."""

    __slots__ = ("ans", "argnums", "args", "kwargs", "primitive")

    def __init__(self, primitive: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], ans: Any) -> None:
        self.argnums = tuple(k for k, a in enumerate(args) if isinstance(a, Tensor) and a._node is not None)
        super().__init__(tuple((args[k]._node, args[k]._index) for k in self.argnums))
        self.primitive = primitive
        self.args = args
        self.kwargs = kwargs
        self.ans = ans

    def pull(self, cotangents: list[Array | None], graph: bool) -> Sequence[Array | None]:
        g = cotangents[0]
        if g is None:
            return (None,) * len(self.argnums)
        args, ans = self.args, self.ans
        if graph:
            ans = Tensor._recorded(ans, self, 0)
        else:
            args = tuple(a.data if isinstance(a, Tensor) else a for a in args)
        if self.primitive in VARIADIC:
            rule = VARIADIC[self.primitive]
            return [fit(rule(k, g, ans, *args, **self.kwargs), args[k]) for k in self.argnums]
        rules = RULES[self.primitive]
        return [fit(rules[k](g, ans, *args, **self.kwargs), args[k]) for k in self.argnums]


def _method(func: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        return func(self, *args, **kwargs)

    method.__name__ = func.__name__
    method.__doc__ = f"`numpy.{func.__name__}` of this tensor."
    return method


class Tensor:
    """A NumPy array that records what is done with it, so that derivatives can be taken.

    Parameters
    ----------
    data : array_like
        The values. An ndarray is wrapped, not copied: the Tensor and the caller share its memory.
    requires_grad : bool
        Whether derivatives with respect to this tensor are wanted; needs a floating point or complex dtype.
    dtype : dtype, optional
        Convert to this dtype first.

    Attributes
    ----------
    data : numpy.ndarray
        The values, as a plain array. Nothing done with them is recorded.
    requires_grad : bool

    Raises
    ------
    TypeError
        If `requires_grad` is asked of integers, booleans or objects.

    Notes
    -----
    NumPy's functions work on it through NumPy's own dispatch (``np.tanh(x)``, ``x @ w``, ``np.where``,
    ``x[idx]``, ...). Comparisons and index-valued functions (``x > 0``, ``np.argmax``) give plain arrays. A function
    without a rule raises ``NotImplementedError``; turning a Tensor that requires grad into an array silently
    would lose its gradient, and raises ``TypeError``: write ``x.data`` or ``x.detach()`` where that is meant.
    """

    __slots__ = ("__weakref__", "_index", "_node", "data")
    __array_priority__ = 1000.0
    data: np.ndarray[Any, Any]
    _node: Node | None
    _index: int

    def __init__(self, data: Any, requires_grad: bool = False, *, dtype: Any = None) -> None:
        if isinstance(data, Tensor):
            data = data.data
        self.data = np.asarray(data, dtype)
        if requires_grad and self.data.dtype.kind not in "fc":
            raise TypeError(
                f"requires_grad=True needs a floating point or complex dtype, got {self.data.dtype}: "
                "convert the values first, for instance with dtype=np.float64"
            )
        self._node = Node() if requires_grad else None
        self._index = 0

    @classmethod
    def _recorded(cls, data: Any, node: Node | None, index: int) -> Self:
        out = cls.__new__(cls)
        out.data = np.asarray(data)
        out._node = node
        out._index = index
        return out

    @property
    def requires_grad(self) -> bool:
        return self._node is not None

    def detach(self) -> Tensor:
        """The same values (and memory), cut from the graph."""
        return Tensor._recorded(self.data, None, 0)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values as an array; refused while the tensor requires grad (use `data`, or `detach()` first)."""
        return self.__array__()

    def item(self, *args: Any) -> Any:
        """One element as a Python number, outside the graph."""
        return self.data.item(*args)

    # -- NumPy's dispatch ---------------------------------------------------------------------------------
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        if self._node is not None:
            raise TypeError(
                "this would turn a Tensor that requires grad into a plain array and lose its gradient. Use NumPy "
                "functions on the Tensor itself (np.stack for a list of Tensors, np.where or np.concatenate instead "
                "of assigning into an array), or x.data where no gradient is wanted"
            )
        return np.array(self.data, dtype, copy=copy)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if kwargs.pop("out", None) is not None:
            raise _writes(_name(ufunc))
        args = tuple(
            a if isinstance(a, Tensor | np.ndarray | np.generic | int | float | complex) else np.asarray(a)
            for a in inputs
        )
        if ufunc in CONSTANT:
            return getattr(ufunc, method)(*raw(args), **raw(kwargs))
        if not any(t.requires_grad for t in _tensors_in((args, kwargs))):
            return wrap(getattr(ufunc, method)(*raw(args), **raw(kwargs)))
        if method != "__call__":
            return _ufunc_method(ufunc, method, args, kwargs)
        if kwargs:
            raise _unsupported(f"{_name(ufunc)} with {', '.join(kwargs)}=")
        return apply(ufunc, *args)

    def __array_function__(self, func: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if kwargs.get("out") is not None and func not in CONSTANT:
            raise _writes(_name(func))
        kwargs = {name: value for name, value in kwargs.items() if name != "out" or value is not None}
        if func in CONSTANT:
            return func(*raw(args), **raw(kwargs))
        if not any(t.requires_grad for t in _tensors_in((args, kwargs))):
            return wrap(func(*raw(args), **raw(kwargs)))
        handler = HANDLERS.get(func)
        if handler is None:
            raise _unsupported(_name(func))
        try:
            return handler(*args, **kwargs)
        except TypeError:
            import inspect

            try:
                inspect.signature(handler).bind(*args, **kwargs)
            except TypeError as reason:
                raise _unsupported(f"{_name(func)} with these arguments ({reason})") from None
            raise

    # -- what an array has --------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def size(self) -> int:
        return self.data.size

    @property
    def dtype(self) -> Any:
        return self.data.dtype

    @property
    def T(self) -> Any:
        return np.transpose(self)

    @property
    def mT(self) -> Any:
        return np.swapaxes(self, -1, -2)

    @property
    def real(self) -> Any:
        return np.real(self)

    @property
    def imag(self) -> Any:
        return np.imag(self)

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self.data)))

    def __bool__(self) -> bool:
        return bool(self.data)

    def __float__(self) -> float:
        return float(self.__array__())

    def __complex__(self) -> complex:
        return complex(self.__array__())

    def __int__(self) -> int:
        return int(self.data)

    def __repr__(self) -> str:
        text = np.array2string(self.data, separator=", ", prefix="Tensor(", threshold=200)
        dtype = "" if self.data.dtype in (np.float64, np.complex128) else f", dtype={self.data.dtype}"
        return f"Tensor({text}{dtype}{', requires_grad=True' if self.requires_grad else ''})"

    def __format__(self, spec: str) -> str:
        return format(self.data, spec) if spec else repr(self)

    def __getitem__(self, index: Any) -> Any:
        return apply(HANDLERS[_getitem], self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        raise TypeError(
            "a Tensor does not support item assignment: it would change values that recorded operations still need. "
            "Build the new value instead: np.where(mask, new, x), np.concatenate, np.stack, or x + update"
        )

    __hash__ = object.__hash__

    def __add__(self, other: Any) -> Any:
        return _binary(np.add, self, other)

    def __radd__(self, other: Any) -> Any:
        return _binary(np.add, other, self)

    def __sub__(self, other: Any) -> Any:
        return _binary(np.subtract, self, other)

    def __rsub__(self, other: Any) -> Any:
        return _binary(np.subtract, other, self)

    def __mul__(self, other: Any) -> Any:
        return _binary(np.multiply, self, other)

    def __rmul__(self, other: Any) -> Any:
        return _binary(np.multiply, other, self)

    def __truediv__(self, other: Any) -> Any:
        return _binary(np.true_divide, self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return _binary(np.true_divide, other, self)

    def __floordiv__(self, other: Any) -> Any:
        return _binary(np.floor_divide, self, other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _binary(np.floor_divide, other, self)

    def __mod__(self, other: Any) -> Any:
        return _binary(np.remainder, self, other)

    def __rmod__(self, other: Any) -> Any:
        return _binary(np.remainder, other, self)

    def __pow__(self, other: Any) -> Any:
        return _power(self, other)

    def __rpow__(self, other: Any) -> Any:
        return _power(other, self)

    def __matmul__(self, other: Any) -> Any:
        return _binary(np.matmul, self, other)

    def __rmatmul__(self, other: Any) -> Any:
        return _binary(np.matmul, other, self)

    def __neg__(self) -> Any:
        return np.negative(self)

    def __pos__(self) -> Any:
        return np.positive(self)

    def __abs__(self) -> Any:
        return np.absolute(self)

    def __eq__(self, other: object) -> Any:
        return _binary(np.equal, self, other)

    def __ne__(self, other: object) -> Any:
        return _binary(np.not_equal, self, other)

    def __lt__(self, other: Any) -> Any:
        return _binary(np.less, self, other)

    def __le__(self, other: Any) -> Any:
        return _binary(np.less_equal, self, other)

    def __gt__(self, other: Any) -> Any:
        return _binary(np.greater, self, other)

    def __ge__(self, other: Any) -> Any:
        return _binary(np.greater_equal, self, other)

    # the methods of an array are NumPy's functions of the same name
    sum = _method(np.sum)
    prod = _method(np.prod)
    mean = _method(np.mean)
    var = _method(np.var)
    std = _method(np.std)
    max = _method(np.max)
    min = _method(np.min)
    clip = _method(np.clip)
    round = _method(np.round)
    cumsum = _method(np.cumsum)
    cumprod = _method(np.cumprod)
    dot = _method(np.dot)
    trace = _method(np.trace)
    diagonal = _method(np.diagonal)
    ravel = _method(np.ravel)
    flatten = _method(np.ravel)
    squeeze = _method(np.squeeze)
    swapaxes = _method(np.swapaxes)
    repeat = _method(np.repeat)
    take = _method(np.take)
    copy = _method(np.copy)
    conj = _method(np.conjugate)
    conjugate = _method(np.conjugate)
    argmax = _method(np.argmax)
    argmin = _method(np.argmin)
    argsort = _method(np.argsort)
    nonzero = _method(np.nonzero)
    any = _method(np.any)
    all = _method(np.all)

    def reshape(self, *shape: Any, order: Any = "C") -> Any:
        return np.reshape(self, shape[0] if len(shape) == 1 else shape, order=order)

    def transpose(self, *axes: Any) -> Any:
        return np.transpose(self, axes[0] if len(axes) == 1 else axes or None)

    def astype(self, dtype: Any, *, copy: bool = True) -> Any:
        """Converted values; the gradient passes between floating point and complex dtypes."""
        return apply(astype, self, dtype)

    def tolist(self) -> Any:
        return self.data.tolist()


def _getitem() -> None:
    """Key of indexing in HANDLERS: it is an operator, not a NumPy function."""


def _binary(ufunc: np.ufunc, a: Any, b: Any) -> Any:
    for x in (a, b):
        # let an object that knows Tensors better than we do (a subclass of another array library) take over
        if getattr(x, "__array_ufunc__", 0) is None:
            return NotImplemented
    return ufunc(a, b)


def _power(a: Any, b: Any) -> Any:
    # the operator, not the ufunc: ndarray ** 2 squares, which differs from np.power in the last bits
    if any(getattr(x, "__array_ufunc__", 0) is None for x in (a, b)):
        return NotImplemented
    return apply(operator.pow, *(np.asarray(x) if isinstance(x, list | tuple) else x for x in (a, b)))


# -- recording ----------------------------------------------------------------------------------------------
def apply(primitive: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Run `primitive` on the arrays inside `args`; record it if one of them requires grad.

    Without a Tensor among the arguments it is the bare call. Only top-level arguments are differentiated: a function
    that takes a list of arrays is a primitive of its elements. Results that are not floating point or complex are
    plain arrays.
    """
    arrays = tuple(a.data if isinstance(a, Tensor) else a for a in args)
    ans = primitive(*arrays, **kwargs)
    if all(a is b for a, b in zip(args, arrays, strict=True)):  # a first-order pullback
        return ans
    node = _Operation(primitive, args, kwargs, ans)
    if not node.parents:
        return wrap(ans)
    rules = RULES.get(primitive, {})
    if primitive not in VARIADIC:
        for k in node.argnums:
            if k not in rules:
                raise _unsupported(_name(primitive) + (f" with respect to argument {k}" if rules else ""))
    if getattr(ans, "dtype", np.dtype(object)).kind not in "fc":
        return np.asarray(ans)
    return Tensor._recorded(ans, node, 0)


def wrap(ans: Any) -> Any:
    """Floating point and complex results become Tensors that do not require grad; others stay as they are."""
    if isinstance(ans, tuple | list):
        items = [wrap(a) for a in ans]
        return type(ans)(*items) if hasattr(ans, "_fields") else type(ans)(items)
    if isinstance(ans, np.ndarray | np.generic) and ans.dtype.kind in "fc":
        return Tensor._recorded(ans, None, 0)
    return ans


def raw(x: Any) -> Any:
    """The arrays inside Tensors, also those in tuples, lists and dicts."""
    if isinstance(x, Tensor):
        return x.data
    if isinstance(x, tuple | list) and any(True for _ in _tensors_in(x)):
        items = [raw(v) for v in x]
        return type(x)(*items) if hasattr(x, "_fields") else type(x)(items)
    if isinstance(x, dict):
        return {k: raw(v) for k, v in x.items()}
    return x


def _tensors_in(x: Any) -> Iterator[Tensor]:
    if isinstance(x, Tensor):
        yield x
    elif isinstance(x, tuple | list):
        for v in x:
            yield from _tensors_in(v)
    elif isinstance(x, dict):
        yield from _tensors_in(tuple(x.values()))


def _name(func: Callable[..., Any]) -> str:
    """As users write it: np.sum, np.linalg.inv."""
    name = getattr(func, "__name__", repr(func))
    if isinstance(func, np.ufunc):
        return f"np.{name}" if getattr(np, name, None) is func else f"the ufunc {name}"
    module = getattr(func, "__module__", None) or ""
    return f"np{module.removeprefix('numpy')}.{name}" if module.split(".")[0] == "numpy" else name


def _unsupported(what: str) -> NotImplementedError:
    return NotImplementedError(
        f"{what} has no derivative rule here. Ways out: express it through supported functions (README, "
        "'Supported NumPy functions'), or give its derivative yourself, with gradcheck_widget.Function or "
        "gradcheck_widget.from_backward(forward, backward)"
    )


def _writes(what: str) -> TypeError:
    return TypeError(
        f"{what} with out=, or an in-place operator on an array with a Tensor on the right, would write a Tensor into "
        "memory that records nothing; use the result instead: y = y + x"
    )


def _ufunc_method(ufunc: np.ufunc, method: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    reductions: dict[np.ufunc, Callable[..., Any]] = {
        np.add: np.sum,
        np.multiply: np.prod,
        np.maximum: np.max,
        np.minimum: np.min,
    }
    scans: dict[np.ufunc, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod}
    if method == "reduce" and ufunc in reductions:
        kwargs.setdefault("axis", 0)
        return reductions[ufunc](*args, **kwargs)
    if method == "accumulate" and ufunc in scans:
        kwargs.setdefault("axis", 0)
        return scans[ufunc](*args, **kwargs)
    if method == "outer" and len(args) == 2 and not kwargs:
        a, b = args
        return ufunc(np.reshape(a, np.shape(a) + (1,) * np.ndim(b)), b)
    raise _unsupported(f"{_name(ufunc)}.{method}")


# -- rules --------------------------------------------------------------------------------------------------
def defvjp(primitive: Callable[..., Any], *rules: Rule | None) -> None:
    """Register ``rule(g, ans, *args, **kwargs)`` for each argument of `primitive`; None: not differentiable."""
    RULES[primitive] = {k: rule for k, rule in enumerate(rules) if rule is not None}


def implements(*funcs: Callable[..., Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorator: this is what `funcs` do when one of their arguments is a Tensor."""

    def register(handler: Callable[..., Any]) -> Callable[..., Any]:
        for func in funcs:
            HANDLERS[func] = handler
        return handler

    return register


def constant(*funcs: Callable[..., Any]) -> None:
    """Declare functions that are piecewise constant or not numerical: arrays in, plain arrays out."""
    CONSTANT.update(funcs)


def is_complex(x: Any) -> bool:
    dtype = getattr(x, "dtype", None)
    return isinstance(x, complex) if dtype is None else dtype.kind == "c"


def conj(x: Array) -> Array:
    """conj(x); a real x as it is, without a copy."""
    return np.conjugate(x) if is_complex(x) else x


def sum_to(g: Array, shape: tuple[int, ...]) -> Array:
    """Transpose of broadcasting `shape` to ``g.shape``: sum over the axes that were added or stretched."""
    extra = g.ndim - len(shape)
    if extra > 0:
        g = np.sum(g, axis=tuple(range(extra)))
    stretched = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    if stretched:
        g = np.sum(g, axis=stretched, keepdims=True)
    return g


def fit(g: Array, like: Array) -> Array:
    """Bring a cotangent to the space of its argument: broadcasting summed away, real part for a real argument."""
    if g.shape != like.shape:
        g = sum_to(g, like.shape)
    if g.dtype != like.dtype:
        if is_complex(g) and not is_complex(like):
            g = np.real(g)
        g = astype(g, like.dtype)
    return g


def astype(x: Array, dtype: Any) -> Array:
    return x.astype(dtype)


# the cotangent is brought back to the argument's dtype by `fit`
defvjp(astype, lambda g, ans, x, dtype: g)


# -- the reverse pass ---------------------------------------------------------------------------------------
def pullback_of(
    outputs: Mapping[int, Tensor], inputs: Sequence[Tensor]
) -> Callable[[Mapping[int, Array | None], bool], list[Array | None]]:
    """The linear map from cotangents of `outputs` to cotangents of `inputs`, as a function that can run many times.

    Parameters
    ----------
    outputs : mapping of int to Tensor
        Those that do not require grad contribute nothing.
    inputs : sequence of Tensor

    Returns
    -------
    pullback : callable
        ``pullback(cotangents, graph)`` takes one cotangent for each output key (None: undefined) and gives one for
        each input, or None where nothing flows. With ``graph=True`` cotangents are Tensors and the pass is recorded.
    """
    seeds = {k: (t._node, t._index) for k, t in outputs.items() if t._node is not None}
    targets = [(t._node, t._index) for t in inputs]
    reached: set[Node] = set()
    stack = [node for node, _ in seeds.values()]
    while stack:
        node = stack.pop()
        if node not in reached:
            reached.add(node)
            stack.extend(parent for parent, _ in node.parents)
    wanted = {node for node, _ in targets}
    useful: set[Node] = set()  # on a way to an input; all others need not run
    for node in sorted(reached, key=lambda n: n.serial):
        if node in wanted or any(parent in useful for parent, _ in node.parents):
            useful.add(node)
    order = sorted(useful, key=lambda n: -n.serial)

    def pullback(cotangents: Mapping[int, Array | None], graph: bool = False) -> list[Array | None]:
        slots: dict[Node, list[Array | None]] = {}
        kept: dict[Node, list[Array | None]] = {}

        def add(node: Node, index: int, g: Array | None) -> None:
            slot = slots.setdefault(node, [None] * node.outputs)
            if g is not None:
                old = slot[index]
                slot[index] = g if old is None else old + g

        for k, (node, index) in seeds.items():
            add(node, index, cotangents[k])
        for node in order:
            if node not in slots:
                continue
            slot = slots.pop(node)
            if node in wanted:
                kept[node] = slot
            for (parent, index), g in zip(node.parents, node.pull(slot, graph), strict=True):
                if parent in useful:
                    add(parent, index, g)
        return [kept[node][index] if node in kept else None for node, index in targets]

    return pullback


def grad(
    outputs: Sequence[Tensor],
    inputs: Sequence[Tensor],
    grad_outputs: Sequence[Any],
    *,
    create_graph: bool = False,
) -> list[Tensor | None]:
    """Vector-Jacobian product: the gradients of ``sum <grad_output, output>`` with respect to `inputs`.

    Parameters
    ----------
    outputs, inputs : sequences of Tensor
    grad_outputs : sequence of Tensor or array
        One cotangent for each output, of its shape.
    create_graph : bool
        Record the computation, so that the gradients can be differentiated again.

    Returns
    -------
    list of Tensor or None
        None for an input on which no output depends.

    Raises
    ------
    ValueError
        If the grad_outputs have not the shapes of the outputs.
    """
    tensors = [g if isinstance(g, Tensor) else Tensor(g) for g in grad_outputs]
    if [g.shape for g in tensors] != [o.shape for o in outputs]:
        raise ValueError(
            f"grad_outputs must be one for each output, of its shape: expected {[o.shape for o in outputs]}, "
            f"got {[g.shape for g in tensors]}"
        )
    cotangents = dict(enumerate(tensors if create_graph else [g.data for g in tensors]))
    found = pullback_of(dict(enumerate(outputs)), inputs)(cotangents, create_graph)
    return [g if g is None or isinstance(g, Tensor) else Tensor(g) for g in found]
