"""Cases of creation, of reductions and of what goes along one dimension, for
ops.py."""
import harness
from harness import np, exact, close, tensor_type
from arrays import values, hidden, rounded
from dense_ops import Maker, shapes, moderate, extreme
from math_ops import converted

FLOATS = harness.FLOATS
ALL = tuple(harness.DTYPES)
NUMBERS = tuple(k for k in ALL if k != "i1")
f32, f64 = np.float32, np.float64


# ---- creation ----------------------------------------------------------------


def created(make, f, text, dims, kind, want, operand=""):
    """`text` with a result some of whose dimensions are not known."""
    hide = hidden(make.rng, len(dims))
    sizes = ", ".join(f.size(dims[i]) for i in hide)
    to = tensor_type([None if i in hide else d for i, d in enumerate(dims)],
                     kind)
    y = f.op("%s%s%s -> %s" % (text, " sizes(%s)" % sizes if hide else "",
                               operand, to))
    f.give(y, to, want)


def number(a, kind):
    if kind == "i1":
        return "true" if a else "false"
    if kind in FLOATS:
        return "0x%0*X : %s" % (harness.DTYPES[kind].itemsize * 2,
                                int(harness.raw(a)), kind)
    return "%d : %s" % (int(a), kind)


def add_creation(make, rounds):
    rng = make.rng
    for kind in ALL:
        f = make.new("create_" + kind)
        for dims in shapes(rng, rounds):
            one = values(rng, (), kind, False)
            want = np.empty(dims, one.dtype)
            want[...] = one
            created(make, f, "nabla.full " + number(one, kind), dims, kind,
                    exact(want))
            if dims and kind != "i1":
                at = int(rng.integers(len(dims)))
                index = np.broadcast_to(np.arange(dims[at]).reshape(
                    [-1 if i == at else 1 for i in range(len(dims))]), dims)
                created(make, f, "nabla.iota dim = %d" % at, dims, kind,
                        exact(converted(index, kind)))
            if len(dims) > 1:
                k = int(rng.integers(-3, 4))
                ones = np.broadcast_to(np.tri(*dims[-2:], k), dims)
                text = " diagonal = %d" % k if k else ""
                created(make, f, "nabla.tri" + text, dims, kind,
                        exact(converted(ones, kind)))
        if kind != "i1":
            created(make, f, "nabla.iota dim = 0", (300,), kind,
                    exact(converted(np.arange(300), kind)))
        if kind == "bf16":  # f32 holds no odd index from here on
            add_far_iota(f, 2 ** 24 + 2 ** 16)


def add_far_iota(f, first):
    """Two indices, each rounded once."""
    long = tensor_type((first + 2,), "bf16")
    x = f.op("nabla.iota dim = 0 -> " + long)
    y = f.op("nabla.slice %s starts = [%d] limits = [%d] : %s" % (
        x, first, first + 2, long))
    f.give(y, tensor_type((2,), "bf16"), exact(harness.narrow(
        f32([2 ** 24, 2 ** 24 + 2 ** 17]), "bf16")))


def philox(counter, key):
    """Four words (uint64, below 2^32) of each counter (uint64)."""
    low = np.uint64(0xFFFFFFFF)
    x = [counter & low, counter >> np.uint64(32), counter * np.uint64(0),
         counter * np.uint64(0)]
    k = [key & 0xFFFFFFFF, key >> 32]
    for _ in range(10):
        a, b = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [b >> np.uint64(32) ^ x[1] ^ np.uint64(k[0]), b & low,
             a >> np.uint64(32) ^ x[3] ^ np.uint64(k[1]), a & low]
        k = [k[0] + 0x9E3779B9 & 0xFFFFFFFF, k[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return x


# Of the paper's known answers.
assert [int(w[0]) for w in philox(np.zeros(1, np.uint64), 0)] == [
    0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]


def add_random(make, rounds):
    rng = make.rng
    digits = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}
    for kind in FLOATS:
        f = make.new("random_" + kind)
        for dims in shapes(rng, rounds) + [(7, 300), (3, 2, 5), (2, 3)]:
            seeds = dims[:int(rng.integers(0, len(dims) + 1))]
            if dims == (7, 300):
                seeds = ()
            seed = rng.integers(2 ** 63, size=seeds) - 2 ** 62
            s, s_type = f.argument(np.array(seed, np.int64),
                                   hidden(rng, len(seeds)))
            count = int(np.prod(dims[len(seeds):], dtype=np.int64))
            w = [philox(np.arange(count, dtype=np.uint64), int(one) % 2 ** 64)
                 for one in np.asarray(seed).reshape(-1)]
            w = np.concatenate([np.array(one) for one in w], 1) if w else \
                np.zeros((4, 0), np.uint64)
            u, v = (w[i] << np.uint64(32) | w[i + 1] for i in (0, 2))
            bits = digits[kind]
            x = (u >> np.uint64(64 - bits)).astype(f64) * 2.0 ** -bits
            wide = x if kind == "f64" else x.astype(f32)
            created(make, f, "nabla.uniform " + s, dims, kind,
                    exact(harness.narrow(wide, kind).reshape(dims)),
                    " : " + s_type)
            u = ((u >> np.uint64(11)).astype(f64) + 1) * 2.0 ** -53
            v = (v >> np.uint64(11)).astype(f64) * 2.0 ** -53
            want = (np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)).reshape(
                dims)
            bound = 1e-14 * np.maximum(1, np.abs(want))
            if kind != "f64":
                bound = bound + 0.51 * harness.ulp("f32", np.abs(want))
            created(make, f, "nabla.normal " + s, dims, kind,
                    close(want, rounded(want, bound, kind), kind),
                    " : " + s_type)


# ---- reductions --------------------------------------------------------------


def kept_type(dims, hide, axes, keep, kind):
    left = [(1 if i in axes else None if i in hide else d)
            for i, d in enumerate(dims) if keep or i not in axes]
    return tensor_type(left, kind)


def reduced(a, kind, how, axes, keep):
    axes = tuple(axes)
    terms = int(np.prod([a.shape[i] for i in axes], dtype=np.int64))
    if how in ("any", "all"):
        return exact(np.asarray(getattr(a, how)(axis=axes, keepdims=keep)))
    wide = harness.widen(a)
    if how == "min":
        if kind in FLOATS:
            return exact(harness.narrow(extreme(wide, how, axes, keep), kind))
        top = True if kind == "i1" else np.iinfo(a.dtype).max
        return exact(a.min(axis=axes, keepdims=keep, initial=top))
    if how == "prod" and kind == "i1":
        return exact(np.asarray(a.all(axis=axes, keepdims=keep)))
    if how == "prod" and kind not in FLOATS:
        return exact(a.prod(axis=axes, keepdims=keep, dtype=a.dtype))
    wide = wide.astype(np.longdouble)
    unit = 2.0 ** (-53 if kind == "f64" else -24)
    with np.errstate(all="ignore"):
        if how == "prod":
            want = wide.prod(axis=axes, keepdims=keep).astype(f64)
            bound = (terms + 1) * unit * np.abs(want) + (
                1e-300 if kind == "f64" else 1e-37)
        else:
            want = np.asarray(wide.sum(axis=axes, keepdims=keep)
                              / terms).astype(f64)
            total = np.abs(wide).sum(axis=axes, keepdims=keep).astype(f64)
            bound = (terms + 2) * unit * total / max(terms, 1)
    return close(want, rounded(want, bound, kind), kind)


def add_reduce(make, rounds):
    rng = make.rng
    for kind in ALL:
        hows = ["prod", "min"] + (["mean"] if kind in FLOATS else [])
        hows += ["any", "all"] if kind == "i1" else []
        f = make.new("fold_" + kind)
        for number_, dims in enumerate(shapes(rng, 2 * rounds)):
            a = moderate(rng, dims, kind, number_ % 2)
            hide = hidden(rng, len(dims))
            x, x_type = f.argument(a, hide)
            axes = [int(i) for i in
                    rng.permutation(len(dims))[:rng.integers(len(dims) + 1)]]
            keep = bool(rng.integers(2))
            for how in hows:
                y = f.op("nabla.reduce %s %s dims = %s%s : %s" % (
                    how, x, axes, " keep_dims" if keep else "", x_type))
                f.give(y, kept_type(dims, hide, axes, keep, kind),
                       reduced(a, kind, how, axes, keep))


# ---- along one dimension -------------------------------------------------------


def softmax(wide, axis, log):
    with np.errstate(all="ignore"):
        m = wide.max(axis=axis, keepdims=True, initial=-np.inf)
        e = wide - m
        s = np.exp(e).sum(axis=axis, keepdims=True)
        return e - np.log(s) if log else np.exp(e) / s


def logsumexp(wide, axis, keep):
    with np.errstate(all="ignore"):
        m = wide.max(axis=axis, keepdims=True, initial=-np.inf)
        e = np.where(np.isinf(m), wide == m, np.exp(wide - m))
        s = np.log(e.sum(axis=axis, keepdims=True))
        out = np.where(np.isposinf(m), m, m + s)
    return out if keep else np.asarray(out).squeeze(axis)


def near(want, kind, size, extra=0):
    want = np.asarray(want).astype(f64)
    unit = "f64" if kind == "f64" else "f32"
    with np.errstate(all="ignore"):
        bound = (20 if kind == "f64" else 1) * harness.ulp(unit, np.abs(want))
        bound = rounded(want, bound + size * 2.0 ** -48 + extra, kind)
        if kind == "f16":  # what it cannot hold
            want = np.where(np.abs(want) >= 65520, np.copysign(np.inf, want),
                            want)
    return close(want, bound, kind)


def in_f32(want, kind, size, count):
    """Softmax in f32: the difference to the largest, of up to 2 `size`, is
    rounded, exp and log are within 2 ulps, sums of up to `count` terms."""
    if kind == "f64":
        return 0
    with np.errstate(all="ignore"):
        off = 2.0 ** -24 * (2 * size + count / 64 + 12)
        scale = np.where(np.asarray(want) < 0, 1, np.abs(want))
        return np.nan_to_num(off * scale.astype(f64))


def add_along(make, rounds):
    rng = make.rng
    for kind in NUMBERS:
        f = make.new("along_" + kind)
        for number_, dims in enumerate(shapes(rng, 3 * rounds) + [(3, 400)]):
            if not dims:
                continue
            a = moderate(rng, dims, kind, number_ % 2)
            if a.size:  # ties
                a.reshape(-1)[rng.integers(a.size, size=3)] = a.reshape(-1)[0]
            hide = hidden(rng, len(dims))
            x, x_type = f.argument(a, hide)
            along(make, f, a, x, x_type, hide, kind)


def cumsum(a, axis, kind):
    if kind not in FLOATS:
        return exact(a.cumsum(axis=axis, dtype=a.dtype))
    wide = harness.widen(a).astype(np.longdouble)
    unit = 2.0 ** (-53 if kind == "f64" else -24)
    with np.errstate(all="ignore"):
        want = wide.cumsum(axis=axis).astype(f64)
        total = np.abs(wide).cumsum(axis=axis).astype(f64)
        bound = (a.shape[axis] + 1) * unit * total
    return close(want, rounded(want, bound, kind), kind)


def along(make, f, a, x, x_type, hide, kind, dense_type=None):
    rng, axis = make.rng, int(make.rng.integers(a.ndim))
    dense_type = dense_type or x_type
    keep = bool(rng.integers(2))
    word = " keep_dims" if keep else ""
    wide = harness.widen(a)
    y = f.op("nabla.cumsum %s dim = %d : %s" % (x, axis, x_type))
    f.give(y, dense_type, cumsum(a, axis, kind))
    if a.shape[axis]:
        for op in ("argmax", "argmin"):
            y = f.op("nabla.%s %s dim = %d%s : %s" % (op, x, axis, word, x_type))
            want = getattr(np, op)(wide, axis=axis, keepdims=keep)
            f.give(y, kept_type(a.shape, hide, [axis], keep, "i64"),
                   exact(np.asarray(want, np.int64)))
    if kind not in FLOATS:
        return
    wide = wide.astype(np.longdouble)
    finite = np.where(np.isfinite(wide), np.abs(wide), 0).astype(f64)
    size = finite.max(initial=0)
    for op, log in (("softmax", False), ("log_softmax", True)):
        y = f.op("nabla.%s %s dim = %d : %s" % (op, x, axis, x_type))
        want = softmax(wide, axis, log)
        f.give(y, dense_type, near(want, kind, size,
                                   in_f32(want, kind, size, a.shape[axis])))
    y = f.op("nabla.logsumexp %s dim = %d%s : %s" % (x, axis, word, x_type))
    f.give(y, kept_type(a.shape, hide, [axis], keep, kind),
           near(logsumexp(wide, axis, keep), kind, size))


def cases(rng, rounds):
    make = Maker(rng)
    for add in (add_creation, add_random, add_reduce, add_along):
        add(make, rounds)
    return make.functions
