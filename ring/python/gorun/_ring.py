"""libring.so by ctypes. ring.h says what each function does; here they become methods and exceptions.

The library is loaded when a :class:`Library` is made, not before: it starts threads, which do not survive a fork.
"""

from __future__ import annotations

import ctypes
import os
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from typing import List, Optional, Sequence, Tuple, Union

from . import _checkout, errors
from ._place import place

ABI = 1

INT8, UINT8, INT32 = range(3)
INT64, UINT64, FLOAT16, FLOAT32, FLOAT64, BFLOAT16 = range(4, 10)
BOOL, INT16 = range(64, 66)

SUM, PROD, MAX, MIN, AVG = range(5)
BAND, BOR, BXOR = range(64, 67)

BARRIER, BROADCAST, ALLGATHER, ALLREDUCE, REDUCE = range(1, 6)
REDUCE_SCATTER, GATHER, SCATTER, ALLTOALL, MESSAGE = range(6, 11)

OK, INVALID, MISMATCH, PEER, CLOSED, TIMEOUT, DUPLICATE, FORKED, INTERNAL, NO_GPU = range(10)

# How long a wait may keep Python's signal handlers waiting: Ctrl-C among them.
PATIENCE_MS = 100

# After so many such waits a report of a stall may come, which names the program's line.
LONG = 5


class Call(ctypes.Structure):
    """ring_call."""

    _fields_ = [
        ("size", c_size_t),
        ("kind", c_int32),
        ("dtype", c_int32),
        ("op", c_int32),
        ("root", c_int32),
        ("to", c_int32),
        ("from_", c_int32),
        ("dst", c_void_p),
        ("dst_count", c_uint64),
        ("src", c_void_p),
        ("src_count", c_uint64),
        ("counts", POINTER(c_int64)),
        ("sends", POINTER(c_int64)),
        ("shape", c_char_p),
    ]


class InitOptions(ctypes.Structure):
    """ring_init_options."""

    _fields_ = [("size", c_size_t), ("timeout_ms", c_int64), ("stall_ms", c_int64), ("left_epoch", c_int64)]


class QueueOptions(ctypes.Structure):
    """ring_queue_options."""

    _fields_ = [("size", c_size_t), ("fusion_bytes", c_int64), ("cache_names", c_int64), ("stall_ms", c_int64)]


class Info(ctypes.Structure):
    """ring_info."""

    _fields_ = [
        ("size", c_size_t),
        ("rank", c_int32),
        ("ranks", c_int32),
        ("local_rank", c_int32),
        ("local_ranks", c_int32),
        ("cross_rank", c_int32),
        ("cross_ranks", c_int32),
        ("host", ctypes.c_char * 256),
        ("epoch", c_int32),
        ("first_epoch", c_int32),
    ]


class DeviceOptions(ctypes.Structure):
    """ring_device_options."""

    _fields_ = [("size", c_size_t), ("open_ms", c_int64), ("timeout_ms", c_int64)]


class DeviceInfo(ctypes.Structure):
    """ring_device_info."""

    _fields_ = [("size", c_size_t), ("native", c_int32), ("how", ctypes.c_char * 256)]


# The functions of ring.h, as (result, arguments). A test compares them with the header.
FUNCTIONS = {
    "ring_abi": (c_uint32, []),
    "ring_version": (c_char_p, []),
    "ring_error_name": (c_char_p, [c_int]),
    "ring_last_error": (c_char_p, []),
    "ring_failed_rank": (c_int32, []),
    "ring_error_text": (c_int, [c_uint64, c_char_p, c_size_t]),
    "ring_init": (c_int, [POINTER(c_uint64), POINTER(InitOptions)]),
    "ring_close": (c_int, [c_uint64]),
    "ring_split": (c_int, [c_uint64, c_int32, c_int32, POINTER(c_uint64)]),
    "ring_group": (c_int, [c_uint64, c_char_p, POINTER(c_int32), c_size_t, c_int64, POINTER(c_uint64)]),
    "ring_private": (c_int, [c_uint64]),
    "ring_abort": (c_int, [c_uint64, c_char_p]),
    "ring_waits_at": (c_int, [c_uint64, c_char_p]),
    "ring_comm_info": (c_int, [c_uint64, POINTER(Info)]),
    "ring_check_hosts": (c_int, [c_uint64, POINTER(c_int)]),
    "ring_hosts_updated": (c_int, [c_uint64, POINTER(c_int)]),
    "ring_run": (c_int, [c_uint64, POINTER(Call), c_int64]),
    "ring_allreduce": (c_int, [c_uint64, c_void_p, c_void_p, c_uint64, c_int32, c_int32]),
    "ring_reduce": (c_int, [c_uint64, c_void_p, c_void_p, c_uint64, c_int32, c_int32, c_int32]),
    "ring_reduce_scatter": (c_int, [c_uint64, c_void_p, c_void_p, c_uint64, c_int32, c_int32]),
    "ring_allgather": (c_int, [c_uint64, c_void_p, c_void_p, c_uint64, c_int32]),
    "ring_alltoall": (c_int, [c_uint64, c_void_p, c_void_p, c_uint64, c_int32]),
    "ring_broadcast": (c_int, [c_uint64, c_void_p, c_uint64, c_int32, c_int32]),
    "ring_barrier": (c_int, [c_uint64]),
    "ring_send": (c_int, [c_uint64, c_void_p, c_uint64, c_int32, c_int32]),
    "ring_recv": (c_int, [c_uint64, c_void_p, c_uint64, c_int32, c_int32]),
    "ring_start": (c_int, [c_uint64, POINTER(Call), POINTER(c_uint64)]),
    "ring_start_here": (c_int, [c_uint64, POINTER(Call), POINTER(c_uint64)]),
    "ring_poll": (c_int, [c_uint64, POINTER(c_int)]),
    "ring_wait": (c_int, [c_uint64, c_int64]),
    "ring_release": (c_int, [c_uint64]),
    "ring_queue_open": (c_int, [c_uint64, POINTER(QueueOptions), POINTER(c_uint64)]),
    "ring_queue_close": (c_int, [c_uint64]),
    "ring_submit": (c_int, [c_uint64, c_char_p, POINTER(Call), POINTER(c_uint64)]),
    "ring_submit_here": (c_int, [c_uint64, c_char_p, POINTER(Call), POINTER(c_uint64)]),
    "ring_join": (c_int, [c_uint64, POINTER(c_int32), POINTER(c_uint64)]),
    "ring_submit_group": (c_int, [c_uint64, c_size_t, POINTER(c_char_p), POINTER(Call), POINTER(c_uint64)]),
    "ring_submit_v": (c_int, [c_uint64, c_char_p, POINTER(Call), POINTER(c_uint64)]),
    "ring_result": (c_int, [c_uint64, POINTER(c_void_p), POINTER(c_uint64), POINTER(POINTER(c_int64))]),
    "ring_submit_device": (c_int, [c_uint64, c_int32, c_void_p, c_size_t, POINTER(c_char_p), POINTER(Call), POINTER(c_uint64)]),
    "ring_device_open": (c_int, [c_uint64, c_int32, POINTER(DeviceOptions), POINTER(c_uint64)]),
    "ring_device_close": (c_int, [c_uint64]),
    "ring_device_get_info": (c_int, [c_uint64, POINTER(DeviceInfo)]),
    "ring_device_run": (c_int, [c_uint64, c_void_p, c_size_t, POINTER(Call), POINTER(ctypes.c_double)]),
    "ring_device_wait": (c_int, [c_uint64, c_int64]),
    "ring_device_error": (c_int, [c_uint64]),
    "ring_timeline_start": (c_int, [c_uint64, c_char_p, c_int]),
    "ring_timeline_stop": (c_int, [c_uint64]),
}


def find_library() -> str:
    """The path of libring.so: from GORUN_RING, in the wheel, or in a checkout of this user."""
    named = os.environ.get("GORUN_RING")
    place: Optional[Path] = Path(named) if named else Path(__file__).resolve().parent / "_native" / "libring.so"
    if not named and place and not place.exists():
        place = _checkout.find("lib/libring.so") or place
    if place and place.exists():
        return str(place)
    raise errors.GorunError(
        "gorun: there is no libring.so at %s: install the wheel, or run make build in a checkout that others cannot change, or set GORUN_RING" % place
    )


class Library:
    """libring.so, loaded."""

    def __init__(self, path: Optional[str] = None) -> None:
        self.path = path or find_library()
        try:
            self.c = ctypes.CDLL(self.path)
        except OSError as e:
            raise errors.GorunError("gorun: load %s: %s" % (self.path, e)) from None
        for name, (result, arguments) in FUNCTIONS.items():
            try:
                function = getattr(self.c, name)
            except AttributeError:
                raise errors.GorunError("gorun: %s has no %s: it is of another version" % (self.path, name)) from None
            function.restype = result
            function.argtypes = arguments
        abi = self.c.ring_abi()
        if abi != ABI:
            raise errors.GorunError("gorun: %s has ABI %d, and this package wants %d" % (self.path, abi, ABI))

    def check(self, code: int) -> None:
        """Raises the error of a code other than OK."""
        if code != OK:
            raise self.error(code)

    def error(self, code: int) -> errors.GorunError:
        """The exception for the error that the library just returned to this thread."""
        text = self.c.ring_last_error().decode("utf-8", "replace")
        if code == TIMEOUT and "timed out" not in text:  # programs look for these words
            text = "timed out: " + text
        if code == PEER:
            return errors.PeerError(text, self.c.ring_failed_rank())
        kinds = {
            INVALID: errors.InvalidError,
            MISMATCH: errors.MismatchError,
            CLOSED: errors.ClosedError,
            TIMEOUT: errors.TimeoutExpired,
            DUPLICATE: errors.DuplicateError,
            FORKED: errors.ForkedError,
            NO_GPU: errors.NoGPUError,
        }
        return kinds.get(code, errors.InternalError)(text)

    def init(self, timeout_ms: int = 0, stall_ms: int = 0, left_epoch: int = 0) -> "Comm":
        """Joins the job that this process was started for: an elastic one in the first epoch after left_epoch."""
        handle = c_uint64()
        options = InitOptions(ctypes.sizeof(InitOptions), timeout_ms, stall_ms, left_epoch)
        self.check(self.c.ring_init(byref(handle), byref(options)))
        return Comm(self, handle.value)


class Request:
    """A started or submitted call of owner. It owns its memory (``keep``) until it is done."""

    __slots__ = ("library", "owner", "id", "keep", "over", "has_result")

    def __init__(self, owner: "Union[Comm, Queue]", id: int, keep: object, has_result: bool = False) -> None:
        self.library = owner.library
        self.owner = owner
        self.id = id
        self.keep = keep
        self.over = False
        self.has_result = has_result

    def done(self) -> bool:
        """Whether it is done. Does not wait."""
        if self.over:
            return True
        done = c_int()
        self.library.check(self.library.c.ring_poll(self.id, byref(done)))
        return done.value != 0

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until it is done, and raises its error. Ctrl-C ends the wait, not the call. timeout is in seconds."""
        if self.over:
            return
        c = self.library.c
        code = TIMEOUT
        left = timeout
        slices = 0
        try:
            while code == TIMEOUT:
                slice_ms = PATIENCE_MS if left is None else max(0, min(PATIENCE_MS, int(left * 1000)))
                code = c.ring_wait(self.id, slice_ms)
                if code == TIMEOUT and left is not None:
                    left -= PATIENCE_MS / 1000
                    if left <= 0:
                        raise self.library.error(code)
                slices += 1
                if slices == LONG:
                    c.ring_waits_at(self.owner.handle, place().encode())
            error = None if code == OK else self.library.error(code)
        finally:
            if slices >= LONG:
                c.ring_waits_at(self.owner.handle, None)
        self.over = True
        if error is not None:
            c.ring_release(self.id)
            self.keep = None
            raise error
        if not self.has_result:
            self.keep = None

    def result(self, ranks: int) -> Tuple[int, int, List[int]]:
        """Address, length and length from each rank of the result, in elements. Valid until :meth:`release`."""
        data = c_void_p()
        count = c_uint64()
        counts = POINTER(c_int64)()
        self.library.check(self.library.c.ring_result(self.id, byref(data), byref(count), byref(counts)))
        return data.value or 0, count.value, counts[:ranks]

    def release(self) -> None:
        """Frees a result."""
        if self.has_result:
            self.has_result = False
            self.keep = None
            self.library.c.ring_release(self.id)


def integers(values: Optional[Sequence[int]]) -> "Optional[ctypes.Array[c_int64]]":
    """values as C takes them."""
    return None if values is None else (c_int64 * len(values))(*values)


def call(
    kind: int,
    dtype: int = 0,
    op: int = 0,
    root: int = 0,
    dst: int = 0,
    dst_count: int = 0,
    src: int = 0,
    src_count: int = 0,
    counts: Optional[Sequence[int]] = None,
    sends: Optional[Sequence[int]] = None,
    to: int = -1,
    from_: int = -1,
    shape: Optional[bytes] = None,
) -> Call:
    """A ring_call. dst and src are addresses; lengths are in elements."""
    return Call(
        ctypes.sizeof(Call), kind, dtype, op, root, to, from_, dst, dst_count, src, src_count, integers(counts), integers(sends), shape
    )


class Comm:
    """A communicator. All ranks make the same calls on it in the same order."""

    def __init__(self, library: Library, handle: int) -> None:
        self.library = library
        self.handle = handle
        info = Info(size=ctypes.sizeof(Info))
        library.check(library.c.ring_comm_info(handle, byref(info)))
        self.rank = info.rank
        self.size = info.ranks
        self.local_rank = info.local_rank
        self.local_size = info.local_ranks
        self.cross_rank = info.cross_rank
        self.cross_size = info.cross_ranks
        self.host = info.host.decode("utf-8", "replace")
        self.epoch = info.epoch  # 0: the job is not elastic
        self.first_epoch = info.first_epoch  # below epoch: that one failed while its ranks joined

    def run(self, work: Call, timeout: Optional[float] = None) -> None:
        """Makes a call in this thread and waits. Ctrl-C does not end it."""
        self.library.check(self.library.c.ring_run(self.handle, byref(work), 0 if timeout is None else int(timeout * 1000)))

    def hosts_updated(self) -> bool:
        """Whether this rank of an elastic job knows that hosts have joined or will leave. Sends nothing."""
        updated = c_int()
        self.library.check(self.library.c.ring_hosts_updated(self.handle, byref(updated)))
        return updated.value != 0

    def start(self, work: Call, keep: object = None, here: bool = False) -> Request:
        """Starts a call. Calls run in the order in which they are started. here: the caller waits for it at once."""
        id = c_uint64()
        c = self.library.c
        self.library.check((c.ring_start_here if here else c.ring_start)(self.handle, byref(work), byref(id)))
        request = Request(self, id.value, keep)
        if id.value == 0:  # it was made here
            request.over = True
            request.keep = None
        return request

    def split(self, color: int, key: int = 0) -> "Optional[Comm]":
        """A communicator of the ranks with this color, in the order of key; None for a negative color."""
        part = c_uint64()
        self.library.check(self.library.c.ring_split(self.handle, color, key, byref(part)))
        return Comm(self.library, part.value) if part.value else None

    def dup(self) -> "Comm":
        """A communicator of the same ranks with its own order of calls."""
        same = self.split(0)
        assert same is not None  # only a negative color has no part
        return same

    def group(self, name: str, ranks: Sequence[int], timeout: Optional[float] = None) -> "Comm":
        """A communicator of these ranks, in this order. Only they call it, with a name that no other group had."""
        part = c_uint64()
        members = (c_int32 * len(ranks))(*ranks)
        ms = 0 if timeout is None else max(1, int(timeout * 1000))
        self.library.check(self.library.c.ring_group(self.handle, name.encode(), members, len(ranks), ms, byref(part)))
        return Comm(self.library, part.value)

    def abort(self, cause: str) -> None:
        """Ends the job. An elastic one begins no other epoch."""
        self.library.check(self.library.c.ring_abort(self.handle, cause.replace("\0", "?").encode("utf-8", "replace")))

    def private(self) -> "Comm":
        """Lets ranks leave while others wait for them, without a failure of the job. Call it before the first call. Returns itself."""
        self.library.check(self.library.c.ring_private(self.handle))
        return self

    def queue(self, fusion_bytes: int = -1, cache_names: int = -1, stall_ms: int = 0) -> "Queue":
        """A queue of this communicator. All ranks call it, with equal options."""
        handle = c_uint64()
        options = QueueOptions(ctypes.sizeof(QueueOptions), fusion_bytes, cache_names, stall_ms)
        self.library.check(self.library.c.ring_queue_open(self.handle, byref(options), byref(handle)))
        return Queue(self, handle.value)

    def device(self, ordinal: int, timeout: Optional[float] = None) -> "Device":
        """Joins a GPU, by number, with those of the other ranks. All ranks call it."""
        handle = c_uint64()
        options = DeviceOptions(ctypes.sizeof(DeviceOptions), 0 if timeout is None else max(1, int(timeout * 1000)), 0)
        self.library.check(self.library.c.ring_device_open(self.handle, ordinal, byref(options), byref(handle)))
        return Device(self, handle.value)

    def close(self) -> None:
        """Leaves. Closing again does nothing."""
        handle = self.handle
        self.handle = 0
        if handle:
            self.library.check(self.library.c.ring_close(handle))


class Device:
    """Enqueues calls on GPU memory. All ranks make the same calls in the same order."""

    def __init__(self, comm: Comm, handle: int) -> None:
        self.comm = comm
        self.library = comm.library
        self.handle = handle
        info = DeviceInfo(size=ctypes.sizeof(DeviceInfo))
        self.library.check(self.library.c.ring_device_get_info(handle, byref(info)))
        self.native = bool(info.native)
        self.how = info.how.decode("utf-8", "replace")

    def run(self, stream: int, work: Sequence[Call]) -> None:
        """Enqueues calls as one group on a CUDA stream."""
        calls = (Call * len(work))(*work)
        self.library.check(self.library.c.ring_device_run(self.handle, stream, len(work), calls, None))

    def check(self) -> None:
        """Raises the error that broke the device, if any."""
        self.library.check(self.library.c.ring_device_error(self.handle))

    def wait(self, timeout: Optional[float] = None) -> None:
        """Waits until all enqueued work is done. timeout is in seconds."""
        c = self.library.c
        code = TIMEOUT
        left = timeout
        while code == TIMEOUT:
            slice_ms = PATIENCE_MS if left is None else max(0, min(PATIENCE_MS, int(left * 1000)))
            code = c.ring_device_wait(self.handle, slice_ms)
            if code == TIMEOUT and left is not None:
                left -= PATIENCE_MS / 1000
                if left <= 0:
                    break
        self.library.check(code)

    def close(self) -> None:
        """Closes the device. Closing again does nothing."""
        handle = self.handle
        self.handle = 0
        if handle:
            self.library.check(self.library.c.ring_device_close(handle))


class Queue:
    """A queue of named calls, in any order. Each runs when all ranks have submitted it."""

    def __init__(self, comm: Comm, handle: int) -> None:
        self.comm = comm
        self.library = comm.library
        self.handle = handle

    def submit(self, name: str, work: Call, keep: object = None) -> Request:
        """Submits a call."""
        id = c_uint64()
        self.library.check(self.library.c.ring_submit(self.handle, name.encode(), byref(work), byref(id)))
        return Request(self, id.value, keep)

    def submit_v(self, name: str, work: Call, keep: object = None) -> Request:
        """Submits an allgather or alltoall whose result length is known only when it runs."""
        id = c_uint64()
        self.library.check(self.library.c.ring_submit_v(self.handle, name.encode(), byref(work), byref(id)))
        return Request(self, id.value, keep, has_result=True)

    def submit_group(self, names: Sequence[str], work: Sequence[Call], keep: Sequence[object] = ()) -> List[Request]:
        """Submits calls together."""
        n = len(names)
        ids = (c_uint64 * n)()
        keys = (c_char_p * n)(*[name.encode() for name in names])
        calls = (Call * n)(*work)
        self.library.check(self.library.c.ring_submit_group(self.handle, n, keys, calls, ids))
        keep = keep or [None] * n
        return [Request(self, id, k) for id, k in zip(ids, keep)]

    def start_timeline(self, path: str, mark_cycles: bool = False) -> None:
        """Starts writing Chrome trace events to a file."""
        self.library.check(self.library.c.ring_timeline_start(self.handle, os.fsencode(path), mark_cycles))

    def stop_timeline(self) -> None:
        """Stops the timeline, if one runs."""
        self.library.check(self.library.c.ring_timeline_stop(self.handle))

    def close(self) -> None:
        """Ends the queue on all ranks. Closing again does nothing."""
        handle = self.handle
        self.handle = 0
        if handle:
            self.library.check(self.library.c.ring_queue_close(handle))
