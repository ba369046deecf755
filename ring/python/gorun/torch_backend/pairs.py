"""Messages between two ranks. Each peer, tag and direction has its own order, independent of collectives."""

from __future__ import annotations

import threading
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from .. import _ring as ring
from .. import errors
from .memory import Part
from .work import Keeper, Work

Meet = Callable[[str, Sequence[int], Optional[float]], ring.Comm]


class Message(Work):
    """A message. It waits until the other rank has connected, and is then a request like others."""

    def __init__(self, keeper: Keeper, what: str, outputs: object, part: Part) -> None:
        self.begun = threading.Event()
        self.part = part
        self.refused: Optional[Exception] = None
        super().__init__(keeper, what, (), outputs, [part.copy_back] if part.copy_back else [])

    def begin(self, comm: ring.Comm, call: ring.Call) -> None:
        try:
            self.requests = [comm.start(call, self.part.keep)]
        except errors.GorunError as e:
            self.refused = e
        self.begun.set()

    def refuse(self, error: Exception) -> None:
        self.refused = error
        self.begun.set()

    def _requests(self, timeout: Optional[float]) -> Sequence[ring.Request]:
        while not self.begun.wait(ring.PATIENCE_MS / 1000 if timeout is None else timeout):
            if timeout is not None:
                raise errors.TimeoutExpired(self.what)
        if self.refused is not None:
            raise self.refused
        return self.requests


class Line:
    """Messages of one tag from one rank to another. Its thread makes a communicator of the two and starts pending messages."""

    def __init__(self, name: str, ranks: Tuple[int, int], me: int, meet: Meet, timeout: Optional[float]) -> None:
        self.name, self.ranks, self.sends, self.meet, self.timeout = name, ranks, ranks[0] == me, meet, timeout
        self.lock = threading.Lock()
        self.waiting: List[Message] = []
        self.comm: Optional[ring.Comm] = None
        self.failed: Optional[Exception] = None
        self.thread = threading.Thread(target=self._connect, name="gorun-" + name, daemon=True)
        self.thread.start()

    def _connect(self) -> None:
        try:
            comm, error = self.meet(self.name, self.ranks, self.timeout), None
        except errors.GorunError as e:
            comm, error = None, e
        with self.lock:
            if self.failed is not None:  # it is closed
                if comm is not None:
                    comm.close()
                return
            self.comm, self.failed = comm, error
            for message in self.waiting:
                self._go(message)
            self.waiting = []

    def add(self, message: Message) -> None:
        with self.lock:
            if self.comm is None and self.failed is None:
                self.waiting.append(message)
            else:
                self._go(message)

    def _go(self, message: Message) -> None:
        if self.comm is None:
            message.refuse(self.failed or errors.ClosedError("gorun: the group is destroyed"))
            return
        part = message.part
        if self.sends:
            call = ring.call(ring.MESSAGE, part.dtype, to=1, src=part.address, src_count=part.count)
        else:
            call = ring.call(ring.MESSAGE, part.dtype, from_=0, dst=part.address, dst_count=part.count)
        message.begin(self.comm, call)

    def close(self) -> None:
        """The thread may still wait for an absent rank; that wait ends when the process leaves the job."""
        with self.lock:
            comm, self.comm, self.failed = self.comm, None, errors.ClosedError("gorun: the group is destroyed")
            for message in self.waiting:
                message.refuse(self.failed)
            self.waiting = []
        if comm is not None:
            self.thread.join()
            comm.close()


class Pairs:
    """All lines of a group. meet makes a communicator of some of its ranks."""

    def __init__(self, me: int, meet: Meet, timeout: Optional[float]) -> None:
        self.me, self.meet, self.timeout = me, meet, timeout
        self.lines: Dict[Tuple[int, int, int], Line] = {}
        self.lock = threading.Lock()

    def add(self, sender: int, receiver: int, tag: int, message: Message) -> None:
        key = (sender, receiver, tag)
        with self.lock:  # two threads that begin a line would meet the other rank twice by one name
            if key not in self.lines:
                self.lines[key] = Line("%d-%d.%d" % key, (sender, receiver), self.me, self.meet, self.timeout)
            line = self.lines[key]
        line.add(message)

    def close(self) -> None:
        for line in self.lines.values():
            line.close()
        self.lines.clear()
