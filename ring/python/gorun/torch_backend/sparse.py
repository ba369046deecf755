"""The sum of sparse tensors: all ranks get all elements."""

from __future__ import annotations

import ctypes
import math
import os
from typing import List

import torch

from .. import _ring as ring
from .. import _sparse, errors
from . import memory
from .engine import Engine
from .work import Work


def allreduce(engine: Engine, tensor: torch.Tensor) -> Work:
    """Adds the tensors of all ranks, of one shape and type, into each. It waits until that is done."""
    if tensor.device.type != "cpu":
        raise errors.InvalidError("gorun: allreduce: a sparse tensor on %s: use tensor.cpu()" % tensor.device)
    mine = tensor.detach().coalesce()
    ranks = engine.comm.size
    width = mine.sparse_dim()
    counts = (ctypes.c_int64 * ranks)()
    count = ctypes.c_int64(mine._nnz())
    call = ring.call(ring.ALLGATHER, ring.INT64, dst=ctypes.addressof(counts), dst_count=ranks, src=ctypes.addressof(count), src_count=1)
    _wait(engine, engine.start("allreduce of sparse tensors", [call], [], (counts, count)))
    lengths = list(counts)
    most = math.prod(mine.shape[:width])
    for rank, n in enumerate(lengths):
        if not 0 <= n <= most:
            raise errors.MismatchError("gorun: allreduce of sparse tensors: rank %d says that it has %d elements, of at most %d" % (rank, n, most))
    element = 8 * width + mine.element_size() * math.prod(mine.shape[width:])
    memory_of_machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if sum(lengths) * element > memory_of_machine:
        raise errors.MismatchError(
            "gorun: allreduce of sparse tensors: the ranks say that they have %d elements of %d bytes, rank %d the most, which is more than this machine's memory"
            % (sum(lengths), element, lengths.index(max(lengths)))
        )
    indices = _gather(engine, mine.indices().t().contiguous(), lengths)
    values = _gather(engine, mine.values().contiguous(), lengths)
    total = _sparse.tensor_of(indices.reshape(-1, width).t(), values, mine.shape).coalesce()
    with torch.no_grad():
        tensor.copy_(total)
    return Work(engine.keeper, "allreduce of sparse tensors", (), [tensor])


def _gather(engine: Engine, rows: torch.Tensor, lengths: List[int]) -> torch.Tensor:
    """The rows of all ranks, by rank. A row of lengths is one of the tensor."""
    all_rows = rows.new_empty((sum(lengths),) + tuple(rows.shape[1:]))
    dst = memory.writes(all_rows)
    src = memory.reads(rows)
    wide = dst.count // sum(lengths) if sum(lengths) else 0
    call = ring.call(
        ring.ALLGATHER, dst.dtype, dst=dst.address, dst_count=dst.count, src=src.address, src_count=src.count, counts=[n * wide for n in lengths]
    )
    _wait(engine, engine.start("allreduce of sparse tensors", [call], [dst, src], all_rows))
    return all_rows


def _wait(engine: Engine, work: Work) -> None:
    if engine.coalescing is not None:
        engine.coalescing.remove(work)
    work.wait()
