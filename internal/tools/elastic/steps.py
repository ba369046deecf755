"""A training whose steps are measured: steps.py HOW FOLDER [MB]

HOW is resilient (gorun.torch.Resilient, with MB of state besides the model's), plain (the same without it), copied (Resilient with a sharded
model, copied every 10 steps), sharded (the same without it), checkpoints (for torchrun: every 10 steps) or horovod (elastic, with a commit in
each step). It trains until it is killed. A step sleeps for 40 ms, as one that waits for an
accelerator. Each process writes "time step epoch size processor-time" to FOLDER/steps-HOST-PID after each step that holds, and makes
FOLDER/ready-HOST-PID before its first."""
import itertools
import os
import sys
import time

import torch
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

how, folder = sys.argv[1:3]
name = "%s-%d" % (os.uname().nodename, os.getpid())
steps = open(os.path.join(folder, "steps-" + name), "w", buffering=1)


def ready():
    open(os.path.join(folder, "ready-" + name), "w").close()


def holds(step, epoch, size):
    steps.write("%.6f %d %d %d %.6f\n" % (time.time(), step, epoch, size, time.process_time()))


def train(model, optimizer, batch):
    loss = (model(batch) - batch).square().mean()
    time.sleep(0.04)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


torch.manual_seed(1)
torch.set_num_threads(1)
data = TensorDataset(torch.randn(8192, 512))
model = torch.nn.Sequential(torch.nn.Linear(512, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 512))
if how == "horovod":
    import horovod.torch as hvd

    hvd.init()
    optimizer = hvd.DistributedOptimizer(torch.optim.AdamW(model.parameters()), named_parameters=model.named_parameters())

    @hvd.elastic.run
    def run(state):
        ready()
        while True:
            train(model, optimizer, torch.randn(32, 512))
            state.step += 1
            state.commit()
            holds(state.step, 0, hvd.size())

    run(hvd.elastic.TorchState(model, optimizer, step=0))

import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

if how == "checkpoints":
    dist.init_process_group("gloo")
else:
    import gorun.torch
    from gorun import _job

    if how in ("plain", "sharded"):
        import gorun.torch_backend

        dist.init_process_group("gorun")
    else:
        gorun.torch.init_process_group(sharded=how == "copied")
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=32, sampler=sampler)
if how in ("sharded", "copied"):
    fully_shard(model)
else:
    model = DistributedDataParallel(model)
if how == "resilient" and sys.argv[3:]:
    model.module.more = torch.nn.Parameter(torch.ones(int(sys.argv[3]) * 250_000), requires_grad=False)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
ready()

if how in ("resilient", "copied"):
    copies = {"copies": 1, "copy_every": 10} if how == "copied" else {}
    run = gorun.torch.Resilient(model=model, optimizer=optimizer, **copies)
    done = 0
    for number in itertools.count():
        sampler.set_epoch(number)
        for (batch,) in run.steps(loader):
            train(model, optimizer, batch)
            if run.step > done:
                done = run.step
                holds(done, _job.joined().epoch, dist.get_world_size())

checkpoint = os.path.join(folder, "checkpoint")
step = 0
if how == "checkpoints" and os.path.exists(checkpoint):
    step, weights, moments = torch.load(checkpoint)
    model.load_state_dict(weights)
    optimizer.load_state_dict(moments)
for number in itertools.count():
    sampler.set_epoch(number)
    for (batch,) in loader:
        train(model, optimizer, batch)
        step += 1
        holds(step, 0, dist.get_world_size())
        if how == "checkpoints" and step % 10 == 0 and dist.get_rank() == 0:
            torch.save((step, model.state_dict(), optimizer.state_dict()), checkpoint + ".new")
            os.rename(checkpoint + ".new", checkpoint)
