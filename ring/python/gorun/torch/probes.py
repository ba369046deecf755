"""What horovod can be asked about how it was built. gorun moves tensors of the CPU itself, and those of GPUs by NCCL."""

from __future__ import annotations

import torch


def mpi_built() -> bool:
    """False: gorun does not use MPI."""
    return False


def mpi_enabled() -> bool:
    """False: gorun does not use MPI."""
    return False


def mpi_threads_supported() -> bool:
    """False: gorun does not use MPI."""
    return False


def gloo_built() -> bool:
    """False: gorun does not use Gloo."""
    return False


def gloo_enabled() -> bool:
    """False: gorun does not use Gloo."""
    return False


def nccl_built() -> int:
    """The version of PyTorch's NCCL as a number, such as 21805; 0 where no GPU can be used, or PyTorch has none."""
    if not torch.cuda.is_available() or not hasattr(torch._C, "_nccl_version"):
        return 0
    major, minor, patch = torch.cuda.nccl.version()[:3]  # type: ignore[attr-defined]  # a suffix may follow
    return int(major * 10000 + minor * 100 + patch)


def ddl_built() -> bool:
    """False: gorun does not use DDL."""
    return False


def ccl_built() -> bool:
    """False: gorun does not use oneCCL."""
    return False


def cuda_built() -> bool:
    """Whether there are tensors of GPUs to be taken."""
    return torch.cuda.is_available()


def rocm_built() -> bool:
    """False: tensors of AMD's GPUs are not taken."""
    return False
