"""Operations of random programs that multiply and add, composites, control
flow and calls. See programs_ops.py."""
import harness
import nested
import window_ops
from composite_ops import turned
from control_ops import Flow
from harness import np
from programs_leaves import implicit_of, of_implicit
from programs_ops import binary_make, joined, op, PLANS, result
from programs_values import (Reject, Value, is_grid, settle, summed, times,
                             unit)

f32, f64 = np.float32, np.float64


# ---- contractions ------------------------------------------------------------


def contract(x, y, parts):
    """(numbers, error) of a dot_general."""
    lhs_batch, rhs_batch, lhs, rhs = parts
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    a, b = [None] * x.rank, [None] * y.rank
    out = []
    for i, j in zip(lhs_batch, rhs_batch):
        a[i] = b[j] = next(letters)
        out.append(a[i])
    for i, j in zip(lhs, rhs):
        a[i] = b[j] = next(letters)
    for some in (a, b):
        for i, letter in enumerate(some):
            if letter is None:
                some[i] = next(letters)
                out.append(some[i])
    text = "%s,%s->%s" % ("".join(a), "".join(b), "".join(out))

    def dot(p, q):
        with np.errstate(all="ignore"):
            return np.einsum(text, p, q)
    terms = int(np.prod([x.shape[i] for i in lhs], dtype=np.int64))
    want = dot(x.data, y.data)
    total = dot(np.abs(x.data), np.abs(y.data))
    carried = dot(np.abs(x.data), y.err) + dot(x.err, np.abs(y.data))
    carried = carried + dot(x.err, y.err)
    if not lhs and x.packed is None and y.packed is None:
        # einsum adds to 0, which takes the sign from a product of -0
        want = np.copysign(want, dot(*(np.copysign(1.0, v.data) for v in (x, y))))
        if not carried.any():
            return settle(x.kind, want, 0.0)  # one rounding
    return summed(x.kind, want, carried, total, terms,
                  is_grid(x.data, y.data))


def dims_of(x, y, parts):
    lhs_batch, rhs_batch, lhs, rhs = parts
    dims = [y.dims[j] if x.dims[i] is None else x.dims[i]
            for i, j in zip(lhs_batch, rhs_batch)]
    dims += [d for i, d in enumerate(x.dims) if i not in lhs + lhs_batch]
    return dims + [d for j, d in enumerate(y.dims) if j not in rhs + rhs_batch]


@op("dot_general")
def plan_dot(b):
    """Over no, one or two dimensions; a third of them outer products."""
    i = b.pick(lambda v: v.is_float and v.rank < 4)
    x = b.value(i)
    count = 0 if not x.rank or b.rng.random() < 0.35 else 1 + (
        x.rank > 1 and b.rng.random() < 0.15)
    order = [int(n) for n in b.rng.permutation(x.rank)]
    lhs, rest = order[:count], order[count:]
    batches = rest[:int(b.rng.integers(1, 3))] if b.rng.random() < 0.3 else []
    more = [int(b.rng.choice(b.sizes)) for _ in range(int(b.rng.integers(3)))]
    shape = [x.shape[n] for n in batches + lhs] + more
    places = [int(n) for n in b.rng.permutation(len(shape))]
    if b.rng.random() < 0.5:  # as weights are: contracted last
        places = list(range(len(batches), len(shape))) + list(
            range(len(batches)))
        places = places[count:] + places[:count] if not batches else places
    j = b.of_shape([shape[n] for n in places], x.kind, dense=0.4)
    where = {n: at for at, n in enumerate(places)}
    rhs_batch = [where[n] for n in range(len(batches))]
    rhs = [where[n] for n in range(len(batches), len(batches) + count)]
    parts = (batches, rhs_batch, lhs, rhs)

    def make(f, x, y):
        if x.kind != y.kind or not x.is_float or any(
                x.rank <= m or y.rank <= n or x.shape[m] != y.shape[n]
                for m, n in zip(batches + lhs, rhs_batch + rhs)):
            raise Reject
        out = contract(x, y, parts)
        if out[0].size > 50000 or out[0].ndim > 6:
            raise Reject
        text = " batching = %s x %s" % (batches, rhs_batch) if batches else ""
        return result(
            f, "nabla.dot_general %s, %s%s contracting = %s x %s : %s, %s" % (
                x.name, y.name, text, lhs, rhs, x.type(), y.type()),
            x.kind, dims_of(x, y, parts), out)
    return [i, j], make


KERNELS = ("nf4", "fp4", "int8", "int4")


@op("fused_dot")
def plan_fused_dot(b):
    """As dispatch would make it, with an epilogue."""
    m, k = (int(n) for n in (b.rng.choice([1, 2, 5]), b.rng.choice([16, 64])))
    n = int(b.rng.choice([1, 4, 8]))
    w = b.packed_of(str(b.rng.choice(KERNELS[:3])), (n, k), "f32")
    i = b.of_shape((m, k), "f32", packed=False)
    steps = [s for s in ("bias", "add", "relu") if b.rng.random() < 0.4]
    more = [b.of_shape((n,) if s == "bias" else (m, n), "f32", packed=False)
            for s in steps if s != "relu"]

    def make(f, x, w, *extra):
        if w.packed is None or any(v.packed is not None for v in (x, *extra)):
            raise Reject
        want, err = contract(x, w, ([], [], [1], [1]))
        given = list(extra)
        for step in steps:
            if step == "relu":
                want = np.maximum(want, 0)
                continue
            e = given.pop(0)
            want, err = settle("f32", want + e.data, err + e.err)
        text = "nabla.fused_dot %s, %s" % (x.name, w.name)
        if extra:
            text += " (%s)" % ", ".join(e.name for e in extra)
        if steps:
            text += " epilogue = [%s]" % ", ".join('"%s"' % s for s in steps)
        types = ", ".join(v.type() for v in (x, w, *extra))
        return result(f, "%s : %s" % (text, types), "f32", (x.dims[0], n),
                      (want, err))
    return [i, w] + more, make


@op("conv_general")
def plan_conv(b):
    kind = str(b.rng.choice(["f32", "f32", "f16", "bf16", "f64"]))
    c = window_ops.Convolution(b.rng, int(b.rng.integers(1, 3)))
    i, j = (b.of_shape(window_ops.placed(dims, order), kind)
            for dims, order in zip((c.x, c.k), c.orders))
    shapes = [tuple(b.value(n).shape) for n in (i, j)]

    def make(f, x, k):
        if [x.shape, k.shape] != shapes or x.kind != kind or k.kind != kind:
            raise Reject
        wide = [[a.transpose(order) for a in (v.data, np.abs(v.data), v.err)]
                for v, order in zip((x, k), c.orders)]
        (a, aa, ea), (w, aw, ew) = wide
        with np.errstate(all="ignore"):
            carried = c.apply(aa, ew) + c.apply(ea, aw) + c.apply(ea, ew)
            out = summed(kind, c.apply(a, w), carried, c.apply(aa, aw),
                         int(np.prod(c.k[1:])), is_grid(a, w))
        dims = list(out[0].shape)
        for n in range(len(dims)):
            sides = [(0, n)] if n == 0 else [(1, 0)] if n == 1 else [(0, n),
                                                                    (1, n)]
            if any((x, k)[s].dims[c.orders[s][d]] is None for s, d in sides):
                dims[n] = None
        back = np.argsort(c.orders[2])
        return result(f, "nabla.conv_general %s, %s%s : %s, %s" % (
            x.name, k.name, c.text(), x.type(), k.type()), kind,
            window_ops.placed(dims, c.orders[2]),
            [v.transpose(back) for v in out])
    return [i, j], make


def windows(a, fill, fold, w):
    a = window_ops.padded(a, fill, w["low"], w["high"], [0] * a.ndim)
    counts = [window_ops.windows_of(*each) for each in zip(
        a.shape, w["window"], w["strides"], w["dilation"])]
    out = np.full(counts, fill, a.dtype)
    for at in np.ndindex(*w["window"]):
        with np.errstate(all="ignore"):
            out = fold(out, window_ops.at_window(a, 0, at, counts, w["strides"],
                                                 w["dilation"]))
    return out


@op("pool")
def plan_pool(b):
    i = b.pick(lambda v: v.is_float)
    x = b.value(i)
    how = str(b.rng.choice(["sum", "max", "min", "avg"]))
    w = {"window": [int(n) for n in b.rng.integers(1, 4, x.rank)],
         "strides": [int(n) for n in b.rng.integers(1, 3, x.rank)],
         "dilation": [int(n) for n in b.rng.integers(1, 3, x.rank)],
         "low": [int(n) for n in b.rng.integers(0, 2, x.rank)],
         "high": [int(n) for n in b.rng.integers(0, 2, x.rank)]}

    def make(f, x):
        if x.rank != len(w["window"]) or not x.is_float:
            raise Reject
        terms = float(np.prod(w["window"]))
        if how in ("max", "min"):
            fold = np.maximum if how == "max" else np.minimum
            want = windows(x.data, -np.inf if how == "max" else np.inf, fold, w)
            out = want, windows(x.err, 0.0, np.maximum, w)
        else:
            number = windows(np.ones(x.shape), 0.0, np.add, w)
            by = number if how == "avg" else np.ones(number.shape)
            with np.errstate(all="ignore"):
                sums = [windows(a, 0.0, np.add, w) / by
                        for a in (x.data, x.err, np.abs(x.data))]
                out = summed(x.kind, *sums, terms,
                             is_grid(x.data) and how == "sum")
        dims = [None if d is None else n for d, n in zip(x.dims, out[0].shape)]
        return result(f, "nabla.pool %s %s%s : %s" % (
            how, x.name, window_ops.lists_text(**w) if x.rank else
            " window = []", x.type()), x.kind, dims, out)
    return [i], make


# ---- composites ----------------------------------------------------------------


@op("linear")
def plan_linear(b):
    i = b.pick(lambda v: v.is_float and v.rank and v.packed is None)
    x = b.value(i)
    n = int(b.rng.choice(b.sizes))
    j = b.of_shape((n, x.shape[-1]), x.kind, dense=0.4, static=True)
    ids = [i, j]
    if b.rng.random() < 0.5:
        ids.append(b.of_shape((n,), x.kind, static=True))

    def make(f, x, w, *bias):
        if not x.rank or x.packed is not None or w.rank != 2 or (
                x.shape[-1] != w.shape[1]) or None in w.dims or any(
                    v.kind != x.kind for v in (w, *bias)) or any(
                        v.shape != w.shape[:1] or None in v.dims for v in bias):
            raise Reject
        want, err = contract(x, w, ([], [], [x.rank - 1], [1]))
        if bias:
            want, err = settle(x.kind, want + bias[0].data, np.maximum(
                err + bias[0].err, 1e-300 + unit(x.kind) * np.abs(want)))
        names = ", ".join(v.name for v in (x, w, *bias))
        types = ", ".join(v.type() for v in (x, w, *bias))
        return result(f, "nabla.linear %s : %s" % (names, types), x.kind,
                      x.dims[:-1] + w.dims[:1], (want, err))
    return ids, make


def normed(x, eps, centered):
    """(numbers, error before the parameters) of a norm, in f64."""
    a, ea, size = x.data, x.err, x.shape[-1]
    u = unit(x.kind)

    def mean(v):
        return v.sum(axis=-1, keepdims=True) / size
    ea = ea + (size + 4) * u * (mean(np.abs(a)) if centered else 0)
    c = a - mean(a) if centered else a
    ec = ea + (mean(ea) + 2 * u * np.abs(c) if centered else 0)
    square = mean(c * c) + eps
    change = mean(2 * np.abs(c) * ec + ec * ec)
    left = np.maximum(square - change, 0)
    scale = square ** -0.5
    off = 0.5 * change * left ** -1.5 + (size + 16) * u * scale
    return c * scale, times(c, ec, scale, off)


def norm_plan(name):
    def plan(b):
        i = b.pick(lambda v: v.is_float and v.rank and v.shape[-1] and
                   None not in v.dims[-1:])
        x = b.value(i)
        count = int(b.rng.integers(3 if name == "layer_norm" else 2))
        ids = [i] + [b.of_shape(x.shape[-1:], x.kind, static=True)
                     for _ in range(count)]

        def make(f, x, *given):
            if not (x.rank and x.is_float and x.shape[-1]) or None in x.dims[
                    -1:] or any(v.shape != x.shape[-1:] or v.kind != x.kind or
                                None in v.dims for v in given):
                raise Reject
            with np.errstate(all="ignore"):
                want, err = normed(x, 1e-3, name == "layer_norm")
                if given:
                    err = times(want, err, given[0].data, given[0].err)
                    want = want * given[0].data
                if len(given) > 1:
                    want, err = want + given[1].data, err + given[1].err
                err = err + 3 * unit(x.kind) * (np.abs(want) + err) + 1e-300
                if len(given) > 1:
                    err = err + 3 * unit(x.kind) * np.abs(given[1].data)
            err = np.where(np.isnan(err), np.inf, err)
            return result(f, "nabla.%s %s eps = 1.0e-3 : %s" % (
                name, ", ".join(v.name for v in (x, *given)),
                ", ".join(v.type() for v in (x, *given))), x.kind, x.dims,
                settle(x.kind, want, err))
        return ids, make
    return plan


op("rms_norm")(norm_plan("rms_norm"))
op("layer_norm")(norm_plan("layer_norm"))


@op("rope")
def plan_rope(b):
    i = b.pick(lambda v: v.is_float and v.rank > 1 and v.shape[-1] % 2 == 0)
    dim = int(b.rng.integers(b.value(i).rank - 1))
    pairs = str(b.rng.choice(["interleaved", "halves"]))
    offset = int(b.rng.integers(4))

    def make(f, x):
        if not x.is_float or x.rank < dim + 2 or x.shape[-1] % 2:
            raise Reject
        at = np.arange(x.shape[dim]) + offset
        want, err = turned(x.data, at, dim, pairs, 1e4, unit(x.kind))
        half = x.shape[-1] // 2
        worst = x.err.reshape(x.shape[:-1] + (half, 2)) if (
            pairs == "interleaved") else x.err.reshape(
                x.shape[:-1] + (2, half)).swapaxes(-1, -2)
        both = worst.sum(axis=-1)
        both = np.repeat(both, 2, -1) if pairs == "interleaved" else (
            np.concatenate([both, both], -1))
        return result(f, "nabla.rope %s %s dim = %d offset = %d : %s" % (
            pairs, x.name, dim, offset, x.type()), x.kind, x.dims,
            settle(x.kind, want, err + both + 1e-300))
    return [i], make


def attended(q, k, v, seen, scale, mask):
    """`seen`: which keys count for which query; `mask`: added to scores."""
    u = unit(q.kind)
    a, ea, b, eb = q.data, q.err, v.data, v.err
    kt, ekt = (np.swapaxes(each, -1, -2) for each in (k.data, k.err))
    if q.rank > 2:
        kt, ekt, b, eb = (np.repeat(each, q.shape[0] // k.shape[0], 0)
                          for each in (kt, ekt, b, eb))
    scores = a @ kt * scale
    off = (np.abs(a) @ ekt + ea @ np.abs(kt) + ea @ ekt) * scale
    off = off + (q.shape[-1] + 20) * u * scale * (np.abs(a) @ np.abs(kt))
    if mask is not None:
        scores, off = scores + mask.data, off + mask.err
        off = off + 2 * u * np.abs(mask.data)
    off = np.where(seen, off + 2 * u * np.abs(scores), 0)
    scores = np.where(seen, scores, -np.inf)
    e = np.exp(scores - scores.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    relative = np.expm1(2 * off.max(axis=-1, keepdims=True)) + (
        scores.shape[-1] + 24) * u
    return p @ b, relative * (p @ (np.abs(b) + eb)) * 1.01 + p @ eb + 1e-300


class Masks:
    """What hides keys of attention: a tensor, a number of keys, the order."""

    def __init__(self, b, x, s):
        rng, t = b.rng, x.shape[-2]
        self.causal = rng.random() < 0.4 and s >= t
        self.keys = int(rng.integers(t if self.causal else 1, s + 3)) if (
            rng.random() < 0.4) else None
        self.truth, self.id = None, []
        shape = x.shape[:-1] + (s,)
        shape = shape[-2:] if rng.random() < 0.5 else shape
        how = rng.random()
        if how < 0.3:  # the first key counts
            self.truth = (rng.random(shape) < 0.7) | (np.arange(s) == 0)
        elif how < 0.5:
            self.id = [b.of_shape(shape, x.kind, packed=False, static=True)]

    def operands(self, f, mask):
        text = ""
        if mask:
            text += " mask(%s : %s)" % (mask[0].name, mask[0].type())
        elif self.truth is not None:
            text += " mask(%s : %s)" % f.argument(self.truth)
        if self.keys is not None:
            text += " keys(%s : %s)" % f.argument(np.array(self.keys, np.int32))
        return text

    def queries(self, q, mask):
        """The number of queries, where a type tells it."""
        if self.truth is not None:
            return self.truth.shape[-2]
        return mask[0].dims[-2] if mask else q.dims[-2]

    def seen(self, t, s):
        n = s if self.keys is None else min(self.keys, s)
        seen = np.broadcast_to(np.arange(s) < n, (t, s))
        if self.causal:
            seen = seen & (np.arange(s)[None] - n <= np.arange(t)[:, None] - t)
        return seen if self.truth is None else seen & self.truth


def fits_attention(q, k, v, mask, fused):
    """Whether these are operands of one attention."""
    if len({x.kind for x in (q, k, v, *mask)}) > 1 or not q.data.size or (
            q.rank not in (2, 3)) or k.rank != q.rank or v.rank != q.rank:
        return False
    if k.shape[-1] != q.shape[-1] or v.shape[:-1] != k.shape[:-1] or (
            q.rank > 2 and q.shape[0] % k.shape[0]):
        return False
    if None in q.dims[:-2] + q.dims[-1:] + k.dims + v.dims:
        return False
    given = (q, k, v, *mask)
    return not fused or q.kind == "f32" and all(x.packed is None for x in given)


def attention_plan(name):
    """Attention; fused as dispatch would make it, of tensors of f32."""
    fused = name == "fused_attention"

    def plan(b):
        i = b.pick(lambda v: v.is_float and v.rank in (2, 3) and v.data.size and (
            not fused or v.kind == "f32" and v.packed is None))
        x = b.value(i)
        s, e = (int(b.rng.integers(1, most)) for most in (
            20 if b.rng.random() < 0.3 else 6, 6))
        heads = x.shape[:-2]
        if heads and b.rng.random() < 0.5:  # several heads of q share one
            heads = (int(b.rng.choice([n for n in range(1, heads[0] + 1)
                                       if heads[0] % n == 0])),)
        dense = {"packed": False} if fused else {}
        j = b.of_shape(heads + (s, x.shape[-1]), x.kind, static=True, **dense)
        k = b.of_shape(heads + (s, e), x.kind, static=True, **dense)
        masks = Masks(b, x, s)
        shape, mask_shape = x.shape, [b.value(n).shape for n in masks.id]

        def make(f, q, k, v, *mask):
            if q.shape != shape or [m.shape for m in mask] != mask_shape or (
                    k.shape[-2:-1] != (s,)) or any(
                        None in m.dims or m.packed is not None for m in mask) or (
                            not fits_attention(q, k, v, mask, fused)):
                raise Reject
            text = masks.operands(f, mask)
            with np.errstate(all="ignore"):
                out = settle(q.kind, *attended(
                    q, k, v, masks.seen(*q.shape[-2:-1], s), 0.5,
                    mask[0] if mask else None))
            return result(f, "nabla.%s %s, %s, %s%s scale = 0.5%s : %s, %s, %s" % (
                name, q.name, k.name, v.name, text,
                " causal" if masks.causal else "",
                q.type(), k.type(), v.type()), q.kind,
                q.dims[:-2] + (masks.queries(q, mask),) + v.dims[-1:], out)
        return [i, j, k] + masks.id, make
    return plan


op("attention")(attention_plan("attention"))
op("fused_attention")(attention_plan("fused_attention"))


@op("custom_call")
def plan_custom_call(b):
    i = b.pick(lambda v: v.kind in ("f32", "f64") and v.is_exact() and
               None not in v.dims and np.isfinite(v.data).all())

    def make(f, x):
        if x.kind not in ("f32", "f64") or not x.is_exact() or (
                None in x.dims or not np.isfinite(x.data).all()):
            raise Reject
        to = harness.tensor_type(x.dims, x.kind)
        return result(f, "nabla.custom_call @nabla.check_finite(%s) : (%s) -> %s"
                      % (x.name, x.type(), to), x.kind, x.dims, (x.data, 0.0))
    return [i], make


# ---- bodies --------------------------------------------------------------------


STEPS = ("add", "mul", "maximum", "sub")
ALONE = ("neg", "relu", "abs", "tanh", "sin", "sigmoid")


def body_of(b, kind):
    """A few operations that keep shape and type: a function of a place to write
    them, the value they begin with and the one they take besides."""
    chosen = []
    for _ in range(int(b.rng.integers(1, 3))):
        if kind not in harness.FLOATS or b.rng.random() < 0.6:
            names = ("add", "maximum") if kind == "i1" else STEPS
            chosen.append(str(b.rng.choice(names)))
        else:
            chosen.append(str(b.rng.choice(ALONE)))

    def write(f, x, other):
        for name in chosen:
            if name in STEPS:
                x, = binary_make(name)(f, x, other)
            else:
                x, = ALONE_MAKES[name](f, x)
        return x
    return write


class One:
    """A Build of one value, to get at the makers of ALONE."""

    def pick(self, want=None):
        return 0


ALONE_MAKES = {name: PLANS[name](One())[1] for name in ALONE}


class Lines:
    """What is written in a region goes here."""

    def __init__(self, f):
        self.f = f

    def __enter__(self):
        self.f.lines, self.old = [], self.f.lines
        return self.f.lines

    def __exit__(self, *_):
        self.f.lines = self.old


def same_type(x, y):
    if x.type() != y.type():
        raise Reject


def renamed(value, name):
    return Value(name, value.kind, value.dims, value.data, value.err,
                 value.packed)


@op("cond")
def plan_cond(b):
    i = b.pick(lambda v: v.packed is None)
    j = b.like(b.value(i), packed=False)
    kind = str(b.rng.choice(["i1", "i32", "i64"]))
    count = 2 if kind == "i1" else int(b.rng.integers(1, 4))
    number = int(b.rng.integers(2 if kind == "i1" else count + 2))
    bodies = [body_of(b, b.value(i).kind) for _ in range(count)]

    def make(f, x, y):
        if x.packed is not None or x.shape != y.shape or x.kind != y.kind:
            raise Reject
        s, s_type = f.argument(np.array(number, harness.DTYPES[kind]))
        texts, outs = [], []
        for body in bodies:
            with Lines(f) as lines:
                out = body(f, x, y)
            outs.append(out)
            same_type(out, outs[0])
            texts.append("{\n%s\n  nabla.yield %s : %s\n}" % (
                "\n".join("  " + line for line in lines), out.name, out.type()))
        taken = (1 - number) if kind == "i1" else min(number, count - 1)
        name, = f.region(1, "nabla.cond %s : %s -> %s %s" % (
            s, s_type, outs[0].type(), ", ".join(texts)))
        return [renamed(outs[taken], name)]
    return [i, j], make


@op("yield")
def plan_packed_cond(b):
    """A condition that chooses between packed values of one type."""
    i = b.pick(lambda v: v.packed is not None and v.packed.index is not None)
    number = bool(b.rng.integers(2))
    order = [int(n) for n in b.rng.permutation(b.value(i).rank)]

    def make(f, x):
        if x.packed is None or x.rank != len(order):
            raise Reject
        s, s_type = f.argument(np.array(number))
        back = list(np.argsort(order))
        with Lines(f) as lines:
            q = implicit_of(f, x).transpose(order)
            q = q.transpose([int(n) for n in back])
        other = "{\n%s\n  nabla.yield %s : %s\n}" % (
            "\n".join("  " + line for line in lines), q.value, q.type())
        if q.type() != x.type():
            raise Reject
        name, = f.region(1, "nabla.cond %s : %s -> %s {\n  nabla.yield %s : %s\n"
                         "}, %s" % (s, s_type, x.type(), x.name, x.type(),
                                    other))
        old = x.packed
        return [of_implicit(old.then(name, old.dense, old.index))]
    return [i], make


@op("remat")
def plan_remat(b):
    i = b.pick(lambda v: v.packed is None)
    j = b.like(b.value(i), packed=False)
    body = body_of(b, b.value(i).kind)

    def make(f, x, y):
        if x.packed is not None or x.shape != y.shape or x.kind != y.kind:
            raise Reject
        with Lines(f) as lines:
            out = body(f, x, y)
        name, = f.region(1, "nabla.remat -> %s {\n%s\n  nabla.yield %s : %s\n}" % (
            out.type(), "\n".join("  " + line for line in lines), out.name,
            out.type()))
        return [renamed(out, name)]
    return [i, j], make


@op("barrier")
def plan_barrier(b):
    i, j = b.pick(), b.pick()

    def make(f, x, y):
        name = f.op("nabla.barrier %s, %s : %s, %s" % (
            x.name, y.name, x.type(), y.type()))
        if x.packed is None:
            return [renamed(x, name)]
        old = x.packed
        return [of_implicit(old.then(name, old.dense, old.index))]
    return [i, j], make


@op("while")
def plan_while(b):
    i = b.pick(lambda v: v.packed is None)
    j = b.like(b.value(i), packed=False)
    trips, body = int(b.rng.integers(4)), body_of(b, b.value(i).kind)

    def make(f, x, y):
        if x.packed is not None or x.shape != y.shape or x.kind != y.kind:
            raise Reject
        n = f.size(trips)
        zero, one = (f.op("arith.constant %d : index" % k) for k in (0, 1))
        f.count += 1
        a, c, t = "%%a%d" % f.count, "%%i%d" % f.count, x.type()
        start = renamed(x, a)
        with Lines(f) as lines:
            out = body(f, start, y)
            step = f.op("arith.addi %s, %s : index" % (c, one))
        same_type(out, x)
        scratch, now = Flow("scratch"), x
        for _ in range(trips):
            now = body(scratch, now, y)
        names = f.region(2, (
            "nabla.while(%s, %s) : index, %s cond {\n^bb0(%s: index, %s: %s):\n"
            "  %%p = arith.cmpi slt, %s, %s : index\n  nabla.condition %%p, %s, "
            "%s : i1, index, %s\n} do {\n^bb0(%s: index, %s: %s):\n%s\n  "
            "nabla.yield %s, %s : index, %s\n}") % (
                zero, x.name, t, c, a, t, c, n, c, a, t, c, a, t,
                "\n".join("  " + line for line in lines), step, out.name, t))
        return [renamed(now, names[1])]
    return [i, j], make


PLANS["condition"] = plan_while


@op("scan")
def plan_scan(b):
    """A carry, slices, and their stack."""
    i = b.pick(lambda v: v.rank > 1 and v.dims[0] is not None)
    xs = b.value(i)
    j = b.of_shape(xs.shape[1:], xs.kind, packed=False)
    bodies = [body_of(b, xs.kind) for _ in range(2)]
    reverse = b.rng.random() < 0.3

    def make(f, xs, h):
        if xs.rank < 2 or h.packed is not None or h.shape != xs.shape[1:] or (
                h.kind != xs.kind or xs.dims[0] is None):
            raise Reject
        length = xs.shape[0]
        blank = Value("", xs.kind, xs.dims[1:], np.zeros(
            h.shape, xs.data.dtype))

        def step(f, h, at, name):
            part = blank if at is None else Value(
                name, xs.kind, xs.dims[1:], xs.data[at],
                xs.err[at])
            part.name = name
            h = bodies[0](f, h, part)
            return h, bodies[1](f, h, part)
        f.count += 1
        names = "%%h%d" % f.count, "%%x%d" % f.count
        with Lines(f) as lines:
            h1, y1 = step(f, renamed(h, names[0]), None, names[1])
        same_type(h1, h)
        order = range(length)[::-1] if reverse else range(length)
        scratch, now, ys = Flow("scratch"), h, [None] * length
        for at in order:
            now, ys[at] = step(scratch, now, at, names[1])
        data = np.array([y.data for y in ys]).reshape((length,) + y1.shape)
        err = np.array([y.err for y in ys]).reshape(data.shape)
        stacked = Value("", xs.kind, (length,) + y1.dims,
                        data.astype(xs.data.dtype), err)
        if None in y1.dims:
            raise Reject
        out = f.region(2, (
            "nabla.scan init(%s : %s) over(%s : %s)%s -> %s, %s {\n^bb0(%s: %s, "
            "%s: %s):\n%s\n  nabla.yield %s, %s : %s, %s\n}") % (
                h.name, h.type(), xs.name, xs.type(),
                " reverse" if reverse else "", h.type(), stacked.type(),
                names[0], h.type(), names[1], blank.type(),
                "\n".join("  " + line for line in lines), h1.name, y1.name,
                h.type(), y1.type()))
        return [renamed(now, out[0]), renamed(stacked, out[1])]
    return [i, j], make


@op("call")
def plan_call(b):
    """A private function, called once or twice."""
    i = b.pick()
    j = b.like(b.value(i), packed=False)
    body = body_of(b, b.value(i).kind)
    twice = b.rng.random() < 0.4

    def make(f, x, y):
        if x.shape != y.shape or x.kind != y.kind or y.packed is not None:
            raise Reject
        if x.packed is not None and x.packed.index is None:
            raise Reject
        callee = Flow("%s_%d" % (f.name, len(f.callees)))
        a, c = renamed(x, "%a"), renamed(y, "%b")
        out = body(callee, a, c)
        f.callees.append(
            "func.func private @%s(%%a: %s, %%b: %s) -> %s {\n%s\n  return %s : "
            "%s\n}\n" % (callee.name, x.type(), y.type(), out.type(),
                         "\n".join("  " + line for line in callee.lines),
                         out.name, out.type()))
        text = "func.call @%s(%s, %s) : (%s, %s) -> %s"
        one = renamed(out, f.op(text % (callee.name, x.name, y.name, x.type(),
                                        y.type(), out.type())))
        if not twice or x.packed is not None or one.type() != x.type():
            return [one]
        again = body(Flow("scratch"), one, y)
        same_type(again, one)
        return [renamed(again, f.op(text % (
            callee.name, one.name, y.name, x.type(), y.type(), out.type())))]
    return [i, j], make


PLANS["pack"] = PLANS["unpack"]
__all__ = ["PLANS", "joined", "nested"]
