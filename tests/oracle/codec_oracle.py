"""Checks the codecs, bit for bit, against an implementation of the rules of
docs/FORMAT.md that shares nothing with them: numpy, whole arrays at a time,
codes by binary search or by comparison with every threshold.

usage: codec_oracle.py PATH_OF_codec_driver [VALUES_PER_CASE]
Exits 77, which ctest shows as skipped, when numpy is missing.
"""
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import encoding_rows  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("skipped: needs numpy (Debian: python3-numpy)")
    sys.exit(77)

f32 = np.float32
ISAS = ("scalar", "avx2", "avx512")
BLOCKS = [16 << i for i in range(9)]
FLT_MAX = np.finfo(f32).max


def from_bits(text):
    return np.array([int(word, 16) for word in text.split()], np.uint32).view(f32)


# bitsandbytes, functional.py: the 16 values of NF4, as the bits of f32. The
# thresholds are computed here as the midpoints, rounded to f32.
NF4 = from_bits("bf800000 bf3239b1 bf066b30 beca32a0 be91a24d be3d353f bdba7871 0 "
                "3da2faff 3e24cae3 3e7c04dd 3ead033a 3ee1a4b8 3f1007ab 3f3913b3 3f800000")
NF4_BOUNDS = ((NF4[1:].astype(np.float64) + NF4[:-1]) / 2).astype(f32)
# bitsandbytes, csrc/kernels.cu: FP4's magnitudes by code, and the constants
# that its encoder compares with.
FP4 = from_bits("0 3baaaaab 3f2aaaab 3f800000 3eaaaaab 3f000000 3e2aaaab 3e800000")
FP4 = np.concatenate([FP4, -FP4])
FP4_BOUNDS = np.array([0.00260417, 0.0859375, 0.20833333, 0.29166667,
                       0.4166667, 0.583333, 0.8333333]).astype(f32)


def blocks_of(x, block):
    """Rows of `block` values, the last filled up with zeros."""
    count = -(-len(x) // block)
    padded = np.zeros(count * block, f32)
    padded[:len(x)] = x
    return padded.reshape(count, block)


def unit_scaled(rows, absmax):
    """x / absmax as the rule computes it; zero where absmax is zero."""
    a = absmax[:, None]
    tiny = a < f32(2.0 ** -126)
    safe = np.where(a == 0, f32(1), a)
    by_inverse = rows * (f32(1) / np.where(tiny, f32(1), safe))
    scaled = np.where(tiny, rows / safe, by_inverse)
    return np.clip(scaled, f32(-1), f32(1))


def nibbles(codes, pad):
    if len(codes) % 2:
        codes = np.append(codes, pad)
    codes = codes.astype(np.uint8)
    return codes[0::2] * np.uint8(16) + codes[1::2]


def code_nf4(scaled):
    return np.searchsorted(NF4_BOUNDS, scaled, side="left")


def code_fp4(scaled):
    size = np.searchsorted(FP4_BOUNDS, np.abs(scaled), side="left")
    by_size = np.argsort(FP4[:8])  # the code of the n-th smallest magnitude
    return by_size[size] + 8 * (scaled < 0)


def four_bits(x, block, code_of, table, pad):
    rows = blocks_of(x, block)
    absmax = np.abs(rows).max(axis=1)
    codes = code_of(unit_scaled(rows, absmax))
    codes[absmax == 0] = pad
    codes = codes.reshape(-1)[:len(x)]
    decoded = table[codes] * np.repeat(absmax, block)[:len(x)]
    return nibbles(codes, pad), absmax, decoded


def int8(x, block, per_row):
    rows = blocks_of(x, block)
    absmax = np.abs(rows).max(axis=1)
    a = np.where(absmax == 0, f32(1), absmax)[:, None]
    factor = f32(127) / a
    finite = np.isfinite(factor)
    product = np.where(finite, rows * np.where(finite, factor, f32(1)),
                       (rows / a) * f32(127))
    codes = np.clip(np.rint(product), -127, 127).astype(np.int8).reshape(-1)[:len(x)]
    q = codes.astype(f32)
    scales = absmax if per_row else np.where(
        absmax == FLT_MAX, f32(float.fromhex('0x1.020406p+121')),
        absmax / f32(127))
    each = np.repeat(scales, block)[:len(x)]
    decoded = (q * each) * f32(7.874015718698502e-3) if per_row else q * each
    return codes.view(np.uint8), scales, decoded


REFERENCES = {
    "nf4": lambda x, block, per_row: four_bits(x, block, code_nf4, NF4, 7),
    "fp4": lambda x, block, per_row: four_bits(x, block, code_fp4, FP4, 0),
    "int8": int8,
}
ENCODINGS, MISSING = encoding_rows.split(REFERENCES)


def expected(encoding, x, block, per_row):
    with np.errstate(all="ignore"):
        return REFERENCES[encoding](x, block, per_row)


class Driver:
    """The C code: one process, one request per line."""

    def __init__(self, path, folder):
        self.input = os.path.join(folder, "in")
        self.output = os.path.join(folder, "out")
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)

    def load(self, x):
        x.tofile(self.input)
        self.x = x

    def ask(self, encoding, block, per_row, isa, count):
        kind = "row" if per_row else "block"
        self.process.stdin.write(f"{encoding} {kind} {block} {isa} {count} "
                                 f"{self.input} {self.output}\n")
        self.process.stdin.flush()
        status = self.process.stdout.readline().strip()
        if status != "OK":
            return status, None
        return status, np.fromfile(self.output, np.uint8)


checks = 0


def compare(driver, isas, encoding, block, per_row=False, count=None):
    """Fails unless every isa gives the expected codes, scales and values."""
    global checks
    x = driver.x if count is None else driver.x[:count]
    parts = expected(encoding, x, block, per_row)
    want = np.concatenate([np.ascontiguousarray(p).view(np.uint8) for p in parts])
    for isa in isas:
        status, got = driver.ask(encoding, block, per_row, isa, len(x))
        where = f"{encoding} {'row' if per_row else 'block'} {block} {isa} {len(x)}"
        if status != "OK":
            sys.exit(f"FAILED {where}: {status}")
        if len(got) != len(want):
            sys.exit(f"FAILED {where}: {len(got)} bytes, not {len(want)}")
        if not np.array_equal(got, want):
            at = int(np.argmax(got != want))
            part = "codes" if at < len(parts[0]) else "scales or values"
            sys.exit(f"FAILED {where}: byte {at} ({part}) is {got[at]}, not {want[at]}")
        checks += 1
    return parts


def near(bounds, scales, rng):
    """Scaled bounds of either sign, up to 2 ulp away."""
    picked = rng.choice(bounds, len(scales)) * rng.choice(f32([-1, 1]), len(scales))
    bits = (picked * scales).astype(f32).view(np.int32) + rng.integers(-2, 3, len(scales))
    x = bits.astype(np.int32).view(f32)
    return np.where(np.isfinite(x), x, f32(1))


def ties(bounds, count, rng):
    """Every 16 values: the scale itself once, the rest around thresholds."""
    exponents = np.repeat(rng.integers(-126, 127, -(-count // 4096)), 4096)[:count]
    scales = np.ldexp(f32(1), exponents).astype(f32)
    scales[: count // 2] *= f32(1.37)
    with np.errstate(all="ignore"):
        x = near(bounds, scales, rng)
    x[::16] = scales[::16]
    return x


def distributions(count, rng):
    normal = rng.standard_normal(count).astype(f32)
    yield "normal", normal
    yield "bf16", (normal.view(np.uint32) & np.uint32(0xffff0000)).view(f32)
    yield "uniform", rng.uniform(-3, 3, count).astype(f32)
    yield "ties nf4", ties(NF4_BOUNDS, count, rng)
    yield "ties fp4", ties(FP4_BOUNDS, count, rng)
    halves = ((np.arange(127) + 0.5) / 127).astype(f32)
    yield "ties int8", ties(halves, count, rng)
    zeros = np.where(rng.random(count) < 0.98, f32(0), normal)
    zeros[rng.random(count) < 0.5] *= f32(-1)
    zeros[: count // 3] = 0
    yield "zeros", zeros
    small = rng.integers(0, 2 ** 23, count, np.uint32)
    small >>= np.repeat(rng.integers(0, 23, -(-count // 64)).astype(np.uint32), 64)[:count]
    small |= rng.integers(0, 2, count, np.uint32) << np.uint32(31)
    yield "subnormal", small.view(f32)
    tiny = (normal * f32(2.0 ** -121)).astype(f32)
    yield "tiny", tiny
    huge = rng.uniform(-1, 1, count) * float(FLT_MAX)
    huge[::97] = float(FLT_MAX)
    yield "huge", huge.astype(f32)
    bits = rng.integers(0, 2 ** 32, count, np.uint32)
    bits[(bits & 0x7f800000) == 0x7f800000] &= np.uint32(0xff7fffff)
    yield "any bits", bits.view(f32)


def check_distributions(driver, isas, rng, count):
    for name, x in distributions(count, rng):
        driver.load(x)
        for encoding in ENCODINGS:
            for block in BLOCKS:
                compare(driver, isas, encoding, block)
        if np.abs(x).max() < float(FLT_MAX) / 127:
            for length in (1, 3, 27, 64, 100, 4096, 11008):
                compare(driver, isas, "int8", length, True)
        print(f"{name}: equal", flush=True)


def check_tails(driver, isas, rng):
    driver.load(rng.standard_normal(8192).astype(f32))
    for encoding in ENCODINGS:
        for block in BLOCKS:
            step = 1 if block <= 128 else block // 32 + 1
            for tail in range(1, block + 1, step):
                compare(driver, isas, encoding, block, count=block + tail)
                compare(driver, isas, encoding, block, count=tail)
    print("tails: equal", flush=True)


# Mean absolute and mean relative error on N(0,1), from docs/FORMAT.md.
ERRORS = {
    ("nf4", 32): (.0677, .190), ("nf4", 64): (.0728, .203),
    ("nf4", 128): (.0768, .215), ("nf4", 4096): (.0925, .262),
    ("fp4", 32): (.0889, .242), ("fp4", 64): (.0965, .260),
    ("fp4", 128): (.1030, .276), ("fp4", 4096): (.1295, .337),
}


def check_errors(driver, isas, rng):
    driver.load(rng.standard_normal(1 << 24).astype(f32))
    x = driver.x.astype(np.float64)
    for (encoding, block), table in ERRORS.items():
        status, got = driver.ask(encoding, block, False, isas[-1], len(x))
        assert status == "OK", status
        error = np.abs(got[-4 * len(x):].view(f32) - x)
        found = error.mean(), (error / np.abs(x)).mean()
        print(f"{encoding} block {block}: mean error {found[0]:.5f}, relative {found[1]:.4f}")
        for value, wanted in zip(found, table):
            if abs(value / wanted - 1) > 0.005:
                sys.exit(f"FAILED {encoding} block {block}: {value}, not {wanted}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        driver = Driver(sys.argv[1], folder)
        rng = np.random.default_rng(1)
        driver.load(np.zeros(64, f32))
        isas = [isa for isa in ISAS
                if driver.ask("nf4", 64, False, isa, 64)[0] == "OK"]
        print("instruction sets:", *isas)
        check_tails(driver, isas, rng)
        count = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_003
        check_distributions(driver, isas, rng, count)
        check_errors(driver, isas, rng)
    print(f"{checks} comparisons, all equal{encoding_rows.skipped(MISSING)}")


main()
