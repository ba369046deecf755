"""The state of a training from those who have it to those who lack it: values as data, tensors as bytes, and nothing pickled."""

from __future__ import annotations

import bisect
import ctypes
import itertools
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

import torch

from .. import _data, _ring, errors

PIECE = 64 << 20  # bytes that all holders together send at a time
MOST = 1 << 30  # bytes by which the tensors of a state may exceed what the receiver's model suggests
TOLD = 128 << 20  # bytes of what a state says beside its tensors
VALUES = 1 << 23  # values in that; a tensor has about twenty
OBJECT = 512  # bytes of a tensor without elements


def transfer(comm: _ring.Comm, holders: Sequence[int], receivers: Sequence[int], state: Any, limit: int, known: Optional[Dict[str, Any]] = None) -> Any:
    """Returns the holders' state on the receivers, and None elsewhere. It is a collective, and state counts on the holders only, which have
    the same.

    A receiver gets it in memory of its own, each part from another holder. A state is made of numbers, texts, tensors, lists, tuples and
    dicts, and its tensors have at most limit bytes. Receiving one runs no code. A MismatchError names the holder that says something else: other
    tensors than another holder has, or other values than this rank has known by their keys.
    """
    tensors: List[torch.Tensor] = []
    holds = comm.rank in holders
    receives = comm.rank in receivers
    message = _data.dump(take_apart(state, tensors)) if holds else b""
    told = broadcast(comm, message, holders[0])
    made = None
    if comm.rank != holders[0]:
        theirs: List[torch.Tensor] = []
        made = read(told, theirs, holders[0], limit, "cpu" if receives else "meta")
        if holds and [(t.dtype, t.shape) for t in theirs] != [(t.dtype, t.shape) for t in tensors]:  # it would send another share
            raise unreadable(holders[0], "its tensors are not those of other ranks that have it")
        for key, value in (known or {}).items():
            if type(made) is not dict or not _alike(made.get(key), value):
                raise unreadable(holders[0], "it has another value for %r than other ranks" % key)
        tensors = tensors if holds else theirs
    stream = Stream(tensors)
    for begin in range(0, stream.size, PIECE):
        cuts = _cuts(begin, min(begin + PIECE, stream.size), len(holders))
        mine = stream.read(*cuts[holders.index(comm.rank)]) if holds else torch.empty(0, dtype=torch.uint8)
        for receiver in receivers:
            got = _pass(comm, holders, receiver, cuts, mine)
            if comm.rank == receiver:
                stream.write(begin, got)
    return made if receives else None


def _pass(comm: _ring.Comm, holders: Sequence[int], receiver: int, cuts: Sequence[Tuple[int, int]], mine: torch.Tensor) -> torch.Tensor:
    """Sends a receiver a share of each holder. Returns the shares on the receiver, and nothing elsewhere."""
    counts = [0] * comm.size
    sends = [0] * comm.size
    if comm.rank == receiver:
        for holder, (begin, end) in zip(holders, cuts):
            counts[holder] = end - begin
    sends[receiver] = mine.numel()
    got = torch.empty(sum(counts), dtype=torch.uint8)
    call = _ring.call(
        _ring.ALLTOALL, _ring.UINT8, dst=got.data_ptr(), dst_count=got.numel(), src=mine.data_ptr(), src_count=mine.numel(), counts=counts, sends=sends
    )
    comm.run(call)
    return got


def _cuts(begin: int, end: int, parts: int) -> List[Tuple[int, int]]:
    at = [begin + (end - begin) * i // parts for i in range(parts + 1)]
    return list(zip(at, at[1:]))


def broadcast(comm: _ring.Comm, message: bytes, root: int, most: int = TOLD) -> bytes:
    length = ctypes.c_int64(len(message))
    comm.run(_ring.call(_ring.BROADCAST, _ring.INT64, root=root, dst=ctypes.addressof(length), dst_count=1))
    if not 0 <= length.value <= most:
        raise unreadable(root, "it has %d bytes beside its tensors, of at most %d" % (length.value, most))
    memory = ctypes.create_string_buffer(message if comm.rank == root else b"", max(1, length.value))
    comm.run(_ring.call(_ring.BROADCAST, _ring.UINT8, root=root, dst=ctypes.addressof(memory), dst_count=length.value))
    return memory.raw[: length.value]


class Stream:
    """Tensors as bytes, one after the other."""

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        self.parts = [t.reshape(-1).view(torch.uint8) for t in tensors if t.numel()]
        self.bools = [t.dtype == torch.bool for t in tensors if t.numel()]
        ends = list(itertools.accumulate(part.numel() for part in self.parts))
        self.begins = [0, *ends[:-1]]
        self.size = ends[-1] if ends else 0

    def read(self, begin: int, end: int) -> torch.Tensor:
        pieces = [self.parts[i][a:b].cpu() for i, a, b, _ in self._within(begin, end)]
        return torch.cat(pieces) if pieces else torch.empty(0, dtype=torch.uint8)

    def write(self, begin: int, data: torch.Tensor) -> None:
        for i, a, b, at in self._within(begin, begin + data.numel()):
            got = data[at : at + b - a]
            self.parts[i][a:b] = got.ne(0) if self.bools[i] else got  # code that counts bools relies on 0 and 1

    def _within(self, begin: int, end: int) -> Iterator[Tuple[int, int, int, int]]:
        """The parts between two bytes of the stream: its index, from where to where in it, and where that is after begin."""
        first = bisect.bisect_right(self.begins, begin) - 1
        for i in range(first, bisect.bisect_left(self.begins, end)):
            at = self.begins[i]
            a = max(begin - at, 0)
            b = min(end - at, self.parts[i].numel())
            if a < b:
                yield i, a, b, at + a - begin


# A value as _data takes it: each part with its kind, and a tensor as its type and shape.


def take_apart(value: Any, tensors: List[torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            raise errors.InvalidError("gorun: a state holds a tensor of layout %s, which cannot be sent: make it dense" % value.layout)
        if value.is_quantized:  # receivers refuse it
            raise errors.InvalidError("gorun: a state holds a quantized tensor, which cannot be sent: use dequantize()")
        tensors.append(value.detach().contiguous())
        return "tensor", str(value.dtype).rpartition(".")[2], list(value.shape)
    if isinstance(value, dict):
        return "dict", [(k, take_apart(v, tensors)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value).__name__ if type(value) is tuple else "list", [take_apart(v, tensors) for v in value]
    try:
        _data.dump(value)
    except TypeError:
        raise errors.InvalidError("gorun: a state holds a %s, which cannot be sent: numbers, texts, tensors, lists, tuples and dicts can" % type(value).__name__) from None
    return "value", value


def read(told: bytes, tensors: List[torch.Tensor], holder: int, limit: int, device: str = "cpu") -> Any:
    """The state that a holder tells, and its tensors without the bytes, of which there are at most limit on a device that has memory."""
    try:
        return _put_together(_data.load(told, VALUES), _made(tensors, limit, device))
    except (ValueError, TypeError, LookupError, RuntimeError) as e:
        raise unreadable(holder, "%.200s" % e) from None


def _alike(theirs: Any, mine: Any) -> bool:
    """Whether a value is the same as one of this rank, which is a number or a tuple of such values."""
    if type(mine) is not tuple or type(theirs) is not tuple:
        return type(theirs) is type(mine) and bool(theirs == mine)
    return len(theirs) == len(mine) and all(map(_alike, theirs, mine))


def unreadable(holder: int, why: str) -> errors.MismatchError:
    return errors.MismatchError("gorun: the state of the training that rank %d sends cannot be read: %s" % (holder, why))


def _made(tensors: List[torch.Tensor], limit: int, device: str) -> Any:
    room = limit

    def make(name: Any, shape: Any) -> torch.Tensor:
        dtype = getattr(torch, name, None) if type(name) is str else None
        if not isinstance(dtype, torch.dtype):
            raise _data.DataError("%s is no type of a tensor" % _shown(name))
        if str(dtype).startswith("torch.q"):  # a quantized one: PyTorch crashes where a part of its bytes is written
            raise _data.DataError("%s is no type of a tensor that is sent" % _shown(name))
        tensor = torch.empty(shape, dtype=dtype, device="meta")  # takes no memory
        nonlocal room
        room -= OBJECT if device == "meta" else OBJECT + tensor.numel() * tensor.element_size()
        if room < 0:
            raise _data.DataError("its tensors have more than %d bytes" % limit)
        tensor = torch.empty(tensor.shape, dtype=dtype, device=device)
        tensors.append(tensor)
        return tensor

    return make


def _shown(name: Any) -> str:
    """What stands in place of a name. A number may have millions of digits, which take quadratic time."""
    return "%.20r" % name if type(name) is str else "a value of " + type(name).__name__


def _put_together(parts: Any, make: Any) -> Any:
    kind = parts[0]
    inside = parts[1]
    if kind == "tensor":
        return make(inside, parts[2])
    if kind == "dict":
        return _data.fill({}, [(k, _put_together(v, make)) for k, v in inside], [k for k, _ in inside])
    if kind in ("list", "tuple"):
        return (tuple if kind == "tuple" else list)(_put_together(v, make) for v in inside)
    if kind != "value":
        raise _data.DataError("a part of it is of the unknown kind %s" % _shown(kind))
    return inside
