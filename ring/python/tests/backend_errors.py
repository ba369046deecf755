"""What goes wrong with backend gorun, and how it is said. sys.argv[1] says what."""

import os
import re
import signal
import sys
import time
from datetime import timedelta
from types import SimpleNamespace

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import gorun.torch_backend
from gorun import errors


def refused(kind, text, call):
    try:
        call()
    except kind as e:
        assert re.search(text, str(e)), "%s: %s" % (text, e)
        return
    raise SystemExit("it was taken: " + text)


STORES = []


def begin():
    """Makes the default group, again in the same store: a second one at its port may meet ranks that take it for the first."""
    if not STORES:
        dist.init_process_group("gorun", timeout=timedelta(seconds=60))
        STORES.append(dist.distributed_c10d._get_default_store())
        return
    STORES.append(dist.PrefixStore(str(len(STORES)), STORES[0]))
    dist.init_process_group("gorun", store=STORES[-1], rank=int(os.environ["RANK"]), world_size=4)


def mistakes():
    begin()
    rank = dist.get_rank()
    size = dist.get_world_size()
    invalid = errors.InvalidError
    refused(invalid, "layout torch.sparse_coo", lambda: dist.broadcast(torch.eye(3).to_sparse(), 0))
    refused(invalid, "on meta.*those of the CPU", lambda: dist.all_reduce(torch.empty(3, device="meta")))
    scaled = SimpleNamespace(reduceOp=dist.ReduceOp.PREMUL_SUM)
    refused(invalid, "not a reduction", lambda: dist.group.WORLD.allreduce([torch.ones(3)], scaled))
    refused((invalid, RuntimeError), "complex|reduced", lambda: dist.reduce_scatter(torch.ones(1, dtype=torch.complex64), [torch.ones(1, dtype=torch.complex64)] * size))
    refused(invalid, "a list of 1 tensors for 4 ranks", lambda: dist.all_gather([torch.ones(3)], torch.ones(3)))
    refused(invalid, "both torch.float32 and torch.float64", lambda: dist._all_gather_base(torch.ones(4), torch.ones(1).double()))
    refused(invalid, "3 rows are not equal parts", lambda: dist.all_to_all_single(torch.ones(3), torch.ones(3)))
    refused(invalid, r"splits \[1, 1, 1, 1\] of 5 rows", lambda: dist.all_to_all_single(torch.ones(5), torch.ones(5), [1] * 4, [1] * 4))
    refused(invalid, "dst of|elements|length", lambda: dist._all_gather_base(torch.ones(9), torch.ones(2)))
    # One that no other rank has called yet: the wait ends, the call does not.
    if rank == 0:
        late = dist.barrier(async_op=True)
        refused(errors.TimeoutExpired, r"barrier of group torch1 timed out: the timeout of 0\.2 s is over", lambda: late.wait(timedelta(seconds=0.2)))
        refused(errors.TimeoutExpired, "recv from rank 1", lambda: dist.irecv(torch.ones(1), 1).wait(timedelta(seconds=0.2)))
        refused(errors.TimeoutExpired, "timed out, and rank 1 on", lambda: dist.group.WORLD.engine.comm.group("nobody else", [0, 1], 0.2))
        time.sleep(0.1)
    if rank == 1:
        time.sleep(1)
        dist.send(torch.ones(1), 0)
    if rank != 0:
        late = dist.barrier(async_op=True)
    late.wait()
    x = torch.ones(3)
    dist.all_reduce(x)  # all goes on
    assert x[0] == size
    group = dist.group.WORLD
    dist.destroy_process_group()
    group.shutdown()
    refused(errors.GorunError, "no communicator|closed", lambda: group.allreduce([x]))


def wrong_rank():
    """What torch asks of a backend when RANK is somebody else's."""
    rank = int(os.environ["RANK"])
    options = SimpleNamespace(global_ranks_in_group=[], timeout=None, group_rank=rank ^ 1, group_size=4)
    create = dist.Backend._plugins["GORUN"].creator_fn
    refused(errors.InvalidError, "takes this process for rank %d of 4, and gorun for rank %d of 4" % (rank ^ 1, rank), lambda: create(options, None))


def mismatch():
    begin()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # gorun ends the others at once, and they have something to say
    n = 3 + dist.get_rank() // 3
    # A rank that does not see the difference itself waits 0.4 s for the job's word, which is late on a loaded machine.
    refused(errors.GorunError, "calls differ|lost it", lambda: dist.all_reduce(torch.ones(n)))
    print("told", flush=True)


def dies(how):
    """Rank 2 goes during training; the others say within seconds that it was it."""
    begin()
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.Linear(100, 100))
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # gorun ends the others at once, and they have something to say
    last = time.monotonic()
    try:
        for step in range(1000):
            if rank == 2 and step == 5:
                print("dies at %f" % time.time(), flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            last = time.monotonic()
            if how == "wait":
                dist.all_reduce(torch.ones(1000))
            else:
                model(torch.randn(8, 100)).sum().backward()
    except RuntimeError as e:
        assert "rank 2" in str(e), e
        if how == "wait":
            assert isinstance(e, errors.PeerError) and e.rank == 2, repr(e)
        assert time.monotonic() - last < 10  # the goal is 1 s
        print("told: %s" % e, flush=True)
        raise SystemExit(1)


def unended():
    """Ranks end with calls that nobody waited for, with threads, and without destroy_process_group."""
    begin()
    rank = dist.get_rank()
    x = torch.ones(1000)
    dist.all_reduce(x, async_op=True).get_future().wait()
    pending = dist.irecv(torch.empty(5), (rank + 1) % 4)  # never sent
    dist.barrier()
    assert pending is not None
    if rank == 0:
        globals()["kept"] = (pending, dist.group.WORLD)
    print("all right", flush=True)


def reinit():
    """A rank raises; all abort what they have, and begin again in the same processes."""
    for attempt in range(2):
        begin()
        rank = dist.get_rank()
        size = dist.get_world_size()
        x = torch.ones(4)
        try:
            if rank == 1:
                raise RuntimeError("trouble of rank 1")
            dist.all_reduce(x)
            raise SystemExit("it has gone well")
        except RuntimeError as e:
            assert rank == 1 or isinstance(e, errors.PeerError), repr(e)  # of rank 1, or of one that has left because of it
        if attempt == 0 and hasattr(dist.distributed_c10d, "_abort_process_group"):
            dist.distributed_c10d._abort_process_group()
        else:
            dist.group.WORLD.shutdown()  # PyTorch 1.13 only forgets it, and this exception may still refer to it
            dist.destroy_process_group()
    begin()
    x = torch.ones(4)
    dist.all_reduce(x)
    assert x[0] == size
    dist.destroy_process_group()


def threads():
    """The thread of a group ends with it, and so does the part in the job."""
    import gc
    import threading

    from gorun import _job

    for _ in range(3):
        begin()
        dist.all_reduce(torch.ones(3), async_op=True).get_future().wait()
        model = DistributedDataParallel(nn.Linear(3, 3))
        model(torch.ones(3)).sum().backward()
        assert [t.name for t in threading.enumerate() if t.name.startswith("gorun-")], threading.enumerate()
        dist.barrier()
        dist.destroy_process_group()
        del model
        gc.collect()
        left = [t.name for t in threading.enumerate() if t.name.startswith("gorun-")]
        assert not left and _job.joined() is None, (left, _job.joined())


def survivable():
    wrong_rank()
    mistakes()
    reinit()
    threads()
    unended()


if __name__ == "__main__":
    getattr(sys.modules[__name__], sys.argv[1])(*sys.argv[2:])
