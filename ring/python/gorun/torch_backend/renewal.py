"""A group whose ranks change: it stays, and its engine gets the communicator of another epoch.

Between epochs, and before the first, the group is detached: each rank is alone with its calls, which end at once. So a process can make
its groups and models, for which others would have to be there, before it is in an epoch.
"""

from __future__ import annotations

from typing import Any, List, NamedTuple, Optional, Sequence

import torch

from .. import _job
from .. import _ring as ring
from .. import errors
from .engine import Engine
from .memory import Part
from .work import Work


class Renewable(NamedTuple):
    """What init_process_group gets as pg_options for a group whose ranks change."""

    rank: int
    size: int


class _Detached:
    """In place of a communicator."""

    def __init__(self, place: Renewable) -> None:
        self.rank, self.size = place

    def private(self) -> "_Detached":
        return self

    def close(self) -> None:
        pass


class RenewableEngine(Engine):
    """An engine that joins one epoch after another."""

    def __init__(self, place: Renewable, timeout: Optional[float], store: Any) -> None:
        self.tolerant = False  # calls end well if a rank is lost: whoever makes the step asks for failure afterwards
        self.muted = True  # calls end at once, here alone
        self.failure: Optional[errors.GorunError] = None  # why calls of this epoch were of no use
        self.attached = False
        self._begin(_Detached(place), timeout, store)

    def _begin(self, comm: Any, timeout: Optional[float], store: Any) -> None:
        super().__init__(comm, list(range(comm.size)), "renewed", timeout, store)
        self.keeper.absorb = self._absorb

    def join(self) -> None:
        """Waits for the next epoch and joins it. Raises PeerError if none follows."""
        world = _job.join(timeout_ms=int((self.timeout or 0) * 1000))
        try:
            comm = world.dup()
        except BaseException:
            _job.leave()
            raise
        users = self.users
        self.keeper.close()
        self._begin(comm, self.timeout, self.store)
        self.users, self.failure, self.attached = users, None, True

    def leave(self) -> None:
        """Leaves the epoch. What is under way fails. Without an epoch it does nothing."""
        if not self.attached:
            return
        self.attached, self.muted, users = False, True, list(self.users)
        place = Renewable(self.comm.rank, self.comm.size)
        super().close()
        self._begin(_Detached(place), self.timeout, self.store)
        self.users = users

    def close(self) -> None:
        if self.attached:
            self.attached = False
            super().close()

    def _absorb(self, error: BaseException) -> Optional[BaseException]:
        if not self.tolerant or not isinstance(error, (errors.PeerError, errors.ClosedError)):
            return error
        self.failure = self.failure or error
        return None

    def start(self, what: str, calls: Sequence[ring.Call], parts: Sequence[Part], outputs: object, here: bool = False) -> Work:
        if not self.muted and self.failure is None:
            try:
                return super().start(what, calls, parts, outputs, here)
            except errors.GorunError as e:
                if self._absorb(e) is not None:
                    raise
        if any(call.kind == ring.ALLGATHER for call in calls):
            _repeat(*parts)
        work = Work(self.keeper, what, (), outputs, [p.copy_back for p in parts if p.copy_back])
        work.settle(0)
        return self.started(work)

    def part(self, name: str, ranks: Sequence[int], timeout: Optional[float], store: Any) -> Engine:
        raise errors.InvalidError("gorun: groups of some of the ranks are not renewed when ranks are replaced: use the group of all ranks")


def _repeat(dst: Part, src: Part) -> None:
    """Gathers from all ranks what this one has."""
    inputs: List[torch.Tensor] = list(src.keep)
    with torch.no_grad():
        for output in dst.keep:
            times = output.numel() // max(1, inputs[0].numel())
            output.copy_(inputs[0].reshape(-1).repeat(times).view(output.shape))
