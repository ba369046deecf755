"""Runs a training program in which faults happen, each once at a point of a step: FOLDER POINT:STEP:RANK[:FAULT][,…] PROGRAM [ARGUMENT…].

The points are forward, backward, agreement, agreed (all ranks have voted), optimizer (parameters have changed), copying (a copy is on its way), random (up to 0.2 s after
forward has begun, and at most three steps; random70 is 70 ms after that), and those of an epoch, with its number for that of the step: exchange (the ranks have met), and
holder and receiver, or later: not when the job begins. RANK may be any.
The faults are kill (the default), segv, and host: a file FOLDER/host-… names the host, and the rank waits until it is empty, since somebody else harms the
host. At await nobody dies: the rank waits until new ranks are ready, or, at await with a number, until so many processes have come to
their first step. At flip a bit of a parameter changes at the end of the step. From slow on, each step of that process takes 0.2 s more.
Inputs of float32 get noise from the generators of Python and NumPy.
"""

import os
import random
import runpy
import signal
import sys
import threading
import time

import numpy
import torch

from gorun import _job
from gorun.torch import resilient

folder, faults, program = sys.argv[1:4]
plan = [tuple(fault.split(":")) for fault in faults.split(",") if fault]
sys.argv[:] = sys.argv[3:]


def planned(point, run, at=None):
    """Yields what the plan has for this rank here, as the rest of the point's name, the fault, and a name."""
    here = str(run.step if at is None else at), str(run._job.rank)
    for name, step, rank, *fault in plan:
        if name.startswith(point) and not name[len(point) :].strip("0123456789") and step == here[0] and rank in (here[1], "any") and run._job.heals:
            yield name[len(point) :], (fault or ["kill"])[0], "-".join((name, step, rank))


timers = []  # of random faults, each with the step in which it began


def may_die(point, run, at=None):
    for begun, timer in timers:
        if run.step >= begun + 3:  # a fast training must not be over before
            timer.join()
    for delay, fault, name in planned(point, run, at):
        if not once(name, run):
            return
        if point == "random":
            delay = float(delay or random.SystemRandom().uniform(0, 200)) / 1000
            timer = threading.Timer(delay, happen, (fault, name))
            timer.start()
            timers.append((run.step, timer))
        else:
            happen(fault, name)


def once(name, run):
    try:
        os.close(os.open(os.path.join(folder, name), os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    print("dies: %s of rank %d on %s" % (name, run._job.rank, os.uname().nodename), flush=True)
    return True


def happen(fault, name):
    if fault != "host":
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "segv": signal.SIGSEGV}[fault])
    path = os.path.join(folder, "host-" + name)
    with open(path + ".new", "w") as f:
        f.write(os.uname().nodename)
    os.rename(path + ".new", path)
    while os.path.getsize(path):
        time.sleep(0.001)


class Dying(resilient.Resilient):
    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        self.model.register_forward_pre_hook(lambda *_: wait(self))
        self.model.register_forward_pre_hook(lambda _, inputs: tuple(map(noisy, inputs)))
        for point in ("random", "forward"):
            self.model.register_forward_pre_hook(lambda *_, point=point: may_die(point, self))
        self.optimizer.register_step_post_hook(lambda *_: may_die("optimizer", self))
        self.optimizer.register_step_post_hook(lambda *_: may_flip(self))
        vote = self._job.vote

        def dying_vote(copied):
            may_die("agreement", self)
            agreed = vote(copied)
            may_die("agreed", self)
            return agreed

        self._job.vote = dying_vote
        exchange = getattr(self._job, "exchange", None)

        def dying_exchange(said):
            may_die("exchange", self, _job.joined().epoch)
            return exchange(said)

        self._job.exchange = dying_exchange
        running.append(self)

    def _enter(self):
        open(os.path.join(folder, "entered-%s-%d" % (os.uname().nodename, os.getpid())), "w").close()
        super()._enter()

    def _take(self, state, *more):
        super()._take(state, *more)
        print("receives step %d as process %d" % (self.step, entered()), flush=True)

    def _reduce(self, state, bucket):
        may_die("backward", self)
        return super()._reduce(state, bucket)

    def _weigh(self, gradients):
        may_die("backward", self)
        super()._weigh(gradients)

    def _copy(self, copies):
        super()._copy(copies)
        may_die("copying", self)


def entered():
    return sum(name.startswith("entered-") for name in os.listdir(folder))


def may_flip(run):
    for _, _, name in planned("flip", run):
        if once(name, run):
            parameter = next(run.model.parameters())
            local = getattr(parameter, "to_local", lambda: parameter)().detach()
            local.view(-1).view(torch.int32)[0] ^= 1 << 20


def wait(run):
    for _, _, name in planned("slow", run):
        if once(name, run):
            run.slow = True
    if getattr(run, "slow", False):
        time.sleep(0.2)
    for number, _, _ in planned("await", run):
        while not (entered() >= int(number) if number else _job.joined().hosts_updated()):
            time.sleep(0.05)


def noisy(x):
    return x + (random.random() + numpy.random.rand()) / 10 if x.dtype == torch.float32 else x


def dying_transfer(comm, holders, receivers, *more):
    (run,) = running
    for point, ranks in (("holder", holders), ("receiver", receivers)):
        if comm.rank in ranks:
            may_die(point, run, _job.joined().epoch)
            if len(receivers) < comm.size - 1:
                may_die(point, run, "later")
    return transfer(comm, holders, receivers, *more)


running = []
transfer = resilient.transfer
resilient.transfer = dying_transfer
resilient.Resilient = Dying
runpy.run_path(program, run_name="__main__")
