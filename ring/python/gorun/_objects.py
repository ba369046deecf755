"""Python objects between ranks: pickled, as bytes in a queue."""

from __future__ import annotations

import ctypes
import pickle
from typing import Any, List, Optional

from . import _ring
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
    """Returns the root's object on all ranks. Objects of other ranks are ignored."""
    channel = process_set.channel_or_raise()
    root = process_set.index(root_rank)
    data = _dump(obj) if channel.rank == root else b""
    length = ctypes.c_int64(len(data))
    base = channel.name("broadcast_object", name)

    def send(what: bytes, dtype: int, memory: Any, count: int) -> None:
        channel.submit(
            base + what, _ring.BROADCAST, dtype, root=root, dst=ctypes.addressof(memory), dst_count=count, keep=memory
        ).synchronize()

    send(b".size", _ring.INT64, length, 1)
    memory = ctypes.create_string_buffer(data, max(length.value, 1))
    send(b".data", _ring.UINT8, memory, length.value)
    return obj if channel.rank == root else pickle.loads(memory.raw)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """Returns the objects of all ranks, by rank."""
    channel = process_set.channel_or_raise()
    data = _dump(obj)
    memory = ctypes.create_string_buffer(data, len(data))

    def finish(h: Handle) -> List[Any]:
        at, _, counts = h.result(channel.size)
        objects = []
        for n in counts:
            objects.append(pickle.loads(ctypes.string_at(at, n)))
            at += n
        h.release()
        return objects

    return channel.submit_v(
        channel.name("allgather_object", name), _ring.ALLGATHER, _ring.UINT8, ctypes.addressof(memory), len(data), None, (), memory, finish
    ).synchronize()
