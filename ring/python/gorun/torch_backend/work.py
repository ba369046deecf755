"""Started calls of torch: Work, and the thread that completes futures."""

from __future__ import annotations

import queue
import threading
from collections import OrderedDict
from datetime import timedelta
from typing import Callable, List, Optional, Sequence

import torch
import torch.distributed as dist

from .. import _ring as ring
from .. import errors
from .._cuda import CudaLane

_Base = getattr(dist, "_Work", None) or dist.Work

# So many calls of a group may be over without being waited for.
UNWAITED = 4096


class Keeper:
    """The shared state of a group's Works.

    The C++ of torch 1.13 to 2.5 keeps the C++ half of a Work that Python has returned to it, and lets go of the Python
    half; and whoever drops a Work does not end what writes into his tensors. So Works are held here until they are
    waited for, or their future is taken.
    """

    def __init__(self, name: str, timeout: Optional[float]) -> None:
        self.name, self.timeout = name, timeout
        self.held: "OrderedDict[int, Work]" = OrderedDict()
        self.lock = threading.Lock()
        self.line: "queue.SimpleQueue[Optional[Work]]" = queue.SimpleQueue()
        self.thread: Optional[threading.Thread] = None
        self.closed = False

    def hold(self, work: "Work") -> None:
        with self.lock:
            self.held[id(work)] = work
            oldest = self.held.popitem(last=False)[1] if len(self.held) > UNWAITED else None
        if oldest is not None and not oldest.settle(0):  # nobody waits for it here: it may wait for what this rank starts next
            with self.lock:
                self.held[id(oldest)] = oldest

    def drop(self, work: "Work") -> None:
        self.held.pop(id(work), None)

    def complete(self, work: "Work") -> None:
        """Makes the thread wait for work and complete its future."""
        with self.lock:
            if self.closed:
                raise errors.ClosedError("gorun: group %s is destroyed" % self.name)
            if self.thread is None:
                # A daemon, since the interpreter waits for others before it lets anybody end them.
                self.thread = threading.Thread(target=self._run, name="gorun-" + self.name, daemon=True)
                self.thread.start()
        self.line.put(work)

    def _run(self) -> None:
        while True:
            work = self.line.get()
            if work is None:
                return
            work.settle(None)
            assert work.promise is not None  # complete() is for those that have one
            work.promise.set_result(None)
            del work  # and its tensors, before the next one comes

    def close(self) -> None:
        """Ends the thread. Pending work must have failed before."""
        with self.lock:
            self.closed, thread, self.thread = True, self.thread, None
        if thread is not None:
            self.line.put(None)
            if thread is not threading.current_thread():  # a group may end in a callback of its own
                thread.join()
        for work in list(self.held.values()):
            work.settle(None)
        self.held.clear()


class Work(_Base):  # type: ignore[misc,valid-type]
    """Calls of a group that were started together. The first waiter copies back indirect results."""

    def __init__(
        self, keeper: Keeper, what: str, requests: Sequence[ring.Request], outputs: object = None, after: Sequence[Callable[[], None]] = ()
    ) -> None:
        super().__init__()
        self.keeper, self.what, self.requests, self.outputs, self.after = keeper, what, requests, outputs, after
        self.lock = threading.Lock()
        self.over = False
        self.failed: Optional[BaseException] = None
        self.promise: Optional[torch.futures.Future] = None
        keeper.hold(self)

    def settle(self, timeout: Optional[float]) -> bool:
        """Waits until it is done, at most timeout seconds, and returns whether it is. Its error is in failed."""
        if self.over:
            return True
        if not self.lock.acquire(timeout=-1 if timeout is None else timeout):
            return False
        try:
            if not self.over:
                self._finish(timeout)
        except errors.TimeoutExpired:
            return False
        except Exception as e:
            self._end(e)
        finally:
            self.lock.release()
        return True

    def _finish(self, timeout: Optional[float]) -> None:
        for request in self._requests(timeout):
            request.wait(timeout)
        for copy_back in self.after:
            copy_back()
        self._end(None)

    def _requests(self, timeout: Optional[float]) -> Sequence[ring.Request]:
        return self.requests

    def _end(self, error: Optional[BaseException]) -> None:
        self.failed, self.requests, self.after, self.over = error, (), (), True

    # What torch calls.

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        seconds = timeout.total_seconds() if timeout else self.keeper.timeout
        if not self.settle(seconds):
            raise errors.TimeoutExpired(
                "gorun: %s of group %s is not over after %g s: some rank has not called it; the call goes on" % (self.what, self.keeper.name, seconds or 0)
            )
        self.keeper.drop(self)
        if self.failed is not None:
            raise self.failed
        return True

    def synchronize(self) -> None:
        self.wait()

    def is_completed(self) -> bool:
        return self.over or self.settle(0)

    def is_success(self) -> bool:
        return self.is_completed() and self.failed is None

    def exception(self) -> Optional[BaseException]:
        return self.failed

    def result(self) -> object:
        self.wait()
        return self.outputs

    def get_future(self) -> torch.futures.Future:
        """A future of the tensors. A callback raises its error, because torch's C++ ignores set_exception."""
        promise: torch.futures.Future = torch.futures.Future()
        future = promise.then(self._outcome)
        with self.lock:
            late = self.over or self.promise is not None
            if not late:
                self.promise = promise
        if late:
            self.settle(None)
            promise.set_result(None)
        else:
            self.keeper.complete(self)
        self.keeper.drop(self)
        return future

    def _outcome(self, _: torch.futures.Future) -> object:
        if self.failed is not None:
            raise self.failed
        return self.outputs


class LaneWork(Work):
    """Calls enqueued on a lane. Waiting makes the current stream wait, as with nccl, not the caller."""

    def __init__(self, keeper: Keeper, what: str, device: ring.Device, lane: CudaLane, outputs: object, after: Sequence[Callable[[], None]]) -> None:
        self.device, self.lane = device, lane
        with lane.inside():
            for copy_back in after:
                copy_back()
        self.mark = lane.mark()
        super().__init__(keeper, what, (), outputs)
        keeper.drop(self)  # the lane keeps what it uses
        self._end(None)

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        self.device.check()
        self.lane.follow(self.mark)
        return True

    def is_completed(self) -> bool:
        return self.lane.passed(self.mark)

    def get_future(self) -> torch.futures.Future:
        return self.lane.future(self.outputs)
