"""A rank that sends elements beyond the shape of a sparse tensor makes nobody read or write there: rank 1 tries it on rank 0."""

import gorun.torch as hvd
import gorun.torch_backend  # noqa: F401
import torch
import torch.distributed as dist

from gorun import MismatchError
from gorun.torch_backend import sparse

torch.sparse.check_sparse_tensor_invariants.disable()  # as it is by default, but for a warning
hvd.init()
rank = hvd.rank()
dist.init_process_group("gorun")
for at in (4, -1, 10**12):
    x = torch.sparse_coo_tensor([[rank]], torch.ones(1, 3), (4, 3))
    if rank == 1:
        x = torch.sparse_coo_tensor([[at]], torch.ones(1, 3), (4, 3), check_invariants=False)
    calls = {
        "hvd": lambda: hvd.sparse_allreduce_async(x, "x%d" % at, op=hvd.Sum)(),
        "dist": lambda: dist.all_reduce(x),
    }
    for name, call in calls.items():
        try:
            got = call()
            raise SystemExit("%s: the index %d was believed: %s" % (name, at, got))
        except MismatchError as e:
            assert "do not fit together" in str(e), e
# Nor how many they are.
honest = sparse.ctypes.c_int64


class Count:
    """In the place of a type of C: a count of rank 1 is another one."""

    def __mul__(self, n):
        return honest * n

    def __call__(self, n):
        return honest(count if rank == 1 else n)


for rows, count, error in (
    (4, -1, "rank 1 says that it has -1 elements, of at most 4"),
    (4, 5, "rank 1 says that it has 5 elements, of at most 4"),
    (4, 1 << 60, "rank 1 says that it has %d elements, of at most 4" % (1 << 60)),
    (1 << 55, 1 << 50, "rank 1 the most, which is more than this machine's memory"),
):
    x = torch.sparse_coo_tensor([[rank]], torch.ones(1, 3), (rows, 3))
    sparse.ctypes.c_int64 = Count()
    try:
        dist.all_reduce(x)
        raise SystemExit("%d elements were believed" % count)
    except MismatchError as e:
        assert error in str(e), e
    finally:
        sparse.ctypes.c_int64 = honest
x = torch.sparse_coo_tensor([[rank]], torch.ones(1, 3), (4, 3))
assert hvd.sparse_allreduce_async(x, "honest", op=hvd.Sum)().to_dense().sum().item() == 6
dist.all_reduce(x)
assert x.to_dense().sum().item() == 6
dist.destroy_process_group()
print("all right")
