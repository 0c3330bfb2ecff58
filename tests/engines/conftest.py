import numpy  # noqa: F401  (tensorplay looks for its LAPACK library)
import pytest
import tensorplay

# tensorplay finds a LAPACK library at its first use, and finds none once scipy.linalg is loaded
tensorplay.linalg.det(tensorplay.eye(2, dtype=tensorplay.float64))

pytest.register_assert_rewrite("conformance")
