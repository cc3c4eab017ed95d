"""Want of memory in PyTorch: how it shows, and what helps."""

from __future__ import annotations

import gc

_SIGNS = ("out of memory", "can't allocate memory", "not enough memory")


def out_of_memory(error: BaseException) -> bool:
    """Whether an error of PyTorch says that memory ran out, on a GPU or on the CPU."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(sign in str(error).lower() for sign in _SIGNS)
    )


def free_memory() -> None:
    """Give back what PyTorch keeps of freed memory on the GPU."""
    import torch

    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
