"""Cases of convolutions and pools on dense and implicit arrays, for ops.py;
numpy's side goes through the positions of a window."""
import harness
from harness import np, close, exact, tensor_type
import arrays
from arrays import values, hidden, rounded
from dense_ops import ALL, moderate
from math_ops import maximum
from implicit_dots import KINDS
from shape_ops import Maker, padded

f64 = np.float64
UNIT = {"f64": 2.0 ** -53}


def windows_of(size, window, stride, dilation):
    reach = (window - 1) * dilation + 1 if window else 0
    if size == 0 or reach > size:
        return 0
    return (size - reach) // stride + 1


def at_window(a, first, position, counts, strides, dilations):
    """Of every window its element at a position; the first `first` dimensions
    are taken whole."""
    cut = [slice(None)] * first
    for p, n, s, d in zip(position, counts, strides, dilations):
        cut.append(slice(p * d, p * d + max(n - 1, 0) * s + (n > 0), s))
    return a[tuple(cut)]


def random_padding(rng, size):
    low = int(rng.integers(-min(size, 2), 4))
    return low, max(int(rng.integers(-2, 4)), -size - low)


def lists_text(**lists):
    return "".join(" %s = %s" % (key, value) for key, value in lists.items()
                   if value)


# ---- conv_general ----


class Convolution:
    """Random attributes; shapes are of batch, feature and spatial ones."""

    def __init__(self, rng, spatial):
        self.groups = int(rng.choice([1, 1, 2, 3]))
        features, outputs = (int(n) for n in rng.integers(1, 4, 2))
        self.x = [int(rng.integers(1, 3)), features * self.groups]
        self.k = [outputs * self.groups, features]
        self.low, self.high = [], []
        for _ in range(spatial):
            self.x.append(int(rng.integers(1, 9)))
            self.k.append(int(rng.integers(1, 4)))
        self.strides, self.in_by, self.k_by = (
            [int(n) for n in rng.integers(1, 3, spatial)] for _ in range(3))
        for size, by in zip(self.x[2:], self.in_by):
            low, high = random_padding(rng, (size - 1) * by + 1)
            self.low.append(low)
            self.high.append(high)
        rank = spatial + 2
        plain = rng.random() < 0.3
        self.orders = [list(range(rank)) if plain else
                       [int(i) for i in rng.permutation(rank)]
                       for _ in range(3)]

    def text(self):
        a, b, c = self.orders
        return lists_text(strides=self.strides, low=self.low, high=self.high,
                          input_dilation=self.in_by, kernel_dilation=self.k_by,
                          groups=self.groups if self.groups > 1 else None,
                          input_dims=a, kernel_dims=b, output_dims=c)

    def apply(self, x, k):
        """Of wide arrays in canonical order, with the sum of |x||k|."""
        none = [0, 0]
        x = padded(x, x.dtype.type(0), none + self.low, none + self.high,
                   none + [b - 1 for b in self.in_by])
        counts = [windows_of(*args) for args in zip(
            x.shape[2:], k.shape[2:], self.strides, self.k_by)]
        g, n = self.groups, x.shape[0]
        out = np.zeros((n, g, k.shape[0] // g, *counts), x.dtype)
        for at in np.ndindex(*k.shape[2:]):
            part = at_window(x, 2, at, counts, self.strides, self.k_by)
            part = part.reshape(n, g, k.shape[1], *counts)
            row = k[(slice(None), slice(None), *at)].reshape(
                g, k.shape[0] // g, k.shape[1])
            with np.errstate(all="ignore"):
                out += np.einsum("ngi...,goi->ngo...", part, row)
        return out.reshape(n, k.shape[0], *counts)


def canonical(a, order):
    return a.transpose(order)


def placed(dims, order):
    """`dims`, canonical, as an array of this order has them."""
    out = [None] * len(order)
    for i, at in enumerate(order):
        out[at] = dims[i]
    return out


def convolved(f, c, a, k, x, k_name, types, kind, hides):
    """The op, its type, its values and their bound."""
    y = f.op("nabla.conv_general %s, %s%s : %s, %s" % (
        x, k_name, c.text(), *types))
    wide = [canonical(harness.widen(v).astype(np.longdouble), order)
            for v, order in zip((a, k), c.orders)]
    want = c.apply(*wide).astype(f64)
    total = c.apply(*(np.abs(w) for w in wide)).astype(f64)
    terms = int(np.prod(c.k[1:]))
    bound = rounded(want, (terms + 32) * UNIT.get(kind, 2.0 ** -24) * total,
                    kind)
    dims = list(want.shape)
    for i in range(len(dims)):
        sides = [(0, i)] if i == 0 else [(1, 0)] if i == 1 else [(0, i), (1, i)]
        if any(c.orders[s][d] in hides[s] for s, d in sides):
            dims[i] = None
    back = np.argsort(c.orders[2])
    return (y, tensor_type(placed(dims, c.orders[2]), kind),
            want.transpose(back), bound.transpose(back))


def convolve(f, c, a, k, x, k_name, types, kind, hides):
    """The op and its check."""
    y, text, want, bound = convolved(f, c, a, k, x, k_name, types, kind, hides)
    f.give(y, text, close(want, bound, kind))


def add_conv(make, f, kind, spatial, number):
    rng = make.rng
    c = Convolution(rng, spatial)
    if number % 5 == 4:
        c.x[int(rng.choice([0] + list(range(2, spatial + 2))))] = 0
        c.low, c.high = [[max(n, 0) for n in side] for side in (c.low, c.high)]
    a = moderate(rng, placed(c.x, c.orders[0]), kind, number % 3 == 2)
    k = values(rng, placed(c.k, c.orders[1]), kind)
    hides = [hidden(rng, a.ndim), hidden(rng, a.ndim)]
    x, x_type = f.argument(a, hides[0])
    name, k_type = f.argument(k, hides[1])
    convolve(f, c, a, k, x, name, (x_type, k_type), kind, hides)


# ---- pool ----


def pooled(how, a, kind, window, strides, dilation, low, high, count_padding):
    """A check of the pool in numpy."""
    wide = harness.widen(a)
    is_float = kind in harness.FLOATS
    if is_float and how in ("sum", "avg"):
        wide = wide.astype(np.longdouble)
    fill = 0
    if how in ("max", "min"):
        sign = 1 if how == "min" else -1
        info = None if is_float or kind == "i1" else np.iinfo(a.dtype)
        fill = (sign * np.inf if is_float else sign > 0 if info is None else
                info.max if sign > 0 else info.min)

    def over(array, fill, fold):
        array = padded(array, fill, low, high, [0] * a.ndim)
        counts = [windows_of(*args) for args in zip(array.shape, window,
                                                    strides, dilation)]
        out = np.full(counts, fill, array.dtype)
        for at in np.ndindex(*window):
            with np.errstate(all="ignore"):
                out = fold(out, at_window(array, 0, at, counts, strides,
                                          dilation))
        return out
    folds = {"max": lambda a, b: maximum(a, b, np.maximum),
             "min": lambda a, b: maximum(a, b, np.minimum)}
    fold = folds.get(how, np.logical_xor if kind == "i1" else np.add)
    want = over(wide, wide.dtype.type(fill), fold)
    if how in folds:
        return want.shape, exact(harness.narrow(want, kind) if is_float else
                                 want.astype(a.dtype))
    if not is_float:
        return want.shape, exact(want.astype(a.dtype))
    total = over(np.abs(wide), wide.dtype.type(0), np.add)
    number = np.full(want.shape, float(np.prod(window)))
    if not count_padding:
        number = over(np.ones(a.shape), 0.0, np.add)
    terms = float(np.prod(window)) + 2
    if how == "avg":
        with np.errstate(all="ignore"):
            want, total = want / number, total / number
    want, total = want.astype(f64), total.astype(f64)
    bound = terms * UNIT.get(kind, 2.0 ** -24) * total
    return want.shape, close(want, rounded(want, bound, kind), kind)


def add_pool(make, f, kind, dims, number):
    rng = make.rng
    how = ("sum", "max", "min", "avg")[number % (4 if kind in harness.FLOATS
                                                 else 3)]
    a = moderate(rng, dims, kind, number % 2)
    hide = hidden(rng, len(dims))
    x, x_type = f.argument(a, hide)
    window, strides, dilation = ([int(n) for n in rng.integers(1, 4, len(dims))]
                                 for _ in range(3))
    low, high = [list(side) for side in zip(*(random_padding(rng, d)
                                              for d in dims))] or ([], [])
    count_padding = how == "avg" and bool(rng.integers(2))
    y = f.op("nabla.pool %s %s window = %s%s%s : %s" % (
        how, x, window, lists_text(strides=strides, dilation=dilation, low=low,
                                   high=high),
        " count_padding" if count_padding else "", x_type))
    shape, check = pooled(how, a, kind, window, strides, dilation, low, high,
                          count_padding)
    f.give(y, tensor_type([None if i in hide else d
                           for i, d in enumerate(shape)], kind), check)


SHAPES = ((), (1,), (0,), (9,), (3, 0, 2), (4, 6), (3, 1, 5), (2, 3, 4, 2))


def add_dense(make, rounds):
    for kind in ALL:
        f = make.new("pool_" + kind)
        for number, dims in enumerate(SHAPES * (2 * rounds)):
            add_pool(make, f, kind, dims, number + number // len(SHAPES))
        if kind not in harness.FLOATS:
            continue
        f = make.new("conv_" + kind)
        for number in range(10 * rounds):
            add_conv(make, f, kind, (0, 1, 2, 3)[number % 4], number)


# ---- implicit arrays ----


def add_implicit(make, rounds):
    rng = make.rng
    for spec in arrays.specs() + [arrays.Splat(0.375)]:
        for _ in range(rounds):
            kind = KINDS[len(make.functions) % 3]
            f = make.new("windows_%s" % spec)
            f.pairs += [(str(spec), op) for op in ("conv_general", "pool")]
            c = Convolution(rng, 1)
            q = arrays.implicit(f, rng, spec, placed(c.k, c.orders[1]), kind)
            a = values(rng, placed(c.x, c.orders[0]), kind)
            x, x_type = f.argument(a)
            convolve(f, c, a, q.dense, x, q.value, (x_type, q.type()), kind,
                     ([], []))
            p = arrays.implicit(f, rng, spec, placed(c.x, c.orders[0]), kind)
            convolve(f, c, p.dense, q.dense, p.value, q.value,
                     (p.type(), q.type()), kind, ([], []))
            t = p.transpose([2, 0, 1])
            ones, none = [1] * 3, [0] * 3
            shape, check = pooled("max", t.dense, kind, [1, 2, 1], ones, ones,
                                  none, [0, 1, 0], False)
            y = f.op("nabla.pool max %s window = [1, 2, 1] high = [0, 1, 0] : %s"
                     % (t.value, t.type()))
            f.give(y, tensor_type(shape, kind), check)


def cases(rng, rounds):
    make = Maker(rng, "w")
    add_dense(make, rounds)
    add_implicit(make, rounds)
    return make.functions
