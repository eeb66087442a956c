#!/usr/bin/env python3
"""Makes seeds for the fuzzers: make_corpus.py FOLDER [TARGET...]

Writes FOLDER/TARGET/NAME: valid inputs of each kind, and one file for each way
in which parsers of model files are known to have failed: counts whose product
overflows, offsets that overlap or wrap, text where a number belongs, truncated
tensors, repeated names, deep nesting. Needs the standard library alone.
"""

import itertools
import json
import pathlib
import struct
import sys

CUT = b"\xff\xfe\xfd\xfc"  # FUZZ_CUT of fuzz.h

# Numbers at the edges of counts and of their products with element sizes.
COUNTS = (
    [0, 1, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**40]
    + [2**32 // size + step for size in (2, 4, 8) for step in (-1, 0, 1)]
    + [2**61 - 1, 2**61, 2**61 + 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64]
)
# What stands where a number belongs.
NOT_COUNTS = ["-1", "-0", "+1", "01", "1.0", "1e3", "0x1", "0x-1", "1 1", "null",
              "true", '"1"', "[1]", "{}", "NaN", "Infinity", "9" * 65, ""]
DTYPES = {"BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8,
          "F8_E5M2": 8, "F8_E4M3": 8, "F8_E8M0": 8, "F8_E4M3FNUZ": 8,
          "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
          "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64,
          "U64": 64}
NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453,
       -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
       0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
       0.7229568362236023, 1.0]
FP4 = [0.0, 1 / 192, 2 / 3, 1.0, 1 / 3, 0.5, 1 / 6, 0.25]
FP4 += [-x for x in FP4]


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def file_of(header, data=b"", length=None):
    """A safetensors file; `header` is JSON text or bytes."""
    if isinstance(header, str):
        header = header.encode()
    length = len(header) if length is None else length
    return struct.pack("<Q", length) + header + data


def tensor_bytes(dtype, shape):
    bits = DTYPES[dtype]
    for dim in shape:
        bits *= dim
    return bits // 8


def pack(tensors, metadata=None, pad=0):
    """A valid file of (name, dtype, shape, data or None) tensors."""
    header, data = {}, b""
    if metadata is not None:
        header["__metadata__"] = metadata
    for name, dtype, shape, content in tensors:
        size = tensor_bytes(dtype, shape)
        if content is None:
            content = bytes((7 * i + 3) % 251 for i in range(size))
        assert len(content) == size, (name, len(content), size)
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [len(data), len(data) + size]}
        data += content
    text = json.dumps(header, separators=(",", ":"))
    return file_of(text + " " * pad, data)


def info(dtype="F32", shape="[2]", offsets="[0,8]"):
    return f'{{"dtype":"{dtype}","shape":{shape},"data_offsets":{offsets}}}'


# ---- header -----------------------------------------------------------------


def header_lengths():
    text = '{"a":' + info() + "}"
    for name, length in [("zero", 0), ("one", 1), ("less", len(text) - 1),
                         ("more", len(text) + 1), ("all", len(text) + 8),
                         ("beyond", len(text) + 9), ("limit", 100_000_000),
                         ("above_limit", 100_000_001), ("2_31", 2**31),
                         ("2_32", 2**32), ("2_61", 2**61), ("2_63", 2**63),
                         ("wraps", 2**64 - 8), ("max", 2**64 - 1)]:
        yield f"length_{name}", file_of(text, bytes(8), length)
    for size in (0, 1, 7, 8, 9):
        yield f"file_of_{size}", file_of(text, bytes(8))[:size]


def header_numbers():
    for number in COUNTS:
        yield f"shape_{number}", file_of(
            '{"a":' + info(shape=f"[{number}]") + "}", bytes(8))
        yield f"shape_twice_{number}", file_of(
            '{"a":' + info(shape=f"[{number},{number}]") + "}", bytes(8))
        yield f"begin_{number}", file_of(
            '{"a":' + info(offsets=f"[{number},8]") + "}", bytes(8))
        yield f"end_{number}", file_of(
            '{"a":' + info(offsets=f"[0,{number}]") + "}", bytes(8))
    for name, shape in [("2_64", [2**32, 2**32]), ("2_65", [2**33, 2**32]),
                        ("then_zero", [2**32, 2**32, 0]), ("2_61", [2**61]),
                        ("three", [2**40, 2**12, 2**12])]:
        yield f"shape_wraps_{name}", file_of(
            '{"a":' + info(shape=str(shape), offsets="[0,0]") + "}")
    yield "shape_times_zero", file_of(
        '{"a":' + info(shape=f"[{2**63},{2**63},0]", offsets="[0,0]") + "}")
    yield "shape_bits_overflow", file_of(
        '{"a":' + info("F64", f"[{2**61}]", "[0,0]") + "}")
    yield "sub_byte_odd", file_of('{"a":' + info("F4", "[3]", "[0,2]") + "}", b"ab")
    for i, text in enumerate(NOT_COUNTS):
        yield f"no_number_shape_{i}", file_of(
            '{"a":' + info(shape=f"[{text}]") + "}", bytes(8))
        yield f"no_number_end_{i}", file_of(
            '{"a":' + info(offsets=f"[0,{text}]") + "}", bytes(8))


def header_layouts():
    two = '{"a":%s,"b":%s}'
    for name, first, second, data in [
            ("good", "[0,8]", "[8,16]", 16), ("swapped", "[8,16]", "[0,8]", 16),
            ("same", "[0,8]", "[0,8]", 8), ("overlap", "[0,8]", "[4,12]", 12),
            ("hole", "[0,8]", "[9,17]", 17), ("late", "[4,12]", "[12,20]", 20),
            ("backwards", "[8,0]", "[8,16]", 16), ("trailing", "[0,8]", "[8,16]", 17),
            ("truncated", "[0,8]", "[8,16]", 15), ("short", "[0,8]", "[8,12]", 12)]:
        yield f"layout_{name}", file_of(
            two % (info(offsets=first), info(offsets=second)), bytes(data))
    for name, offsets in [("none", "[]"), ("one", "[0]"), ("three", "[0,8,8]")]:
        yield f"offsets_{name}", file_of('{"a":' + info(offsets=offsets) + "}",
                                         bytes(8))
    for rank in (0, 1, 8, 32, 33, 200):
        shape = "[" + ",".join(["1"] * rank) + "]"
        yield f"rank_{rank}", file_of(
            '{"a":' + info(shape=shape, offsets="[0,4]") + "}", bytes(4))


def header_texts():
    good = info()
    cases = {
        "empty": "{}", "spaces": "  {}  ", "newlines": "\n\t{}\r\n",
        "array": "[]", "string": '"a"', "null": "null", "two": "{}{}",
        "open": '{"a":' + good, "comma": '{"a":' + good + ",}",
        "duplicate": '{"a":%s,"a":%s}' % (info("F32", "[2]", "[0,8]"),
                                         info("F32", "[0]", "[8,8]")),
        "duplicate_escaped": '{"a":%s,"\\u0061":%s}' % (
            info(), info("F32", "[0]", "[8,8]")),
        "duplicate_field": '{"a":{"dtype":"F32","dtype":"F32","shape":[2],'
                           '"data_offsets":[0,8]}}',
        "no_dtype": '{"a":{"shape":[2],"data_offsets":[0,8]}}',
        "no_shape": '{"a":{"dtype":"F32","data_offsets":[0,8]}}',
        "no_offsets": '{"a":{"dtype":"F32","shape":[2]}}',
        "unknown_field": '{"a":{"dtype":"F32","x":[{"y":[1,"z"]}],"shape":[2],'
                         '"data_offsets":[0,8]}}',
        "name_empty": '{"":' + good + "}", "name_nul": '{"\\u0000":' + good + "}",
        "name_control": '{"\\u001b[31m":' + good + "}",
        "name_long": '{"' + "n" * 4096 + '":' + good + "}",
        "name_too_long": '{"' + "n" * 4097 + '":' + good + "}",
        "name_surrogate": '{"\\ud83d\\ude00":' + good + "}",
        "name_half_surrogate": '{"\\ud83d":' + good + "}",
        "deep": '{"a":' + "[" * 40 + "]" * 40 + "}",
        "deep_unknown": '{"a":{"x":' + "[" * 30 + "]" * 30 + "}}",
        "dtype_unknown": '{"a":' + info("F7") + "}",
        "dtype_case": '{"a":' + info("f32") + "}",
    }
    for name, text in cases.items():
        yield f"text_{name}", file_of(text, bytes(8))
    yield "text_bad_utf8", file_of(b'{"\xc0\x80":' + good.encode() + b"}", bytes(8))
    yield "text_bom", file_of(b"\xef\xbb\xbf{}")
    wrong = ["1", '"x"', "null", "true", "[]", "{}"]
    for field, value in itertools.product(("dtype", "shape", "data_offsets"), wrong):
        parts = {"dtype": '"F32"', "shape": "[2]", "data_offsets": "[0,8]"}
        parts[field] = value
        text = ",".join(f'"{k}":{v}' for k, v in parts.items())
        yield (f"type_{field}_{wrong.index(value)}",
               file_of('{"a":{' + text + "}}", bytes(8)))


def header_metadata():
    for name, text in [("empty", "{}"), ("pair", '{"format":"pt"}'),
                       ("repeated", '{"a":"1","a":"2"}'), ("number", '{"a":1}'),
                       ("null", "null"), ("nested", '{"a":{}}'), ("list", "[]")]:
        yield f"metadata_{name}", file_of('{"__metadata__":' + text + "}")
    yield "metadata_twice", file_of('{"__metadata__":{},"__metadata__":{}}')


def header_seeds():
    yield "every_dtype", pack([(d.lower(), d, [8], None) for d in DTYPES])
    yield "zero_sized", pack([("a", "F32", [0, 3], b""), ("b", "U8", [], b"x"),
                              ("c", "F32", [2, 0], b"")], {"format": "pt"}, 5)
    yield from header_lengths()
    yield from header_numbers()
    yield from header_layouts()
    yield from header_texts()
    yield from header_metadata()


# ---- packed files -----------------------------------------------------------


def codes_of(count):
    return bytes((i * 37 + 11) % 256 for i in range(count))


def bitsandbytes(kind, shape, block=64, state=None, scales=None, dtype="float32",
                 extra=()):
    count = 1
    for dim in shape:
        count *= dim
    blocks = -(-count // block)
    table = NF4 if kind == "nf4" else FP4
    state = state or json.dumps({"quant_type": kind, "blocksize": block,
                                 "dtype": dtype, "shape": shape})
    scales = scales or [0.5 + i % 5 for i in range(blocks)]
    half = (count + 1) // 2
    return [("a.weight", "U8", [half, 1], codes_of(half)),
            ("a.weight.absmax", "F32", [len(scales)], floats(scales)),
            ("a.weight.quant_map", "F32", [16], floats(table)),
            (f"a.weight.quant_state.bitsandbytes__{kind}", "U8", [len(state)],
             state.encode()), *extra]


def apart(shape, size):
    """The shape of codes of `size` bytes (N4): never the weight's."""
    return [size, 1] if len(shape) == 1 else [size]


def nabla(kind, shape, block=64, dtype="F32", text=None, scales=None):
    count = 1
    for dim in shape:
        count *= dim
    per = block if block != "row" else count // shape[0]
    scales = scales or [0.25 + i % 3 for i in range(-(-count // per))]
    text = text or json.dumps({"version": 1, "encoding": kind, "block": block,
                               "scale": "F32", "dtype": dtype, "shape": shape})
    if kind == "int8":
        codes = ("a.weight", "I8", apart(shape, count), codes_of(count))
    else:
        half = (count + 1) // 2
        codes = ("a.weight", "U8", apart(shape, half), codes_of(half))
    return [codes, ("a.weight.nabla.scales", "F32", [len(scales)], floats(scales)),
            ("a.weight.nabla.format", "U8", [len(text)], text.encode())]


# Of version 2 and of other scale types: bits of a code, width of a scale.
BITS = {"binary": 1, "ternary": 2, "int4": 4, "nf4": 4, "fp4": 4, "mxfp4": 4}
SCALES = {"F32": ("F32", 4), "F16": ("F16", 2), "BF16": ("BF16", 2),
          "E8M0": ("U8", 1), "dynamic8": ("U8", 1)}


def description(encoding, shape, block=16, scale="F32", zero=False,
                leading=False, dtype="F32"):
    newer = zero or leading or block == "tensor"
    out = {"version": 2 if newer else 1, "encoding": encoding, "block": block,
           "scale": scale, "dtype": dtype, "shape": shape}
    if zero:
        out["zero_point"] = True
    if leading:
        out["blocks"] = "leading"
    return out


def newer(encoding, shape, block=16, scale="F32", zero=False, leading=False,
          offset=0.25):
    """The components of any weight in the Nabla layout (FORMAT.md, N)."""
    count = 1
    for dim in shape:
        count *= dim
    bits = BITS.get(encoding, 8)
    each = count // shape[0]
    if block == "tensor":
        scales = 1
    elif block == "row":
        scales = shape[0]
    elif leading:
        scales = shape[0] * -(-each // block)
    else:
        scales = -(-count // block)
    dtype, width = SCALES[scale]
    size = -(-count * bits // 8)
    code = "I8" if encoding == "int8" else "U8"
    codes = bytes((i * 37 + 11) & (63 if bits == 8 else 255) for i in range(size))
    top = 120 if width == 1 else 0x3f  # about 1
    text = json.dumps(description(encoding, shape, block, scale, zero, leading))
    parts = [("a.weight", code, apart(shape, size), codes),
             ("a.weight.nabla.scales", dtype, [scales],
              (bytes(width - 1) + bytes([top])) * scales),
             ("a.weight.nabla.format", "U8", [len(text)], text.encode())]
    if zero:
        parts.append(("a.weight.nabla.zero_points", code, [scales],
                      bytes(i % 16 for i in range(scales))))
    if scale == "dynamic8":
        groups = -(-scales // 256)
        values = [(i - 127) / 128 for i in range(256)]
        parts += [("a.weight.nabla.nested_scales", "F32", [groups],
                   floats([0.5] * groups)),
                  ("a.weight.nabla.nested_map", "F32", [256], floats(values)),
                  ("a.weight.nabla.nested_offset", "F32", [], floats([offset]))]
    return parts


NEWER = {
    "tensor": ("fp8", [3, 7], "tensor"),
    "tensor_f16": ("fp8_e5m2", [5], "tensor", "F16"),
    "row_bf16": ("fp8", [3, 7], "row", "BF16"),
    "zero_int4": ("int4", [4, 33], 32, "F16", True),
    "zero_int8": ("int8", [4, 33], 64, "BF16", True),
    "zero_rows": ("int8", [4, 33], "row", "F32", True),
    "leading": ("nf4", [3, 5, 8], 16, "F32", False, True),
    "leading_zero": ("int4", [2, 3, 12], 16, "F16", True, True),
    "leading_dynamic8": ("int4", [2, 5, 8], 16, "dynamic8", True, True),
    "dynamic8": ("nf4", [9, 32], 16, "dynamic8"),
    "dynamic8_groups": ("binary", [4112], 16, "dynamic8"),
    "mxfp4": ("mxfp4", [3, 33], 32, "E8M0"),
    "mxfp8": ("mxfp8", [64], 32, "E8M0"),
    "mx_block": ("mxfp8", [64], 16, "E8M0"),
    "mx_f32": ("mxfp4", [64], 32, "F32"),
    "e8m0_nf4": ("nf4", [64], 32, "E8M0"),
    "zero_nf4": ("nf4", [64], 32, "F32", True),
    "leading_vector": ("nf4", [64], 32, "F32", False, True),
    "leading_half_byte": ("int4", [3, 5], 16, "F32", False, True),
    "ternary": ("ternary", [2, 9], 16),
    "binary": ("binary", [3, 11], 32, "F16"),
}


def int8_rows(shape, scales=None, order=b"\0", prefix="a."):
    count = shape[0] * shape[1]
    scales = scales or [1.5 + i for i in range(shape[0])]
    return [(prefix + "weight", "I8", shape, codes_of(count)),
            (prefix + "SCB", "F32", [len(scales)], floats(scales)),
            (prefix + "weight_format", "U8", [], order)]


def packed_files():
    nan, inf = float("nan"), float("inf")
    norm = [("norm.weight", "BF16", [8], None), ("ids", "I64", [3], None)]
    yield "nf4", pack(bitsandbytes("nf4", [8, 16]) + norm)
    yield "fp4", pack(bitsandbytes("fp4", [5, 13], 32, dtype="bfloat16") + norm)
    yield "rows", pack(int8_rows([4, 7]) + norm)
    yield "rows_bare", pack(int8_rows([4, 7], prefix=""))
    for kind, shape, block, dtype in [
            ("nf4", [3, 11], 16, "F16"), ("fp4", [128], 64, "F64"),
            ("int8", [9, 9], 16, "BF16"), ("int8", [4, 3, 5], "row", "F32"),
            ("nf4", [4097], 4096, "F32"), ("int8", [1], "row", "F32")]:
        yield (f"nabla_{kind}_{block}_{len(shape)}",
               pack(nabla(kind, shape, block, dtype), {"nabla.layout": "nabla"}))
    yield "dense", pack([("a.weight", "F32", [16, 8], None),
                         ("b.weight", "F16", [4, 8], None),
                         ("c.weight", "F64", [3, 3], None),
                         ("d", "F8_E4M3", [5], None)])
    values = [0.0, -0.0, 1e-45, 3.4e38, -3.4028234663852886e38, 1e-38, 1.0, -1.0]
    yield "dense_odd_values", pack([("a.weight", "F32", [4, 2], floats(values))])
    yield "dense_nan", pack([("a.weight", "F32", [2, 2], floats([1, nan, inf, 0]))])
    yield "scales_nan", pack(bitsandbytes("nf4", [64], 32, scales=[nan, 1.0]))
    yield "scales_inf", pack(nabla("int8", [32], 16, scales=[inf, -2.0]))
    yield "scales_negative", pack(bitsandbytes("nf4", [64], 64, scales=[-1.5]))
    parts = bitsandbytes("nf4", [128])
    yield "codes_too_few", pack([("a.weight", "U8", [63, 1], bytes(63))] + parts[1:])
    parts = nabla("int8", [4, 16])
    yield "codes_of_the_weight", pack([("a.weight", "I8", [4, 16], bytes(64))] +
                                      parts[1:])
    yield "codes_too_many", pack([("a.weight", "I8", [65], bytes(65))] + parts[1:])
    yield "scales_too_few", pack(bitsandbytes("nf4", [128], 64, scales=[1.0]))
    yield "scales_too_many", pack(nabla("nf4", [32], 32, scales=[1.0, 2.0]))
    yield "scales_huge", pack(nabla("int8", [16], 16, scales=[3.4e38]))
    yield "rows_other_order", pack(int8_rows([2, 4], order=b"\1"))
    yield "rows_scales", pack(int8_rows([2, 4], scales=[1.0, 2.0, 3.0]))
    for missing in range(4):
        parts = bitsandbytes("nf4", [64])
        yield f"bitsandbytes_without_{missing}", pack(parts[:missing] +
                                                      parts[missing + 1:])
    for missing in range(3):
        parts = nabla("nf4", [64])
        yield f"nabla_without_{missing}", pack(parts[:missing] + parts[missing + 1:])
    both = bitsandbytes("nf4", [64]) + bitsandbytes("fp4", [64])[3:]
    yield "two_states", pack(both)
    yield "two_layouts", pack(bitsandbytes("nf4", [64]) + nabla("nf4", [64])[1:])
    parts = bitsandbytes("nf4", [64])
    parts[2] = (parts[2][0], "F32", [16], floats([x * 1.01 for x in NF4]))
    yield "other_table", pack(parts)
    state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "float16",
                        "shape": [64], "nested_blocksize": 256,
                        "nested_dtype": "float32", "nested_offset": 0.04})
    nested = bitsandbytes("nf4", [64], state=state, extra=[
        ("a.weight.nested_absmax", "F32", [1], floats([1.0])),
        ("a.weight.nested_quant_map", "F32", [256], floats([0.0] * 256))])
    nested[1] = ("a.weight.absmax", "U8", [1], b"\x80")
    yield "nested", pack(nested)
    nested[1] = ("a.weight.absmax", "U8", [2], b"\x80\x00")
    yield "nested_too_many", pack(nested)
    for dtype in ("F16", "BF16", "F32"):  # bitsandbytes' quant_storage
        parts = bitsandbytes("nf4", [64])
        width = DTYPES[dtype] // 8
        parts[0] = ("a.weight", dtype, [32 // width, 1], codes_of(32))
        yield f"storage_{dtype}", pack(parts)
    for name, arguments in NEWER.items():
        parts = newer(*arguments)
        yield f"newer_{name}", pack(parts)
        if name in ("leading_dynamic8", "zero_int8"):
            for missing in range(1, len(parts)):
                yield f"newer_{name}_without_{missing}", pack(
                    parts[:missing] + parts[missing + 1:])
    for offset in (nan, inf, 3.4e38, -3.4e38):
        yield f"newer_offset_{offset}", pack(
            newer("nf4", [40], 16, "dynamic8", offset=offset))
    parts = newer("mxfp8", [64], 32, "E8M0")
    parts[1] = (*parts[1][:3], b"\xff\x00")
    yield "newer_e8m0_nan", pack(parts)
    yield "companion_packed", pack(nabla("nf4", [64]) + [
        ("a.weight.nabla.scales.nabla.format", "U8", [2], b"{}")])
    inner = nabla("nf4", [64])[2][3]
    yield "newer_version", pack(nabla("nf4", [64], text=inner.decode().replace(
        '"version": 1', '"version": 2')))
    for count in (2**31, 2**32, 2**61, 2**63, 2**64 - 1):
        text = inner.decode().replace("[64]", f"[{count}]")
        yield f"claims_{count}", pack(nabla("nf4", [64], text=text))


def checkpoint_seeds():
    for i, (name, data) in enumerate(packed_files()):
        yield name, bytes([i % 4, i % 4, 0, 0]) + data
        if i < 12:
            yield f"{name}_rows", bytes([3, 0x22, 1 + 9 * i, 5]) + data
    dense = pack([("a.weight", "F32", [16, 8], None),
                  ("e.weight", "BF16", [3, 2, 20], None)])
    for i in range(16):  # encoded with other settings
        yield f"settings_{i}", bytes([(i * 37 + 4) % 256, i % 11 | (i & 1) << 7,
                                      0, 0]) + dense


# ---- descriptions -----------------------------------------------------------


def state_seeds():
    ours = {"version": 1, "encoding": "nf4", "block": 64, "scale": "F32",
            "dtype": "F32", "shape": [4, 32]}
    theirs = {"quant_type": "nf4", "blocksize": 64, "dtype": "float16",
              "shape": [4, 32]}
    for good, name in ((ours, "nabla"), (theirs, "bitsandbytes")):
        yield name, json.dumps(good).encode()
        for key in good:
            rest = {k: v for k, v in good.items() if k != key}
            yield f"{name}_without_{key}", json.dumps(rest).encode()
            text = json.dumps(good)[:-1] + f', "{key}": {json.dumps(good[key])}}}'
            yield f"{name}_twice_{key}", text.encode()
            for i, wrong in enumerate([None, True, -1, 1.5, "x", [], {}, 2**64]):
                yield (f"{name}_{key}_{i}", json.dumps({**good, key: wrong}).encode())
        for count in COUNTS:
            yield f"{name}_shape_{count}", json.dumps(
                {**good, "shape": [count]}).encode()
        for i, text in enumerate(NOT_COUNTS):
            yield f"{name}_no_number_{i}", json.dumps(good).replace(
                "64", text).encode()
        for shape in ([2**32, 2**32], [2**63, 2, 5], [2**33, 2**31, 3], [2**61, 8]):
            yield f"{name}_wraps_{len(shape)}_{shape[0]}", json.dumps(
                {**good, "shape": shape}).encode()
        yield f"{name}_rank_32", json.dumps({**good, "shape": [1] * 32}).encode()
        yield f"{name}_rank_99", json.dumps({**good, "shape": [1] * 99}).encode()
        yield f"{name}_rank_33", json.dumps({**good, "shape": [1] * 33}).encode()
        yield f"{name}_scalar", json.dumps({**good, "shape": []}).encode()
        yield f"{name}_empty", json.dumps({**good, "shape": [0, 5]}).encode()
        yield f"{name}_unknown", json.dumps({**good, "zero": 1}).encode()
    for block in (0, 1, 15, 16, 17, 32, 48, 4096, 8192, 2**32, "row"):
        for kind in ("nf4", "int8"):
            yield f"block_{block}_{kind}", json.dumps(
                {**ours, "block": block, "encoding": kind}).encode()
    for name, arguments in NEWER.items():
        good = description(*arguments)
        yield f"newer_{name}", json.dumps(good).encode()
        if name == "leading_dynamic8":
            for key in good:
                rest = {k: v for k, v in good.items() if k != key}
                yield f"newer_without_{key}", json.dumps(rest).encode()
                for i, wrong in enumerate([None, False, 1, "x", "leading", []]):
                    yield (f"newer_{key}_{i}",
                           json.dumps({**good, key: wrong}).encode())
        yield f"newer_{name}_as_1", json.dumps({**good, "version": 1}).encode()
    for key, wrong in itertools.product(
            ("nested_blocksize", "nested_dtype", "nested_offset"),
            (None, 0, 16, 100, 8192, -1.5, 1e39, "float16", True)):
        yield f"nested_{key}_{wrong}", json.dumps(
            {**theirs, "nested_blocksize": 256, "nested_dtype": "float32",
             "nested_offset": 0.04, key: wrong}).encode()
    for kind in ("fp4", "nf3", "int8", ""):
        yield f"kind_{kind}", json.dumps({**theirs, "quant_type": kind}).encode()
    for dtype in ("F16", "BF16", "F64", "I8", "float32", "bfloat16", "float64"):
        yield f"dtype_{dtype}", json.dumps({**ours, "dtype": dtype}).encode()
        yield f"torch_{dtype}", json.dumps({**theirs, "dtype": dtype}).encode()
    yield "nested", json.dumps({**theirs, "nested_blocksize": 256, "nested_dtype":
                                "float32", "nested_offset": 0.04}).encode()
    yield "version_2", json.dumps({**ours, "version": 2, "new": [1]}).encode()
    yield "version_0", json.dumps({**ours, "version": 0}).encode()
    yield "version_last", json.dumps({**theirs, "version": 1}).encode()
    yield "nothing", b""
    yield "no_object", b"[]"


# ---- index ------------------------------------------------------------------


def index_seeds():
    a = pack([("x", "F32", [2], None), ("y", "U8", [3], None)])
    b = pack([("z", "F16", [4], None)])
    whole = {"x": "a.safetensors", "y": "a.safetensors", "z": "b.safetensors"}

    def cut(index, first=a, second=b):
        text = index if isinstance(index, bytes) else json.dumps(index).encode()
        return text + CUT + first + CUT + second

    def indexed(weights, **metadata):
        return {"metadata": metadata, "weight_map": weights}

    yield "good", cut(indexed(whole, total_size=19))
    yield "wrong_total", cut(indexed(whole, total_size=20))
    for number in COUNTS:
        yield f"total_{number}", cut(indexed(whole, total_size=number))
    for i, text in enumerate(NOT_COUNTS):
        yield f"no_total_{i}", cut(json.dumps(indexed(whole, total_size=19)).replace(
            "19", text).encode())
    yield "one_shard", cut(indexed({"x": "a.safetensors", "y": "a.safetensors"}))
    for name in whole:
        yield f"without_{name}", cut(indexed({k: v for k, v in whole.items()
                                              if k != name}))
    yield "other_shard", cut(indexed({**whole, "z": "a.safetensors"}))
    yield "extra", cut(indexed({**whole, "w": "a.safetensors"}))
    yield "repeated", cut(json.dumps(indexed(whole)).replace(
        '"y"', '"x": "a.safetensors", "y"').encode())
    for i, name in enumerate(["", ".", "..", "/a.safetensors", "../a.safetensors",
                              ".hidden", "a/b", "c.safetensors", "n" * 256,
                              "a.safetensors\\u0000", 5, None, []]):
        yield f"file_{i}", cut(indexed({**whole, "z": name}))
    for text in (b"", b"{}", b"[]", b"null", b'{"weight_map":{}}',
                 b'{"weight_map":[]}', b'{"weight_map":{},"weight_map":{}}',
                 b'{"metadata":[],"weight_map":{"x":"a.safetensors"}}'):
        yield f"text_{len(text)}", cut(text)
    yield "in_both", cut(indexed(whole), a, pack([("z", "F16", [4], None),
                                                  ("x", "F32", [2], None)]))
    parts = bitsandbytes("nf4", [8, 16])
    names = [p[0] for p in parts]
    spread = {n: "a.safetensors" if i % 2 else "b.safetensors"
              for i, n in enumerate(names)}
    yield "spread", cut(indexed(spread), pack(parts[1::2]), pack(parts[0::2]))
    parts = nabla("int8", [4, 16], "row")
    spread = {p[0]: "a.safetensors" for p in parts[:1]}
    spread.update({p[0]: "b.safetensors" for p in parts[1:]})
    yield "spread_nabla", cut(indexed(spread), pack(parts[:1]), pack(parts[1:]))


# ---- the rest ---------------------------------------------------------------


def json_seeds():
    deep = 32
    for name, text in {
            "kinds": '{"a":[1,-2.5e+10,true,false,null,"x"],"b":{}}',
            "escapes": r'"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"',
            "half_surrogate": r'"\ud83d"', "low_surrogate": r'"\ude00"',
            "bad_escape": r'"\x"', "short_escape": r'"\u12"', "nul": r'"\u0000"',
            "deepest": "[" * deep + "]" * deep,
            "too_deep": "[" * (deep + 1) + "]" * (deep + 1),
            "mixed_depth": '{"a":[' * 16 + "]}" * 16, "open": "[[[",
            "number_64": "1" * 64, "number_65": "1" * 65, "leading_zero": "01",
            "minus": "-", "plus": "+1", "point": "1.", "exponent": "1e",
            "hex": "0x1", "nan": "NaN", "max": str(2**64 - 1), "above": str(2**64),
            "trailing_comma": "[1,]", "no_colon": '{"a" 1}', "no_quote": "{a:1}",
            "comment": "/**/1", "two": "1 2", "nothing": "", "spaces": " \t\r\n ",
            "raw_newline": '"\n"', "long": '"' + "x" * 3000 + '"',
            "longest": '"' + "x" * 65535 + '"', "too_long": '"' + "x" * 65537 + '"',
            "repeated": '{"a":1,"a":2}', "empty_key": '{"":{"":[]}}'}.items():
        if len(text) < 60000:
            yield name, text.encode()
    for i, bad in enumerate([b"\x80", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
                             b"\xe2\x82", b"\xff", b"\x7f", b"\xef\xbf\xbf"]):
        yield f"utf8_{i}", b'"' + bad + b'"'


def pattern_seeds():
    name = b"model.layers.0.self_attn.q_proj.weight"
    for i, pattern in enumerate([
            "q_proj", "^model", "weight$", ".", "[[:digit:]]+", "(a|b)*c", "x{3,5}",
            "(a{16}){16}", "(a{200}){200}", "((a*)*)*", "(a+)+$", "\\1", "(a)\\1",
            "[a-z", "(", ")", "{", "a{2", "a{,3}", "*", "|", "()", "\\", "",
            "(" * 33 + ")" * 33, "[[.space.]]", "[[=a=]]", "[]a]", "\\w\\b\\<",
            "a{255}b{255}", "(a|a|a|a)*" * 8, ".*" * 40 + "x", "x" * 1024,
            "x" * 1025, "a\nb\nc", "\xe9", "(ab?){0,100}"]):
        yield f"pattern_{i:02}", pattern.encode() + CUT + name
    yield "pattern_many_a", b"(a*)*b" + CUT + b"a" * 4096


# The rows of quant/codec/encodings.def, by their place there: what the option bytes of
# codec_cases.h choose.
ENCODINGS = ["nf4", "fp4", "int8", "int4", "ternary", "binary", "fp8", "fp8_e5m2",
             "mxfp4", "mxfp8", "mxfp8_e5m2"]


def codec_thresholds():
    middle = [(a + b) / 2 for a, b in zip(NF4, NF4[1:])]
    yield "nf4", [1.0] + middle
    yield "fp4", [1.0, 0.00260417, 0.0859375, 0.20833333, 0.29166667, 0.4166667,
                  0.583333, 0.8333333]
    yield "int8", [127.0] + [i + 0.5 for i in range(127)]
    yield "int4", [-7.0] + [i - 6.5 for i in range(14)]
    yield "ternary", [0.5, 1.5, -0.5, -1.5] * 4
    yield "mxfp4", [6.0, 7.0, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -0.25, -5.0]
    for name, bits, largest in (("8", 3, 448.0), ("8_e5m2", 2, 57344.0)):
        steps = [2.0 ** e * (1 + (i + 0.5) / 2 ** bits)
                 for e in (-14, -9, -7, -6, 0, 5, 8, 15) for i in range(2 ** bits)]
        steps = [x for x in steps if x < largest] + [2.0 ** -10, 2.0 ** -17]
        yield "fp" + name, [largest] + steps
        yield "mxfp" + name, [largest] + steps


def codec_heads():
    """Option bytes of many formats: (name, bytes)."""
    for number, name in enumerate(ENCODINGS):
        for form in range(16):  # scale type, zero points, segments
            size = (0, 2, 6, 8, 0x80, 0x82, 0xff, 9, 20, 0xc3)[(number + form) % 10]
            count = (40, 129, 1025, 8199)[(number + form) % 4]
            raw = 0xe000 if count > 599 else 0
            count = raw + (count - raw) % (8501 if raw else 600)
            yield f"{name}_{form:02}", bytes([number | form << 4, size]) + \
                struct.pack("<H", count)


def codec_seeds(decoding):
    edges = [0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 1.1754944e-38, 1e-38,
             3.4028235e38, -3.4028235e38, 2.6793887e36, 2.6793884e36, 0.5, 7e-39,
             1e30, -1e-30, 65504.0, 65519.0, 65520.0, 6e-8, 3e-8]
    contents = [
        ("ramp", floats([(i - 60) / 60 for i in range(121)])),
        ("edges", floats(edges)),
        ("subnormal", floats([1e-39, -7e-40, 1e-45, 0.0, 3e-40, -1e-41, 9e-40])),
        ("special", floats(edges + [float("nan"), float("inf"), -float("inf")])),
        ("one_sided", floats([3 + i / 7 for i in range(70)])),
        ("halves", struct.pack("<9e", 0, 1, -1, 65504, -65504, 6e-8, 1e-5, 0.1, 7)),
    ]
    if decoding:
        contents.append(("codes", floats([1.5, 0.25]) + bytes(range(256))))
    for i, (name, head) in enumerate(codec_heads()):
        for what, data in contents[i % 2::2]:
            yield f"{name}_{what}", head + data
    for name, values in codec_thresholds():
        number = ENCODINGS.index(name)
        yield f"{name}_ties", bytes([number, 0 if number < 8 else 1]) + \
            struct.pack("<H", 200) + floats(values)


# ---- arrays -----------------------------------------------------------------


def npy(text, data=b"", version=1, length=None):
    text = text.encode("latin-1")
    length = len(text) if length is None else length
    size = struct.pack("<H" if version == 1 else "<I", length)
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


def npy_text(descr="'<f4'", order="False", shape="(2, 3)"):
    return (f"{{'descr': {descr}, 'fortran_order': {order}, "
            f"'shape': {shape}, }}").ljust(117) + "\n"


def npy_seeds():
    for version in (1, 2, 3):
        yield f"good_{version}", npy(npy_text(), bytes(24), version)
    for code, size in [("|b1", 1), ("|i1", 1), ("|u1", 1), ("<i2", 2), ("<u2", 2),
                       ("<f2", 2), ("<i4", 4), ("<i8", 8), ("<f8", 8), (">f4", 4),
                       ("<c8", 8), ("|O", 8), ("<U3", 12), ("=f4", 4), ("|V2", 2)]:
        yield f"type_{code[1:]}_{ord(code[0])}", npy(
            npy_text(f"'{code}'"), bytes(6 * size))
    yield "structure", npy(npy_text("[('a', '<f4')]"), bytes(24))
    yield "fortran", npy(npy_text(order="True"), bytes(24))
    yield "fortran_vector", npy(npy_text(order="True", shape="(6,)"), bytes(24))
    yield "bool_2", npy(npy_text("'|b1'"), bytes([0, 1, 2, 0, 0, 0]))
    for i, shape in enumerate(["()", "(6,)", "(6)", "(6L,)", "(0, 5)", "[6]", "6",
                               "(2, 3,)", "(2 3)", "(-1,)", "(,)", "(2,,3)",
                               "(" + "1, " * 16 + ")", "(" + "1, " * 17 + ")"]):
        yield f"shape_{i}", npy(npy_text(shape=shape), bytes(24))
    for number in COUNTS:
        yield f"count_{number}", npy(npy_text(shape=f"({number},)"), bytes(24))
        yield f"twice_{number}", npy(npy_text(shape=f"({number}, {number})"))
    for i, text in enumerate(NOT_COUNTS):
        yield f"no_number_{i}", npy(npy_text(shape=f"({text},)"), bytes(24))
    for length in (0, 1, 117, 119, 65535):
        yield f"length_{length}", npy(npy_text(), bytes(24), length=length)
    for length in (65536, 65537, 2**31, 2**32 - 1):
        yield f"long_{length}", npy(npy_text(), bytes(24), 2, length)
    for cut in (0, 5, 6, 7, 8, 9, 10, 20, 127, 128, 151):
        yield f"cut_{cut}", npy(npy_text(), bytes(24))[:cut]
    yield "more", npy(npy_text(), bytes(25))
    for i, text in enumerate([
            "", "{", "{}", "{'descr': '<f4'}", "{'descr': '<f4', 'descr': '<f4'}",
            "{'shape': (1,), 'fortran_order': False, 'descr': \"<f4\"}",
            "{'descr': '<f4', 'fortran_order': None, 'shape': ()}",
            "{'a': 1}", npy_text() + "x", "{'descr': '" + "f" * 40]):
        yield f"text_{i}", npy(text, bytes(4))
    yield "version_4", npy(npy_text(), bytes(24), 4)


# ---- manifests --------------------------------------------------------------


def manifest_seeds():
    x = {"name": "x", "dtype": "F32", "shape": [None, 32]}
    y = {"name": "", "dtype": "F32", "shape": [None, 4]}

    def packed(encoding, shape, codes, scales, **form):
        return {"name": "w", "dtype": "F32", "shape": shape, "encoding": encoding,
                **form, "components": [
                    {"name": "codes", "dtype": "U8", "bytes": codes},
                    {"name": "scales", "dtype": "F32", "bytes": scales}]}

    def text(arguments=(x,), results=(y,), name="f", **more):
        return json.dumps({"abi": 1, "functions": [
            {"name": name, "arguments": list(arguments),
             "results": list(results), **more}]}, separators=(",", ":"))

    nf4 = packed("nf4", [4, 32], 64, 8, granularity="block", block=64)
    splat = {"name": "c", "dtype": "F32", "shape": [4], "encoding": "splat",
             "components": []}
    yield "empty", b'{"abi":1,"functions":[]}'
    yield "abi_2", b'{"abi":2,"functions":[]}'
    yield "linear", text([x, nf4, splat]).encode()
    yield "rows", text([x, packed("int8", [4, 32], 128, 16,
                                  granularity="row")]).encode()
    yield "rows_block", text([packed("int8", [4, 32], 128, 16, granularity="row",
                                     block=32)]).encode()
    yield "two", json.dumps({"abi": 1, "functions": [
        json.loads(text(name=n))["functions"][0] for n in "fg"]}).encode()
    yield "twice", json.dumps({"abi": 1, "functions": [
        json.loads(text())["functions"][0]] * 2}).encode()
    yield "name_escaped", text(name="f\u00e9\n").encode()
    yield "unknown_key", text(more=1).encode()
    whole = text([x, nf4, splat])
    for i in range(0, len(whole), 9):
        yield f"cut_{i}", whole[:i].encode()
    for i, port in enumerate((x, nf4, splat, y)):
        for key in port:
            rest = {k: v for k, v in port.items() if k != key}
            ports = ([rest], [y]) if port is not y else ([x], [rest])
            yield f"without_{i}_{key}", text(*ports).encode()
            for j, wrong in enumerate([None, True, -1, 1.5, "x", [], {}, 2**64]):
                ports = [{**port, key: wrong}]
                ports = (ports, [y]) if port is not y else ([x], ports)
                yield f"wrong_{i}_{key}_{j}", text(*ports).encode()
    for count in COUNTS:
        yield f"dim_{count}", text([{**x, "shape": [count]}]).encode()
        yield f"dims_{count}", text([{**x, "shape": [count, count]}]).encode()
        yield f"codes_{count}", text([packed(
            "nf4", [4, 32], count, 8, granularity="block", block=64)]).encode()
        yield f"block_{count}", text([{**nf4, "block": count}]).encode()
    yield "rank_17", text([{**x, "shape": [1] * 17}]).encode()
    yield "many", text([{**x, "shape": []}] * 257).encode()
    yield "packed_result", text([x], [nf4]).encode()
    whole = {k: v for k, v in nf4.items() if k != "name"}
    codes = {"name": "codes", "dtype": "U8", "shape": [64], "packed": whole}
    scales = {"name": "scales", "dtype": "F32", "shape": [2]}
    for name, results in {
            "whole": [y, codes, scales, y], "no_scales": [codes], "again":
            [codes, {**scales, "packed": whole}], "other_shape":
            [codes, {**scales, "shape": [3]}], "other_name":
            [codes, {**scales, "name": "s"}], "empty":
            [{**codes, "packed": {}}, scales], "implied":
            [{**codes, "packed": {k: v for k, v in splat.items()
                                  if k != "name"}}, scales]}.items():
        yield f"whole_result_{name}", text([x], results).encode()
    yield "empty_rows", text([packed("int8", [0, 2**62, 4], 0, 0,
                                     granularity="row")]).encode()


# ---- config.json ------------------------------------------------------------


def config_seeds():
    rest = {"architectures": ["X"], "eps": 1e-05, "torch_dtype": "bfloat16",
            "limits": [0.0, float("inf")], "nested": {"quantization_config": {}}}
    member = {"quant_method": "bitsandbytes", "load_in_4bit": True,
              "bnb_4bit_quant_type": "nf4", "llm_int8_skip_modules": ["a", "b"]}
    orders = {"none": rest, "last": {**rest, "quantization_config": member},
              "first": {"quantization_config": member, **rest},
              "null": {"quantization_config": None, **rest},
              "only": {"quantization_config": member}, "empty": {},
              "list": {"quantization_config": [1]}, "gptq": {
                  **rest, "quantization_config": {"quant_method": "gptq"}}}
    for name, value in orders.items():
        for indent in (None, 0, 2, "\t"):
            text = json.dumps(value, indent=indent)
            yield f"{name}_{indent!r}".replace("'", ""), text.encode()
            yield (f"{name}_{indent!r}_crlf".replace("'", ""),
                   text.replace("\n", "\r\n").encode())
        yield f"{name}_compact", json.dumps(value, separators=(",", ":")).encode()
    yield "mark", b"\xef\xbb\xbf" + json.dumps(rest).encode()
    yield "twice", b'{"quantization_config":{},"a":1,"quantization_config":{}}'
    yield "escaped", b'{"quantization\\u005fconfig" : {} , "b" : NaN}'
    yield "spaces", b' \n{ \n } \n'
    yield "array", b"[]"
    for i, text in enumerate(["-Infinity", "-Inf", "Inf", "NaN", "nan", "-NaN"]):
        yield f"number_{i}", ('{"a": ' + text + "}").encode()


def saved_seeds():
    """Four bytes: how much is in front; then the end of a saved program."""
    x86, arm = "x86_64-pc-linux-gnu", "aarch64-unknown-linux-gnu"

    def record(triple=x86, features="", front=64, size=None, text_size=None,
               zero=0, abi=1, version=1, magic=b"NablaRun", text=None):
        if text is None:
            text = f"{triple}\0{features}\0".encode()
        size = front if size is None else size
        text_size = len(text) if text_size is None else text_size
        return (struct.pack("<I", front) + text +
                struct.pack("<QIIII", size, text_size, zero, abi, version) +
                magic + b"h" * 16)

    good = record(features="sse2,avx2,fma")
    yield "good", good
    yield "no_features", record()
    yield "other_machine", record(triple=arm)
    yield "other_system", record(triple="x86_64-pc-windows-msvc")
    yield "no_triple", record(triple="")
    for features in ["avx512f,amx-fp8", "sse2,", ",", "later", "sse2,,avx"]:
        yield "features_" + features.replace(",", "_"), record(features=features)
    yield "abi", record(abi=2**32 - 1)
    yield "version", record(version=2)
    yield "magic", record(magic=b"nablarun")
    yield "zero", record(zero=1)
    for i, size in enumerate([0, 63, 65, 2**63, 2**64 - 1, 2**64 - 80]):
        yield f"size_{i}", record(size=size)
    for i, size in enumerate([0, 1, 20, 8192, 8193, 2**31, 2**32 - 1]):
        yield f"text_size_{i}", record(text_size=size)
    for i, text in enumerate([b"", b"\0", b"\0\0", b"\0\0\0", b"a\0b", b"ab"]):
        yield f"text_{i}", record(text=text)
    yield "long_text", record(features="a" * 8100)
    yield "too_long_text", record(features="a" * 8200)
    for size in (4, 5, 51, 52, 53, len(good) - 1):
        yield f"end_{size}", good[:4] + good[-size + 4:] if size > 4 else good[:4]
        yield f"begin_{size}", good[:size]


def function_seeds():
    """The golden files, their bodies, and bodies with one number changed."""
    folder = pathlib.Path(__file__).parents[1] / "golden"
    packed = (folder / "function-v2.nabla").read_bytes()
    yield "packed", packed
    yield "packed_body", packed[40:]
    for at in range(len(packed) - 480, len(packed), 60):
        yield f"packed_begin_{at}", packed[40:at]
    data = (folder / "function-v1.nabla").read_bytes()
    body = data[40:]
    yield "golden", data
    yield "body", body
    yield "no_signatures", struct.pack("<IcI", 1, b"f", 0)[:5] + bytes(21)
    for at in (0, 4, 8, 39):
        yield f"header_{at}", data[:at]
    for at in list(range(0, len(body), 101)) + [len(body) - 1]:
        yield f"begin_{at}", body[:at]
        for value in (0, 0xFFFFFFFF):
            changed = bytearray(body)
            changed[at:at + 4] = struct.pack("<I", value)
            yield f"number_{at}_{value:x}", bytes(changed)


TARGETS = {
    "function": function_seeds,
    "saved": saved_seeds,
    "config": config_seeds,
    "header": header_seeds, "index": index_seeds, "state": state_seeds,
    "checkpoint": checkpoint_seeds, "json": json_seeds, "pattern": pattern_seeds,
    "npy": npy_seeds, "manifest": manifest_seeds,
    "decode": lambda: codec_seeds(True), "encode": lambda: codec_seeds(False),
}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for target in sys.argv[2:] or TARGETS:
        folder = pathlib.Path(sys.argv[1]) / target
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in TARGETS[target]():
            if len(data) <= 65536:
                (folder / name).write_bytes(data)


if __name__ == "__main__":
    main()
