"""Forks of a rank: each way to make them, each call in them, while the rank and its other threads go on."""

import multiprocessing
import os
import signal
import sys
import threading
import time

import numpy as np

import gorun
import gorun.numpy as hvd
from gorun import _job, _world

hvd.init()
rank = hvd.rank()
size = hvd.size()
x = np.ones(1000, np.float32)


def works(name):
    for _ in range(20):
        assert (hvd.allreduce(x, name=name, op=hvd.Sum) == size).all()


def refused():
    """All calls are refused, soon; the rank's number may be asked for."""
    signal.alarm(30)  # ends it, should it hang
    calls = {
        "allreduce": lambda: hvd.allreduce(x, op=hvd.Sum),
        "async": lambda: hvd.allreduce_async(x),
        "broadcast": lambda: hvd.broadcast(x, 0),
        "allgather": lambda: hvd.allgather(x),
        "object": lambda: hvd.allgather_object("x"),
        "barrier": hvd.barrier,
        "set": lambda: hvd.add_process_set([0]),
        "init": hvd.init,
        "shutdown": hvd.shutdown,
    }
    for what, call in calls.items():
        for _ in range(20):
            try:
                call()
            except gorun.ForkedError as e:
                assert "fork" in str(e), e
            else:
                raise SystemExit("%s went well in a fork" % what)
    assert hvd.is_initialized() and (hvd.rank(), hvd.size()) == (rank, size)


def fork(f, end=sys.exit):
    """A fork that does f and ends as programs do, with all that is done at exit, or otherwise."""
    child = os.fork()
    if child == 0:
        f()
        end(42)
    return child


def ended(child):
    status = os.waitpid(child, 0)[1]
    assert os.WIFEXITED(status) and os.WEXITSTATUS(status) == 42, status


def work(n):
    refused()
    return n * n


if __name__ == "__main__":
    works("before")
    # Both call at once.
    child = fork(refused)
    works("beside")
    ended(child)

    # In the middle of another thread's calls, with its locks held: those of the package are free in the fork.
    calling = threading.Thread(target=works, args=("thread",))
    calling.start()
    with _world._world.lock, _job._job.lock:
        held = threading.Event()
        children = []
        forking = threading.Thread(target=lambda: (children.append(fork(refused, os._exit)), held.set()))
        forking.start()
        held.wait()
    forking.join()
    ended(children[0])
    calling.join()

    # As multiprocessing does it.
    with multiprocessing.get_context("fork").Pool(2) as pool:
        squares = pool.map_async(work, range(4))
        works("pool")
        assert squares.get(60) == [0, 1, 4, 9]
    works("after")

    # A fork that lives on keeps nobody from leaving, nor from seeing that others have left.
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    began = time.monotonic()
    if rank == 1:
        hvd.shutdown()
    else:
        try:
            while True:
                hvd.allreduce(x, name="left alone")
        except gorun.PeerError:
            pass
    assert time.monotonic() - began < 10
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    print("all right")
