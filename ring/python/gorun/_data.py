"""Values as bytes and back, as data: reading them runs no code of whoever wrote them.

A message is MAGIC, the length of a text as 8 bytes, the text in JSON, and blobs. In the text a list is a list, and what JSON lacks is an
object with one key, its kind: {"tuple": [1, 2]}, {"bytes": 3}, where 3 is the length of the next blob.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import json
import math
import random
import struct
import time
from typing import Any, Callable, Dict, Iterator, List, NoReturn, Optional

from . import _arrays
from ._arrays import DataError

MAGIC = b"gorun data 1\n"
DEPTH = 100  # of values in values, at most
# Keys of a dict or set with one hash, at most, by how deep they hold sets in sets: two of these compare all their elements with each other.
_ALIKE = (100, 4, 4)
_PART = 1 << 9  # keys that are added at a time
_TIME = 1e-5  # seconds of the processor that a key may take, some twenty times what one takes

_SMALL = range(-(2**63), 2**64)  # larger numbers are in hex, which takes no quadratic time
_SMALL_DIGITS = 20


def dump(value: Any) -> bytes:
    """The message of a value. A value of another type is a TypeError, one that is nested too deep a ValueError."""
    blobs: List[bytes] = []
    text = json.dumps(_encode(value, blobs, DEPTH), separators=(",", ":"), allow_nan=False).encode()
    return b"".join([MAGIC, struct.pack(">Q", len(text)), text, *blobs])


def load(message: bytes, most: Optional[int] = None) -> Any:
    """The value of a message, which has at most so many values in it if most is given: each takes more memory than it has bytes. Bytes that
    are no message are a DataError, which says what is wrong."""
    begin = len(MAGIC) + 8
    if not message.startswith(MAGIC) or len(message) < begin:
        raise DataError("%d bytes that do not begin as results do" % len(message))
    (length,) = struct.unpack(">Q", message[len(MAGIC) : begin])
    if length > len(message) - begin:
        raise DataError("it ends too early, after %d bytes" % len(message))
    blobs = _Blobs(message, begin + length)
    if most is not None and sum(message.count(sign, begin, begin + length) for sign in (b",", b"[", b"{")) >= most:
        raise DataError("it has more than %d values" % most)
    try:
        text = json.loads(message[begin : begin + length].decode("ascii"), parse_int=_small, parse_constant=_no_constant)
        value = _decode(text, blobs, DEPTH)
    except DataError:
        raise
    except RecursionError:
        raise DataError("it is nested too deep") from None
    except (ValueError, TypeError, KeyError, OverflowError, MemoryError, RuntimeError) as e:
        raise DataError("%s: %.200s" % (type(e).__name__, e)) from None
    if blobs.at != len(message):
        raise DataError("it has %d bytes too many" % (len(message) - blobs.at))
    return value


class _Blobs:
    """The blobs of a message, which are taken in order."""

    def __init__(self, message: bytes, at: int) -> None:
        self.message = memoryview(message)
        self.at = at

    def take(self, size: Any) -> memoryview:
        if type(size) is not int or not 0 <= size <= len(self.message) - self.at:
            raise DataError("it ends too early, before a part of %.20r bytes" % (size,))
        self.at += size
        return self.message[self.at - size : self.at]


def _encode(value: Any, blobs: List[bytes], depth: int) -> Any:
    if depth == 0:
        raise ValueError("gorun: a result is nested more than %d deep, or contains itself" % DEPTH)
    kind = type(value)
    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return value if value in _SMALL else {"int": hex(value)}
    if kind is float:
        return value if math.isfinite(value) else {"float": repr(value)}
    if kind is complex:
        return {"complex": [_encode(value.real, blobs, 1), _encode(value.imag, blobs, 1)]}
    if kind is list:
        return [_encode(v, blobs, depth - 1) for v in value]
    if kind in (tuple, set, frozenset):
        return {kind.__name__: [_encode(v, blobs, depth - 1) for v in value]}
    if kind in (dict, collections.OrderedDict):
        return {kind.__name__: [[_encode(k, blobs, depth - 1), _encode(v, blobs, depth - 1)] for k, v in value.items()]}
    if kind is bytes:
        blobs.append(value)
        return {"bytes": len(value)}
    parts = _arrays.parts_of(value)
    if parts is None:
        _refuse(kind)
    blobs.append(parts[3])
    return {parts[0]: [parts[1], parts[2], len(parts[3])]}


def _refuse(kind: type) -> NoReturn:
    raise TypeError(
        "gorun: a result cannot hold a %s.%s: return None, numbers, texts, bytes, lists, tuples, dicts, sets, NumPy arrays or tensors, "
        'or call run(..., results="pickle"), which lets every host run code on the machine of the caller' % (kind.__module__, kind.__qualname__)
    )


def _small(digits: str) -> int:
    if len(digits) > _SMALL_DIGITS:
        raise DataError("a number has %d digits" % len(digits))
    return int(digits)


def _no_constant(name: str) -> NoReturn:
    raise DataError("%s is no number of a result" % name)


def _decode(value: Any, blobs: _Blobs, depth: int) -> Any:
    if depth == 0:
        raise DataError("it is nested too deep")
    if type(value) is list:
        return _list(value, blobs, depth - 1)
    if type(value) is not dict:
        return value
    if len(value) != 1:
        raise DataError("a part of it has %d kinds" % len(value))
    ((kind, inside),) = value.items()
    if kind not in _DECODERS:
        raise DataError("a part of it is of the unknown kind %.20r" % (kind,))
    return _DECODERS[kind](inside, blobs, depth - 1)


def _list(inside: Any, blobs: _Blobs, depth: int) -> Any:
    """The values of a list, in the list itself: two would take twice the memory."""
    for i, v in enumerate(_checked(inside, list)):
        inside[i] = _decode(v, blobs, depth)
    return inside


def _set(inside: Any, blobs: _Blobs, depth: int) -> Any:
    """A set that grows puts its keys into new places in the order of the old ones, not in that in which they were added, which can take any
    time more than it took to add them. So nobody else chooses the order."""
    items = _list(inside, blobs, depth)
    if len(items) > _PART:  # few keys take little time in any order
        random.Random().shuffle(items)
    return fill(set(), items, items)


def _pairs(make: Callable[[], Any]) -> Callable[[Any, _Blobs, int], Any]:
    def pairs(inside: Any, blobs: _Blobs, depth: int) -> Any:
        all_pairs = [(_decode(k, blobs, depth), _decode(v, blobs, depth)) for k, v in _checked(inside, list)]
        return fill(make(), all_pairs, [k for k, _ in all_pairs])

    return pairs


def fill(made: Any, items: List[Any], keys: List[Any]) -> Any:
    """Adds items with these keys to a dict or set. Whoever chooses keys can have each of them take as many steps as there are others, which
    nothing interrupts: all have one hash, or hashes that lead to the same places one after the other. Such keys are a DataError."""
    begun = time.thread_time()
    hashes = list(map(hash, keys))
    hashed = time.thread_time() - begun  # which is in proportion to the bytes of the keys
    alike: collections.Counter[int] = collections.Counter()
    spent = 0.0
    for at in range(0, len(items), _PART):
        some = hashes[at : at + _PART]
        part = items[at : at + _PART]
        with _uncollected():
            begun = time.thread_time()
            alike.update(some)
            for key, one in zip(keys[at : at + _PART], some):
                if alike[one] > 1 and alike[one] > _most_alike(key):
                    raise DataError("more than %d keys have one hash" % _most_alike(key))
            made.update(part)
            spent += time.thread_time() - begun
        if at > 0 and spent > _TIME * (at + 20 * _PART) + 4 * hashed:
            raise DataError("its keys take too long, as if they were chosen for that")
    return made


@contextlib.contextmanager
def _uncollected() -> Iterator[None]:
    """Keeps the garbage collector, which takes seconds where the program has many objects, out of a time that is measured."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _most_alike(key: Any) -> int:
    depth = _depth(key)
    return _ALIKE[depth] if depth < len(_ALIKE) else 1


def _depth(key: Any) -> int:
    """How deep a key holds sets in sets."""
    if type(key) is frozenset:
        return 1 + max(map(_depth, key), default=0)
    return max(map(_depth, key), default=0) if type(key) is tuple else 0


def _complex(inside: Any, blobs: _Blobs, depth: int) -> complex:
    real, imag = (_checked(_decode(v, blobs, 2), float) for v in _checked(inside, list))
    return complex(real, imag)


def _array(inside: Any, blobs: _Blobs, depth: int) -> Any:
    name, shape, size = _checked(inside, list)
    return _arrays.array_of(name, shape, blobs.take(size))


def _tensor(inside: Any, blobs: _Blobs, depth: int) -> Any:
    name, shape, size = _checked(inside, list)
    return _arrays.tensor_of(name, shape, blobs.take(size))


def _checked(value: Any, kind: type) -> Any:
    if type(value) is not kind:
        raise DataError("a value of %s stands where a %s is due" % (type(value).__name__, kind.__name__))  # digits take quadratic time
    return value


_DECODERS: Dict[str, Callable[[Any, _Blobs, int], Any]] = {
    "int": lambda inside, blobs, depth: int(_checked(inside, str), 16),
    "float": lambda inside, blobs, depth: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[_checked(inside, str)],
    "complex": _complex,
    "bytes": lambda inside, blobs, depth: bytes(blobs.take(inside)),
    "tuple": lambda inside, blobs, depth: tuple(_list(inside, blobs, depth)),
    "set": _set,
    "frozenset": lambda inside, blobs, depth: frozenset(_set(inside, blobs, depth)),
    "dict": _pairs(dict),
    "OrderedDict": _pairs(collections.OrderedDict),
    "array": _array,
    "scalar": lambda inside, blobs, depth: _array(inside, blobs, depth)[()],
    "tensor": _tensor,
}
