"""The operations on any kind of array; gorun.torch and gorun.numpy implement :class:`Arrays` for theirs.

An array's elements are used where they are if it is contiguous; else, and for factors, a copy is. Outputs are written
directly. Each function here returns a handle at once, so the arrays must not be touched until it is over.
"""

from __future__ import annotations

import ctypes
import itertools
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Sequence, Tuple

from . import _ring, errors
from ._calls import Channel, Group, Handle, Lane
from ._world import ProcessSet, global_process_set

# What horovod calls the operations, and their numbers there.
Average, Sum, Adasum, Min, Max, Product = range(6)

_OPS = {Average: _ring.AVG, Sum: _ring.SUM, Min: _ring.MIN, Max: _ring.MAX, Product: _ring.PROD}


class View(NamedTuple):
    """The memory of a contiguous array."""

    dtype: int  # of ring.h
    address: int
    elements: int
    shape: Tuple[int, ...]
    gpu: int = -1  # whose memory it is; -1: the host's


class Arrays:
    """Access to a kind of arrays. Raises InvalidError for unsupported arrays."""

    def view(self, array: Any) -> View:
        """The memory of a contiguous array (see :meth:`is_contiguous`)."""
        raise NotImplementedError

    def is_contiguous(self, array: Any) -> bool:
        """Whether the elements are in order without gaps."""
        raise NotImplementedError

    def contiguous(self, array: Any) -> Any:
        """The array, or a contiguous copy."""
        raise NotImplementedError

    def empty(self, shape: Sequence[int], like: Any) -> Any:
        """A new contiguous array of the type of another."""
        raise NotImplementedError

    def copy(self, to: Any, array: Any) -> None:
        """Copies all elements."""
        raise NotImplementedError

    def scaled(self, array: Any, factor: float) -> Any:
        """A new array of the elements times factor. Integers are multiplied in float64, float16 in float32."""
        raise NotImplementedError

    # What follows is called for views of a GPU's memory only.

    def lane(self, gpu: int) -> Lane:
        """A new lane."""
        raise NotImplementedError

    def to_host(self, array: Any) -> Any:
        """A contiguous copy in the host's memory."""
        raise NotImplementedError

    def to_gpu(self, array: Any, gpu: int) -> Any:
        """A copy in a GPU's memory."""
        raise NotImplementedError


def op_number(op: int, verb: str) -> int:
    """The number of an op in ring.h."""
    number = _OPS.get(op)
    if number is None:
        if op == Adasum:
            raise NotImplementedError("gorun: %s: there is no Adasum: use op=Average, with a learning rate scaled by size()" % verb)
        raise errors.InvalidError("gorun: %s: there is no op %r: use Average, Sum, Min, Max or Product" % (verb, op))
    return number


def barrier(process_set: ProcessSet = global_process_set, name: Optional[str] = None) -> None:
    """Waits until all ranks of the set have called it."""
    channel = process_set.channel_or_raise()
    channel.submit(channel.name("barrier", name), _ring.BARRIER, here=True).synchronize()


class Verbs:
    """The operations on one kind of arrays. ``output`` receives the result; None makes a new array."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = arrays

    def _lane(self, channel: Channel, view: View) -> Optional[Lane]:
        """The lane of a view's GPU; None for host memory."""
        if view.gpu < 0:
            return None
        lane = channel.lanes.get(view.gpu)
        if lane is None:
            lane = channel.lanes[view.gpu] = self.arrays.lane(view.gpu)
        return lane

    def allreduce(
        self,
        array: Any,
        output: Any,
        name: Optional[str],
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
        here: bool = False,
    ) -> Handle:
        """Combines arrays of one shape. ``here``: the caller waits at once."""
        channel = process_set.channel or process_set.channel_or_raise()
        call = self._reduction(channel, array, output, op, prescale, postscale)  # before a name is taken, as it may raise
        return channel.submit(channel.name("allreduce", name), here=here, **call)

    def grouped_allreduce(
        self,
        arrays: Sequence[Any],
        outputs: Optional[Sequence[Any]],
        name: Optional[str],
        op: int,
        prescale: float,
        postscale: float,
        process_set: ProcessSet,
    ) -> Group:
        """Allreduces submitted together."""
        channel = process_set.channel_or_raise()
        calls = [
            self._reduction(channel, a, None if outputs is None else outputs[i], op, prescale, postscale) for i, a in enumerate(arrays)
        ]
        return channel.submit_group(_names(channel, "grouped_allreduce", name, len(calls)), calls)

    def _reduction(self, channel: Channel, array: Any, output: Any, op: int, prescale: float, postscale: float) -> Dict[str, Any]:
        """The arguments of an allreduce for Channel.submit."""
        x = self.arrays
        number = op_number(op, "allreduce")
        if op == Average and postscale != 1.0:
            number = _ring.SUM
            postscale /= channel.size
        source = x.contiguous(array)
        if prescale != 1.0:
            source = x.scaled(source, prescale)
        view = x.view(source)
        direct = output is not None and x.is_contiguous(output)
        target = output if direct else x.empty(view.shape, array)
        result = target if output is None else output
        finish = None
        if postscale != 1.0 or target is not result:

            def finish(_: Handle) -> Any:
                if postscale != 1.0:
                    x.copy(result, x.scaled(target, postscale))
                elif target is not result:
                    x.copy(result, target)
                return result

        return dict(
            kind=_ring.ALLREDUCE,
            dtype=view.dtype,
            op=number,
            dst=view.address if target is source else x.view(target).address,
            dst_count=view.elements,
            src=view.address,
            src_count=view.elements,
            shape=view.shape,
            keep=(source, target),
            output=result,
            finish=finish,
            lane=self._lane(channel, view),
        )

    def broadcast(
        self, array: Any, output: Any, root_rank: int, name: Optional[str], process_set: ProcessSet, here: bool = False
    ) -> Handle:
        """Copies the root's elements to all ranks."""
        channel = process_set.channel_or_raise()
        x = self.arrays
        root = process_set.index(root_rank)
        direct = output is not None and x.is_contiguous(output)
        target = output if direct else x.empty(x.view(x.contiguous(array)).shape, array)
        if channel.rank == root and target is not array:
            x.copy(target, array)
        result = target if output is None else output
        finish = None
        if target is not result:

            def finish(_: Handle) -> Any:
                x.copy(result, target)
                return result

        view = x.view(target)
        return channel.submit(
            channel.name("broadcast", name),
            _ring.BROADCAST,
            view.dtype,
            root=root,
            dst=view.address,
            dst_count=view.elements,
            shape=view.shape,
            keep=(target,),
            output=result,
            finish=finish,
            here=here,
            lane=self._lane(channel, view),
        )

    def allgather(self, array: Any, name: Optional[str], process_set: ProcessSet, lengths: Optional[List[int]] = None) -> Handle:
        """Concatenates arrays along the first dimension, which may differ. ``lengths`` receives that of each rank."""
        channel = process_set.channel_or_raise()
        return self._gather(channel, array, lengths, None)(channel.name("allgather", name))

    def grouped_allgather(
        self, arrays: Sequence[Any], name: Optional[str], process_set: ProcessSet, lengths: Optional[Sequence[List[int]]] = None
    ) -> Group:
        """Several allgathers."""
        channel = process_set.channel_or_raise()
        sinks: Iterable[Optional[List[int]]] = itertools.repeat(None) if lengths is None else lengths
        ready = [self._gather(channel, a, sink, None) for a, sink in zip(arrays, sinks)]
        return Group([submit(n) for submit, n in zip(ready, _names(channel, "grouped_allgather", name, len(arrays)))])

    def alltoall(
        self, array: Any, splits: Optional[Sequence[int]], name: Optional[str], process_set: ProcessSet, lengths: Optional[List[int]] = None
    ) -> Handle:
        """Sends splits[i] rows to rank i, or equal parts. ``lengths`` receives the number of rows from each rank."""
        channel = process_set.channel_or_raise()
        shape = self.arrays.view(self.arrays.contiguous(array)).shape
        if not shape:
            raise errors.InvalidError("gorun: alltoall of a tensor without dimensions")
        if splits is None:
            if shape[0] % channel.size:
                raise errors.InvalidError(
                    "gorun: alltoall: the first dimension, %d, is no multiple of %d ranks: give splits" % (shape[0], channel.size)
                )
            splits = [shape[0] // channel.size] * channel.size
        if len(splits) != channel.size or min(splits) < 0 or sum(splits) != shape[0]:
            raise errors.InvalidError(
                "gorun: alltoall: splits %s for %d ranks and a first dimension of %d" % (list(splits), channel.size, shape[0])
            )
        return self._gather(channel, array, lengths, splits)(channel.name("alltoall", name))

    def _gather(
        self, channel: Channel, array: Any, lengths: Optional[List[int]], splits: Optional[Sequence[int]]
    ) -> Callable[[bytes], Handle]:
        """Returns a function that submits, by name, an allgather (with splits an alltoall) of parts of different lengths."""
        x = self.arrays
        source = x.contiguous(array)
        view = x.view(source)
        gpu = view.gpu
        if gpu >= 0:  # how much comes is known only when it runs, so it goes through the host's memory
            source = x.to_host(source)
            view = x.view(source)
        rest = view.shape[1:]
        row = 1
        for n in rest:
            row *= n
        rows = view.shape[0] if view.shape else 1
        dtype = view.dtype
        keep = source
        scale = row
        address = view.address
        count = view.elements
        if row == 0:  # a row has no elements: a byte stands for it, so that rows can be counted
            keep = ctypes.create_string_buffer(max(rows, 1))
            dtype = _ring.UINT8
            address = ctypes.addressof(keep)
            count = rows
            scale = 1

        def finish(h: Handle) -> Any:
            at, total, counts = h.result(channel.size)
            if lengths is not None:
                lengths[:] = [n // scale for n in counts]
            output = x.empty((total // scale,) + tuple(rest), source)
            if row and total:
                got = x.view(output)
                ctypes.memmove(got.address, at, view_bytes(got))
            h.release()
            return output if gpu < 0 else x.to_gpu(output, gpu)

        sends = None if splits is None else [n * scale for n in splits]
        kind = _ring.ALLGATHER if splits is None else _ring.ALLTOALL
        shape = tuple(rest) if row else (view.dtype,) + tuple(rest)
        return lambda name: channel.submit_v(name, kind, dtype, address, count, sends, shape, keep, finish)

    def reducescatter(self, array: Any, name: Optional[str], op: int, prescale: float, postscale: float, process_set: ProcessSet) -> Handle:
        """Combines arrays of one shape and gives each rank some rows; the first ranks get one more if they differ."""
        channel = process_set.channel_or_raise()
        call = self._scatter(channel, array, op, prescale, postscale)
        return channel.submit(channel.name("reducescatter", name), **call)

    def grouped_reducescatter(
        self, arrays: Sequence[Any], name: Optional[str], op: int, prescale: float, postscale: float, process_set: ProcessSet
    ) -> Group:
        """Reduce-scatters submitted together."""
        channel = process_set.channel_or_raise()
        calls = [self._scatter(channel, a, op, prescale, postscale) for a in arrays]
        return channel.submit_group(_names(channel, "grouped_reducescatter", name, len(calls)), calls)

    def _scatter(self, channel: Channel, array: Any, op: int, prescale: float, postscale: float) -> Dict[str, Any]:
        x = self.arrays
        number = op_number(op, "reducescatter")
        if op == Average and postscale != 1.0:
            number = _ring.SUM
            postscale /= channel.size
        source = x.contiguous(array)
        if prescale != 1.0:
            source = x.scaled(source, prescale)
        view = x.view(source)
        if not view.shape:
            raise errors.InvalidError("gorun: reducescatter of a tensor without dimensions")
        rows = view.shape[0]
        row = view.elements // max(view.shape[0], 1)
        each, more = divmod(rows, channel.size)
        parts = [each + (r < more) for r in range(channel.size)]
        target = x.empty((parts[channel.rank],) + tuple(view.shape[1:]), array)
        got = x.view(target)
        finish = None
        if postscale != 1.0:

            def finish(_: Handle) -> Any:
                return x.scaled(target, postscale)

        return dict(
            kind=_ring.REDUCE_SCATTER,
            dtype=view.dtype,
            op=number,
            dst=got.address,
            dst_count=got.elements,
            src=view.address,
            src_count=view.elements,
            counts=[n * row for n in parts] if more else None,
            shape=view.shape,
            keep=(source,),
            output=target,
            finish=finish,
            lane=self._lane(channel, view),
        )


_BYTES = {
    _ring.INT8: 1, _ring.UINT8: 1, _ring.BOOL: 1, _ring.INT16: 2, _ring.FLOAT16: 2, _ring.BFLOAT16: 2,
    _ring.INT32: 4, _ring.FLOAT32: 4, _ring.INT64: 8, _ring.UINT64: 8, _ring.FLOAT64: 8,
}  # fmt: skip


def view_bytes(view: View) -> int:
    """The length of a view in bytes."""
    return view.elements * _BYTES[view.dtype]


def _names(channel: Channel, verb: str, name: Optional[str], n: int) -> List[bytes]:
    base = channel.name(verb, name)
    return [b"%s.%d_%d" % (base, i + 1, n) for i in range(n)]
