"""Every operation of gorun.numpy on every type and kind of shape."""

import itertools

import numpy as np

import gorun
import gorun.numpy as hvd

FLOATS = ["float16", "float32", "float64"]
DTYPES = FLOATS + ["bool", "int8", "uint8", "int16", "int32", "int64", "uint64"]
LAYOUTS = {
    "0-d": ((), lambda a: a),
    "empty": ((0,), lambda a: a),
    "rows without elements": ((3, 0), lambda a: a),
    "vector": ((7,), lambda a: a),
    "matrix": ((5, 3), lambda a: a),
    "transposed": ((4, 6), lambda a: a.T),
    "every other": ((10, 2), lambda a: a[::2]),
    "backwards": ((9,), lambda a: a[::-1]),
    "large": ((200, 1001), lambda a: a),
}

hvd.init()
rank = hvd.rank()
size = hvd.size()


def same(got, want, what):
    assert got.dtype == want.dtype and got.shape == want.shape, (what, got.dtype, got.shape, want.dtype, want.shape)
    assert (got == want).all(), (what, got, want)


for dtype, (name, (shape, layout)) in itertools.product(DTYPES, LAYOUTS.items()):
    what = dtype, name
    ranks = [layout(np.asarray(np.random.RandomState(100 * len(name) + r).randint(0, 4, shape)).astype(dtype)) for r in range(size)]
    mine = ranks[rank]
    stack = np.stack(ranks).astype("float64" if dtype in FLOATS else "int64")
    wants = {hvd.Sum: stack.sum(0), hvd.Min: stack.min(0), hvd.Max: stack.max(0), hvd.Product: stack.prod(0)}
    if dtype != "bool":
        wants[hvd.Average] = stack.mean(0) if dtype in FLOATS else stack.sum(0) // size
    handles = {op: hvd.allreduce_async(mine, op=op) for op in wants}
    for op, want in wants.items():
        same(hvd.synchronize(handles[op]), np.asarray(want).astype(dtype), what + (op,))
    target = mine.copy(order="K")
    assert hvd.allreduce_(target, op=hvd.Sum) is target
    total = np.asarray(wants[hvd.Sum]).astype(dtype)
    same(target, total, what)
    same(hvd.grouped_allreduce([mine, mine], op=hvd.Sum)[1], total, what)
    same(hvd.broadcast(mine, size - 1), ranks[-1], what)
    target = mine.copy(order="K")
    same(hvd.broadcast_(target, 0), ranks[0], what)
    same(target, ranks[0], what)
    rows = [a.reshape((1,)) if a.ndim == 0 else a for a in ranks]
    unlike = [np.concatenate([a] * r) if r else a[:0] for r, a in enumerate(rows)]
    same(hvd.allgather(mine), np.concatenate(rows), what)
    same(hvd.allgather(unlike[rank]), np.concatenate(unlike), what)
    same(hvd.grouped_allgather([mine])[0], np.concatenate(rows), what)
    if mine.ndim == 0:
        continue
    splits = [[0] * size for _ in ranks]
    for r in range(size):
        splits[r][(r + 1) % size] = len(mine)
    got, came = hvd.alltoall(mine, splits[rank])
    same(got, np.ascontiguousarray(ranks[rank - 1]), what)
    assert came.tolist() == [splits[r][rank] for r in range(size)]
    each, more = divmod(len(mine), size)
    begin = rank * each + min(rank, more)
    same(hvd.reducescatter(mine, op=hvd.Sum), total[begin : begin + each + (rank < more)], what)
    same(hvd.grouped_reducescatter([mine], op=hvd.Sum)[0], total[begin : begin + each + (rank < more)], what)

same(hvd.allreduce(np.array([8, 9], "int32"), op=hvd.Sum, prescale_factor=0.5), np.array([4 * size, 4 * size], "int32"), "scaled")
same(hvd.allreduce(np.array([8.0], "float16"), op=hvd.Sum, postscale_factor=0.5), np.array([4 * size], "float16"), "scaled")
assert hvd.broadcast_object([rank], 1) == [1] and hvd.allgather_object(rank) == list(range(size))
some = hvd.add_process_set([1])
if rank == 1:
    same(hvd.allreduce(np.ones(3), op=hvd.Sum, process_set=some), np.ones(3), "set")
hvd.remove_process_set(some)
fixed = np.ones(3)
fixed.flags.writeable = False
for wrong in (np.ones(3, "complex64"), np.ones(3, ">i4"), np.array(["a"])):
    try:
        hvd.allreduce(wrong)
        raise SystemExit("%s was taken" % wrong.dtype)
    except gorun.InvalidError as e:
        assert "taken" in str(e)
try:
    hvd.allreduce_(fixed)
    raise SystemExit("a read-only array was written")
except gorun.InvalidError as e:
    assert "read-only" in str(e)
same(hvd.allreduce(fixed), np.ones(3), "read-only input")
try:
    hvd.allreduce(np.ones((2, 3) if rank == 1 else (3, 2)))
    raise SystemExit("shapes differ")
except gorun.MismatchError as e:
    assert "3x2" in str(e) and "2x3" in str(e)
hvd.barrier()
hvd.shutdown()
print("all right")
