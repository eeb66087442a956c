"""Where random programs begin: dense arguments and packed ones, in every
encoding that a program can be given (docs/FORMAT.md)."""
import harness
import arrays
import nested
from harness import np
from programs_values import FLOATS, Reject, Value, wide

f32, f64 = np.float32, np.float64
KINDS = ("f64", "f32", "f16", "bf16", "i64", "i32", "i8", "ui8", "i1")
# f32 stands for most of what is computed; every type is drawn.
KIND_WEIGHTS = (2, 8, 2, 2, 1, 2, 1, 1, 1)


def kind_of(rng, kinds=KINDS):
    weights = np.array([KIND_WEIGHTS[KINDS.index(k)] for k in kinds], float)
    return str(rng.choice(kinds, p=weights / weights.sum()))


def numbers(rng, shape, kind):
    """Half of all floats are small multiples of 1/4, whose sums and products
    are exact; the others normal. Integers are small ones in nine of ten."""
    if kind == "i1":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in FLOATS:
        if rng.random() < 0.5:
            x = rng.integers(-8, 9, shape) / 4
        else:
            x = rng.standard_normal(shape)
        return harness.narrow(np.asarray(x, f32), kind)
    info = np.iinfo(harness.DTYPES[kind])
    if rng.random() < 0.1:
        return rng.integers(info.min, info.max, shape, info.dtype, endpoint=True)
    return rng.integers(max(info.min, -5), 6, shape).astype(info.dtype)


def argument(array, hide=()):
    """The maker of an argument."""
    kind = harness.NAMES[array.dtype]
    dims = [None if i in hide else d for i, d in enumerate(array.shape)]

    def make(f):
        name, _ = f.argument(array, hide)
        return [Value(name, kind, dims, wide(array))]
    return make


# ---- packed ------------------------------------------------------------------


class Rows(nested.Packed):
    """One scale for each index of the first dimension, or for all."""

    def __init__(self, name, span, scale, row):
        super().__init__(name, row, scale)
        self.span = span
        kind = scale.upper()
        self.form = nested.reference.Form(name, "row", row, kind, False)

    def attribute(self):
        more = "" if self.scale == "f32" else ", scale = " + self.scale
        return "#nabla.%s<block = 0, blocks = %s%s>" % (self.name, self.span,
                                                       more)


SPANS = {"nf4": (), "fp4": (), "int8": ("leading",), "int4": (), "ternary": (),
         "binary": (), "fp8": ("leading", "tensor"),
         "fp8_e5m2": ("leading", "tensor"), "mxfp4": (), "mxfp8": (),
         "mxfp8_e5m2": ()}
NAMES = tuple(SPANS) + ("splat", "dynamic8", "nested")


def encoding_of(rng, name, shape):
    """Of this name with random parameters, for a storage."""
    count = int(np.prod(shape, dtype=np.int64))
    scale = str(rng.choice(["f32", "f32", "f16", "bf16"]))
    if name == "splat":
        return arrays.Splat(float(rng.choice([0.5, -2.0, 1.0, 0.375])))
    if name == "dynamic8":
        return nested.Dynamic8(int(rng.choice([16, 64])))
    if name == "nested":
        deep = nested.PLAIN + nested.DEEP[:4]
        some = [e for e in deep if e.nested]
        return some[int(rng.integers(len(some)))]
    if name.startswith("mx"):
        return nested.Packed(name, 32)
    if SPANS[name] and rng.random() < 0.3:
        span = str(rng.choice(SPANS[name]))
        if span == "leading" and len(shape) < 2:
            return nested.Packed(name, 64, scale)
        row = count if span == "tensor" else count // max(shape[0], 1)
        return Rows(name, span, scale, max(row, 1))
    zero = name in ("int4", "int8") and rng.random() < 0.4
    return nested.Packed(name, int(rng.choice([16, 32, 64])), scale, zero)


def parts_of(rng, encoding, count):
    """Components of normal numbers that were encoded."""
    x = rng.standard_normal(count).astype(f32)
    if isinstance(encoding, nested.Packed) and encoding.is_mx:
        got = nested.reference.encode(encoding.form, x)
        return [got.codes, got.scales]
    return encoding.encode(x)


def packed_value(f, name, encoding, shape, kind, dense, index, storage):
    q = arrays.Implicit(f, name, encoding, kind, dense, index, storage)
    return of_implicit(q)


def of_implicit(q):
    """f16 and bf16 are decoded in f32; who multiplies need not round them. A
    view of a storage of rank 0 cannot be written."""
    if q.index is not None and q.storage == () and q.dense.ndim:
        raise Reject
    data = wide(q.dense)
    err = None
    if q.kind in ("f16", "bf16"):
        err = 0.5001 * harness.ulp(q.kind, np.abs(data))
    return Value(q.value, q.kind, q.dense.shape, data, err, q)


def implicit_of(f, value):
    """What a packed value is, to go on with in `f`."""
    old = value.packed
    q = old.then(value.name, old.dense, old.index)
    q.function = f
    return q


def packed_argument(rng, name, shape, kind):
    """The maker of a packed array whose components are arguments."""
    encoding = encoding_of(rng, name, shape)
    count = int(np.prod(shape, dtype=np.int64))
    if name == "splat":
        dense = harness.narrow(np.full(shape, encoding.value, f32), kind)

        def make_splat(f):
            out = packed_value(f, None, encoding, shape, kind, dense, None,
                               tuple(shape))
            out.name = out.packed.value = f.op("nabla.pack -> " + out.type())
            return [out]
        return make_splat
    parts = parts_of(rng, encoding, count)
    decoded = np.asarray(encoding.decode(parts, count), f32).reshape(shape)
    dense = harness.narrow(decoded, kind)
    index = np.arange(count, dtype=np.int64).reshape(shape)

    def make(f):
        value, _ = nested.pack(f, encoding, parts, shape, kind)
        return [packed_value(f, value, encoding, shape, kind, dense, index,
                             tuple(shape))]
    return make
