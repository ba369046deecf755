"""What PyTorch calls by the entry points of the wheel."""

from __future__ import annotations

import os


def register() -> None:
    """Makes ``init_process_group("gorun")`` work without an import: from PyTorch 2.15."""
    from . import torch_backend  # noqa: F401


def choose() -> None:
    """Ends ``import torch``, from PyTorch 2.5: with GORUN_TORCH_BACKEND=1, in ranks of gorun, ``init_process_group()`` takes gorun for tensors of the CPU."""
    if os.environ.get("GORUN_TORCH_BACKEND") != "1" or "GORUN_RANK" not in os.environ:
        return
    import torch.distributed as dist

    from . import torch_backend  # noqa: F401

    defaults = getattr(dist.Backend, "default_device_backend_map")  # torch's older types lack it
    defaults["cpu"] = "gorun"
