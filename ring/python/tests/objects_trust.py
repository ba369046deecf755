"""Only the calls that promise objects unpickle what other ranks send. Rank 1 tries to have rank 0 create the file of the argument."""

import ctypes
import os
import pickle
import resource
import struct
import sys

import numpy as np

import gorun.numpy as ring
from gorun import MismatchError, _data, _objects, _ring

mark = sys.argv[1]


class Touch:
    def __reduce__(self):
        return open, (mark, "w")


ring.init()
rank = ring.rank()
assert ring.allreduce(np.ones(3), op=ring.Sum).tolist() == [2, 2, 2]
try:
    if rank == 1:  # in the place of the ranks of a process set
        _objects._allgather(pickle.dumps(Touch()), "allgather_data", "add_process_set", ring.global_process_set)
    else:
        ring.add_process_set([0])
        raise SystemExit("rank 1 was believed")
except MismatchError as e:
    assert "add_process_set: what rank 1 sent cannot be read" in str(e), e
try:
    if rank == 1:  # in the place of names of parameters
        _objects._broadcast(pickle.dumps(Touch()), 1, "broadcast_data", "optimizer.groups", ring.global_process_set)
    else:
        _objects.broadcast_data(None, 1, "optimizer.groups")
        raise SystemExit("rank 1 was believed")
except MismatchError as e:
    assert "optimizer.groups: what rank 1 sent cannot be read" in str(e), e
for value in ("\x1b[2J" * 1000, np.zeros(2), [np.zeros(2)]):
    try:
        if rank == 1:
            _objects.allgather_data(value, "add_process_set")
        else:
            ring.add_process_set([0])
            raise SystemExit("rank 1 was believed")
    except MismatchError as e:
        assert "rank 1 one of what are no ranks" in str(e) and len(str(e)) < 200, e
try:
    if rank == 1:  # which take some thirty times their bytes
        many = b"[" + b"[]," * _objects.VALUES + b"0]"
        _objects._allgather(_data.MAGIC + struct.pack(">Q", len(many)) + many, "allgather_data", "add_process_set", ring.global_process_set)
    else:
        ring.add_process_set([0])
        raise SystemExit("rank 1 was believed")
except MismatchError as e:
    assert "rank 1 sent cannot be read: it has more than" in str(e), e

# The memory for an object is that of the bytes that come.
def send_size(what):
    size = ctypes.c_int64(what)
    channel = ring.global_process_set.channel_or_raise()
    at = ctypes.addressof(size)
    channel.submit(b"broadcast_data.size.size", _ring.BROADCAST, _ring.INT64, root=1, dst=at, dst_count=1, keep=size).synchronize()


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


try:
    if rank == 1:
        send_size(-1)
    else:
        _objects.broadcast_data(None, 1, "size")
        raise SystemExit("rank 1 was believed")
except MismatchError as e:
    assert "rank 1 says that it sends -1 bytes" in str(e), e
before = peak()
try:
    if rank == 1:
        send_size(2 << 30)
        channel = ring.global_process_set.channel_or_raise()
        short = ctypes.create_string_buffer(1)
        at = ctypes.addressof(short)
        channel.submit(b"broadcast_data.size.data", _ring.BROADCAST, _ring.UINT8, root=1, dst=at, dst_count=1, keep=short).synchronize()
    else:
        _objects.broadcast_data(None, 1, "size")
    raise SystemExit("rank 1 was believed")
except MismatchError:
    pass
assert peak() - before < 1 << 29, "%d MiB more" % (peak() - before >> 20)
ring.add_process_set([0])
assert not os.path.exists(mark)
assert _objects.broadcast_data({"a": (1, rank)}, 1, "x") == {"a": (1, 1)} and _objects.allgather_data((rank, b"x"), "y") == [(0, b"x"), (1, b"x")]

ring.broadcast_object(Touch() if rank == 1 else None, 1)  # as docs/python.md warns
ring.barrier()
assert os.path.exists(mark)
print("all right")
