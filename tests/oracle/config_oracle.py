"""Folders through the tool, judged by Python's json and by the rule with which
transformers chooses the modules that bitsandbytes loads.

usage: config_oracle.py TOOL [ROUNDS]

Each round writes a small model with module names that begin or end alike, and
a config.json of random members in a random layout of text, then quantizes it
and decodes the result. config.json must parse to the same as before but for
quantization_config; outside of that member no byte may change; where there is
one, transformers' rule (quantizers_utils.py, should_convert_module) must give
exactly the packed modules; where there is none, the plan must say why. After
decoding it must be what it was. Standard library only.
"""
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile

NAMES = ["lm_head", "score", "embed_tokens", "shared", "a.gate", "a.gate_proj",
         "a.q_proj", "a.b.q_proj", "l.1.up_proj", "l.1.o_proj", "l.10.o_proj",
         "proj", "a.down_proj", "wte", "b.lm_head", "a.fc1",
         "a.experts.1.up_proj"]
KEYS = ["a", "é", "\"q\"", "torch_dtype", "quantization", "_", "\\", "\U0001f600",
        "nested", "dtype"]
failures = 0


def check(good, text):
    global failures
    if not good:
        failures += 1
        print("FAILED: " + text)
    return good


def write_model(path, chance):
    """A file of F32 matrices, none too small to pack (and a vector); returns the names of matrices."""
    names = chance.sample(NAMES, chance.randint(1, 6))
    shapes = {name + ".weight": [8 * chance.randint(1, 5), 32] for name in names}
    if chance.random() < .2:
        shapes["conv.weight"] = [8, 2, 32]
    shapes["a.norm.bias"] = [7]
    header, data = {}, b""
    for name, shape in shapes.items():
        count = 1
        for size in shape:
            count *= size
        values = [chance.uniform(-1, 1) for _ in range(count)]
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + 4 * count]}
        data += struct.pack("<%df" % count, *values)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    return names


def random_value(chance, depth=0):
    kind = chance.randrange(8 if depth < 3 else 6)
    if kind == 6:
        return [random_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    if kind == 7:
        return {key: random_value(chance, depth + 1)
                for key in chance.sample(KEYS + ["quantization_config"],
                                         chance.randrange(4))}
    return [None, True, -0.0, 1e-05, "text \"x\" \n \u20ac",
            float("inf")][kind]


def random_text(chance):
    """(text, value) of a config.json."""
    value = {key: random_value(chance)
             for key in chance.sample(KEYS, chance.randrange(len(KEYS)))}
    if chance.random() < .5:
        value["torch_dtype"] = chance.choice(
            ["float16", "bfloat16", "float32", "float64", None])
    if chance.random() < .9:
        value["architectures"] = ["LlamaForCausalLM"]
    if chance.random() < .3:
        items = list(value.items())
        items.insert(chance.randint(0, len(items)), (
            "quantization_config", chance.choice([None, {
                "quant_method": "bitsandbytes", "load_in_4bit": True,
                "old": random_value(chance)}])))
        value = dict(items)
    text = json.dumps(value, indent=chance.choice([None, 0, 1, 2, 4, "\t"]),
                      ensure_ascii=chance.random() < .5,
                      separators=chance.choice([None, (",", ":"), (" , ", " : ")]))
    if chance.random() < .3:
        text = text.replace("\n", "\r\n")
    return text + chance.choice(["", "\n", " \r\n\t"]), value


def stored(folder):
    """The packed modules, their encodings, and the layout, from the headers."""
    packed, encodings, layout = set(), set(), "dense"
    for name in os.listdir(folder):
        if not name.endswith(".safetensors"):
            continue
        with open(os.path.join(folder, name), "rb") as file:
            size, = struct.unpack("<Q", file.read(8))
            header = json.loads(file.read(size))
        layout = header.get("__metadata__", {}).get("nabla.layout", layout)
        for tensor in header:
            module = re.sub(r"\.weight$", "", tensor)
            found = [name for name in ("nf4", "fp4") if
                     tensor + ".quant_state.bitsandbytes__" + name in header]
            if module != tensor and module + ".SCB" in header:
                found.append("int8")
            encodings.update(found)
            if found or tensor + ".nabla.format" in header:
                packed.add(module)
    return packed, encodings, layout


def is_converted(name, patterns):
    """transformers, quantizers_utils.py, should_convert_module."""
    return not any(re.match(key + r"\.", name) or re.match(key, name)
                   or name.endswith(key) for key in patterns)


def without(text, key):
    """The text less the value of its top-level member, by json's own parser."""
    decoder = json.JSONDecoder()
    at = [match.end() for match in re.finditer(
        '"' + key + r'"\s*:\s*', text)]
    for start in at:
        _, end = decoder.raw_decode(text, start)
        rest = json.loads(text[:start] + '"here"' + text[end:])
        if rest.get(key) == "here":
            return text[:start], text[end:]
    return None


def run(tool, *arguments):
    return subprocess.run([tool, *arguments, "-j1"], capture_output=True,
                          text=True, check=False)


def check_value(label, config, before, folder, modules):
    """The inserted value against what is stored."""
    value = config["quantization_config"]
    packed, encodings, layout = stored(folder)
    if not check(len(encodings) == 1, label + ": %s" % encodings):
        return
    encoding, = encodings
    wide = encoding == "int8"
    dtype = [v for v in (before.get("dtype"), before.get("torch_dtype"))
             if v in ("float16", "bfloat16", "float32")]
    check(layout == "bitsandbytes", label + ": the layout is " + layout)
    check(value["quant_method"] == "bitsandbytes"
          and value["load_in_4bit"] is value["_load_in_4bit"] is (not wide)
          and value["load_in_8bit"] is value["_load_in_8bit"] is wide
          and value["bnb_4bit_quant_type"] == ("fp4" if wide else encoding)
          and value["bnb_4bit_compute_dtype"] in dtype + ["float32"]
          and value["bnb_4bit_use_double_quant"] is False
          and value["llm_int8_threshold"] == 6.0, label + ": %s" % value)
    skip = value["llm_int8_skip_modules"]
    check(skip is None or skip == sorted(skip), label + ": not sorted")
    # without a list the output head alone is skipped
    patterns = ["lm_head"] if skip is None else skip
    converted = {name for name in modules if is_converted(name, patterns)}
    check(converted == packed, "%s: transformers takes %s, stored are %s" %
          (label, sorted(converted), sorted(packed)))


def one_round(tool, chance, number, counts):
    with tempfile.TemporaryDirectory() as base:
        source, packed, back = (os.path.join(base, n) for n in ("in", "q", "d"))
        os.mkdir(source)
        modules = set(write_model(os.path.join(source, "model.safetensors"), chance))
        text, before = random_text(chance)
        with open(os.path.join(source, "config.json"), "w", newline="",
                  encoding="utf-8") as file:
            file.write(text)
        encoding = chance.choice(["nf4", "fp4", "int8"])
        rules = [argument for name in chance.sample(sorted(modules), chance.randrange(
            min(3, len(modules) + 1))) for argument in (
                "--rule", "^%s.weight=%s" % (name, chance.choice(
                    ["none", encoding, encoding, "nf4"])))]
        label = "round %d, %s" % (number, encoding)
        result = run(tool, "quantize", source, "-o", packed, "-e", encoding,
                     "--block" if encoding != "int8" else "-q", *(
                         ["32"] if encoding != "int8" else []), *rules)
        if not check(result.returncode == 0, label + ": " + result.stderr):
            return
        with open(os.path.join(packed, "config.json"), newline="",
                  encoding="utf-8") as file:
            after_text = file.read()
        after = json.loads(after_text)
        check([k for k in after if k != "quantization_config"] ==
              [k for k in before if k != "quantization_config"]
              and all(repr(after[k]) == repr(before[k]) for k in before
                      if k != "quantization_config"), label + ": other members")
        if isinstance(after.get("quantization_config"), dict) and after.get(
                "quantization_config") != before.get("quantization_config"):
            counts["put in"] += 1
            check_value(label, after, before, packed, modules)
            old, new = (without(t, "quantization_config") for t in (text, after_text))
            if old is not None:
                check(old == new, label + ": other bytes")
            else:
                head, tail = new
                body = head[:re.search(r'"quantization_config"\s*:\s*$',
                                       head).start()].rstrip()
                check(text == (body[:-1] if body.endswith(",") else body) + tail,
                      label + ": other bytes")
        elif "quantization_config" in before and "quantization_config" not in after:
            counts["taken out"] += 1
        else:
            counts["kept"] += 1
            check(after_text == text, label + ": other bytes")
        verified = run(tool, "verify", packed)
        check(verified.returncode == 0 or after.get("quantization_config") ==
              before.get("quantization_config", 0), label + ": " + verified.stderr)
        result = run(tool, "dequantize", packed, "-o", back, "-q")
        if not check(result.returncode == 0, label + ": " + result.stderr):
            return
        with open(os.path.join(back, "config.json"), newline="",
                  encoding="utf-8") as file:
            back_text = file.read()
        if "quantization_config" not in before:
            check(back_text == text, label + ": there and back")


def main():
    tool = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 150
    chance = random.Random(4)
    counts = {"put in": 0, "taken out": 0, "kept": 0}
    for number in range(rounds):
        one_round(tool, chance, number, counts)
    print("%s; %d failures" % (counts, failures))
    print("figure: configs_compared %d" % rounds)
    check(all(counts.values()), "a kind that never occurs")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
