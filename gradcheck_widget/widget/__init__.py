"""GradcheckWidget: the checker with sliders for eps, atol and rtol, and pictures of what they do."""

from .main import GradcheckWidget

__all__ = ["GradcheckWidget"]
