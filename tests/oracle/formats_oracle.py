"""Files with every encoding, scale type, granularity and layout: the tool's
decoded values against a reader written from docs/FORMAT.md alone, bit for bit,
and files with bitsandbytes' double quantization that numpy has written.

usage: formats_oracle.py TOOL
Exits 77, which ctest shows as skipped, when numpy or safetensors is missing.
"""
import json
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    from safetensors.numpy import load_file, save_file
except ImportError as error:
    print("skipped: needs numpy and safetensors (%s)" % error)
    sys.exit(77)

f32 = np.float32
failures = 0


def check(good, text):
    global failures
    if not good:
        failures += 1
        print("FAILED: " + text)
    return good


def run(tool, *words, code=0):
    done = subprocess.run([tool, *words, "-q"], capture_output=True, text=True)
    check(done.returncode == code, "%s: exit %d, not %d: %s" % (
        " ".join(words), done.returncode, code, done.stderr))
    return done.stderr


# ---- reading, from docs/FORMAT.md ---------------------------------------------


def small_floats(exponent_bits, mantissa_bits, bias):
    """Values of the codes without sign, none of them special."""
    values = []
    for code in range(1 << exponent_bits + mantissa_bits):
        exponent, mantissa = code >> mantissa_bits, code & (1 << mantissa_bits) - 1
        part = mantissa / (1 << mantissa_bits)
        values.append(2.0 ** (1 - bias) * part if exponent == 0
                      else 2.0 ** (exponent - bias) * (1 + part))
    return np.array(values + [-value for value in values], f32)


def bits_of(text):
    return np.array([int(word, 16) for word in text.split()], np.uint32).view(f32)


FP4 = bits_of("0 3baaaaab 3f2aaaab 3f800000 3eaaaaab 3f000000 3e2aaaab 3e800000")
E2M1, E4M3, E5M2 = small_floats(2, 1, 1), small_floats(4, 3, 7), small_floats(5, 2, 15)
TABLES = {
    "nf4": bits_of("bf800000 bf3239b1 bf066b30 beca32a0 be91a24d be3d353f bdba7871 0 "
                   "3da2faff 3e24cae3 3e7c04dd 3ead033a 3ee1a4b8 3f1007ab 3f3913b3 "
                   "3f800000"),
    "fp4": np.concatenate([FP4, -FP4]),
    "int4": np.arange(-8, 8).astype(f32), "ternary": f32([-1, 0, 1, 2]),
    "binary": f32([-1, 1]), "mxfp4": E2M1, "fp8": E4M3, "mxfp8": E4M3,
    "fp8_e5m2": E5M2, "mxfp8_e5m2": E5M2,
}
BITS = {"nf4": 4, "fp4": 4, "int4": 4, "ternary": 2, "binary": 1, "mxfp4": 4}


def unpack(encoding, raw, count):
    bits = BITS.get(encoding, 8)
    raw = raw.reshape(-1).view(np.uint8)
    if bits == 8:
        return raw
    shifts = np.arange(0, 8, bits)
    if encoding in ("nf4", "fp4"):
        shifts = shifts[::-1]
    return (raw[:, None] >> shifts & (1 << bits) - 1).reshape(-1)[:count]


def widen(scales, kind):
    if kind == "E8M0":
        return np.ldexp(f32(1), scales.astype(int) - 127).astype(f32)
    if kind == "BF16":
        return (scales.view(np.uint16).astype(np.uint32) << 16).view(f32)
    return scales.astype(f32)


def nested(codes, absmax, table, block, offset):
    wide = np.repeat(absmax, block)[:codes.size]
    return table[codes] * wide + f32(offset)


def scale_of_each(said, shape, count):
    """The index of the scale of every value."""
    index = np.arange(count)
    rows = count // shape[0]
    if said["block"] == "tensor":
        return index * 0
    if said["block"] == "row":
        return index // rows
    if said.get("blocks") != "leading":
        return index // said["block"]
    return index // rows * -(-rows // said["block"]) + index % rows // said["block"]


def read_ours(file, name):
    said = json.loads(bytes(file[name + ".nabla.format"]))
    shape, encoding = said["shape"], said["encoding"]
    count = int(np.prod(shape))
    scales = file[name + ".nabla.scales"]
    if said["scale"] == "dynamic8":
        scales = nested(scales, file[name + ".nabla.nested_scales"],
                        file[name + ".nabla.nested_map"], 256,
                        file[name + ".nabla.nested_offset"])
    else:
        scales = widen(scales, said["scale"])
    which = scale_of_each(said, shape, count)
    check(scales.size == which[-1] + 1, "%s: %d scales" % (name, scales.size))
    codes = unpack(encoding, file[name], count)
    if said.get("zero_point"):
        zeros = file[name + ".nabla.zero_points"].astype(int)[which]
        whole = codes.view(np.int8) if encoding == "int8" else codes
        return ((whole.astype(int) - zeros).astype(f32) * scales[which]).reshape(shape)
    if encoding == "int8":
        values = codes.view(np.int8).astype(f32) * scales[which]
        if said["block"] == "row" and said["scale"] == "F32":
            values *= f32(7.874015718698502e-3)
        return values.reshape(shape)
    return (TABLES[encoding][codes] * scales[which]).reshape(shape)


def read_theirs(file, name):
    state, = [key for key in file if key.startswith(name + ".quant_state.")]
    said = json.loads(bytes(file[state]))
    count = int(np.prod(said["shape"]))
    scales = file[name + ".absmax"]
    if "nested_offset" in said:
        scales = nested(scales, file[name + ".nested_absmax"],
                        file[name + ".nested_quant_map"], said["nested_blocksize"],
                        said["nested_offset"])
    codes = unpack(said["quant_type"], file[name], count)
    table = file[name + ".quant_map"]
    return (table[codes] * np.repeat(scales, said["blocksize"])[:count]).reshape(
        said["shape"])


def read(file, name):
    if name + ".nabla.format" in file:
        return read_ours(file, name)
    if name + ".absmax" in file:
        return read_theirs(file, name)
    if name.replace("weight", "SCB") in file:
        scales = file[name.replace("weight", "SCB")]
        return file[name].astype(f32) * scales[:, None] * f32(7.874015718698502e-3)
    return file[name]


# ---- files that the tool writes ---------------------------------------------


def load(path):
    """As safetensors reads it, but for BF16, which numpy has not."""
    with open(path, "rb") as stream:
        data = stream.read()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    out = {}
    kinds = {"F32": "<f4", "F16": "<f2", "BF16": "<u2", "U8": "u1", "I8": "i1"}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = (8 + size + at for at in entry["data_offsets"])
        out[name] = np.frombuffer(data[begin:end], kinds[entry["dtype"]]).reshape(
            entry["shape"])
    return out, header.get("__metadata__", {})


def make_model(folder, rng):
    shapes = {"a.weight": (33, 70), "b.weight": (6, 10, 31), "c.weight": (3, 5000),
              "d.weight": (4, 300000), "e.weight": (2, 600, 1001)}
    model = {name: (rng.standard_normal(shape) * .1).astype(f32)
             for name, shape in shapes.items()}
    model["b.weight"][0] = 0
    model["a.weight"][0, :] = -0.0
    path = os.path.join(folder, "model.safetensors")
    save_file(model, path)
    return path, model


def cases():
    """Words of the command line, and the version of the layout that they need
    (0: bitsandbytes)."""
    blocks = ["nf4", "fp4", "int8", "int4", "ternary", "binary", "fp8", "fp8_e5m2"]
    for encoding in blocks:
        theirs = encoding in ("nf4", "fp4")
        for scale in ("f32", "f16", "bf16", "dynamic8"):
            words = ["-e", encoding, "--scale", scale, "--block", "64"]
            yield words, 0 if theirs and scale in ("f32", "dynamic8") else 1
            if theirs:
                yield words + ["--layout", "nabla"], 1
    for encoding in ("mxfp4", "mxfp8", "mxfp8_e5m2"):
        yield ["-e", encoding], 1
    for encoding in ("int8", "int4"):
        for scale in ("f32", "f16", "bf16", "dynamic8"):
            yield ["-e", encoding, "--scale", scale, "--zero-point"], 2
    for encoding in ("int8", "fp8", "fp8_e5m2"):
        for scale in ("f32", "f16", "dynamic8"):
            yield ["-e", encoding, "--scale", scale, "--block", "row", "--layout",
                   "nabla"], 1
            if encoding != "int8":
                yield ["-e", encoding, "--scale", scale, "--block", "tensor"], 2
    for encoding in ("nf4", "int4", "mxfp4", "binary", "fp8"):
        yield ["-e", encoding, "--blocks", "leading", "--skip", "b.weight"], 2
    yield ["-e", "int8", "--blocks", "leading", "--zero-point", "--scale",
           "dynamic8"], 2
    for words in (["nf4"], ["nf4", "--scale", "dynamic8"], ["fp4"]):
        yield ["-e", *words, "--search"], 0
    for words in (["int4", "--scale", "f16"], ["ternary"], ["mxfp4"]):
        yield ["-e", *words, "--search"], 1
    yield ["-e", "int4", "--zero-point", "--search"], 2
    yield ["-e", "nf4", "--rule", "^[ab]=int4:block=32:scale=f16:zero-point",
           "--rule", "c=mxfp8", "--rule", "d=fp8:block=tensor"], 2


def largest_error(words):
    text = " ".join(words)
    for part, bound in (("binary", .65), ("ternary", .6), ("fp4", .2), ("mxfp4", .2),
                        ("nf4", .15), ("int4", .2), ("e5m2", .06)):
        if part in text:
            return bound
    return .04


def check_case(tool, folder, source, model, words, version):
    text = " ".join(words)
    packed, one = (os.path.join(folder, name) for name in ("p.safetensors",
                                                           "o.safetensors"))
    dense = os.path.join(folder, "d.safetensors")
    run(tool, "quantize", source, "-o", packed, "--force", "-j", "2", *words)
    run(tool, "quantize", source, "-o", one, "--force", "-j", "1", "--isa", "scalar",
        *words)
    with open(packed, "rb") as a, open(one, "rb") as b:
        check(a.read() == b.read(), text + ": bytes depend on threads or CPU")
    run(tool, "verify", packed)
    run(tool, "dequantize", packed, "-o", dense, "--force")
    file, labels = load(packed)
    said = load_file(dense)
    label = labels.get("nabla.version", "0")
    check(label == str(version), "%s: version %s, not %d" % (text, label, version))
    worst = 0
    for name, values in model.items():
        mine = read(file, name)
        check(mine.dtype == f32 and np.array_equal(mine.view(np.uint32),
                                                   said[name].view(np.uint32)),
              "%s: %s differs" % (text, name))
        worst = max(worst, np.sqrt(((mine - values) ** 2).mean() /
                                   (values ** 2).mean()))
    check(worst < largest_error(words), "%s: relative RMSE %g" % (text, worst))
    for dtype in ("f16", "bf16"):
        run(tool, "dequantize", packed, "-o", dense, "--force", "--dtype", dtype)
        narrow, _ = load(dense)
        for name in model:
            if read(file, name) is file.get(name):
                continue
            mine = said[name]
            bits = mine.view(np.uint32)
            half = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
            expected = mine.astype(np.float16).view(np.uint16) if dtype == "f16" \
                else half.astype(np.uint16)
            check(np.array_equal(narrow[name].view(np.uint16), expected),
                  "%s: %s as %s" % (text, name, dtype))


# ---- files that bitsandbytes could have written ---------------------------------


def dynamic_map():
    values = [0.0, 1.0]
    for decade in range(7):
        points = np.linspace(0.1, 1, 2 ** decade + 1)
        means = (points[1:] + points[:-1]) / 2 * 10.0 ** (decade - 6)
        values += [*means, *-means]
    return np.sort(np.array(values)).astype(f32)


def check_foreign(tool, folder, rng):
    path, dense = (os.path.join(folder, name) for name in ("b.safetensors",
                                                           "d.safetensors"))
    for storage in (np.uint8, np.float16, np.float32, "bf16"):
        for encoding, block, inner in (("nf4", 64, 256), ("fp4", 128, 64)):
            rows, columns = 24, 1024
            count = rows * columns
            codes = rng.integers(0, 256, count // 2).astype(np.uint8)
            scales = count // block
            # another map than ours: the one of the file is used
            table = (dynamic_map() * f32(.75)).astype(f32)
            tensors = {
                "w.weight": codes,
                "w.weight.absmax": rng.integers(0, 256, scales).astype(np.uint8),
                "w.weight.quant_map": TABLES[encoding],
                "w.weight.nested_absmax": rng.random(-(-scales // inner)).astype(f32),
                "w.weight.nested_quant_map": table,
                "w.weight.quant_state.bitsandbytes__" + encoding: np.frombuffer(
                    json.dumps({"quant_type": encoding, "blocksize": block,
                                "dtype": "float32", "shape": [rows, columns],
                                "nested_blocksize": inner,
                                "nested_dtype": "float32",
                                "nested_offset": 0.04320915788412094}).encode(),
                    np.uint8)}
            if storage == "bf16":
                tensors["w.weight"] = codes.view(np.uint16).reshape(-1, 1)
            else:
                tensors["w.weight"] = codes.view(storage).reshape(-1, 1)
            save_file(tensors, path)
            if storage == "bf16":  # numpy has no such type: the label alone
                with open(path, "rb") as stream:
                    data = stream.read()
                with open(path, "wb") as stream:
                    size = int.from_bytes(data[:8], "little") + 1
                    head = data[8:7 + size].replace(b'"U16"', b'"BF16"')
                    stream.write(size.to_bytes(8, "little") + head + data[7 + size:])
            run(tool, "verify", path)
            run(tool, "dequantize", path, "-o", dense, "--force")
            said = load_file(dense)["w.weight"]
            tensors["w.weight"] = codes
            mine = read_theirs(tensors, "w.weight")
            check(np.array_equal(said.view(np.uint32), mine.view(np.uint32)),
                  "bitsandbytes %s, %s" % (encoding, storage))


def main():
    tool = sys.argv[1]
    rng = np.random.default_rng(1)
    count = 0
    with tempfile.TemporaryDirectory() as folder:
        source, model = make_model(folder, rng)
        for words, version in cases():
            check_case(tool, folder, source, model, words, version)
            count += 1
        check_foreign(tool, folder, rng)
    print("%d ways to write and 8 foreign files, %d failures" % (count, failures))
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
