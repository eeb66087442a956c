"""Arrays that are large enough for kernels that copy: slices, also with steps
and at places known at run time, updates, splits, pads, stacks, concatenations,
against numpy; elements of all sizes, sizes that are not known, runs of odd
lengths, nothing to copy; the same bytes for any number of threads.

usage: moves.py NABLA_RUN"""
import sys

import harness
from harness import np, Function
from arrays import values
import shape_ops
from shape_ops import give, known, padded, slice_text

KINDS = ("f32", "bf16", "f16", "i8", "f64", "i64")
SHAPES = ((67, 131), (9, 5, 300), (4099, 3), (20011,), (3, 2, 5, 7, 90),
          (70, 0, 90), (1, 33, 1, 260))


class Maker:
    """What the cases of shape_ops ask for."""

    def __init__(self, rng):
        self.rng = rng


def add_slices(f, rng, kind):
    for dims, starts, limits, strides in (
            ((67, 131), [0, 1], [67, 131], [1, 1]),
            ((67, 131), [3, 0], [66, 131], [1, 1]),
            ((9, 5, 300), [1, 1, 7], [9, 5, 290], [1, 2, 3]),
            ((4099, 3), [1, 1], [4099, 2], [1, 1]),
            ((20011,), [5], [20000], [2])):
        a = values(rng, dims, kind, True)
        x, x_type = f.argument(a)
        want = shape_ops.cut(a, starts, limits, strides)
        give(f, f.op(slice_text(x, x_type, starts, limits, strides)),
             want.shape, kind, want)


def add_joins(f, rng, kind, hide):
    make = Maker(rng)
    for op, dim, shapes in (
            ("concatenate", 1, ((31, 7, 55), (31, 9, 55), (31, 1, 55))),
            ("concatenate", 0, ((300, 37), (5, 37))),
            ("concatenate", 1, ((700, 9), (700, 700))),
            ("concatenate", 0, ((0, 800), (13, 800))),
            ("stack", 0, ((61, 91), (61, 91), (61, 91))),
            ("stack", 1, ((61, 91), (61, 91))),
            ("stack", 2, ((61, 91), (61, 91)))):
        parts = [values(rng, dims, kind, True) for dims in shapes]
        function = np.stack if op == "stack" else np.concatenate
        want = function(parts, axis=dim)
        if hide:
            shape_ops.join(make, f, op, dim, parts, kind, want)
            continue
        given = [f.argument(part) for part in parts]
        y = f.op("nabla.%s %s dim = %d : %s" % (
            op, ", ".join(x for x, _ in given), dim,
            ", ".join(t for _, t in given)))
        give(f, y, want.shape, kind, want)


def add_pads(f, rng, kind, hide):
    for dims, low, high in (((3, 50, 61), [0, 1, 2], [0, 2, 3]),
                            ((50, 61), [1, 0], [0, 0]),
                            ((50, 61), [0, 0], [0, 1]),
                            ((0, 61), [70, 1], [3, 1]),
                            ((2, 3, 4000), [1, 0, 0], [0, 1, 0])):
        a, v = values(rng, dims, kind, True), values(rng, (), kind, True)
        hidden = [i for i in range(len(dims)) if hide and rng.integers(2)]
        x, x_type = f.argument(a, hidden)
        value, value_type = f.argument(v)
        y = f.op("nabla.pad %s, %s low = %s high = %s : %s, %s" % (
            x, value, low, high, x_type, value_type))
        want = padded(a, v, low, high, [0] * len(dims))
        give(f, y, known(want.shape, hidden), kind, want)


def functions(rng):
    out, all_of = [], harness.slice_number() == "all"
    some = set(KINDS[:2]) | {KINDS[int(rng.integers(2, len(KINDS)))]}
    for kind in KINDS if all_of else sorted(some):
        make = Maker(rng)
        for name in ("known", "open"):
            f = Function("%s_%s" % (name, kind))
            add_slices(f, rng, kind)
            add_joins(f, rng, kind, name == "open")
            add_pads(f, rng, kind, name == "open")
            out.append(f)
        f = Function("random_%s" % kind)
        for dims in SHAPES:
            for add in (shape_ops.add_slice, shape_ops.add_dynamic,
                        shape_ops.add_update, shape_ops.add_split,
                        shape_ops.add_pad):
                add(make, f, dims, kind)
        out.append(f)
    return out


def check_large(s, rng):
    """Work for several threads, and past the caches."""
    f = Function("large")
    for dims, starts, limits, strides in (
            ((1200, 4000), [0, 1], [1200, 4000], [1, 1]),
            ((1200, 4000), [1, 0], [1200, 4000], [2, 3]),
            ((5000001,), [1], [5000001], [1])):
        a = rng.standard_normal(dims).astype(np.float32)
        x, x_type = f.argument(a)
        want = shape_ops.cut(a, starts, limits, strides)
        give(f, f.op(slice_text(x, x_type, starts, limits, strides)),
             want.shape, "f32", want)
    s.check(s.write(f.text()), f)
    s.check_threads(f)


def test(s):
    rng = np.random.default_rng(harness.seed())
    some = functions(rng)
    s.run_all(some, most=4)
    s.run_all(some[1:2], ["--target", "x86-64"])
    check_large(s, rng)


harness.session(sys.argv[1], test)
