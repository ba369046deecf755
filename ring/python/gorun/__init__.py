"""gorun for Python: collectives among the ranks of a job.

``import gorun.torch as hvd`` takes the place of horovod.torch, ``gorun.numpy`` does the same for arrays,
``gorun.torch_backend`` is a backend of torch.distributed, and :func:`gorun.run` makes ranks of a function. Importing this
loads neither PyTorch nor NumPy nor the library.
"""

from __future__ import annotations

from ._run import JobError, run
from ._stacks import offer as _offer
from .errors import (
    ClosedError,
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

__version__ = "0.1.0"

_offer()

__all__ = [
    "ClosedError", "DuplicateError", "ForkedError", "GorunError", "HostsUpdatedInterrupt", "InternalError", "InvalidError", "JobError", "MismatchError",
    "NoGPUError", "NotInitializedError", "PeerError", "StateLostError", "TimeoutExpired", "__version__", "run",
]  # fmt: skip
