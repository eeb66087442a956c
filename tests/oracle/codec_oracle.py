"""Checks the codecs, bit for bit, against reference.py: every encoding, scale
type, dtype and instruction set of this machine.

usage: codec_oracle.py PATH_OF_codec_driver [VALUES_PER_CASE [SEED]]
Exits 77, which ctest shows as skipped, when numpy is missing.
"""
import subprocess
import sys

sys.dont_write_bytecode = True
import encoding_rows  # noqa: E402

try:
    import numpy as np
except ImportError:
    print("skipped: needs numpy (Debian: python3-numpy)")
    sys.exit(77)

import elements  # noqa: E402
import reference  # noqa: E402
from codec_values import DISTRIBUTIONS, RUN, narrowed  # noqa: E402
from reference import Form  # noqa: E402

f32 = np.float32
ISAS = ("scalar", "avx2", "avx512")
DTYPES = ("F32", "F16", "BF16")
BLOCKS = [16 << i for i in range(9)]
LENGTHS = (1, 3, 27, 64, 100, 1000, 4096, 11008)  # of rows
ENCODINGS, MISSING = encoding_rows.split(reference.ROWS)


class Driver:
    """The C code: one process, one request at a time."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        self.checks = 0
        self.sent = b""

    def load(self, *parts):
        """Sets the bytes of the requests that follow."""
        self.sent = b"".join(np.ascontiguousarray(part).tobytes() for part in parts)

    def ask(self, verb, form, isa, dtype, count):
        """@return (status, index, bytes)"""
        self.process.stdin.write(
            f"{verb} {form.encoding} {form.span} {form.size} {form.scale} "
            f"{int(form.zero_point)} {form.segment} {isa} {dtype} {count} "
            f"{len(self.sent)}\n".encode() + self.sent)
        self.process.stdin.flush()
        self.checks += 1
        line = self.process.stdout.readline().decode().split()
        if len(line) != 3:
            fail(form, isa, dtype, count, "the driver ended")
        data = self.process.stdout.read(int(line[2]))
        return line[0], int(line[1]), np.frombuffer(data, np.uint8)


def fail(form, isa, dtype, count, what):
    sys.exit(f"FAILED {form}, {isa}, {dtype}, {count} values: {what}")


def stored(values):
    """f32 as the bytes of all dtypes, one after the other."""
    with np.errstate(all="ignore"):
        return [elements.store(values, dtype) for dtype in DTYPES]


def explain(got, want, names):
    """Which part differs first."""
    if len(got) != sum(map(len, want)):
        return f"{len(got)} bytes, not {sum(map(len, want))}"
    for name, part in zip(names, want):
        if not np.array_equal(got[:len(part)], part):
            at = int(np.argmax(got[:len(part)] != part))
            return f"byte {at} of {name} is {got[at]}, not {part[at]}"
        got = got[len(part):]
    return "equal"


PARTS = ("scales", "zero points", "codes", "F32", "F16", "BF16")


def refuse(form, x, refused):
    """Sets to zero what lies in refused blocks."""
    return np.where(refused[reference.blocks_in(form, len(x))], f32(0), x)


def expect_refusal(driver, isas, form, dtype, x, refused):
    """Some refused block's largest value is told."""
    block = reference.blocks_in(form, len(x))
    for isa in isas:
        status, index, _ = driver.ask("encode", form, isa, dtype, len(x))
        if status != "UNSUPPORTED":
            fail(form, isa, dtype, len(x), f"{status}, not UNSUPPORTED")
        if not refused[block[index]]:
            fail(form, isa, dtype, len(x), f"value {index} is in a good block")
        if np.abs(x[index]) != np.abs(x[block == block[index]]).max():
            fail(form, isa, dtype, len(x), f"value {index} is not the largest")


def expect_each_refused(driver, isas, form, dtype, x, refused):
    """The refused blocks with the least values, each alone."""
    block = reference.blocks_in(form, len(x))
    peak = np.zeros(len(refused), f32)
    np.maximum.at(peak, block, np.abs(x))
    peak[~refused] = np.inf
    for at in np.argsort(peak)[:min(4, int(refused.sum()))]:
        part = x[block == at]
        alone = form._replace(size=len(part)) if form.span == "tensor" else form
        driver.load(elements.store(part, dtype))
        expect_refusal(driver, isas, alone, dtype, part, np.array([True]))


def compare(driver, isas, form, x, dtype="F32"):
    """Fails unless every isa gives the expected bytes and values."""
    driver.load(elements.store(x, dtype))
    packed = reference.encode(form, x)
    if packed.refused.any():
        expect_refusal(driver, isas, form, dtype, x, packed.refused)
        expect_each_refused(driver, isas, form, dtype, x, packed.refused)
        return compare(driver, isas, form, refuse(form, x, packed.refused), dtype)
    values = reference.decode(form, len(x), packed.codes, packed.scales, packed.zeros)
    want = [packed.scales, packed.zeros, packed.codes, *stored(values)]
    whole = np.concatenate(want)
    for isa in isas:
        status, index, got = driver.ask("encode", form, isa, dtype, len(x))
        if status != "OK":
            fail(form, isa, dtype, len(x), f"{status}, value {index}")
        if not np.array_equal(got, whole):
            fail(form, isa, dtype, len(x), explain(got, want, PARTS))
    return values


def forms_of(encodings):
    return [form for form in reference.every_form()
            if form.encoding in encodings and reference.is_allowed(form)]


def sized(form, number):
    """The form with a block or row length of its own, by number."""
    if form.scale == "E8M0":
        return form
    sizes = BLOCKS if form.span == "block" else LENGTHS
    return form._replace(size=sizes[number % len(sizes)])


def check_refusals(driver):
    """What the table has not cannot be selected."""
    driver.load()
    forms = list(reference.every_form())
    for form in forms_of(ENCODINGS):
        forms += [form._replace(size=size) for size in
                  (0, 1, 8, 16, 24, 32, 48, 64, 4096, 4097, 8192)]
        forms += [form._replace(segment=segment) for segment in (1, 2, 4, 8, 64)]
    for form in forms:
        status, _, _ = driver.ask("encode", form, "scalar", "F32", 0)
        want = "OK" if reference.is_allowed(form) else "INVALID_ARGUMENT"
        if status != want:
            fail(form, "scalar", "F32", 0, f"{status}, not {want}")
    print(f"{len(forms)} formats: refused or not as they should", flush=True)


def check_tails(driver, isas, rng, most=130):
    x = rng.standard_normal(2 * 4096 + 3 * most).astype(f32)
    for number, form in enumerate(forms_of(ENCODINGS)):
        for tail in range(0, most + 1):
            dtype = DTYPES[tail % 3]
            for i in range(3):
                dtype = DTYPES[(tail + i) % 3]
                if form.span == "block":
                    at = sized(form, (tail + number + i) % 4)
                    count = tail if i else tail + at.size
                else:
                    at = form._replace(size=max(tail, 1))
                    count = tail * (1 if form.span == "tensor" else 3)
                compare(driver, isas, at, narrowed(x[i:count + i], dtype), dtype)
        for size in BLOCKS[4:] if at.span == "block" and at.scale != "E8M0" else []:
            for count in (size - 1, size + 1, 2 * size - 17, 2 * size):
                compare(driver, isas, form._replace(size=size), x[:count])
    print("tails: equal", flush=True)


def short_sizes(form):
    """Block sizes near what shares a magnitude; 0 for all values."""
    if form.span == "tensor":
        return [0]
    if form.encoding in ("ternary", "binary"):  # sums of other orders
        return [16, 32, 64]
    return [] if form.scale == "E8M0" else [RUN]


def check_distributions(driver, isas, rng, count):
    """In f32 with blocks as long as what shares a magnitude, then with other
    blocks and dtypes."""
    number = 0
    for name, make in DISTRIBUTIONS.items():
        for form in forms_of(ENCODINGS):
            number += 1
            x = make(count + number % 64, rng)
            for size in short_sizes(form):
                compare(driver, isas, form._replace(size=size or len(x)), x)
            at = sized(form, number // 3)
            if form.span == "tensor":
                at = at._replace(size=len(x))
            dtype = DTYPES[number % 3]
            compare(driver, isas, at, narrowed(x, dtype), dtype)
        print(f"{name}: equal", flush=True)


def check_segments(driver, isas, rng):
    """Blocks that begin anew within the values."""
    for number, form in enumerate(forms_of(ENCODINGS)):
        if form.span != "block":
            continue
        for segment in (8, 16, 40, 64, 104, 1000, 4104):
            at = sized(form._replace(segment=segment), number + segment)
            for count in (segment - 1, segment, 3 * segment, 5 * segment + 3):
                compare(driver, isas, at, rng.standard_normal(count).astype(f32))
    print("segments: equal", flush=True)


def check_nonfinite(driver, isas, rng):
    """The first value that is not finite is told."""
    for number, form in enumerate(forms_of(ENCODINGS)):
        at = sized(form, number)
        for first in (0, 1, 15, 16, 100, 299):
            x = rng.standard_normal(300).astype(f32)
            at = at._replace(size=300) if at.span == "tensor" else at
            dtype = DTYPES[(number + first) % 3]
            x[first] = rng.choice(f32([np.inf, -np.inf, np.nan]))
            x[first + 1:][rng.random(299 - first) < 0.01] = np.nan
            raw = {"F32": x, "F16": x.astype(np.float16),
                   "BF16": (x.view(np.uint32) >> 16).astype(np.uint16)}
            driver.load(raw[dtype])
            for isa in isas:
                got = driver.ask("encode", at, isa, dtype, 300)[:2]
                if got != ("NOT_FINITE", first):
                    fail(at, isa, dtype, 300, f"{got}, not value {first}")
    print("bad values: found", flush=True)


def same_values(got, want):
    """Bit for bit, but that any NaN stands for any."""
    for dtype, kind in zip(DTYPES, (np.uint32, np.uint16, np.uint16)):
        part, got = got[:len(want[0])], got[len(want[0]):]
        a, b = elements.load(part, dtype), elements.load(want[0], dtype)
        same = (part.view(kind) == want[0].view(kind)) | (np.isnan(a) & np.isnan(b))
        if not same.all():
            return f"{dtype} value {int(np.argmin(same))}"
        want = want[1:]
    return None


def check_any_bytes(driver, isas, rng):
    """All codes, all scales, all zero points decode."""
    for number, form in enumerate(forms_of(ENCODINGS)):
        for i in range(3):
            at = sized(form, number + i)
            count = int(rng.integers(1, 3000)) + (70000 if i == 2 else 0)
            at = at._replace(size=count) if at.span == "tensor" else at
            blocks = -(-count // at.size)
            row = reference.ROWS[at.encoding]
            width = {"E8M0": 1, "F16": 2, "BF16": 2}.get(at.scale, 4)
            scales = rng.integers(0, 256, blocks * width, np.uint8)
            zeros = rng.integers(0, 256 if row.bits == 8 else 16,
                                 blocks if at.zero_point else 0, np.uint8)
            codes = rng.integers(0, 256, -(-count * row.bits // 8), np.uint8)
            want = stored(reference.decode(at, count, codes, scales, zeros))
            driver.load(scales, zeros, codes)
            for isa in isas:
                status, _, got = driver.ask("decode", at, isa, "F32", count)
                wrong = status == "OK" and same_values(got, want)
                if status != "OK" or wrong:
                    fail(at, isa, "any", count, f"{status}, {wrong}")
    print("any bytes: decode alike", flush=True)


def check_dynamic8(driver, rng):
    """Scales of scales, whose offsets and codes have an order of their own."""
    for count in (1, 2, 255, 256, 257, 4095, 4097, 20000):
        for make in ("normal", "constant", "tiny", "small for F16", "mixed"):
            scales = np.abs(DISTRIBUTIONS[make](count, rng))
            codes, absmax, table, offset = reference.quantize_scales(scales)
            back = reference.restore_scales(codes, absmax, table, offset)
            want = b"".join(np.ascontiguousarray(part).tobytes() for part in
                            (offset, table, codes, absmax, back))
            data = scales.tobytes()
            driver.process.stdin.write(f"dynamic8 {len(data)}\n".encode() + data)
            driver.process.stdin.flush()
            line = driver.process.stdout.readline().decode().split()
            got = driver.process.stdout.read(int(line[2]))
            if line[0] != "OK" or got != want:
                sys.exit(f"FAILED dynamic8, {make}, {count} scales: {line[0]}")
            driver.checks += 1
    print("dynamic8: equal", flush=True)


# Mean absolute and mean relative error on N(0,1), from bitsandbytes' papers and
# tests (see docs/FORMAT.md).
ERRORS = {
    ("nf4", 32): (.0677, .190), ("nf4", 64): (.0728, .203),
    ("nf4", 128): (.0768, .215), ("nf4", 4096): (.0925, .262),
    ("fp4", 32): (.0889, .242), ("fp4", 64): (.0965, .260),
    ("fp4", 128): (.1030, .276), ("fp4", 4096): (.1295, .337),
}


def check_errors(driver, isas, rng):
    x = rng.standard_normal(1 << 21).astype(f32)
    for (encoding, block), table in ERRORS.items():
        back = compare(driver, isas[-1:], Form(encoding, size=block), x)
        error = np.abs(back - x.astype(np.float64))
        found = error.mean(), (error / np.abs(x)).mean()
        print(f"{encoding} block {block}: mean error {found[0]:.5f}, relative {found[1]:.4f}")
        for value, wanted in zip(found, table):
            if abs(value / wanted - 1) > 0.01:
                sys.exit(f"FAILED {encoding} block {block}: {value}, not {wanted}")


def main():
    rng = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    try:
        print(elements.check_against_ml_dtypes(rng))
    except ImportError:
        print("skipped: ml_dtypes is not installed")
    driver = Driver(sys.argv[1])
    driver.load(np.zeros(64, f32))
    isas = [isa for isa in ISAS
            if driver.ask("encode", Form("nf4"), isa, "F32", 64)[0] == "OK"]
    print("instruction sets:", *isas)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 20_000
    check_refusals(driver)
    check_tails(driver, isas, rng)
    check_segments(driver, isas, rng)
    check_nonfinite(driver, isas, rng)
    check_any_bytes(driver, isas, rng)
    check_dynamic8(driver, rng)
    check_distributions(driver, isas, rng, count)
    check_errors(driver, isas, rng)
    print(f"figure: comparisons {driver.checks}")
    print(f"all equal{encoding_rows.skipped(MISSING)}")


main()
