"""Messages between two ranks. Each peer, tag and direction has its own order, independent of collectives."""

from __future__ import annotations

import threading
import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import torch

from .. import _ring as ring
from .. import errors
from . import memory
from .memory import Part
from .work import Keeper, Work

Meet = Callable[[str, Sequence[int], Optional[float]], ring.Comm]


class Message(Work):
    """A message. It waits until the other rank has connected, and is then a request like others. here: its caller waits for it at once."""

    ordered = False

    def __init__(self, keeper: Keeper, what: str, outputs: object, part: Part, here: bool = False) -> None:
        self.begun = threading.Event()
        self.part = part
        self.here = here
        self.refused: Optional[Exception] = None
        self.early: "Optional[Wildcards]" = None  # what may receive it, beside its own line
        super().__init__(keeper, what, (), outputs, [part.copy_back] if part.copy_back else [])

    def begin(self, comm: ring.Comm, call: ring.Call) -> None:
        try:
            self.requests = [comm.start(call, self.part.keep, self.here)]
        except errors.GorunError as e:
            self.refused = e
        self.begun.set()

    def refuse(self, error: Exception) -> None:
        self.refused = error
        self.begun.set()

    def take(self, data: torch.Tensor, source: int) -> None:
        """Takes what was received into other memory."""
        target = self.part.keep[0]
        if data.numel() != target.numel() or data.dtype != target.dtype:
            self.refuse(errors.InvalidError("gorun: %s: %d elements of %s have come, for a recv without a source, and this one wants %d of %s" % (self.what, data.numel(), data.dtype, target.numel(), target.dtype)))
            return
        with torch.no_grad():
            target.copy_(data.view(target.shape))
        self.begun.set()

    def _requests(self, timeout: Optional[float]) -> Sequence[ring.Request]:
        end = None if timeout is None else time.monotonic() + timeout
        pause = 0.0
        while not self.begun.is_set():
            if self.early is not None:
                self.early.serve()
                if self.begun.is_set():
                    break
                self.begun.wait(pause)
                pause = min(pause + 0.00005, 0.001)
            else:
                self.begun.wait(ring.PATIENCE_MS / 1000 if end is None else max(0, end - time.monotonic()))
            if end is not None and not self.begun.is_set() and time.monotonic() >= end:
                raise errors.TimeoutExpired(self.what)
        if self.refused is not None:
            raise self.refused
        return self.requests


class AnyMessage(Message):
    """A message from whichever rank sends first."""

    def __init__(self, keeper: Keeper, what: str, outputs: object, part: Part, pairs: "Pairs", tag: int) -> None:
        super().__init__(keeper, what, outputs, part)
        self.source = -1
        self.early = pairs.wildcards(tag)
        self.early.add(self)

    def take(self, data: torch.Tensor, source: int) -> None:
        self.source = source
        super().take(data, source)

    def source_rank(self) -> int:
        self.wait()
        return self.source

    _source_rank = source_rank


class Line:
    """Messages of one tag from one rank to another. Its thread makes a communicator of the two and starts pending messages."""

    def __init__(self, name: str, ranks: Tuple[int, int], me: int, meet: Meet, timeout: Optional[float]) -> None:
        self.name = name
        self.ranks = ranks
        self.sends = ranks[0] == me
        self.meet = meet
        self.timeout = timeout
        self.lock = threading.RLock()
        self.waiting: List[Message] = []
        self.comm: Optional[ring.Comm] = None
        self.failed: Optional[Exception] = None
        self.early: Optional[Tuple[ring.Request, torch.Tensor]] = None  # a recv without a source, or for who receives next
        self.thread = threading.Thread(target=self._connect, name="gorun-" + name, daemon=True)
        self.thread.start()

    def _connect(self) -> None:
        try:
            comm = self.meet(self.name, self.ranks, self.timeout)
            error = None
        except errors.GorunError as e:
            comm = None
            error = e
        with self.lock:
            if self.failed is not None:  # it is closed
                if comm is not None:
                    comm.close()
                return
            self.comm = comm
            self.failed = error
            self.start_waiting()

    def start_waiting(self) -> None:
        """Starts the messages that wait. The lock is held."""
        for message in self.waiting:
            self._go(message)
        self.waiting = []

    def add(self, message: Message) -> None:
        with self.lock:
            if self.early is not None or (self.comm is None and self.failed is None):
                message.here = False  # another thread begins it
                self.waiting.append(message)
            else:
                self._go(message)

    def _go(self, message: Message) -> None:
        if self.comm is None:
            message.refuse(self.failed or errors.ClosedError("gorun: the group is destroyed"))
            return
        message.begin(self.comm, self._call(message.part))

    def _call(self, part: Part) -> ring.Call:
        if self.sends:
            return ring.call(ring.MESSAGE, part.dtype, to=1, src=part.address, src_count=part.count)
        return ring.call(ring.MESSAGE, part.dtype, from_=0, dst=part.address, dst_count=part.count)

    def expect(self, like: torch.Tensor) -> None:
        """Begins to receive a tensor like this one, for whoever wants it. The lock is held, and nothing is expected."""
        assert self.comm is not None
        data = torch.empty(like.shape, dtype=like.dtype)
        part = memory.writes(data)
        self.early = self.comm.start(self._call(part), part.keep), data

    def close(self) -> None:
        """The thread may still wait for an absent rank; that wait ends when the process leaves the job."""
        with self.lock:
            comm = self.comm
            self.comm = None
            self.failed = errors.ClosedError("gorun: the group is closed")
            for message in self.waiting:
                message.refuse(self.failed)
            self.waiting = []
            early = self.early
            self.early = None
        if comm is not None:
            self.thread.join()
            comm.close()
        if early is not None:
            try:
                early[0].wait()
            except errors.GorunError:
                pass


class Wildcards:
    """Receives of one tag without a source. Whoever waits for one calls serve.

    On each line at most one such receive is under way. What it brings is for the first message that was waiting for that line's next one: with
    or without a source.
    """

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines = lines
        self.lock = threading.Lock()
        self.pending: List[AnyMessage] = []

    def add(self, message: AnyMessage) -> None:
        with self.lock:
            self.pending.append(message)
        self.serve()

    def serve(self) -> None:
        """Gives out what has come, and expects more if it is wanted. It does not wait for messages."""
        with self.lock:
            for line in self.lines:
                with line.lock:
                    self._serve(line)
            if self.pending and all(line.failed is not None for line in self.lines):
                for message in self.pending:
                    message.refuse(self.lines[0].failed or errors.ClosedError("gorun: the group is closed"))
                self.pending = []

    def _serve(self, line: Line) -> None:
        if line.early is not None:
            request, data = line.early
            for message in line.waiting:
                message.early = self
            # A message that names the rank began to wait only when this receive was under way for one that does not.
            wanted: List[Message] = [*self.pending[:1], *line.waiting[:1]]
            if not wanted or not request.done():
                return
            line.early = None
            try:
                request.wait(0)
                wanted[0].take(data, line.ranks[0])
            except errors.GorunError as e:
                line.failed = line.failed or e
                wanted[0].refuse(e)
            if self.pending:
                del self.pending[0]
            else:
                del line.waiting[0]
            line.start_waiting()
        if self.pending and line.comm is not None and line.failed is None and line.early is None:
            line.expect(self.pending[0].part.keep[0])


class Pairs:
    """All lines of a group of so many ranks. meet makes a communicator of some of its ranks."""

    def __init__(self, me: int, ranks: int, meet: Meet, timeout: Optional[float]) -> None:
        self.me = me
        self.ranks = ranks
        self.meet = meet
        self.timeout = timeout
        self.lines: Dict[Tuple[int, int, int], Line] = {}
        self.any: Dict[int, Wildcards] = {}
        self.lock = threading.Lock()

    def add(self, sender: int, receiver: int, tag: int, message: Message) -> None:
        with self.lock:  # two threads that begin a line would meet the other rank twice by one name
            line = self._line(sender, receiver, tag, self.timeout)
            if receiver == self.me:
                message.early = self.any.get(tag)
        line.add(message)

    def _line(self, sender: int, receiver: int, tag: int, timeout: Optional[float]) -> Line:
        key = (sender, receiver, tag)
        if key not in self.lines:
            self.lines[key] = Line("%d-%d.%d" % key, (sender, receiver), self.me, self.meet, timeout)
        return self.lines[key]

    def wildcards(self, tag: int) -> Wildcards:
        with self.lock:
            if tag not in self.any:
                # Most ranks may never send, so there is no limit to waiting for them.
                self.any[tag] = Wildcards([self._line(r, self.me, tag, None) for r in range(self.ranks) if r != self.me])
            return self.any[tag]

    def close(self) -> None:
        for line in self.lines.values():
            line.close()
        self.lines.clear()
        self.any.clear()
