"""Clusters of f64, integers and truth values: the bytes of the loops that
--no-fusion leaves, but sums of f64, which are another tree; wrapped integers
against numpy; and indices along dimensions.

usage: cluster_types.py NABLA_RUN quick|medium"""
import sys

import harness
from harness import DTYPES, Function, close, exact, np, tensor_type

ROWS, COLUMNS = 9, 83  # whole vectors, and a tail
NUMBERS = ("f64", "i64", "i32", "i8", "ui8")
FUNCTIONS = ("exp", "log", "log1p", "rsqrt", "tanh", "erf", "sigmoid", "silu",
             "gelu", "acos", "atanh", "floor", "ceil", "round", "trunc", "sqrt",
             "relu", "is_nan", "is_inf")
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 0.5, -0.5, 1.5, 127.5, 128.0,
           -128.5, 255.5, 256.0, -1.0, 2.0**31, -2.0**31, 2.0**31 - 1, 2.0**63,
           -2.0**63, 65519.9, 65520.0, 1e-310, -800.5, 709.8, 1 + 2.0**-24,
           1 + 2.0**-8 + 2.0**-40, 1e39, -7.25]


class Program:
    def __init__(self, name, rng):
        self.f, self.rng = Function(name), rng

    def argument(self, kind, hide=(), shape=(ROWS, COLUMNS)):
        count = int(np.prod(shape))
        if kind in harness.FLOATS:
            a = self.rng.normal(0, 3, count)
            at = self.rng.permutation(count)[:3 * len(SPECIAL)]
            a[at] = np.resize(SPECIAL, at.size)
            a = harness.narrow(a, kind)
        elif kind == "i1":
            a = self.rng.integers(0, 2, count).astype(bool)
        else:
            limits = np.iinfo(DTYPES[kind])
            a = self.rng.integers(limits.min, limits.max, count,
                                  DTYPES[kind], endpoint=True)
            near = self.rng.integers(limits.min // 2**50, 100, count)
            a = np.where(self.rng.integers(0, 2, count), a, near.astype(a.dtype))
        a = a.reshape(shape)
        name, _ = self.f.argument(a, hide)
        self.shape = [None if i in hide else d for i, d in enumerate(shape)]
        return name, a

    def type(self, kind):
        return tensor_type(self.shape, kind)

    def op(self, text, kind, result=None, shape=None):
        """An operation `text` of arrays of one type, which is a result; the
        first operand of select is of i1."""
        kinds = [kind] * max(text.count("%"), 1)
        if text[:6] == "select":
            kinds[0] = "i1"
        y = self.f.op("nabla.%s : %s" % (text, ", ".join(map(self.type, kinds))))
        self.f.give(y, tensor_type(self.shape if shape is None else shape,
                                   result or kind), None)
        return y


def arithmetic(p, kind, hide=()):
    (x, a), (y, b) = p.argument(kind, hide), p.argument(kind, hide)
    pair = "%s, %s" % (x, y)
    with np.errstate(all="ignore"):
        wanted = {"add": a + b, "sub": a - b, "mul": a * b}
    for name, want in wanted.items():
        p.op("%s %s" % (name, pair), kind)
        p.f.checks[-1] = exact(want)
    p.op("maximum " + pair, kind)
    z = p.op("minimum " + pair, kind)
    for name in () if kind == "ui8" else ("neg", "abs", "sign"):
        z = p.op("%s %s" % (name, z), kind)
    c = None
    for how in ("eq", "ne", "lt", "le", "gt", "ge"):
        d = p.op("compare %s %s" % (how, pair), kind, "i1")
        c = d if c is None else p.op("xor %s, %s" % (c, d), "i1")
    p.op("select %s, %s, %s" % (c, z, x), kind)
    if kind != "f64":
        for name in ("and", "or", "xor"):
            z = p.op("%s %s, %s" % (name, z, y), kind)
        p.op("not " + z, kind)
        if hide:
            return p.f
        full = p.f.op("nabla.constant dense<%d> : %s" % (
            np.iinfo(DTYPES[kind]).max, p.type(kind)))
        p.op("add %s, %s" % (z, full), kind)
    return p.f


def conversions(p, kind):
    x, _ = p.argument(kind)
    for to in DTYPES:
        if to != kind:
            y = p.f.op("nabla.convert %s : %s -> %s" % (x, p.type(kind),
                                                        p.type(to)))
            p.f.give(y, p.type(to), None)
    return p.f


def functions(p):
    x, _ = p.argument("f64")
    for name in FUNCTIONS:
        p.op("%s %s" % (name, x), "f64", "i1" if name[:3] == "is_" else "f64")
    p.op("gelu %s approximate = tanh" % x, "f64")
    y, _ = p.argument("f64")
    p.op("div %s, %s" % (x, y), "f64")
    p.op("pow %s, %s" % (x, y), "f64")
    return p.f


def repeated(p, kind):
    """Functions that are computed in f64, once for each row."""
    rows, _ = p.f.argument(harness.narrow(p.rng.normal(0, 1, ROWS), kind))
    p.shape = [ROWS, COLUMNS]
    x = p.f.op("nabla.broadcast_in_dim %s dims = [0] : %s -> %s" % (
        rows, tensor_type((ROWS,), kind), p.type(kind)))
    for name in ("erf", "acos", "atanh", "log1p"):
        p.op("%s %s" % (name, x), kind)
    return p.f


def reductions(p, kind):
    """All of an array without special values; a chain in front and behind."""
    columns = 5 * COLUMNS if "i8" in kind else COLUMNS  # vectors of 64 bytes
    small = p.rng.integers(1, 100, (ROWS, columns)).astype(DTYPES[kind])
    x, _ = p.f.argument(small)
    p.shape = [ROWS, columns]
    full = p.type(kind)
    twice = p.f.op("nabla.add %s, %s : %s, %s" % (x, x, full, full))
    a = small + small
    for how, f in (("sum", np.add), ("prod", np.multiply), ("max", np.maximum),
                   ("min", np.minimum)):
        y = p.op("reduce %s %s dims = [1] keep_dims" % (how, twice), kind,
                 shape=(ROWS, 1))
        if kind == "f64":
            want = f.reduce(a, 1, keepdims=True)
            p.f.checks[-1] = close(want, np.abs(want) * 1e-14, kind)
        else:
            p.f.checks[-1] = exact(
                f.reduce(a, 1, keepdims=True, dtype=a.dtype))
    z = p.f.op("nabla.broadcast_in_dim %s dims = [0, 1] : %s -> %s" % (
        y, tensor_type((ROWS, 1), kind), full))
    p.op("sub %s, %s" % (twice, z), kind)
    p.f.checks[-1] = exact(a - a.min(1, keepdims=True))
    return p.f


def of_rows(p):
    """softmax, log_softmax, mean of f64."""
    a = p.rng.normal(0, 4, (ROWS, COLUMNS))
    x, kind = p.f.argument(a)
    p.shape = [ROWS, COLUMNS]
    e = np.exp(a - a.max(1, keepdims=True))
    s = e.sum(1, keepdims=True)
    p.op("softmax %s dim = 1" % x, "f64")
    p.f.checks[-1] = close(e / s, 1e-15, "f64")
    p.op("log_softmax %s dim = 1" % x, "f64")
    p.f.checks[-1] = close(np.log(e / s), 1e-13, "f64")
    p.op("reduce mean %s dims = [1]" % x, "f64", shape=(ROWS,))
    p.f.checks[-1] = close(a.mean(1), 1e-14, "f64")
    return p.f


def places(p, kind, hide):
    """Indices along each dimension."""
    x, a = p.argument(kind, hide)
    sizes = ""
    for d in hide:
        at = p.f.op("arith.constant %d : index" % d)
        at = p.f.op("tensor.dim %s, %s : %s" % (x, at, p.type(kind)))
        sizes = " sizes(%s)" % at
    for d in (0, 1):
        i = p.f.op("nabla.iota dim = %d%s -> %s" % (d, sizes, p.type(kind)))
        c = p.op("compare lt %s, %s" % (x, i), kind, "i1")
        p.op("select %s, %s, %s" % (c, i, x), kind)
    return p.f


def check(s, f, options):
    """With clusters and without, and by the checks that it has."""
    program = s.write(f.text())
    plain = s.call(program, f, ["--no-fusion", *options])
    fused = s.call(program, f, options)
    for i, (want, got, test) in enumerate(zip(plain, fused, f.checks)):
        wrong = (test or exact(want))(got)
        s.expect(not wrong, "%s, result %d %s: %s\n%s" % (
            f.name, i, options, wrong, f.text()[:3000]))


def test(s):
    rng = np.random.default_rng(harness.seed())
    cases = [(arithmetic, "i32"), (arithmetic, "f64", (1,)),
             (conversions, "f64"), (conversions, "i64"), (reductions, "ui8"),
             (repeated, "f16"), (of_rows,), (places, "i32", (1,))]
    if sys.argv[2] == "medium":
        cases += [(arithmetic, kind) for kind in NUMBERS]
        cases += [(arithmetic, "i32", (0,)), (functions,)]
        cases += [(conversions, kind) for kind in DTYPES]
        cases += [(reductions, kind) for kind in NUMBERS]
        cases += [(repeated, kind) for kind in ("f64", "f32", "bf16")]
        cases += [(places, kind, hide) for kind in ("i8", "i32", "f16", "f64")
                  for hide in ((), (1,))]
    for number, (case, *arguments) in enumerate(cases):
        f = case(Program("%s_%d" % (case.__name__, number), rng), *arguments)
        check(s, f, [] if number % 3 else ["--target", "x86-64"])
    if sys.argv[2] == "medium":
        s.check_threads(reductions(Program("threads", rng), "f64"))


harness.session(sys.argv[1], test)
