"""The errors of this package. Each is a :class:`GorunError`."""

from __future__ import annotations


class GorunError(RuntimeError):
    """An operation failed. The text names the operation, the rank and what to do."""


class InvalidError(GorunError, ValueError):
    """Wrong arguments. Nothing was sent."""


class MismatchError(GorunError):
    """Ranks called different operations, or one with different shapes or types. Only this operation fails."""


class PeerError(GorunError):
    """A rank or host failed; all later operations fail too. ``rank`` is the rank that failed first, or -1."""

    def __init__(self, text: str, rank: int = -1) -> None:
        super().__init__(text)
        self.rank = rank


class ClosedError(GorunError):
    """This rank has shut down, or has closed the object."""


class TimeoutExpired(GorunError, TimeoutError):
    """The timeout has passed. The operation goes on."""


class DuplicateError(GorunError, ValueError):
    """A pending operation uses the name."""


class ForkedError(GorunError):
    """This process is a fork of the one that called init. Start it with the method "spawn" or "forkserver"."""


class InternalError(GorunError):
    """A bug in the library."""


class NotInitializedError(GorunError, ValueError):
    """init() was not called, or shutdown() was."""


class NoGPUError(GorunError):
    """This rank or another has no GPU or driver. CPU tensors still work."""


class StateLostError(GorunError):
    """No remaining rank has the state of the elastic job. Start it again, from a checkpoint if there is one."""


class CorruptedError(GorunError):
    """Ranks that should have the same parameters have others. The text names them."""


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts of an elastic job have joined or will leave: the ranks continue in another epoch. Not a failure."""

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("gorun: the job's hosts have changed: let this reach the function that elastic.run calls")
        self.skip_sync = skip_sync  # ranks keep their state, since no new one comes; gorun always passes False
