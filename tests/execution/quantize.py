"""nabla.quantize into every encoding, scale type and granularity, byte for byte
against tests/oracle/reference.py (numpy), to which oracle.codec holds the codecs
of quant/; for three instruction sets.

usage: quantize.py NABLA_RUN
"""
import sys

import harness
from harness import np, Function, exact
import nested
from nested import Packed, Dynamic8, reference
from programs_leaves import Rows, SPANS

f32 = np.float32
KINDS = ("f32", "f16", "bf16")
TARGETS = ("native", "x86-64-v3", "x86-64")
SHAPES = ((7, 96), (3, 37), (1,), (5, 128), (16,), (2, 0), (19, 19))


def encodings():
    for name, row in reference.ROWS.items():
        if row.emax is not None:
            yield Packed(name, 32)
            continue
        for scale in ("f32", "f16", "bf16", Dynamic8(16),
                      Packed("fp8", 16, "f16"), Packed("mxfp8", 32)):
            for zero in (False, True)[:1 + row.zero_point]:
                yield Packed(name, 16 if zero else 32, scale, zero)
        for span in SPANS[name]:
            for scale in ("f32", "f16", "bf16"):
                yield Rows(name, span, scale, 1)


def for_shape(encoding, shape):
    """The same encoding; a row is as long as the shape says."""
    if not hasattr(encoding, "span"):
        return encoding
    count = int(np.prod(shape, dtype=np.int64))
    row = count if encoding.span == "tensor" else count // max(shape[0], 1)
    return Rows(encoding.name, encoding.span, encoding.scale, max(row, 1))


def ties(rng, encoding, count):
    """Values at which codes change, and their neighbours."""
    values = np.unique(np.abs(reference.table_of(encoding.name)))
    values = values[np.isfinite(values)].astype(np.float64)
    if len(values) < 2:
        values = np.array([0, 1.0])
    middle = np.concatenate([(values[1:] + values[:-1]) / 2, values])
    x = rng.choice(middle, count) * rng.choice([-1, 1], count)
    x = (x * 2.0 ** rng.integers(-20, 20)).astype(f32)
    near = x.view(np.int32) + rng.integers(-1, 2, count).astype(np.int32)
    x = np.where(x == 0, x, near.view(f32))
    x[::32] = f32(values[-1]) * np.abs(x[::32]).max(initial=1)
    return x


def to_encode(rng, encoding, count, number):
    x = rng.standard_normal(count).astype(f32)
    if number % 5 == 1:
        x = ties(rng, encoding, count)
    if number % 5 == 2:  # subnormals and nearly
        x *= f32(1e-38) * rng.choice(f32([1, 1e-3, 1e-7]), count)
    if number % 5 == 3:  # zeros of both signs, blocks of nothing else
        x[:count // 2] = rng.choice(f32([0, -0.0]), count // 2)
    if number % 5 == 4:
        x *= f32(2) ** rng.integers(-100, 100, count).astype(f32)
        x[count // 2:count // 2 + 1] = np.finfo(f32).max
    return x


def refused(encoding, x):
    with np.errstate(all="ignore"):
        return reference.encode(encoding.form, x).refused.any()


def add(functions, rng, encoding, number):
    shape = SHAPES[number % len(SHAPES)]
    encoding = for_shape(encoding, shape)
    count = int(np.prod(shape, dtype=np.int64))
    if count == 0 and encoding.nested or len(shape) < 2 and getattr(
            encoding, "span", "") == "leading":
        return
    kind = KINDS[number // 5 % 3]
    x = harness.narrow(to_encode(rng, encoding, count, number), kind)
    if not np.isfinite(harness.widen(x)).all() or refused(
            encoding, harness.widen(x).astype(f32)):
        x = harness.narrow(rng.standard_normal(count).astype(f32), kind)
    f = Function("q%d_%s" % (len(functions), encoding.name))
    value, text = f.argument(x.reshape(shape))
    whole = nested.implicit_type(encoding, shape, kind)
    q = f.op("nabla.quantize %s : %s -> %s" % (value, text, whole))
    with np.errstate(all="ignore"):
        parts = encoding.encode(harness.widen(x).astype(f32))
    nested.give_leaves(f, q, whole, encoding, parts, count)
    functions.append(f)


def add_not_finite(functions, rng, encoding):
    """A NaN or an infinity spoils its own block, and no other one."""
    block = encoding.form.size
    x = rng.standard_normal(4 * block).astype(f32)
    x[block + 3], x[2 * block + 5] = np.nan, -np.inf
    f = Function("q%d_not_finite_%s" % (len(functions), encoding.name))
    value, text = f.argument(x)
    whole = nested.implicit_type(encoding, x.shape)
    q = f.op("nabla.quantize %s : %s -> %s" % (value, text, whole))
    given = np.where(np.isfinite(x), x, 0).astype(f32)
    want = encoding.decode(encoding.encode(given), len(x)).reshape(4, block)

    def check(got):
        rows = got.reshape(4, block)
        hidden = np.isfinite(rows[1:3]).all(axis=1).any()
        return exact(want[::3])(rows[::3]) or (
            "a block hides what is not finite" if hidden else "")
    f.give(f.op("nabla.materialize %s : %s" % (q, whole)), text, check)
    functions.append(f)


def test(s):
    rng = np.random.default_rng(harness.seed())
    functions, all_of = [], list(encodings())
    each = 10 if harness.slice_number() == "all" else 4
    for i, encoding in enumerate(all_of):
        for number in range(i, i + each):
            add(functions, rng, encoding, 7 * number + i // 7)
    for encoding in all_of:
        if not encoding.nested and not encoding.zero and not hasattr(
                encoding, "span"):
            add_not_finite(functions, rng, encoding)
    for turn, target in enumerate(TARGETS):
        s.run_all(functions, ["--policy", "error", "--target", target],
                  parts=len(TARGETS), turn=turn)


if __name__ == "__main__":
    harness.session(sys.argv[1], test)
