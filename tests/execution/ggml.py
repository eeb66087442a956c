"""Blocks of GGUF files in programs: decoded whole, as views, slices, rows,
joined, as the base of an update of low rank, and multiplied. What blocks decode
to comes from tests/golden, which tests/oracle checks against the package gguf.

usage: ggml.py NABLA_RUN
"""
import os
import re
import sys

import harness
from harness import np, Function, close, exact, tensor_type

f32 = np.float32
HERE = os.path.dirname(os.path.abspath(__file__))
GOLDEN = os.path.join(HERE, "../golden")
ROW = re.compile(r"^GGML\((\w+),\s*\d+,\s*(\d+),\s*(\d+),", re.M)


def formats():
    """(name, elements, bytes) of each row."""
    with open(os.path.join(HERE, "../../quant/codec/ggml.def"), encoding="utf-8") as file:
        found = ROW.findall(file.read())
    if not found:
        raise SystemExit("FAILED: no rows in quant/codec/ggml.def")
    return [(name, int(count), int(size)) for name, count, size in found]


def golden(name, count, size):
    """Blocks, and what they decode to."""
    found = {"bytes": [], "values": []}
    with open(os.path.join(GOLDEN, "ggml_%s.txt" % name), encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words and words[0] in found:
                found[words[0]] += [int(word, 16) for word in words[1:]]
    return (np.array(found["bytes"], np.uint8).reshape(-1, size),
            np.array(found["values"], np.uint32).view(f32).reshape(-1, count))


class Weight:
    """Blocks of a format in a row-major array of `shape`."""

    def __init__(self, f, rng, form, shape, finite=False, element="f32"):
        name, count, size = form
        blocks, values = golden(name, count, size)
        if finite:
            keep = (np.abs(values) < 1e3).all(axis=1)
            blocks, values = blocks[keep], values[keep]
        picked = rng.integers(0, len(blocks), int(np.prod(shape)) // count)
        self.shape, self.dense = shape, values[picked].reshape(shape)
        self.blocks, self.blocks_type = f.argument(
            blocks[picked].reshape(-1).view(np.int8))
        dims = "".join("%dx" % d for d in shape)
        self.type = "!nabla.implicit<%s%s, #nabla.ggml<%s>>" % (dims, element, name)
        self.value = f.op("nabla.pack %s : %s -> %s"
                          % (self.blocks, self.blocks_type, self.type))


def view(w, shape, strides, offset=0):
    dims = "".join("%dx" % d for d in shape)
    storage = "x".join(map(str, w.shape))
    return w.type.replace(w.type[16:w.type.index("f32")], dims)[:-1] + \
        ", view<%s, strides = %s, offset = %d>>" % (storage, list(strides), offset)


def add_views(c, form):
    name, count, _ = form
    f = c.new("views_" + name)
    n, k = 6, 2 * count
    w = Weight(f, c.rng, form, (n, k))
    d = f.op("nabla.materialize %s : %s" % (w.value, w.type))
    f.give(d, tensor_type((n, k), "f32"), exact(w.dense))
    t = f.op("nabla.transpose %s permutation = [1, 0] : %s" % (w.value, w.type))
    d = f.op("nabla.materialize %s : %s" % (t, view(w, (k, n), (1, k))))
    f.give(d, tensor_type((k, n), "f32"), exact(w.dense.T))
    s = f.op("nabla.slice %s starts = [1, 3] limits = [6, %d] strides = [2, 5] : %s"
             % (w.value, k, w.type))
    part = w.dense[1:6:2, 3:k:5]
    d = f.op("nabla.materialize %s : %s"
             % (s, view(w, part.shape, (2 * k, 5), k + 3)))
    f.give(d, tensor_type(part.shape, "f32"), exact(part))


def add_types(c, form):
    name, count, _ = form
    for kind in ("f16", "bf16"):
        f = c.new("%s_%s" % (kind, name))
        w = Weight(f, c.rng, form, (2, count), element=kind)
        d = f.op("nabla.materialize %s : %s" % (w.value, w.type))
        f.give(d, tensor_type(w.shape, kind),
               exact(harness.narrow(w.dense, kind)))


def add_pieces(c, form):
    """Pieces that are whole blocks, joined; rows by number."""
    name, count, _ = form
    f = c.new("pieces_" + name)
    w = Weight(f, c.rng, form, (5, count))
    v = Weight(f, c.rng, form, (2, count))
    s = f.op("nabla.slice %s starts = [1, 0] limits = [4, %d] strides = [1, 1] : %s"
             % (w.value, count, w.type))
    s_type = view(w, (3, count), (count, 1), count)
    j = f.op("nabla.concatenate %s, %s dim = 0 : %s, %s"
             % (s, v.value, s_type, v.type))
    joined = np.concatenate([w.dense[1:4], v.dense])
    d = f.op("nabla.materialize %s : %s" % (j, w.type))
    f.give(d, tensor_type(joined.shape, "f32"), exact(joined))
    rows = np.array([4, 0, 4, 2], np.int64)
    r, r_type = f.argument(rows)
    g = f.op("nabla.gather %s, %s offset_dims = [1] collapsed_dims = [0] "
             "index_map = [0] vector_dim = 1 sizes = [1, %d] : %s, %s"
             % (w.value, r, count, w.type, r_type))
    f.give(g, tensor_type((4, count), "f32"), exact(w.dense[rows]))


def add_dot(c, form):
    name, count, _ = form
    for m, n, blocks in ((1, 5, 2), (3, 17, 1)):
        f = c.new("dot%d_%s" % (m, name))
        k = blocks * count
        w = Weight(f, c.rng, form, (n, k), finite=True)
        x = c.rng.standard_normal((m, k)).astype(f32)
        a, a_type = f.argument(x)
        y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : %s, %s"
                 % (a, w.value, a_type, w.type))
        wide, total = w.dense.astype(np.float64), np.abs(w.dense)
        f.give(y, tensor_type((m, n), "f32"),
               close(x @ wide.T, (k + 16) * 2.0 ** -24 * (np.abs(x) @ total.T),
                     "f32"))


def add_batches(c, form):
    """A weight of blocks for each of three matrices: nothing is materialized."""
    name, count, _ = form
    f = c.new("batches_" + name)
    w = Weight(f, c.rng, form, (3, 5, count), finite=True)
    x = c.rng.standard_normal((3, 2, count)).astype(f32)
    a, a_type = f.argument(x, [1])
    y = f.op("nabla.dot_general %s, %s batching = [0] x [0] contracting = [2] x [2] "
             ": %s, %s" % (a, w.value, a_type, w.type))
    wide, total = w.dense.astype(np.float64), np.abs(w.dense)
    f.give(y, tensor_type((3, None, 5), "f32"),
           close(x @ wide.transpose(0, 2, 1), (count + 16) * 2.0 ** -24
                 * (np.abs(x) @ total.transpose(0, 2, 1)), "f32"))


def add_lora(c, form):
    name, count, _ = form
    f = c.new("lora_" + name)
    w = Weight(f, c.rng, form, (3, count), finite=True)
    a, a_type = f.argument(c.rng.integers(-2, 3, (2, count)).astype(f32))
    b, b_type = f.argument(np.zeros((3, 2), f32))
    kind = "!nabla.implicit<3x%dxf32, #nabla.lora<base = #nabla.ggml<%s>, " \
        "rank = 2>>" % (count, name)
    q = f.op("nabla.pack %s, %s, %s : %s, %s, %s -> %s"
             % (w.value, a, b, w.type, a_type, b_type, kind))
    d = f.op("nabla.materialize %s : %s" % (q, kind))
    f.give(d, tensor_type((3, count), "f32"), exact(w.dense, signs=False))


class Cases:
    def __init__(self, rng):
        self.rng, self.functions = rng, []

    def new(self, name):
        self.functions.append(Function("f%d_%s" % (len(self.functions), name)))
        return self.functions[-1]


def test(s):
    c = Cases(np.random.default_rng(harness.seed()))
    for form in formats():
        add_views(c, form)
        add_types(c, form)
        add_pieces(c, form)
        add_dot(c, form)
        add_batches(c, form)
        add_lora(c, form)
    s.run_all(c.functions, ["--policy", "off"])
    print("%d functions" % len(c.functions))


if __name__ == "__main__":
    harness.session(sys.argv[1], test)
