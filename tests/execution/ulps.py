"""Functions of f32 in clusters: at most 2 units in the last place from the exact
values, on every target the same bytes. Exact values are those of f64, by numpy
and the C library.

usage: ulps.py NABLA_RUN

Every STEP-th float, from a first one by NABLA_TEST_SEED, and those where
formulas change: around zero, powers of two, the ends of the range."""
import math
import sys

import harness
from harness import np, Function

STEP = 4099
BOUND = 2.0
# of rows of tables.def: a + 1 at quarters of octaves; where rows ID_far begin;
# quarters of a turn, and 47 rad; the f32 that is nearest to one, 16367173 2^72
EDGES = [k * (1 + j / 4) - 1 for k in (1, 2, 4, 8) for j in range(4)]
EDGES += [2.0**17, 16367173 * 2.0**72] + [
    k * math.pi / 2 for k in (1, 2, 3, 4, 5, 100, 651, 83443, 10**7)]


def of_libm(function):
    return lambda x: np.fromiter(map(function, x.tolist()), np.float64, x.size)


def gate(x, t):
    """x / (1 + exp(-t)), 0 where exp is infinite."""
    return np.where(t < -700, x * 0.0, x / (1 + np.exp(-np.maximum(t, -700))))


def gelu(x):
    half = of_libm(math.erfc)(-x * math.sqrt(0.5)) * 0.5
    return np.where(x < -40, -0.0, np.maximum(x, -40) * half)


def gelu_tanh(x):
    y = np.maximum(x, -40)
    return gate(y, 1.5957691216057307117 * (y + 0.044715 * y * y * y))


FUNCTIONS = {
    "exp": ("exp", np.exp),
    "log": ("log", np.log),
    "log1p": ("log1p", np.log1p),
    "tanh": ("tanh", np.tanh),
    "sin": ("sin", np.sin),
    "cos": ("cos", np.cos),
    "erf": ("erf", of_libm(math.erf)),
    "rsqrt": ("rsqrt", lambda x: 1 / np.sqrt(x)),
    "sigmoid": ("sigmoid", lambda x: gate(np.ones_like(x), x)),
    "silu": ("silu", lambda x: gate(np.maximum(x, -800), x)),
    "gelu": ("gelu", gelu),
    "gelu_tanh": ("gelu %x approximate = tanh", gelu_tanh),
}


def inputs():
    first = harness.seed() * 1021 % STEP
    bits = np.arange(first, 2**32, STEP, dtype=np.uint64).astype(np.uint32)
    edges = np.array([0.0, 2.0**-126, 2.0**-149, 1, 6, 11, 14.9, 40, 88.7, 104,
                      111, 3.4028234663852886e38, np.inf, np.nan] + EDGES,
                     np.float32)
    near = (edges.view(np.uint32)[:, None] +
            np.arange(-8, 9, dtype=np.int64)[None, :]).clip(0, 2**31 - 1)
    near = near.astype(np.uint32).reshape(-1)
    bits = np.concatenate([bits, near, near | np.uint32(2**31)])
    return bits.view(np.float32)


def distance(got, want):
    """In units of the last place of f32; of NaN and infinities 0 or infinite."""
    limit = float(np.finfo(np.float32).max)
    unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(want), 2.0**-126))) - 23)
    off = np.abs(got.astype(np.float64) - want) / unit
    with_inf = np.isinf(got) | np.isinf(want) | (np.abs(want) > limit)
    # beyond the largest value infinity is right
    right = np.where(np.abs(want) > limit, np.abs(got) >= limit, got == want)
    right &= np.sign(got) == np.sign(want)
    off = np.where(with_inf, np.where(right, 0.0, np.inf), off)
    return np.where(np.isnan(want) | np.isnan(got),
                    np.where(np.isnan(want) == np.isnan(got), 0.0, np.inf), off)


def bounded(name, x, want):
    def check(got):
        with np.errstate(all="ignore"):
            off = distance(got, want)
        worst = int(np.argmax(off))
        if off[worst] <= BOUND:
            return None
        return "%s of %r is %r, not %r: %.2f units" % (
            name, x[worst], got[worst], want[worst], off[worst])
    return check


def function(name, x, exact_of):
    f = Function(name)
    operand, kind = f.argument(x)
    text = FUNCTIONS[name][0]
    text = (text.replace("%x", operand) if "%x" in text
            else text + " " + operand)
    with np.errstate(all="ignore"):
        want = exact_of(x.astype(np.float64))
    f.give(f.op("nabla.%s : %s" % (text, kind)), kind, bounded(name, x, want))
    return f


def same(here, there):
    return ((here.view(np.uint32) == there.view(np.uint32)) |
            (np.isnan(here) & np.isnan(there)))


def test(s):
    x = inputs()
    for name, (_, exact_of) in FUNCTIONS.items():
        f = function(name, x, exact_of)
        program = s.write(f.text())
        s.check(program, f)
        here = s.call(program, f)[0]
        for target in ("x86-64-v3", "x86-64"):
            there = s.call(program, f, ["--target", target, "--threads", "2"])[0]
            equal = same(here, there)
            s.expect(equal.all(), "%s for %s: %d values differ, the first of %r"
                     % (name, target, (~equal).sum(), x[int(np.argmin(equal))]))


if __name__ == "__main__":
    harness.session(sys.argv[1], test)
