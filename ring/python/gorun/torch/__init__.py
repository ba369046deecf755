"""Collectives on PyTorch's tensors, with the names and arguments of horovod.torch: change the import, and it runs.

    import gorun.torch as hvd
    hvd.init()
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
"""

from __future__ import annotations

from typing import Any

from .._objects import allgather_object, broadcast_object
from .._world import (
    ProcessSet,
    add_process_set,
    cross_rank,
    cross_size,
    global_process_set,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    process_set_ids,
    rank,
    remove_process_set,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from ..errors import GorunError, HostsUpdatedInterrupt
from . import elastic
from .collect import (
    allgather,
    allgather_async,
    alltoall,
    alltoall_async,
    grouped_allgather,
    grouped_allgather_async,
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from .compression import Compression
from .functions import broadcast_optimizer_state, broadcast_parameters
from .ops import (
    Adasum,
    Average,
    Max,
    Min,
    Product,
    Sum,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    join,
    poll,
    sparse_allreduce_async,
    synchronize,
)
from .optimizer import DistributedOptimizer
from .probes import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from .sync_batch_norm import SyncBatchNorm

#: Scripts written for horovod catch this when a rank fails. elastic.run continues after a PeerError, and after one that is
#: raised by the script itself.
HorovodInternalError = GorunError


def __getattr__(name: str) -> Any:
    """Resilient and init_process_group, which need torch.distributed: not every PyTorch has it."""
    if name not in ("Resilient", "init_process_group"):
        raise AttributeError("module 'gorun.torch' has no attribute %r" % name)
    from . import resilient

    return getattr(resilient, name)


__all__ = [name for name in dir() if not name.startswith("_") and name not in ("annotations", "Any", "GorunError")]
