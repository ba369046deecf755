"""gorun for Python: collectives among the ranks of a job.

``import gorun.torch as hvd`` takes the place of horovod.torch, ``gorun.numpy`` does the same for arrays,
``gorun.torch_backend`` is a backend of torch.distributed, and :func:`gorun.run` makes ranks of a function. Importing this
loads neither PyTorch nor NumPy nor the library.
"""

from __future__ import annotations

from ._neighbour import refuse as _refuse

_refuse()  # before anything else is loaded, which may be the other's

from ._run import JobError, run
from ._stacks import offer as _offer
from .errors import (
    ClosedError,
    CorruptedError,
    DuplicateError,
    ForkedError,
    GorunError,
    HostsUpdatedInterrupt,
    InternalError,
    InvalidError,
    MismatchError,
    NoGPUError,
    NotInitializedError,
    PeerError,
    StateLostError,
    TimeoutExpired,
)

_offer()


def __getattr__(name: str) -> str:
    """__version__, which is asked for rarely: reading it takes longer than importing the rest."""
    if name != "__version__":
        raise AttributeError("module 'gorun' has no attribute %r" % name)
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gorun-launcher")
    except PackageNotFoundError:
        return "0+checkout"


__all__ = [
    "ClosedError", "CorruptedError", "DuplicateError", "ForkedError", "GorunError", "HostsUpdatedInterrupt", "InternalError", "InvalidError", "JobError", "MismatchError",
    "NoGPUError", "NotInitializedError", "PeerError", "StateLostError", "TimeoutExpired", "run",
]  # fmt: skip
