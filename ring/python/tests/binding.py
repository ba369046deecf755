"""What the layers above need of the binding."""

import numpy as np
from gorun import _ring as ring
from gorun import errors

library = ring.Library()
comm = library.init(timeout_ms=60000)
queue = comm.queue()
n = 5
mine = comm.rank + 1

x = np.arange(n, dtype=np.float32) * mine
y = np.empty_like(x)
total = sum(range(1, comm.size + 1))


def allreduce():
    return ring.call(ring.ALLREDUCE, ring.FLOAT32, ring.SUM, dst=y.ctypes.data, dst_count=n, src=x.ctypes.data, src_count=n)


comm.run(allreduce())
assert (y == np.arange(n) * total).all(), y
y[:] = 0
comm.start(allreduce(), (x, y)).wait()
assert (y == np.arange(n) * total).all(), y
y[:] = 0
queue.submit("x", allreduce(), (x, y)).wait(timeout=60)
assert (y == np.arange(n) * total).all(), y

gather = queue.submit_v("parts", ring.call(ring.ALLGATHER, ring.FLOAT32, src=x.ctypes.data, src_count=comm.rank + 1), x)
gather.wait()
address, count, counts = gather.result(comm.size)
assert counts == list(range(1, comm.size + 1)) and count == total, counts
gather.release()

for work in [ring.call(ring.ALLREDUCE, 77), ring.call(99), ring.call(ring.ALLREDUCE, ring.FLOAT32, dst_count=3, src_count=3)]:
    try:
        queue.submit("bad", work)
        raise SystemExit("it was taken")
    except errors.InvalidError:
        pass

if comm.size > 1:
    other = ring.call(ring.ALLREDUCE, ring.FLOAT32, ring.SUM, dst=y.ctypes.data, dst_count=n - comm.rank, src=x.ctypes.data, src_count=n - comm.rank)
    try:
        queue.submit("differs", other, (x, y)).wait()
        raise SystemExit("it went well")
    except errors.MismatchError as e:
        assert "rank 0" in str(e) and "differs" in str(e), e

part = comm.split(comm.rank % 2, -comm.rank)
assert part.size == (comm.size + 1 - comm.rank % 2) // 2
none = comm.split(-1)
assert none is None
part.close()
queue.close()
comm.close()
try:
    comm.run(allreduce())
    raise SystemExit("it is not closed")
except errors.InvalidError:
    pass
print("all right")
