"""Calls made over and over leave nothing behind: neither memory nor Python's objects.

    gorun -np 2 python3 leaks.py 100000
"""

import gc
import os
import sys
import time

import torch

import gorun
import gorun.torch as hvd

CALLS = int(sys.argv[1])
GROWTH = 4 << 20  # less than 42 bytes a call of 100000
WARM_UP = 10000  # more than the names that are kept
PAGE = os.sysconf("SC_PAGE_SIZE")

# The fusion buffer lies in Go's heap, and Go lets as much garbage gather as it has of memory in use: 64 MiB by default.
os.environ["HOROVOD_FUSION_THRESHOLD"] = str(64 << 10)
hvd.init()
rank = hvd.rank()
size = hvd.size()
x = torch.ones(16)


def in_place(i):
    hvd.allreduce_(x, op=hvd.Max, name="in place")


def new(i):
    hvd.allreduce(x)


def gathered(i):
    hvd.allgather(x)


def dropped(i):
    handle = hvd.allreduce_async(x, op=hvd.Sum) if i % 2 else hvd.allgather_async(x)
    if i % 3 == 0:
        hvd.poll(handle)
    if i % 64 == 0:  # so that what is under way does not pile up
        hvd.barrier()


def waited(i):
    handles = [hvd.allreduce_async(x), hvd.broadcast_async(x, 0), hvd.alltoall_async(x, splits=[16 // size] * size)]
    for handle in handles:
        hvd.synchronize(handle)


def grouped(i):
    hvd.grouped_allreduce([x, x])
    hvd.grouped_allgather([x, x])


def objects(i):
    hvd.broadcast_object({"epoch": i}, 0)


def errors(i):
    wrong = torch.ones(2 + rank)
    try:
        hvd.allreduce(wrong, name="mismatch") if i % 2 else hvd.synchronize(hvd.allreduce_async(wrong, name="mismatch"))
    except gorun.MismatchError:
        return
    raise SystemExit("a mismatch went well")


def process_sets(i):
    hvd.remove_process_set(hvd.add_process_set([0]))


def memory():
    """Resident bytes, and the objects that Python's collector knows."""
    gc.collect()
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * PAGE, len(gc.get_objects())


# What to call, and how many of the calls it gets: one in so many.
RUNS = [(in_place, 1), (new, 1), (gathered, 1), (dropped, 1), (waited, 20), (grouped, 20), (objects, 20), (errors, 2), (process_sets, 100)]

grew = []
for run, share in RUNS:
    calls = CALLS // share
    started = time.monotonic()
    for i in range(WARM_UP // share):
        run(i)
    hvd.barrier()
    hvd.allreduce(x)  # sweeps what was dropped
    bytes_before, objects_before = memory()
    for i in range(calls):
        run(i)
    hvd.barrier()
    hvd.allreduce(x)
    bytes_after, objects_after = memory()
    more = bytes_after - bytes_before
    things = objects_after - objects_before
    took = time.monotonic() - started
    print("%s: %d calls: %+d KiB, %+d objects, %.0f s" % (run.__name__, calls, more >> 10, things, took), flush=True)
    if more >= GROWTH or things >= 10:
        grew.append(run.__name__)
assert not grew, "what grew: %s" % ", ".join(grew)
print("all right")
