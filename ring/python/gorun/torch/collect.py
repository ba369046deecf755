"""Allgather, alltoall and reduce-scatter on tensors. ops.py says which tensors are taken, and what all can raise."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import torch

from .._verbs import Average, Sum
from .._world import ProcessSet, global_process_set
from ._tensors import differentiable, splits_of
from .compression import Compression
from .ops import AnyHandle, verbs


def allgather_async(tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> AnyHandle:
    """Starts :func:`allgather`, without a gradient."""
    return verbs.allgather(tensor, name, process_set)


def allgather(tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> torch.Tensor:
    """The ranks' tensors one after the other along the first dimension, in which alone they may differ.

    A tensor without dimensions counts as one of one row. The gradient is this rank's rows of the average gradient.
    """
    return grouped(lambda ts, rows: [verbs.allgather(ts[0], name, process_set, rows[0]).synchronize()], (tensor,), process_set)[0]


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> AnyHandle:
    """Starts :func:`grouped_allgather`, without gradients."""
    return verbs.grouped_allgather(tensors, name, process_set)


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[torch.Tensor]:
    """:func:`allgather` of several tensors."""
    return grouped(lambda ts, rows: verbs.grouped_allgather(ts, name, process_set, rows).synchronize(), tensors, process_set)


def grouped(gather: Any, tensors: Sequence[torch.Tensor], process_set: ProcessSet) -> List[torch.Tensor]:
    """What gather makes of tensors and lists for the ranks' rows, with gradients."""
    rows: List[List[int]] = [[] for _ in tensors]

    def back(*gradients: torch.Tensor) -> Sequence[torch.Tensor]:
        means = verbs.grouped_allreduce(gradients, None, None, Average, 1.0, 1.0, process_set).synchronize()
        mine = process_set.rank()
        return [
            mean.narrow(0, sum(n[:mine]), n[mine]).reshape(t.shape) for mean, n, t in zip(means, rows, tensors)
        ]

    return list(differentiable(lambda *ts: gather(ts, rows), back, tensors))


def alltoall_async(
    tensor: torch.Tensor, splits: Optional[Any] = None, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> AnyHandle:
    """Starts :func:`alltoall`, without a gradient."""
    rows: List[int] = []
    handle = verbs.alltoall(tensor, splits_of(splits), name, process_set, rows)
    if splits is not None:
        assert handle.finish is not None  # it makes the tensor
        finish = handle.finish
        handle.finish = lambda h: (finish(h), torch.tensor(rows, dtype=torch.int32))
    return handle


def alltoall(
    tensor: torch.Tensor, splits: Optional[Any] = None, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """Sends splits[i] rows of the tensor to rank i, and returns the rows that came, with how many from each rank (int32).

    Without splits each rank gets as many, and only the rows are returned. Tensors may differ in the first dimension.
    Gradients go back the same way.
    """
    rows: List[int] = []
    chosen = splits_of(splits)

    def run(t: torch.Tensor) -> Sequence[torch.Tensor]:
        return (verbs.alltoall(t, chosen, name, process_set, rows).synchronize(),)

    def back(gradient: torch.Tensor) -> Sequence[torch.Tensor]:
        return (verbs.alltoall(gradient, rows, None, process_set).synchronize(),)

    output = differentiable(run, back, (tensor,))[0]
    return output if splits is None else (output, torch.tensor(rows, dtype=torch.int32))


def reducescatter_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> AnyHandle:
    """Starts :func:`reducescatter`, without a gradient."""
    return verbs.reducescatter(tensor, name, op, prescale_factor, postscale_factor, process_set)


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """This rank's rows of the ranks' tensors combined, which have one shape.

    Of n rows and s ranks each gets n // s, the first n % s one more. The gradient is gathered from all ranks.
    """
    return _scatter(
        lambda ts: [verbs.reducescatter(ts[0], name, op, prescale_factor, postscale_factor, process_set).synchronize()],
        (tensor,),
        compression,
        op,
        prescale_factor * postscale_factor,
        process_set,
    )[0]


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> AnyHandle:
    """Starts :func:`grouped_reducescatter`, without gradients."""
    return verbs.grouped_reducescatter(tensors, name, op, prescale_factor, postscale_factor, process_set)


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[torch.Tensor]:
    """:func:`reducescatter` of several tensors, submitted as one."""
    return _scatter(
        lambda ts: verbs.grouped_reducescatter(ts, name, op, prescale_factor, postscale_factor, process_set).synchronize(),
        tensors,
        compression,
        op,
        prescale_factor * postscale_factor,
        process_set,
    )


def _scatter(
    send: Any, tensors: Sequence[torch.Tensor], compression: Any, op: int, factor: float, process_set: ProcessSet
) -> List[torch.Tensor]:
    def run(*ts: torch.Tensor) -> Sequence[torch.Tensor]:
        small = [compression.compress(t) for t in ts]
        return [compression.decompress(t, ctx) for t, (_, ctx) in zip(send([t for t, _ in small]), small)]

    def back(*gradients: torch.Tensor) -> Sequence[torch.Tensor]:
        by = factor * (process_set.size() if op == Sum else 1)
        return verbs.grouped_allgather([g * by for g in gradients], None, process_set).synchronize()

    return list(differentiable(run, back, tensors))
