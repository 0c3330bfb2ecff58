"""What a diagnosis says: a cause by name, how sure it is, the numbers that show it, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType

__all__ = ["CAUSES", "CONFIDENCES", "Finding"]

CAUSES: Mapping[str, str] = MappingProxyType(
    {
        # the gradient is wrong
        "wrong-scale": "the gradient is a constant times the right one",
        "sign-flip": "the gradient is minus the right one, everywhere or in places",
        "transposed": "the right numbers stand at swapped indices",
        "missing-term": "a part of the chain rule is absent",
        "missing-batch-sum": "the gradient of a broadcast input is not summed over the axes it was broadcast along",
        "missing-accumulation": "an element that is used several times gets one contribution only",
        "not-scaled-by-grad-output": "backward does not multiply by grad_output",
        "wrong-saved-value": "the right formula, evaluated with another value than the one it needs",
        "detached": "a part of the graph is cut off, so no gradient flows there",
        "wrong-shape": "the gradient has another shape than its input",
        "wrong-dtype": "the gradient is computed or stored in too coarse a dtype",
        "complex-convention": "a complex conjugate is missing, or one too many",
        "undefined-grad": "backward cannot take a missing (None) grad_output",
        "nan-or-inf": "the gradient is NaN or infinite where the function has a derivative",
        "surrogate-gradient": "the function is a staircase, and its gradient deliberately another function's",
        "symmetric-input": "a function of symmetric matrices, of which single entries were moved",
        "function-mismatch": "both sides differentiate different functions, or at different points",
        # the check cannot see the derivative
        "float32-precision": "inputs, or something inside the function, have too few digits for the step",
        "kink": "the function has a kink, a tie or a jump at this point or within eps of it",
        "step-too-small": "rounding or solver noise exceeds what eps moves",
        "step-too-large": "the function curves on the scale of eps",
        "large-magnitude": "the value is huge beside its variation, which drowns in rounding",
        "domain-edge": "the input, or the input moved by eps, lies outside of the function's domain",
        "nondeterministic": "two runs on the same input differ",
        "overlapping-memory": "several elements of the input share one memory cell",
        "inplace-modification": "the function writes into its input, or something saved is changed later",
        "integer-input": "an input stands for integers, which have no derivative",
        "no-input-requires-grad": "nothing was marked to be checked",
        # it passes, and may still be wrong
        "grad-output-hides-bug": "backward is not linear in grad_output, which unit vectors do not show",
        "test-point-hides-bug": "the gradient is wrong, but not at this point or for these shapes",
        "tolerance-too-loose": "the gradient is, or could be, wrong by less than the tolerance",
        "input-not-checked": "an input on which the result depends was left out of the check",
        "cannot-tell": "the numbers do not decide it",
    }
)
CONFIDENCES = ("certain", "likely", "possible")


@dataclass(frozen=True)
class Finding:
    """One likely cause of a failure, or one reason why a pass is worth less than it looks.

    Attributes
    ----------
    cause : str
        One of `CAUSES`, such as ``'wrong-scale'``.
    confidence : str
        ``'certain'``, ``'likely'`` or ``'possible'``.
    evidence : str
        What was seen, in numbers.
    remedy : str
        What to do.

    Raises
    ------
    ValueError
        If cause or confidence is not one of these.
    """

    cause: str
    confidence: str
    evidence: str
    remedy: str

    def __post_init__(self) -> None:
        if self.cause not in CAUSES:
            raise ValueError(f"unknown cause {self.cause!r}: it must be one of {', '.join(CAUSES)}")
        if self.confidence not in CONFIDENCES:
            raise ValueError(f"confidence must be one of {', '.join(CONFIDENCES)}, got {self.confidence!r}")

    @property
    def meaning(self) -> str:
        """The cause in a few words."""
        return CAUSES[self.cause]

    def to_dict(self) -> dict[str, str]:
        """Plain data, ready for JSON."""
        return asdict(self)

    def lines(self) -> tuple[str, str]:
        """Two lines for reading: the cause with its evidence, and the remedy."""
        return f"{self.cause} ({self.confidence}): {self.evidence}", self.remedy

    def __str__(self) -> str:
        return "\n  ".join(self.lines())
