"""Number formats, after docs/FORMAT.md and the OCP specifications, in numpy:
tables of values, and rounding by search among exact midpoints. It shares
nothing with the C code, which moves bits."""
import numpy as np

f32, f64 = np.float32, np.float64


def from_bits(text):
    return np.array([int(word, 16) for word in text.split()], np.uint32).view(f32)


# bitsandbytes, functional.py: the 16 values of NF4, as the bits of f32. The
# thresholds are computed here as the midpoints, rounded to f32.
NF4 = from_bits("bf800000 bf3239b1 bf066b30 beca32a0 be91a24d be3d353f bdba7871 0 "
                "3da2faff 3e24cae3 3e7c04dd 3ead033a 3ee1a4b8 3f1007ab 3f3913b3 3f800000")
NF4_BOUNDS = ((NF4[1:].astype(f64) + NF4[:-1]) / 2).astype(f32)
# bitsandbytes, csrc/kernels.cu: FP4's magnitudes by code, and the constants
# that its encoder compares with.
FP4 = from_bits("0 3baaaaab 3f2aaaab 3f800000 3eaaaaab 3f000000 3e2aaaab 3e800000")
FP4 = np.concatenate([FP4, -FP4])
FP4_BOUNDS = np.array([0.00260417, 0.0859375, 0.20833333, 0.29166667,
                       0.4166667, 0.583333, 0.8333333]).astype(f32)


class Float:
    """A small floating-point type: sign, exponent, mantissa, from the top.
    Codes of magnitudes from `top` on are not numbers."""

    def __init__(self, exponent, mantissa, top=None):
        self.sign = 1 << (exponent + mantissa)
        bias = 2 ** (exponent - 1) - 1
        code = np.arange(self.sign)
        power, rest = code >> mantissa, code & (2 ** mantissa - 1)
        normal = (2.0 ** mantissa + rest) * 2.0 ** (power - bias - mantissa)
        value = np.where(power == 0, rest * 2.0 ** (1 - bias - mantissa), normal)
        top = self.sign if top is None else top
        self.finite = value[:top]
        self.bounds = (self.finite[1:] + self.finite[:-1]) / 2  # exact in f64
        value[top:] = np.nan
        if top == 2 ** exponent - 1 << mantissa:
            value[top] = np.inf
        self.values = np.concatenate([value, -value]).astype(f32)
        self.largest = f32(self.finite[-1])

    def round(self, scaled):
        """Codes: half to even, saturating, signs kept."""
        size = np.abs(scaled.astype(f64))
        code = np.searchsorted(self.bounds, size, side="left")
        at = np.minimum(code, len(self.bounds) - 1)
        tie = (self.bounds[at] == size) & (code < len(self.bounds))
        code = code + (tie & (code % 2 == 1))
        return code + np.where(np.signbit(scaled), self.sign, 0)


E2M1 = Float(2, 1)
E4M3 = Float(4, 3, top=0x7f)  # one code per sign is NaN
E5M2 = Float(5, 2, top=0x7c)  # infinity, then NaN


def to_bf16(x):
    """The upper halves of f32, rounded half to even; some NaN for NaN."""
    bits = np.ascontiguousarray(x, f32).view(np.uint32).astype(np.uint64)
    low, high = bits & 0xffff, bits >> 16
    up = (low > 0x8000) | ((low == 0x8000) & (high % 2 == 1))
    return np.where(np.isnan(x), 0x7fc0, high + up).astype(np.uint16)


def from_bf16(half):
    return (half.astype(np.uint32) << np.uint32(16)).view(f32)


def store(x, dtype):
    """The bytes of f32 values as F32, F16 or BF16."""
    if dtype == "F32":
        out = np.ascontiguousarray(x, f32)
    else:
        out = x.astype(np.float16) if dtype == "F16" else to_bf16(x)
    return out.view(np.uint8)


def load(raw, dtype):
    """f32 values from the bytes of a dtype."""
    if dtype == "F32":
        return raw.view(f32)
    return raw.view(np.float16).astype(f32) if dtype == "F16" \
        else from_bf16(raw.view(np.uint16))


def dynamic_map():
    """bitsandbytes, functional.py, create_dynamic_map(signed=True): means of
    neighbours among evenly spaced points from 0.1 to 1, in seven decades; all in
    f32, points by a fused multiply-add from the nearer end (torch.linspace)."""
    values = [f32(0), f32(1)]
    for decade in range(7):
        parts = 2 ** decade
        step = f64((f32(1) - f32(0.1)) / f32(parts))
        i = np.arange(parts + 1)
        points = np.where(i < (parts + 1) // 2, f64(f32(0.1)) + step * i,
                          1 - step * (parts - i)).astype(f32)
        means = (points[1:] + points[:-1]) / f32(2) * f32(10.0 ** (decade - 6))
        values += [*means, *-means]
    return np.sort(np.array(values, f32))


def check_against_ml_dtypes(rng):
    """Where the Python package has a type of ours, both agree on all values and
    around all midpoints. @return what was compared, for people"""
    import ml_dtypes
    x = rng.integers(0, 2 ** 32, 1 << 18, np.uint32).view(f32)
    x = x[np.isfinite(x)]
    for ours, theirs in ((E2M1, ml_dtypes.float4_e2m1fn),
                         (E4M3, ml_dtypes.float8_e4m3fn),
                         (E5M2, ml_dtypes.float8_e5m2)):
        codes = np.arange(2 * ours.sign, dtype=np.uint8)
        wide = codes.view(theirs).astype(f32)
        assert np.array_equal(ours.values, wide, equal_nan=True), theirs
        assert np.array_equal(np.signbit(ours.values), np.signbit(wide)) or \
            np.isnan(wide).any(), theirs
        near = ours.bounds.astype(f32).view(np.int32)[:, None] + np.arange(-2, 3)
        near = np.maximum(near, 0).astype(np.int32).view(f32).reshape(-1)
        some = np.concatenate([near, -near, f32([0, -0.0]), x])
        some = some[np.abs(some) <= ours.largest]  # theirs does not saturate
        assert np.array_equal(ours.round(some), some.astype(theirs).view(np.uint8))
    with np.errstate(all="ignore"):
        assert np.array_equal(to_bf16(x), x.astype(ml_dtypes.bfloat16).view(np.uint16))
    powers = np.arange(255, dtype=np.uint8)
    wide = powers.view(ml_dtypes.float8_e8m0fnu).astype(f32)
    assert np.array_equal(np.ldexp(f32(1), powers.astype(int) - 127), wide)
    return "E2M1, E4M3, E5M2, E8M0 and BF16 agree with ml_dtypes"
