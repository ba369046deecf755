"""PyTorch's own tests of torch.distributed, on one backend: DistributedTest._DistTestBase, which comes with PyTorch.

    gorun -np 2 python3 torch_suite.py gorun FOLDER [TEST ...]

Without names it runs all tests. FOLDER is empty and shared by the ranks. Rank 0 prints a line for each test, "ok", "FAIL" or "skip" and the name; the ranks
that failed print why before. A test that does not end ends the job. Conditions of tests are those for gloo, which moves tensors of the CPU too.
"""

import faulthandler
import os
import sys
import traceback
import unittest
from datetime import timedelta

backend, folder = sys.argv[1:3]
os.environ.update(BACKEND="gloo", TEMP_DIR=folder, TORCH_TEST_DEVICES="", TORCHELASTIC_USE_AGENT_STORE="False")
os.environ.pop("TORCHELASTIC_RUN_ID", None)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch.testing._internal import common_utils  # noqa: E402
from torch.testing._internal.distributed import distributed_test  # noqa: E402

if backend == "gorun":
    import gorun.torch_backend  # noqa: F401
RANK = int(os.environ["RANK"])
SIZE = int(os.environ["WORLD_SIZE"])
LIMIT = 100  # seconds for a test; none needs ten on an idle machine


class Suite(common_utils.TestCase, distributed_test.DistributedTest._DistTestBase):
    rank = RANK
    world_size = os.environ["WORLD_SIZE"]

    def runTest(self):
        raise NotImplementedError


def instead_of_gloo(make, at):
    """make with the backend that is tested where its argument number at, or backend, is gloo."""

    def made(*args, **kwargs):
        if len(args) > at and args[at] == "gloo":
            args = (*args[:at], backend, *args[at + 1 :])
        elif kwargs.get("backend") == "gloo":
            kwargs["backend"] = backend
        return make(*args, **kwargs)

    return made


def main():
    torch.set_num_threads(1)
    if backend != "gloo":
        dist.init_process_group = instead_of_gloo(dist.init_process_group, 0)
        dist.new_group = instead_of_gloo(dist.new_group, 2)
    os.makedirs(os.path.join(folder, "barrier"), exist_ok=True)
    os.makedirs(os.path.join(folder, "test_dir"), exist_ok=True)
    store = dist.FileStore(os.path.join(folder, "store"), SIZE)
    store.set_timeout(timedelta(seconds=300))
    meetings = 0

    def meet(*_, **__):
        nonlocal meetings
        meetings += 1
        if store.add("meeting%d" % meetings, 1) == SIZE:
            store.set("met%d" % meetings, "")
        store.wait(["met%d" % meetings])

    Suite._barrier = meet
    names = sys.argv[3:] or unittest.TestLoader().getTestCaseNames(Suite)
    for name in names:
        result = run(name, store, meet)
        store.set("%s/%d" % (name, RANK), result)
        meet()
        if RANK == 0:
            results = {store.get("%s/%d" % (name, r)).decode() for r in range(SIZE)}
            print(next(r for r in ("FAIL", "skip", "ok") if r in results), name, flush=True)


def run(name, store, meet):
    test = Suite(name)
    faulthandler.dump_traceback_later(LIMIT, exit=True)
    environment = dict(os.environ)
    distributed_test.BACKEND = backend if name == "test_get_backend" else "gloo"
    wait = timedelta(seconds=distributed_test.CUSTOM_PG_TIMEOUT.get(name, 30))
    try:
        dist.init_process_group(backend, store=dist.PrefixStore(name, store), rank=RANK, world_size=SIZE, timeout=wait)
        meet()
        test.setUp()
        getattr(test, name)()
        test.doCleanups()
        return "ok"
    except unittest.SkipTest:
        return "skip"
    except SystemExit:  # how tests for several processes skip
        return "skip"
    except BaseException:
        print("rank %d: %s\n%s" % (RANK, name, traceback.format_exc()), flush=True)
        return "FAIL"
    finally:
        meet()
        if dist.is_initialized():
            dist.destroy_process_group()
        os.environ.clear()
        os.environ.update(environment)
        if hasattr(dist, "set_debug_level_from_env"):
            dist.set_debug_level_from_env()
        faulthandler.cancel_dump_traceback_later()


main()
sys.stdout.flush()
os._exit(0)  # some tests leave threads
