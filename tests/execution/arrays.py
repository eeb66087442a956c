"""Random arrays with everything in them that arithmetic can trip over, implicit
arrays over such components, and the numbers that results are compared with."""
import json

import harness
from harness import np
import formats

f32 = np.float32


def values(rng, shape, kind, special=False):
    """An array of an element type; `special`: NaN, infinities, denormals,
    zeros of both signs, ties and extremes among its elements."""
    count = int(np.prod(shape, dtype=np.int64))
    dtype = harness.DTYPES[kind]
    if kind == "i1":
        return rng.integers(0, 2, shape).astype(bool)
    if kind not in harness.FLOATS:
        info = np.iinfo(dtype)
        out = rng.integers(info.min, info.max, count, dtype, endpoint=True)
        for edge in (info.min, info.max, 0):
            if special and count:
                out[rng.integers(count)] = edge
        return out.reshape(shape)
    wide = rng.standard_normal(count)
    if special and count:
        edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-310, 1e-40, -1e-40, 6e-8,
                 -6e-8, 65504.0, 3.3895314e38, 1.7e308, 0.5, -0.5, 2.5]
        for at in range(count // 3 + 1):
            wide[rng.integers(count)] = edges[at % len(edges)]
    with np.errstate(all="ignore"):
        out = harness.narrow(wide if kind == "f64" else wide.astype(f32), kind)
    return out.reshape(shape)


def shape(rng, rank, most=7, empty=False):
    out = [int(rng.integers(1, most + 1)) for _ in range(rank)]
    if empty and rank:
        out[int(rng.integers(rank))] = 0
    return tuple(out)


def hidden(rng, rank):
    """Which dimensions the program does not know."""
    return [i for i in range(rank) if rng.random() < 0.4]


class Implicit:
    """An implicit array in a function: its type, its dense values, and the
    strides of a view as numpy sees them."""

    def __init__(self, function, value, spec, kind, dense, index, storage):
        self.function, self.value, self.spec = function, value, spec
        self.kind, self.dense = kind, dense
        self.index = index  # of each element in storage; None for a splat
        self.storage = storage

    def type(self):
        dims = "".join("%dx" % d for d in self.dense.shape)
        text = "!nabla.implicit<%s%s, %s" % (dims, self.kind,
                                             self.spec.attribute())
        if self.index is not None and (
                self.storage != self.dense.shape
                or self.index.strides != self.row_major()):
            size = self.index.itemsize
            offset = self.index.flat[0] if self.index.size else 0
            text += ", view<%s, strides = [%s], offset = %d>" % (
                "x".join(str(d) for d in self.storage),
                ", ".join(str(s // size) for s in self.index.strides), offset)
        return text + ">"

    def row_major(self):
        return np.empty(self.dense.shape, self.index.dtype).strides

    def tensor(self):
        return harness.tensor_type(self.dense.shape, self.kind)

    def then(self, value, dense, index):
        return Implicit(self.function, value, self.spec, self.kind, dense, index,
                        self.storage)

    def transpose(self, order):
        text = "nabla.transpose %s permutation = %s : %s" % (
            self.value, list(order), self.type())
        index = None if self.index is None else self.index.transpose(order)
        return self.then(self.function.op(text), self.dense.transpose(order),
                         index)

    def reshape(self, new):
        """None when no strides express it."""
        index = None
        if self.index is not None:
            index = self.index.view()
            try:
                index.shape = new
            except AttributeError:
                return None
        out = self.then(None, harness.plain(self.dense).reshape(new),
                        index)
        out.value = self.function.op("nabla.reshape %s : %s -> %s" % (
            self.value, self.type(), out.type()))
        return out

    def broadcast(self, new, dims):
        """dims[i]: where dimension i goes."""
        def spread(array):
            full = [1] * len(new)
            for i, d in enumerate(dims):
                full[d] = array.shape[i]
            order = np.argsort(dims)
            array = array.transpose(order) if len(dims) else array
            view = array[tuple(slice(None) if i in dims else None
                               for i in range(len(new)))]
            assert view.shape == tuple(full)
            return np.broadcast_to(view, new)
        index = None if self.index is None else spread(self.index)
        out = self.then(None, spread(self.dense), index)
        out.value = self.function.op(
            "nabla.broadcast_in_dim %s dims = %s : %s -> %s" % (
                self.value, list(dims), self.type(), out.type()))
        return out

    def cut(self, value, places):
        index = None if self.index is None else self.index[places]
        return self.then(value, self.dense[places], index)

    def slice(self, starts, limits, strides):
        text = "nabla.slice %s starts = %s limits = %s strides = %s : %s" % (
            self.value, starts, limits, strides, self.type())
        return self.cut(self.function.op(text), tuple(
            slice(*cut) for cut in zip(starts, limits, strides)))

    def split(self, dim, sizes):
        f = self.function
        f.count += 1
        f.lines.append("%%v%d:%d = nabla.split %s dim = %d sizes = %s : %s" % (
            f.count, len(sizes), self.value, dim, sizes, self.type()))
        out, at = [], 0
        for i, size in enumerate(sizes):
            places = [slice(None)] * self.dense.ndim
            places[dim] = slice(at, at + size)
            out.append(self.cut("%%v%d#%d" % (f.count, i), tuple(places)))
            at += size
        return out

    def materialize(self):
        return self.function.op("nabla.materialize %s : %s" % (self.value,
                                                               self.type()))


class Splat:
    """Stands for an encoding: one constant, exact in every element type."""
    name, block, scale = "splat", None, "f32"

    def __init__(self, value):
        self.value = value

    def __str__(self):
        return "splat"

    def attribute(self):
        return "#nabla.splat<%s : f32>" % self.value


def components(rng, spec, storage, special=False):
    """Any codes, any scales."""
    bytes_, scales = spec.sizes(storage)
    codes = rng.integers(0, 256, bytes_).astype(np.uint8)
    scale = rng.standard_normal(scales).astype(f32)
    if spec.codec.bits == 8:
        scale /= f32(127)
    if special:
        edges = f32([0, -0.0, np.inf, -np.inf, np.nan, 1e-40, 3e38])
        for edge in edges[:scales]:
            scale[rng.integers(scales)] = edge
    return codes, harness.widen(harness.narrow(scale, spec.scale))


def implicit(function, rng, spec, storage, kind="f32", special=False,
             given=None):
    """A packed array made in the program of components that are inputs: those
    `given`, or random ones."""
    storage = tuple(storage)
    if spec.name == "splat":
        dense = harness.narrow(np.full(storage, spec.value, f32), kind)
        out = Implicit(function, None, spec, kind, dense, None, storage)
        out.value = function.op("nabla.pack -> " + out.type())
        return out
    codes, scales = given or components(rng, spec, storage, special)
    dense = harness.narrow(spec.decode(codes, scales, storage), kind)
    index = np.arange(dense.size, dtype=np.int64).reshape(storage)
    out = Implicit(function, None, spec, kind, dense, index, storage)
    c, c_type = function.argument(codes.view(np.int8))
    s, s_type = function.argument(harness.narrow(scales, spec.scale))
    out.value = function.op("nabla.pack %s, %s : %s, %s -> %s" % (
        c, s, c_type, s_type, out.type()))
    return out


def packed(spec, codes, scales, shape):
    """The tensors of a weight "w" in the Nabla layout (docs/FORMAT.md, N)."""
    about = {"version": 1, "encoding": spec.name, "block": spec.block or "row",
             "scale": spec.scale.upper(), "dtype": "F32", "shape": list(shape)}
    if spec.codec.bits == 8:
        codes = codes.view(np.int8)
    codes = codes.reshape((-1, 1) if len(shape) == 1 else -1)
    text = np.frombuffer(json.dumps(about).encode(), np.uint8)
    return {"w": codes, "w.nabla.scales": harness.narrow(scales, spec.scale),
            "w.nabla.format": text}


# ---- contractions ------------------------------------------------------------


def chain(k, m, by_rows=True):
    """D of promise 2: the longest chain of dependent additions."""
    if m == 1 and by_rows:
        return k // 64 + 8
    return min(k, 256) + -(-k // 256)


def fused_bound(k, m, total, by_rows=True):
    """`total` is the sum of |x||w|."""
    return (chain(k, m, by_rows) + 16) * 2.0 ** -24 * total


def after_silu(y, bound):
    """|silu'| is below 1.1, and the function itself is 1 ulp off."""
    with np.errstate(all="ignore"):
        y = np.where(y >= 0, y / (1 + np.exp(-np.abs(y))),
                     y * np.exp(-np.abs(y)) / (1 + np.exp(-np.abs(y))))
    return y, 1.1 * bound + harness.ulp("f32", np.abs(y))


def epilogue(y, bound, steps, operands):
    """The steps of a fused_dot in f64, and what f32 may add to the error."""
    at = 0
    for step in steps:
        if step in ("bias", "add"):
            y = y + harness.widen(operands[at]).astype(np.float64)
            bound = bound + harness.ulp("f32", np.abs(y) + bound)
            at += 1
        elif step == "relu":
            y = np.maximum(y, 0)
        else:
            y, bound = after_silu(y, bound)
    return y, bound


def rounded(y, bound, kind):
    """One more rounding, to the type of the result."""
    if kind in ("f32", "f64"):
        return bound
    return bound + harness.ulp(kind, np.abs(y) + bound) * 0.5001


def specs(blocks=(16, 64, 4096)):
    return formats.specs(blocks)
