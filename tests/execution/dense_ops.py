"""Cases of the operations on dense arrays, for ops.py."""
import itertools

import harness
from harness import np, Function, exact, close, tensor_type
from arrays import values, shape, hidden, rounded

FLOATS = harness.FLOATS
ALL = tuple(harness.DTYPES)
f32, f64 = np.float32, np.float64


class Maker:
    def __init__(self, rng):
        self.rng, self.functions = rng, []

    def new(self, what):
        f = Function("d%d_%s" % (len(self.functions), what))
        f.pairs = []
        self.functions.append(f)
        return f

    def input(self, f, dims, kind, special=True):
        array = values(self.rng, dims, kind, special)
        name, text = f.argument(array, hidden(self.rng, len(dims)))
        return array, name, text


def shapes(rng, count):
    """Of ranks 0 to 4, some without elements."""
    out = [(), (1,), (0,), (3, 0, 2)]
    out += [shape(rng, int(rng.integers(1, 5))) for _ in range(count)]
    return out


def joined(a, b):
    """The inferred dimensions of two operand types."""
    a, b = (t[len("tensor<"):-1].split("x") for t in (a, b))
    return "tensor<%s>" % "x".join(y if x == "?" else x for x, y in zip(a, b))


def binary(op, a, b):
    if a.dtype == bool:
        return a ^ b if op == "add" else a & b
    kind = harness.NAMES[a.dtype]
    a, b = harness.widen(a), harness.widen(b)
    with np.errstate(all="ignore"):
        out = a + b if op == "add" else a * b
    return harness.narrow(out, kind) if kind in FLOATS else out


def add_binary(make, rounds):
    rng = make.rng
    for op, kind in itertools.product(("add", "mul"), ALL):
        f = make.new("%s_%s" % (op, kind))
        for dims in shapes(rng, 2 * rounds):
            a, x, x_type = make.input(f, dims, kind)
            b, y, y_type = make.input(f, dims, kind)
            z = f.op("nabla.%s %s, %s : %s, %s" % (op, x, y, x_type, y_type))
            f.give(z, joined(x_type, y_type), exact(binary(op, a, b)))
        z = f.op("nabla.%s %s, %s : %s, %s" % (op, x, x, x_type, x_type))
        f.give(z, x_type, exact(binary(op, a, a)))


def silu(a, kind):
    wide = harness.widen(a).astype(np.longdouble)
    with np.errstate(all="ignore"):
        small = np.exp(-np.abs(wide))
        y = np.where(wide >= 0, wide / (1 + small), wide * small / (1 + small))
        y = np.where(np.isneginf(wide), 0, np.where(np.isnan(wide), wide, y))
    y = y.astype(f64)
    digits = "f64" if kind == "f64" else "f32"
    # clusters compute in f32 (execution.ulps); f64 is a longer formula
    bound = (4.04 if kind == "f64" else 2) * harness.ulp(digits, np.abs(y))
    return y, rounded(y, bound, kind)


def add_unary(make, rounds):
    rng = make.rng
    for kind in FLOATS:
        f = make.new("unary_" + kind)
        for dims in shapes(rng, 2 * rounds) + [(700,)]:
            a, x, x_type = make.input(f, dims, kind)
            if dims == (700,):  # through the whole range of exp
                with np.errstate(all="ignore"):
                    a[...] = harness.narrow(
                        np.linspace(-120, 95, 700).astype(f32), kind)
            wide = harness.widen(a)
            want = np.where(np.isnan(wide), wide, np.where(wide > 0, wide, 0))
            y = f.op("nabla.relu %s : %s" % (x, x_type))
            f.give(y, x_type, exact(harness.narrow(want, kind)))
            y = f.op("nabla.silu %s : %s" % (x, x_type))
            f.give(y, x_type, close(*silu(a, kind), kind))


def extreme(wide, how, axes, keep):
    """The largest or smallest of floats: NaN wins, 0 is above -0."""
    is_max = how == "max"
    want = (wide.max if is_max else wide.min)(
        axis=axes, keepdims=keep, initial=-np.inf if is_max else np.inf)
    there = (wide == 0) & (np.signbit(wide) != is_max)
    found = there.any(axis=axes, keepdims=keep)
    zero = np.where(found == is_max, wide.dtype.type(0), -wide.dtype.type(0))
    return np.where(want == 0, zero, want)


def reduced(a, kind, how, axes, keep):
    """A check of the reduction in numpy."""
    axes = tuple(axes)
    if how == "max":
        if kind in FLOATS:
            want = extreme(harness.widen(a), how, axes, keep)
            return exact(harness.narrow(want, kind))
        least = False if kind == "i1" else np.iinfo(a.dtype).min
        return exact(a.max(axis=axes, keepdims=keep, initial=least))
    if kind == "i1":
        return exact(a.sum(axis=axes, keepdims=keep) % 2 == 1)
    if kind not in FLOATS:
        return exact(a.sum(axis=axes, keepdims=keep, dtype=a.dtype))
    wide = harness.widen(a).astype(np.longdouble)
    with np.errstate(all="ignore"):
        want = wide.sum(axis=axes, keepdims=keep).astype(f64)
        total = np.abs(wide).sum(axis=axes, keepdims=keep).astype(f64)
    terms = int(np.prod([a.shape[i] for i in axes], dtype=np.int64))
    unit = 2.0 ** (-53 if kind == "f64" else -24)
    return close(want, rounded(want, (terms + 1) * unit * total, kind), kind)


def moderate(rng, dims, kind, special):
    """Sums of these overflow neither in f32 nor in f64."""
    a = values(rng, dims, kind, False)
    if special and kind in FLOATS and a.size > 2:
        flat = a.reshape(-1)
        for value in rng.choice([np.nan, np.inf, -np.inf], 2):
            flat[rng.integers(a.size)] = harness.narrow(f32([value]), kind)[0]
    return a


def add_reduce(make, rounds):
    rng = make.rng
    for kind in ALL:
        f = make.new("reduce_" + kind)
        for number, dims in enumerate(shapes(rng, 3 * rounds) + [(3, 700)]):
            rank = len(dims)
            a = moderate(rng, dims, kind, number % 2)
            hide = hidden(rng, rank)
            x, x_type = f.argument(a, hide)
            axes = [int(i) for i in rng.permutation(rank)[:rng.integers(rank + 1)]]
            keep = bool(rng.integers(2))
            for how in ("sum", "max"):
                y = f.op("nabla.reduce %s %s dims = %s%s : %s" % (
                    how, x, axes, " keep_dims" if keep else "", x_type))
                left = [(1 if i in axes else None if i in hide else d)
                        for i, d in enumerate(dims) if keep or i not in axes]
                f.give(y, tensor_type(left, kind),
                       reduced(a, kind, how, axes, keep))


def add_shapes(make, rounds):
    rng = make.rng
    for kind in ALL:
        f = make.new("views_" + kind)
        for dims in shapes(rng, 3 * rounds):
            order = [int(i) for i in rng.permutation(len(dims))]
            transpose(make, f, dims, kind, order)
            reshape(make, f, dims, kind)
            broadcast(make, f, dims, kind)
        # by the kernel of transposes: whole tiles and edges of both sides
        for dims, order in (((33, 150), [1, 0]), ((1030, 1), [1, 0]),
                            ((3, 16, 67), [2, 0, 1]), ((64, 4, 4), [1, 2, 0])):
            transpose(make, f, dims, kind, order)


def transpose(make, f, dims, kind, order):
    a, x, x_type = make.input(f, dims, kind)
    known = x_type[len("tensor<"):-1].split("x")
    y = f.op("nabla.transpose %s permutation = %s : %s" % (x, order, x_type))
    f.give(y, "tensor<%s>" % "x".join([known[i] for i in order] + [kind]),
           exact(harness.plain(a.transpose(order))))


def factored(rng, count):
    """A random shape of `count` elements."""
    if count == 0:
        return (int(rng.integers(4)), 0)
    out = []
    while count > 1:
        divisors = [d for d in range(2, count + 1) if count % d == 0]
        out.append(int(rng.choice(divisors)))
        count //= out[-1]
    out.insert(int(rng.integers(len(out) + 1)), 1)
    return tuple(out)


def reshape(make, f, dims, kind):
    rng = make.rng
    a, x, x_type = make.input(f, dims, kind)
    new = factored(rng, a.size)
    hide = hidden(rng, len(new))
    sizes = ", ".join(f.size(new[i]) for i in hide)
    infer = len(hide) == 1 and a.size and rng.random() < 0.5
    text = " sizes(%s)" % sizes if hide and not infer else ""
    to = tensor_type([None if i in hide else d for i, d in enumerate(new)], kind)
    y = f.op("nabla.reshape %s%s : %s -> %s" % (x, text, x_type, to))
    f.give(y, to, exact(a.reshape(new)))


def broadcast(make, f, dims, kind):
    rng = make.rng
    dims = tuple(1 if rng.random() < 0.3 else d for d in dims)
    a, x, x_type = make.input(f, dims, kind)
    rank = len(dims) + int(rng.integers(3))
    places = [int(i) for i in rng.permutation(rank)[:len(dims)]]
    new = list(shape(rng, rank, 4))
    for i, at in enumerate(places):
        if dims[i] != 1 or rng.random() < 0.5:
            new[at] = dims[i]
    hide = hidden(rng, rank)
    sizes = ", ".join(f.size(new[i]) for i in hide)
    text = " sizes(%s)" % sizes if hide else ""
    to = tensor_type([None if i in hide else d for i, d in enumerate(new)], kind)
    y = f.op("nabla.broadcast_in_dim %s dims = %s%s : %s -> %s" % (
        x, places, text, x_type, to))
    spread = a.transpose(np.argsort(places)) if places else a
    spread = spread[tuple(slice(None) if i in places else None
                          for i in range(rank))]
    f.give(y, to, exact(harness.plain(np.broadcast_to(spread, new))))


def literal(a, kind):
    """An elements attribute: bits of floats in hexadecimal."""
    def one(item):
        if kind == "i1":
            return "true" if item else "false"
        if kind in FLOATS:
            return "0x%0*X" % (harness.DTYPES[kind].itemsize * 2, int(item))
        return str(int(item))

    def nest(array):
        if array.ndim == 0:
            return one(array[()])
        return "[%s]" % ", ".join(nest(part) for part in array)
    text = nest(harness.raw(a) if kind in FLOATS else a) if a.size else ""
    return "dense<%s> : %s" % (text, tensor_type(a.shape, kind))


def add_constants(make, rounds):
    rng = make.rng
    for kind in ALL:
        f = make.new("constant_" + kind)
        for dims in shapes(rng, 2 * rounds):
            a = values(rng, dims, kind, True)
            if kind in FLOATS:  # a constant may come back with quiet NaNs only
                a[harness.is_nan(a)] = harness.narrow(f32([np.nan]), kind)[0]
            y = f.op("nabla.constant " + literal(a, kind))
            f.give(y, tensor_type(dims, kind), exact(a))
        one = values(rng, (), kind, False)
        y = f.op("nabla.constant dense<%s> : tensor<3x5x%s>" % (
            literal(one, kind)[6:].split(">")[0], kind))
        f.give(y, tensor_type((3, 5), kind),
               exact(harness.plain(np.broadcast_to(one, (3, 5)))))


def contraction(rng, kind, empty):
    """Random lists of a dot_general with arrays that fit."""
    batch, free, inner = rng.integers(0, 2), rng.integers(0, 3), rng.integers(0, 3)
    right = rng.integers(0, 3)
    names = "bcdefghijk"
    parts, at = [], 0
    for count in (batch, inner, free, right):
        parts.append(names[at:at + count])
        at += count
    size = {n: int(rng.integers(1, 6)) for n in names}
    for n in parts[1]:
        size[n] = int(rng.choice([1, 3, 17, 70]))
    if empty:
        size[names[int(rng.integers(max(at, 1)))]] = 0
    lhs = "".join(rng.permutation(list(parts[0] + parts[1] + parts[2])))
    rhs = "".join(rng.permutation(list(parts[0] + parts[1] + parts[3])))
    out = parts[0] + "".join(n for n in lhs if n in parts[2]) + "".join(
        n for n in rhs if n in parts[3])
    return parts, lhs, rhs, out, size


def wide_dot(lhs, rhs, out, a, b):
    a, b = (harness.widen(v).astype(np.longdouble) for v in (a, b))
    formula = "%s,%s->%s" % (lhs, rhs, out)
    return (np.einsum(formula, a, b).astype(f64),
            np.einsum(formula, np.abs(a), np.abs(b)).astype(f64))


def dot_text(x, y, parts, lhs, rhs, types):
    def where(names, letters):
        return [letters.index(n) for n in names]
    batch = "batching = %s x %s " % (where(parts[0], lhs), where(parts[0], rhs))
    return "nabla.dot_general %s, %s %scontracting = %s x %s : %s, %s" % (
        x, y, batch if parts[0] else "", where(parts[1], lhs),
        where(parts[1], rhs), *types)


def add_dots(make, rounds):
    rng = make.rng
    for kind in FLOATS:
        f = make.new("dot_" + kind)
        for number in range(6 * rounds):
            parts, lhs, rhs, out, size = contraction(rng, kind, number % 5 == 4)
            arrays = [values(rng, [size[n] for n in side], kind)
                      for side in (lhs, rhs)]
            hide = [hidden(rng, a.ndim) for a in arrays]
            x, x_type = f.argument(arrays[0], hide[0])
            y, y_type = f.argument(arrays[1], hide[1])
            z = f.op(dot_text(x, y, parts, lhs, rhs, (x_type, y_type)))
            dims = []
            for n in out:
                free = [n in side and side.index(n) not in h
                        for side, h in zip((lhs, rhs), hide)]
                dims.append(size[n] if any(free) else None)
            want, total = wide_dot(lhs, rhs, out, *arrays)
            k = int(np.prod([size[n] for n in parts[1]], dtype=np.int64))
            unit = 2.0 ** (-53 if kind == "f64" else -24)
            bound = rounded(want, (k + 16) * unit * total, kind)
            f.give(z, tensor_type(dims, kind), close(want, bound, kind))


def cases(rng, rounds):
    make = Maker(rng)
    for add in (add_binary, add_unary, add_reduce, add_shapes, add_constants,
                add_dots):
        add(make, rounds)
    return make.functions
