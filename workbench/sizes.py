"""Sizes: which devices there are, what memory is free, and how a person reads bytes, counts and FLOPs."""

from __future__ import annotations

import psutil
import torch

from .errors import InputError


def free_memory(device: torch.device) -> int:
    """Bytes that can be allocated on a device."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    return psutil.virtual_memory().available


def size_text(n_bytes: float) -> str:
    """A size as a person reads it: '2.4 TiB', '1.5 GiB', '312.0 MiB', '4.0 KiB'."""
    for unit, size in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes:.0f} bytes"


def count_text(number: float) -> str:
    """A count as the field writes it: '1.40T', '174.60B', '6.90M', '8.19K'."""
    for unit, size in (("T", 1e12), ("B", 1e9), ("M", 1e6), ("K", 1e3)):
        if number >= size:
            return f"{number / size:.2f}{unit}"
    return f"{number:.0f}"


def flops_text(flops: float) -> str:
    """'354.0 GFLOP', '1.2 TFLOP'."""
    for unit, size in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if flops >= size:
            return f"{flops / size:.1f} {unit}FLOP"
    return f"{flops:.0f} FLOP"


def usable_device(device: torch.device | str) -> torch.device:
    """A device that is there; InputError otherwise."""
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"the device {device!r} cannot be used here: {reason}") from None
