"""One rank is killed while all of them train."""

import os
import signal

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(100, 100))
step = 0
while True:
    model(torch.ones(8, 100)).sum().backward()
    step += 1
    if step == 20:
        print("training", flush=True)
    if step == 50 and dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
