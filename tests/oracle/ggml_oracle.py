"""Checks the block formats of GGUF files, bit for bit, against the Python
package gguf: what random bytes decode to, what values are encoded to, and the
samples of tests/golden.

usage: ggml_oracle.py PATH_OF_ggml_driver FOLDER_OF_golden [SEED]
Exits 77, which ctest shows as skipped, when numpy or gguf is missing.
"""
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True

try:
    import numpy as np
    import gguf
    from gguf import quants
except ImportError as missing:
    print(f"skipped: needs the Python packages numpy and gguf ({missing})")
    sys.exit(77)

f32 = np.float32
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     "../../quant/codec/ggml.def")
ROW = re.compile(r"^GGML\((\w+),\s*(\d+),\s*(\d+),\s*(\d+),.*,\s*([01]),"
                 r"\s*[\d.]+,\s*\"", re.M)
BLOCKS = 3000


def rows():
    """(name, gguf's type, elements, bytes, can be encoded) of each row, checked
    against what gguf says of the type."""
    with open(TABLE, encoding="utf-8") as file:
        found = ROW.findall(file.read())
    if not found:
        sys.exit("FAILED: no rows in " + TABLE)
    for name, number, count, size, encodes in found:
        kind = gguf.GGMLQuantizationType(int(number))
        if kind.name != name.upper() or \
                gguf.GGML_QUANT_SIZES[kind] != (int(count), int(size)):
            sys.exit(f"FAILED {name}: gguf has {kind.name} of "
                     f"{gguf.GGML_QUANT_SIZES[kind]}")
        yield name, kind, int(count), int(size), encodes == "1"


class Driver:
    """The C code: one process, one request at a time."""

    def __init__(self, path):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)

    def ask(self, verb, name, blocks, data):
        sent = np.ascontiguousarray(data).tobytes()
        self.process.stdin.write(
            f"{verb} {name} {blocks} {len(sent)}\n".encode() + sent)
        self.process.stdin.flush()
        line = self.process.stdout.readline().decode().split()
        if len(line) != 3:
            sys.exit(f"FAILED {name}: the driver ended")
        answer = self.process.stdout.read(int(line[2]))
        return line[0], int(line[1]), np.frombuffer(answer, np.uint8)


def same(got, want):
    """The same bits, any NaN for any."""
    bits = {4: np.uint32, 2: np.uint16}[got.dtype.itemsize]
    return (got.view(bits) == want.view(bits)) | (np.isnan(got) & np.isnan(want))


def dequantize(kind, blocks):
    with np.errstate(all="ignore"):
        return quants.dequantize(blocks, kind).astype(f32).ravel()


def random_blocks(rng, size, count):
    """Bytes of all kinds; then such whose halves, wherever they are, have few
    different upper bytes, so that infinities, NaN and subnormals are common."""
    blocks = rng.integers(0, 256, (count, size), np.uint8)
    upper = np.array([0x00, 0x80, 0x03, 0x7b, 0x7c, 0x7e, 0xfc, 0x3c], np.uint8)
    third = count // 3
    blocks[:third] = np.where(rng.random((third, size)) < 0.5,
                              rng.choice(upper, (third, size)), blocks[:third])
    blocks[third:third + 256, 0] = np.arange(256)  # every exponent of E8M0
    blocks[third + 256] = 0
    blocks[third + 257] = 255
    return blocks


def check_decode(driver, rng, row):
    name, kind, count, size, _ = row
    blocks = random_blocks(rng, size, BLOCKS)
    status, _, answer = driver.ask("decode", name, BLOCKS, blocks)
    if status != "OK":
        sys.exit(f"FAILED {name}: decoding said {status}")
    values, total = dequantize(kind, blocks), BLOCKS * count
    with np.errstate(all="ignore"):
        want = {"F32": values, "F16": values.astype(np.float16)}
    good = same(answer[:4 * total].view(f32), want["F32"])
    good &= same(answer[4 * total:6 * total].view(np.float16), want["F16"])
    good &= same_bf16(answer[6 * total:].view(np.uint16), values)
    if not good.all():
        at = int(np.argmin(good))
        sys.exit(f"FAILED {name}: element {at % count} of block "
                 f"{blocks[at // count].tobytes().hex()}")


def same_bf16(got, values):
    """Rounded half to even, any NaN for any."""
    bits = values.view(np.uint32).astype(np.uint64)
    rounded = ((bits + 0x7fff + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    nan = (got & 0x7fff) > 0x7f80
    return np.where(np.isnan(values), nan, got == rounded)


def values_of(rng, count):
    """Blocks of values of which f16 can hold the factor, and its reciprocal is
    finite: what gguf computes otherwise is not defined."""
    x = rng.normal(size=(BLOCKS, count)).astype(f32)
    x *= np.exp2(rng.integers(-12, 13, (BLOCKS, 1))).astype(f32)
    x[1] = 0
    x[2, 1:] = -0.0  # all -0: gguf has +0 for d where ggml has -0
    x[3] = 1
    x[4] = -1
    x[5, 1:] = 0
    x[6:200] = rng.integers(-8, 9, (194, count))  # ties
    x[200:300] = np.abs(x[200:300])
    x[300:400, 3] = -x[300:400, 7]
    return x


def check_encode(driver, rng, row):
    name, kind, count, _, encodes = row
    x = values_of(rng, count)
    status, _, answer = driver.ask("encode", name, BLOCKS, x)
    if not encodes:
        if status != "UNSUPPORTED":
            sys.exit(f"FAILED {name}: encoding said {status}")
        return
    with np.errstate(all="ignore"):
        want = quants.quantize(x, kind).view(np.uint8).reshape(BLOCKS, -1)
    if status != "OK":
        sys.exit(f"FAILED {name}: encoding said {status}")
    good = (answer.reshape(BLOCKS, -1) == want).all(axis=1)
    if not good.all():
        at = int(np.argmin(good))
        sys.exit(f"FAILED {name}: {int((~good).sum())} blocks, the first of "
                 f"values {x[at].tolist()}")


def check_golden(folder, row):
    name, kind, _, size, _ = row
    found = {"bytes": [], "values": []}
    with open(os.path.join(folder, f"ggml_{name}.txt"), encoding="utf-8") as file:
        for line in file:
            words = line.split()
            if words and words[0] in found:
                found[words[0]] += [int(word, 16) for word in words[1:]]
    blocks = np.array(found["bytes"], np.uint8).reshape(-1, size)
    want = np.array(found["values"], np.uint32).view(f32)
    value = dequantize(kind, blocks)
    if len(value) != len(want) or not same(value, want).all():
        sys.exit(f"FAILED {name}: its golden file says something else")


def main():
    driver = Driver(sys.argv[1])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    total = 0
    for row in rows():
        rng = np.random.default_rng(seed)
        check_decode(driver, rng, row)
        check_encode(driver, rng, row)
        check_golden(sys.argv[2], row)
        total += 1
    print(f"{total} formats agree with gguf, {BLOCKS} blocks each")


if __name__ == "__main__":
    main()
