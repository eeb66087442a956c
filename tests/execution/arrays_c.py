"""Every operation of lib/array/operations.def, recorded by its C function and
compared with numpy: dtypes by the rules of docs/ARRAYS.md, broadcasting,
negative dimensions, rank 0, no elements. What operations compute is tested by
ops.py: values here are moderate.

usage: arrays_c.py ARRAYS_DRIVER quick|medium|long
A row without a case here fails the test. Tier long compares dtypes and
compositions with jax too, where it is installed.
"""
import os
import re
import subprocess
import sys

import harness
from harness import np
import create_ops
import math_ops

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
FLOATS = harness.FLOATS
ORDER = ("i1", "ui8", "i8", "i32", "i64", "f16", "bf16", "f32", "f64")
RANKS = {"i1": 0, "ui8": 1, "i8": 1, "i32": 2, "i64": 3, "f16": 4, "bf16": 4,
         "f32": 5, "f64": 6}
f64 = np.float64
ROUNDS = {"quick": 1, "medium": 6, "long": 60}


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


NUMBERS = {name: i for i, name in enumerate(
    re.findall(r"X\((\w+), *\d", read("include/nabla/dtype.h")))}


def number_of(kind):
    return NUMBERS[harness.STORED[kind]]


# ---- dtypes -------------------------------------------------------------------


def promote(kinds):
    """The dtype of operands together; "scalar" and "integer" have none."""
    strong = [k for k in kinds if k in RANKS]
    weak = [k for k in kinds if k not in RANKS]
    if not strong:
        return "f32" if "scalar" in weak else "i32"
    out = strong[0]
    for kind in strong[1:]:
        if kind == out:
            continue
        if RANKS[kind] == RANKS[out]:
            out = "f32" if out in FLOATS else "i32"
        elif RANKS[kind] > RANKS[out]:
            out = kind
    if out not in FLOATS and "scalar" in weak:
        return "f32"
    if out == "i1" and weak:
        return "i32"
    return out


def by_rule(rule, kind):
    if rule == "floats":
        return kind if kind in FLOATS else "f32"
    if rule == "numbers":
        return "i32" if kind == "i1" else kind
    if rule == "sums":
        return "i32" if kind in ("i1", "i8", "ui8") else kind
    return "i1" if rule == "bools" else kind


# ---- arrays -------------------------------------------------------------------


class Array:
    """A value with its dtype: `wide` is f64, or i64, or bool."""

    def __init__(self, kind, stored):
        self.kind, self.stored = kind, stored
        if kind in ("scalar", "integer"):
            self.wide = stored
        else:
            wide = harness.widen(stored)
            self.wide = wide if kind == "i1" else wide.astype(
                f64 if kind in FLOATS else np.int64)

    def request(self):
        if self.kind in ("scalar", "integer"):
            return b"%s 0 8\n" % self.kind.encode() + self.stored.tobytes()
        raw = harness.plain(self.stored).tobytes()
        head = [harness.STORED[self.kind], len(self.stored.shape)]
        head += list(self.stored.shape) + [len(raw)]
        return " ".join(map(str, head)).encode() + b"\n" + raw


NONE = type("None_", (), {"kind": "none", "wide": None,
                          "request": lambda self: b"none 0 0\n"})()


def as_kind(wide, kind):
    """What nabla.convert gives, as the wide type of `kind`."""
    if kind == "i1":
        return np.asarray(wide) != 0
    if kind in FLOATS:
        stored = harness.narrow(np.asarray(wide, f64), kind) if (
            kind in ("f64", "f32", "f16")) else harness.narrow(
                np.asarray(wide, f64).astype(np.float32), kind)
        return harness.widen(stored).astype(f64)
    return np.asarray(wide).astype(np.int64).astype(
        harness.DTYPES[kind]).astype(np.int64)


class Maker:
    def __init__(self, rng):
        self.rng = rng
        self.cases = []

    def array(self, shape, kind, low=-3, high=3):
        if kind in ("scalar", "integer"):
            value = self.rng.integers(1, 4)
            return Array(kind, np.array(value + 0.5 if kind == "scalar"
                                        else value,
                                        f64 if kind == "scalar" else np.int64))
        if kind == "i1":
            return Array(kind, self.rng.integers(0, 2, shape).astype(bool))
        if kind in FLOATS:
            wide = self.rng.uniform(low, high, shape)
            return Array(kind, harness.narrow(
                np.asarray(wide if kind == "f64" else wide, np.float32 if
                           kind != "f64" else f64), kind))
        if kind == "ui8":
            low = max(low, 0)
        return Array(kind, np.asarray(self.rng.integers(
            int(low), int(high) + 1, shape)).astype(harness.DTYPES[kind]))

    def shape(self, least=0, most=4, empty=True):
        rank = int(self.rng.integers(least, most + 1))
        out = [int(self.rng.integers(1, 6)) for _ in range(rank)]
        if empty and rank and self.rng.random() < 0.1:
            out[int(self.rng.integers(rank))] = 0
        return tuple(out)

    def kind(self, kinds=ORDER):
        return kinds[int(self.rng.integers(len(kinds)))]

    def dim(self, rank):
        return int(self.rng.integers(-rank, rank))

    def dims(self, rank):
        """Different dimensions, some counted from the end."""
        count = int(self.rng.integers(0, rank + 1))
        picked = self.rng.permutation(rank)[:count]
        return [int(d) - (rank if self.rng.random() < 0.5 else 0)
                for d in picked]

    def pair(self, kinds=ORDER + ("scalar", "integer")):
        """Two arrays that broadcast, one of them of a dtype of its own."""
        whole = self.shape()
        arrays = []
        for i in range(2):
            cut = whole[int(self.rng.integers(len(whole) + 1)):] if (
                self.rng.random() < 0.4) else whole
            cut = tuple(1 if d != 0 and self.rng.random() < 0.2 else d
                        for d in cut)
            kind = self.kind(kinds if i else ORDER)
            arrays.append(self.array(cut, kind))
        if self.rng.random() < 0.5:
            arrays.reverse()
        return arrays

    def add(self, name, arrays, integers, numbers, wants):
        """wants: a (kind, wide array, tolerance) for each result; None: the
        call fails."""
        flat = []
        for entry in integers:
            if entry is None:
                flat.append(-1)
            elif isinstance(entry, (list, tuple)):
                flat += [len(entry)] + list(entry)
            else:
                flat.append(int(entry))
        text = "%s %d %d %d\n%s\n%s\n" % (
            name, len(arrays), len(flat), len(numbers),
            " ".join(map(str, flat)), " ".join(repr(float(n)) for n in numbers))
        self.cases.append((name, text.encode() + b"".join(
            a.request() for a in arrays), wants,
            "%s(%s) %s %s" % (name, ", ".join(
                a.kind + str(np.shape(a.wide)) for a in arrays), integers,
                numbers)))


def want(kind, wide, tolerance=None):
    """A result; tolerance: in steps of its dtype, relative to 1 or the value."""
    return (kind, np.asarray(wide), tolerance)


STEP = {"f64": 2.0 ** -52, "f32": 2.0 ** -23, "f16": 2.0 ** -10,
        "bf16": 2.0 ** -7}


def compare(got_kind, got, expected):
    kind, wide, tolerance = expected
    if harness.STORED[kind] != got_kind:
        return "dtype %s, not %s" % (got_kind, harness.STORED[kind])
    if got.shape != wide.shape:
        return "shape %s, not %s" % (got.shape, wide.shape)
    if kind not in FLOATS:
        good = harness.widen(got) == as_kind(wide, kind)
    else:
        value = harness.widen(got).astype(f64)
        with np.errstate(all="ignore"):
            bound = (tolerance or 0) * STEP[kind] * np.maximum(1, np.abs(wide))
            target = wide if tolerance else as_kind(wide, kind)
            good = (np.abs(value - target) <= bound) | (value == target) | (
                np.isnan(value) & np.isnan(target))
    if np.all(good):
        return None
    at = np.unravel_index(int(np.argmin(good)), np.shape(good))
    return "at %s %r, not %r" % (tuple(map(int, at)),
                                 harness.widen(got)[at], wide[at])


# ---- elementwise --------------------------------------------------------------

FUNCTIONS = {
    "abs": np.abs, "neg": np.negative, "sign": np.sign, "exp": np.exp,
    "log": np.log, "log1p": np.log1p, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "sin": np.sin, "cos": np.cos,
    "tan": np.tan, "acos": np.arccos, "atanh": np.arctanh, "tanh": np.tanh,
    "erf": math_ops.erf, "sigmoid": math_ops.sigmoid,
    "relu": lambda x: np.maximum(x, 0), "silu": lambda x: x * math_ops.sigmoid(x),
    "gelu": math_ops.gelu, "gelu_tanh": math_ops.gelu_tanh, "floor": np.floor,
    "ceil": np.ceil, "round": np.rint, "trunc": np.trunc, "is_nan": np.isnan,
    "is_inf": np.isinf, "not": np.invert}
DOMAINS = {"log": (0.1, 3), "log1p": (-0.9, 3), "sqrt": (0, 3),
           "rsqrt": (0.1, 3), "tan": (-1, 1), "acos": (-1, 1),
           "atanh": (-0.9, 0.9)}
# dtypes that an operation does not take
REFUSED = {"abs": ("i1", "ui8"), "neg": ("i1", "ui8"), "sign": ("i1", "ui8"),
           "not": FLOATS, "and": FLOATS, "or": FLOATS, "xor": FLOATS}


def add_unary(m, name, rule):
    for kind in ORDER + ("scalar",):
        low, high = DOMAINS.get(name, (-3, 3))
        if kind not in FLOATS and name in ("log", "rsqrt"):
            low = 1
        if kind == "i1" and name in ("log", "rsqrt"):
            continue
        if kind not in FLOATS and name in ("acos", "atanh", "log1p"):
            low, high = 0, 0 if name == "atanh" else 1
        if kind == "i1" and name == "atanh":
            continue
        x = m.array(m.shape(), kind, low, high)
        if kind == "scalar" and name in ("acos", "atanh"):
            continue
        to = by_rule(rule, promote([kind]))
        if to in REFUSED.get(name, ()):
            m.add(name, [x], [], [], None)
            continue
        with np.errstate(all="ignore"):
            y = np.asarray(FUNCTIONS[name](as_kind(x.wide, to)))
        out = "i1" if name.startswith("is_") else to
        m.add(name, [x], [], [], [want(out, y, 6)])


PAIRS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "div": np.true_divide, "pow": np.power,
    "maximum": np.maximum, "minimum": np.minimum, "and": np.bitwise_and,
    "or": np.bitwise_or, "xor": np.bitwise_xor, "equal": np.equal,
    "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal,
    "mod": lambda x, y: x - np.floor(x / y) * y,
    "quotient": lambda x, y: np.trunc(x / y)}
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater",
               "greater_equal")


def add_binary(m, name, rule, rounds):
    for _ in range(rounds * 2):
        x, y = m.pair()
        if name in ("pow", "mod", "quotient", "div"):
            shapes = x.wide.shape, y.wide.shape
            x = m.array(shapes[0], x.kind, 1, 3)
            kind = y.kind if y.kind != "i1" else "f32"
            y = m.array(shapes[1], kind, 1, 3)
            if name == "mod":  # exact: not beside multiples
                x, y = (Array(t.kind, harness.narrow(
                    np.asarray(np.rint(2 * t.wide) / 2, np.float32), t.kind))
                        if t.kind in FLOATS else t for t in (x, y))
        to = by_rule(rule, promote([x.kind, y.kind]))
        if to in REFUSED.get(name, ()):
            m.add(name, [x, y], [], [], None)
            continue
        a, b = as_kind(x.wide, to), as_kind(y.wide, to)
        if name == "quotient" and to in FLOATS:
            z = a / b
        elif to in ("i1",) and name in ("add", "mul"):
            z = (a | b) if name == "add" else (a & b)
        else:
            z = PAIRS[name](a, b)
        out = "i1" if name in COMPARISONS else to
        m.add(name, [x, y], [], [], [want(out, z, 8)])


def add_where(m):
    x, y = m.pair()
    c = m.array((), m.kind())
    to = promote([x.kind, y.kind])
    z = np.where(c.wide != 0, as_kind(x.wide, to), as_kind(y.wide, to))
    z = np.broadcast_to(z, np.broadcast_shapes(x.wide.shape, y.wide.shape))
    m.add("where", [c, x, y], [], [], [want(to, z, 1)])


def add_convert(m):
    for kind in ORDER:
        x = m.array(m.shape(), m.kind())
        to = kind
        wide = as_kind(np.trunc(x.wide) if x.kind in FLOATS and to not in
                       FLOATS + ("i1",) else x.wide, to)
        if x.kind in FLOATS and to == "ui8":
            wide = np.clip(np.trunc(x.wide), 0, 255)
        m.add("convert", [x], [number_of(kind)], [], [want(to, wide, 1)])


# ---- reductions ---------------------------------------------------------------

REDUCERS = {"sum": np.sum, "max": np.max, "prod": np.prod, "min": np.min,
            "mean": np.mean, "any": np.any, "all": np.all}


def reduced(m, name, rule, rounds):
    for _ in range(rounds * 2):
        x = m.array(m.shape(empty=name not in ("mean", "minmax")), m.kind(), -2, 2)
        rank = x.wide.ndim
        dims, keep = m.dims(rank), int(m.rng.integers(2))
        axes = tuple(d % rank for d in dims) if dims else None
        to = by_rule(rule, x.kind)
        a = as_kind(x.wide, to)
        if name in ("max", "min") and 0 in [a.shape[d] for d in axes or range(rank)]:
            m.add(name, [x], [dims, keep], [], None)
            continue
        if name == "minmax":
            wants = [want(to, f(a, axis=axes, keepdims=bool(keep)), 1)
                     for f in (np.min, np.max)]
        else:
            wants = [want(to, REDUCERS[name](a, axis=axes,
                                             keepdims=bool(keep)), 400)]
        m.add(name, [x], [dims, keep], [], wants)


def add_along(m, name, rule, keeps, rounds):
    for _ in range(rounds * 2):
        x = m.array(m.shape(least=1, empty=False), m.kind(), -2, 2)
        dim, keep = m.dim(x.wide.ndim), int(m.rng.integers(2))
        to = by_rule(rule, x.kind)
        a = as_kind(x.wide, to)
        if name in ("argmax", "argmin"):
            y = getattr(np, name)(a, axis=dim)
            y = np.expand_dims(y, dim) if keep else y
            to = "i64"
        elif name == "logsumexp":
            y = create_ops.logsumexp(a, dim, bool(keep))
        elif name == "cumsum":
            y = np.cumsum(a, axis=dim)
        else:
            e = a - a.max(axis=dim, keepdims=True)
            log = e - np.log(np.exp(e).sum(axis=dim, keepdims=True))
            y = log if name == "log_softmax" else np.exp(log)
        integers = [dim, keep] if keeps else [dim]
        m.add(name, [x], integers, [], [want(to, y, 60)])


# ---- creation -----------------------------------------------------------------


def add_creation(m):
    for kind in ORDER:
        shape, n = m.shape(), number_of(kind)
        for name, value in (("zeros", 0), ("ones", 1)):
            m.add(name, [], [n, shape], [], [want(kind, np.full(shape, value))])
        m.add("full", [], [n, shape], [1], [want(kind, np.full(shape, 1))])
        x = m.array(shape, kind)
        for name, value in (("zeros_like", 0), ("ones_like", 1)):
            m.add(name, [x], [], [], [want(kind, np.full(shape, value))])
        m.add("full_like", [x], [], [1], [want(kind, np.full(shape, 1))])
        shape = m.shape(least=2)
        d = int(m.rng.integers(-2, 3))
        m.add("tri", [], [n, shape, d], [],
              [want(kind, np.broadcast_to(np.tri(*shape[-2:], d), shape))])
        m.add("eye", [], [n, 4], [], [want(kind, np.eye(4))])
        m.add("one_hot", [Array("i32", np.array([0, 3, 2, 7], np.int32))],
              [4, n], [], [want(kind, np.eye(8)[[0, 3, 2, 7]][:, :4])])
        x = m.array(shape, kind)
        for name, f in (("triu", np.triu), ("tril", np.tril)):
            m.add(name, [x], [d], [], [want(kind, f(x.wide, d))])
        if kind == "i1":
            m.add("arange", [], [n], [0, 3, 1], None)
            continue
        dim = m.dim(len(shape))
        index = np.broadcast_to(np.arange(shape[dim]).reshape(
            [-1 if i == dim % len(shape) else 1 for i in range(len(shape))]),
            shape)
        m.add("iota", [], [n, shape, dim], [], [want(kind, index)])
        m.add("arange", [], [n], [2, 9, 2], [want(kind, np.arange(2, 9, 2))])
        m.add("arange", [], [n], [5, 5, 1], [want(kind, np.arange(0))])
        if kind in FLOATS:
            m.add("arange", [], [n], [3, -1, -0.5],
                  [want(kind, np.arange(3, -1, -0.5))])
            for size, periodic in ((5, 1), (6, 0), (1, 0), (0, 1)):
                base = size if periodic else size - 1
                w = (1 - np.cos(2 * np.pi * np.arange(size) / (base or 1))) / 2
                m.add("hann_window", [], [n, size, periodic], [],
                      [want(kind, np.ones(1) if size == 1 else w, 2)])
            add_random(m, kind)
    m.add("full", [], [number_of("i8"), [2]], [128], None)
    m.add("full", [], [number_of("i32"), [2]], [0.5], None)
    m.add("zeros", [], [number_of("f32"), [2, -1]], [], None)


def add_random(m, kind):
    shape, seed = (3, 5), int(m.rng.integers(1 << 40))
    words = create_ops.philox(np.arange(15, dtype=np.uint64), np.uint64(seed))
    a, b, c, d = (np.asarray(w).astype(np.uint64) for w in words)
    bits = {"f32": 24, "f16": 11, "bf16": 8}
    high, low = a << np.uint64(32) | b, c << np.uint64(32) | d
    if kind == "f64":
        u = (high >> np.uint64(11)).astype(f64) / 2.0 ** 53
    else:
        u = (a >> np.uint64(32 - bits[kind])).astype(f64) / 2.0 ** bits[kind]
    first = ((high >> np.uint64(11)).astype(f64) + 1) / 2.0 ** 53
    second = (low >> np.uint64(11)).astype(f64) / 2.0 ** 53
    z = np.sqrt(-2 * np.log(first)) * np.cos(2 * np.pi * second)
    x = Array("i64", np.array(seed, np.int64))
    m.add("uniform", [x], [number_of(kind), shape], [],
          [want(kind, u.reshape(shape))])
    m.add("normal", [x], [number_of(kind), shape], [],
          [want(kind, z.reshape(shape), 4)])


# ---- shapes -------------------------------------------------------------------


def add_shapes(m):
    rng = m.rng
    x = m.array(m.shape(least=1), m.kind())
    a, rank, k = x.wide, x.wide.ndim, x.kind
    order = [int(d) for d in rng.permutation(rank)]
    signed = [d - (rank if rng.random() < 0.5 else 0) for d in order]
    m.add("transpose", [x], [signed], [], [want(k, a.transpose(order))])
    m.add("transpose", [x], [[]], [], [want(k, a.transpose())])
    i, j = m.dim(rank), m.dim(rank)
    m.add("swap_axes", [x], [i, j], [], [want(k, np.swapaxes(a, i, j))])
    m.add("moveaxis", [x], [i, j], [], [want(k, np.moveaxis(a, i, j))])
    shape = [int(np.prod(a.shape[:i % rank])), int(np.prod(a.shape[i % rank:]))]
    whole = [want(k, a.reshape(shape))]
    m.add("reshape", [x], [shape], [], whole)
    if shape[1]:
        m.add("reshape", [x], [[-1, shape[1]]], [], whole)
    m.add("reshape", [x], [[a.size + 1]], [], None)
    first, last = sorted((i % rank, j % rank))
    joined = a.shape[:first] + (int(np.prod(a.shape[first:last + 1])),)
    m.add("flatten", [x], [first - rank, last], [],
          [want(k, a.reshape(joined + a.shape[last + 1:]))])
    m.add("flip", [x], [[i]], [], [want(k, np.flip(a, i))])
    m.add("flip", [x], [[]], [], [want(k, np.flip(a))])
    e = int(rng.integers(-rank - 1, rank + 1))
    m.add("unsqueeze", [x], [e], [], [want(k, np.expand_dims(a, e))])
    y = m.array((1,) + a.shape + (1,), k)
    m.add("squeeze", [y], [[]], [], [want(k, np.squeeze(y.wide))])
    m.add("squeeze", [y], [[-1]], [], [want(k, np.squeeze(y.wide, -1))])
    m.add("transpose", [x], [[rank] * rank], [], None)
    m.add("swap_axes", [x], [rank, 0], [], None)
    shape = (2,) + a.shape
    m.add("broadcast_to", [x], [shape], [], [want(k, np.broadcast_to(a, shape))])
    m.add("broadcast_in_dim", [x], [a.shape + (3,), list(range(rank))], [],
          [want(k, np.broadcast_to(a[..., None], a.shape + (3,)))])


def add_boxes(m):
    rng = m.rng
    x = m.array(m.shape(least=1, empty=False), m.kind())
    a, rank, k = x.wide, x.wide.ndim, x.kind
    starts = [int(rng.integers(0, d)) for d in a.shape]
    limits = [int(rng.integers(s, d + 1)) for s, d in zip(starts, a.shape)]
    strides = [int(rng.integers(1, 3)) for _ in a.shape]
    signed = [s - d if rng.random() < 0.5 else s
              for s, d in zip(starts, a.shape)]
    index = tuple(slice(*t) for t in zip(starts, limits, strides))
    m.add("slice", [x], [signed, limits, strides], [], [want(k, a[index])])
    end = (1 << 63) - 1
    m.add("slice", [x], [starts, [end] * rank, None], [],
          [want(k, a[tuple(slice(s, None) for s in starts)])])
    m.add("slice", [x], [[0] * rank, [9] * rank, None], [], None)
    sizes = [int(rng.integers(1, d + 1)) for d in a.shape]
    places = [int(rng.integers(0, d)) for d in a.shape]
    inside = [min(p, d - s) for p, d, s in zip(places, a.shape, sizes)]
    box = tuple(slice(p, p + s) for p, s in zip(inside, sizes))
    at = [Array(t, np.array(p, harness.DTYPES.get(t, np.int64))) for p, t in
          zip(places, ("i64", "i32", "integer", "ui8"))]
    m.add("dynamic_slice", [x] + at, [sizes], [], [want(k, a[box])])
    u = m.array(tuple(sizes), k)
    b = np.array(a)
    b[box] = u.wide
    m.add("dynamic_update_slice", [x, u] + at, [], [], [want(k, b)])
    low = [int(rng.integers(0, 3)) for _ in a.shape]
    high = [int(rng.integers(0, 3)) for _ in a.shape]
    v = m.array((), "integer")
    padded = np.pad(a, list(zip(low, high)), constant_values=v.wide)
    m.add("pad", [x, v], [low, high, None], [], [want(k, padded)])
    m.add("pad", [x, v], [low, high, [0] * rank], [], [want(k, padded)])
    dim = m.dim(rank)
    n = a.shape[dim]
    cut = int(rng.integers(0, n + 1))
    m.add("split", [x], [dim, [cut, n - cut]], [],
          [want(k, p) for p in np.split(a, [cut], axis=dim)])
    m.add("chunk", [x], [dim, n], [],
          [want(k, p) for p in np.split(a, n, axis=dim)])
    m.add("chunk", [x], [dim, n + 1], [], None)
    m.add("unbind", [x], [dim, n], [],
          [want(k, p) for p in np.moveaxis(a, dim, 0)])
    more = [x, m.array(a.shape, m.kind()), m.array(a.shape, m.kind())]
    to = promote([y.kind for y in more])
    wides = [as_kind(y.wide, to) for y in more]
    m.add("concatenate", more, [dim], [], [want(to, np.concatenate(
        wides, dim))])
    e = int(rng.integers(-rank - 1, rank + 1))
    m.add("stack", more, [e], [], [want(to, np.stack(wides, e))])


# ---- indices ------------------------------------------------------------------


def add_indices(m):
    rng = m.rng
    x = m.array(m.shape(least=1, most=3, empty=False), m.kind())
    a, rank, k = x.wide, x.wide.ndim, x.kind
    dim = m.dim(rank)
    n, shape = a.shape[dim], m.shape(most=2)
    i = rng.integers(-n, n, shape)
    t = m.kind(("i32", "i64", "i8"))
    indices = Array(t, np.asarray(i).astype(harness.DTYPES[t]))
    m.add("take", [x, indices], [dim], [], [want(k, np.take(a, i, dim))])
    m.add("take", [x, m.array((2,), "f32")], [dim], [], None)
    values = m.array((), k)
    for kind, name in ((0, "set"), (1, "add")):
        b = np.moveaxis(np.array(a), dim, 0)
        if name == "set":
            b[i % n] = values.wide
        elif k in ("i1", "f16", "bf16"):
            continue  # wraps, or is rounded after each update: ops.py
        else:
            np.add.at(b, np.asarray(i) % n, values.wide)
        m.add("at", [x, indices, values], [dim, kind], [],
              [want(k, np.moveaxis(b, 0, dim), 20)])
    y = m.array((6, 4), "f32")
    rows = Array("i64", np.array([[1], [5], [1]], np.int64))
    numbers = [[1], [0], [0], 1]
    m.add("gather", [y, rows], numbers + [[1, 4]], [],
          [want("f32", y.wide[[1, 5, 1]])])
    u = m.array((3, 4), "f32")
    b = np.array(y.wide)
    np.add.at(b, [1, 5, 1], u.wide)
    m.add("scatter", [y, rows, u], [1] + numbers, [], [want("f32", b, 4)])


# ---- products -----------------------------------------------------------------


def add_products(m):
    rng = m.rng
    kinds = ORDER
    x, y = m.kind(kinds), m.kind(kinds)
    b, i, j, k = (int(rng.integers(1, 5)) for _ in range(4))
    to = promote([x, y])
    for left, right in (((i, k), (k, j)), ((k,), (k,)), ((k,), (k, j)),
                        ((b, i, k), (k,)), ((b, i, k), (k, j)),
                        ((i, k), (b, k, j)), ((b, 1, i, k), (3, k, j)),
                        ((i, 0), (0, j))):
        p, q = m.array(left, x), m.array(right, y)
        kind = by_rule("numbers", to)
        z = np.matmul(as_kind(p.wide, kind), as_kind(q.wide, kind))
        if to == "bool":
            kind, z = to, z != 0
        m.add("matmul", [p, q], [], [], [want(kind, z, 40)])
    m.add("matmul", [m.array((2, 3), "f32"), m.array((4, 2), "f32")], [], [],
          None)
    m.add("matmul", [m.array((), "f32"), m.array((4, 2), "f32")], [], [], None)
    p, q = m.array(m.shape(most=2), x), m.array(m.shape(most=2), y)
    a, c = as_kind(p.wide, to), as_kind(q.wide, to)
    outer = np.outer(a, c)
    m.add("outer", [p, q], [], [], [want(to, outer, 1)])
    kind = by_rule("floats", to)
    p, q, r = m.array((b, i, k), x), m.array((j, k), y), m.array((j,), y)
    a, c, d = (as_kind(t.wide, kind) for t in (p, q, r))
    m.add("linear", [p, q, r], [], [], [want(kind, a @ c.T + d, 40)])
    m.add("linear", [p, q, NONE], [], [], [want(kind, a @ c.T, 40)])
    m.add("linear", [p, NONE, r], [], [], None)
    p, q = m.array((b, k, i), x), m.array((j, b, k), y)
    z = np.einsum("bki,jbk->bij", as_kind(p.wide, kind), as_kind(q.wide, kind))
    m.add("dot_general", [p, q], [[0], [-2], [1], [-1]], [],
          [want(kind, z, 40)])


def add_windows(m):
    rng = m.rng
    x = m.array((2, 4, 6, 5), m.kind(FLOATS))
    w = m.array((4, 2, 3, 2), m.kind(FLOATS))
    kind = promote([x.kind, w.kind])
    a = np.pad(as_kind(x.wide, kind), ((0, 0), (0, 0), (1, 1), (1, 0)))
    c = as_kind(w.wide, kind)
    out = np.zeros((2, 4, 3, 5))
    for p in range(3):
        for q in range(5):
            box = a[:, :, 2 * p:2 * p + 3, q:q + 2].reshape(2, 2, 2, 3, 2)
            out[:, :, p, q] = np.einsum(
                "ngckl,gockl->ngo", box, c.reshape(2, 2, 2, 3, 2)).reshape(2, 4)
    m.add("conv_general", [x, w], [[2, 1], [1, 1], [1, 0], 2], [],
          [want(kind, out, 60)])
    y = m.array((3, 7, 6), m.kind(), -3, 3)
    k = y.kind
    view = np.lib.stride_tricks.sliding_window_view(
        y.wide, (2, 3), axis=(1, 2))
    some = view[:, ::2, ::3]
    m.add("max_pool", [y], [[2, 3], None, None], [],
          [want(k, some.max(axis=(-2, -1)))])
    m.add("max_pool", [y], [[2, 3], [1, 1], [0, 0]], [],
          [want(k, view.max(axis=(-2, -1)))])
    f = by_rule("floats", k)
    m.add("avg_pool", [y], [[2, 3], [1, 1], None], [],
          [want(f, as_kind(view, f).mean(axis=(-2, -1)), 20)])
    s = by_rule("sums", k)
    m.add("reduce_window", [y], [0, [1, 2, 3], [1, 2, 3], None, None, None, 0],
          [], [want(s, as_kind(some, s).sum(axis=(-2, -1)), 30)])
    m.add("reduce_window", [y], [2, [1, 2, 3], None, None, None, None, 0], [],
          [want(k, view.min(axis=(-2, -1)))])
    m.add("max_pool", [y], [[], None, None], [], None)
    del rng


# ---- models -------------------------------------------------------------------


def add_models(m):
    rng = m.rng
    kind = m.kind(FLOATS)
    x, w, b = (m.array(s, kind) for s in ((3, 2, 8), (8,), (8,)))
    a = x.wide
    n = a / np.sqrt((a * a).mean(-1, keepdims=True) + 1e-5)
    m.add("rms_norm", [x, w], [], [1e-5], [want(kind, n * w.wide, 60)])
    m.add("rms_norm", [x, NONE], [], [1e-5], [want(kind, n, 60)])
    c = a - a.mean(-1, keepdims=True)
    n = c / np.sqrt((c * c).mean(-1, keepdims=True) + 1e-5)
    m.add("layer_norm", [x, w, b], [], [1e-5],
          [want(kind, n * w.wide + b.wide, 90)])
    m.add("layer_norm", [x, NONE, NONE], [], [1e-5], [want(kind, n, 90)])
    m.add("layer_norm", [x, NONE, b], [], [1e-5], None)
    positions = rng.integers(0, 50, 3)
    for halves in (0, 1):
        at = a.reshape(3, 2, 2, 4).swapaxes(2, 3) if halves else a.reshape(
            3, 2, 4, 2)
        for given in (True, False):
            place = positions if given else np.arange(3) + 7
            t = place[:, None, None] * 500.0 ** (-2 * np.arange(4) / 8)
            turned = np.stack([at[..., 0] * np.cos(t) - at[..., 1] * np.sin(t),
                               at[..., 0] * np.sin(t) + at[..., 1] * np.cos(t)],
                              -1)
            turned = turned.swapaxes(2, 3) if halves else turned
            p = Array("i32", positions.astype(np.int32)) if given else NONE
            m.add("rope", [x, p], [-3, halves, 0 if given else 7], [500.0],
                  [want(kind, turned.reshape(3, 2, 8), 60)])
    q, k, v = m.array((4, 3, 8), kind), m.array((2, 5, 8), kind), m.array(
        (2, 5, 6), kind)
    mask = m.array((3, 5), "i1")
    mask.stored[:, 0] = mask.wide[:, 0] = True
    for masked, keys, causal in ((0, 5, 0), (1, 5, 0), (0, 4, 0), (0, 5, 1)):
        s = np.einsum("htd,hsd->hts", q.wide, k.wide.repeat(2, 0)) / np.sqrt(8)
        hide = np.zeros((3, 5), bool)
        if masked:
            hide |= ~mask.wide
        hide[:, keys:] = True
        if causal:
            hide |= np.arange(5)[None] - 5 > np.arange(3)[:, None] - 3
        s = np.where(hide, -np.inf, s)
        e = np.exp(s - s.max(-1, keepdims=True))
        y = np.einsum("hts,hsv->htv", e / e.sum(-1, keepdims=True),
                      v.wide.repeat(2, 0))
        count = NONE if keys == 5 else Array("integer", np.array(keys))
        m.add("attention", [q, k, v, mask if masked else NONE, count], [causal],
              [0], [want(kind, y, 60)])
    y = m.array((2, 8), m.kind())
    to = by_rule("floats", promote([kind, y.kind]))
    d = as_kind(a, to) - as_kind(y.wide, to)
    m.add("mse", [x, y], [], [], [want(to, (d * d).mean(), 200)])
    e = a - a.max(-1, keepdims=True)
    log = e - np.log(np.exp(e).sum(-1, keepdims=True))
    labels = m.array((3, 2), m.kind(("i32", "i64", "ui8")), 0, 7)
    picked = np.take_along_axis(log, labels.wide[..., None], -1)
    m.add("cross_entropy", [x, labels], [], [], [want(kind, -picked.mean(),
                                                      80)])
    share = m.array((3, 2, 8), kind, 0, 1)
    m.add("cross_entropy", [x, share], [], [],
          [want(kind, -(log * share.wide).sum(-1).mean(), 200)])
    m.add("cross_entropy", [x, m.array((2,), "i32", 0, 3)], [], [], None)


# ---- packed arrays; compiler.array_packed_test has more ----


def add_packed(m):
    whole = m.rng.integers(-127, 128, (3, 128)).astype(f64)
    whole[:, ::64] = 127
    x = Array("f32", whole.astype(np.float32))
    codes = Array("i8", whole.astype(np.int8).reshape(-1))
    scales = m.array((6,), "f32", 1, 2)
    decoded = whole.reshape(6, 64) * scales.wide[:, None]
    m.add("quantize", [x], [], [], [want("f32", whole, 1)])
    m.add("materialize", [x], [], [], [want("f32", whole)])
    m.add("unpack", [x], [], [], [want("i8", codes.wide),
                                  want("f32", np.ones(6))])
    m.add("pack", [codes, scales], [(3, 128)], [],
          [want("f32", decoded.reshape(3, 128), 2)])
    m.add("pack", [codes], [(3, 128)], [], None)
    m.add("pack_as", [codes, scales], [(3, 128)], [],
          [want("f32", decoded.reshape(3, 128), 2)])
    m.add("pack_as", [codes], [(3, 128)], [], None)
    m.add("stop_gradient", [x], [], [], [want("f32", whole)])
    m.add("implicit_depth", [x], [], [], [want("i64", np.array(0))])


# ---- runs ---------------------------------------------------------------------


def rows():
    """(word, name, the others) of each row."""
    text = re.sub(r"/\*.*?\*/", "", read("lib/array/operations.def"), flags=re.S)
    found = re.findall(r"^([A-Z_]+)\((\w+), *([^\n]*)\)$", text, re.M)
    return [(word, name, [r.strip() for r in rest.split(",")])
            for word, name, rest in found if word != "WITHOUT"]


def check_page():
    """docs/ARRAYS.md has the table of dtypes that the oracle has."""
    text = read("docs/ARRAYS.md").split("<!-- dtypes of pairs -->")[1]
    lines = [[c.strip() for c in line.split("|")[1:-1]]
             for line in text.strip().split("\n\n")[0].split("\n")]
    names = lines[0][1:]
    if len(names) != len(ORDER) + 2:
        raise harness.Failure("docs/ARRAYS.md has no table of dtypes")
    for row in lines[2:]:
        for name, shown in zip(names, row[1:]):
            if promote([row[0], name]) != shown:
                raise harness.Failure("docs/ARRAYS.md: %s with %s is %s" % (
                    row[0], name, promote([row[0], name])))


def compare_with_jax():
    """The same table by JAX, where it is installed."""
    try:
        import jax
    except ImportError:
        print("jax is not installed: its dtypes are not compared")
        return
    jnp = jax.numpy
    types = {"i1": jnp.bool_, "ui8": jnp.uint8, "i8": jnp.int8,
             "i32": jnp.int32, "i64": jnp.int64, "f16": jnp.float16,
             "bf16": jnp.bfloat16, "f32": jnp.float32, "f64": jnp.float64}
    jax.config.update("jax_enable_x64", False)
    for name, rule in (("exp", "floats"), ("mean", "floats"), ("sum", "sums"),
                       ("prod", "sums"), ("max", "own"), ("any", "bools"),
                       ("cumsum", "numbers")):
        for kind in set(ORDER) - {"i64", "f64", "ui8"}:
            got = getattr(jnp, name)(jnp.zeros(3, types[kind])).dtype
            if got != types[by_rule(rule, kind)]:
                raise harness.Failure("%s of %s: %s, by jax %s" % (
                    name, kind, by_rule(rule, kind), got))
    jax.config.update("jax_enable_x64", True)
    for a in ORDER:
        for b in ORDER + ("integer", "scalar"):
            y = {"integer": 1, "scalar": 1.5}.get(b)
            y = jnp.zeros((), types[b]) if y is None else y
            got = (jnp.zeros((), types[a]) + y).dtype
            mine = promote([a, b])
            if {a, b} == {"i8", "ui8"} or (a == "i1" and b == "integer"):
                continue  # docs/ARRAYS.md says why
            if mine == "f32" and got == jnp.float64:
                continue  # a Python number with integers: 64 bits are enabled
            if types[mine] != got:
                raise harness.Failure("%s with %s: %s, by jax %s" % (
                    a, b, mine, got))


def make_cases(rng, rounds):
    m = Maker(rng)
    for word, name, rest in rows():
        if word in ("UNARY", "UNARY_OF"):
            add_unary(m, name, rest[1])
        elif word == "BINARY":
            add_binary(m, name, rest[1], rounds)
        elif word == "COMPARISON":
            add_binary(m, name, "own", rounds)
        elif word == "REDUCTION":
            reduced(m, name, rest[1], rounds)
        elif word in ("ACROSS", "ALONG"):
            add_along(m, name, rest[1], word == "ACROSS", rounds)
    reduced(m, "minmax", "own", 1)
    for _ in range(rounds):
        add_where(m)
        add_shapes(m)
        add_boxes(m)
        add_indices(m)
    for _ in range((rounds + 3) // 4):
        add_convert(m)
        add_creation(m)
        add_products(m)
        add_windows(m)
        add_models(m)
    add_packed(m)
    missing = {name for _, name, _ in rows()} - {c[0] for c in m.cases}
    if missing:
        raise harness.Failure("no case for " + ", ".join(sorted(missing)))
    return m.cases


class Answers:
    def __init__(self, data):
        self.data, self.at = data, 0

    def line(self):
        end = self.data.index(b"\n", self.at)
        text = self.data[self.at:end].decode()
        self.at = end + 1
        return text

    def array(self):
        head = self.line().split()
        shape = tuple(map(int, head[2:-1]))
        size = int(head[-1])
        kind = {v: k for k, v in harness.STORED.items()}[head[0]]
        out = np.frombuffer(self.data[self.at:self.at + size],
                            harness.DTYPES[kind]).reshape(shape)
        self.at += size
        return head[0], out


BATCH = 40


def check(case, answers):
    _, _, wants, text = case
    status, count, *said = answers.line().split(" ", 2)
    got = [answers.array() for _ in range(int(count))]
    if wants is None:
        if status == "OK":
            return "%s: not refused" % text
        if not said or not said[0].startswith("nabla_%s(" % case[0]):
            return "%s: refused without its name: %s" % (text, said)
        return None
    if status != "OK":
        return "%s: %s %s" % (text, status, said)
    if len(got) != len(wants):
        return "%s: %d results" % (text, len(got))
    for (kind, array), expected in zip(got, wants):
        wrong = compare(kind, array, expected)
        if wrong:
            return "%s: %s" % (text, wrong)
    return None


def run(driver, cases):
    batches = [cases[i:i + BATCH] for i in range(0, len(cases), BATCH)]
    data = b"".join(b"".join(c[1] + b"\n" for c in batch) + b"realize\n"
                    for batch in batches)
    done = subprocess.run([driver, "2"], input=data, capture_output=True,
                          check=False)
    if done.returncode:
        print(done.stderr.decode()[-2000:])
        print("the driver ended with %d" % done.returncode)
        return 1
    answers = Answers(done.stdout)
    failures = [f for f in (check(c, answers) for c in cases) if f]
    for failure in failures[:30]:
        print(failure)
    print("%d calls, %d failures" % (len(cases), len(failures)))
    return 1 if failures else 0


def main():
    rng = np.random.default_rng(harness.seed())
    check_page()
    if sys.argv[2] == "long":
        compare_with_jax()
    cases = make_cases(rng, ROUNDS[sys.argv[2]])
    order = rng.permutation(len(cases))
    return run(sys.argv[1], [cases[i] for i in order])


if __name__ == "__main__":
    sys.exit(main())
