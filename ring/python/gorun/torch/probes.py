"""What horovod can be asked about how it was built. gorun moves tensors itself, and those of the CPU only."""

from __future__ import annotations


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
    """0: no version of NCCL is used."""
    return 0


def ddl_built() -> bool:
    """False: gorun does not use DDL."""
    return False


def ccl_built() -> bool:
    """False: gorun does not use oneCCL."""
    return False


def cuda_built() -> bool:
    """False: tensors of GPUs are not taken."""
    return False


def rocm_built() -> bool:
    """False: tensors of GPUs are not taken."""
    return False
