"""Cases of the operations on implicit arrays, for ops.py: each encoding with
each operation that takes one."""
import harness
from harness import np, Function, exact, close, tensor_type
import arrays
import formats
from arrays import implicit, values, rounded
import implicit_dots
from implicit_dots import KINDS, storage_of
from dense_ops import silu, extreme

f32, f64 = np.float32, np.float64
# It has no components, and nothing can be encoded into it.
NOT_FOR_SPLAT = ("quantize", "unpack", "fused_dot", "fused_gather")


class Maker:
    def __init__(self, rng):
        self.rng, self.functions = rng, []

    def new(self, spec, what):
        f = Function("i%d_%s_%s" % (len(self.functions), spec, what))
        f.pairs = []
        self.functions.append(f)
        return f


def nearly(limits, rng, count):
    """Values next to where a code changes, with a scale in each 16."""
    scale = np.repeat(np.exp2(rng.integers(-120, 120, -(-count // 16))), 16)
    x = rng.choice(limits, count) * rng.choice([-1, 1], count)
    bits = (x * scale[:count]).astype(f32).view(np.int32)
    x = (bits + rng.integers(-1, 2, count).astype(np.int32)).view(f32)
    x[::16] = scale[:count:16]
    return x


def to_encode(rng, spec, shape, kind, number):
    count = int(np.prod(shape, dtype=np.int64))
    x = rng.standard_normal(count).astype(f32)
    if number % 4 == 1:
        limits = np.concatenate([formats.NF4_LIMITS, formats.FP4_LIMITS,
                                 (np.arange(127) + f32(0.5)) / f32(127)])
        x = nearly(limits, rng, count)
    if number % 4 == 2:
        x *= f32(1e-38) * rng.choice(f32([1, 1e-3, 1e-7]), count)
    if number % 4 == 3:
        x[: count // 2] = 0
        x[count // 2:] *= rng.choice(f32([0, -0.0, 1]), count - count // 2)
    with np.errstate(all="ignore"):
        out = harness.narrow(x.astype(f32), kind)
    out[~np.isfinite(harness.widen(out))] = harness.narrow(f32([1]), kind)[0]
    return out.reshape(shape)


def add_quantize(make, spec, rounds):
    """quantize to components and back; pack and unpack."""
    rng = make.rng
    for number in range(4 * rounds):
        kind = KINDS[number % 3]
        shape = storage_of(rng, spec, int(rng.integers(2, 4)))
        if number % 7 == 6:
            shape = (shape[0], 0)
        f = make.new(spec, "quantize")
        f.pairs += [(str(spec), op) for op in ("quantize", "unpack",
                                               "materialize")]
        a = to_encode(rng, spec, shape, kind, number)
        x, x_type = f.argument(a)
        codes, scales = spec.encode(harness.widen(a))
        q_type = "!nabla.implicit<%s" % x_type[len("tensor<"):-1] + \
            ", %s>" % spec.attribute()
        q = f.op("nabla.quantize %s : %s -> %s" % (x, x_type, q_type))
        unpack(f, q, q_type, codes, harness.narrow(scales, spec.scale))
        d = f.op("nabla.materialize %s : %s" % (q, q_type))
        f.give(d, x_type, exact(harness.narrow(
            spec.decode(codes, scales, shape), kind)))


def unpack(f, q, q_type, codes, scales):
    f.count += 1
    pair = "%%v%d" % f.count
    f.lines.append("%s:2 = nabla.unpack %s : %s" % (pair, q, q_type))
    f.give(pair + "#0", tensor_type(codes.shape, "i8"),
           exact(codes.view(np.int8)))
    f.give(pair + "#1", tensor_type(scales.shape, harness.NAMES[scales.dtype]),
           exact(scales))


def add_not_finite(make, spec):
    """A NaN or infinity spoils its own block alone."""
    rng, block = make.rng, spec.block or 48
    shape = (4, block)
    a = rng.standard_normal(shape).astype(f32)
    a[1, 3], a[2, 5] = np.nan, np.inf
    f = make.new(spec, "not_finite")
    x, x_type = f.argument(a)
    q_type = "!nabla.implicit<%dx%dxf32, %s>" % (*shape, spec.attribute())
    q = f.op("nabla.quantize %s : %s -> %s" % (x, x_type, q_type))
    d = f.op("nabla.materialize %s : %s" % (q, q_type))
    codes, scales = spec.encode(np.where(np.isfinite(a), a, 0).astype(f32))
    want = spec.decode(codes, scales, shape)
    f.give(d, x_type, lambda got: exact(want[::3])(got[::3]))


def add_components(make, spec, rounds):
    """Any codes, any scales: decoded exactly, and given back."""
    rng = make.rng
    for number in range(2 * rounds):
        kind = KINDS[(number + len(make.functions)) % 3]
        f = make.new(spec, "pack")
        f.pairs += [(str(spec), op) for op in ("pack", "materialize")]
        q = implicit(f, rng, spec, storage_of(rng, spec), kind, special=True)
        f.give(q.materialize(), q.tensor(), exact(q.dense))
        f.pairs.append((str(spec), "implicit_depth"))
        depth = f.op("nabla.implicit_depth %s : %s" % (q.value, q.type()))
        f.give(depth, "tensor<i64>", exact(np.array(1, np.int64)))
        if spec.name != "splat":
            f.pairs.append((str(spec), "unpack"))
            given = {**f.inputs, **f.binds}
            given = [given[name] for name in sorted(given)]
            unpack(f, q.value, q.type(), *given)


def add_views(make, spec, rounds):
    rng = make.rng
    for _ in range(rounds):
        f = make.new(spec, "views")
        f.pairs += [(str(spec), op) for op in ("transpose", "reshape",
                                               "broadcast_in_dim")]
        q = implicit(f, rng, spec, storage_of(rng, spec, 3), special=True)
        t = q.transpose([int(i) for i in rng.permutation(3)])
        f.give(t.materialize(), t.tensor(), exact(t.dense))
        a, b, c = q.dense.shape
        r = q.reshape((c, b, a) if a * b * c else (a, b, c))
        f.give(r.materialize(), r.tensor(), exact(r.dense))
        w = t.broadcast((2, *t.dense.shape), [1, 2, 3])
        f.give(w.materialize(), w.tensor(), exact(w.dense))
        flat = tensor_type((a * b * c,), "f32")
        y = f.op("nabla.reshape %s : %s -> %s" % (t.value, t.type(), flat))
        f.give(y, flat, exact(harness.plain(t.dense).reshape(-1)))


def binary(op, a, b, kind):
    a, b = harness.widen(a), harness.widen(b)
    with np.errstate(all="ignore"):
        return harness.narrow(a + b if op == "add" else a * b, kind)


def add_elementwise(make, spec, rounds):
    rng = make.rng
    for number in range(rounds):
        kind = KINDS[(number + len(make.functions)) % 3]
        f = make.new(spec, "elementwise")
        f.pairs += [(str(spec), op) for op in ("add", "mul", "relu", "silu",
                                               "reduce")]
        q = implicit(f, rng, spec, storage_of(rng, spec), kind)
        t = q.transpose([1, 0])
        a = values(rng, t.dense.shape, kind)
        x, x_type = f.argument(a, arrays.hidden(rng, 2))
        for op in ("add", "mul"):
            y = f.op("nabla.%s %s, %s : %s, %s" % (op, x, t.value, x_type,
                                                   t.type()))
            f.give(y, t.tensor(), exact(binary(op, a, t.dense, kind)))
            y = f.op("nabla.%s %s, %s : %s, %s" % (op, t.value, x, t.type(),
                                                   x_type))
            f.give(y, t.tensor(), exact(binary(op, a, t.dense, kind)))
            y = f.op("nabla.%s %s, %s : %s, %s" % (op, q.value, q.value,
                                                   q.type(), q.type()))
            f.give(y, q.tensor(), exact(binary(op, q.dense, q.dense, kind)))
        one_operand(f, t, kind)


def one_operand(f, t, kind):
    y = f.op("nabla.relu %s : %s" % (t.value, t.type()))
    wide = harness.widen(t.dense)
    f.give(y, t.tensor(), exact(harness.narrow(np.where(wide > 0, wide, 0),
                                               kind)))
    y = f.op("nabla.silu %s : %s" % (t.value, t.type()))
    f.give(y, t.tensor(), close(*silu(t.dense, kind), kind))
    y = f.op("nabla.reduce max %s dims = [1] : %s" % (t.value, t.type()))
    rows = tensor_type(t.dense.shape[:1], kind)
    f.give(y, rows, exact(harness.narrow(extreme(wide, "max", 1, False),
                                            kind)))
    y = f.op("nabla.reduce sum %s dims = [1] : %s" % (t.value, t.type()))
    want = wide.astype(f64).sum(axis=1)
    total = np.abs(wide).astype(f64).sum(axis=1)
    bound = (t.dense.shape[1] + 1) * 2.0 ** -24 * total
    f.give(y, rows, close(want, rounded(want, bound, kind), kind))


def cases(rng, rounds):
    make = Maker(rng)
    for spec in arrays.specs() + [arrays.Splat(0.375)]:
        if spec.name != "splat":
            add_quantize(make, spec, rounds)
            add_not_finite(make, spec)
            implicit_dots.add_fused(make, spec, rounds)
            implicit_dots.add_layers(make, spec)
            implicit_dots.add_small(make, spec)
            implicit_dots.add_batches(make, spec)
        for add in (add_components, add_views, add_elementwise,
                    implicit_dots.add_dots, implicit_dots.add_wide_weights):
            add(make, spec, rounds)
    return make.functions
