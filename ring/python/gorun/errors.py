"""What can go wrong. Every error of this package is a :class:`GorunError`."""

from __future__ import annotations


class GorunError(RuntimeError):
    """An operation failed. The text says which one, on which rank, and what to do."""


class InvalidError(GorunError, ValueError):
    """Wrong arguments. Nothing was sent, and all goes on."""


class MismatchError(GorunError):
    """The ranks called different things, or the same with other shapes or types. Only this operation fails."""


class PeerError(GorunError):
    """A rank or a host has failed, and nothing works any more. ``rank`` is the one that failed first, or -1."""

    def __init__(self, text: str, rank: int = -1) -> None:
        super().__init__(text)
        self.rank = rank


class ClosedError(GorunError):
    """This rank has shut down, or closed what it calls."""


class TimeoutExpired(GorunError, TimeoutError):
    """The time is over, and the operation goes on."""


class DuplicateError(GorunError, ValueError):
    """The name is in use by an operation that is not over."""


class ForkedError(GorunError):
    """This process is a fork of the one that called init. Start it with the method "spawn" or "forkserver"."""


class InternalError(GorunError):
    """A fault of the library."""


class NotInitializedError(GorunError, ValueError):
    """init() was not called, or shutdown() was."""


class NoGPUError(GorunError):
    """This rank, or another one, has no GPU or no driver for it. All goes on, with tensors of the CPU."""


class StateLostError(GorunError):
    """No rank of an elastic job is left that has its state. Start it again, from a checkpoint if there is one."""


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts of an elastic job have come or are to go, and the ranks meet again in another epoch. No fault."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("gorun: the job's hosts have changed: let this reach the function that elastic.run calls")
        self.skip_sync = skip_sync  # no new rank comes, so nobody needs the state; gorun always says False
