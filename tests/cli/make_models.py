#!/usr/bin/env python3
"""Makes the small models of the CLI tests: make_models.py FOLDER.

Values come from a linear congruential generator and are exact in binary, so
that the files are the same bytes on every machine. Standard library only.
"""
import json
import os
import struct
import sys


class Values:
    """Sums of four 16-bit numbers: near a normal distribution, exact in f32."""

    def __init__(self, seed):
        self.state = seed

    def word(self):
        # Knuth's MMIX constants (The Art of Computer Programming, 3.3.4)
        self.state = (self.state * 6364136223846793005
                      + 1442695040888963407) & (2**64 - 1)
        return self.state >> 48

    def take(self, count):
        return [(sum(self.word() for _ in range(4)) - 131070) / 2**20
                for _ in range(count)]


def pack(dtype, values):
    if dtype == "F32":
        return struct.pack(f"<{len(values)}f", *values)
    if dtype == "F16":
        return struct.pack(f"<{len(values)}e", *values)
    if dtype == "BF16":  # truncated: any rounding will do here
        words = struct.unpack(f"<{len(values)}I", pack("F32", values))
        return struct.pack(f"<{len(values)}H", *[word >> 16 for word in words])
    if dtype == "I64":
        return struct.pack(f"<{len(values)}q", *[int(v * 100) for v in values])
    return bytes(v > 0 for v in values)  # BOOL


def count(shape):
    total = 1
    for size in shape:
        total *= size
    return total


def tensors(rows, dtype, seed):
    """rows: (name, shape) or (name, shape, dtype) -> (name, dtype, shape, data)"""
    values = Values(seed)
    made = []
    for name, shape, *own in rows:
        kind = own[0] if own else dtype
        made.append((name, kind, shape, pack(kind, values.take(count(shape)))))
    return made


def header_of(made, metadata=None):
    header, at = {}, 0
    if metadata:
        header["__metadata__"] = metadata
    for name, dtype, shape, data in made:
        header[name] = {"dtype": dtype, "shape": shape,
                        "data_offsets": [at, at + len(data)]}
        at += len(data)
    return header


def write_raw(path, header_text, data):
    text = header_text.encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def write(path, made, metadata=None):
    write_raw(path, json.dumps(header_of(made, metadata)),
              b"".join(data for *_, data in made))


LAYER = "model.layers.0."
MODEL = [("model.embed_tokens.weight", [64, 32]),
         (LAYER + "self_attn.q_proj.weight", [64, 64]),
         (LAYER + "mlp.down_proj.weight", [48, 64]),
         (LAYER + "mlp.down_proj.bias", [48]),
         (LAYER + "input_layernorm.weight", [64]),
         ("lm_head.weight", [64, 64])]
ODD = [("wide.weight", [7, 172]), ("conv.weight", [5, 7, 9]),
       ("scalar.weight", []), ("empty.weight", [0, 8]), ("vector.weight", [33]),
       ("ids", [4], "I64"), ("mask", [2, 3], "BOOL")]


def write_sharded(folder, rows, shards, index=None):
    os.makedirs(folder)
    made = tensors(rows, "F32", 7)
    names = [f"model-{i + 1:05}-of-{shards:05}.safetensors"
             for i in range(shards)]
    weight_map, total = {}, 0
    for i, name in enumerate(names):
        part = made[i::shards]
        write(os.path.join(folder, name), part, {"format": "pt"})
        total += sum(len(data) for *_, data in part)
        weight_map.update({row[0]: name for row in part})
    text = {"metadata": {"total_size": total}, "weight_map": weight_map}
    if index:
        index(text)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w",
              encoding="utf-8") as file:
        json.dump(text, file, indent=1)


def double_quantized(name):
    """(B5) of docs/FORMAT.md: 4 x 32 weights whose scales are quantized too."""
    state = json.dumps({
        "quant_type": "nf4", "blocksize": 64, "dtype": "float32",
        "shape": [4, 32], "nested_blocksize": 256, "nested_dtype": "float32",
        "nested_offset": 0.01}).encode()
    rows = [("", "U8", [64, 1], 64), (".absmax", "U8", [2], 2),
            (".quant_map", "F32", [16], 64),
            (".nested_absmax", "F32", [1], 4),
            (".nested_quant_map", "F32", [256], 1024)]
    made = [(name + end, dtype, shape, bytes(size))
            for end, dtype, shape, size in rows]
    made.append((name + ".quant_state.bitsandbytes__nf4", "U8",
                 [len(state)], state))
    return made


EVIL = "e\x1b[31mvil.weight"


def write_evil(folder):
    """Names that would command a terminal, wherever a name can show."""
    os.makedirs(folder)

    def path(name):
        return os.path.join(folder, name + ".safetensors")

    # rank 3: bitsandbytes' int8 cannot hold it, and the reason names it
    rows = [("a.weight", [4, 64]), (EVIL, [2, 3, 32])]
    write(path("model"), tensors(rows, "F32", 5))
    write(path("other"), tensors(rows[:1], "F32", 6))
    write(path("double"), double_quantized(EVIL))
    # a description whose encoding has such a name
    text = json.dumps({"version": 1, "encoding": "x\x1b[2Jy", "block": 64,
                       "scale": "F32", "dtype": "F32", "shape": [4, 16]})
    write(path("encoding"),
          tensors([(EVIL, [4, 16])], "BOOL", 5)
          + [(EVIL + ".nabla.format", "U8", [len(text)], text.encode())])
    made = tensors(rows, "F32", 5)
    data = b"".join(row[3] for row in made)
    write_raw(path("truncated"), json.dumps(header_of(made)), data[:-4])
    end = len(made[0][3])
    write_raw(path("overlap"), json.dumps(header_of(made)).replace(
        f"[{end}, {len(data)}]", f"[{end - 4}, {len(data) - 4}]"), data[:-4])


def write_folder(folder):
    """A model as on Hugging Face, with what such folders hold."""
    write_sharded(folder, MODEL, 2)
    files = {
        "config.json": """{
  "architectures": ["LlamaForCausalLM"],
  "rms_norm_eps": 1e-05,
  "time_step_limit": [0.0, Infinity],
  "torch_dtype": "bfloat16"
}
""",
        "tokenizer.json": '{"version": "1.0"}\n',
        "README.md": "# A model\n",
        "pytorch_model.bin": "the same weights",
        "onnx/model.onnx": "the same weights",
        "1_Pooling/config.json": "{}\n",
        ".gitattributes": "* text\n",
    }
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    os.symlink("README.md", os.path.join(folder, "LICENSE"))


def write_large(path):
    """Zeros that take no room on the disk: work that a signal can interrupt."""
    size = 32 << 20
    header = {f"layers.{i}.weight":
              {"dtype": "F32", "shape": [2048, 4096],
               "data_offsets": [i * size, (i + 1) * size]} for i in range(4)}
    write_raw(path, json.dumps(header), b"")
    os.truncate(path, os.path.getsize(path) + 4 * size)


def write_importance(folder):
    """Importances of the columns of q_proj in f32, good and bad."""
    os.makedirs(folder)
    name, width = LAYER + "self_attn.q_proj.weight", 64
    good = [1.0 + i % 4 for i in range(width)]

    def put(case, values, dtype="F32", shape=None, called=name):
        write(os.path.join(folder, case + ".safetensors"),
              [(called, dtype, shape or [len(values)], pack(dtype, values))])

    put("good", good)
    put("short", good[:-1])
    put("rank", good, shape=[1, width])
    put("dtype", good, "F16")
    put("missing", good, called="elsewhere.weight")
    put("nan", good[:5] + [float("nan")] + good[6:])
    put("infinite", good[:-1] + [float("inf")])
    put("negative", [-0.5] + good[1:])
    with open(os.path.join(folder, "text"), "w", encoding="ascii") as file:
        file.write("not a safetensors file, but long enough for a header")


def write_bad(folder):
    os.makedirs(folder)

    def path(name):
        return os.path.join(folder, name + ".safetensors")

    good = tensors([("a.weight", [4, 16]), ("b.weight", [4, 16])], "F32", 3)
    data = b"".join(row[3] for row in good)
    text = json.dumps(header_of(good))
    write_raw(path("truncated"), text, data[:-5])
    write_raw(path("trailing"), text, data + b"!")
    write_raw(path("overlap"), text.replace("[256, 512]", "[128, 384]"),
              data[:384])
    write_raw(path("hole"), text.replace("[256, 512]", "[260, 516]"),
              data + b"1234")
    write_raw(path("wrong_size"), text.replace("[4, 16]", "[4, 17]", 1), data)
    write_raw(path("overflow"),
              text.replace("[4, 16]", "[4294967296, 4294967296, 4]", 1), data)
    write_raw(path("duplicate"), text.replace("b.weight", "a.weight"), data)
    write_raw(path("unknown_dtype"), text.replace('"F32"', '"Q9"', 1), data)
    write_raw(path("not_json"), text.replace("{", "<", 1), data)
    with open(path("long_header"), "wb") as file:
        file.write(struct.pack("<Q", 2**63) + text.encode() + data)
    with open(path("empty"), "wb"):
        pass
    with open(path("short"), "wb") as file:
        file.write(b"\x10\0\0")
    first = MODEL[0][0]
    write_sharded(os.path.join(folder, "missing_shard"), MODEL, 3)
    os.remove(os.path.join(folder, "missing_shard",
                           "model-00002-of-00003.safetensors"))
    write_sharded(os.path.join(folder, "unlisted_tensor"), MODEL, 3,
                  lambda index: index["weight_map"].pop(first))
    write_sharded(os.path.join(folder, "wrong_shard"), MODEL, 3,
                  lambda index: index["weight_map"].update(
                      {first: "model-00002-of-00003.safetensors"}))
    write_sharded(os.path.join(folder, "escape"), MODEL, 3,
                  lambda index: index["weight_map"].update(
                      {first: "../../f32.safetensors"}))


def main():
    folder = sys.argv[1]
    os.makedirs(folder)
    for dtype in ("F32", "BF16", "F16"):
        write(os.path.join(folder, dtype.lower() + ".safetensors"),
              tensors(MODEL, dtype, 1), {"format": "pt", "made": "for tests"})
    write_sharded(os.path.join(folder, "sharded"), MODEL, 3)
    write_folder(os.path.join(folder, "hf"))
    write(os.path.join(folder, "odd.safetensors"), tensors(ODD, "F32", 2))
    write(os.path.join(folder, "grows.safetensors"),
          tensors([("mlp.weight", [64, 64]), ("lora.weight", [32, 4])], "F16",
                  6))
    made = tensors(MODEL, "F32", 1)
    for i, row in enumerate(made):
        if row[0].endswith("down_proj.weight"):
            data = bytearray(row[3])
            data[4 * 70:4 * 71] = struct.pack("<f", float("nan"))
            made[i] = row[:3] + (bytes(data),)
    write(os.path.join(folder, "nan.safetensors"), made)
    write(os.path.join(folder, "names.safetensors"),
          tensors([("a\x1b[31mb\n\u009b\u202e.weight", [8, 32])], "F32", 4),
          {"k\x07": "v\x1b[2J"})
    write_evil(os.path.join(folder, "evil"))
    write_importance(os.path.join(folder, "importance"))
    write(os.path.join(folder, "wide.safetensors"),
          [("x.weight", "F32", [8, 64], pack("F32", [0.5, 1e6] + [0.0] * 510))])
    write(os.path.join(folder, "double.safetensors"),
          double_quantized("x.weight") + tensors([("y", [3])], "F32", 8))
    write(os.path.join(folder, "doubles.safetensors"),
          [part for i in range(13)
           for part in double_quantized(f"x{i:02}.weight")])
    write_large(os.path.join(folder, "large.safetensors"))
    write_bad(os.path.join(folder, "bad"))


if __name__ == "__main__":
    main()
