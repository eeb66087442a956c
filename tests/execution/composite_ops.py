"""Cases of the composites on dense arrays, for ops.py: linear, norms, rope,
attention, against their definitions in float64."""
import itertools

import harness
from harness import np, close, tensor_type
import arrays
from arrays import hidden, rounded, values
from dense_ops import Maker, moderate

f64 = np.float64
FLOATS = harness.FLOATS
UNIT = {"f64": 2.0 ** -53, "f32": 2.0 ** -24, "f16": 2.0 ** -24,
        "bf16": 2.0 ** -24}  # of the type that is computed in


def wide(array):
    return harness.widen(array).astype(f64)


def dims_of(text):
    return [None if d == "?" else int(d)
            for d in text[len("tensor<"):].split("x")[:-1]]


def known(*sizes):
    """The first of sizes that have to agree that a type tells, else None."""
    return next((s for s in sizes if s is not None), None)


def finish(f, y, dims, want, bound, kind):
    """A result that was computed in f32 or f64 and rounded once."""
    with np.errstate(all="ignore"):
        bound = rounded(want, bound, kind)
    f.give(y, tensor_type(dims, kind), close(want, bound, kind))


# ---- linear ------------------------------------------------------------------


def linear_of(f, kind, x, x_type, a, w, w_type, dense, b=None):
    """y = x w^T + b; `dense` is what w stands for, b is (name, type, array)."""
    more = ", " + b[0] if b else ""
    types = ", " + b[1] if b else ""
    y = f.op("nabla.linear %s, %s%s : %s, %s%s" % (x, w, more, x_type, w_type,
                                                   types))
    k = dense.shape[1]
    want = wide(a) @ wide(dense).T
    total = np.abs(wide(a)) @ np.abs(wide(dense)).T
    bound = (k + 16) * UNIT[kind] * total
    packed = "implicit" in w_type
    if b:
        if packed:  # where no kernel adds it, the product rounds before
            bound = rounded(want, bound, kind)
        want = want + wide(b[2])
        bound = bound + 2 * UNIT[kind] * (np.abs(want) + bound)
    n = dense.shape[0] if packed else dims_of(w_type)[0]
    if b and "implicit" not in b[1]:
        n = known(n, *dims_of(b[1]))
    finish(f, y, dims_of(x_type)[:-1] + [n], want, bound, kind)


def add_linear(make, rounds):
    rng = make.rng
    for kind in FLOATS:
        f = make.new("linear_" + kind)
        sizes = [((3, 8), 5), ((7,), 1), ((2, 0, 4), 3), ((2, 3, 0), 2),
                 ((1, 1), 1), ((2, 2, 2, 9), 0)]
        for dims, n in sizes * rounds:
            a, w, b = (values(rng, s, kind) for s in (dims, (n, dims[-1]),
                                                      (n,)))
            x, x_type = f.argument(a, hidden(rng, a.ndim))
            v, v_type = f.argument(w, hidden(rng, 2))
            c, c_type = f.argument(b, hidden(rng, 1))
            linear_of(f, kind, x, x_type, a, v, v_type, w)
            linear_of(f, kind, x, x_type, a, v, v_type, w, (c, c_type, b))


# ---- norms -------------------------------------------------------------------


def norm_of(a, parameters, eps, centered, unit):
    """What a norm gives, and how far off it may be."""
    size = a.shape[-1]

    def mean(x):
        return x.sum(axis=-1, keepdims=True) / np.float64(size)

    with np.errstate(all="ignore"):
        middle = mean(a) if centered else 0
        lost = (size + 3) * unit * mean(np.abs(a))
        lost = lost + 2 * unit * np.abs(a - middle) if centered else 0
        c = a - middle
        square = mean(c * c) + eps
        scale = 1 / np.sqrt(square)
        y = c * scale
        bound = lost * scale * 2 + np.abs(y) * (size + 16) * unit
        bound = bound + np.abs(y) * (lost * scale) ** 2 if centered else bound
        for i, p in enumerate(parameters):
            y = y * p if i == 0 else y + p
            bound = bound * np.abs(p) if i == 0 else bound
            bound = bound + 2 * unit * np.abs(y)
    return y, bound


def norm(f, op, kind, x, x_type, a, parameters, eps):
    names = "".join(", " + p[0] for p in parameters)
    types = "".join(", " + p[1] for p in parameters)
    y = f.op("nabla.%s %s%s eps = %.17e : %s%s" % (
        op, x, names, eps, x_type, types))
    dense = [wide(p[2]) for p in parameters]
    want, bound = norm_of(wide(a), dense, eps, op == "layer_norm", UNIT[kind])
    dims = dims_of(x_type)
    sizes = [dims_of(p[1])[0] if "tensor" in p[1] else a.shape[-1]
             for p in parameters]
    finish(f, y, dims[:-1] + [known(dims[-1], *sizes)], want, bound, kind)


def add_norms(make, rounds):
    rng = make.rng
    for kind, op in itertools.product(FLOATS, ("rms_norm", "layer_norm")):
        f = make.new("%s_%s" % (op, kind))
        for dims in [(5,), (3, 64), (2, 0, 4), (4, 0), (1, 1),
                     (2, 3, 33)] * rounds:
            a = moderate(rng, dims, kind, len(dims) == 3)
            x, x_type = f.argument(a, hidden(rng, a.ndim))
            given = []
            for _ in range(3 if op == "layer_norm" else 2):
                norm(f, op, kind, x, x_type, a, given, 1e-5)
                p = values(rng, dims[-1:], kind)
                given.append(f.argument(p, hidden(rng, 1)) + (p,))
        a = values(rng, (4, 8), kind)
        a[1:3] = a[1, 0]  # a line without spread
        x, x_type = f.argument(a)
        norm(f, op, kind, x, x_type, a, [], 1e-2)


# ---- rope --------------------------------------------------------------------


def turned(a, positions, dim, pairs, theta, unit):
    """a with its pairs turned, and the bound."""
    half = a.shape[-1] // 2
    if pairs == "halves":
        first, second = a[..., :half], a[..., half:]
    else:
        first, second = a[..., 0::2], a[..., 1::2]
    i = np.arange(half, dtype=np.longdouble)
    angle = positions.astype(np.longdouble)[:, None] * np.longdouble(
        theta) ** (-2 * i / max(a.shape[-1], 1))
    shape = [1] * a.ndim
    shape[dim], shape[-1] = angle.shape
    angle = angle.reshape(shape)
    cosine, sine = (np.cos(angle).astype(f64), np.sin(angle).astype(f64))
    y = np.zeros(a.shape, f64)
    parts = first * cosine - second * sine, first * sine + second * cosine
    if pairs == "halves":
        y[..., :half], y[..., half:] = parts
    else:
        y[..., 0::2], y[..., 1::2] = parts
    size = np.abs(first) + np.abs(second)
    far = np.abs(angle).astype(f64) * 2.0 ** -48  # the angle itself, in f64
    off = size * (4 * unit + far)
    bound = np.zeros(a.shape, f64)
    if pairs == "halves":
        bound[..., :half], bound[..., half:] = off, off
    else:
        bound[..., 0::2], bound[..., 1::2] = off, off
    return y, bound


def add_rope(make, rounds):
    rng = make.rng
    sizes = [((3, 8), 0), ((2, 4, 6), 1), ((5, 2, 4), 0), ((0, 2), 0),
             ((2, 3, 0), 1), ((1, 2, 1, 2), 2)]
    for kind, pairs in itertools.product(FLOATS, ("interleaved", "halves")):
        f = make.new("rope_%s_%s" % (kind, pairs))
        few = sizes if kind == "f32" else sizes[::2]
        for number, (dims, dim) in enumerate(few * rounds):
            a = values(rng, dims, kind)
            x, x_type = f.argument(a, hidden(rng, a.ndim))
            offset, theta = ((0, 1e4), (7, 500000.0))[number % 2]
            p = np.arange(dims[dim]) + offset
            y = f.op("nabla.rope %s %s dim = %d theta = %.17e offset = %d : %s" % (
                pairs, x, dim, theta, offset, x_type))
            finish(f, y, dims_of(x_type), *turned(
                wide(a), p, dim, pairs, theta, UNIT[kind]), kind)
            whole = "i64" if number % 2 else "i32"
            p = rng.integers(0, 100000, dims[dim]).astype(harness.DTYPES[whole])
            given, p_type = f.argument(p, hidden(rng, 1))
            y = f.op("nabla.rope %s %s, %s dim = %d : %s, %s" % (
                pairs, x, given, dim, x_type, p_type))
            known_dims = dims_of(x_type)
            known_dims[dim] = known(known_dims[dim], *dims_of(p_type))
            finish(f, y, known_dims, *turned(
                wide(a), p, dim, pairs, 1e4, UNIT[kind]), kind)


# ---- attention ---------------------------------------------------------------


def softmax(s):
    with np.errstate(all="ignore"):
        e = np.exp(s - s.max(axis=-1, keepdims=True, initial=-np.inf))
        return e / e.sum(axis=-1, keepdims=True)


def attended(q, k, v, mask, scale, causal, unit):
    """softmax(q k^T scale + mask) v in f64 with the bound; one head of k and v
    for each group of heads of q."""
    if q.ndim > 2 and k.shape[-3]:
        share = q.shape[-3] // k.shape[-3]
        k, v = np.repeat(k, share, -3), np.repeat(v, share, -3)
    t, s = q.shape[-2], k.shape[-2]
    scores = q @ np.swapaxes(k, -1, -2) * scale
    off = (q.shape[-1] + 20) * unit * scale * (
        np.abs(q) @ np.swapaxes(np.abs(k), -1, -2))
    if mask is not None and mask.dtype == bool:
        scores = np.where(mask, scores, -np.inf)
    elif mask is not None:
        scores = scores + wide(mask)
        off = off + 2 * unit * (np.abs(scores) + np.abs(wide(mask)))
    if causal:
        seen = np.arange(s)[None, :] - s <= np.arange(t)[:, None] - t
        scores = np.where(seen, scores, -np.inf)
    p = softmax(scores)
    off = off + 2 * unit * np.where(np.isfinite(scores), np.abs(scores), 0)
    relative = 2 * off.max(axis=-1, keepdims=True, initial=0) + 8 * unit
    return p @ v, (relative + (s + 16) * unit) * (p @ np.abs(v)) * 1.01


ATTENTIONS = [  # q, k, v
    ((4, 8), (6, 8), (6, 3)), ((2, 3, 4), (2, 5, 4), (2, 5, 4)),
    ((4, 3, 8), (2, 3, 8), (2, 3, 8)), ((2, 6, 1, 4), (2, 3, 7, 4), (2, 3, 7, 5)),
    ((1, 4, 5, 2), (1, 1, 5, 2), (1, 1, 5, 2)), ((2, 0, 4), (1, 3, 4), (1, 3, 2)),
    ((2, 3, 4), (2, 0, 4), (2, 0, 4)), ((3, 2, 0), (3, 2, 0), (3, 2, 2)),
    ((5, 4), (3, 4), (3, 4)), ((0, 2, 4), (0, 2, 4), (0, 2, 3)),
]


def mask_of(rng, q, k, kind, number):
    """None, of i1, or of floats; of T x S or of all dimensions."""
    if number % 3 == 0:
        return None
    shape = q.shape[:-1] + (k.shape[-2],)
    if number % 2:
        shape = shape[-2:]
    if number % 3 == 1:
        return rng.random(shape) < 0.8
    return harness.narrow(rng.standard_normal(shape).astype(np.float32), kind)


def attention(f, rng, kind, number, q, k, v, names, types):
    mask = mask_of(rng, q, k, kind, number)
    causal, scale = number % 4 > 1, (None, 0.3)[number // 2 % 2]
    text = ", ".join(names)
    if mask is not None:
        m, m_type = f.argument(mask, hidden(rng, mask.ndim))
        text += " mask(%s : %s)" % (m, m_type)
    unknown = all("x?x%s>" % kind in t for t in types[:2])
    if scale is None and unknown:
        scale = 0.25
    if scale is not None:
        text += " scale = %.17e" % scale
    if causal:
        text += " causal"
    heads = [dims_of(t)[-1] if "tensor" in t else None for t in types]
    direct = kind == "f32" and number % 2 and (heads[0] or heads[1]) and heads[2]
    y = f.op("nabla.%sattention %s : %s" % ("fused_" if direct else "", text,
                                            ", ".join(types)))
    if scale is None:
        scale = 1 / np.sqrt(max(q.shape[-1], 1))
    dense = [dims_of(t) if "tensor" in t else a.shape
             for t, a in zip(types, (q, k, v))]
    dims = list(dense[0][:-1]) + [dense[2][-1]]
    for i in range(2, len(dims) + 1):  # from the end
        if i > 3:
            dims[-i] = known(*(d[-i] for d in dense))
        if mask is not None and i <= mask.ndim:
            dims[-i] = known(dims[-i], dims_of(m_type)[-i])
    finish(f, y, dims, *attended(
        wide(q), wide(k), wide(v), mask, scale, causal, UNIT[kind]), kind)


def add_attention(make, rounds):
    rng = make.rng
    for kind in FLOATS:
        f = make.new("attention_" + kind)
        for number, shapes in enumerate(ATTENTIONS * rounds):
            if number % 4 == 3:
                f = make.new("attention_" + kind)
            given = [values(rng, s, kind) for s in shapes]
            names, types = zip(*(f.argument(a, hidden(rng, a.ndim))
                                 for a in given))
            for _ in range(2 if kind == "f32" else 1):
                number += 5
                attention(f, rng, kind, number, *given, names, types)


def cases(rng, rounds):
    make = Maker(rng)
    for add in (add_linear, add_norms, add_rope, add_attention):
        add(make, rounds)
    return make.functions
