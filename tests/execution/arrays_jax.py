"""Compositions of nabla/array.h against jax (PyPI): values, shapes and dtypes for
random shapes, broadcasting, negative axes, rank 0, size 0 and all dtypes. Means of no
elements are NaN in both.

usage: arrays_jax.py FOLDER_OF_THE_PACKAGE_NABLA ROUNDS

Skipped (exit 77) where jax is not installed. The table of dtypes of pairs is compared
by arrays_c.py. jax runs with 64-bit dtypes where an operand has one; what
docs/ARRAYS.md says to differ is not compared:
i8 with ui8, and floats of integers and truth values, f32 here, f64 in jax then.
"""
import os
import sys

os.environ.setdefault("JAX_PLATFORMS", "cpu")
try:
    import jax
    import jax.numpy as jnp
    import numpy as np
except ImportError:
    print("skipped: no module jax")
    sys.exit(77)

sys.path.insert(0, sys.argv[1])
import nabla as nb
import harness

DTYPES = {"bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i32": np.int32,
          "i64": np.int64, "f16": np.float16, "bf16": jnp.bfloat16.dtype,
          "f32": np.float32, "f64": np.float64}
NAMES = {np.dtype(v): k for k, v in DTYPES.items()}
FLOATS = ("f16", "bf16", "f32", "f64")
# Relative to the largest value: that of one rounding, a sum of some.
TOLERANCE = {"f16": 4e-3, "bf16": 3e-2, "f32": 1e-5, "f64": 1e-12}
rng = np.random.default_rng(harness.seed())


def values(shape, kind, low=-4, high=4):
    dtype = DTYPES[kind]
    if kind == "bool":
        return rng.integers(0, 2, shape).astype(np.bool_)
    if kind in FLOATS:
        return np.asarray(rng.uniform(low, high, shape)).astype(dtype)
    return rng.integers(max(low, 0) if kind == "u8" else low, high + 1,
                        shape).astype(dtype)


def shape_of(rank, most=5, empty=.1):
    out = [int(rng.integers(1, most + 1)) for _ in range(rank)]
    if rank and rng.random() < empty:
        out[int(rng.integers(rank))] = 0
    return tuple(out)


def kind_of(kinds=tuple(DTYPES)):
    return str(rng.choice(kinds))


def fitting(shape):
    """A shape that broadcasts with another."""
    out = [1 if rng.random() < .3 else s for s in shape]
    return tuple(out[int(rng.integers(len(out) + 1)):])


def pair():
    """Dtypes of two operands; i8 with ui8 has none in programs."""
    while True:
        kinds = kind_of(), kind_of()
        if set(kinds) != {"i8", "u8"}:
            return kinds


def axis_of(rank):
    return int(rng.integers(-rank, rank))


# ---- cases: (text, ours, jax's, operands, whether dtypes of floats of integers) ----

CASES = []


def case(make):
    CASES.append(make)
    return make


@case
def matmul():
    kinds = pair()
    n, k, m = (int(rng.integers(1, 6)) for _ in range(3))
    batch = shape_of(int(rng.integers(3)), 3)
    a, b = batch + (n, k), fitting(batch) + (k, m)
    if rng.random() < .25:
        a = (k,)
    if rng.random() < .25:
        b = (k,)
    if rng.random() < .1:
        a, b = a[:-1] + (0,), b[:-2] + (0,) + b[-1:] if len(b) > 1 else (0,)
    return nb.matmul, jnp.matmul, [values(a, kinds[0]), values(b, kinds[1])]


@case
def outer():
    kinds = pair()
    return nb.outer, jnp.outer, [values(shape_of(int(rng.integers(3))), k)
                                 for k in kinds]


@case
def where():
    kinds = pair()
    shape = shape_of(int(rng.integers(4)))
    return nb.where, jnp.where, [values(fitting(shape), kind_of()),
                                 values(shape, kinds[0]),
                                 values(fitting(shape), kinds[1])]


@case
def triangle():
    name, k = str(rng.choice(["triu", "tril"])), int(rng.integers(-3, 4))
    x = values(shape_of(int(rng.integers(2, 5))), kind_of())
    return (lambda x: getattr(nb, name)(x, k),
            lambda x: getattr(jnp, name)(x, k), [x])


@case
def like():
    name = str(rng.choice(["zeros_like", "ones_like"]))
    x = values(shape_of(int(rng.integers(4))), kind_of())
    return getattr(nb, name), getattr(jnp, name), [x]


@case
def full():
    name, shape, kind = str(rng.choice(["zeros", "ones"])), shape_of(
        int(rng.integers(4))), kind_of()
    return (lambda x: getattr(nb, name)(shape, kind) + nb.zeros_like(x),
            lambda x: getattr(jnp, name)(shape, DTYPES[kind]) + jnp.zeros_like(x),
            [values((), kind if kind != "bool" else "i32")])


@case
def arange():
    kind = kind_of(("i32", "i64", "f32", "f64"))
    start, step = (int(rng.integers(-5, 6)) for _ in range(2))
    step, stop = step or 2, int(rng.integers(-9, 10))
    return (lambda x: nb.arange(start, stop, step, kind) * x,
            lambda x: jnp.arange(start, stop, step, DTYPES[kind]) * x,
            [values((), kind)])


@case
def hann_window():
    size, kind = int(rng.integers(2, 12)), kind_of(("f32", "f64"))
    periodic = bool(rng.integers(2))

    def theirs(x):
        n = size if periodic else size - 1
        return ((1 - jnp.cos(2 * jnp.pi * jnp.arange(size) / n)) / 2).astype(
            DTYPES[kind]) * x
    return (lambda x: nb.hann_window(size, periodic, kind) * x, theirs,
            [values((), kind)])


@case
def tri_and_eye():
    n, m, k, kind = int(rng.integers(6)), int(rng.integers(6)), int(
        rng.integers(-3, 4)), kind_of()
    return (lambda x: nb.concatenate([nb.tri([n, m], k, kind), nb.eye(m, kind)], 0),
            lambda x: jnp.concatenate([jnp.tri(n, m, k, DTYPES[kind]),
                                       jnp.eye(m, dtype=DTYPES[kind])], 0),
            [values((), kind)])


@case
def squeeze():
    if rng.random() < .1:
        return nb.squeeze, jnp.squeeze, [values((), kind_of())]
    shape = list(shape_of(int(rng.integers(1, 5))))
    axis = axis_of(len(shape))
    shape[axis] = 1
    x = values(tuple(shape), kind_of())
    if rng.random() < .3:
        return nb.squeeze, jnp.squeeze, [x]
    return lambda x: nb.squeeze(x, axis), lambda x: jnp.squeeze(x, axis), [x]


@case
def unsqueeze():
    rank = int(rng.integers(4))
    axis = int(rng.integers(-rank - 1, rank + 1))
    return (lambda x: nb.unsqueeze(x, axis), lambda x: jnp.expand_dims(x, axis),
            [values(shape_of(rank), kind_of())])


@case
def axes():
    rank = int(rng.integers(1, 5))
    a, b = axis_of(rank), axis_of(rank)
    x = values(shape_of(rank), kind_of())
    if rng.random() < .5:
        return lambda x: nb.swap_axes(x, a, b), lambda x: jnp.swapaxes(x, a, b), [x]
    return lambda x: nb.moveaxis(x, a, b), lambda x: jnp.moveaxis(x, a, b), [x]


@case
def flatten():
    return nb.flatten, jnp.ravel, [values(shape_of(int(rng.integers(5))), kind_of())]


@case
def pieces():
    rank = int(rng.integers(1, 4))
    axis, count = axis_of(rank), int(rng.integers(1, 4))
    shape = list(shape_of(rank, 3))
    shape[axis] *= count
    x = values(tuple(shape), kind_of())
    if rng.random() < .5 and shape[axis]:
        return (lambda x: nb.unbind(x, axis), lambda x: jnp.unstack(x, axis=axis), [x])
    return (lambda x: nb.chunk(x, count, axis),
            lambda x: jnp.split(x, count, axis), [x])


@case
def minmax():
    rank = int(rng.integers(4))
    axis, keep = axis_of(rank) if rank else None, bool(rng.integers(2))
    shape = shape_of(rank, empty=0)
    if rng.random() < .3:
        axis = None
    elif rank > 1 and rng.random() < .2:  # no elements, but not of that dimension
        shape = tuple(s if d == axis % rank else 0 for d, s in enumerate(shape))
    x = values(shape, kind_of())
    return (lambda x: nb.minmax(x, axis, keep),
            lambda x: (jnp.min(x, axis, keepdims=keep),
                       jnp.max(x, axis, keepdims=keep)), [x])


def at_axis(array, axis, index):
    return array.at[(slice(None),) * (axis % array.ndim) + (index,)]


def indices(size, shape, beyond, unique=False):
    most = size + 2 if beyond else size
    out = (rng.permutation(max(size, 1))[:int(np.prod(shape, dtype=int))].reshape(shape)
           if unique else rng.integers(-size, most, shape))
    return out.astype(DTYPES[kind_of(("i32", "i64"))])


@case
def take():
    rank = int(rng.integers(1, 4))
    x, axis = values(shape_of(rank, empty=.3), kind_of()), axis_of(rank)
    shape = shape_of(int(rng.integers(3))) if x.shape[axis] else (0, 2)
    index = indices(x.shape[axis], shape, True)
    return (lambda x, i: nb.take(x, i, axis),
            lambda x, i: at_axis(x, axis, i).get(mode="clip"), [x, index])


@case
def at():
    rank = int(rng.integers(1, 4))
    kind = kind_of(tuple(k for k in DTYPES if k != "bool"))
    x, axis = values(shape_of(rank, empty=.3), kind), axis_of(rank)
    how = str(rng.choice(["set", "add"]))
    size = x.shape[axis]
    count = int(rng.integers(0 if rng.random() < .2 else min(size, 1), size + 1))
    index = indices(size, (count,), how == "add", how == "set")
    inner = x.shape[:axis % rank] + (count,) + x.shape[axis % rank + 1:]
    new = values(fitting(inner), kind)
    return (lambda x, i, v: nb.at(x, axis, i, v, how),
            lambda x, i, v: getattr(at_axis(x, axis, i), how)(v, mode="drop"),
            [x, index, new])


@case
def one_hot():
    size, kind = int(rng.integers(1, 6)), kind_of()
    index = rng.integers(-1, size + 1, shape_of(int(rng.integers(3)))).astype(
        np.int64 if kind in ("i64", "f64") else np.int32)
    return (lambda i: nb.one_hot(i, size, kind),
            lambda i: jax.nn.one_hot(i, size, dtype=DTYPES[kind]), [index])


def as_float(*arrays):
    """jax's floats of integers are f32 here."""
    out = jnp.result_type(*arrays)
    return [jnp.asarray(a).astype(out if jnp.issubdtype(out, jnp.floating)
                                  else jnp.float32) for a in arrays]


@case
def mse():
    kinds = pair()
    shape = shape_of(int(rng.integers(4)))

    def theirs(x, y):
        x, y = as_float(x, y)
        return jnp.mean((x - y) ** 2)
    return nb.mse, theirs, [values(shape, kinds[0]), values(fitting(shape), kinds[1])]


@case
def cross_entropy():
    rank, kind = int(rng.integers(1, 4)), kind_of(FLOATS)
    logits = values(shape_of(rank - 1) + shape_of(1, empty=0), kind)
    classes = logits.shape[-1]

    def numbers(x, y):
        log = jax.nn.log_softmax(x)
        return -jnp.mean(jnp.take_along_axis(log, y[..., None], -1)[..., 0])

    def parts(x, y):
        return -jnp.mean(jnp.sum(jax.nn.log_softmax(x) * y, -1))
    if rng.random() < .5:
        labels = rng.integers(0, classes, logits.shape[:-1]).astype(np.int32)
        return nb.cross_entropy, numbers, [logits, labels]
    p = values(logits.shape, kind, 0, 1)
    return nb.cross_entropy, parts, [logits, p]


# ---- comparison ----

def lists(result):
    return list(result) if isinstance(result, (list, tuple)) else [result]


def compare(ours, theirs):
    if ours.dtype != NAMES.get(theirs.dtype):
        return "%s, by jax %s" % (ours.dtype, theirs.dtype)
    if tuple(ours.shape) != theirs.shape:
        return "%s, by jax %s" % (tuple(ours.shape), theirs.shape)
    got, want = np.asarray(ours.numpy()), np.asarray(theirs)
    if ours.dtype not in FLOATS:
        return None if np.array_equal(got, want) else "%s, by jax %s" % (got, want)
    got, want = got.astype(np.float64), want.astype(np.float64)
    room = TOLERANCE[ours.dtype] * max(1, np.nan_to_num(np.abs(want)).max(initial=0))
    if not np.allclose(got, want, rtol=0, atol=room, equal_nan=True):
        return "%s, by jax %s" % (got, want)
    return None


def check(make):
    mine, their, operands = make()
    wide = any(o.dtype in (np.int64, np.float64) for o in operands)
    jax.config.update("jax_enable_x64", wide)
    text = "%s of %s" % (make.__name__, ", ".join(
        "%s%s" % (NAMES[o.dtype], list(o.shape)) for o in operands))
    theirs = lists(their(*[jnp.asarray(o) for o in operands]))
    try:
        ours = lists(mine(*[nb.array(o) for o in operands]))
        nb.realize(*ours)
    except Exception as error:
        return "%s: %s" % (text, error)
    if len(ours) != len(theirs):
        return "%s: %d results, by jax %d" % (text, len(ours), len(theirs))
    for a, b in zip(ours, theirs):
        wrong = compare(a, b)
        if wrong:
            return "%s: %s" % (text, wrong)
    return None


def main():
    rounds, wrong = int(sys.argv[2]), 0
    for make in CASES:
        for _ in range(rounds):
            failure = check(make)
            if failure and wrong < 40:
                print(failure)
            wrong += failure is not None
    print("figure: cases %d\nfigure: differences %d" % (rounds * len(CASES), wrong))
    return 1 if wrong else 0


sys.exit(main())
