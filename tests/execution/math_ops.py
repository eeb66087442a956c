"""Cases of the operations of NablaMath.td on dense arrays, for ops.py. What is
not exact is compared with numpy's float64 (longdouble for f64)."""
import math

import harness
from harness import np, exact, close, tensor_type
from arrays import values, hidden, rounded
import arrays
from dense_ops import Maker, shapes, joined, moderate

FLOATS = harness.FLOATS
ALL = tuple(harness.DTYPES)
INTEGERS = ("i64", "i32", "i8", "ui8")
SIGNED = FLOATS + ("i64", "i32", "i8")
NUMBERS = FLOATS + INTEGERS
f32, f64 = np.float32, np.float64


def erf(x):
    return np.vectorize(math.erf, otypes=[f64])(x.astype(f64))


def erfc(x):
    return np.vectorize(math.erfc, otypes=[f64])(x.astype(f64))


def sigmoid(x):
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + e), e / (1 + e))


def gelu(x):
    return np.where(x < -40, -0.0, 0.5 * x * erfc(-x / np.sqrt(f64(2))))


def gelu_tanh(x):
    u = np.sqrt(2 / np.longdouble(np.pi)) * (x + 0.044715 * x * x * x)
    return np.where(x < -40, -0.0, x * sigmoid(2 * u))


# Function of wide numbers; bound in ulps of f64; for random programs whether it
# is monotone, its largest slope, or None: they have a plan of its own. Of
# narrower types: 4 ulps of f32, and one rounding.
FUNCTIONS = {
    "exp": (np.exp, 2, "monotone"), "log": (np.log, 2, "monotone"),
    "log1p": (np.log1p, 4, "monotone"),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2, "monotone"),
    "sin": (np.sin, 2, 1.0), "cos": (np.cos, 2, 1.0), "tan": (np.tan, 4, None),
    "acos": (np.arccos, 2, "monotone"), "atanh": (np.arctanh, 6, "monotone"),
    "tanh": (np.tanh, 6, "monotone"), "erf": (erf, 4, "monotone"),
    "sigmoid": (sigmoid, 4, "monotone"), "sqrt": (np.sqrt, 0.5, None),
}
EXACT = {"floor": np.floor, "ceil": np.ceil, "round": np.rint,
         "trunc": np.trunc}


def check_function(function, ulps, a, kind, spread=0):
    wide = harness.widen(a)
    with np.errstate(all="ignore"):
        want = function(wide.astype(f64)).astype(f64)
        size = np.abs(want)
        if kind == "f64":
            bound = ulps * harness.ulp("f64", size) + spread
            # numpy's own float64 is not exact
            bound = bound + harness.ulp("f64", size)
        else:
            # clusters compute functions of f32 within 2 ulps
            bound = rounded(want, 2.01 * harness.ulp("f32", size) + spread,
                            kind)
        if kind != "f64":  # what overflows the type
            want = np.where(np.isfinite(want),
                            np.where(np.isfinite(harness.widen(harness.narrow(
                                want.astype(f32), kind))), want,
                                np.copysign(np.inf, want)), want)
    return close(want, bound, kind)


def spread_values(rng, a, kind):
    """Half of the elements in places of their own scale."""
    wide = harness.widen(a).astype(f64).reshape(-1)
    if wide.size > 8:
        at = slice(0, wide.size // 2)
        scale = np.exp2(rng.integers(-30, 12, wide[at].size))
        wide[at] = rng.standard_normal(wide[at].size) * scale
    with np.errstate(all="ignore"):
        out = wide if kind == "f64" else wide.astype(f32)
        return harness.narrow(out, kind).reshape(a.shape)


def add_functions(make, rounds):
    """Small programs: each function is much code."""
    rng = make.rng
    for kind in FLOATS:
        sizes = [(), (3, 0, 2), (600,)]
        sizes += [arrays.shape(rng, int(rng.integers(1, 5)))
                  for _ in range(rounds)]
        for number, op in enumerate(list(FUNCTIONS) + ["gelu"] + list(EXACT)):
            f = make.new("%s_%s" % (op, kind))
            for dims in ((600,), sizes[number % len(sizes)]):
                a = values(rng, dims, kind, True)
                if dims == (600,):
                    a = spread_values(rng, a, kind)
                x, x_type = f.argument(a, hidden(rng, len(dims)))
                add_function(f, op, a, x, x_type, kind)


def add_function(f, op, a, x, x_type, kind):
    if op in EXACT:
        y = f.op("nabla.%s %s : %s" % (op, x, x_type))
        want = harness.narrow(EXACT[op](harness.widen(a)), kind)
        f.give(y, x_type, exact(want))
    elif op in FUNCTIONS:
        function, ulps, _ = FUNCTIONS[op]
        y = f.op("nabla.%s %s : %s" % (op, x, x_type))
        f.give(y, x_type, check_function(function, ulps, a, kind))
    else:
        for how, function in (("", gelu), (" approximate = tanh", gelu_tanh)):
            y = f.op("nabla.gelu %s%s : %s" % (x, how, x_type))
            wide = np.abs(harness.widen(a).astype(f64))
            with np.errstate(all="ignore"):  # exp of x^2
                off = np.where(np.isfinite(wide), np.abs(function(-wide))
                               * wide * wide * 2.0 ** -50, 0) + 1e-320
                ends = np.where(wide == 40, 1, off)
            f.give(y, x_type, check_function(function, 8, a, kind, ends))


def add_predicates(make, rounds):
    rng = make.rng
    for kind in FLOATS:
        f = make.new("predicates_" + kind)
        for dims in shapes(rng, rounds):
            a, x, x_type = make.input(f, dims, kind)
            to = x_type.replace("x%s>" % kind, "xi1>").replace(
                "<%s>" % kind, "<i1>")
            for op, function in (("is_nan", np.isnan), ("is_inf", np.isinf)):
                y = f.op("nabla.%s %s : %s" % (op, x, x_type))
                f.give(y, to, exact(np.asarray(function(harness.widen(a)))))


def sign(a):
    return np.where(a > 0, a.dtype.type(1), np.where(a < 0, a.dtype.type(-1),
                                                     a))


def add_signs(make, rounds):
    rng = make.rng
    for kind in SIGNED:
        f = make.new("signs_" + kind)
        for dims in shapes(rng, rounds):
            a, x, x_type = make.input(f, dims, kind)
            for op, function in (("abs", np.abs), ("neg", np.negative),
                                 ("sign", sign)):
                y = f.op("nabla.%s %s : %s" % (op, x, x_type))
                with np.errstate(all="ignore"):
                    want = np.asarray(function(harness.widen(a)))
                f.give(y, x_type, exact(harness.narrow(want, kind)))
    for kind in ALL:
        f = make.new("stop_" + kind)
        a, x, x_type = make.input(f, (3, 5), kind)
        y = f.op("nabla.stop_gradient %s : %s" % (x, x_type))
        f.give(y, x_type, exact(a))
    for kind in INTEGERS + ("i1",):
        f = make.new("not_" + kind)
        a, x, x_type = make.input(f, (3, 5), kind)
        y = f.op("nabla.not %s : %s" % (x, x_type))
        f.give(y, x_type, exact(~a))


def maximum(a, b, pick):
    """NaN wins; 0 is above -0."""
    if a.dtype.kind != "f":
        return pick(a, b)
    out = pick(a, b)
    zeros = (a == 0) & (b == 0)
    negative = (np.signbit(a) & np.signbit(b) if pick is np.maximum
                else np.signbit(a) | np.signbit(b))
    return np.where(zeros, np.where(negative, a.dtype.type(-0.0),
                                    a.dtype.type(0)), out)


PAIRS = {
    "sub": (NUMBERS, np.subtract),
    "maximum": (ALL, lambda a, b: maximum(a, b, np.maximum)),
    "minimum": (ALL, lambda a, b: maximum(a, b, np.minimum)),
    "and": (INTEGERS + ("i1",), np.bitwise_and),
    "or": (INTEGERS + ("i1",), np.bitwise_or),
    "xor": (INTEGERS + ("i1",), np.bitwise_xor),
    "div": (NUMBERS, None), "mod": (NUMBERS, None), "pow": (FLOATS, None),
}


def quotient(a, b):
    """Towards 0; the lowest by -1 wraps."""
    if a.dtype.kind == "f":
        return a / b
    out = [(abs(int(x)) // abs(int(y))) * (1 if (x < 0) == (y < 0) else -1)
           for x, y in zip(a.reshape(-1), b.reshape(-1))]
    bits = a.dtype.itemsize * 8
    wrapped = [v & (1 << bits) - 1 for v in out]
    return np.array(wrapped, "u%d" % a.dtype.itemsize).view(a.dtype).reshape(
        a.shape)


def modulo(a, b):
    if a.dtype.kind != "f":
        with np.errstate(all="ignore"):
            return np.mod(a, b)
    a, b = a.astype(f64), b.astype(f64)
    r = np.fmod(a, b)
    moved = np.where((r < 0) != (b < 0), r + b, r)
    return np.where(r == 0, np.copysign(0.0, b), moved)


def add_pairs(make, rounds):
    rng = make.rng
    for op, (kinds, function) in PAIRS.items():
        for kind in kinds:
            f = make.new("%s_%s" % (op, kind))
            for dims in shapes(rng, rounds) + [(60,)]:
                a, b = (values(rng, dims, kind, True) for _ in "ab")
                if kind in INTEGERS and op in ("div", "mod"):
                    b[b == 0] = 1
                    if b.size and kind != "ui8":
                        b.reshape(-1)[0], a.reshape(-1)[0] = -1, np.iinfo(
                            a.dtype).min
                x, x_type = f.argument(a, hidden(rng, len(dims)))
                y, y_type = f.argument(b, hidden(rng, len(dims)))
                z = f.op("nabla.%s %s, %s : %s, %s" % (op, x, y, x_type,
                                                       y_type))
                f.give(z, joined(x_type, y_type),
                       check_pair(op, function, a, b, kind))


def check_pair(op, function, a, b, kind):
    a, b = harness.widen(a), harness.widen(b)
    with np.errstate(all="ignore"):
        if op == "pow":
            want = np.power(a.astype(f64), b.astype(f64))
            if kind != "f64":
                big = harness.narrow(want.astype(f32), kind)
                want = np.where(np.isinf(harness.widen(big)),
                                np.copysign(np.inf, want), want)
            bound = np.abs(want) * 2.0 ** -42 + 1e-320
            if kind != "f64":
                bound = rounded(want, 0.51 * harness.ulp("f32", np.abs(want)),
                                kind)
            return close(want, bound, kind)
        want = {"div": quotient, "mod": modulo}.get(op, function)(a, b)
        if kind in FLOATS and kind != "f64":
            want = np.asarray(want).astype(f32)
    return exact(harness.narrow(want, kind) if kind in FLOATS else want)


COMPARES = {"eq": np.equal, "ne": np.not_equal, "lt": np.less,
            "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def add_choices(make, rounds):
    rng = make.rng
    for kind in ALL:
        f = make.new("choices_" + kind)
        for dims in shapes(rng, rounds):
            a, x, x_type = make.input(f, dims, kind)
            b = values(rng, dims, kind, True)
            same = rng.random(dims) < 0.4  # ties
            b = np.where(same, harness.raw(a), harness.raw(b)).astype(
                harness.raw(b).dtype).reshape(-1).view(a.dtype).reshape(dims)
            y, y_type = f.argument(b, hidden(rng, len(dims)))
            to = joined(x_type, y_type)
            bools = to[:-len(kind) - 1] + "i1>"
            for op, function in COMPARES.items():
                z = f.op("nabla.compare %s %s, %s : %s, %s" % (
                    op, x, y, x_type, y_type))
                want = np.asarray(function(harness.widen(a), harness.widen(b)))
                f.give(z, bools, exact(want))
            c, c_type = f.argument(np.asarray(rng.random(dims) < 0.5))
            c_array = f.inputs[c[1:]]
            z = f.op("nabla.select %s, %s, %s : %s, %s, %s" % (
                c, x, y, c_type, x_type, y_type))
            want = np.where(c_array, harness.raw(a), harness.raw(b))
            want = want.reshape(-1).view(a.dtype).reshape(dims)
            f.give(z, tensor_type(dims, kind), exact(want))


def converted(a, kind):
    wide = harness.widen(a)
    if kind == "i1":
        return wide != 0
    with np.errstate(all="ignore"):
        if kind in FLOATS:
            return narrow_once(wide, kind)
        if wide.dtype.kind != "f":
            return wide.astype(harness.DTYPES[kind])
        info = np.iinfo(harness.DTYPES[kind])
        out = [0 if math.isnan(v) else info.max if v >= info.max
               else info.min if v <= info.min else int(v)
               for v in wide.astype(f64).reshape(-1)]
        return np.array(out, harness.DTYPES[kind]).reshape(a.shape)


def narrow_once(wide, kind):
    if wide.dtype.kind != "f" and kind == "f32":
        return wide.astype(f32)
    if wide.dtype.kind != "f" and kind == "f64":
        return wide.astype(f64)
    if kind != "bf16":
        if wide.dtype.kind == "f":
            return wide.astype(harness.DTYPES[kind])
        return wide.astype(f64).astype(harness.DTYPES[kind])
    if wide.dtype == f32:
        return harness.narrow(wide, "bf16")
    # f64 to odd in f32 first
    exact_ = wide.astype(np.longdouble)
    y = wide.astype(f32)
    back = y.astype(np.longdouble)
    bits = y.reshape(-1).view(np.uint32).reshape(y.shape)
    above = np.abs(back) > np.abs(exact_)
    odd = (bits - above.astype(np.uint32)) | np.uint32(1)
    inexact = (back != exact_) & ~np.isnan(back)
    bits = np.where(inexact, odd, bits).astype(np.uint32)
    return harness.narrow(bits.reshape(-1).view(f32).reshape(y.shape), "bf16")


def add_converts(make, rounds):
    rng = make.rng
    for kind in ALL:
        f = make.new("convert_" + kind)
        for dims in shapes(rng, rounds) + [(200,)]:
            a = values(rng, dims, kind, True)
            if kind in FLOATS and dims == (200,):
                a = spread_values(rng, a, kind)
            x, x_type = f.argument(a, hidden(rng, len(dims)))
            for to in ALL:
                to_type = x_type[:-len(kind) - 1] + to + ">"
                y = f.op("nabla.convert %s : %s -> %s" % (x, x_type, to_type))
                f.give(y, to_type, exact(a if to == kind else converted(a, to)))


def cases(rng, rounds):
    make = Maker(rng)
    for add in (add_functions, add_predicates, add_signs, add_pairs,
                add_choices, add_converts):
        add(make, rounds)
    return make.functions
