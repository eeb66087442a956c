"""Encodings as docs/FORMAT.md defines them, in numpy, whole arrays at a time,
and what the dialect says of them. Nothing here was made from the C code.

A codec takes and gives flat f32 arrays: `encode(x, block)` gives codes and
scales, `decode(codes, scales, block, count)` the values.
"""
import os
import re

import numpy as np

f32 = np.float32
TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     "../../quant/codec/encodings.def")


def from_bits(text):
    return np.array([int(word, 16) for word in text.split()],
                    np.uint32).view(f32)


# bitsandbytes, functional.py, get_4bit_type, as the bits of f32.
NF4 = from_bits("bf800000 bf3239b1 bf066b30 beca32a0 be91a24d be3d353f "
                "bdba7871 0 3da2faff 3e24cae3 3e7c04dd 3ead033a 3ee1a4b8 "
                "3f1007ab 3f3913b3 3f800000")
FP4 = from_bits("0 3baaaaab 3f2aaaab 3f800000 3eaaaaab 3f000000 3e2aaaab "
                "3e800000")
FP4 = np.concatenate([FP4, -FP4])
NF4_LIMITS = ((NF4[1:].astype(np.float64) + NF4[:-1]) / 2).astype(f32)
FP4_LIMITS = np.array([0.00260417, 0.0859375, 0.20833333, 0.29166667,
                       0.4166667, 0.583333, 0.8333333]).astype(f32)
INT8_STEP = f32(7.874015718698502e-3)


def each(scales, block, count):
    return np.repeat(scales, block)[:count]


def absmax_of(x, block):
    count = -(-len(x) // block)
    padded = np.zeros(count * block, f32)
    padded[:len(x)] = np.abs(x)
    return padded.reshape(count, block).max(axis=1, initial=f32(0))


def narrow_f16(scales):
    with np.errstate(all="ignore"):
        return scales.astype(np.float16).astype(f32)


def narrow_bf16(scales):
    bits = scales.view(np.uint32).astype(np.uint64)
    return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16).astype(
        np.uint32).view(f32)


NARROW = {"f32": None, "f16": narrow_f16, "bf16": narrow_bf16}


def by_scale(x, scales, block):
    """x over the stored scale of its block, rounded before: (E2)."""
    a = each(scales, block, len(x))
    usable = (a != 0) & np.isfinite(a)
    a = np.where(usable, a, f32(1))
    factor = f32(1) / a
    scaled = np.where(np.isfinite(factor), x * factor, x / a)
    return np.where(usable, scaled, f32(0))


def unit(x, absmax):
    """x over its block's absmax, which is given for each element: (B6)."""
    nonzero = np.where(absmax == 0, f32(1), absmax)
    by_inverse = x * (f32(1) / np.maximum(nonzero, f32(2.0 ** -126)))
    return np.clip(np.where(absmax < f32(2.0 ** -126), x / nonzero, by_inverse),
                   f32(-1), f32(1))


class Nibbles:
    """Two codes a byte, the even element in the high nibble: (B2)."""
    bits = 4

    def __init__(self, table, code_of, zero, exact):
        self.table, self.code_of, self.zero = table, code_of, zero
        self.exact = exact  # codes whose values multiply without rounding

    def encode(self, x, block, narrow=None):
        absmax = absmax_of(x, block)
        if narrow:
            absmax = narrow(absmax)
            scaled = np.clip(by_scale(x, absmax, block), f32(-1), f32(1))
            return self.pack(self.code_of(scaled)), absmax
        a = each(absmax, block, len(x))
        codes = np.where(a == 0, self.zero, self.code_of(unit(x, a)))
        return self.pack(codes), absmax

    def pack(self, codes):
        codes = np.asarray(codes).astype(np.uint8)
        if len(codes) % 2:
            codes = np.append(codes, np.uint8(self.zero))
        return codes[0::2] << 4 | codes[1::2]

    def decode(self, codes, scales, block, count):
        codes = np.asarray(codes).view(np.uint8)
        both = np.stack([codes >> 4, codes & 15], 1).reshape(-1)[:count]
        return self.table[both] * each(scales, block, count)


class Bytes:
    """int8: one scale per block (N5), or absmax per row (I2)."""
    bits = 8
    exact = (0, 1, 129, 64)  # with scales that are powers of two
    table = None

    def __init__(self, rows):
        self.rows = rows

    def encode(self, x, block, narrow=None):
        absmax = absmax_of(x, block)
        if narrow:
            scales = narrow(self.scales_of(absmax))
            q = np.clip(np.rint(by_scale(x, scales, block)), -127, 127)
            return q.astype(np.int8).view(np.uint8), scales
        a = each(np.where(absmax == 0, f32(1), absmax), block, len(x))
        factor = f32(127) / a
        q = np.where(np.isfinite(factor), x * factor, x / a * f32(127))
        codes = np.clip(np.rint(q), -127, 127).astype(np.int8).view(np.uint8)
        return codes, absmax if self.rows else self.scales_of(absmax)

    def scales_of(self, absmax):
        largest = absmax == np.finfo(f32).max
        below = f32(float.fromhex("0x1.020406p+121"))
        return np.where(largest, below, absmax / f32(127))

    def pack(self, codes):
        return np.asarray(codes).astype(np.uint8)

    def decode(self, codes, scales, block, count):
        q = np.asarray(codes).view(np.int8)[:count].astype(f32)
        value = q * each(scales, block, count)
        return value * INT8_STEP if self.rows else value


def code_nf4(s):
    return np.searchsorted(NF4_LIMITS, s, side="left")


def code_fp4(s):
    order = np.argsort(FP4[:8])
    return order[np.searchsorted(FP4_LIMITS, np.abs(s), side="left")] + 8 * (s < 0)


CODECS = {
    "nf4": Nibbles(NF4, code_nf4, 7, (0, 7, 15)),
    "fp4": Nibbles(FP4, code_fp4, 0, (0, 3, 5)),
    "int8": Bytes(rows=False),
}
ROWS = {"int8": Bytes(rows=True)}


class Spec:
    """An encoding with its parameters. block 0: one scale for each index of
    the first dimension."""

    def __init__(self, name, block, scale="f32"):
        self.name, self.block, self.scale = name, block, scale
        llm = not block and scale == "f32"
        self.codec = (ROWS if llm else CODECS)[name]

    def __str__(self):
        more = "" if self.scale == "f32" else "_" + self.scale
        return "%s_%s%s" % (self.name, self.block or "rows", more)

    def attribute(self):
        more = "" if self.block else ", blocks = leading"
        if self.scale != "f32":
            more += ", scale = " + self.scale
        return "#nabla.%s<block = %d%s>" % (self.name, self.block, more)

    def block_of(self, shape):
        return self.block or max(int(np.prod(shape[1:], dtype=np.int64)), 1)

    def sizes(self, shape):
        """Bytes of codes, number of scales."""
        count = int(np.prod(shape, dtype=np.int64))
        block = self.block_of(shape)
        return -(-count * self.codec.bits // 8), -(-count // block)

    def encode(self, x):
        with np.errstate(all="ignore"):
            return self.codec.encode(x.reshape(-1).astype(f32),
                                     self.block_of(x.shape),
                                     NARROW[self.scale])

    def decode(self, codes, scales, shape):
        count = int(np.prod(shape, dtype=np.int64))
        with np.errstate(all="ignore"):
            return self.codec.decode(codes, scales, self.block_of(shape),
                                     count).reshape(shape)


def names():
    with open(TABLE, encoding="utf-8") as file:
        return re.findall(r"^ENCODING\(\s*(\w+)\s*,", file.read(), re.M)


def encodings():
    """(name, has rows) of each row of the table that programs also make and
    have kernels for; decode_only.py has the others."""
    rows = names()
    lost = [name for name in CODECS if name not in rows]
    if lost:
        raise SystemExit("FAILED: not in the table: " + ", ".join(lost))
    return [(name, name in ROWS) for name in rows if name in CODECS]


def specs(blocks=(16, 64, 4096)):
    """Every encoding with each of the block sizes, and by rows; the smallest
    block with each scale type."""
    out = []
    for name, rows in encodings():
        out += [Spec(name, block) for block in blocks]
        sizes = [min(blocks)] + ([0] if rows else [])
        out += [Spec(name, 0)] if rows else []
        out += [Spec(name, block, scale) for block in sizes
                for scale in NARROW if NARROW[scale]]
    return out
