"""nabla.argmax, argmin and cumsum by kernels, against numpy: one column and
several, sizes around those of vectors, chunks and blocks, known and unknown,
equal values, NaN and infinities, integers that wrap; the same bytes for any
number of threads.

usage: along.py NABLA_RUN"""
import sys

import harness
from harness import np, Function, exact
import create_ops
import dense_ops

# Shapes and the dimension.
CASES = (((1, 1024), 1), ((200, 16), 1), ((200, 17), 1), ((300, 15), 1),
         ((3, 4096), 1), ((3, 4097), 1), ((2, 4111), 1), ((1, 9000), 1),
         ((5, 12293), 1), ((5000,), 0), ((0, 700), 1), ((3, 700, 1), 1),
         ((40, 8, 9), 2), ((600, 16), 0), ((601, 33), 0), ((7, 255), 0),
         ((5, 512), 0), ((6, 767), 0), ((1, 2049), 0), ((9, 70, 40), 1),
         ((900, 3), 0), ((3, 50, 15), 1), ((90, 0), 0), ((2, 3, 40, 5, 7), 2),
         ((40, 63), 0), ((41, 64), 0), ((3, 20, 65), 1), ((6, 320), 0))
NAMES = ("known_f32", "open_f32", "mixed_f16", "mixed_bf16", "known_f64",
         "open_f64", "known_i64", "mixed_i32", "known_i8", "open_i8",
         "mixed_ui8")


def array(rng, number, kind):
    """With equal values, and NaN and infinities in every second one."""
    dims, axis = CASES[number]
    a = dense_ops.moderate(rng, dims, kind, number % 2)
    if not a.size:
        return a
    if kind in harness.FLOATS:
        great, least, minus, zero = harness.narrow(
            np.array([30, -np.inf, -0.0, 0.0], np.float32), kind)
    else:
        limits = np.iinfo(a.dtype)
        great, least, minus, zero = limits.max, limits.min, 0, 1
        a.reshape(-1)[rng.integers(a.size, size=1 + a.size // 50)] = least
    a.reshape(-1)[rng.integers(a.size, size=1 + a.size // 50)] = great
    if number % 4 == 0:  # nothing above the least, zeros of both signs
        line = np.moveaxis(a, axis, 0)
        line[:, ..., 0] = least
        if line.ndim > 1:
            line[:, ..., -1] = minus
            line[-1, ..., -1] = zero
    return a


def add(f, rng, number, hide):
    dims, axis = CASES[number]
    kind = f.name.split("_")[1]
    a = array(rng, number, kind)
    x, x_type = f.argument(a, hide)
    keep = bool(rng.integers(2))
    wide = harness.widen(a)
    for op in ("argmax", "argmin"):
        y = f.op("nabla.%s %s dim = %d%s : %s" % (
            op, x, axis, " keep_dims" if keep else "", x_type))
        want = getattr(np, op)(wide, axis=axis, keepdims=keep)
        f.give(y, create_ops.kept_type(dims, hide, [axis], keep, "i64"),
               exact(np.asarray(want, np.int64)))
    y = f.op("nabla.cumsum %s dim = %d : %s" % (x, axis, x_type))
    f.give(y, x_type, create_ops.cumsum(a, axis, kind))


def functions(rng):
    out = []
    for name in NAMES:
        f = Function(name)
        for number, (dims, _) in enumerate(CASES):
            hide = [i for i in range(len(dims))
                    if "open" in name or ("mixed" in name and rng.integers(2))]
            add(f, rng, number, hide)
        out.append(f)
    return out


def check_chunks(s):
    """Lines of two chunks of 65,536 rows, the second of fewer rows than a step
    of vectors, and than one vector: equal values and NaN in both."""
    for kind in ("f32", "f64", "i32"):
        f = Function("chunks_" + kind)
        places = [{}, {65536: 2}, {65535: 2, 65536: 2}, {3: 2, 65537: 2},
                  {7: 2, 65536: 3}, {-1: 2}, {65534: 3, -2: 3, 12: -3, -1: -3}]
        if kind != "i32":
            nan, inf = np.nan, np.inf
            places += [{3: inf, 65538: nan}, {3: nan, 65538: nan, 9: inf},
                       {65536: nan, 65537: nan, -1: inf}, {65535: nan, -1: nan},
                       {...: -inf}, {...: nan}]
        for size in (65536 + 5, 65536 + 50):
            a = np.zeros((len(places), size), harness.DTYPES[kind])
            for line, values in zip(a, places):
                for at, value in values.items():
                    line[at] = value
            x, x_type = f.argument(a)
            for op in ("argmax", "argmin"):
                y = f.op("nabla.%s %s dim = 1 : %s" % (op, x, x_type))
                f.give(y, "tensor<%dxi64>" % len(places),
                       exact(getattr(np, op)(a, axis=1)))
        s.check(s.write(f.text()), f)


def check_threads(s, rng):
    """The bytes for 1, 2 and 7 threads."""
    f = Function("large")
    for dims, axis, kind in (((300, 3001), 1, "f32"), ((700, 3000), 0, "f32"),
                             ((30, 90, 200), 1, "f32"), ((300, 3001), 1, "f64"),
                             ((700, 3000), 0, "f64"), ((700, 3000), 0, "i32")):
        a = dense_ops.moderate(rng, dims, kind, False)
        x, x_type = f.argument(a)
        y = f.op("nabla.argmax %s dim = %d : %s" % (x, axis, x_type))
        f.give(y, create_ops.kept_type(dims, [], [axis], False, "i64"),
               exact(np.argmax(a, axis=axis)))
        y = f.op("nabla.cumsum %s dim = %d : %s" % (x, axis, x_type))
        f.give(y, x_type, create_ops.cumsum(a, axis, kind))
    program = s.write(f.text())
    s.check(program, f)
    one = s.call(program, f, ["--threads", "1"])
    for threads in ("2", "7"):
        many = s.call(program, f, ["--threads", threads])
        for want, got in zip(one, many):
            wrong = exact(want)(got)
            s.expect(not wrong, "%s threads: %s" % (threads, wrong))


def test(s):
    rng = np.random.default_rng(harness.seed())
    some = functions(rng)
    s.run_all(some, most=3)
    s.run_all(some[2:3], ["--target", "x86-64-v3"])
    s.run_all(some[3:4], ["--target", "x86-64"])
    for target in ("x86-64-v3", "x86-64"):
        s.run_all(some[4::3], ["--target", target], most=1)
    check_chunks(s)
    check_threads(s, rng)


harness.session(sys.argv[1], test)
