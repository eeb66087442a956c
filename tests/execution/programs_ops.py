"""Operations of random programs: element by element, along dimensions, created,
moved. `PLANS` has for each operation of dialect/ops.def a function of a Build
(programs_random.py) that chooses operands and attributes; it gives the ids of
the operands and a maker, which writes the operation and computes its results.
A maker decides nothing: shrinking calls it again for other operands."""
import harness
import math_ops
from harness import np
from create_ops import philox
from dense_ops import literal, silu
from programs_leaves import implicit_of, kind_of, numbers, of_implicit
from programs_values import (FLOATS, INTEGERS, Reject, Value, both_ends,
                             decided, is_grid, settle, summed, times, unit, wide)

f32, f64 = np.float32, np.float64
PLANS = {}


def op(name):
    def keep(plan):
        PLANS[name] = plan
        return plan
    return keep


def joined(*values):
    """Dimensions that elementwise operations infer."""
    return [next((d for d in some if d is not None), None)
            for some in zip(*(v.dims for v in values))]


def result(f, text, kind, dims, numbers_and_error):
    data, err = numbers_and_error
    return [Value(f.op(text), kind, dims, data, err)]


# ---- functions of one float --------------------------------------------------


def ulps(kind, want, count=8):
    """What a function may be off by, before it is rounded to its type."""
    if kind == "f64":
        return count * harness.ulp("f64", np.abs(want))
    return 2.02 * harness.ulp("f32", np.abs(want))  # in clusters


STEEP = {"silu": (None, 1.11), "gelu": (None, 1.14)}
RISING = {}
for each, (function, _, how) in math_ops.FUNCTIONS.items():
    if how == "monotone":
        RISING[each] = function
    elif how is not None:
        STEEP[each] = function, how


def function_of(name, kind, a, err):
    """(numbers, error) of a function that rounds."""
    if name in RISING:
        want, off = both_ends(RISING[name], a, err)
        off = np.where((a == 0) & (name == "rsqrt"), np.inf, off)
    elif name == "tan":
        want, off = both_ends(np.tan, a, err)
        # no pole between the ends
        turn = np.floor((a - err) / np.pi + 0.5) != np.floor(
            (a + err) / np.pi + 0.5)
        off = np.where(turn | (err > 1), np.inf, off)
    else:
        function, slope = STEEP[name]
        if name == "silu":
            want = silu(a, "f64")[0]
        elif name.startswith("gelu"):
            want = np.asarray(math_ops.gelu(a), f64)
        else:
            want = function(a)
        off = slope * err
    with np.errstate(all="ignore"):
        off = off + ulps(kind, want)
        if name.startswith("gelu"):
            off = off + np.abs(want) * a * a * 2.0 ** -49 + 1e-320
    return settle(kind, want, np.where(np.isfinite(want), off, np.inf))


def smooth(name):
    def plan(b):
        i = b.pick(lambda v: v.is_float)

        def make(f, x):
            with np.errstate(all="ignore"):
                out = function_of(name, x.kind, x.data, x.err)
            return result(f, "nabla.%s %s : %s" % (name, x.name, x.type()),
                          x.kind, x.dims, out)
        return [i], make
    return plan


for each in list(RISING) + list(STEEP) + ["tan"]:
    op(each)(smooth(each))


def gelu_tanh(a):
    return np.asarray(math_ops.gelu_tanh(a), f64)


@op("gelu")
def plan_gelu(b):
    if b.rng.random() < 0.5:
        return smooth("gelu")(b)
    i = b.pick(lambda v: v.is_float)

    def make(f, x):
        with np.errstate(all="ignore"):
            want = gelu_tanh(x.data)
            off = 1.14 * x.err + ulps(x.kind, want) + 1e-320
            off = off + np.abs(want) * x.data * x.data * 2.0 ** -49
        return result(f, "nabla.gelu %s approximate = tanh : %s" % (
            x.name, x.type()), x.kind, x.dims, settle(x.kind, want, off))
    return [i], make


@op("sqrt")
def plan_sqrt(b):
    i = b.pick(lambda v: v.is_float)

    def make(f, x):
        want, off = both_ends(np.sqrt, x.data, x.err)
        return result(f, "nabla.sqrt %s : %s" % (x.name, x.type()), x.kind,
                      x.dims, settle(x.kind, want, np.where(x.err == 0, 0, off)))
    return [i], make


def stepped(name, function, to=None):
    """Steps of an inexact number are known where both its ends agree."""
    def plan(b):
        i = b.pick(lambda v: v.is_float)

        def make(f, x):
            out = decided(function, x.data, x.err)
            return result(f, "nabla.%s %s : %s" % (name, x.name, x.type()),
                          to or x.kind, x.dims, out)
        return [i], make
    return plan


for each, function in math_ops.EXACT.items():
    op(each)(stepped(each, function))
op("is_nan")(stepped("is_nan", np.isnan, "i1"))
op("is_inf")(stepped("is_inf", np.isinf, "i1"))


def signed(name, function):
    def plan(b):
        i = b.pick(lambda v: v.kind not in ("ui8", "i1"))

        def make(f, x):
            text = "nabla.%s %s : %s" % (name, x.name, x.type())
            if x.packed is not None and name == "neg":
                return negated(f, x, text)
            with np.errstate(all="ignore"):
                if name == "sign":
                    out = decided(math_ops.sign, x.data, x.err)
                else:
                    out = np.asarray(function(x.data)), x.err
            return result(f, text, x.kind, x.dims, out)
        return [i], make
    return plan


def has_signed_scales(encoding):
    """What negates by its scales (docs/COMPILER.md)."""
    return not encoding.attribute().startswith(("#nabla.mx", "#nabla.splat",
                                                "#nabla.dynamic8"))


def negated(f, x, text):
    """Packed where scales have a sign."""
    q = implicit_of(f, x)
    spec = q.spec
    inner = getattr(spec, "scale", None)
    if not isinstance(inner, (str, type(None))) or not has_signed_scales(spec):
        raise Reject
    return [of_implicit(q.then(f.op(text), harness.narrow(
        -harness.widen(q.dense), q.kind), q.index))]


op("abs")(signed("abs", np.abs))
op("neg")(signed("neg", np.negative))
op("sign")(signed("sign", None))


@op("relu")
def plan_relu(b):
    i = b.pick(lambda v: v.is_float)

    def make(f, x):
        want = np.where(np.isnan(x.data), x.data, np.where(x.data > 0, x.data,
                                                           0.0))
        return result(f, "nabla.relu %s : %s" % (x.name, x.type()), x.kind,
                      x.dims, (want, x.err))
    return [i], make


@op("stop_gradient")
def plan_stop_gradient(b):
    i = b.pick(lambda v: v.packed is None)

    def make(f, x):
        return result(f, "nabla.stop_gradient %s : %s" % (x.name, x.type()),
                      x.kind, x.dims, (x.data, x.err))
    return [i], make


@op("not")
def plan_not(b):
    i = b.pick(lambda v: not v.is_float)

    def make(f, x):
        return result(f, "nabla.not %s : %s" % (x.name, x.type()), x.kind,
                      x.dims, (~x.data, x.err))
    return [i], make


# ---- of two ------------------------------------------------------------------


def quotient(x, y):
    a, b, ea, eb = x.data, y.data, x.err, y.err
    with np.errstate(all="ignore"):
        want = a / b
        off = (np.abs(a) * eb + np.abs(b) * ea) / (
            np.abs(b) * (np.abs(b) - eb))
        off = np.where((ea == 0) & (eb == 0), 0, off)
        # the sign of a zero is not known: it depends on the order of a sum
        off = np.where(np.abs(b) > eb, off, np.inf)
    return want, np.where(np.isnan(off), np.inf, off)


def power(x, y):
    """As documented in f64 within 2^-43, of positive numbers."""
    a, b = x.data, y.data
    with np.errstate(all="ignore"):
        want = np.power(a, b)
        off = np.abs(want) * (np.abs(b) * x.err / (np.abs(a) - x.err)
                              + np.abs(np.log(np.abs(a))) * y.err) * 2
        off = off + np.abs(want) * 2.0 ** -42 + ulps(x.kind, want)
        known = (a > 2 * x.err) & (off < 0.5 * np.abs(want))
    return want, np.where(known, off, np.inf)


def floats_of(name, x, y):
    """(numbers, error) of an operation of two floats."""
    a, b, ea, eb = x.data, y.data, x.err, y.err
    exact = (ea == 0) & (eb == 0)
    with np.errstate(all="ignore"):
        if name in ("add", "sub"):
            want, off = (a + b if name == "add" else a - b), ea + eb
        elif name == "mul":
            want, off = a * b, times(a, ea, b, eb)
        elif name == "div":
            want, off = quotient(x, y)
        elif name == "pow":
            return settle(x.kind, *power(x, y))
        elif name == "mod":
            want = math_ops.modulo(a, b)
            off = np.where(exact, 0, np.inf)
        else:
            pick = np.maximum if name == "maximum" else np.minimum
            return math_ops.maximum(a, b, pick), np.maximum(ea, eb)
    return settle(x.kind, want, np.where(exact, 0, off))


def integers_of(name, x, y):
    a, b = x.data, y.data
    off = np.where((x.err == 0) & (y.err == 0), 0, np.inf)
    with np.errstate(all="ignore"):
        if x.kind == "i1":
            function = {"add": np.logical_xor, "mul": np.logical_and,
                        "maximum": np.logical_or, "minimum": np.logical_and,
                        "and": np.logical_and, "or": np.logical_or,
                        "xor": np.logical_xor}[name]
            return function(a, b), off
        if name in ("div", "mod"):
            if y.err.any() or not np.all(b):
                raise Reject
            pick = math_ops.quotient if name == "div" else math_ops.modulo
            return np.asarray(pick(a, b), a.dtype).reshape(a.shape), off
        function = {"add": np.add, "sub": np.subtract, "mul": np.multiply,
                    "maximum": np.maximum, "minimum": np.minimum,
                    "and": np.bitwise_and, "or": np.bitwise_or,
                    "xor": np.bitwise_xor}[name]
        return np.asarray(function(a, b)).astype(a.dtype), off


def binary_make(name):
    def make(f, x, y):
        if x.shape != y.shape or x.kind != y.kind:
            raise Reject
        if name == "mul" and any(
                v.packed is not None and v.packed.index is None
                for v in (x, y)):
            raise Reject  # of a splat: scale_ops.py
        text = "nabla.%s %s, %s : %s, %s" % (name, x.name, y.name, x.type(),
                                             y.type())
        out = (floats_of if x.is_float else integers_of)(name, x, y)
        return result(f, text, x.kind, joined(x, y), out)
    return make


def pair(name, kinds):
    def plan(b):
        i = b.pick(lambda v: v.kind in kinds)
        j = b.like(b.value(i))
        return ([j, i] if b.rng.random() < 0.3 else [i, j]), binary_make(name)
    return plan


ALL = FLOATS + INTEGERS + ("i1",)
for each, kinds in {
        "add": ALL, "mul": ALL, "maximum": ALL, "minimum": ALL,
        "sub": FLOATS + INTEGERS, "div": FLOATS + INTEGERS,
        "mod": FLOATS + INTEGERS, "pow": FLOATS, "and": INTEGERS + ("i1",),
        "or": INTEGERS + ("i1",), "xor": INTEGERS + ("i1",)}.items():
    op(each)(pair(each, kinds))


COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less,
           "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


@op("compare")
def plan_compare(b):
    i = b.pick()
    j = b.like(b.value(i))
    kind = str(b.rng.choice(list(COMPARE)))

    def make(f, x, y):
        if x.shape != y.shape or x.kind != y.kind:
            raise Reject
        want = COMPARE[kind](x.data, y.data)
        off = x.err + y.err
        with np.errstate(all="ignore"):
            far = off == 0
            if x.is_float:
                far = far | (np.abs(x.data - y.data) > off)
        return result(f, "nabla.compare %s %s, %s : %s, %s" % (
            kind, x.name, y.name, x.type(), y.type()), "i1", joined(x, y),
            (want, np.where(far, 0, np.inf)))
    return [i, j], make


@op("select")
def plan_select(b):
    i = b.pick()
    x = b.value(i)
    j, c = b.like(x), b.like(x, "i1")

    def make(f, c, x, y):
        if len({c.shape, x.shape, y.shape}) > 1 or x.kind != y.kind:
            raise Reject
        err = np.where(c.data, x.err, y.err)
        err = np.where(c.err == 0, err, np.inf)
        return result(f, "nabla.select %s, %s, %s : %s, %s, %s" % (
            c.name, x.name, y.name, c.type(), x.type(), y.type()), x.kind,
            joined(c, x, y), (np.where(c.data, x.data, y.data), err))
    return [c, i, j], make


@op("convert")
def plan_convert(b):
    i = b.pick()
    kind = kind_of(b.rng)

    def make(f, x):
        to = harness.tensor_type(x.dims, kind)
        if x.packed is not None and x.kind != "f32":
            raise Reject
        if x.is_float and kind in FLOATS:
            out = settle(kind, x.data, x.err)
        elif x.is_float:
            out = decided(lambda a: math_ops.converted(np.asarray(a), kind),
                          x.data, x.err)
        else:
            out = wide(math_ops.converted(x.data, kind)), x.err
        return result(f, "nabla.convert %s : %s -> %s" % (
            x.name, x.type(), to), kind, x.dims, out)
    return [i], make


# ---- created -----------------------------------------------------------------


def creation(b, kinds):
    return b.shape(), kind_of(b.rng, kinds)


def created(f, text, shape, kind, data, hide, err=None, between=""):
    """`text` with sizes of what is hidden, as the type has `?`."""
    dims = [None if i in hide else d for i, d in enumerate(shape)]
    sizes = [f.size(d) for i, d in enumerate(shape) if i in hide]
    if sizes:
        text += " sizes(%s)" % ", ".join(sizes)
    name = f.op("%s%s -> %s" % (text, between, harness.tensor_type(dims, kind)))
    return [Value(name, kind, dims, data, err)]


@op("constant")
def plan_constant(b):
    shape, kind = creation(b, ALL)
    array = numbers(b.rng, shape, kind)

    def make(f):
        return [Value(f.op("nabla.constant " + literal(array, kind)), kind,
                      shape, wide(array))]
    return [], make


@op("full")
def plan_full(b):
    shape, kind = creation(b, ("f64", "f32", "i64", "i32"))
    hide = b.hidden(len(shape))
    number = int(b.rng.integers(-3, 4))

    def make(f):
        text = "%d.0" % number if kind in FLOATS else str(number)
        data = np.full(shape, number, f64 if kind in FLOATS else
                       harness.DTYPES[kind])
        return created(f, "nabla.full %s : %s" % (text, kind), shape, kind,
                       data, hide)
    return [], make


@op("iota")
def plan_iota(b):
    shape, kind = creation(b, FLOATS + INTEGERS)
    if not shape:
        raise Reject
    hide, dim = b.hidden(len(shape)), int(b.rng.integers(len(shape)))

    def make(f):
        at = np.indices(shape)[dim]
        data = at.astype(f64 if kind in FLOATS else harness.DTYPES[kind])
        return created(f, "nabla.iota dim = %d" % dim, shape, kind, data, hide)
    return [], make


@op("tri")
def plan_tri(b):
    shape, kind = creation(b, ALL)
    if len(shape) < 2:
        raise Reject
    hide, diagonal = b.hidden(len(shape)), int(b.rng.integers(-2, 3))

    def make(f):
        at = np.indices(shape)
        data = at[-1] <= at[-2] + diagonal
        data = data.astype(f64 if kind in FLOATS else harness.DTYPES[kind])
        return created(f, "nabla.tri diagonal = %d" % diagonal, shape, kind,
                       data, hide)
    return [], make


def random_words(shape, seed):
    count = int(np.prod(shape, dtype=np.int64))
    w = philox(np.arange(count, dtype=np.uint64), seed % 2 ** 64)
    return [(w[i] << np.uint64(32) | w[i + 1]).reshape(shape) for i in (0, 2)]


def random_plan(name):
    def plan(b):
        shape, kind = creation(b, FLOATS)
        hide, seed = b.hidden(len(shape)), int(b.rng.integers(2 ** 62))

        def make(f):
            s, _ = f.argument(np.array(seed, np.int64))
            u, v = random_words(shape, seed)
            if name == "uniform":
                bits = {"f64": 53, "f32": 24, "f16": 11, "bf16": 8}[kind]
                data = (u >> np.uint64(64 - bits)).astype(f64) * 2.0 ** -bits
                err = None
            else:
                u = ((u >> np.uint64(11)).astype(f64) + 1) * 2.0 ** -53
                v = (v >> np.uint64(11)).astype(f64) * 2.0 ** -53
                data = np.sqrt(-2 * np.log(u)) * np.cos(2 * np.pi * v)
                data, err = settle(kind, data, 1e-14 * np.maximum(
                    1, np.abs(data)) + ulps(kind, data))
            return created(f, "nabla.%s %s" % (name, s), shape, kind, data,
                           hide, err, " : tensor<i64>")
        return [], make
    return plan


op("uniform")(random_plan("uniform"))
op("normal")(random_plan("normal"))


# ---- along dimensions --------------------------------------------------------


def kept(x, axes, keep, dims):
    return [1 if i in axes else d for i, d in enumerate(dims)
            if keep or i not in axes]


def reduce_floats(how, x, axes, keep):
    """(numbers, error)"""
    a, options = x.data, {"axis": axes, "keepdims": keep}
    terms = int(np.prod([x.shape[i] for i in axes]))
    with np.errstate(all="ignore"):
        if how in ("max", "min"):
            ends = a.max if how == "max" else a.min
            return (ends(**options, initial=-np.inf if how == "max" else np.inf),
                    x.err.max(**options, initial=0))
        if how == "prod":
            want, size = a.prod(**options), np.abs(a).prod(**options)
            top = (np.abs(a) + x.err).prod(**options)
            off = top - size + (terms + 32) * unit(x.kind) * top
            exact = not x.err.any() and (terms <= 1 or (
                is_grid(a) and terms <= 3 and np.abs(a).max(initial=0) <= 4))
            # parts of a product may leave the range that the whole is in
            large = (np.maximum(np.abs(a) + x.err, 1)).prod(**options)
            small = np.where(a == 0, 1, np.minimum(np.abs(a), 1)).prod(**options)
            lost = (large > 1e37) | (small < 1e-37)
            return settle(x.kind, want, 0 if exact else np.where(
                lost, np.inf, off + 1e-300))
        total, carried = (v.sum(**options) for v in (np.abs(a), x.err))
        want = a.sum(**options)
        if how == "sum":
            return summed(x.kind, want, carried, total, terms, is_grid(a))
        if not terms:
            return want / 0.0, np.zeros(want.shape)
        return summed(x.kind, want / terms, carried / terms, total / terms,
                      terms)


def reduce_integers(how, x, axes, keep):
    a, options = x.data, {"axis": axes, "keepdims": keep}
    off = x.err.max(**options, initial=0)
    if a.dtype == bool:
        want = {"sum": lambda: a.sum(**options) % 2 == 1,
                "max": lambda: a.any(**options), "any": lambda: a.any(**options),
                "prod": lambda: a.all(**options),
                "min": lambda: a.all(**options),
                "all": lambda: a.all(**options)}[how]()
        return want, off
    info = np.iinfo(a.dtype)
    if how in ("max", "min"):
        ends = a.max if how == "max" else a.min
        return ends(**options, initial=info.min if how == "max" else info.max
                    ), off
    fold = a.sum if how == "sum" else a.prod
    with np.errstate(all="ignore"):
        return fold(**options, dtype=a.dtype), off


@op("reduce")
def plan_reduce(b):
    i = b.pick()
    x = b.value(i)
    kinds = ["sum", "max", "min", "prod"]
    kinds += ["mean"] if x.is_float else []
    kinds += ["any", "all"] if x.kind == "i1" else []
    how = str(b.rng.choice(kinds))
    some = b.rng.random(x.rank) < 0.5
    axes = () if b.rng.random() < 0.35 else tuple(
        int(i) for i in np.flatnonzero(some))
    keep = b.rng.random() < 0.3

    def make(f, x):
        if x.rank <= max(axes, default=-1):
            raise Reject
        with np.errstate(all="ignore"):
            out = (reduce_floats if x.is_float else reduce_integers)(
                how, x, axes, keep)
        return result(f, "nabla.reduce %s %s dims = %s%s : %s" % (
            how, x.name, list(axes), " keep_dims" if keep else "", x.type()),
            x.kind, kept(x, axes, keep, x.dims), out)
    return [i], make


def arg_plan(name):
    def plan(b):
        i = b.pick(lambda v: v.rank and v.kind != "i1" and v.data.size)
        dim, keep = int(b.rng.integers(b.value(i).rank)), b.rng.random() < 0.3

        def make(f, x):
            if x.rank <= dim or not x.shape[dim] or x.kind == "i1":
                raise Reject
            a = x.data
            if x.is_float and np.isnan(a).any():
                raise Reject
            at = (np.argmax if name == "argmax" else np.argmin)(
                a, axis=dim, keepdims=True)
            best = np.take_along_axis(a, at, dim)
            reach = x.err + np.take_along_axis(x.err, at, dim)
            with np.errstate(all="ignore"):
                clear = (np.abs(a.astype(f64) - best) > reach) | (reach == 0)
            np.put_along_axis(clear, at, True, dim)
            err = np.where(clear.all(axis=dim, keepdims=True), 0, np.inf)
            if not keep:
                at, err = at.squeeze(dim), err.squeeze(dim)
            return result(f, "nabla.%s %s dim = %d%s : %s" % (
                name, x.name, dim, " keep_dims" if keep else "", x.type()),
                "i64", kept(x, (dim,), keep, x.dims), (at, err))
        return [i], make
    return plan


op("argmax")(arg_plan("argmax"))
op("argmin")(arg_plan("argmin"))


@op("cumsum")
def plan_cumsum(b):
    i = b.pick(lambda v: v.rank and v.kind != "i1")
    dim = int(b.rng.integers(b.value(i).rank))

    def make(f, x):
        if x.rank <= dim or x.kind == "i1":
            raise Reject
        a = x.data
        with np.errstate(all="ignore"):
            if x.is_float:
                out = summed(x.kind, a.cumsum(axis=dim),
                             x.err.cumsum(axis=dim),
                             np.abs(a).cumsum(axis=dim), x.shape[dim],
                             is_grid(a))
            else:
                out = (a.cumsum(axis=dim, dtype=a.dtype),
                       np.maximum.accumulate(x.err, axis=dim))
        return result(f, "nabla.cumsum %s dim = %d : %s" % (
            x.name, dim, x.type()), x.kind, x.dims, out)
    return [i], make


def exponentials(name, x, dim):
    """(numbers, error) of what divides by a sum of exponentials: in f64, or in
    clusters in f32."""
    a = x.data
    if not x.shape[dim] or not np.all(np.isfinite(a)):
        raise Reject
    worst = x.err.max(axis=dim, keepdims=True)
    top = a.max(axis=dim, keepdims=True)
    e = np.exp(a - top)
    total = e.sum(axis=dim, keepdims=True)
    tiny = (x.shape[dim] + 16) * 2.0 ** (-52 if x.kind == "f64" else -23)
    with np.errstate(all="ignore"):
        if name == "softmax":
            want = e / total
            off = want * np.expm1(2 * worst) + want * tiny * (
                1 + np.abs(a - top))
        elif name == "log_softmax":
            want = a - top - np.log(total)
            off = x.err + worst + tiny * (np.abs(a) + np.abs(top) + 1)
        else:
            want = top + np.log(total)
            off = worst + tiny * (np.abs(top) + 1)
        return settle(x.kind, want, off + ulps(x.kind, want))


def along_plan(name):
    def plan(b):
        i = b.pick(lambda v: v.rank and v.is_float)
        dim = int(b.rng.integers(b.value(i).rank))
        keep = name == "logsumexp" and b.rng.random() < 0.3

        def make(f, x):
            if x.rank <= dim:
                raise Reject
            want, err = exponentials(name, x, dim)
            dims = x.dims
            if name == "logsumexp":
                dims = kept(x, (dim,), keep, dims)
                if not keep:
                    want, err = want.squeeze(dim), err.squeeze(dim)
            return result(f, "nabla.%s %s dim = %d%s : %s" % (
                name, x.name, dim, " keep_dims" if keep else "", x.type()),
                x.kind, dims, (want, err))
        return [i], make
    return plan


for each in ("softmax", "log_softmax", "logsumexp"):
    op(each)(along_plan(each))
