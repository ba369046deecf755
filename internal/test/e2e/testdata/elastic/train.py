"""A stock elastic Horovod program. It trains nothing much, and says whenever it begins anew where it is.

train.py FOLDER [RANK@BATCH:HOW ...]: ends when FOLDER/end is there. Before that a rank fails at a batch, once, or all ranks (*) do,
whenever they come to it: HOW is kill, error (an exception) or an exit code.
"""
import os
import signal
import sys
import time

import torch
import horovod.torch as hvd

folder, faults = sys.argv[1], sys.argv[2:]


def fail_if_due(batch):
    for fault in faults:
        when, how = fault.split(":")
        rank, at = when.split("@")
        if rank not in ("*", str(hvd.rank())) or batch != int(at):
            continue
        try:
            open(os.path.join(folder, "failed-" + when), "x").close()
        except FileExistsError:
            if rank != "*":
                continue
        if how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if how == "error":
            raise RuntimeError("it is my turn")
        os._exit(int(how))


@hvd.elastic.run
def train(state):
    said = False
    while True:
        end = torch.tensor([float(os.path.exists(os.path.join(folder, "end"))), 1.0])
        ended, n = hvd.allreduce(end, op=hvd.Sum).tolist()
        if not said:
            print(f"rank {hvd.rank()} of {hvd.size()} local {hvd.local_rank()} of {hvd.local_size()} sum {int(n)} batch {state.batch} pid {os.getpid()}", flush=True)
            said = True
        if ended:
            return
        state.batch += 1
        fail_if_due(state.batch)
        state.commit()
        time.sleep(0.02)


print("interface", os.environ.get("HOROVOD_GLOO_IFACE"), flush=True)
hvd.init()
state = hvd.elastic.TorchState(model=torch.nn.Linear(2, 1), batch=0)
train(state)
print("done", flush=True)
