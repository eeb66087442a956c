"""Cases of what acts on the scales of packed arrays, for ops.py: neg, mul by a
splat, convert; of identities, and of folds that constants cause."""
import harness
from harness import np, exact, close, tensor_type
import arrays
from arrays import implicit, values
from implicit_dots import KINDS, storage_of
from implicit_ops import Maker
from control_ops import Flow
import math_ops

f32, f64 = np.float32, np.float64


def give(f, value, type_text, tensor, check):
    f.give(f.op("nabla.materialize %s : %s" % (value, type_text)), tensor,
           check)


def product(q, factor):
    """What is promised of q times a splat: exact for a power of two, else
    value * (scale * factor), off by at most four roundings."""
    with np.errstate(all="ignore"):
        if abs(np.frexp(f32(factor))[0]) == 0.5:
            return exact(harness.narrow(harness.widen(q.dense) * f32(factor),
                                        q.kind))
        want = q.dense.astype(f64) * float(f32(factor))
    return close(want, np.abs(want) * 2.0 ** -22 + 2.0 ** -149, "f32")


def stays(spec, kind, factor):
    """Whether a product with a splat is packed."""
    power = abs(np.frexp(f32(factor))[0]) == 0.5
    if "f16" in (spec.scale, kind):
        return False
    return power or (spec.scale == "f32" and kind == "f32")


def add_scaled(make, spec, kind):
    """neg and mul of an array, and of a view of it."""
    rng = make.rng
    f = make.new(spec, "scaled_" + kind)
    f.pairs += [(str(spec), op) for op in ("neg", "mul")]
    q = implicit(f, rng, spec, storage_of(rng, spec), kind, special=True)
    for x in (q, q.transpose([1, 0])):
        n = f.op("nabla.neg %s : %s" % (x.value, x.type()))
        wide = harness.widen(x.dense)
        give(f, n, x.type(), x.tensor(), exact(harness.narrow(-wide, kind)))
        twice = f.op("nabla.neg %s : %s" % (n, x.type()))
        give(f, twice, x.type(), x.tensor(), exact(x.dense))
    q = implicit(f, rng, spec, storage_of(rng, spec), kind)
    for number, factor in enumerate((2.0, -0.25, 0.7, 1.0)):
        dims = "".join("%dx" % d for d in q.dense.shape)
        s_type = "!nabla.implicit<%s%s, #nabla.splat<%r : f32>>" % (
            dims, kind, factor)
        s = f.op("nabla.pack -> " + s_type)
        pair = [(q.value, q.type()), (s, s_type)]
        (a, a_type), (b, b_type) = pair[::-1] if number % 2 else pair
        y = f.op("nabla.mul %s, %s : %s, %s" % (a, b, a_type, b_type))
        if stays(spec, kind, factor):
            give(f, y, q.type(), q.tensor(), product(q, factor))
            continue
        rounded = harness.widen(harness.narrow(f32(factor), kind))
        want = harness.narrow(harness.widen(q.dense) * rounded, kind)
        f.give(y, q.tensor(), exact(want))


def add_dot(make, spec):
    """x . -w stays packed: nothing is materialized in scale_ops' programs."""
    rng = make.rng
    f = make.new(spec, "negated_dot")
    n, k = 8, spec.block or 48
    q = implicit(f, rng, spec, (n, k))
    a = rng.standard_normal((3, k)).astype(f32)
    x, x_type = f.argument(a, [0])
    w = f.op("nabla.neg %s : %s" % (q.value, q.type()))
    y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : %s, %s" % (
        x, w, x_type, q.type()))
    total = np.abs(a).astype(f64) @ np.abs(q.dense).astype(f64).T
    f.give(y, tensor_type((None, n), "f32"), close(
        -(a.astype(f64) @ q.dense.astype(f64).T),
        arrays.fused_bound(k, 3, total), "f32"))


def add_loop(make, spec):
    """x . -w0 . -w1 ..., the w being the slices of one packed array."""
    rng, size = make.rng, max(spec.block, 16)
    f = Flow("loop_%s" % spec)
    make.functions.append(f)
    layers = implicit(f, rng, spec, (3, size, size))
    layers.dense *= f32(0.25)  # scaled in the loop
    w_type = layers.type().replace("<3x", "<", 1)
    s_type = w_type[:w_type.index("#nabla")] + "#nabla.splat<0.25 : f32>>"
    a = rng.standard_normal((2, size)).astype(f32)
    x, x_type = f.argument(a, [0])
    s = f.op("nabla.pack -> " + s_type)
    y, = f.region(1, (
        "nabla.scan init(%s : %s) over(%s : %s) -> %s {\n^bb0(%%a: %s, %%w: %s):"
        "\n  %%n = nabla.neg %%w : %s\n  %%q = nabla.mul %%n, %s : %s, %s\n"
        "  %%y = nabla.dot_general %%a, %%q contracting = [1] x [1] : %s, %s\n"
        "  nabla.yield %%y : %s\n}") % (
            x, x_type, layers.value, layers.type(), x_type, x_type, w_type,
            w_type, s, w_type, s_type, x_type, w_type, x_type))
    want, total = a.astype(f64), np.abs(a).astype(f64)
    for w in layers.dense.astype(f64):
        want, total = want @ -w.T, total @ np.abs(w).T
    f.give(y, x_type, close(want, 4 * arrays.fused_bound(size, 2, total),
                            "f32"))


def add_converted(make, spec):
    """Read as another element type: f32 that was decoded, rounded once."""
    rng = make.rng
    f = make.new(spec, "converted")
    f.pairs.append((str(spec), "convert"))
    q = implicit(f, rng, spec, storage_of(rng, spec), special=True)
    for kind in KINDS:
        to = q.type().replace("xf32,", "x%s," % kind, 1)
        y = f.op("nabla.convert %s : %s -> %s" % (q.value, q.type(), to))
        give(f, y, to, tensor_type(q.dense.shape, kind),
             exact(harness.narrow(q.dense, kind)))
        back = f.op("nabla.convert %s : %s -> %s" % (y, to, q.type()))
        give(f, back, q.type(), q.tensor(), exact(q.dense))
    y = f.op("nabla.convert %s : %s -> %s" % (
        q.value, q.type(), tensor_type(q.dense.shape, "i8")))
    f.give(y, tensor_type(q.dense.shape, "i8"),
           exact(math_ops.converted(q.dense, "i8")))


def add_splat(make, kind):
    """A splat is a constant, and can be read as another type, too."""
    spec = arrays.Splat(0.7)
    f = make.new(spec, "scaled_" + kind)
    f.pairs += [(str(spec), op) for op in ("neg", "convert")]
    q = implicit(f, make.rng, spec, (3, 4), kind)
    y = f.op("nabla.neg %s : %s" % (q.value, q.type()))
    f.give(y, q.tensor(), exact(harness.narrow(-harness.widen(q.dense), kind)))
    to = q.type().replace("x%s," % kind, "xf16,", 1)
    y = f.op("nabla.convert %s : %s -> %s" % (q.value, q.type(), to))
    give(f, y, to, tensor_type((3, 4), "f16"),
         exact(np.full((3, 4), 0.7, np.float16)))


def add_identity(make, kind):
    """Made dense, transposed, contracted: exact, of NaN too."""
    rng = make.rng
    f = make.new("identity", kind)
    text = "!nabla.implicit<%dx%dx" + kind + ", #nabla.identity>"
    for shape in ((5, 5), (2, 7), (0, 3)):
        i = f.op("nabla.pack -> " + text % shape)
        eye = harness.narrow(np.eye(*shape, dtype=f32), kind)
        give(f, i, text % shape, tensor_type(shape, kind), exact(eye))
        t = f.op("nabla.transpose %s permutation = [1, 0] : %s" % (
            i, text % shape))
        give(f, t, text % shape[::-1], tensor_type(shape[::-1], kind),
             exact(harness.plain(eye.T)))
    i, i_type = f.op("nabla.pack -> " + text % (5, 5)), text % (5, 5)
    a = values(rng, (3, 5), kind, special=True)
    x, x_type = f.argument(a, [0])
    for lhs, rhs, dims, want in (
            ((x, x_type), (i, i_type), "[1] x [0]", a),
            ((i, i_type), (x, x_type), "[0] x [1]", a.T)):
        y = f.op("nabla.dot_general %s, %s contracting = %s : %s, %s" % (
            lhs[0], rhs[0], dims, lhs[1], rhs[1]))
        shape = [d if d == 5 else None for d in want.shape]
        f.give(y, tensor_type(shape, kind), exact(harness.plain(want)))
    f.pairs.append(("identity", "dot_general"))


def add_folded(make, kind):
    """Ops with one constant operand equal what they are without folding: of
    every special value."""
    f = make.new("constants", kind)
    a = values(make.rng, (40,), kind, special=True)
    x, x_type = f.argument(a)
    wide = harness.widen(a)

    def constant(value):
        return f.op("nabla.constant dense<%s> : %s" % (value, x_type))

    for op, value, number in (
            ("add", "0.0", 0.0), ("add", "-0.0", -0.0), ("sub", "0.0", 0.0),
            ("sub", "-0.0", -0.0), ("mul", "1.0", 1.0), ("mul", "0.0", 0.0),
            ("div", "1.0", 1.0), ("pow", "1.0", 1.0), ("pow", "0.0", 0.0),
            ("pow", "-0.0", -0.0), ("maximum", "0.0", 0.0),
            ("minimum", "-0.0", -0.0)):
        y = f.op("nabla.%s %s, %s : %s, %s" % (op, x, constant(value), x_type,
                                               x_type))
        c = np.full(wide.shape, number, wide.dtype)
        with np.errstate(all="ignore"):
            want = math_ops.PAIRS[op][1](wide, c) if op in (
                "maximum", "minimum") else {
                    "add": np.add, "sub": np.subtract, "mul": np.multiply,
                    "div": np.divide, "pow": np.power}[op](wide, c)
        f.give(y, x_type, exact(harness.narrow(want, kind)))


def cases(rng, rounds):
    make = Maker(rng)
    for number in range(rounds):
        for index, spec in enumerate(arrays.specs()):
            add_scaled(make, spec, KINDS[(number + index) % 3])
            add_scaled(make, spec, "f32")
            add_dot(make, spec)
            if spec.block in (16, 64) and spec.scale != "f16":
                add_loop(make, spec)
            add_converted(make, spec)
        for kind in harness.FLOATS:
            if kind != "f64":
                add_splat(make, kind)
                add_identity(make, kind)
            add_folded(make, kind)
    return make.functions
