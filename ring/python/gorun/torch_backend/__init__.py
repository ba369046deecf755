"""torch.distributed by the ring: ``import gorun.torch_backend``, then ``dist.init_process_group("gorun")``.

It moves tensors of the CPU and of CUDA GPUs. The ranks are those that gorun has started. A DistributedDataParallel of another backend's group can
have only its gradients moved by the ring: ``model.register_comm_hook(None, gorun.torch_backend.ddp_hook)``.
"""

import inspect
from typing import Any, Optional, Tuple

import torch
import torch.distributed as dist

from .. import _cuda, _job, _ring, errors
from . import collectives, dynamo, engine, group, memory, pairs, renewal, sparse, work
from .collectives import seconds
from .engine import Engine
from .group import Group, make
from .renewal import Renewable, RenewableEngine

__all__ = ["Group", "ddp_hook"]


class _Registry:
    """The groups of this process."""

    def __init__(self) -> None:
        self.worlds = 0  # how many groups of all ranks: names of groups are used once
        self.hook: Optional[Group] = None

    def register(self) -> None:
        if "GORUN" in getattr(dist.Backend, "_plugins", {}):
            return
        more = {}
        if "devices" in inspect.signature(dist.Backend.register_backend).parameters:  # torch 2.0
            more["devices"] = ["cpu", "cuda"]
        dist.Backend.register_backend("gorun", self.create, extended_api=True, **more)

    def create(self, options: Any, more: Any = None) -> Any:
        """Makes a group or a backend for torch: of the ranks in options, which alone call it, or of all ranks."""
        ranks = list(options.global_ranks_in_group)
        timeout = seconds(options.timeout)
        store = getattr(options, "store", None)
        if isinstance(more, Renewable):
            return make(RenewableEngine(more, timeout, store), _alone(options))
        if not ranks:
            return make(self.engine(timeout, (options.group_rank, options.group_size), store), _alone(options))
        whole = getattr(dist.group.WORLD, "engine", None)
        if isinstance(whole, RenewableEngine):
            return make(whole.part("part/%s" % options.group_id, ranks, timeout, store), _alone(options))
        world = _job.join()
        name = "torch%d/%s" % (self.worlds, options.group_id)
        try:
            return make(Engine(world.group(name, ranks, timeout), ranks, name, timeout, store), _alone(options))
        except BaseException:
            _job.leave()
            raise

    def engine(self, timeout: Optional[float], place: Optional[Tuple[int, int]] = None, store: Any = None) -> Engine:
        """Makes an engine of all ranks. place is torch's rank and world size."""
        comm = _job.join(timeout_ms=int((timeout or 0) * 1000))
        try:
            if place is not None and place != (comm.rank, comm.size):
                raise errors.InvalidError(
                    "gorun: torch takes this process for rank %d of %d, and gorun for rank %d of %d: start the ranks with gorun, "
                    "and leave RANK and WORLD_SIZE as it sets them" % (place + (comm.rank, comm.size))
                )
            part = comm.dup()
        except BaseException:
            _job.leave()
            raise
        self.worlds += 1
        return Engine(part, list(range(comm.size)), "torch%d" % self.worlds, timeout, store)


def _alone(options: Any) -> bool:
    """Whether the group that torch makes is to have this backend only, so that it may be a group of this package.

    Torch's own group, which has several backends ("cpu:gorun,cuda:nccl"), has the type of another one as its default, or has a backend
    already. With TORCH_DISTRIBUTED_DEBUG=DETAIL torch puts checks between its group and its backends.
    """
    group = getattr(options, "process_group", None)
    if group is None:
        return True
    detail = getattr(dist, "get_debug_level", None)
    if detail is not None and detail() == dist.DebugLevel.DETAIL:
        return False
    return not group._device_types and group.name() == "custom"


_registry = _Registry()
_registry.register()
dynamo.leave_alone(_cuda, _job, _ring, collectives, engine, group, memory, pairs, renewal, sparse, work)


# Its parameters have no annotations: DDP compares them with types, which those of later Pythons are not.
def ddp_hook(state, bucket):
    """Averages gradients by ring. state is a group of backend gorun, or None for all ranks."""
    group = state
    if group is None:
        if _registry.hook is None:
            _registry.hook = Group(_registry.engine(None))
        group = _registry.hook
    options = dist.AllreduceOptions()
    options.reduceOp = dist.ReduceOp.AVG
    return group.allreduce([bucket.buffer()], options).get_future().then(_first)


def _first(future: "torch.futures.Future[Any]") -> torch.Tensor:
    return future.value()[0]
