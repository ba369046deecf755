"""Calls on a queue with minimal Python: a training step makes hundreds of them.

A call is packed into bytes, with no objects of ctypes made for it, and submitted without giving up the interpreter's
lock, as that takes a microsecond and waits for nothing. Only what waits gives it up.
"""

from __future__ import annotations

import ctypes
import itertools
import struct
import threading
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint64, c_void_p
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from . import _ring, errors

_CALL = struct.Struct("@N6iPQPQPPP")  # ring_call
_pack = _CALL.pack
_SIZE = _CALL.size
assert _SIZE == ctypes.sizeof(_ring.Call)


class Handle(_ring.Request):
    """A pending operation, for ``poll`` and ``synchronize``. An operation whose handle is dropped goes on."""

    __slots__ = ("channel", "output", "finish", "error")
    error: Optional[errors.GorunError]

    def __init__(self, channel: "Channel", id: int, keep: object, output: Any, finish: "Optional[Callable[[Handle], Any]]", has_result: bool) -> None:
        self.library = channel.library
        self.owner = channel.queue
        self.id = id
        self.keep = keep
        self.over = False
        self.has_result = has_result
        self.channel = channel
        self.output = output
        self.finish = finish
        self.error = None

    def synchronize(self) -> Any:
        """Waits until the operation is done, and returns its output or raises its error."""
        if not self.over:
            try:
                self.wait()
            except errors.GorunError as e:
                self.error = e
                self.finish = None
                raise
        if self.error is not None:
            raise self.error
        if self.finish is not None:
            finish = self.finish
            self.finish = None
            self.output = finish(self)
        return self.output

    def __del__(self) -> None:
        if not self.over:  # its memory is in use
            self.channel.abandon(self.id, self.keep, self.output)
        elif self.has_result:
            self.release()


class Lane:
    """A GPU stream for a channel's operations, beside the program's stream."""

    ordinal: int  # of the GPU
    stream: int

    def begin(self, arrays: Sequence[Any]) -> None:
        """Orders later work of the lane, which uses these arrays, after the program's enqueued work."""
        raise NotImplementedError

    def mark(self) -> Any:
        """The present position of the lane."""
        raise NotImplementedError

    def passed(self, mark: Any) -> bool:
        """Whether the GPU has reached a mark."""
        raise NotImplementedError

    def follow(self, mark: Any) -> None:
        """Orders later work of the program after a mark."""
        raise NotImplementedError


class LaneHandle(Handle):
    """An operation on a lane. Its call is done when it is enqueued; the GPU may execute it later.

    Nobody waits for the GPU to synchronize: what the program enqueues after that has the output.
    """

    __slots__ = ("lane", "place")

    def __init__(self, channel: "Channel", id: int, call: Dict[str, Any]) -> None:
        super().__init__(channel, id, call["keep"], call["output"], call["finish"], False)
        self.lane: Lane = call["lane"]
        self.place: Any = None

    def marked(self) -> Any:
        """A mark after the enqueued operation."""
        if self.place is None:
            self.place = self.lane.mark()
        return self.place

    def synchronize(self) -> Any:
        if not self.over:
            try:
                self.wait()
            except errors.GorunError as e:
                self.error = e
                self.finish = None
                raise
        if self.error is None:
            self.lane.follow(self.marked())
        return super().synchronize()

    def done(self) -> bool:
        return super().done() and (self.error is not None or self.lane.passed(self.marked()))


class Group:
    """Operations submitted together."""

    __slots__ = ("handles",)

    def __init__(self, handles: Sequence[Handle]) -> None:
        self.handles = handles

    def done(self) -> bool:
        """Whether all operations are done."""
        return all(h.done() for h in self.handles)

    def synchronize(self) -> List[Any]:
        """Waits for all, and returns their outputs or raises the first error."""
        outputs = []
        first = None
        for h in self.handles:
            try:
                outputs.append(h.synchronize())
            except errors.GorunError as e:
                first = first or e
        if first is not None:
            raise first
        return outputs


class Shapes:
    """Shapes as C strings. A repeated one costs a dictionary lookup."""

    def __init__(self) -> None:
        self.known: Dict[Tuple[int, ...], Tuple[int, c_char_p]] = {}

    def __call__(self, shape: Tuple[int, ...]) -> "Tuple[int, c_char_p]":
        """The address of the text, and the object that owns it."""
        known = self.known.get(shape)
        if known is None:
            text = c_char_p("x".join(map(str, shape))[:200].encode() or b"scalar")
            known = ctypes.cast(text, c_void_p).value or 0, text
            if len(self.known) >= 4096:
                self.known = {}
            self.known[tuple(shape)] = known
        return known


class Channel:
    """The queue of a process set, and names for unnamed operations."""

    def __init__(self, comm: _ring.Comm, queue: _ring.Queue) -> None:
        self.comm = comm
        self.queue = queue
        self.library = comm.library
        self.rank = comm.rank
        self.size = comm.size
        self.numbers = itertools.count()
        self.joins = 0
        self.abandoned: List[Tuple[int, object, object]] = []
        self.closed = False
        self.sweeping = threading.Lock()
        self.shapes = Shapes()
        holding = ctypes.PyDLL(self.library.path)
        self._submit = holding.ring_submit
        self._submit_v = holding.ring_submit_v
        self._submit_group = holding.ring_submit_group
        self._submit_here = ctypes.CDLL(self.library.path).ring_submit_here
        for function in (self._submit, self._submit_v, self._submit_here):
            function.restype = c_int
            function.argtypes = [c_uint64, c_char_p, c_void_p, c_void_p]
        self._submit_group.restype = c_int
        self._submit_group.argtypes = [c_uint64, c_size_t, c_void_p, c_void_p, c_void_p]
        self._submit_device = holding.ring_submit_device
        self._submit_device.restype = c_int
        self._submit_device.argtypes = [c_uint64, ctypes.c_int32, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p]
        self.lanes: Dict[int, Lane] = {}  # by GPU

    def name(self, verb: str, name: Optional[str]) -> bytes:
        """The name of an operation: the given one, or one with the number of the call."""
        if name is not None:
            return ("%s.%s" % (verb, name)).encode()
        return b"%s.noname.%d.%d" % (verb.encode(), self.joins, next(self.numbers))

    def submit(
        self,
        name: bytes,
        kind: int,
        dtype: int = 0,
        op: int = 0,
        root: int = 0,
        dst: int = 0,
        dst_count: int = 0,
        src: int = 0,
        src_count: int = 0,
        counts: Optional[Sequence[int]] = None,
        shape: Tuple[int, ...] = (),
        keep: object = None,
        output: Any = None,
        finish: Optional[Callable[[Handle], Any]] = None,
        here: bool = False,
        lane: Optional[Lane] = None,
    ) -> Handle:
        """Submits a call. dst and src are addresses of memory that ``keep`` or ``output`` owns.

        With ``here`` it is made in this thread as far as that goes: for those who wait for it at once. With a lane the
        memory is a GPU's, and ``keep`` are the arrays.
        """
        if lane is not None:
            call: Dict[str, Any] = dict(kind=kind, dtype=dtype, op=op, root=root, dst=dst, dst_count=dst_count, src=src, src_count=src_count)
            call.update(counts=counts, shape=shape, keep=keep, output=output, finish=finish, lane=lane)
            return self._launch(lane, [name], [call])[0]
        if self.abandoned:
            self.sweep()
        id = c_uint64()
        lengths = _ring.integers(counts)
        text, kept = self.shapes(shape)
        at = 0 if lengths is None else ctypes.addressof(lengths)
        code = (self._submit_here if here else self._submit)(
            self.queue.handle, name, _pack(_SIZE, kind, dtype, op, root, 0, 0, dst, dst_count, src, src_count, at, 0, text), byref(id)
        )
        if code:
            raise self.library.error(code)
        handle = Handle(self, id.value, keep, output, finish, False)
        handle.over = id.value == 0
        return handle

    def submit_v(
        self,
        name: bytes,
        kind: int,
        dtype: int,
        src: int,
        src_count: int,
        sends: Optional[Sequence[int]],
        shape: Tuple[int, ...],
        keep: object,
        finish: Callable[[Handle], Any],
    ) -> Handle:
        """Submits a call whose result length is known only when it runs."""
        if self.abandoned:
            self.sweep()
        id = c_uint64()
        lengths = _ring.integers(sends)
        text, kept = self.shapes(shape)
        at = 0 if lengths is None else ctypes.addressof(lengths)
        code = self._submit_v(
            self.queue.handle, name, _pack(_SIZE, kind, dtype, 0, 0, 0, 0, 0, 0, src, src_count, 0, at, text), byref(id)
        )
        if code:
            raise self.library.error(code)
        return Handle(self, id.value, keep, None, finish, True)

    def submit_group(self, names: Sequence[bytes], calls: Sequence[Dict[str, Any]]) -> Group:
        """Submits calls together. Each has the arguments of :meth:`submit` without the name."""
        lanes = {c["lane"] for c in calls}
        if len(lanes) > 1:
            raise errors.InvalidError("gorun: the tensors of a group are not all on one device: submit those of each device by themselves")
        for lane in lanes - {None}:
            return Group(self._launch(lane, names, calls))
        packed, ids, keys, kept = self._pack(names, calls)
        self.library.check(self._submit_group(self.queue.handle, len(names), keys, packed, ids))
        return Group([Handle(self, id, c["keep"], c["output"], c["finish"], False) for id, c in zip(ids, calls)])

    def _launch(self, lane: Lane, names: Sequence[bytes], calls: Sequence[Dict[str, Any]]) -> List[Handle]:
        """Submits calls on GPU memory together."""
        packed, ids, keys, kept = self._pack(names, calls)
        lane.begin([array for c in calls for array in (*c["keep"], c["output"])])
        self.library.check(self._submit_device(self.queue.handle, lane.ordinal, lane.stream, len(names), keys, packed, ids))
        return [LaneHandle(self, id, c) for id, c in zip(ids, calls)]

    def _pack(self, names: Sequence[bytes], calls: Sequence[Dict[str, Any]]) -> Tuple[bytes, Any, Any, object]:
        """Calls, their requests and names as C arrays, and the owners of their memory."""
        if self.abandoned:
            self.sweep()
        n = len(names)
        packed = []
        kept = []
        for c in calls:
            lengths = _ring.integers(c.get("counts"))
            text, holder = self.shapes(c["shape"])
            at = 0 if lengths is None else ctypes.addressof(lengths)
            kept.append((lengths, holder))
            packed.append(
                _pack(_SIZE, c["kind"], c["dtype"], c["op"], c.get("root", 0), 0, 0, c["dst"], c["dst_count"], c["src"], c["src_count"], at, 0, text)
            )
        return b"".join(packed), (c_uint64 * n)(), (c_char_p * n)(*names), kept

    def join(self) -> int:
        """Contributes zeros until all ranks have joined. Returns the rank that joined last."""
        id = c_uint64()
        last = ctypes.c_int32()
        self.library.check(self.library.c.ring_join(self.queue.handle, byref(last), byref(id)))
        Handle(self, id.value, last, None, None, False).synchronize()
        self.joins += 1
        self.numbers = itertools.count()  # as the ranks' calls were not equally many
        return last.value

    def abandon(self, id: int, keep: object, output: object) -> None:
        """Keeps the memory of dropped operations until they are done. The library's queue lives as long."""
        self.abandoned.append((id, keep, output))
        if self.closed:  # nothing is submitted any more, which would sweep
            self.sweep()

    def sweep(self) -> None:
        """Frees dropped operations that are done."""
        if not self.sweeping.acquire(blocking=False):
            return
        try:
            c = self.library.c
            done = c_int()
            for entry in list(self.abandoned):
                code = c.ring_poll(entry[0], byref(done))
                if code == _ring.OK and not done.value:
                    continue
                if code == _ring.OK:
                    c.ring_release(entry[0])
                self.abandoned.remove(entry)
        finally:
            self.sweeping.release()

    def close(self) -> None:
        """Ends the queue and its communicator. Pending operations fail."""
        try:
            self.queue.close()
        finally:
            self.closed = True
            self.comm.close()
            self.sweep()
