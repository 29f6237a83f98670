"""Sizes in memory: what is free, and how a person reads it."""

from __future__ import annotations

import psutil
import torch


def free_memory(device: torch.device) -> int:
    """Bytes that can be allocated on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def size_text(n_bytes: float) -> str:
    """A size as a person reads it: '1.5 GiB', '312 MiB', '4 KiB'."""
    for unit, size in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes:.0f} bytes"
