"""Collectives on NumPy arrays, with horovod's names and arguments.

    import gorun.numpy as hvd
    hvd.init()
    total = hvd.allreduce(x, op=hvd.Sum)

Arrays are of bool, int8 to int64, uint8, uint64, float16 to float64 or ml_dtypes' bfloat16. All functions raise
NotInitializedError before init(), MismatchError if the ranks' arrays differ in shape or type, PeerError if a rank has failed, InvalidError
for wrong arguments and ForkedError in a fork. Those whose name ends in _async return a handle
for :func:`synchronize`; the arrays must not be touched until then. Those whose name ends in _ write to their array.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import numpy as np

from . import _ring, errors
from ._calls import Group, Handle
from ._objects import allgather_object, broadcast_object
from ._verbs import Adasum, Arrays, Average, Max, Min, Product, Sum, Verbs, View, barrier
from ._world import (
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

__all__ = [
    "Adasum", "Average", "Max", "Min", "ProcessSet", "Product", "Sum", "add_process_set", "allgather", "allgather_async",
    "allgather_object", "allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "alltoall", "barrier", "broadcast",
    "broadcast_", "broadcast_object", "cross_rank", "cross_size", "global_process_set", "grouped_allgather",
    "grouped_allreduce", "grouped_reducescatter", "init", "is_homogeneous", "is_initialized", "join", "local_rank", "local_size",
    "poll", "process_set_ids", "rank", "reducescatter", "remove_process_set", "shutdown", "size", "start_timeline",
    "stop_timeline", "synchronize",
]  # fmt: skip

Array = np.ndarray

_DTYPES = {
    "bool": _ring.BOOL, "int8": _ring.INT8, "uint8": _ring.UINT8, "int16": _ring.INT16, "int32": _ring.INT32, "int64": _ring.INT64,
    "uint64": _ring.UINT64, "float16": _ring.FLOAT16, "bfloat16": _ring.BFLOAT16, "float32": _ring.FLOAT32, "float64": _ring.FLOAT64,
}  # fmt: skip


class _Numpy(Arrays):
    def view(self, array: Any) -> View:
        dtype = _DTYPES.get(array.dtype.name) if array.dtype.isnative else None
        if dtype is None:
            raise errors.InvalidError("gorun: arrays of %s are not taken: convert it to one of %s" % (array.dtype, ", ".join(_DTYPES)))
        return View(dtype, array.ctypes.data, array.size, array.shape)

    def is_contiguous(self, array: Any) -> bool:
        if not array.flags.writeable:
            raise errors.InvalidError("gorun: the array is read-only: give a copy")
        return bool(array.flags.c_contiguous)

    def contiguous(self, array: Any) -> Any:
        array = np.asanyarray(array)
        return array if array.flags.c_contiguous else array.copy(order="C")

    def empty(self, shape: Sequence[int], like: Any) -> Any:
        return np.empty(tuple(shape), np.asanyarray(like).dtype)

    def copy(self, to: Any, array: Any) -> None:
        to[...] = array

    def scaled(self, array: Any, factor: float) -> Any:
        wide = np.float32 if array.dtype.itemsize == 2 and array.dtype.kind not in "iu" else np.float64
        if array.dtype.kind == "f" and array.dtype.itemsize > 2:
            wide = array.dtype.type
        return np.asarray(array.astype(wide) * wide(factor)).astype(array.dtype)


_verbs = Verbs(_Numpy())


def allreduce_async(
    tensor: Array,
    name: Optional[str] = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts :func:`allreduce`."""
    return _verbs.allreduce(tensor, None, name, op, prescale_factor, postscale_factor, process_set)


def allreduce(
    tensor: Array,
    name: Optional[str] = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Combines the ranks' arrays of one shape, by average if op is not given. The result has that shape."""
    return _verbs.allreduce(tensor, None, name, op, prescale_factor, postscale_factor, process_set, True).synchronize()


def allreduce_async_(
    tensor: Array,
    name: Optional[str] = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Starts :func:`allreduce_`."""
    return _verbs.allreduce(tensor, tensor, name, op, prescale_factor, postscale_factor, process_set)


def allreduce_(
    tensor: Array,
    name: Optional[str] = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """:func:`allreduce` into the array itself."""
    return _verbs.allreduce(tensor, tensor, name, op, prescale_factor, postscale_factor, process_set, True).synchronize()


def grouped_allreduce(
    tensors: Sequence[Array],
    name: Optional[str] = None,
    op: int = Average,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[Array]:
    """:func:`allreduce` of several arrays, submitted together."""
    return _verbs.grouped_allreduce(tensors, None, name, op, prescale_factor, postscale_factor, process_set).synchronize()


def allgather_async(tensor: Array, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Handle:
    """Starts :func:`allgather`."""
    return _verbs.allgather(tensor, name, process_set)


def allgather(tensor: Array, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Array:
    """Concatenates the ranks' arrays along the first dimension. Only that dimension may differ."""
    return allgather_async(tensor, name, process_set).synchronize()


def grouped_allgather(tensors: Sequence[Array], name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Array]:
    """:func:`allgather` of several arrays."""
    return _verbs.grouped_allgather(tensors, name, process_set).synchronize()


def broadcast(tensor: Array, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Array:
    """Returns the root's array on all ranks. All arrays have its shape and type. root_rank is a rank of the job."""
    return _verbs.broadcast(tensor, None, root_rank, name, process_set, True).synchronize()


def broadcast_(tensor: Array, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Array:
    """:func:`broadcast` into the array itself."""
    return _verbs.broadcast(tensor, tensor, root_rank, name, process_set, True).synchronize()


def alltoall(
    tensor: Array, splits: Optional[Sequence[int]] = None, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Union[Array, Tuple[Array, Array]]:
    """Sends splits[i] rows of the array to rank i. Returns the received rows, and their number from each rank.

    Without splits the parts are equal, and only the rows are returned. Arrays may differ in the first dimension.
    """
    lengths: List[int] = []
    chosen = None if splits is None else [int(n) for n in splits]
    output = _verbs.alltoall(tensor, chosen, name, process_set, lengths).synchronize()
    return output if splits is None else (output, np.array(lengths, np.int32))


def reducescatter(
    tensor: Array,
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Array:
    """Combines the arrays and returns this rank's rows: n // s of n rows for s ranks, one more for the first n % s."""
    return _verbs.reducescatter(tensor, name, op, prescale_factor, postscale_factor, process_set).synchronize()


def grouped_reducescatter(
    tensors: Sequence[Array],
    name: Optional[str] = None,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[Array]:
    """:func:`reducescatter` of several arrays, submitted together."""
    return _verbs.grouped_reducescatter(tensors, name, op, prescale_factor, postscale_factor, process_set).synchronize()


def join() -> int:
    """Declares that this rank has no more data. Returns when all ranks have joined, with the rank that joined last.

    Until then this rank contributes zeros to the others' allreduces of Sum and Average; their other operations raise MismatchError.
    """
    return global_process_set.channel_or_raise().join()


def poll(handle: Union[Handle, Group]) -> bool:
    """Whether an operation is done, so that :func:`synchronize` would not wait."""
    return handle.done()


def synchronize(handle: Union[Handle, Group]) -> Any:
    """Waits for an operation and returns its output, or raises its error. Ctrl-C ends the wait."""
    return handle.synchronize()
