"""The room is tested under strict promotion: a stray float32 in the compiled code is an error."""

import jax
import pytest


@pytest.fixture(autouse=True)
def strict_promotion():
    with jax.numpy_dtype_promotion("strict"):
        yield
