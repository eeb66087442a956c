"""Every encoding of docs/FORMAT.md in numpy, whole arrays at a time, written
from its rules (the letters in brackets). It shares nothing with the C code."""
import itertools
from typing import NamedTuple

import numpy as np

import elements
from elements import E2M1, E4M3, E5M2, FP4, FP4_BOUNDS, NF4, NF4_BOUNDS, f32, f64

FLT_MAX = np.finfo(f32).max
INT8_SCALE_OF_FLT_MAX = f32(float.fromhex("0x1.020406p+121"))


class Form(NamedTuple):
    """A nabla_format."""
    encoding: str
    span: str = "block"  # row, tensor
    size: int = 64
    scale: str = "F32"
    zero_point: bool = False
    segment: int = 0

    def __str__(self):
        zero = " zero_point" if self.zero_point else ""
        segment = f" segment {self.segment}" if self.segment else ""
        return f"{self.encoding} {self.span} {self.size} {self.scale}{zero}{segment}"


class Row(NamedTuple):
    """A row of the table in (E)."""
    bits: int
    limit: float  # what absmax is divided by; of int4 the peak
    element: object = None  # a floating-point type
    high_first: bool = False
    spans: tuple = ("block",)
    zero_point: bool = False
    emax: int = None  # of mx


ALL_SPANS = ("block", "row", "tensor")
ROWS = {
    "nf4": Row(4, 1, high_first=True), "fp4": Row(4, 1, high_first=True),
    "int8": Row(8, 127, spans=("block", "row"), zero_point=True),
    "int4": Row(4, -8, zero_point=True),
    "ternary": Row(2, 0), "binary": Row(1, 0),
    "fp8": Row(8, 448, E4M3, spans=ALL_SPANS),
    "fp8_e5m2": Row(8, 57344, E5M2, spans=ALL_SPANS),
    "mxfp4": Row(4, 0, E2M1, emax=2), "mxfp8": Row(8, 0, E4M3, emax=8),
    "mxfp8_e5m2": Row(8, 0, E5M2, emax=15),
}
SCALES = ("F32", "F16", "BF16", "dynamic8", "E8M0")


def every_form():
    """Encodings, spans, scale types and zero points, allowed or not."""
    for encoding, span, scale, zero in itertools.product(
            ROWS, ALL_SPANS, SCALES, (False, True)):
        yield Form(encoding, span, 32, scale, zero)


def is_allowed(form):
    row = ROWS[form.encoding]
    is_mx = row.emax is not None
    if form.zero_point and not (row.zero_point and form.span == "block"):
        return False
    if form.span not in row.spans or (form.scale == "E8M0") != is_mx:
        return False
    if form.span != "block":
        return form.segment == 0 and form.size > 0
    if form.segment % (8 // row.bits):
        return False
    return form.size in ([32] if is_mx else [16 << i for i in range(9)])


class Packed(NamedTuple):
    """What encoding gives: bytes, and which blocks are refused."""
    codes: np.ndarray
    scales: np.ndarray  # bytes of the scale type (dynamic8: f32)
    zeros: np.ndarray
    refused: np.ndarray


def is_llm_int8(form):
    return form.encoding == "int8" and form.span == "row" and form.scale == "F32"


def scale_dtype(form):
    return "F32" if form.scale == "dynamic8" else form.scale


class Blocks(NamedTuple):
    """The values of a segment, a row per block, the last filled with 0.0."""
    rows: np.ndarray
    counts: np.ndarray

    @staticmethod
    def cut(x, size):
        count = -(-len(x) // size)
        rows = np.zeros(count * size, f32)
        rows[:len(x)] = x
        counts = np.full(count, size)
        if len(x) % size:
            counts[-1] = len(x) % size
        return Blocks(rows.reshape(count, size), counts)


def mean_of(blocks):
    """(E1): sixteen partial sums in f64, one after the other, then a tree."""
    size = blocks.rows.shape[1]
    lanes = np.zeros((len(blocks.rows), 16), f64)
    for begin in range(0, size, 16):
        part = np.abs(blocks.rows[:, begin:begin + 16].astype(f64))
        lanes[:, :part.shape[1]] += part
    for apart in (8, 4, 2, 1):
        lanes = lanes[:, :apart] + lanes[:, apart:2 * apart]
    return (lanes[:, 0] / blocks.counts).astype(f32)


def wanted_scale(form, row, blocks):
    """(E1, E4): the scale in f32, before rounding to its type, and what a code
    is computed from besides: (scale, absmax, peak or None, minimum or None)."""
    if form.zero_point:
        low = np.minimum(blocks.rows.min(axis=1), f32(0)) + f32(0)
        high = np.maximum(blocks.rows.max(axis=1), f32(0))
        return (high - low) / f32(2 ** row.bits - 1), None, low
    if form.encoding in ("ternary", "binary"):
        return mean_of(blocks), None, None
    if form.encoding == "int4":
        low, high = blocks.rows.min(axis=1), blocks.rows.max(axis=1)
        peak = np.where(-low >= high, low, high)
        return peak / f32(row.limit) + f32(0), peak, None
    absmax = np.abs(blocks.rows).max(axis=1)
    scale = absmax / f32(row.limit)
    if form.encoding == "int8":
        scale = np.where(absmax == FLT_MAX, INT8_SCALE_OF_FLT_MAX, scale)
    return scale, absmax, None


def scaled_by(rows, divisor, limit, divide_below):
    """(E2): x*(limit/divisor), or (x/divisor)*limit, or 0."""
    factor = f32(limit) / divisor
    divides = ~np.isfinite(factor) | (np.abs(divisor) < f32(divide_below))
    out = np.where(divides[:, None], rows / divisor[:, None] * f32(limit),
                   rows * factor[:, None])
    # The sign of x stays: 0 times it.
    return np.where((divisor == 0)[:, None], rows * f32(0), out)


def scaled_values(form, row, rows, scale, absmax):
    if absmax is None or form.scale in ("F16", "BF16"):
        return scaled_by(rows, scale, 1, 0)
    below = 2.0 ** -126 if form.encoding in ("nf4", "fp4") else 0
    return scaled_by(rows, absmax, row.limit, below)


def codes_of(form, row, blocks, scale, absmax, zeros):
    """(E3, E4): codes as stored, but not packed."""
    rows = blocks.rows
    if form.encoding == "binary":
        return rows >= 0
    if form.encoding == "ternary":
        s = np.where((scale == 0)[:, None], f32(0), rows / scale[:, None])
        return 1 + np.clip(np.rint(s), -1, 1)
    s = scaled_values(form, row, rows, scale, absmax)
    if form.encoding == "nf4":
        return np.searchsorted(NF4_BOUNDS, np.clip(s, -1, 1), side="left")
    if form.encoding == "fp4":
        size = np.searchsorted(FP4_BOUNDS, np.abs(s), side="left")
        by_size = np.argsort(FP4[:8])  # the code of the n-th smallest magnitude
        return by_size[size] + 8 * (s < 0)
    if row.element:
        return row.element.round(s)
    if form.zero_point:
        levels = 2 ** row.bits - 1
        q = np.clip(np.rint(s) + zeros[:, None].astype(f32), 0, levels)
        return q - 128 if row.bits == 8 else q
    if form.encoding == "int4":
        return np.clip(np.rint(s), -8, 7) + 8
    return np.clip(np.rint(s), -row.limit, row.limit)


def zero_points(row, scale, low):
    """(E4): whole numbers from 0 to levels."""
    ratio = -low / np.where(scale == 0, f32(1), scale)
    return np.clip(np.where(scale == 0, 0, np.rint(ratio)), 0, 2 ** row.bits - 1)


def pack(codes, count, row):
    """(N4): `codes` goes on with those of 0.0 after `count`."""
    per_byte = 8 // row.bits
    size = -(-count // per_byte)
    codes = codes.reshape(-1)[:size * per_byte].astype(np.int64) & 2 ** row.bits - 1
    places = np.arange(per_byte) * row.bits
    if row.high_first:
        places = places[::-1]
    return (codes.reshape(size, per_byte) << places).sum(axis=1).astype(np.uint8)


def encode_mx(row, blocks):
    """(E5)."""
    absmax = np.abs(blocks.rows).max(axis=1)
    exponent = np.frexp(absmax.astype(f64))[1] - 1 - row.emax + 127
    e = np.where(absmax == 0, 0, np.clip(exponent, 0, 254))
    s = blocks.rows * np.ldexp(f32(1), 127 - e)[:, None].astype(f32)
    return row.element.round(s), e.astype(np.uint8)


def encode_segment(form, x):
    row = ROWS[form.encoding]
    blocks = Blocks.cut(x, form.size)
    none = np.zeros(0, np.uint8)
    if form.scale == "E8M0":
        codes, e = encode_mx(row, blocks)
        return Packed(pack(codes, len(x), row), e, none, np.zeros(len(e), bool))
    wanted, absmax, low = wanted_scale(form, row, blocks)
    stored = elements.store(wanted, scale_dtype(form))
    scale = elements.load(stored, scale_dtype(form))
    refused = ~np.isfinite(scale)
    if form.encoding == "int4" and not form.zero_point:  # (E1)
        refused |= ~np.isfinite(scale * f32(row.limit))
    if form.zero_point:  # (E4)
        with np.errstate(all="ignore"):
            refused |= ~np.isfinite(scale * f32(2 ** row.bits - 1))
    zeros = none
    if form.zero_point:  # (E4)
        zeros = zero_points(row, scale, low)
        refused |= ~np.isfinite(scale * f32(2 ** row.bits - 1))
    if is_llm_int8(form):  # (I2)
        refused = absmax >= FLT_MAX / f32(127)
        stored = elements.store(absmax, "F32")
    codes = codes_of(form, row, blocks, scale, absmax, zeros)
    if row.bits == 8 and form.zero_point:
        zeros = zeros - 128
    return Packed(pack(codes, len(x), row), stored,
                  zeros.astype(np.int64).astype(np.uint8), refused)


def segments(form, count):
    size = form.segment or count or 1
    return [slice(at, min(at + size, count)) for at in range(0, count, size)]


def join(parts):
    empty = Packed(*[np.zeros(0, np.uint8)] * 3, np.zeros(0, bool))
    return Packed(*[np.concatenate(list(p)) for p in zip(empty, *parts)])


def encode(form, x):
    """@param x finite f32"""
    with np.errstate(all="ignore"):
        return join([encode_segment(form, x[s]) for s in segments(form, len(x))])


def table_of(encoding):
    """What each code is with scale 1 and without zero point (E)."""
    row = ROWS[encoding]
    if row.element:
        return row.element.values
    code = np.arange(2 ** row.bits)
    return {"nf4": NF4, "fp4": FP4, "int8": np.where(code < 128, code, code - 256),
            "int4": code - 8, "ternary": code - 1,
            "binary": 2 * code - 1}[encoding].astype(f32)


def unpack(codes, count, row):
    places = np.arange(8 // row.bits) * row.bits
    if row.high_first:
        places = places[::-1]
    every = (codes[:, None].astype(np.int64) >> places) & 2 ** row.bits - 1
    return every.reshape(-1)[:count]


def blocks_in(form, count):
    """Which block each value belongs to."""
    at = np.arange(count)
    if not form.segment:
        return at // form.size
    each = -(-form.segment // form.size)
    return at // form.segment * each + at % form.segment // form.size


def scales_in(form, raw):
    if form.scale != "E8M0":
        return elements.load(raw, scale_dtype(form))
    value = np.ldexp(f64(1), raw.astype(int) - 127).astype(f32)
    return np.where(raw == 255, f32(np.nan), value)


def decode(form, count, codes, scales, zeros):
    """(N5): f32 from bytes."""
    row = ROWS[form.encoding]
    block = blocks_in(form, count)
    with np.errstate(all="ignore"):
        value = table_of(form.encoding)[unpack(codes, count, row)]
        if form.zero_point:  # tables of int4 are 8 too low
            z = zeros.view(np.int8) if row.bits == 8 else zeros - f32(8)
            value = value - z.astype(f32)[block]
        value = value * scales_in(form, scales)[block]
        return value * f32(7.874015718698502e-3) if is_llm_int8(form) else value


def quantize_scales(scales):
    """(E6): (bytes, nested scales, map, offset)."""
    table = elements.dynamic_map()
    chunks = [scales[i:i + 4096] for i in range(0, len(scales), 4096)]
    total = f64(0)
    for chunk in chunks:
        total += np.cumsum(chunk.astype(f64))[-1]  # one after the other
    offset = f32(total / len(scales))
    blocks = Blocks.cut(scales - offset, 256)
    absmax = np.abs(blocks.rows).max(axis=1)
    with np.errstate(all="ignore"):
        s = scaled_by(blocks.rows, absmax, 1, 2.0 ** -126)
    bounds = ((table[1:].astype(f64) + table[:-1]) / 2).astype(f32)
    codes = np.searchsorted(bounds, s, side="left").reshape(-1)[:len(scales)]
    return codes.astype(np.uint8), absmax, table, offset


def restore_scales(codes, nested, table, offset):
    """(B5): a multiplication and an addition, each rounded."""
    return table[codes] * np.repeat(nested, 256)[:len(codes)] + offset
