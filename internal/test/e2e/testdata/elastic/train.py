"""A stock elastic Horovod program. It trains nothing much, and says whenever it begins anew where it is.

train.py FOLDER: ends when FOLDER/end is there.
"""
import os
import sys
import time

import torch
import horovod.torch as hvd

folder = sys.argv[1]


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
        state.commit()
        time.sleep(0.02)


print("interface", os.environ.get("HOROVOD_GLOO_IFACE"), flush=True)
hvd.init()
state = hvd.elastic.TorchState(model=torch.nn.Linear(2, 1), batch=0)
train(state)
print("done", flush=True)
