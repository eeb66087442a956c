"""Operations of random programs that move elements: views (packed operands stay
packed), slices, joins, gathers. See programs_ops.py."""
import arrays
import gather_ops
import harness
import nested
from harness import np
from programs_leaves import NAMES, encoding_of, implicit_of, of_implicit
from programs_ops import op, result
from programs_values import FLOATS, Reject, Value
from shape_ops import at_text, cut, cuts, padded, pieces, slice_text

f32 = np.float32


def moved(f, text, x, dims, move):
    """Numbers and errors go the same way."""
    return result(f, text, x.kind, dims, (move(x.data), move(x.err)))


# ---- views -------------------------------------------------------------------


@op("transpose")
def plan_transpose(b):
    i = b.pick()
    order = [int(n) for n in b.rng.permutation(b.value(i).rank)]

    def make(f, x):
        if x.rank != len(order):
            raise Reject
        if x.packed is not None:
            return [of_implicit(implicit_of(f, x).transpose(order))]
        return moved(f, "nabla.transpose %s permutation = %s : %s" % (
            x.name, order, x.type()), x, [x.dims[n] for n in order],
            lambda a: a.transpose(order))
    return [i], make


def factored(rng, count):
    """A shape of so many elements."""
    if not count:
        return (0, int(rng.integers(1, 4)))
    out = []
    for p in (2, 3, 5):
        while count % p == 0:
            out.append(p)
            count //= p
    out += [count] * (count > 1) + [1] * int(rng.integers(2))
    shape = [1] * int(rng.integers(0 if not out else 1, 4))
    for p in out:
        if shape:
            shape[int(rng.integers(len(shape)))] *= p
    return tuple(shape)


@op("reshape")
def plan_reshape(b):
    i = b.pick()
    shape = factored(b.rng, b.value(i).data.size)
    hide = b.hidden(len(shape))

    def make(f, x):
        if x.data.size != np.prod(shape, dtype=np.int64):
            raise Reject
        if x.packed is not None:
            q = implicit_of(f, x).reshape(shape)
            if q is None:
                raise Reject
            return [of_implicit(q)]
        some = hide if x.data.size else []
        dims = [None if n in some else d for n, d in enumerate(shape)]
        text = "nabla.reshape %s" % x.name
        if len(some) > 1:
            text += " sizes(%s)" % ", ".join(f.size(shape[n]) for n in some)
        return moved(f, "%s : %s -> %s" % (text, x.type(), harness.tensor_type(
            dims, x.kind)), x, dims, lambda a: harness.plain(a).reshape(shape))
    return [i], make


@op("broadcast_in_dim")
def plan_broadcast(b):
    i = b.pick(lambda v: v.rank < 4)
    x = b.value(i)
    rank = x.rank + int(b.rng.integers(0 if x.rank else 1, 3))
    dims = [int(n) for n in b.rng.permutation(rank)[:x.rank]]
    if b.rng.random() < 0.6:
        dims.sort()
    shape = [int(b.rng.choice(b.sizes)) for _ in range(rank)]
    for n, d in enumerate(dims):
        if x.shape[n] != 1 or b.rng.random() < 0.5:
            shape[d] = x.shape[n]
    if np.prod(shape) > 20000:
        raise Reject
    hide = b.hidden(rank)

    def make(f, x):
        if x.rank != len(dims) or any(s not in (1, shape[d]) for s, d in zip(
                x.shape, dims)):
            raise Reject
        if x.packed is not None:
            return [of_implicit(implicit_of(f, x).broadcast(
                tuple(shape), dims))]
        to = [None if n in hide else d for n, d in enumerate(shape)]
        text = "nabla.broadcast_in_dim %s dims = %s" % (x.name, dims)
        if hide:
            text += " sizes(%s)" % ", ".join(f.size(shape[n]) for n in hide)

        def spread(a):
            where = np.argsort(dims)
            full = [1] * len(shape)
            for n, d in enumerate(dims):
                full[d] = a.shape[n]
            a = a.transpose(where) if len(dims) else a
            return harness.plain(np.broadcast_to(a.reshape(full), shape))
        return moved(f, "%s : %s -> %s" % (text, x.type(), harness.tensor_type(
            to, x.kind)), x, to, spread)
    return [i], make


@op("slice")
def plan_slice(b):
    i = b.pick(lambda v: v.rank)
    x = b.value(i)
    starts, limits, strides = cuts(b.rng, x.shape)
    if b.rng.random() < 0.5:
        strides = [1] * x.rank
    to_end = [bool(b.rng.random() < 0.4) for _ in x.shape]

    def make(f, x):
        if x.rank != len(starts) or any(n > d for n, d in zip(limits, x.shape)):
            raise Reject
        ends = [d if e else n for d, n, e in zip(x.shape, limits, to_end)]
        if x.packed is not None:
            if not all(e > s for s, e in zip(starts, ends)):
                raise Reject
            return [of_implicit(implicit_of(f, x).slice(starts, ends, strides))]
        given = [-1 if e else n for n, e in zip(limits, to_end)]
        shape = cut(x.data, starts, ends, strides).shape
        dims = [None if d is None and e else n
                for d, e, n in zip(x.dims, to_end, shape)]
        return moved(f, slice_text(x.name, x.type(), starts, given, strides), x,
                     dims, lambda a: cut(a, starts, ends, strides))
    return [i], make


@op("split")
def plan_split(b):
    i = b.pick(lambda v: v.rank)
    dim = int(b.rng.integers(b.value(i).rank))
    sizes = pieces(b.rng, b.value(i).shape[dim])[:8]

    def make(f, x):
        if x.rank <= dim or sum(sizes) != x.shape[dim]:
            raise Reject
        if x.packed is not None:
            if not x.data.size or 0 in sizes:
                raise Reject
            parts = implicit_of(f, x).split(dim, sizes)
            if len(parts) == 1:
                parts[0].value = parts[0].value.split("#")[0]
            return [of_implicit(p) for p in parts]
        names = f.region(len(sizes), "nabla.split %s dim = %d sizes = %s : %s" % (
            x.name, dim, sizes, x.type()))
        at, out = np.cumsum(sizes)[:-1], []
        for name, data, err in zip(names, np.split(x.data, at, dim),
                                   np.split(x.err, at, dim)):
            dims = list(x.dims)
            dims[dim] = data.shape[dim]
            out.append(Value(name, x.kind, dims, data, err))
        return out
    return [i], make


# ---- slices whose place is known at run time ------------------------------------


def places_of(b, shape):
    sizes = [int(b.rng.integers(d + 1)) for d in shape]
    wanted = [int(b.rng.integers(-2, d + 3)) for d in shape]
    kinds = [str(b.rng.choice(["index", "i64", "i32"])) for _ in shape]
    return sizes, wanted, kinds


def place(f, value, kind):
    if kind == "index":
        return f.size(value), "index"
    return f.argument(np.array(value, harness.DTYPES[kind]))


def inside(shape, sizes, wanted):
    begins = [min(max(w, 0), d - s) for w, d, s in zip(wanted, shape, sizes)]
    return tuple(slice(n, n + s) for n, s in zip(begins, sizes))


@op("dynamic_slice")
def plan_dynamic_slice(b):
    i = b.pick()
    sizes, wanted, kinds = places_of(b, b.value(i).shape)
    hide = b.hidden(len(sizes))

    def make(f, x):
        if x.rank != len(sizes) or any(s > d for s, d in zip(sizes, x.shape)):
            raise Reject
        at = [place(f, w, k) for w, k in zip(wanted, kinds)]
        dims = [None if n in hide else s for n, s in enumerate(sizes)]
        given = ", ".join(f.size(sizes[n]) for n in hide)
        x = decoded_exactly(x)
        return moved(f, "nabla.dynamic_slice %s %s%s : %s -> %s" % (
            x.name, at_text(at), " sizes(%s)" % given if hide else "", x.type(),
            harness.tensor_type(dims, x.kind)), x, dims,
            lambda a: a[inside(x.shape, sizes, wanted)])
    return [i], make


def decoded_exactly(x):
    """Operations that take elements of packed arrays round them to their type:
    known to the bit."""
    if x.packed is None:
        return x
    return Value(x.name, x.kind, x.dims, x.data, None, x.packed)


@op("dynamic_update_slice")
def plan_update(b):
    i = b.pick()
    sizes, wanted, kinds = places_of(b, b.value(i).shape)
    j = b.of_shape(sizes, b.value(i).kind)

    def make(f, x, u):
        if x.rank != len(sizes) or list(u.shape) != sizes or any(
                s > d for s, d in zip(sizes, x.shape)) or x.kind != u.kind:
            raise Reject
        at = [place(f, w, k) for w, k in zip(wanted, kinds)]
        data, err = x.data.copy(), x.err.copy()
        box = inside(x.shape, sizes, wanted)
        data[box], err[box] = u.data, u.err
        return result(f, "nabla.dynamic_update_slice %s, %s %s : %s, %s" % (
            x.name, u.name, at_text(at), x.type(), u.type()), x.kind, x.dims,
            (data, err))
    return [i, j], make


# ---- joins -------------------------------------------------------------------


def join_plan(name):
    def plan(b):
        i = b.pick(lambda v: v.packed is None and (
            v.rank or name == "stack") and v.rank < 5)
        x = b.value(i)
        dim = int(b.rng.integers(x.rank + (name == "stack")))
        ids = [i] + [b.like(x, packed=False)
                     for _ in range(int(b.rng.integers(3)))]

        def make(f, *parts):
            first = parts[0]
            rest = [[d for n, d in enumerate(p.shape)
                     if n != dim or name == "stack"] for p in parts]
            if any(r != rest[0] for r in rest) or any(
                    p.kind != first.kind or p.packed is not None or
                    p.rank != first.rank for p in parts) or (
                        first.rank + (name == "stack") <= dim):
                raise Reject
            fold = np.stack if name == "stack" else np.concatenate
            data = fold([p.data for p in parts], axis=dim)
            dims = []
            for n in range(first.rank):
                here = [p.dims[n] for p in parts]
                if name == "concatenate" and n == dim:
                    dims.append(None if None in here else sum(here))
                else:
                    dims.append(next((d for d in here if d is not None), None))
            if name == "stack":
                dims.insert(dim, len(parts))
            return result(f, "nabla.%s %s dim = %d : %s" % (
                name, ", ".join(p.name for p in parts), dim,
                ", ".join(p.type() for p in parts)), first.kind, dims,
                (data, fold([p.err for p in parts], axis=dim)))
        return ids, make
    return plan


op("concatenate")(join_plan("concatenate"))
op("stack")(join_plan("stack"))


@op("pad")
def plan_pad(b):
    i = b.pick()
    x = b.value(i)
    j = b.of_shape((), x.kind)
    low, high, between = [], [], []
    for d in x.shape:
        between.append(int(b.rng.integers(3)) if b.rng.random() < 0.3 else 0)
        whole = d + max(d - 1, 0) * between[-1]
        low.append(int(b.rng.integers(-min(whole, 2), 3)))
        high.append(max(int(b.rng.integers(-2, 3)), -whole - low[-1]))

    def make(f, x, v):
        if x.rank != len(low) or v.rank or v.kind != x.kind or any(
                d + max(d - 1, 0) * n + l + h < 0
                for d, n, l, h in zip(x.shape, between, low, high)):
            raise Reject
        text = " interior = %s" % between if sum(between) else ""
        data = padded(x.data, v.data, low, high, between)
        dims = [None if d is None else n for d, n in zip(x.dims, data.shape)]
        x = decoded_exactly(x)
        return result(f, "nabla.pad %s, %s low = %s high = %s%s : %s, %s" % (
            x.name, v.name, low, high, text, x.type(), v.type()), x.kind, dims,
            (data, padded(x.err, v.err, low, high, between)))
    return [i, j], make


@op("flip")
def plan_flip(b):
    i = b.pick()
    rank = b.value(i).rank
    axes = [int(n) for n in np.flatnonzero(b.rng.random(rank) < 0.5)]

    def make(f, x):
        if x.rank != rank:
            raise Reject
        x = decoded_exactly(x)
        return moved(f, "nabla.flip %s dims = %s : %s" % (
            x.name, axes, x.type()), x, x.dims, lambda a: np.flip(a, axes))
    return [i], make


# ---- gather, scatter ------------------------------------------------------------


def elements_at(numbers, indices, a):
    out = np.empty(numbers.shape(), a.dtype)
    for at, full in numbers.elements(indices, a.shape, True):
        out[at] = a[full]
    return out


def gather_plan(name):
    def plan(b):
        fused = name == "fused_gather"
        i = b.pick(lambda v: (v.packed is not None and v.packed.index is not None
                              ) if fused else True)
        x = b.value(i)
        rows = x.rank > 1 and x.shape[0] and b.rng.random() < 0.4
        numbers = (gather_ops.Numbers.of_rows if rows else gather_ops.Numbers)(
            b.rng, x.shape)
        indices = gather_ops.some_indices(b.rng, numbers, x.shape)
        shape = x.shape

        def make(f, x):
            if x.shape != shape or (fused and x.packed is None):
                raise Reject
            at, at_type = f.argument(indices)
            x = decoded_exactly(x)
            return moved(f, "nabla.%s %s, %s %s sizes = %s : %s, %s" % (
                name, x.name, at, numbers.text(), numbers.sizes, x.type(),
                at_type), x, numbers.shape(),
                lambda a: elements_at(numbers, indices, a))
        return [i], make
    return plan


op("gather")(gather_plan("gather"))
op("fused_gather")(gather_plan("fused_gather"))


@op("scatter")
def plan_scatter(b):
    i = b.pick(lambda v: v.is_exact())
    x = b.value(i)
    numbers = gather_ops.Numbers(b.rng, x.shape)
    indices = gather_ops.some_indices(b.rng, numbers, x.shape)
    how = str(b.rng.choice(["set", "add", "mul", "min", "max"]))
    shape = x.shape
    j = b.of_shape(numbers.shape(), x.kind)

    def make(f, x, u):
        if x.shape != shape or not (x.is_exact() and u.is_exact()) or (
                list(u.shape) != list(numbers.shape()) or x.kind != u.kind):
            raise Reject
        at, at_type = f.argument(indices)
        with np.errstate(all="ignore"):
            want = gather_ops.scattered(numbers, how, x.elements(), indices,
                                        u.elements(), x.kind)
        want = harness.widen(want)
        data = want.astype(np.float64) if x.kind in FLOATS else want
        return result(f, "nabla.scatter %s %s, %s, %s %s : %s, %s, %s" % (
            how, x.name, at, u.name, numbers.text(), x.type(), at_type,
            u.type()), x.kind, x.dims, (data, 0.0))
    return [i, j], make


# ---- packed ------------------------------------------------------------------


@op("materialize")
def plan_materialize(b):
    i = b.pick(lambda v: v.packed is not None)

    def make(f, x):
        if x.packed is None:
            raise Reject
        return result(f, "nabla.materialize %s : %s" % (x.name, x.type()),
                      x.kind, x.shape, (x.data, 0.0))
    return [i], make


@op("implicit_depth")
def plan_depth(b):
    i = b.pick()

    def make(f, x):
        spec = x.packed.spec if x.packed is not None else None
        depth = 0 if spec is None else getattr(spec, "depth", 1)
        return result(f, "nabla.implicit_depth %s : %s" % (x.name, x.type()),
                      "i64", (), (np.array(depth, np.int64), 0.0))
    return [i], make


@op("unpack")
def plan_unpack(b):
    """Taken apart, and made again: `pack` of what `unpack` gives."""
    i = b.pick(lambda v: v.packed is not None and isinstance(
        v.packed.spec, nested.Packed) and not v.packed.spec.nested)

    def make(f, x):
        q = x.packed
        if q is None or not isinstance(q.spec, nested.Packed) or (
                q.spec.nested):
            raise Reject
        count = int(np.prod(q.storage, dtype=np.int64))
        blocks = -(-count // q.spec.block)
        bits = nested.reference.ROWS[q.spec.name].bits
        types = ["tensor<%dxi8>" % -(-count * bits // 8), "tensor<%dx%s>" % (
            blocks, "i8" if q.spec.is_mx else q.spec.scale)]
        types += ["tensor<%dxi8>" % blocks] * q.spec.zero
        names = f.region(len(types), "nabla.unpack %s : %s" % (
            x.name, x.type()))
        q = implicit_of(f, x)
        return [of_implicit(q.then(f.op("nabla.pack %s : %s -> %s" % (
            ", ".join(names), ", ".join(types), q.type())), q.dense, q.index))]
    return [i], make


@op("quantize")
def plan_quantize(b):
    i = b.pick(lambda v: v.is_float and v.is_exact() and v.packed is None and
               v.kind != "f64" and v.data.size and None not in v.dims and
               np.isfinite(v.data).all() and np.abs(v.data).max() < 1e30)
    name = str(b.rng.choice([n for n in NAMES if n != "splat"]))
    drawn = b.value(i).shape
    spec = encoding_of(b.rng, name, drawn)

    def make(f, x):
        if not (x.is_exact() and x.is_float and x.data.size) or (
                x.packed is not None or None in x.dims or x.kind == "f64"):
            raise Reject
        if hasattr(spec, "span") and x.shape != drawn:
            raise Reject
        if not np.isfinite(x.data).all() or np.abs(x.data).max() > 1e30:
            raise Reject
        flat = harness.plain(x.data).astype(f32).reshape(-1)
        with np.errstate(all="ignore"):
            decoded = np.asarray(spec.decode(spec.encode(flat), flat.size), f32)
        if not np.isfinite(decoded).all():
            raise Reject
        dense = harness.narrow(decoded.reshape(x.shape), x.kind)
        index = np.arange(flat.size, dtype=np.int64).reshape(x.shape)
        q = arrays.Implicit(f, None, spec, x.kind, dense, index, x.shape)
        q.value = f.op("nabla.quantize %s : %s -> %s" % (
            x.name, x.type(), q.type()))
        return [of_implicit(q)]
    return [i], make
