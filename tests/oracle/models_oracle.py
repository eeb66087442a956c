"""Whole models through the tool: quantize, verify, dequantize, diff for every
encoding. The Python package safetensors opens every output, and a decoder that
was written from docs/FORMAT.md alone gives the same values, bit for bit.

usage: models_oracle.py TOOL MAKER generated|real [SOURCE_FOLDER]
`real` looks for models in $NABLA_MODELS, or in ../shared/models beside the
source folder. Exits 77, which ctest shows as skipped, when something lacks.
"""
import json
import os
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import encoding_rows  # noqa: E402

try:
    import numpy as np
    from safetensors import safe_open
except ImportError as error:
    print("skipped: needs numpy and safetensors (%s)" % error)
    sys.exit(77)

f32 = np.float32
REAL = ("stories260K/stories260K-f32.safetensors",
        "stories260K/stories260K-bf16.safetensors",
        "silero-vad/silero_vad_16k.safetensors")
# Generated models have weights of rank 3, which LLM.int8 cannot hold.
MATRICES = ["--layout", "bitsandbytes", "--skip", "conv|experts"]
BLOCKS = [16 << i for i in range(9)]
# Largest relative RMSE of a whole model with blocks of 64; weights have heavier
# tails than a normal distribution, which larger blocks feel more.
BOUNDS = {"nf4": .12, "fp4": .17, "int8": .02}
ENCODINGS, MISSING = encoding_rows.split(BOUNDS)
METHODS = [(encoding, []) for encoding in ENCODINGS] + [
    ("int8", ["--block", "64"]), ("nf4", ["--layout", "nabla"])]
STATE_KEYS = {"quant_type", "blocksize", "dtype", "shape"}
FORMAT_KEYS = ["version", "encoding", "block", "scale", "dtype", "shape"]
NUMPY = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "U8": "u1", "I8": "i1",
         "I64": "<i8", "I32": "<i4", "BF16": "<u2", "BOOL": "u1"}
TORCH = {"float32": "F32", "float16": "F16", "bfloat16": "BF16"}


def from_bits(text):
    return np.array([int(word, 16) for word in text.split()],
                    np.uint32).view(f32)


# bitsandbytes, functional.py, get_4bit_type, as the bits of f32.
FP4 = from_bits("0 3baaaaab 3f2aaaab 3f800000 3eaaaaab 3f000000 3e2aaaab "
                "3e800000")
TABLES = {
    "nf4": from_bits("bf800000 bf3239b1 bf066b30 beca32a0 be91a24d be3d353f "
                     "bdba7871 0 3da2faff 3e24cae3 3e7c04dd 3ead033a 3ee1a4b8 "
                     "3f1007ab 3f3913b3 3f800000"),
    "fp4": np.concatenate([FP4, -FP4]),
}
failures = 0


def check(good, text):
    global failures
    if not good:
        failures += 1
        print("FAILED: " + text)
    return good


# ---- reading, without any library --------------------------------------------


class File:
    """A safetensors file: its header, and tensors as numpy arrays."""

    def __init__(self, path):
        with open(path, "rb") as file:
            data = file.read()
        size = int.from_bytes(data[:8], "little")
        self.header = json.loads(data[8:8 + size])
        self.labels = self.header.pop("__metadata__", {})
        self.data = data[8 + size:]

    def raw(self, name):
        begin, end = self.header[name]["data_offsets"]
        return self.data[begin:end]

    def flat(self, name):
        return np.frombuffer(self.raw(name), NUMPY[self.header[name]["dtype"]])

    def values(self, name):
        """As f32, where that is exact or the dtype is F64."""
        flat = self.flat(name)
        if self.header[name]["dtype"] == "BF16":
            return (flat.astype(np.uint32) << 16).view(f32)
        return flat.astype(f32)


class Model:
    """The files of a model, seen as one."""

    def __init__(self, path):
        names = [path]
        if os.path.isdir(path):
            names = [os.path.join(path, n) for n in sorted(os.listdir(path))
                     if n.endswith(".safetensors")]
        self.paths = names
        self.where = {}
        self.labels = {}
        for name in names:
            file = File(name)
            self.labels.update(file.labels)
            for tensor in file.header:
                self.where[tensor] = file

    def info(self, name):
        return self.where[name].header[name]

    def flat(self, name):
        return self.where[name].flat(name)

    def values(self, name):
        return self.where[name].values(name)


def open_with_safetensors(model):
    """Names, shapes and dtypes as the reference reader sees them; it slices
    every tensor whose dtype numpy has."""
    for path in model.paths:
        with safe_open(path, framework="numpy") as file:
            keys = set(file.keys())
            check(keys == set(File(path).header), path + ": other tensors")
            for key in keys:
                part = file.get_slice(key)
                info = model.info(key)
                check(part.get_shape() == info["shape"], key + ": shape")
                check(part.get_dtype() == info["dtype"], key + ": dtype")
                if info["dtype"] != "BF16":
                    check(file.get_tensor(key).tobytes() ==
                          model.where[key].raw(key), key + ": bytes")


# ---- decoding, from docs/FORMAT.md -------------------------------------------


def count_of(shape):
    return int(np.prod(shape, dtype=np.int64))


def decode_4bit(codes, scales, table, block, count):
    """(B2), the value rule below (B5)."""
    packed = codes.view(np.uint8)
    both = np.stack([packed >> 4, packed & 15], axis=1).reshape(-1)[:count]
    return table[both] * np.repeat(scales, block)[:count]


def decode_rows(codes, scales, rows):
    """LLM.int8: (q * SCB) * f32(1/127)."""
    q = codes.reshape(rows, -1).astype(f32)
    return ((q * scales[:, None]) * f32(7.874015718698502e-3)).reshape(-1)


def decode_bitsandbytes(model, name, kind):
    state = json.loads(
        model.flat("%s.quant_state.bitsandbytes__%s" % (name, kind)).tobytes())
    check(set(state) == STATE_KEYS, "%s: keys %s" % (name, list(state)))
    check(state["quant_type"] == kind, name + ": quant_type")
    count = count_of(state["shape"])
    info = model.info(name)
    check(info["shape"] == [(count + 1) // 2, 1] and info["dtype"] == "U8",
          name + ": codes %s" % info)
    scales = model.flat(name + ".absmax")
    check(len(scales) == -(-count // state["blocksize"]), name + ": absmax")
    table = model.flat(name + ".quant_map")
    check(table.tobytes() == TABLES[kind].tobytes(), name + ": quant_map")
    if count % 2:
        check(model.flat(name)[-1] & 15 == (7 if kind == "nf4" else 0),
              name + ": padding")
    values = decode_4bit(model.flat(name), scales, table, state["blocksize"],
                         count)
    return values, state["shape"], TORCH[state["dtype"]], state["blocksize"]


def decode_int8(model, name):
    stem = name[:-len("weight")]
    shape = model.info(name)["shape"]
    check(model.flat(stem + "weight_format").tobytes() == b"\0"
          and model.info(stem + "weight_format")["shape"] == [],
          name + ": weight_format")
    check(len(shape) == 2, name + ": LLM.int8 of rank %d" % len(shape))
    codes, scales = model.flat(name), model.flat(stem + "SCB")
    check(codes.min() >= -127, name + ": code -128")
    values = decode_rows(codes, scales, shape[0])
    other = codes.reshape(shape).astype(f32) * (
        scales * f32(7.874015718698502e-3))[:, None]
    return values, shape, None, np.any(other.reshape(-1) != values)


def decode_nabla(model, name):
    text = model.flat(name + ".nabla.format").tobytes()
    what = json.loads(text)
    check(list(what) == FORMAT_KEYS and what["version"] == 1
          and what["scale"] == "F32", "%s: %s" % (name, text))
    codes, scales = model.flat(name), model.flat(name + ".nabla.scales")
    shape, block = what["shape"], what["block"]
    count = count_of(shape)
    if what["encoding"] in TABLES:
        check(model.info(name)["shape"] == [(count + 1) // 2], name + ": codes")
        values = decode_4bit(codes, scales, TABLES[what["encoding"]], block,
                             count)
    else:
        check(model.info(name)["shape"] == [count], name + ": codes")
    if block == "row":
        values = decode_rows(codes, scales, shape[0])
    elif what["encoding"] not in TABLES:
        values = codes.astype(f32) * np.repeat(scales, block)[:count]
    return values, shape, what["dtype"], block


def decode(model, name):
    """Values, shape, dtype before packing, block; None for dense tensors."""
    for kind in TABLES:
        if "%s.quant_state.bitsandbytes__%s" % (name, kind) in model.where:
            check(model.labels["nabla.layout"] == "bitsandbytes", "label")
            return decode_bitsandbytes(model, name, kind)
    if name + ".nabla.format" in model.where:
        check(model.labels["nabla.layout"] == "nabla", "label")
        return decode_nabla(model, name)
    if name.endswith("weight") and name[:-6] + "SCB" in model.where:
        check(model.labels["nabla.layout"] == "bitsandbytes", "label")
        return decode_int8(model, name)
    return None


# ---- one model, one method ----------------------------------------------------


def run(tool, *arguments, codes=(0,)):
    result = subprocess.run([tool, *arguments], capture_output=True, text=True,
                            check=False)
    check(result.returncode in codes, "%s: status %d: %s" %
          (" ".join(arguments), result.returncode, result.stderr))
    return result.stdout


def compare(source, packed, decoded):
    """Relative RMSE of all packed values; how many tensors are packed."""
    square = total = 0.0
    count = order = 0
    for name in source.where:
        result = decode(packed, name)
        if result is None:
            for other in (packed, decoded):
                check(other.flat(name).tobytes() == source.flat(name).tobytes()
                      and other.info(name)["dtype"]
                      == source.info(name)["dtype"], name + ": not copied")
            continue
        values, shape, dtype, detail = result
        count += 1
        order += bool(dtype is None and detail)
        check(shape == source.info(name)["shape"], name + ": shape")
        check(dtype in (None, source.info(name)["dtype"]), name + ": dtype")
        check(decoded.info(name)["dtype"] == "F32"
              and decoded.info(name)["shape"] == shape, name + ": decoded as")
        check(decoded.flat(name).view(np.uint32).tobytes()
              == values.view(np.uint32).tobytes(), name + ": other values")
        a = source.values(name).astype(np.float64)
        square += float(np.sum((values - a)**2))
        total += float(np.sum(a * a))
    check(set(decoded.where) == set(source.where), "decoded: other tensors")
    return (square / total)**.5 if total else 0.0, count, order


def encode_again(tool, decoded, packed, options, folder):
    """What NF4 decodes to has the same codes and scales."""
    path = os.path.join(folder, "again" + os.path.splitext(decoded)[1])
    run(tool, "quantize", decoded, *options, "-o", path, "--force")
    again = Model(path)
    for name in packed.where:
        if decode(packed, name) is None:
            continue
        for suffix in ("", ".absmax", ".nabla.scales"):
            if name + suffix in packed.where:
                check(again.flat(name + suffix).tobytes() ==
                      packed.flat(name + suffix).tobytes(),
                      name + suffix + ": other bytes the second time")


def one_method(tool, source_path, encoding, options, folder):
    ending = "" if os.path.isdir(source_path) else ".safetensors"
    packed = os.path.join(folder, "packed" + ending)
    decoded = os.path.join(folder, "decoded" + ending)
    label = "%s %s %s" % (os.path.basename(source_path), encoding,
                          " ".join(options))
    run(tool, "quantize", source_path, "-e", encoding, *options, "-o", packed,
        "--force")
    run(tool, "verify", packed)
    run(tool, "dequantize", packed, "--dtype", "f32", "-o", decoded, "--force")
    block = int(options[1]) if options[:1] == ["--block"] else 64
    bound = BOUNDS[encoding] * max(1, block / 64)**.3
    run(tool, "diff", source_path, decoded, "--tolerance", str(3 * bound))
    figures = json.loads(run(tool, "diff", packed, decoded, "--json"))
    check(figures["schema"].startswith("nabla-quant/"), label + ": schema")
    models = [Model(p) for p in (source_path, packed, decoded)]
    for model in models[1:]:
        open_with_safetensors(model)
    error, count, order = compare(*models)
    check(count > 0, label + ": nothing is packed")
    check(error < bound, "%s: relative RMSE %g" % (label, error))
    if encoding == "int8" and models[1].labels.get(
            "nabla.layout") == "bitsandbytes":
        check(order > 0, label + ": the order of decoding cannot be told")
    if encoding == "nf4":
        encode_again(tool, decoded, models[1], options, folder)
    print("%-52s %2d packed as %-12s relative RMSE %.5f" %
          (label, count, models[1].labels.get("nabla.layout"), error), flush=True)


def real_models(source_folder):
    folder = os.environ.get("NABLA_MODELS") or os.path.join(
        source_folder, "..", "shared", "models")
    found = [os.path.join(folder, name) for name in REAL]
    for path in found:
        if not os.path.exists(path):
            print("skipped: there is no " + os.path.basename(path))
    return [path for path in found if os.path.exists(path)]


def main():
    tool, maker, kind = sys.argv[1:4]
    with tempfile.TemporaryDirectory(prefix="nabla-models-") as folder:
        if kind == "real":
            models = real_models(sys.argv[4])
        else:
            models = [os.path.join(folder, name) for name in ("f32", "bf16")]
            for path in models:
                subprocess.run([maker, "--out", path, "--megabytes", "4",
                                "--shards", "2", "--dtype",
                                os.path.basename(path)], check=True,
                               stdout=subprocess.DEVNULL)
        for path in models:
            for encoding, options in METHODS:
                one_method(tool, path, encoding, options, folder)
        if kind != "real":
            one_method(tool, models[0], "int8", MATRICES, folder)
        for block in BLOCKS if models else []:
            for encoding in ENCODINGS if kind != "real" else ["nf4"]:
                one_method(tool, models[0], encoding,
                           ["--block", str(block)], folder)
    if failures:
        print("%d checks failed" % failures)
        sys.exit(1)
    print("%d models, all equal%s" % (len(models),
                                      encoding_rows.skipped(MISSING)))
    sys.exit(0 if models else 77)


if __name__ == "__main__":
    main()
