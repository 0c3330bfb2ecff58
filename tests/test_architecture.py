"""The rooms of the house: which may import which, and what an import of the package costs."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import gradcheck_widget

PACKAGE = Path(gradcheck_widget.__file__).parent
# a room imports only from rooms before it
ROOMS = [
    "errors",
    "tensor",
    "engines",
    "jacobians",
    "projections",
    "probes",
    "measurement",
    "comparison",
    "sweep",
    "findings",
    "report",
    "diagnosis",
    "check",
    "plots",
    "widget",
]
RUN_TIME = {"gradcheck_widget", "numpy", "matplotlib", "ipywidgets", "traitlets"}  # traitlets comes with ipywidgets
FILES = sorted(p for p in PACKAGE.rglob("*.py") if p.parent != PACKAGE or p.name != "__init__.py")
IDS = [str(p.relative_to(PACKAGE)) for p in FILES]


def room(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(path: Path) -> list[str]:
    """Full names of all that a file imports, wherever in it, also for type checking only."""
    package = ["gradcheck_widget", *path.relative_to(PACKAGE).parts[:-1]]
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, [base, node.module]))
            found += [f"{module}.{alias.name}" for alias in node.names]
    return found


def rooms_imported(path: Path) -> set[str]:
    inside = [name.split(".")[1] for name in imports(path) if name.startswith("gradcheck_widget.")]
    return set(inside) - {room(path)}


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_a_room_imports_only_from_rooms_before_it(path):
    assert room(path) in ROOMS, "a new room: give it its place in DESIGN and here"
    backwards = {r for r in rooms_imported(path) if r not in ROOMS[: ROOMS.index(room(path))]}
    assert not backwards, f"{path.name} imports {backwards}, which come after it"


def test_the_reading_of_imports_sees_every_way_to_import(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    (tmp_path / "engines").mkdir()
    file = tmp_path / "engines" / "x.py"
    file.write_text(
        "import gradcheck_widget.report\nfrom ..check import gradcheck\n"
        "from .. import plots\nfrom .base import Engine\n"
        "def f():\n    from gradcheck_widget import widget\n    import numpy.linalg\n"
    )
    assert rooms_imported(file) == {"report", "check", "plots", "widget"}
    assert "gradcheck_widget.engines.base.Engine" in imports(file)
    assert "numpy.linalg" in imports(file)


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_nothing_is_imported_that_the_package_does_not_depend_on(path):
    outside = {name.split(".")[0] for name in imports(path)} - RUN_TIME - set(sys.stdlib_module_names)
    assert not outside - ({path.stem} if room(path) == "engines" else set())


def test_the_import_of_the_package_loads_nothing_but_numpy():
    heavy = ["matplotlib", "ipywidgets", "traitlets", "IPython", "torch", "jax", "autograd", "tensorplay", "scipy"]
    code = f"import sys, gradcheck_widget; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_pyplot_is_nowhere_in_the_package():
    used = [str(p) for p in PACKAGE.rglob("*.py") if any("pyplot" in name.split(".") for name in imports(p))]
    assert used == []
    strings = [str(p) for p in PACKAGE.rglob("*.py") if "pyplot" in _code(p)]
    assert strings == []


def _code(path: Path) -> str:
    """The source without comments and docstrings."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            node.value.value = None
    return ast.unparse(tree)


def test_a_public_function_never_bears_the_name_of_a_module():
    modules = {p.stem for p in PACKAGE.rglob("*.py")} | {p.name for p in PACKAGE.iterdir() if p.is_dir()}
    assert not modules & set(gradcheck_widget.__all__)


def test_the_public_names_can_be_listed_and_imported():
    namespace: dict[str, object] = {}
    exec("from gradcheck_widget import *", namespace)
    assert set(gradcheck_widget.__all__) <= set(namespace)
    assert set(gradcheck_widget.__all__) <= set(dir(gradcheck_widget))
    with pytest.raises(AttributeError, match="no attribute 'gradchek'"):
        gradcheck_widget.gradchek  # noqa: B018


def _documented() -> list[tuple[str, object]]:
    """The public names, and the public methods that they define."""
    found: list[tuple[str, object]] = []
    for name in gradcheck_widget.__all__:
        thing = getattr(gradcheck_widget, name)
        found.append((name, thing))
        if inspect.isclass(thing) and name not in ("Tensor", "Function"):  # theirs are NumPy's and PyTorch's
            found += [
                (f"{name}.{attribute}", member)
                for attribute, member in vars(thing).items()
                if not attribute.startswith("_") and (inspect.isfunction(member) or isinstance(member, property))
            ]
    return found


@pytest.mark.parametrize(("name", "thing"), _documented(), ids=[n for n, _ in _documented()])
def test_every_public_name_has_a_docstring(name, thing):
    assert (thing.__doc__ or "").strip(), f"help({name}) says nothing"


@pytest.mark.parametrize("path", [PACKAGE / "__init__.py", *FILES], ids=["__init__.py", *IDS])
def test_every_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text()))
