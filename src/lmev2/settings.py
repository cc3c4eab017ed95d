"""Base of all settings models."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Settings(BaseModel):
    """Unknown keys are errors, values do not change after checking."""

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True)
