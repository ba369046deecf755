"""Elastic jobs: ranks fail, join and leave, and the others continue with the state. The names are horovod's.

    hvd.init()
    state = gorun.elastic.ObjectState(weights=weights, step=0)

    @gorun.elastic.run
    def train(state):
        while state.step < 1000:
            ...
            state.step += 1
            state.commit()

    train(state)

:mod:`gorun.torch.elastic` has the state of models and optimizers. None of this needs PyTorch.
"""

from __future__ import annotations

import copy
import ctypes
import functools
from typing import Any, Callable, Dict, List, Optional, TypeVar

from . import _job, _ring, errors
from ._objects import allgather_data, broadcast_object
from ._world import global_process_set, init, rank, shutdown
from .errors import HostsUpdatedInterrupt, StateLostError

__all__ = ["HostsUpdatedInterrupt", "ObjectState", "State", "StateLostError", "run"]

Result = TypeVar("Result")


class State:
    """The state of a rank. Subclasses implement :meth:`save`, :meth:`restore` and :meth:`sync`."""

    def __init__(self, bcast_object: Optional[Callable[..., Any]] = None, get_rank: Optional[Callable[[], int]] = None) -> None:
        self._bcast_object = bcast_object or broadcast_object
        self._rank = get_rank or rank
        self._reset_callbacks: List[Callable[[], None]] = []
        self._host_messages = _Messages()

    def register_reset_callbacks(self, callbacks: List[Callable[[], None]]) -> None:
        """Registers functions to call after each change of the ranks, before :meth:`sync`: to adapt a learning rate to size(), for example."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Called after each change of the ranks."""
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def commit(self) -> None:
        """Saves the state, and raises HostsUpdatedInterrupt if hosts have joined or will leave.

        All ranks call it at the same point. A failed rank costs the work since the last commit.
        """
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt on all ranks if hosts have joined or will leave. All ranks call it at the same point."""
        if _hosts_updated():
            raise HostsUpdatedInterrupt(False)

    def save(self) -> None:
        """Keeps the state in memory."""
        raise NotImplementedError()

    def restore(self) -> None:
        """Returns the state to the last save."""
        raise NotImplementedError()

    def sync(self) -> None:
        """Copies the present state of rank 0 to all ranks, and saves it."""
        raise NotImplementedError()

    def reset(self) -> None:
        """Called after a change of the ranks, before the callbacks."""


class _Messages:
    """A replacement for horovod's queue of host messages, which scripts inspect."""

    def empty(self) -> bool:
        job = _job.joined()
        return job is None or not job.hosts_updated()


class ObjectState(State):
    """Named Python objects. They become attributes; save and restore copy them, sync pickles them."""

    def __init__(self, bcast_object: Optional[Callable[..., Any]] = None, get_rank: Optional[Callable[[], int]] = None, **kwargs: Any) -> None:
        self._saved_state: Dict[str, Any] = {}
        super().__init__(bcast_object, get_rank)
        self._set_attrs(kwargs)
        self._saved_state = copy.deepcopy(kwargs)

    def _set_attrs(self, values: Dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def _attrs(self) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in self._saved_state}

    def save(self) -> None:
        self._saved_state = copy.deepcopy(self._attrs())

    def restore(self) -> None:
        self._set_attrs(copy.deepcopy(self._saved_state))

    def sync(self) -> None:
        if self._saved_state:
            self._set_attrs(self._bcast_object(self._attrs()))
        self.save()


def _hosts_updated() -> bool:
    """Whether any rank knows that hosts have joined or will leave. A collective in elastic jobs."""
    job = _job.joined()
    if job is None or job.epoch == 0:
        return False
    channel = global_process_set.channel_or_raise()
    heard = ctypes.c_int32(job.hosts_updated())
    at = ctypes.addressof(heard)
    channel.submit(
        b"elastic.hosts_updated", _ring.ALLREDUCE, _ring.INT32, op=_ring.SUM, dst=at, dst_count=1, src=at, src_count=1, keep=heard, here=True
    ).synchronize()
    return heard.value != 0


# What a process knows of the job's state.
_UNBORN, _HEARD, _OWNED = range(3)  # no rank had any; others had it and this one did not get it; this one has it


class _Trip:
    """The course of a process through the epochs."""

    def __init__(self) -> None:
        self.owns = _UNBORN
        self.late = False
        self.begun = False

    def enter(self, state: State) -> None:
        """Copies the state of rank 0 to all ranks. Raises StateLostError if rank 0 joined later and never received it."""
        job = _job.joined()
        if job is not None and job.epoch > 0:
            if not self.begun:
                self.begun = True
                self.late = job.first_epoch > 1
            if self.late and job.epoch > job.first_epoch:  # others may have trained in the epoch that this one failed to join
                self.owns = max(self.owns, _HEARD)
            try:
                said = allgather_data(self.owns, "elastic.state")
            except errors.PeerError:
                if self.late:
                    self.owns = max(self.owns, _HEARD)
                raise
            for other, owns in enumerate(said):
                if type(owns) is not int:
                    raise errors.MismatchError("gorun: elastic.state: rank %d does not say whether it has the job's state" % other)
            heard = [str(other) for other, owns in enumerate(said) if owns > _UNBORN]
            if heard:
                self.owns = max(self.owns, _HEARD)
                if said[0] != _OWNED:
                    raise StateLostError(
                        "gorun: rank 0 has not got the job's state, of which rank %s has heard: who had it is gone, so start the job again, from a checkpoint"
                        % " or ".join(heard)
                    )
        state.sync()
        self.owns = _OWNED


def _broken(error: errors.GorunError) -> bool:
    """Whether the error reports a failed rank, or a script raised it as such. Other errors would repeat."""
    job = _job.joined()
    return job is not None and job.epoch > 0 and (isinstance(error, errors.PeerError) or type(error) is errors.GorunError)


def run(func: Callable[..., Result]) -> Callable[..., Result]:
    """Decorates a function of a :class:`State`: it is called once in each epoch of an elastic job.

    When another rank fails (PeerError, or a HorovodInternalError that the function raises), the state is restored to the last save; when
    hosts change (HostsUpdatedInterrupt), it is kept. Then the ranks join the next epoch with new numbers, the callbacks run, rank 0's state
    is copied to all, and the function is called again. Other errors are raised, because they would repeat. In a job that is not elastic the
    function is called once, and all errors are raised.
    """

    @functools.wraps(func)
    def wrapper(state: State, *args: Any, **kwargs: Any) -> Result:
        trip = _Trip()
        again = False
        while True:
            try:
                if again:
                    state.on_reset()
                trip.enter(state)
                return func(state, *args, **kwargs)
            except errors.GorunError as e:
                if not _broken(e):
                    raise
                state.restore()
            except HostsUpdatedInterrupt:
                pass
            shutdown()
            init()
            again = True

    return wrapper
