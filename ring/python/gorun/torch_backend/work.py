"""Started calls of torch: Work, and the thread that completes futures."""

from __future__ import annotations

import copy
import queue
import threading
import time
from collections import OrderedDict
from datetime import timedelta
from typing import Callable, Optional, Sequence, Set

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
        self.name = name
        self.timeout = timeout
        self.held: "OrderedDict[int, Work]" = OrderedDict()
        self.lock = threading.Lock()
        self.line: "queue.SimpleQueue[Optional[Work]]" = queue.SimpleQueue()
        self.leading = threading.Lock()  # of the thread that waits for the next work
        self.threads: Set[threading.Thread] = set()
        self.ready = 0  # threads that wait for a work, or for their turn to; the others run callbacks
        self.closed = False
        self.absorb: Callable[[BaseException], Optional[BaseException]] = lambda error: error  # None: no error is raised

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
        """Makes a thread wait for work and complete its future.

        Callbacks run in that thread, and may wait for other futures; so another one waits for the next work meanwhile.
        """
        with self.lock:
            if self.closed:
                raise errors.ClosedError("gorun: group %s is closed" % self.name)
            if not work.ordered:  # it may take longer than those that are started after it
                self._start(self._run_one, work)
                return
            self.line.put(work)
            if self.ready == 0:
                self.ready = 1
                self._start(self._run)

    def _start(self, run: Callable[..., None], *args: object) -> None:
        # A daemon, since the interpreter waits for others before it lets anybody end them.
        thread = threading.Thread(target=run, args=args, name="gorun-" + self.name, daemon=True)
        self.threads.add(thread)
        thread.start()

    def _run(self) -> None:
        while True:
            with self.leading:
                work = self.line.get()
                if work is None:
                    self.line.put(None)  # for the other threads
                    return
                work.settle(None)
            with self.lock:
                self.ready -= 1
                if self.ready == 0 and not self.line.empty():
                    self.ready = 1
                    self._start(self._run)
            assert work.promise is not None  # complete() is for those that have one
            work.promise.set_result(None)
            del work  # and its tensors, before the next one comes
            with self.lock:
                if self.ready > 0 and not self.closed:  # there is another one: this was needed for a moment
                    self.threads.discard(threading.current_thread())
                    return
                self.ready += 1

    def _run_one(self, work: "Work") -> None:
        work.settle(None)
        assert work.promise is not None
        work.promise.set_result(None)
        with self.lock:
            if not self.closed:
                self.threads.discard(threading.current_thread())

    def close(self) -> None:
        """Ends the threads. Pending work must have failed before."""
        with self.lock:
            self.closed = True
            threads = list(self.threads)
        self.line.put(None)
        for thread in threads:
            if thread is not threading.current_thread():  # a group may end in a callback of its own
                thread.join()
        for work in list(self.held.values()):
            work.settle(None)
        self.held.clear()


class Work(_Base):  # type: ignore[misc,valid-type]
    """Calls of a group that were started together. The first waiter copies back indirect results."""

    ordered = True  # it is over before those of its group that are started after it

    def __init__(
        self, keeper: Keeper, what: str, requests: Sequence[ring.Request], outputs: object = None, after: Sequence[Callable[[], None]] = ()
    ) -> None:
        super().__init__()
        self.keeper = keeper
        self.what = what
        self.requests = requests
        self.outputs = outputs
        self.after = after
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
        if error is not None:
            error = self.keeper.absorb(error)
        self.failed = error
        self.requests = ()
        self.after = ()
        self.over = True

    # What torch calls.

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        seconds = timeout.total_seconds() if timeout else self.keeper.timeout
        if not self.settle(seconds):
            raise errors.TimeoutExpired(
                "gorun: %s of group %s timed out: the timeout of %g s is over, and some rank has not called it; the call goes on" % (self.what, self.keeper.name, seconds or 0)
            )
        self.keeper.drop(self)
        if self.failed is not None:
            raise copy.copy(self.failed)  # whose traceback has the caller's frames, and so the group, which would not end while this work exists
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
        self.device = device
        self.lane = lane
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


class Together(Work):
    """Several works as one."""

    ordered = False

    def __init__(self, keeper: Keeper, what: str, works: Sequence[Work], outputs: object) -> None:
        self.works = works
        super().__init__(keeper, what, (), outputs)
        for work in works:
            keeper.drop(work)

    def _finish(self, timeout: Optional[float]) -> None:
        end = None if timeout is None else time.monotonic() + timeout
        for work in self.works:
            if not work.settle(None if end is None else max(0.0, end - time.monotonic())):
                raise errors.TimeoutExpired(work.what)
        for work in self.works:
            if work.failed is not None:
                raise work.failed
        self._end(None)
