"""Ranks sum and exchange NumPy arrays.

    gorun -np 4 -H f1:2,f2:2 python3 numpy_allreduce.py
"""

import numpy as np

import gorun.numpy as ring

ring.init()
rank = ring.rank()
size = ring.size()

# Each rank has its own numbers, and gets the mean of all.
mine = np.arange(5, dtype=np.float32) * (rank + 1)
mean = ring.allreduce(mine, op=ring.Average)
print(f"rank {rank} of {size}: the mean is {mean}", flush=True)

# Any number of rows from each rank, in the order of ranks.
rows = ring.allgather(np.full((rank + 1, 2), rank))
assert rows.shape == (size * (size + 1) // 2, 2)

# What rank 0 has, for all.
settings = ring.broadcast_object({"lr": 0.1, "layers": [64, 10]} if rank == 0 else None, root_rank=0)
print(f"rank {rank}: {len(rows)} rows, settings {settings}", flush=True)
ring.shutdown()
