"""What embedding backends that run in this process share: the query's form, and the last steps of a vector."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from lmev2.models.types import ModelCallError, ModelSetupError


def with_instruction(instruction: str, query: str) -> str:
    """A query in the instruction form of the embedding model; the query alone without instruction."""
    return f"Instruct: {instruction}\nQuery:{query}" if instruction else query


def unit_vector(vector: npt.NDArray[np.floating], dimension: int, model: str) -> npt.NDArray[np.float32]:
    """The first ``dimension`` numbers of a vector as an L2-normalised one of shape (dimension,).

    Raises:
        ModelCallError: ``malformed_reply`` when the vector has no direction.
    """
    columns = vector[:dimension].astype(np.float64)
    norm = float(np.linalg.norm(columns))
    if not np.isfinite(norm) or norm == 0:
        raise ModelCallError("malformed_reply", f"{model} returned a vector of length {norm}, which has no direction")
    return (columns / norm).astype(np.float32)


def check_dimension(model: str, own: int, wanted: int, matryoshka: bool) -> None:
    """Whether a model with vectors of ``own`` numbers can give vectors of ``wanted`` numbers.

    Raises:
        ModelSetupError: it cannot, or only by leaving out columns, which ``matryoshka`` does not allow.
    """
    if wanted > own:
        raise ModelSetupError(f"{model} makes vectors of {own} numbers; `dimension` is {wanted}, set it to {own}")
    if wanted < own and not matryoshka:
        raise ModelSetupError(
            f"{model} makes vectors of {own} numbers, `dimension` is {wanted}. Set it to {own}, or, if the model was "
            "trained so that the first columns are a vector by themselves, set `matryoshka: true`"
        )
