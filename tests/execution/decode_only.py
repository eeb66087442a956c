"""Encodings that programs decode but do not make: any codes, any scales, whole
and as views, against tables written from the definitions (docs/FORMAT.md, E;
OCP OFP8 1.0 and MX 1.0).

usage: decode_only.py NABLA_RUN
"""
import sys

import formats
import harness
from arrays import shape as random_shape
from harness import np, Function, exact, tensor_type

f32 = np.float32


def float_table(exponent, mantissa, bias, top):
    """Values of sign, exponent and mantissa bits; `top`: what the highest
    exponent is for, as IEEE 754 has it, or numbers but for the last NaN, or
    numbers alone."""
    low = 1 << mantissa
    codes = np.arange(1 << (exponent + mantissa))
    field, part = codes >> mantissa, codes % low
    table = np.where(field == 0, part / low * 2.0 ** (1 - bias),
                     (1 + part / low) * 2.0 ** (field - bias))
    if top == "ieee":
        highest = field == (1 << exponent) - 1
        table = np.where(highest, np.where(part == 0, np.inf, np.nan), table)
    if top == "nan":
        table[-1] = np.nan
    return np.concatenate([table, -table]).astype(f32)


E4M3 = float_table(4, 3, 7, "nan")
E5M2 = float_table(5, 2, 15, "ieee")
E2M1 = float_table(2, 1, 1, "numbers")

# name: bits, values of codes; all have the first code in the lowest bits
TABLES = {
    "int4": (4, np.arange(16, dtype=f32) - 8),
    "ternary": (2, np.arange(4, dtype=f32) - 1),
    "binary": (1, f32([-1, 1])),
    "fp8": (8, E4M3),
    "fp8_e5m2": (8, E5M2),
    "mxfp4": (4, E2M1),
    "mxfp8": (8, E4M3),
    "mxfp8_e5m2": (8, E5M2),
}


def unpacked(codes, bits, count):
    places = np.arange(8 // bits) * bits
    each = codes[:, None] >> places[None, :].astype(np.uint8)
    return (each & ((1 << bits) - 1)).reshape(-1)[:count]


def scales_of(rng, name, count, kind):
    """Stored scales as an argument, and as f32."""
    if name.startswith("mx"):
        e = rng.integers(0, 256, count).astype(np.uint8)
        e[: min(count, 3)] = [0, 255, 254][: min(count, 3)]
        value = np.ldexp(f32(1), e.astype(int) - 127).astype(f32)
        return e.view(np.int8), np.where(e == 255, f32(np.nan), value)
    scales = rng.standard_normal(count).astype(f32)
    for edge in f32([0, -0.0, np.inf, np.nan, 1e-40])[: count // 2]:
        scales[rng.integers(count)] = edge
    stored = harness.narrow(scales, kind)
    return stored, harness.widen(stored)


def parameters(name, kind, block):
    if name.startswith("mx"):
        return ""
    scale = "" if kind == "f32" else ", scale = " + kind
    if block in ("leading", "tensor"):
        return "<block = 0, blocks = %s%s>" % (block, scale)
    return "<block = %d%s>" % (block, scale)


def add(functions, rng, name, kind, block):
    bits, table = TABLES[name]
    shape = tuple(random_shape(rng, 2, 60))
    count = int(np.prod(shape))
    span = {"leading": shape[1], "tensor": count}.get(block, block)
    f = Function("f%d_%s" % (len(functions), name))
    functions.append(f)
    codes = rng.integers(0, 256, -(-count * bits // 8)).astype(np.uint8)
    stored, scales = scales_of(rng, name, -(-count // span), kind)
    c, c_type = f.argument(codes.view(np.int8))
    s, s_type = f.argument(stored)
    q_type = "!nabla.implicit<%dx%dxf32, #nabla.%s%s>" % (
        *shape, name, parameters(name, kind, block))
    q = f.op("nabla.pack %s, %s : %s, %s -> %s" % (c, s, c_type, s_type,
                                                  q_type))
    with np.errstate(all="ignore"):
        want = table[unpacked(codes, bits, count)] * np.repeat(
            scales, span)[:count]
    want = want.astype(f32).reshape(shape)
    d = f.op("nabla.materialize %s : %s" % (q, q_type))
    f.give(d, tensor_type(shape, "f32"), exact(want))
    twice = f.op("nabla.add %s, %s : %s, %s" % (q, q, q_type, q_type))
    with np.errstate(all="ignore"):
        f.give(twice, tensor_type(shape, "f32"), exact(want + want))


def cases(rng):
    """Functions for each encoding, with each kind of blocks and scales."""
    functions = []
    for name in TABLES:
        spans = [32] if name.startswith("mx") else [16, 64]
        if name.startswith("fp8"):
            spans += ["leading", "tensor"]
        for block in spans:
            for kind in ("f32",) if name.startswith("mx") else (
                    "f32", "f16", "bf16"):
                add(functions, rng, name, kind, block)
    return functions


def test(s):
    rng = np.random.default_rng(harness.seed())
    with open(formats.TABLE, encoding="utf-8") as file:
        text = file.read()
    for name in TABLES:
        s.expect("ENCODING(%s," % name in text, "no row for " + name)
    functions = cases(rng)
    for row in formats.names():
        s.expect(row in TABLES or row in formats.CODECS,
                 "no reference here for " + row)
    s.run_all(functions, ["--policy", "off"])
    print("%d functions" % len(functions))


if __name__ == "__main__":
    harness.session(sys.argv[1], test)
