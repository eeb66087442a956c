"""Cases of the operations that move elements, on dense and on implicit arrays,
for ops.py."""
import harness
from harness import np, exact, tensor_type
import arrays
from arrays import values, shape, hidden
from dense_ops import ALL, shapes
from implicit_dots import KINDS, storage_of, give_product


def known(dims, hide):
    """Dimensions as a program sees them."""
    return [None if i in hide else d for i, d in enumerate(dims)]


def several(f, text, count):
    """An op with several results: their names."""
    f.count += 1
    f.lines.append("%%v%d:%d = %s" % (f.count, count, text))
    return ["%%v%d#%d" % (f.count, i) for i in range(count)]


def give(f, op, dims, kind, want):
    f.give(op, tensor_type(dims, kind), exact(harness.plain(want)))


def place(rng, f, value):
    """A place that is known at run time only: its name and type."""
    if rng.random() < 0.5:
        return f.size(value), "index"
    kind = "i64" if rng.random() < 0.5 else "i32"
    return f.argument(np.array(value, harness.DTYPES[kind]))


def at_text(places):
    if not places:
        return "at()"
    return "at(%s : %s)" % (", ".join(p for p, _ in places),
                            ", ".join(t for _, t in places))


# ---- slice, split ----


def cuts(rng, dims):
    starts = [int(rng.integers(d + 1)) for d in dims]
    limits = [int(rng.integers(s, d + 1)) for s, d in zip(starts, dims)]
    strides = [int(rng.integers(1, 4)) for _ in dims]
    return starts, limits, strides


def cut(a, starts, limits, strides):
    return a[tuple(slice(*c) for c in zip(starts, limits, strides))]


def slice_text(x, x_type, starts, limits, strides):
    text = " strides = %s" % strides if set(strides) - {1} else ""
    return "nabla.slice %s starts = %s limits = %s%s : %s" % (
        x, starts, limits, text, x_type)


def add_slice(make, f, dims, kind):
    rng = make.rng
    a = values(rng, dims, kind, True)
    hide = hidden(rng, len(dims))
    x, x_type = f.argument(a, hide)
    starts, limits, strides = cuts(rng, dims)
    to_end = [bool(rng.random() < 0.4) for _ in dims]
    limits = [d if e else n for d, n, e in zip(dims, limits, to_end)]
    want = cut(a, starts, limits, strides)
    given = [-1 if e else n for n, e in zip(limits, to_end)]
    out = [None if i in hide and to_end[i] else d
           for i, d in enumerate(want.shape)]
    y = f.op(slice_text(x, x_type, starts, given, strides))
    give(f, y, out, kind, want)


def pieces(rng, size):
    out = []
    while sum(out) < size or not out:
        out.append(int(rng.integers(size - sum(out) + 1)))
    return out


def add_split(make, f, dims, kind):
    rng = make.rng
    if not dims:
        return
    a = values(rng, dims, kind, True)
    hide = hidden(rng, len(dims))
    x, x_type = f.argument(a, hide)
    dim = int(rng.integers(len(dims)))
    sizes = pieces(rng, dims[dim])
    names = several(f, "nabla.split %s dim = %d sizes = %s : %s" % (
        x, dim, sizes, x_type), len(sizes))
    if len(sizes) == 1:
        names = [names[0].split("#")[0]]
    parts = np.split(a, np.cumsum(sizes)[:-1], axis=dim)
    for name, part in zip(names, parts):
        out = known(part.shape, hide)
        out[dim] = part.shape[dim]
        give(f, name, out, kind, part)


# ---- dynamic_slice, dynamic_update_slice ----


def box(rng, f, dims):
    """Places, some outside, the size of the box, and where it begins."""
    sizes = [int(rng.integers(d + 1)) for d in dims]
    wanted = [int(rng.integers(-3, d + 4)) for d in dims]
    begins = [min(max(w, 0), d - s) for w, d, s in zip(wanted, dims, sizes)]
    inside = tuple(slice(b, b + s) for b, s in zip(begins, sizes))
    return [place(rng, f, w) for w in wanted], sizes, inside


def add_dynamic(make, f, dims, kind):
    rng = make.rng
    a = values(rng, dims, kind, True)
    x, x_type = f.argument(a, hidden(rng, len(dims)))
    places, sizes, inside = box(rng, f, dims)
    hide = hidden(rng, len(dims))
    given = ", ".join(f.size(sizes[i]) for i in hide)
    text = " sizes(%s)" % given if hide else ""
    to = tensor_type(known(sizes, hide), kind)
    y = f.op("nabla.dynamic_slice %s %s%s : %s -> %s" % (
        x, at_text(places), text, x_type, to))
    give(f, y, known(sizes, hide), kind, a[inside])


def add_update(make, f, dims, kind):
    rng = make.rng
    a = values(rng, dims, kind, True)
    hide = hidden(rng, len(dims))
    x, x_type = f.argument(a, hide)
    places, sizes, inside = box(rng, f, dims)
    b = values(rng, sizes, kind, True)
    u, u_type = f.argument(b, hidden(rng, len(dims)))
    y = f.op("nabla.dynamic_update_slice %s, %s %s : %s, %s" % (
        x, u, at_text(places), x_type, u_type))
    want = a.copy()
    want[inside] = b
    give(f, y, known(dims, hide), kind, want)
    give(f, x, known(dims, hide), kind, a)  # the operand is as it was


# ---- concatenate, stack ----


def add_join(make, f, dims, kind):
    rng = make.rng
    count = int(rng.integers(1, 4))
    if dims:
        dim = int(rng.integers(len(dims)))
        parts = [values(rng, [int(rng.integers(4)) if i == dim else d
                              for i, d in enumerate(dims)], kind, True)
                 for _ in range(count)]
        join(make, f, "concatenate", dim, parts, kind,
             np.concatenate(parts, axis=dim))
    dim = int(rng.integers(len(dims) + 1))
    parts = [values(rng, dims, kind, True) for _ in range(count)]
    join(make, f, "stack", dim, parts, kind, np.stack(parts, axis=dim))


def rows_join(make, kind):
    """Large arrays of known sizes, by the kernel that copies runs: lines and
    ends of runs, one run in several parts, an array twice."""
    f = make.new("rows_join_%s" % kind)
    for dim, shapes_of in ((1, ((130, 300), (130, 65), (130, 201))),
                           (0, ((2100, 67), (1, 67), (40, 67))),
                           (1, ((3, 150, 2, 50), None, (3, 1, 2, 50)))):
        parts = [values(make.rng, dims, kind, True) if dims else None
                 for dims in shapes_of]
        given = [f.argument(part) if part is not None else None
                 for part in parts]
        parts = [parts[0] if p is None else p for p in parts]
        given = [given[0] if g is None else g for g in given]
        y = f.op("nabla.concatenate %s dim = %d : %s" % (
            ", ".join(x for x, _ in given), dim,
            ", ".join(t for _, t in given)))
        want = np.concatenate(parts, axis=dim)
        give(f, y, want.shape, kind, want)


def join(make, f, op, dim, parts, kind, want):
    hides = [hidden(make.rng, part.ndim) for part in parts]
    given = [f.argument(part, hide) for part, hide in zip(parts, hides)]
    y = f.op("nabla.%s %s dim = %d : %s" % (
        op, ", ".join(x for x, _ in given), dim,
        ", ".join(t for _, t in given)))
    rank = parts[0].ndim
    out = []
    for i in range(rank):
        unknown = [i in hide for hide in hides]
        some = any(unknown) if op == "concatenate" and i == dim else all(unknown)
        out.append(some)
    if op == "stack":
        out.insert(dim, False)
    give(f, y, [None if u else d for u, d in zip(out, want.shape)], kind, want)


# ---- pad, flip ----


def padded(a, value, low, high, between):
    dims = [max(d + max(d - 1, 0) * b, 0) for d, b in zip(a.shape, between)]
    wide = np.empty(dims, a.dtype)
    wide[...] = value
    wide[tuple(slice(None, None, b + 1) for b in between)] = a
    out = np.empty([d + l + h for d, l, h in zip(dims, low, high)], a.dtype)
    out[...] = value
    to, of = [], []
    for d, l, n in zip(dims, low, out.shape):
        first, last = max(l, 0), max(min(d + l, n), max(l, 0))
        to.append(slice(first, last))
        of.append(slice(first - l, last - l))
    out[tuple(to)] = wide[tuple(of)]
    return out


def add_pad(make, f, dims, kind):
    rng = make.rng
    a = values(rng, dims, kind, True)
    hide = hidden(rng, len(dims))
    x, x_type = f.argument(a, hide)
    v = values(rng, (), kind, True)
    value, value_type = f.argument(v)
    low, high, between = [], [], []
    for d in dims:
        between.append(int(rng.integers(3)))
        whole = d + max(d - 1, 0) * between[-1]
        low.append(int(rng.integers(-whole - 1, 4)))
        high.append(int(rng.integers(max(-whole - low[-1], -whole - 2), 9)))
        high[-1] = max(high[-1], -whole - low[-1])
    text = " interior = %s" % between if sum(between) else ""
    y = f.op("nabla.pad %s, %s low = %s high = %s%s : %s, %s" % (
        x, value, low, high, text, x_type, value_type))
    want = padded(a, v, low, high, between)
    give(f, y, known(want.shape, hide), kind, want)


def add_flip(make, f, dims, kind):
    rng = make.rng
    a = values(rng, dims, kind, True)
    hide = hidden(rng, len(dims))
    x, x_type = f.argument(a, hide)
    axes = [int(i) for i in rng.permutation(len(dims))[:rng.integers(
        len(dims) + 1)]]
    y = f.op("nabla.flip %s dims = %s : %s" % (x, axes, x_type))
    give(f, y, known(dims, hide), kind, np.flip(a, axes))


def add_dense(make, rounds):
    for kind in ALL:
        rows_join(make, kind)
        for what, adds in (("cut", (add_slice, add_split, add_dynamic)),
                           ("update", (add_update, add_flip)),
                           ("join", (add_join, add_pad))):
            f = make.new("%s_%s" % (what, kind))
            for dims in shapes(make.rng, 2 * rounds):
                for add in adds:
                    add(make, f, dims, kind)


# ---- implicit arrays ----


def give_implicit(f, q):
    f.give(q.materialize(), q.tensor(), exact(harness.plain(q.dense)))


def materialized(make, f, q):
    """Operations whose result is dense."""
    rng, dims, kind = make.rng, q.dense.shape, q.kind
    places, sizes, inside = box(rng, f, dims)
    y = f.op("nabla.dynamic_slice %s %s : %s -> %s" % (
        q.value, at_text(places), q.type(), tensor_type(sizes, kind)))
    give(f, y, sizes, kind, q.dense[inside])
    b = values(rng, sizes, kind, True)
    u, u_type = f.argument(b)
    y = f.op("nabla.dynamic_update_slice %s, %s %s : %s, %s" % (
        q.value, u, at_text(places), q.type(), u_type))
    want = q.dense.copy()
    want[inside] = b
    give(f, y, dims, kind, want)
    y = f.op("nabla.flip %s dims = [1] : %s" % (q.value, q.type()))
    give(f, y, dims, kind, np.flip(q.dense, 1))
    v = values(rng, (), kind)
    value, value_type = f.argument(v)
    y = f.op("nabla.pad %s, %s low = [1, 0] high = [0, 2] : %s, %s" % (
        q.value, value, q.type(), value_type))
    want = padded(q.dense, v, [1, 0], [0, 2], [0, 0])
    give(f, y, want.shape, kind, want)


def views(make, f, q):
    rng, dims = make.rng, q.dense.shape
    s = q.slice(*cuts(rng, dims))
    give_implicit(f, s)
    dim = int(rng.integers(2))
    for part in q.split(dim, pieces(rng, dims[dim])):
        give_implicit(f, part)


def products(make, f, spec, kind):
    """Contractions with strided views whose offset is not 0."""
    rng = make.rng
    q = arrays.implicit(f, rng, spec, (37, 150), kind)
    for cut in (([5, 0], [30, 150], [1, 1]), ([3, 7], [37, 141], [1, 1]),
                ([1, 16], [37, 144], [3, 1]), ([0, 3], [37, 150], [1, 2])):
        w, m = q, int(rng.choice([1, 4]))
        if rng.random() < 0.5:
            w, cut = q.transpose([1, 0]), [c[::-1] for c in cut]
        w = w.slice(*cut)
        a = values(rng, (m, w.dense.shape[1]), kind)
        x, x_type = f.argument(a, [0] if m == 4 else [])
        y = f.op("nabla.dot_general %s, %s contracting = [1] x [1] : %s, %s"
                 % (x, w.value, x_type, w.type()))
        give_product(f, y, x_type, a, w.dense, kind, False)


def joins(make, f, spec, kind):
    """Joined where blocks end, and where they do not."""
    rng = make.rng
    block = spec.block or 16
    rows = [int(rng.integers(1, 4)) for _ in range(3)]
    for width in (block, 3):
        parts = [arrays.implicit(f, rng, spec, (n, width), kind, special=True)
                 for n in rows]
        join_implicit(f, "concatenate", 0, parts)
        join_implicit(f, "concatenate", 0, parts[:1])
        join_implicit(f, "concatenate", 1, [parts[0], parts[0]])
        join_implicit(f, "stack", 0, [parts[1], parts[1]])
        join_implicit(f, "stack", 1, [parts[1], parts[1]])
    pieces_again(make, f, spec, kind)
    join_implicit(f, "concatenate", 1, [parts[0].slice(
        [0, 1], [rows[0], 3], [1, 1])] * 2)


def pieces_again(make, f, spec, kind):
    """Pieces of an array in another order, and with another array."""
    rng, block = make.rng, spec.block or 16
    q = arrays.implicit(f, rng, spec, (6, block), kind, special=True)
    a, b, c = q.split(0, [1, 3, 2])
    join_implicit(f, "concatenate", 0, [c, a, q, b])
    join_implicit(f, "stack", 0, [c, c])
    flat = q.reshape((3, 2 * block))
    join_implicit(f, "concatenate", 0, [flat, flat])
    join_implicit(f, "concatenate", 0, [q, b.slice([0, 0], [1, block], [1, 1])])
    half = q.reshape((12, block // 2))
    for first in (0, 1):  # the last may end within a block, none may begin so
        cut = half.slice([first, 0], [first + 3, block // 2], [1, 1])
        join_implicit(f, "concatenate", 0, [half, cut])
        join_implicit(f, "concatenate", 0, [cut, half])


def is_piece(p):
    """An array, or a piece of one in order that begins with a block."""
    if p.storage == p.dense.shape and p.index.strides == p.row_major():
        return True
    flat = p.index.reshape(-1)
    if not flat.size or (np.diff(flat) != 1).any():
        return False
    if p.spec.block:
        return flat[0] % p.spec.block == 0
    row = int(np.prod(p.storage[1:]))
    return (p.dense.ndim > 1 and flat[0] % row == 0
            and int(np.prod(p.dense.shape[1:])) == row)


def stays_packed(spec, op, dim, parts):
    """What docs/DIALECT.md says of concatenate and stack."""
    if spec.name == "splat":
        return op == "concatenate" or dim == 0
    dims = parts[0].dense.shape
    if not all(is_piece(p) for p in parts):
        return False
    if op == "concatenate" and any(d != 1 for d in dims[:dim]):
        return False
    if op == "stack" and dim:
        return False
    if not spec.block:
        return dim == 0
    return all(p.dense.size % spec.block == 0 for p in parts[:-1])


def join_implicit(f, op, dim, parts):
    join_dense = np.concatenate if op == "concatenate" else np.stack
    dense = join_dense([p.dense for p in parts], axis=dim)
    spec = parts[0].spec
    y = f.op("nabla.%s %s dim = %d : %s" % (
        op, ", ".join(p.value for p in parts), dim,
        ", ".join(p.type() for p in parts)))
    if not stays_packed(spec, op, dim, parts):
        give(f, y, dense.shape, parts[0].kind, dense)
        return
    storage = dense.shape
    if op == "stack":
        storage = (storage[0] * storage[1], *storage[2:])
    index = None
    if spec.name != "splat":
        index = np.arange(dense.size, dtype=np.int64).reshape(dense.shape)
    give_implicit(f, arrays.Implicit(f, y, spec, parts[0].kind, dense, index,
                                     storage))


OPS = ("slice", "split", "dynamic_slice", "dynamic_update_slice", "flip", "pad",
       "concatenate", "stack")


def add_implicit(make, rounds):
    for spec in arrays.specs() + [arrays.Splat(0.375)]:
        for _ in range(rounds):
            kind = KINDS[len(make.functions) % 3]
            f = make.new("implicit_%s" % spec)
            f.pairs += [(str(spec), op) for op in OPS]
            q = arrays.implicit(f, make.rng, spec, storage_of(make.rng, spec),
                                kind, special=True)
            t = q.transpose([1, 0])
            materialized(make, f, t)
            views(make, f, q)
            views(make, f, t)
            joins(make, f, spec, kind)
            f = make.new("products_%s" % spec)
            products(make, f, spec, kind)


class Maker:
    def __init__(self, rng, letter):
        self.rng, self.letter, self.functions = rng, letter, []

    def new(self, what):
        f = harness.Function("%s%d_%s" % (self.letter, len(self.functions),
                                          what))
        f.pairs = []
        self.functions.append(f)
        return f


def cases(rng, rounds):
    make = Maker(rng, "s")
    add_dense(make, rounds)
    add_implicit(make, rounds)
    return make.functions
