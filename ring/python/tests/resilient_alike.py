"""Trains without random numbers, so that the parameters depend by rounding only on how many ranks share the steps: STEPS [CHECK_EVERY]."""

import hashlib
import sys

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import gorun.torch

steps, check_every = map(int, (sys.argv[1:] + ["0"])[:2])
torch.manual_seed(42)
gorun.torch.init_process_group()
data = TensorDataset(torch.randn(31, 3, dtype=torch.float64), torch.randn(31, 1, dtype=torch.float64))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=3, sampler=sampler)  # 9 samples of 3 ranks, of which 2 ranks take 5 and 4
model = DistributedDataParallel(torch.nn.Linear(3, 1, dtype=torch.float64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
run = gorun.torch.Resilient(model=model, optimizer=optimizer, check_every=check_every, undecided="warn")
for epoch in range(steps):
    sampler.set_epoch(epoch)
    for x, y in run.steps(loader, until=steps):
        F.mse_loss(model(x), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print("step %d: %d ranks" % (run.step, dist.get_world_size()), flush=True)
    if run.step == steps:
        break
values = torch.cat([p.detach().flatten() for p in model.parameters()]).tolist()
bits = hashlib.sha256(repr(values).encode()).hexdigest()[:16]
print("rank %d: step %d, bits %s" % (dist.get_rank(), run.step, bits), flush=True)
if dist.get_rank() == 0:
    print("parameters %s" % " ".join(map(repr, values)), flush=True)
dist.destroy_process_group()
