"""gorun for Python: gorun.torch and gorun.numpy, collectives between the ranks that gorun starts.

Importing this loads neither PyTorch nor NumPy nor the library.
"""

from __future__ import annotations

from .errors import (
    ClosedError,
    DuplicateError,
    ForkedError,
    GorunError,
    InternalError,
    InvalidError,
    MismatchError,
    NotInitializedError,
    PeerError,
    TimeoutExpired,
)

__all__ = [
    "ClosedError", "DuplicateError", "ForkedError", "GorunError", "InternalError", "InvalidError", "MismatchError",
    "NotInitializedError", "PeerError", "TimeoutExpired", "__version__",
]  # fmt: skip


def __getattr__(name: str) -> str:
    if name != "__version__":
        raise AttributeError("module 'gorun' has no attribute %r" % name)
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("gorun")
    except PackageNotFoundError:
        return "(devel)"
