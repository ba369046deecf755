"""What results can hold: every type comes back as it was, other types are refused, and no bytes do more than raise DataError."""

import collections
import gc
import math
import pickle
import random
import struct
import sys
import time
import tracemalloc

from gorun import _data

assert "numpy" not in sys.modules and "torch" not in sys.modules


def same(a, b):
    assert type(a) is type(b), (a, b)
    if isinstance(a, (list, tuple)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            same(x, y)
    elif isinstance(a, dict):
        same(list(a.items()), list(b.items()))
    elif isinstance(a, (float, complex)):
        assert repr(a) == repr(b), (a, b)
    else:
        assert a == b, (a, b)


plain = [
    None, True, False, 0, 1, -1, 2**63, -(2**63), 2**64 - 1, 2**64, -(2**200), 7**5000, 0.0, -0.0, 0.1, 1e308, 5e-324, math.inf, -math.inf, math.nan,
    1 + 2j, complex(math.nan, -0.0), "", "text", "na\u00efve \u2713 \U0001f600 \ud800 \0\n\"\\", b"", b"\0\xff", bytes(range(256)), [], [[], [1, [2]]], (),
    (1,), ((), [()]), {}, {1: 2, "1": 3, (1, 2): 4, None: 5, 0.5: 6, b"x": 7, frozenset([1]): 8, True: 9}, {"tuple": [1]}, set(), {1, "a", (2, 3)},
    frozenset(), frozenset([1, 2]), collections.OrderedDict([("b", 1), ("a", [2])]), {"deep": [{"er": ({"still": b"x"}, b"y")}]},
]  # fmt: skip
for value in plain:
    same(_data.load(_data.dump(value)), value)
same(_data.load(_data.dump(plain)), plain)
assert "numpy" not in sys.modules and "torch" not in sys.modules

deep = []
for _ in range(98):
    deep = [deep]
same(_data.load(_data.dump(deep)), deep)
itself = []
itself.append(itself)
for wrong in ([[deep]], itself):
    try:
        _data.dump(wrong)
        raise SystemExit("a value that is nested too deep was taken")
    except ValueError as e:
        assert "more than 100 deep" in str(e), e


class Text(str):
    pass


Pair = collections.namedtuple("Pair", "a b")


def refused(values):
    for value in values:
        for wrong in (value, [1, {"x": value}]):
            try:
                _data.dump(wrong)
            except TypeError as e:
                assert type(value).__qualname__ in str(e) and 'results="pickle"' in str(e), e
            else:
                raise SystemExit("%r was taken" % (value,))


refused([object(), len, same, Text("x"), Pair(1, 2), collections.Counter("aab"), bytearray(b"x"), range(3), ValueError("x"), type])

import numpy as np

arrays = [
    np.arange(6).reshape(2, 3), np.arange(6.0).reshape(2, 3).T, np.arange(10)[::3], np.zeros((0, 3)), np.array(5), np.array([True, False]), np.array(["a", "\u2713bc"]),
    np.array([b"a", b"bc"]), np.array(["2020-01-01", "NaT"], "M8[D]"), np.array([1, 2], "m8[25s]"), np.array([1.5, math.nan], "f2"), np.array([1, 2], ">i4"),
    np.array([1 + 2j], "c8"), np.array([1], "longdouble"), np.zeros(2, "V3"), np.frombuffer(b"\1\2", "u1"),
]  # fmt: skip
for a in arrays:
    b = _data.load(_data.dump([a]))[0]
    assert type(b) is np.ndarray and a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes() and b.flags.writeable, (a, b)
for a in [np.float64(0.1), np.float32(0.1), np.int8(-3), np.bool_(True), np.str_("x\u2713"), np.datetime64("2020-01-01"), np.complex64(1j)]:
    b = _data.load(_data.dump({"a": a}))["a"]
    assert type(a) is type(b) and a == b and a.dtype == b.dtype, (a, b)
refused([np.array([object()]), np.zeros(2, [("a", "i4"), ("b", "f8")]), np.ma.masked_array([1, 2], [True, False]), np.matrix([1])])

try:
    import torch
except ImportError:
    tensors = []
else:
    tensors = [
        torch.arange(6).reshape(2, 3), torch.arange(6.0).reshape(2, 3).t(), torch.zeros(0, 3), torch.tensor(5), torch.tensor([True, False]),
        torch.tensor([1.5, -0.0, math.nan], dtype=torch.bfloat16), torch.tensor([1.5], dtype=torch.float16), torch.tensor([1 + 2j]).conj(),
        torch.nn.Parameter(torch.ones(3)), torch.ones(4, requires_grad=True), torch.ones(3, dtype=torch.uint8)[1:],
    ]  # fmt: skip
    for t in tensors:
        back = _data.load(_data.dump((t,)))[0]
        assert type(back) is torch.Tensor and back.dtype == t.dtype and back.shape == t.shape and not back.requires_grad
        assert repr(back.tolist()) == repr(t.tolist()), (t, back)
    state = torch.nn.Linear(2, 3).state_dict()
    back = _data.load(_data.dump(state))
    assert list(back) == list(state) and all(torch.equal(back[k], state[k]) for k in state)
    refused([torch.ones(2).to_sparse(), torch.quantize_per_tensor(torch.ones(2), 1.0, 0, torch.qint8), torch.empty(2, device="meta")])


def message(text, blobs=b""):
    text = text.encode()
    return _data.MAGIC + struct.pack(">Q", len(text)) + text + blobs


def malformed(data):
    try:
        value = _data.load(data)
    except _data.DataError as e:
        assert len(str(e)) < 1000, len(str(e))
        return
    raise SystemExit("%.200r was taken as %.200r" % (data, value))


whole = _data.dump([1, b"abc", (2, np.arange(3))])
for end in range(len(whole)):
    malformed(whole[:end])
malformed(whole + b"x")
for data in (b"garbage" * 1000, pickle.dumps("x"), _data.MAGIC + b"\xff" * 8, _data.MAGIC + b"\xff" * 100):
    malformed(data)
for text in (
    "", "nul", "[1,", "NaN", "-Infinity", "1" * 21, "-" + "9" * 1000000, "[" * 1000000, "[" * 101 + "]" * 101, '{"tuple":' * 100000, "{}", '{"a":1}', '{"tuple":[],"set":[]}',
    '{"tuple":1}', '{"tuple":{"bytes":0}}', '{"set":[[]]}', '{"dict":[[1]]}', '{"dict":[[[],1]]}', '{"dict":[1]}', '{"dict":[[{"dict":[]},1]]}', '{"int":"x"}', '{"int":1}',
    '{"float":"1"}', '{"complex":[1.0]}', '{"complex":[1.0,"x"]}', '{"bytes":1}', '{"bytes":-1}', '{"bytes":1.0}', '{"bytes":true}', '{"bytes":18446744073709551615}',
    '{"array":["|O",[1],0]}', '{"array":["O8",[0],0]}', '{"array":[["|i1"],[0],0]}', '{"array":["<i3",[0],0]}', '{"array":["|U0",[1000000000000],0]}', '{"array":["<i8",[-1,-1],0]}',
    '{"array":["<i8",[1],0]}', '{"array":["<i8",[4611686018427387904,4],0]}', '{"array":["<i8",[1000000000000],0]}', '{"array":["<i8",[0,18446744073709551615],0]}',
    '{"array":["<i8",%s,0]}' % ([0] * 33), '{"array":["<i8","",0]}', '{"array":["<i8",[true],0]}', '{"array":["<i8,<i8",[0],0]}', '{"array":["<M8[x]",[0],0]}', '{"scalar":["<i8",[],0]}',
    '{"tensor":["qint8",[0],0]}', '{"tensor":["float32",[1],0]}', '{"tensor":["load",[0],0]}', '{"tensor":["float32",[0,18446744073709551615],0]}', '{"tensor":[[],[0],0]}',
):  # fmt: skip
    malformed(message(text))
malformed(message('{"array":["|b1",[2],2]}', b"\1\2"))
malformed(message('{"tensor":["bool",[2],2]}', b"\1\2"))
malformed(message('{"array":["<U1",[1],4]}', b"\0\0\x11\0"))
malformed(message('"\u2713"'))
digits = "f" * 10000000
for text in ('{"tuple":{"int":"0x%s"}}', '{"complex":[{"int":"0x%s"},0.0]}'):
    try:
        _data.load(message(text % digits))
        raise SystemExit("a number was taken for another kind")
    except _data.DataError as e:
        assert "a value of" in str(e), e
alike = [n * (2**61 - 1) for n in range(101)]  # Python gives all the hash 0
for value in (set(alike), frozenset(alike), dict.fromkeys(alike), {(n, 0) for n in alike}):
    malformed(_data.dump([value]))
same(_data.load(_data.dump(set(alike[1:]))), set(alike[1:]))
same(_data.load(_data.dump(tuple(alike))), tuple(alike))


def nested(depth, last):
    """A set of sets that differs from others in one number, the last, which has the same hash."""
    if depth == 0:
        return '{"int":"%x"}' % (last * (2**61 - 1))
    return '{"frozenset":[%s]}' % ",".join(nested(depth - 1, i if i < 4 else 4 + last) for i in range(5))


malformed(message('{"set":[%s]}' % ",".join(nested(2, i) for i in range(5))))
malformed(message('{"set":[%s]}' % ",".join('{"tuple":[%s]}' % nested(1, i) for i in range(5))))
malformed(message('{"set":[{"frozenset":[%s]},{"frozenset":[%s]}]}' % tuple('{"frozenset":[{"frozenset":[{"int":"%x"}]}]}' % (i * (2**61 - 1)) for i in range(2))))
same(_data.load(_data.dump({frozenset(alike[:2]), (frozenset(alike[:2]), 1)})), {frozenset(alike[:2]), (frozenset(alike[:2]), 1)})


def crowded():
    """Keys of a dict with 2**17 places. They have few alike hashes, and the later half finds the places of a third of them taken, one after the other."""
    size = 1 << 17
    places = [1]
    while len(places) < size:
        places.append((5 * places[-1] + 1) % size)  # the way from a place that is taken
    at = {place: n for n, place in enumerate(places)}
    keys = places[: size // 3 + 10]
    chance = random.Random(1)
    while len(keys) < size * 2 // 3 - 10:
        key = rest = chance.randrange(size, size << 12)
        place = key % size
        while at[place] < len(keys) and rest:
            rest >>= 5
            place = (5 * place + rest + 1) % size
        if rest == 0 and at[place] < len(keys) // 3:
            keys += [key + n * (2**61 - 1) for n in range(8)]
    return keys


keys = crowded()
malformed(message('{"dict":[%s]}' % ",".join("[%d,0]" % key for key in keys)))
same(_data.load(message('{"dict":[%s]}' % ",".join("[%d,0]" % (n * 7919) for n in range(len(keys))))), {n * 7919: 0 for n in range(len(keys))})


class Burden:
    """A garbage collection of a program with many objects."""

    def __call__(self, phase, info):
        until = time.thread_time() + 0.02
        while phase == "start" and time.thread_time() < until:
            pass


# The collector's time is not that of the keys.
gc.callbacks.append(Burden())
threshold = gc.get_threshold()
gc.set_threshold(1)
numbers = list(range(5120))
_data.fill(set(), numbers, numbers)
gc.set_threshold(*threshold)
assert gc.isenabled()
gc.callbacks.clear()
# A set that grows moves its keys in the order of their places. Whoever chose that of their addition could have them get in each other's way
# then: 629,000 keys took 56 s in one step. All of these want one place.
for kind in ("set", "frozenset"):
    text = message('{"%s":%s}' % (kind, [n << 40 for n in range(2000)]))
    assert _data.load(text) == {n << 40 for n in range(2000)}
    assert list(_data.load(text)) != list(_data.load(text)), "a message decides in which order keys come into a %s" % kind
text = message("[%s]" % ",".join(["[0]"] * 100000))
tracemalloc.start()
_data.load(text)
assert tracemalloc.get_traced_memory()[1] < 35 * len(text), "lists take %d bytes of memory for each" % (tracemalloc.get_traced_memory()[1] // len(text))
tracemalloc.stop()

dice = random.Random(1)
seeds = [_data.dump(v) for v in (plain[:10], arrays, tensors, {"a": (1, [b"x", {2.5}]), "b": np.float32(1)})]
for _ in range(20000):
    data = bytearray(dice.choice(seeds))
    for _ in range(dice.randrange(1, 4)):
        at = dice.randrange(len(_data.MAGIC) + 6, len(data))
        how = dice.randrange(3)
        if how == 0:
            data[at] = dice.randrange(256)
        elif how == 1:
            data[at] = ord(dice.choice('0123456789[]{}",:-.eE'))
        else:
            del data[at : at + dice.randrange(1, 9)]
    try:
        _data.load(bytes(data))
    except _data.DataError:
        pass
print("all right")
