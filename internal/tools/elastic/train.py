"""An elastic program with Horovod's names that trains nothing, and says whenever it begins anew where it is, and for how
long it stood still at most since it said so before, and for how long it imported: train.py FOLDER [numpy]

With "numpy" it is one for gorun alone, which needs no PyTorch. While FOLDER/slow is there, a process takes 40 s to begin."""
import os
import sys
import time

folder = sys.argv[1]
print("begun", flush=True)
begun = time.monotonic()
if os.path.exists(os.path.join(folder, "slow")):
    time.sleep(40)

if sys.argv[2:] == ["numpy"]:
    import numpy
    import gorun.numpy as hvd
    from gorun import elastic

    State = elastic.ObjectState
    ones = numpy.ones(1000, numpy.float32)
    rest = 0.05
else:
    import torch
    import horovod.torch as hvd

    elastic = hvd.elastic
    State = elastic.TorchState
    ones = torch.ones(1000)
    rest = 0.02

last = None  # when the last step was over


@elastic.run
def train(state):
    global last
    first = True
    longest = 0.0
    while True:
        n = hvd.allreduce(ones, op=hvd.Sum)[0]
        now = time.monotonic()
        if last is not None:
            longest = max(longest, now - last)
        last = now
        if first:
            print(f"stint rank {hvd.rank()} of {hvd.size()} sum {int(n)} batch {state.batch} host {os.uname().nodename} pid {os.getpid()} "
                  f"paused {longest:.3f} imported {imported:.3f}", flush=True)  # fmt: skip
            first = False
        state.batch += 1
        state.commit()
        time.sleep(rest)


imported = time.monotonic() - begun
hvd.init()
train(State(batch=0))
