"""Encodings in encodings: scales of every type and in every encoding, to a
depth of three, zero points, dynamic8 and lora, made, taken apart, decoded level
by level, viewed, gathered, joined, multiplied, carried through control flow,
and bound from files, against tests/oracle/reference.py (numpy).

usage: nested.py NABLA_RUN NABLA_QUANT
"""
import os
import subprocess
import sys

import harness
from harness import np, Function, exact, close, tensor_type

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                "../oracle"))
import elements  # noqa: E402
import reference  # noqa: E402
from arrays import fused_bound  # noqa: E402

f32, f64 = np.float32, np.float64


# ---- encodings, as trees ------------------------------------------------------


class Packed:
    """A row of encodings.def; `scale` is f32, f16, bf16 or an encoding."""

    def __init__(self, name, block, scale="f32", zero=False):
        self.name, self.block, self.scale, self.zero = name, block, scale, zero
        self.nested = not isinstance(scale, str)
        self.depth = 1 + (scale.depth if self.nested else 0)
        self.is_mx = name.startswith("mx")
        kind = "F32" if self.nested else scale.upper()
        kind = "E8M0" if self.is_mx else kind
        self.form = reference.Form(name, "block", block, kind, zero)

    def attribute(self):
        more = ""
        if self.is_mx:
            return "#nabla." + self.name
        if self.nested:
            more = ", scale = " + self.scale.attribute()
        elif self.scale != "f32":
            more = ", scale = " + self.scale
        return "#nabla.%s<block = %d%s%s>" % (
            self.name, self.block, more, ", zero_point = true" * self.zero)

    def peeled(self):
        inner = self.scale.peeled() if self.nested else None
        return Packed(self.name, self.block, inner or "f32", self.zero)\
            if self.nested else None

    def stored(self, scales):
        """Scales (bytes) as their array."""
        if self.is_mx:
            return scales
        kind = np.float16 if self.scale == "f16" else (
            harness.BF16 if self.scale == "bf16" else f32)
        return np.frombuffer(scales.tobytes(), kind)

    def encode(self, x):
        got = reference.encode(self.form, x)
        scales = self.stored(got.scales)
        parts = [got.codes, self.scale.encode(scales) if self.nested else scales]
        return parts + ([got.zeros] if self.zero else [])

    def random(self, rng, count):
        """Any codes, any scales."""
        row = reference.ROWS[self.name]
        codes = rng.integers(0, 256, -(-count * row.bits // 8)).astype(np.uint8)
        blocks = -(-count // self.block)
        if self.nested:
            scales = self.scale.random(rng, blocks)
        elif self.is_mx:
            scales = rng.integers(100, 150, blocks).astype(np.uint8)
        else:
            wide = rng.standard_normal(blocks).astype(f32) / f32(100)
            scales = harness.narrow(wide, self.scale)
        top = 256 if row.bits == 8 else 16
        zeros = rng.integers(0, top, blocks).astype(np.uint8)
        return [codes, scales] + ([zeros] if self.zero else [])

    def decode(self, parts, count):
        scales = self.scale.decode(parts[1], -(-count // self.block))\
            if self.nested else parts[1]
        raw = np.frombuffer(harness.plain(scales).tobytes(), np.uint8)
        return reference.decode(self.form, count, parts[0].view(np.uint8), raw,
                                parts[2] if self.zero else None)


class Dynamic8:
    """bitsandbytes' codes of scales (FORMAT.md, B5, E6)."""

    def __init__(self, block, scale=None):
        self.block, self.scale, self.nested = block, scale, scale is not None
        self.depth = 1 + (scale.depth if scale else 0)

    def attribute(self):
        more = ", scale = " + self.scale.attribute() if self.nested else ""
        return "#nabla.dynamic8<block = %d%s>" % (self.block, more)

    def peeled(self):
        return Dynamic8(self.block, self.scale.peeled()) if self.nested else None

    def encode(self, x):
        table, total = elements.dynamic_map(), f64(0)
        for i in range(0, len(x), 4096):
            total += np.cumsum(x[i:i + 4096].astype(f64))[-1]
        offset = f32(total / len(x))
        rows = reference.Blocks.cut(x - offset, self.block).rows
        absmax = np.abs(rows).max(axis=1)
        with np.errstate(all="ignore"):
            s = reference.scaled_by(rows, absmax, 1, 2.0 ** -126)
        bounds = ((table[1:].astype(f64) + table[:-1]) / 2).astype(f32)
        codes = np.searchsorted(bounds, s, side="left").reshape(-1)[:len(x)]
        return [codes.astype(np.uint8),
                self.scale.encode(absmax) if self.nested else absmax,
                np.array(offset, f32), table.astype(f32)]

    def random(self, rng, count):
        groups = -(-count // self.block)
        scales = self.scale.random(rng, groups) if self.nested else\
            rng.standard_normal(groups).astype(f32)
        return [rng.integers(0, 256, count).astype(np.uint8), scales,
                np.array(rng.standard_normal(), f32),
                rng.standard_normal(256).astype(f32)]

    def decode(self, parts, count):
        scales = self.scale.decode(parts[1], -(-count // self.block))\
            if self.nested else parts[1]
        with np.errstate(all="ignore"):
            return (parts[3][parts[0]] * np.repeat(scales, self.block)[:count]
                    + parts[2]).astype(f32)


SCALES = ["f32", "f16", "bf16", Dynamic8(16), Dynamic8(256), Packed("int8", 16),
          Packed("int4", 16, "f16", True), Packed("fp4", 32, Dynamic8(16))]
PLAIN = [Packed(name, 16, scale, zero) for scale in SCALES
         for name, zero in (("nf4", False), ("fp4", False), ("int8", False),
                            ("int8", True), ("int4", False), ("int4", True))]
DEEP = [Packed("nf4", 16, Packed("int8", 16, Dynamic8(16))),
        Packed("int4", 16, Packed("int8", 16, Packed("int8", 16, "bf16", True)),
               True),
        Packed("nf4", 32, Dynamic8(16, Packed("int8", 16))),
        Dynamic8(64), Dynamic8(16, Packed("nf4", 16, Dynamic8(16)))]
DECODED = [Packed("fp8", 16, Dynamic8(16)), Packed("ternary", 16, "f16"),
           Packed("nf4", 16, Packed("mxfp8", 32))]


def implicit_type(encoding, shape, kind="f32"):
    return "!nabla.implicit<%s%s, %s>" % (
        "".join("%dx" % d for d in shape), kind, encoding.attribute())


def each_leaf(encoding, parts):
    """(array) of every leaf, in order."""
    for i, part in enumerate(parts):
        if i == 1 and encoding.nested:
            yield from each_leaf(encoding.scale, part)
        else:
            yield part


def as_stored(array):
    return array.view(np.int8) if array.dtype == np.uint8 else array


def list_type(array):
    return tensor_type(array.shape, harness.NAMES[as_stored(array).dtype])


def pack(f, encoding, parts, shape, kind="f32"):
    """The value of these components, which become arguments."""
    values, types = [], []
    for i, part in enumerate(parts):
        if i == 1 and encoding.nested:
            count = -(-int(np.prod(shape)) // encoding.block)
            value, text = pack(f, encoding.scale, part, (count,))
        else:
            value, text = f.argument(as_stored(part))
        values.append(value)
        types.append(text)
    whole = implicit_type(encoding, shape, kind)
    return f.op("nabla.pack %s : %s -> %s" % (", ".join(values),
                                              ", ".join(types), whole)), whole


def give_leaves(f, value, whole, encoding, parts, count):
    """Every leaf of `value` is a result."""
    f.count += 1
    name = "%%v%d" % f.count
    f.lines.append("%s:%d = nabla.unpack %s : %s" % (name, len(parts), value,
                                                     whole))
    for i, part in enumerate(parts):
        if i == 1 and encoding.nested:
            inner = -(-count // encoding.block)
            give_leaves(f, "%s#1" % name,
                        implicit_type(encoding.scale, (inner,)),
                        encoding.scale, part, inner)
        else:
            f.give("%s#%d" % (name, i), list_type(part), exact(as_stored(part)))


class Cases:
    def __init__(self, rng):
        self.rng, self.functions = rng, []

    def new(self, name):
        f = Function("n%d_%s" % (len(self.functions), name))
        self.functions.append(f)
        return f

    def packed(self, f, encoding, shape, kind="f32"):
        """A random packed argument, its type, what it decodes to."""
        count = int(np.prod(shape))
        parts = encoding.random(self.rng, count)
        value, whole = pack(f, encoding, parts, shape, kind)
        dense = encoding.decode(parts, count).reshape(shape)
        return value, whole, harness.narrow(dense, kind)


# ---- cases ----------------------------------------------------------------------


def add_quantize(c, encoding):
    """Components as the rules give them, and what they decode to."""
    rng = c.rng
    shape = (5, int(rng.integers(30, 120)))
    count = shape[0] * shape[1]
    f = c.new("quantize")
    kind = ["f32", "f16"][len(c.functions) % 2]
    x = harness.narrow(rng.standard_normal(shape).astype(f32), kind)
    x[1, :3] = (9, -9, 9)  # a largest magnitude of both signs
    x[2, :16] = 0
    x[4, :16] *= x.dtype.type(2.0 ** -130 if kind == "f32" else 2.0 ** -20)
    value, text = f.argument(x)
    whole = implicit_type(encoding, shape, kind)
    q = f.op("nabla.quantize %s : %s -> %s" % (value, text, whole))
    parts = encoding.encode(harness.widen(x).reshape(-1))
    give_leaves(f, q, whole, encoding, parts, count)
    dense = encoding.decode(parts, count).reshape(shape)
    f.give(f.op("nabla.materialize %s : %s" % (q, whole)), text,
           exact(harness.narrow(dense, kind)))


def add_levels(c, encoding):
    """Level by level, and all at once: the same; implicit_depth says how
    many."""
    f, shape = c.new("levels"), (3, 50)
    value, whole, dense = c.packed(f, encoding, shape)
    f.give(f.op("nabla.materialize %s : %s" % (value, whole)),
           tensor_type(shape, "f32"), exact(dense))
    at, left = encoding, encoding.depth
    while left:
        depth = f.op("nabla.implicit_depth %s : %s" % (value, whole))
        f.give(depth, "tensor<i64>", exact(np.array(left, np.int64)))
        if left > 2:
            rest = f.op("nabla.materialize %s levels = %d : %s" % (
                value, left, whole))
            f.give(rest, tensor_type(shape, "f32"), exact(dense))
        value = f.op("nabla.materialize %s levels = 1 : %s" % (value, whole))
        at, left = at.peeled(), left - 1
        whole = implicit_type(at, shape) if left else tensor_type(shape, "f32")
    depth = f.op("nabla.implicit_depth %s : %s" % (value, whole))
    f.give(depth, "tensor<i64>", exact(np.array(0, np.int64)))
    f.give(value, whole, exact(dense))


def add_views(c, encoding):
    f, shape = c.new("views"), (6, 7, 16)
    value, whole, dense = c.packed(f, encoding, shape)
    view = whole[:-1] + ", view<6x7x16, strides = [1, 112, 16], offset = 0>>"
    view = view.replace("6x7x16xf32", "16x6x7xf32")
    t = f.op("nabla.transpose %s permutation = [2, 0, 1] : %s" % (value, whole))
    f.give(f.op("nabla.materialize %s : %s" % (t, view)),
           tensor_type((16, 6, 7), "f32"), exact(dense.transpose(2, 0, 1)))
    s = whole.replace("6x7x16xf32", "3x7x5xf32")[:-1]\
        + ", view<6x7x16, strides = [224, 16, 2], offset = 113>>"
    part = f.op("nabla.slice %s starts = [1, 0, 1] limits = [6, 7, 10] "
                "strides = [2, 1, 2] : %s" % (value, whole))
    f.give(f.op("nabla.materialize %s : %s" % (part, s)),
           tensor_type((3, 7, 5), "f32"), exact(dense[1:6:2, :, 1:10:2]))
    rows = np.array([5, 0, 3, 3], np.int64)
    index, index_type = f.argument(rows.reshape(4, 1))
    got = f.op("nabla.gather %s, %s offset_dims = [1, 2] collapsed_dims = [0] "
               "index_map = [0] vector_dim = 1 sizes = [1, 7, 16] : %s, %s" % (
                   value, index, whole, index_type))
    f.give(got, tensor_type((4, 7, 16), "f32"), exact(dense[rows]))


def add_join(c, encoding, legal):
    """Slices at blocks of all levels join to a packed array, others to a
    tensor."""
    f, shape, cut = c.new("join"), (8, 512), 4
    value, whole, dense = c.packed(f, encoding, shape)
    pieces = []
    for first in (cut, 0):
        view = whole.replace("8x512xf32", "4x512xf32")[:-1]\
            + ", view<8x512, strides = [512, 1], offset = %d>>" % (first * 512)
        pieces.append((f.op("nabla.slice %s starts = [%d, 0] limits = [%d, 512]"
                            " : %s" % (value, first, first + cut, whole)),
                       view))
    joined = f.op("nabla.concatenate %s dim = 0 : %s" % (
        ", ".join(p[0] for p in pieces), ", ".join(p[1] for p in pieces)))
    want = np.concatenate([dense[cut:], dense[:cut]])
    out = joined
    if legal:
        out = f.op("nabla.materialize %s : %s" % (joined, whole))
    f.give(out, tensor_type(shape, "f32"), exact(want))


def add_dots(c, encoding, m):
    """Products within the bound; rows of a unit matrix give the weights."""
    rng, f = c.rng, c.new("dots")
    n, k = 19, 48
    kind = ["f32", "f16"][len(c.functions) % 2]
    value, whole, dense = c.packed(f, encoding, (n, k), kind)
    wide = harness.widen(dense).astype(f64)
    for x in (rng.standard_normal((m, k)), np.eye(k)):
        x = harness.narrow(x.astype(f32), kind)
        a, text = f.argument(x)
        y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : %s, %s" % (
            a, value, text, whole))
        given = harness.widen(x).astype(f64)
        want = given @ wide.T
        bound = fused_bound(k, len(x), np.abs(given) @ np.abs(wide).T)
        if kind != "f32":
            bound = bound + harness.ulp(kind, np.abs(want) + bound)
        one_hot = len(x) == k and m != k
        f.give(y, tensor_type((len(x), n), kind),
               exact(np.ascontiguousarray(dense.T), signs=False) if one_hot
               else close(want, bound, kind))
    x = rng.standard_normal((m, n)).astype(f32)
    a, text = f.argument(harness.narrow(x, kind))
    y = f.op("nabla.dot_general %s, %s contracting = [1] x [0] : %s, %s" % (
        a, value, text, whole))
    given = harness.widen(harness.narrow(x, kind)).astype(f64)
    want = given @ wide
    bound = fused_bound(n, m, np.abs(given) @ np.abs(wide), by_rows=False)
    if kind != "f32":
        bound = bound + harness.ulp(kind, np.abs(want) + bound)
    f.give(y, tensor_type((m, k), kind), close(want, bound, kind))


def add_flow(c, encoding):
    """Through a scan's carry and slices, cond, while and a call."""
    rng, f = c.rng, c.new("flow")
    shape = (3, 16, 512)
    value, whole, dense = c.packed(f, encoding, shape)
    layer = implicit_type(encoding, shape[1:])
    x = rng.standard_normal((2, 512)).astype(f32)
    a, text = f.argument(x)
    rows = "tensor<2x16xf32>"
    f.lines.append("""%%ys = nabla.scan over(%s : %s) -> tensor<3x2x16xf32> {
    ^bb0(%%w: %s):
      %%y = nabla.dot_general %s, %%w contracting = [1] x [1] : %s, %s
      nabla.yield %%y : %s
    }""" % (value, whole, layer, a, text, layer, rows))
    wide = dense.astype(f64)
    want = np.einsum("mk,lnk->lmn", x.astype(f64), wide)
    total = np.einsum("mk,lnk->lmn", np.abs(x).astype(f64), np.abs(wide))
    f.give("%ys", "tensor<3x2x16xf32>",
           close(want, fused_bound(512, 2, total), "f32"))
    return f


CONTROL = """
func.func private @%(n)s_id(%%w: %(t)s) -> %(t)s {
  return %%w : %(t)s
}
"""


def add_control(c, encoding):
    f, shape = c.new("control"), (4, 64)
    one, whole, first = c.packed(f, encoding, shape)
    two, _, second = c.packed(f, encoding, shape)
    which, _ = f.argument(np.array(1, np.int32))
    count, _ = f.argument(np.array(3, np.int64))
    f.lines.append("""%%picked = nabla.cond %s : tensor<i32> -> %s {
      nabla.yield %s : %s
    }, {
      nabla.yield %s : %s
    }""" % (which, whole, one, whole, two, whole))
    f.lines.append("""%%swapped:3 = nabla.while(%s, %s, %s) : %s, %s, tensor<i64> cond {
    ^bb0(%%p: %s, %%q: %s, %%i: tensor<i64>):
      %%zero = nabla.constant dense<0> : tensor<i64>
      %%more = nabla.compare gt %%i, %%zero : tensor<i64>, tensor<i64>
      nabla.condition %%more, %%p, %%q, %%i : tensor<i1>, %s, %s, tensor<i64>
    } do {
    ^bb0(%%p: %s, %%q: %s, %%i: tensor<i64>):
      %%one = nabla.constant dense<1> : tensor<i64>
      %%next = nabla.sub %%i, %%one : tensor<i64>, tensor<i64>
      nabla.yield %%q, %%p, %%next : %s, %s, tensor<i64>
    }""" % ((one, two, count) + (whole,) * 10))
    passed = f.op("func.call @%s_id(%%swapped#0) : (%s) -> %s" % (
        f.name, whole, whole))
    text = tensor_type(shape, "f32")
    f.give(f.op("nabla.materialize %%picked : %s" % whole), text, exact(second))
    f.give(f.op("nabla.materialize %s : %s" % (passed, whole)), text,
           exact(second))
    plain = f.text
    f.text = lambda: CONTROL % {"n": f.name, "t": whole} + plain()


def add_lora(c, base, m):
    rng, f = c.rng, c.new("lora")
    n, k, r = 18, 48, 3
    inner, inner_type, dense = c.packed(f, base, (n, k))
    a = rng.standard_normal((r, k)).astype(f32)
    b = rng.standard_normal((n, r)).astype(f32)
    a_value, a_type = f.argument(a)
    b_value, b_type = f.argument(b)
    encoding = "#nabla.lora<base = %s, rank = %d>" % (base.attribute(), r)
    whole = "!nabla.implicit<%dx%dxf32, %s>" % (n, k, encoding)
    value = f.op("nabla.pack %s, %s, %s : %s, %s, %s -> %s" % (
        inner, a_value, b_value, inner_type, a_type, b_type, whole))
    merged = dense.copy()
    for i in range(r):
        merged = merged + b[:, i:i + 1] * a[i:i + 1]
    f.give(f.op("nabla.materialize %s : %s" % (value, whole)),
           tensor_type((n, k), "f32"), exact(merged))
    turned = whole.replace("18x48xf32", "48x18xf32")[:-1]\
        + ", view<18x48, strides = [1, 48], offset = 0>>"
    t = f.op("nabla.transpose %s permutation = [1, 0] : %s" % (value, whole))
    f.give(f.op("nabla.materialize %s : %s" % (t, turned)),
           tensor_type((k, n), "f32"), exact(merged.T.copy()))
    lora_products(c, f, (value, whole), (t, turned), (dense, a, b), m)
    rows = np.array([[17], [0], [4]], np.int64)
    index, index_type = f.argument(rows)
    got = f.op("nabla.gather %s, %s offset_dims = [1] collapsed_dims = [0] "
               "index_map = [0] vector_dim = 1 sizes = [1, 48] : %s, %s" % (
                   value, index, whole, index_type))
    f.give(got, tensor_type((3, k), "f32"), exact(merged[rows[:, 0]]))
    add_merge(f, value, whole, base, inner_type, merged, dense)


def add_merge(f, value, whole, base, base_type, merged, dense):
    """Merge rounds into the base's encoding; unmerge gives the base back."""
    shape = merged.shape
    text = tensor_type(shape, "f32")
    w = f.op("nabla.materialize %s : %s" % (value, whole))
    q = f.op("nabla.quantize %s : %s -> %s" % (w, text, base_type))
    parts = base.encode(merged.reshape(-1))
    f.give(f.op("nabla.materialize %s : %s" % (q, base_type)), text,
           exact(base.decode(parts, merged.size).reshape(shape)))
    f.count += 1
    name = "%%v%d" % f.count
    f.lines.append("%s:3 = nabla.unpack %s : %s" % (name, value, whole))
    f.give(f.op("nabla.materialize %s#0 : %s" % (name, base_type)), text,
           exact(dense))
    new = f.op("nabla.quantize %s : %s -> %s" % (w, text, whole))
    f.give(f.op("nabla.materialize %s : %s" % (new, whole)), text,
           exact(base.decode(parts, merged.size).reshape(shape), signs=False))


def lora_products(c, f, plain, turned, numbers, m):
    dense, a, b = [x.astype(f64) for x in numbers]
    whole = dense + b @ a
    size = np.abs(dense) + np.abs(b) @ np.abs(a)
    n, k = dense.shape
    for weight, dim, length in ((plain, 1, k), (plain, 0, n), (turned, 0, k),
                                (turned, 1, n)):
        w, total = (whole, size) if length == k else (whole.T, size.T)
        for lhs in (False, True):
            x = c.rng.standard_normal((m, length)).astype(f32)
            value, text = f.argument(x, hide=(0,) if m > 1 else ())
            pair = [(value, text, 1), (weight[0], weight[1], dim)]
            if lhs:
                pair.reverse()
            y = f.op("nabla.dot_general %s, %s contracting = [%d] x [%d] : "
                     "%s, %s" % (pair[0][0], pair[1][0], pair[0][2], pair[1][2],
                                 pair[0][1], pair[1][1]))
            want = x.astype(f64) @ w.T
            bound = 4 * fused_bound(length, 2, np.abs(x).astype(f64) @ total.T)
            rows = None if m > 1 else m
            shape = (rows, len(w)) if not lhs else (len(w), rows)
            if lhs:
                want, bound = want.T, bound.T
            f.give(y, tensor_type(shape, "f32"), close(want, bound, "f32"))


# ---- files ----------------------------------------------------------------------

# options of nabla-quant, the encoding in the program
FILES = [
    (["-e", "nf4", "--scale", "dynamic8"], "nf4<block = 64, scale = D>"),
    (["-e", "fp4", "--block", "128", "--scale", "dynamic8"],
     "fp4<block = 128, scale = D>"),
    (["-e", "nf4", "--block", "32", "--scale", "dynamic8", "--layout", "nabla"],
     "nf4<block = 32, scale = D>"),
    (["-e", "int4", "--block", "16", "--zero-point", "--scale", "dynamic8"],
     "int4<block = 16, scale = D, zero_point = true>"),
    (["-e", "int8", "--block", "64", "--zero-point", "--scale", "f16"],
     "int8<block = 64, scale = f16, zero_point = true>"),
    (["-e", "int4", "--scale", "bf16"], "int4<block = 64, scale = bf16>"),
    (["-e", "fp8", "--block", "row", "--scale", "dynamic8"],
     "fp8<block = 0, blocks = leading, scale = D>"),
    (["-e", "int8", "--block", "row", "--scale", "f16"],
     "int8<block = 0, blocks = leading, scale = f16>"),
    (["-e", "fp8", "--scale", "dynamic8"], "fp8<block = 64, scale = D>"),
]


def packed_files(s, options, x):
    """Two files: packed, and what the tool decodes of it."""
    dense = s.path(".safetensors")
    harness.write_safetensors(dense, {"a.weight": x})
    paths = s.path(".safetensors"), s.path(".safetensors")
    for command in (["quantize", dense, "-o", paths[0], *options],
                    ["dequantize", paths[0], "-o", paths[1], "--dtype", "f32"]):
        done = subprocess.run([sys.argv[2], *command, "--quiet"],
                              capture_output=True)
        if done.returncode:
            raise SystemExit("FAILED: %s: %s" % (command, done.stderr.decode()))
    return paths


def check_files(s, rng):
    """A bound weight is what nabla-quant decodes, bit for bit."""
    functions = []
    x = rng.standard_normal((150, 300)).astype(f32)
    for number, (options, name) in enumerate(FILES):
        path, decoded = packed_files(s, options, x)
        attribute = "#nabla." + name.replace("D", "#nabla.dynamic8<block = 256>")
        f = Function("file%d" % number)
        whole = "!nabla.implicit<150x300xf32, %s>" % attribute
        value = f.bound(whole, path, "a.weight")
        f.bound_arguments.append("%s=%s:%s" % ("dense%d" % number, decoded,
                                               "a.weight"))
        text = tensor_type(x.shape, "f32")
        f.arguments.append('%%d: %s {nabla.name = "dense%d"}' % (text, number))
        w = f.op("nabla.materialize %s : %s" % (value, whole))
        wrong = f.op("nabla.compare ne %s, %%d : %s, %s" % (w, text, text))
        any_wrong = f.op("nabla.reduce any %s dims = [0, 1] : %s" % (
            wrong, text.replace("f32", "i1")))
        f.give(any_wrong, "tensor<i1>", exact(np.array(False)))
        f.give(w, text, lambda got: None if np.abs(got - x).max() < 1 else
               "this is another weight")
        eye, eye_type = f.argument(np.eye(300, dtype=f32)[::7].copy())
        y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : %s, %s" % (
            eye, value, eye_type, whole))
        rows = f.op("nabla.dot_general %s, %%d contracting = [1] x [1] : %s, %s"
                    % (eye, eye_type, text))
        ne = f.op("nabla.compare ne %s, %s : tensor<43x150xf32>, "
                  "tensor<43x150xf32>" % (y, rows))
        f.give(f.op("nabla.reduce any %s dims = [0, 1] : tensor<43x150xi1>"
                    % ne), "tensor<i1>", exact(np.array(False)))
        functions.append(f)
    for f in functions:
        s.check(s.write(f.text()), f, ["--policy", "off"])
    check_refusals(s, x)


def check_refusals(s, x):
    """A weight whose scales are others is named with what the argument takes;
    a function whose argument no file holds is none to enter."""
    path, _ = packed_files(s, FILES[0][0], x)
    for name, says in (
            ("nf4<block = 64>", b"takes nf4 in blocks of 64, [150,300]; the "
             b"weight is nf4 in blocks of 64 with dynamic8 scales"),
            ("nf4<block = 64, scale = #nabla.dynamic8<block = 64>>",
             b"takes nf4 in blocks of 64 with dynamic8 scales of 64"),
            ("nf4<block = 64, scale = #nabla.int8<block = 64>>",
             b"no public function")):
        f = Function("refused")
        whole = "!nabla.implicit<150x300xf32, #nabla.%s>" % name
        w = f.op("nabla.materialize %s : %s" % (
            f.bound(whole, path, "a.weight"), whole))
        f.give(w, tensor_type(x.shape, "f32"), None)
        done = s.start(s.write(f.text()), "--entry", "refused", "--bind",
                       f.bound_arguments[0])
        s.expect(done.returncode and says in done.stderr,
                 "%s: %s" % (name, done.stderr.decode()))


def test(s):
    c = Cases(np.random.default_rng(harness.seed()))
    for encoding in PLAIN + DEEP:
        add_quantize(c, encoding)
    for encoding in PLAIN + DEEP + DECODED:
        add_levels(c, encoding)
    for encoding in DEEP + PLAIN[18:30]:
        add_views(c, encoding)
        if not isinstance(encoding, Dynamic8):
            add_control(c, encoding)
    for encoding, legal in ((Packed("nf4", 16, Packed("int8", 16)), True),
                            (Packed("int4", 16, "f16", True), True),
                            (Packed("nf4", 64, Packed("int8", 64)), False),
                            (Packed("nf4", 16, Dynamic8(16)), False),
                            (Packed("fp4", 16, Packed(
                                "int8", 16, Packed("int4", 16, "f32", True))),
                             False)):
        add_join(c, encoding, legal)
    for number, encoding in enumerate(PLAIN + DEEP[:3]):
        add_dots(c, encoding, 1 + 4 * (number % 2))
    for encoding in PLAIN[18:48:5] + DEEP[:1]:
        add_flow(c, encoding)
    for number, base in enumerate([Packed("nf4", 16), Packed("int8", 16, "f16"),
                                   Packed("int4", 16, Dynamic8(16), True),
                                   DEEP[0]]):
        add_lora(c, base, 1 + 2 * (number % 2))
    # what has rules needs no other encoding than these: nothing materializes
    ruled = [f for f in c.functions if f.name.split("_")[1] in
             ("dots", "flow", "lora", "control")]
    s.run_all(ruled, ["--policy", "error"])
    # kernels without vector lookups
    s.run_all([f for f in ruled if f.name.endswith("dots")],
              ["--policy", "error", "--target", "x86-64"])
    s.run_all([f for f in c.functions if f not in ruled], ["--policy", "off"])
    check_files(s, np.random.default_rng(harness.seed(2)))
    print("%d functions" % len(c.functions))


if __name__ == "__main__":
    harness.session(sys.argv[1], test)
