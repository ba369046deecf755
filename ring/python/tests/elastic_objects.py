"""Ranks count together, without PyTorch. The one that is rank 1 at first is killed while the others wait for it."""

import os
import sys
import time

import numpy as np

import gorun
import gorun.elastic
import gorun.numpy as hvd

marker = sys.argv[1]
STEPS = 20
hvd.init()
state = gorun.elastic.ObjectState(total=np.zeros(4), step=0, sizes=[])
waited = []


@gorun.elastic.run
def train(state):
    while state.step < STEPS or state.sizes[-1] == 2:
        if hvd.rank() == 1 and state.step == 5 and not os.path.exists(marker):
            open(marker, "w").close()
            time.sleep(0.2)  # the others wait
            os.kill(os.getpid(), 9)
        begun = time.monotonic()
        handle = hvd.allreduce_async(np.ones(4), op=hvd.Average, name="ones")
        try:
            state.total += hvd.synchronize(handle)
        except gorun.PeerError as e:
            waited.append(time.monotonic() - begun)
            assert isinstance(e, gorun.GorunError) and e.rank == 1, e
            raise
        state.step += 1
        state.sizes.append(hvd.size())
        time.sleep(0.01)
        state.commit()


train(state)
assert state.total.tolist() == [state.step] * 4 and len(state.sizes) == state.step, (state.total, state.sizes)
assert state.sizes[0] == state.sizes[-1] == 3 and 2 in state.sizes, state.sizes
assert len(waited) <= 1 and all(w < 5 for w in waited), waited
print("rank %d: all right" % hvd.rank(), flush=True)
