"""Values that are hard to encode: around thresholds, at the ends of the range,
one-sided, constant. Each generator gives finite f32."""
import numpy as np

from elements import (E2M1, E4M3, E5M2, FP4_BOUNDS, NF4_BOUNDS, f32, from_bits,
                      load, store)

FLT_MAX = np.finfo(f32).max
RUN = 16  # values that share a magnitude: the smallest block


def finite(x):
    return np.where(np.isfinite(x), x, f32(1)).astype(f32)


def moved(x, rng):
    """Up to 2 ulp away."""
    bits = x.astype(f32).view(np.int32) + rng.integers(-2, 3, len(x), np.int32)
    return finite(bits.view(f32))


def magnitudes(count, rng):
    """One for each run of values: powers of two, half of them with a mantissa;
    a part around the smallest normal number."""
    runs = -(-count // RUN)
    exponents = np.repeat(rng.integers(-130, 120, -(-runs // 64)), 64)[:runs]
    exponents[: runs // 8] = rng.integers(-129, -124, len(exponents[: runs // 8]))
    mantissas = np.where(np.arange(runs) < runs // 2, rng.uniform(1, 2, runs), 1)
    scale = np.ldexp(mantissas, exponents).astype(f32)
    some = slice(runs // 4, 3 * runs // 4)  # within the range of F16
    scale[some] = rng.choice(f32([1, 2.0 ** -9]), len(scale[some]))
    return np.repeat(scale, RUN)[:count]


def ties(bounds, limit):
    """Around all thresholds, in units of the scale; the largest is `limit`."""
    def make(count, rng):
        scale = magnitudes(count, rng)
        picked = rng.choice(np.asarray(bounds, f32), count)
        with np.errstate(all="ignore"):
            x = moved(picked * rng.choice(f32([-1, 1]), count) * scale, rng)
            x[::RUN] = finite(scale[::RUN] * f32(limit))
        return x
    return make


def mean_ties(count, rng):
    """Around half the mean of each run: pairs with that mean."""
    mean = magnitudes(count, rng)
    part = np.where(np.arange(count) % 2 == 0, f32(0.5), f32(1.5))
    return moved(part * mean * rng.choice(f32([-1, 1]), count), rng)


def mean_order(count, rng):
    """Runs whose sum is a tie of f32, but for two to four values that the order
    of the sum keeps or loses: each is at most half a last bit of f64."""
    runs = -(-count // 64)
    x = np.zeros((runs, 64))
    for run, length in zip(x, rng.choice([16, 32, 64], runs)):
        at = rng.permutation(length)[:6]
        if rng.random() < 0.5:  # in the lane that is added last to the first's
            at = rng.integers(0, 7) + np.array([0, 1, 8, 24, 40, 56])
        run[at[:2]] = 1, 2.0 ** -24
        run[at[2:2 + rng.integers(2, 5)]] = 2.0 ** -rng.integers(53, 55)
    x *= rng.choice([1, -1, 3, 2.0 ** 60], runs)[:, None]
    return x.reshape(-1)[:count].astype(f32)


def edges(count, rng):
    """Runs whose largest value is the last or first that a format can hold."""
    tops = np.array([FLT_MAX, 65504, 65519.996, 65520, 2.0 ** -14, 2.0 ** -25,
                     2.0 ** -126, 2.0 ** -127, 2.0 ** -134, 2.0 ** -149,
                     3.3895314e38, 3.3961775e38], np.float64)
    divisors = [1, 7, 127, 15, 255, 448, 57344]
    with np.errstate(all="ignore"):
        all_edges = np.concatenate([(tops / d).astype(f32) for d in divisors] +
                                   [(tops * d).astype(f32) for d in divisors])
        all_edges = all_edges[np.isfinite(all_edges)]
        top = moved(rng.choice(all_edges, -(-count // RUN)), rng)
    x = np.repeat(top, RUN)[:count] * rng.uniform(-1, 1, count).astype(f32)
    x[::RUN] = top * rng.choice(f32([-1, 1]), len(top))
    return x


def affine_ties(levels):
    """Around the thresholds of codes with zero points; one-sided runs too."""
    def make(count, rng):
        scale = magnitudes(count, rng)
        runs = -(-count // RUN)
        zero = rng.integers(-levels // 2, levels * 3 // 2, runs)
        zero[::5], zero[1::5] = 0, levels
        zero = np.repeat(zero, RUN)[:count].astype(f32)
        q = rng.integers(0, levels, count).astype(f32) + f32(0.5) - zero
        with np.errstate(all="ignore"):
            x = moved(q * scale, rng)
            x[::RUN] = finite((-zero * scale)[::RUN])
            x[1::RUN] = finite(((f32(levels) - zero) * scale)[1::RUN])
        return x
    return make


def normal(count, rng):
    return rng.standard_normal(count).astype(f32)


def uniform(count, rng):
    return rng.uniform(-3, 3, count).astype(f32)


def zeros(count, rng):
    x = np.where(rng.random(count) < 0.98, f32(0), normal(count, rng))
    x[rng.random(count) < 0.5] *= f32(-1)
    x[: count // 3] = 0
    x[count // 4: count // 3] = -0.0
    return x


def constant(count, rng):
    """Runs of one value, longer and longer."""
    x = normal(count, rng)
    return np.repeat(x, 37)[:count] if rng.random() < 0.5 else \
        x[np.minimum(np.arange(count) // 4096, count - 1)]


def one_sided(count, rng):
    runs = rng.choice(f32([-1, 1]), -(-count // 64))
    return np.abs(normal(count, rng) + f32(3)) * np.repeat(runs, 64)[:count]


def mixed(count, rng):
    """Magnitudes that differ by much within a block."""
    return np.ldexp(normal(count, rng), rng.integers(-40, 10, count)).astype(f32)


def small_for_f16(count, rng):
    """Scales around the subnormals of F16, and below them."""
    exponents = np.repeat(rng.integers(-32, -8, -(-count // 64)), 64)[:count]
    return np.ldexp(normal(count, rng), exponents).astype(f32)


def large_for_f16(count, rng):
    """Scales around the largest F16."""
    exponents = np.repeat(rng.integers(12, 34, -(-count // 64)), 64)[:count]
    return np.ldexp(normal(count, rng), exponents).astype(f32)


def subnormal(count, rng):
    x = rng.integers(0, 2 ** 23, count, np.uint32)
    x >>= np.repeat(rng.integers(0, 23, -(-count // 64)).astype(np.uint32), 64)[:count]
    x |= rng.integers(0, 2, count, np.uint32) << np.uint32(31)
    return x.view(f32)


def tiny(count, rng):
    exponents = np.repeat(rng.integers(-140, -100, -(-count // 64)), 64)[:count]
    return np.ldexp(normal(count, rng), exponents).astype(f32)


def huge(count, rng):
    exponents = np.repeat(rng.integers(-16, 1, -(-count // 64)), 64)[:count]
    x = rng.uniform(-1, 1, count) * np.ldexp(1.0, exponents) * float(FLT_MAX)
    x[::97] *= float(FLT_MAX) / np.abs(x[::97])
    return x.astype(f32)


def any_bits(count, rng):
    bits = rng.integers(0, 2 ** 32, count, np.uint32)
    bits[(bits & 0x7f800000) == 0x7f800000] &= np.uint32(0xff7fffff)
    return bits.view(f32)


def steps(limit):
    return np.arange(limit) + 0.5


DISTRIBUTIONS = {
    "normal": normal, "uniform": uniform, "zeros": zeros, "constant": constant,
    "one-sided": one_sided, "mixed": mixed, "subnormal": subnormal, "tiny": tiny,
    "small for F16": small_for_f16, "large for F16": large_for_f16,
    "huge": huge, "any bits": any_bits, "ties nf4": ties(NF4_BOUNDS, 1),
    "ties fp4": ties(FP4_BOUNDS, 1), "ties int8": ties(steps(127), 127),
    "ties int4": ties(steps(8), 8), "ties -int4": ties(steps(8), -8),
    "ties mean": mean_ties,
    "order of means": mean_order, "edges": edges,
    "ties E2M1": ties(E2M1.bounds, 6), "ties E4M3": ties(E4M3.bounds, 448),
    "ties E5M2": ties(E5M2.bounds, 57344), "ties 15": affine_ties(15),
    "ties 255": affine_ties(255),
}


def narrowed(x, dtype):
    """The nearest values that a dtype has, and that are finite in it."""
    largest = {"F32": FLT_MAX, "F16": f32(65504),
               "BF16": from_bits("7f7f0000")[0]}[dtype]
    return load(store(np.clip(x, -largest, largest), dtype), dtype)
