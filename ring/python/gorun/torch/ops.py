"""Allreduce, broadcast and barrier on tensors; collect.py has the operations whose result has another shape.

Tensors are dense, on the CPU or on one CUDA GPU of each rank, of bool, int8 to int64, uint8, float16, bfloat16, float32 or float64.
Contiguous ones are not copied. An operation runs when all ranks of the process set have submitted its name; unnamed ones are numbered in
order. Operations on GPU tensors run after the work already on PyTorch's current stream, on another stream; synchronize() makes the current
stream wait, not the caller. All functions raise NotInitializedError before init(), MismatchError if the ranks' tensors differ in shape or
type, DuplicateError for a pending name, PeerError if a rank has failed,
InvalidError for wrong arguments, and ForkedError in a fork. Those whose name ends in _async or _async_ return a handle
for :func:`synchronize`; their tensors must not be touched until then. Those whose name ends in _ write to their tensor.
"""

from __future__ import annotations

import warnings
from typing import Any, Callable, List, Optional, Sequence, Union

import torch

from .. import _sparse
from .._calls import Group, Handle
from .._verbs import Adasum, Average, Max, Min, Product, Sum, Verbs, barrier
from .._world import ProcessSet, global_process_set
from ._tensors import Tensors, differentiable
from .compression import Compression

__all__ = [
    "Adasum", "Average", "Max", "Min", "Product", "Sum", "allreduce", "allreduce_", "allreduce_async", "allreduce_async_",
    "barrier", "broadcast", "broadcast_", "broadcast_async", "broadcast_async_", "grouped_allreduce", "grouped_allreduce_",
    "grouped_allreduce_async", "grouped_allreduce_async_", "join", "poll", "sparse_allreduce_async", "synchronize",
]  # fmt: skip

AnyHandle = Union[Handle, Group]

verbs = Verbs(Tensors())


def _op(average: Optional[bool], op: Optional[int]) -> int:
    """The operation selected by op or by the deprecated average."""
    if average is None:
        return Average if op is None else op
    if op is not None:
        raise ValueError("gorun: give op or average, not both: average is deprecated")
    warnings.warn("gorun: average is deprecated: use op=Average or op=Sum", DeprecationWarning, stacklevel=3)
    return Average if average else Sum


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> AnyHandle:
    """Starts :func:`allreduce`, without a gradient."""
    return verbs.allreduce(tensor, None, name, _op(average, op), prescale_factor, postscale_factor, process_set)


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combines the ranks' tensors of one shape, by average if op is not given. The result has that shape.

    The tensors are multiplied by prescale_factor, the result by postscale_factor. The gradient is allreduced in the same way.
    """
    number = _op(average, op)

    def run(t: torch.Tensor) -> Sequence[torch.Tensor]:
        small, ctx = compression.compress(t)
        handle = verbs.allreduce(small, None, name, number, prescale_factor, postscale_factor, process_set, True)
        return (compression.decompress(handle.synchronize(), ctx),)

    if not tensor.requires_grad:
        return run(tensor)[0]

    def back(gradient: torch.Tensor) -> Sequence[torch.Tensor]:
        return (verbs.allreduce(gradient, None, None, number, prescale_factor, postscale_factor, process_set, True).synchronize(),)

    return differentiable(run, back, (tensor,))[0]


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> AnyHandle:
    """Starts :func:`allreduce_`."""
    return verbs.allreduce(tensor, tensor, name, _op(average, op), prescale_factor, postscale_factor, process_set)


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """:func:`allreduce` into the tensor itself, without a gradient."""
    return verbs.allreduce(tensor, tensor, name, _op(average, op), prescale_factor, postscale_factor, process_set, True).synchronize()


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> AnyHandle:
    """Starts :func:`grouped_allreduce`, without gradients."""
    return verbs.grouped_allreduce(tensors, None, name, _op(average, op), prescale_factor, postscale_factor, process_set)


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """:func:`allreduce` of several tensors, submitted together, so that those of one type are fused."""
    number = _op(average, op)

    def send(ts: Sequence[torch.Tensor], label: Optional[str]) -> List[torch.Tensor]:
        return verbs.grouped_allreduce(ts, None, label, number, prescale_factor, postscale_factor, process_set).synchronize()

    def run(*ts: torch.Tensor) -> Sequence[torch.Tensor]:
        small = [compression.compress(t) for t in ts]
        return [compression.decompress(t, ctx) for t, (_, ctx) in zip(send([t for t, _ in small], name), small)]

    return list(differentiable(run, lambda *gradients: send(gradients, None), tensors))


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> AnyHandle:
    """Starts :func:`grouped_allreduce_`."""
    return verbs.grouped_allreduce(tensors, tensors, name, _op(average, op), prescale_factor, postscale_factor, process_set)


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """:func:`grouped_allreduce` into the tensors themselves, without gradients."""
    return grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set).synchronize()


def sparse_allreduce_async(
    tensor: torch.Tensor, name: str, op: int, process_set: ProcessSet = global_process_set
) -> Callable[[], torch.Tensor]:
    """Starts adding or averaging sparse tensors of one shape. The returned function waits for the result.

    All ranks' indices and values are gathered, so the result is as large as all of them together.
    """
    if not tensor.is_sparse:
        raise ValueError("gorun: sparse_allreduce_async of a dense tensor: use allreduce_async")
    if op not in (Average, Sum):
        raise NotImplementedError("gorun: sparse_allreduce_async: use op=Average or op=Sum")
    indices = verbs.allgather(tensor._indices().t().contiguous(), name + ".indices", process_set)
    values = verbs.allgather(tensor._values(), name + ".values", process_set)

    def finish() -> torch.Tensor:
        at = indices.synchronize().t()
        what = values.synchronize()
        if op == Average:
            what = what / process_set.size()
        return _sparse.tensor_of(at, what, tensor.shape)

    return finish


def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> AnyHandle:
    """Starts :func:`broadcast`, without a gradient."""
    return verbs.broadcast(tensor, None, root_rank, name, process_set)


def broadcast(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Returns the root's tensor on all ranks. All tensors have its shape and type. root_rank is a rank of the job.

    The root's gradient is the average of all ranks' gradients; the others' is zero.
    """

    def run(t: torch.Tensor) -> Sequence[torch.Tensor]:
        return (verbs.broadcast(t, None, root_rank, name, process_set, True).synchronize(),)

    def back(gradient: torch.Tensor) -> Sequence[torch.Tensor]:
        mean = verbs.allreduce(gradient, None, None, Average, 1.0, 1.0, process_set, True).synchronize()
        return (mean if process_set.rank() == process_set.index(root_rank) else torch.zeros_like(mean),)

    return differentiable(run, back, (tensor,))[0]


def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> AnyHandle:
    """Starts :func:`broadcast_`."""
    return verbs.broadcast(tensor, tensor, root_rank, name, process_set)


def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """:func:`broadcast` into the tensor itself, without a gradient."""
    return verbs.broadcast(tensor, tensor, root_rank, name, process_set, True).synchronize()


def join(device: int = -1) -> int:
    """Declares that this rank has no more data. Returns when all ranks have joined, with the rank that joined last.

    Until then this rank contributes zeros to the others' allreduces of Sum and Average, which divides by the number of all ranks. Their
    other operations raise MismatchError. device is ignored.
    """
    return global_process_set.channel_or_raise().join()


def poll(handle: AnyHandle) -> bool:
    """Whether an operation is done, so that :func:`synchronize` would not wait."""
    return handle.done()


def synchronize(handle: AnyHandle) -> Any:
    """Waits for an operation and returns its output, or raises its error. Ctrl-C ends the wait, not the operation."""
    return handle.synchronize()
