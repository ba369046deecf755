"""Python objects between ranks, as bytes in a queue.

Objects of programs are pickled: whoever has one rank of a job can run code in those that receive from it. What this package exchanges for
itself is data (:mod:`gorun._data`).
"""

from __future__ import annotations

import ctypes
import pickle
from typing import Any, List, Optional

from . import _data, _ring, errors
from ._calls import Handle
from ._world import ProcessSet, global_process_set


def _dump(thing: Any) -> bytes:
    try:
        return pickle.dumps(thing)
    except (pickle.PicklingError, AttributeError, TypeError):
        try:
            import cloudpickle  # what pickle cannot do: functions and classes of __main__
        except ImportError:
            pass
        else:
            return cloudpickle.dumps(thing)
        raise


def broadcast_object(obj: Any, root_rank: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """Returns the root's object on all ranks. Objects of other ranks are ignored.

    The object is pickled: the root can run code on the other ranks.
    """
    data = _broadcast(_dump(obj) if _is_root(root_rank, process_set) else b"", root_rank, "broadcast_object", name, process_set)
    return obj if _is_root(root_rank, process_set) else pickle.loads(data)


def broadcast_data(value: Any, root_rank: int, name: str, process_set: ProcessSet = global_process_set) -> Any:
    """Returns the root's value on all ranks. It is data, and receiving it runs no code."""
    data = _broadcast(_data.dump(value) if _is_root(root_rank, process_set) else b"", root_rank, "broadcast_data", name, process_set)
    return value if _is_root(root_rank, process_set) else _load(data, name, root_rank)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """Returns the objects of all ranks, by rank.

    Objects are pickled: every rank can run code on the others.
    """
    return [pickle.loads(data) for data in _allgather(_dump(obj), "allgather_object", name, process_set)]


def allgather_data(value: Any, name: str) -> List[Any]:
    """Returns the values of all ranks, by rank. They are data, and receiving them runs no code."""
    return [_load(data, name, rank) for rank, data in enumerate(_allgather(_data.dump(value), "allgather_data", name, global_process_set))]


PIECE = 64 << 20  # bytes of an object that are sent at a time
VALUES = 1 << 20  # in what this package exchanges for itself: each takes more memory than it has bytes


def _load(data: bytes, name: str, rank: int) -> Any:
    try:
        return _data.load(data, VALUES)
    except _data.DataError as e:
        raise errors.MismatchError("gorun: %s: what rank %d sent cannot be read: %s" % (name, rank, e)) from None


def _is_root(root_rank: int, process_set: ProcessSet) -> bool:
    return process_set.channel_or_raise().rank == process_set.index(root_rank)


def _broadcast(data: bytes, root_rank: int, kind: str, name: Optional[str], process_set: ProcessSet) -> bytes:
    """Returns the root's bytes on all ranks."""
    channel = process_set.channel_or_raise()
    root = process_set.index(root_rank)
    length = ctypes.c_int64(len(data))
    base = channel.name(kind, name)

    def send(what: bytes, dtype: int, memory: Any, count: int) -> None:
        channel.submit(
            base + what, _ring.BROADCAST, dtype, root=root, dst=ctypes.addressof(memory), dst_count=count, keep=memory
        ).synchronize()

    send(b".size", _ring.INT64, length, 1)
    if length.value < 0:
        raise errors.MismatchError("gorun: %s: rank %d says that it sends %d bytes" % (kind, root_rank, length.value))
    came = []
    for at in range(0, max(length.value, 1), PIECE):  # memory is taken as the bytes come, not because the root says that they will
        n = min(PIECE, length.value - at)
        memory = ctypes.create_string_buffer(data[at : at + n], max(n, 1))
        send(b".data", _ring.UINT8, memory, n)
        came.append(memory.raw[:n])
    return data if channel.rank == root else b"".join(came)


def _allgather(data: bytes, kind: str, name: Optional[str], process_set: ProcessSet) -> List[bytes]:
    """Returns the bytes of all ranks, by rank."""
    channel = process_set.channel_or_raise()
    memory = ctypes.create_string_buffer(data, len(data))

    def finish(h: Handle) -> List[bytes]:
        at, _, counts = h.result(channel.size)
        parts = []
        for n in counts:
            parts.append(ctypes.string_at(at, n))
            at += n
        h.release()
        return parts

    parts: List[bytes] = channel.submit_v(
        channel.name(kind, name), _ring.ALLGATHER, _ring.UINT8, ctypes.addressof(memory), len(data), None, (), memory, finish
    ).synchronize()
    return parts
