"""Ranks of an elastic job count how often each sample was seen, while they die and come. Each is counted once in each pass.

What they do besides stands in a folder: a file die.RANK has the process that is this rank end, by its own hand, and a file
finish has all end after the pass.
"""

import os
import sys
import time

import torch

import gorun.torch as hvd

SAMPLES = 240
BATCH = 3
folder = sys.argv[1]


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(SAMPLES, dtype=torch.float64))


hvd.init()
model = Counter()
# Its gradients are the negative counts of a step, so that it adds them up; momentum would show if its state were lost.
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters(), op=hvd.Sum
)
sampler = hvd.elastic.ElasticSampler(range(SAMPLES), seed=3)
state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, step=0, sizes=[], last=False)
resets = []
state.register_reset_callbacks([lambda: resets.append(hvd.size())])


@hvd.elastic.run
def train(state):
    if hvd.rank() == 0:
        print("size %d" % hvd.size(), flush=True)
    while not state.last:
        rows = list(sampler)
        for at in range(0, len(rows), BATCH):
            optimizer.zero_grad()
            model.weight[rows[at : at + BATCH]].sum().neg().backward()
            order = os.path.join(folder, "die.%d" % hvd.rank())
            if os.path.exists(order):
                os.remove(order)
                os.kill(os.getpid(), 9)
            optimizer.step()
            sampler.record_batch(at // BATCH, BATCH)
            state.step += 1
            state.sizes.append(hvd.size())
            if state.step % 2 == 0:
                state.commit()
            time.sleep(0.002)
        sampler.set_epoch(sampler.epoch + 1)
        state.last = hvd.broadcast_object(os.path.exists(os.path.join(folder, "finish")), 0)
        state.commit()


train(state)
counts = model.weight.detach()
passes = sampler.epoch
assert counts.min() == passes and len(state.sizes) == state.step, (counts, passes, state.step)
# More than once only those that give all ranks the same number: less than there are ranks, at the end of a pass.
assert counts.sum() - passes * SAMPLES <= 2 * passes, (counts.sum(), passes)
print("rank %d of %d: all right after sizes %s" % (hvd.rank(), hvd.size(), sorted(set(state.sizes))), flush=True)
