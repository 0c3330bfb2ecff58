"""The embedded engine: a NumPy array that knows its derivatives. Importing this registers all rules."""

from . import elementwise, linalg, reductions, shaping  # noqa: F401  (they register their rules)
from .core import CONSTANT, HANDLERS, RULES, Tensor, grad
from .function import Context, Function, from_backward, from_jacobian

__all__ = ["CONSTANT", "HANDLERS", "RULES", "Context", "Function", "Tensor", "from_backward", "from_jacobian", "grad"]
