"""Two ranks keep copies of each other's state, of which only what has changed is sent, in memory that outlives its process."""

import fcntl
import os
import subprocess
import sys
import tempfile

import torch

from gorun import _job, errors
from gorun._ledger import Kept
from gorun.torch import _copies
from gorun.torch._memory import Memory, attach

world = _job.join()
me = world.rank
other = 1 - world.rank
comm = world.dup()
kept = Kept()
copies = _copies.Copies(kept, [0, 1])
sent = []
send = _copies._pass
_copies._pass = lambda comm, to, mine, *rest: (sent.append(mine.numel()), send(comm, to, mine, *rest))
frozen = [torch.arange(1 << 20) + rank for rank in (0, 1)]
for step in range(1, 5):
    states = [{"committed": step, "frozen": frozen[rank], "hot": torch.full((10,), step + rank)} for rank in (0, 1)]
    copies.begin(comm, [7, 7], (1, step), states[me])
    copies.finish()
    assert copies.complete
    kept.learn((1, step))
    copies.verify()
    for got, want in ((copies.copy(other, step), states[other]), (copies.copy(me, step), states[me]), (copies.own(step), states[me])):
        assert all(torch.equal(torch.as_tensor(got[name]), torch.as_tensor(want[name])) for name in want), (step, got)
assert sent[0] > 8 << 20 and all(n < 1 << 20 for n in sent[1:]), sent

# Memory that is used again has no copy of before.
borrowed = kept.generations[0].held[me]
comm.run(_copies._ring.call(_copies._ring.BARRIER))
kept.generations[0].memory.clear()
comm.run(_copies._ring.call(_copies._ring.BARRIER))
copies.verify()
assert me not in kept.generations[0].held and borrowed.stamp

memory = Memory(4096)
memory.data[5] = 9
mapped = attach(os.getpid(), memory.fd, 4096)
assert attach(os.getpid(), memory.fd, 8192) is None and attach(os.getpid(), 0, 4096) is None
del memory
assert mapped[5] == 9


def offered(name="gorun-copy", seals=fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW, whole=True, user=os.geteuid()):
    """Memory for which there is one reason at most not to map it."""
    fd = os.memfd_create(name, os.MFD_ALLOW_SEALING)
    os.truncate(fd, 4096)
    if whole:
        os.posix_fallocate(fd, 0, 4096)
    fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    os.fchown(fd, user, -1)
    return fd


fds = [offered(seals=fcntl.F_SEAL_GROW), offered(seals=fcntl.F_SEAL_SHRINK), offered(name="other"), offered(whole=False)]
if os.geteuid() == 0:
    fds.append(offered(user=65533))
with tempfile.TemporaryFile() as unnamed:
    unnamed.truncate(4096)
    for fd in fds + [unnamed.fileno()]:
        assert attach(os.getpid(), fd, 4096) is None, os.readlink("/proc/self/fd/%d" % fd)
fd = offered()
assert attach(os.getpid(), fd, 4096) is not None
# The same memory, of a process that has become another user's.
if os.geteuid() == 0 and sys.version_info >= (3, 9):
    holder = subprocess.Popen(["sleep", "600"], pass_fds=[fd], user=65533)
    assert attach(holder.pid, fd, 4096) is None
    holder.kill()
    holder.wait()

# A rank that says something else is named.
before = torch.zeros(1 << 20, dtype=torch.uint8)
now = torch.zeros(1 << 20, dtype=torch.uint8)
now[300_000] = 1
change = _copies._patch(before, now)
result = before.clone()
_copies._apply(result, change, 1)
assert torch.equal(result, now) and change.numel() < 1 << 19
for numbers, chunks in (([1, 4], 1), ([1, -1], 1), ([2, 1], 1), ([-1], 0), ([1 << 60], 0), ([1, 1], 2), ([], 0)):
    hostile = torch.cat([torch.tensor(numbers, dtype=torch.int64).view(torch.uint8), torch.zeros(chunks << 18, dtype=torch.uint8)])
    try:
        _copies._apply(before.clone(), hostile, 1)
    except errors.MismatchError as e:
        assert "rank 1" in str(e)
    else:
        raise AssertionError(numbers)

# A change of few bytes has no more chunks than the state: with a last one of a byte, millions of them would take gigabytes.
long = torch.zeros((16 << 18) + 1, dtype=torch.uint8)
count = 1 << 20
many = torch.cat([torch.tensor([count] + [16] * count).view(torch.uint8), torch.zeros(count, dtype=torch.uint8)])
try:
    _copies._apply(long, many, 1)
    raise SystemExit("a chunk was taken %d times" % count)
except errors.MismatchError as e:
    assert "a change has %d chunks" % count in str(e), e

# Nor does what a copy says beside its tensors have more bytes than what another rank tells.
packed = torch.zeros(_copies.HEAD + _copies.TOLD + 1, dtype=torch.uint8)
packed[: _copies.HEAD] = torch.tensor([_copies.HEAD, packed.numel(), 1]).view(torch.uint8)
try:
    _copies._unpack(packed, 1)
    raise SystemExit("an outline of %d bytes was read" % _copies.TOLD)
except errors.MismatchError as e:
    assert "its lengths are wrong" in str(e), e
comm.close()
_job.leave()
print("all right")
