"""nabla.reduce of dimensions in front of the last, by kernels of columns, against
numpy: sizes around those of vectors and blocks, known and unknown, no rows, no
columns, NaN and infinities, integers that wrap, truth values; the same bytes for
any number of threads.

usage: column_reductions.py NABLA_RUN"""
import sys

import harness
from harness import np, Function
import create_ops
import dense_ops

# Shapes and the reduced dimensions.
CASES = (((1, 2049), [0]), ((3, 1024), [0]), ((8, 300), [0]), ((17, 256), [0]),
         ((33, 17), [0]), ((4097, 33), [0]), ((4097, 3), [0]), ((0, 33), [0]),
         ((9, 0), [0]), ((7, 767), [0]), ((65, 512), [0]), ((2, 40, 100), [1]),
         ((3, 5, 7, 33), [1, 2]), ((5, 6, 2, 8, 4), [1]), ((20, 3, 16), [0, 1]),
         ((6, 0, 16), [1]), ((3, 300, 1), [1]), ((30, 63), [0]),
         ((41, 64), [0]), ((3, 20, 65), [1]), ((6, 320), [0]))
NAMES = ("known_f32", "open_f32", "mixed_f16", "mixed_bf16", "known_f64",
         "open_f64", "known_i64", "mixed_i32", "known_i8", "open_i8",
         "mixed_ui8", "known_i1", "open_i1")


def hows(kind):
    some = ["sum", "max", "min", "prod"]
    if kind in harness.FLOATS:
        some.append("mean")
    return some + ["any", "all"] if kind == "i1" else some


def add(f, rng, number, hide):
    """Two kinds of reduction for each case: all take every size in turn."""
    dims, axes = CASES[number]
    kind = f.name.split("_")[1]
    a = dense_ops.moderate(rng, dims, kind, number % 2)
    if kind == "i1":  # of several rows each: all and no results are true
        a = rng.random(dims) < rng.choice([.01, .1, .9, .99])
    rows = int(np.prod([dims[i] for i in axes]))
    if "zeros" in f.name:  # of both signs
        a[...] = np.where(rng.integers(0, 2, dims), a.dtype.type(0),
                          -a.dtype.type(0))
    x, x_type = f.argument(a, hide)
    keep = bool(rng.integers(2))
    for how in rng.permutation(hows(kind))[:3 if kind == "i1" else 2]:
        if (how == "prod" and rows > 40 and number % 2
                and kind in harness.FLOATS):
            continue  # 0 * inf, by the order of factors
        module = dense_ops if how in ("sum", "max") else create_ops
        y = f.op("nabla.reduce %s %s dims = %s%s : %s" % (
            how, x, axes, " keep_dims" if keep else "", x_type))
        f.give(y, create_ops.kept_type(dims, hide, axes, keep, kind),
               module.reduced(a, kind, how, axes, keep))


def functions(rng):
    out = []
    for name in NAMES:
        f = Function(name)
        for number, (dims, _) in enumerate(CASES):
            hide = [i for i in range(len(dims))
                    if "open" in name or ("mixed" in name and rng.integers(2))]
            add(f, rng, number, hide)
        out.append(f)
    for name in ("zeros_f32", "zeros_f64"):
        f = Function(name)
        for number in (4, 8, 11):
            add(f, rng, number, [])
        out.append(f)
    return out


def check_large_threads(s, rng):
    """Work for several threads."""
    f = Function("large")
    for dims, axes, kind in (((700, 3000), [0], "f32"),
                             ((30, 90, 200), [1], "f32"),
                             ((700, 3000), [0], "f64"),
                             ((30, 90, 200), [1], "i64")):
        a = dense_ops.moderate(rng, dims, kind, False)
        x, x_type = f.argument(a)
        for how in ("sum", "max"):
            y = f.op("nabla.reduce %s %s dims = %s : %s" % (how, x, axes,
                                                            x_type))
            f.give(y, create_ops.kept_type(dims, [], axes, False, kind),
                   dense_ops.reduced(a, kind, how, axes, False))
    s.check(s.write(f.text()), f)
    s.check_threads(f)


def test(s):
    rng = np.random.default_rng(harness.seed())
    some = functions(rng)
    s.run_all(some, most=3)
    s.run_all(some[2:3], ["--target", "x86-64-v3"])
    s.run_all(some[3:4], ["--target", "x86-64"])
    for target in ("x86-64-v3", "x86-64"):
        s.run_all(some[4::3], ["--target", target], most=1)
    check_large_threads(s, rng)


harness.session(sys.argv[1], test)
