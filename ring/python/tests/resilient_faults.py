"""Runs a training program whose ranks die, each once at a point of a step: FOLDER POINT:STEP:RANK[,…] PROGRAM [ARGUMENT…].

The points are random (a moment of the next 0.2 s), forward, backward, agreement, agreed (all ranks have voted), optimizer (parameters have changed), and those of a transfer:
holder and receiver, with the number of the epoch for that of the step. At await nobody dies: the rank waits until new ranks are ready, or,
at await with a number, until so many processes have come to their first step.
"""

import os
import random
import runpy
import sys
import threading
import time

import torch

from gorun import _job
from gorun.torch import resilient

folder, faults, program = sys.argv[1:4]
plan = {tuple(fault.split(":")) for fault in faults.split(",") if fault}
sys.argv[:] = sys.argv[3:]


def may_die(point, run, at=None):
    fault = point, str(run.step if at is None else at), str(run._job.rank)
    if fault in plan and run._job.heals:
        try:
            os.close(os.open(os.path.join(folder, "-".join(fault)), os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        print("dies: %s" % " ".join(fault), flush=True)
        if point == "random":
            threading.Timer(random.SystemRandom().uniform(0, 0.2), os.kill, (os.getpid(), 9)).start()
        else:
            os.kill(os.getpid(), 9)


class Dying(resilient.Resilient):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.model.register_forward_pre_hook(lambda *_: wait(self))
        for point in ("random", "forward"):
            self.model.register_forward_pre_hook(lambda *_, point=point: may_die(point, self))
        self.optimizer.register_step_post_hook(lambda *_: may_die("optimizer", self))
        vote = self._job.vote

        def dying_vote():
            may_die("agreement", self)
            agreed = vote()
            may_die("agreed", self)
            return agreed

        self._job.vote = dying_vote
        running.append(self)

    def _enter(self):
        open(os.path.join(folder, "entered-%s-%d" % (os.uname().nodename, os.getpid())), "w").close()
        super()._enter()

    def _take(self, state):
        super()._take(state)
        print("receives step %d as process %d" % (self.step, entered()), flush=True)

    def _reduce(self, state, bucket):
        may_die("backward", self)
        return super()._reduce(state, bucket)


def entered():
    return sum(name.startswith("entered-") for name in os.listdir(folder))


def wait(run):
    here = str(run.step), str(run._job.rank)
    for number in [point[5:] for point, *at in plan if point.startswith("await") and tuple(at) == here and run._job.heals]:
        while not (entered() >= int(number) if number else _job.joined().hosts_updated()):
            time.sleep(0.05)


def dying_transfer(comm, decision, state):
    (run,) = running
    may_die("holder" if comm.rank in decision.holders else "receiver", run, _job.joined().epoch)
    return transfer(comm, decision, state)


running = []
transfer, resilient.transfer, resilient.Resilient = resilient.transfer, dying_transfer, Dying
runpy.run_path(program, run_name="__main__")
