"""Which engine the inputs belong to. A framework that the user's inputs did not bring along is never imported."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from .base import Engine, Evaluator, Linearization, Pushforward, Snapshot, flatten, type_name

__all__ = ["ENGINES", "Engine", "Evaluator", "Linearization", "Pushforward", "Snapshot", "find_engine"]

# name of the engine -> its module here and its class; `autograd` works on plain arrays and is only chosen by name
ENGINES = {
    "numpy": ("numpy", "NumpyEngine"),
    "torch": ("torch", "TorchEngine"),
    "jax": ("jax", "JaxEngine"),
    "tensorplay": ("tensorplay", "TensorplayEngine"),
    "autograd": ("autograd", "AutogradEngine"),
}
# top-level module of a tensor's class -> the engine that it belongs to
HOMES = {"gradcheck_widget": "numpy", "torch": "torch", "jax": "jax", "jaxlib": "jax", "tensorplay": "tensorplay"}

_loaded: dict[str, Engine] = {}


def find_engine(inputs: Sequence[Any], engine: str | Engine | None = None) -> Engine:
    """The engine called `engine`; by default that of the tensors among `inputs`, the embedded one if there are none.

    Raises
    ------
    ValueError
        If there is no engine of this name.
    ImportError
        If its framework is not installed, or cannot be imported.
    TypeError
        If `inputs` hold tensors of several frameworks.
    """
    if isinstance(engine, Engine):
        return engine
    if engine is not None:
        return _load(engine)
    found: dict[str, str] = {}
    for place, x in _leaves(inputs):
        home = _home(x)
        if home is not None:
            found.setdefault(home, f"{place} is {type_name(x)}")
    if len(found) > 1:
        raise TypeError(f"inputs must be tensors of one framework, but {' and '.join(found.values())}")
    return _load(next(iter(found), "numpy"))


def _load(name: Any) -> Engine:
    if not isinstance(name, str) or name not in ENGINES:
        hint = f": pass an instance, {name.__name__}()" if isinstance(name, type) and issubclass(name, Engine) else ""
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}, or an Engine; got {name!r}{hint}")
    if name not in _loaded:
        module, cls = ENGINES[name]
        try:
            found = importlib.import_module(f"{__name__}.{module}")
        except ImportError as error:
            missing = isinstance(error, ModuleNotFoundError) and error.name == name
            what = f"is not installed: pip install {name}" if missing else f"cannot be imported: {error}"
            raise ImportError(f"engine={name!r} needs the package {name}, which {what}", name=name) from error
        _loaded[name] = getattr(found, cls)()
    return _loaded[name]


def _home(x: Any) -> str | None:
    for cls in type(x).__mro__:
        home = HOMES.get(cls.__module__.split(".")[0])
        if home is not None and hasattr(cls, "shape"):
            return home
    return "torch" if sys.modules.get("torch") and hasattr(type(x), "__torch_function__") else None


def _leaves(inputs: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for i, x in enumerate(inputs):
        leaves, paths, _ = flatten(x, lambda leaf: _home(leaf) is not None)
        for leaf, path in zip(leaves, paths, strict=True):
            yield f"input {i}{path}", leaf
        jax = sys.modules.get("jax")  # None stands there where the import is forbidden
        if jax and _home(x) is None:  # classes that are registered as pytrees
            for leaf in jax.tree_util.tree_leaves(x):
                if _home(leaf) == "jax":
                    yield f"input {i}", leaf
