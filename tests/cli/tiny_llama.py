"""Writes a Llama of two layers into a folder, and the logits that it has after
the first tokens of nabla-bench's text, by a forward pass in plain Python.

usage: tiny_llama.py FOLDER TOKENS LOGITS
Writes FOLDER/model.safetensors, FOLDER/config.json and LOGITS (f32). Standard
library only.
"""
import json
import math
import os
import random
import struct
import sys

HIDDEN, INNER, LAYERS, HEADS, KV, WORDS, EPS, THETA = 32, 64, 2, 4, 2, 48, 1e-5, 1e4
HEAD = HIDDEN // HEADS
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama",
    "hidden_size": HIDDEN, "intermediate_size": INNER,
    "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "num_key_value_heads": KV, "vocab_size": WORDS,
    "max_position_embeddings": 128, "rms_norm_eps": EPS, "rope_theta": THETA,
    "hidden_act": "silu", "tie_word_embeddings": False}


def shapes():
    yield "model.embed_tokens.weight", (WORDS, HIDDEN)
    yield "lm_head.weight", (WORDS, HIDDEN)
    yield "model.norm.weight", (HIDDEN,)
    for i in range(LAYERS):
        at = "model.layers.%d." % i
        yield at + "input_layernorm.weight", (HIDDEN,)
        yield at + "post_attention_layernorm.weight", (HIDDEN,)
        yield at + "self_attn.q_proj.weight", (HIDDEN, HIDDEN)
        yield at + "self_attn.k_proj.weight", (KV * HEAD, HIDDEN)
        yield at + "self_attn.v_proj.weight", (KV * HEAD, HIDDEN)
        yield at + "self_attn.o_proj.weight", (HIDDEN, HIDDEN)
        yield at + "mlp.gate_proj.weight", (INNER, HIDDEN)
        yield at + "mlp.up_proj.weight", (INNER, HIDDEN)
        yield at + "mlp.down_proj.weight", (HIDDEN, INNER)


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def make():
    draw = random.Random(7)
    model = {}
    for name, shape in shapes():
        count = math.prod(shape)
        if len(shape) == 1:
            model[name] = [f32(1 + .1 * draw.gauss(0, 1)) for _ in range(count)]
        else:
            flat = [f32(.08 * draw.gauss(0, 1)) for _ in range(count)]
            model[name] = [flat[i:i + shape[1]] for i in range(0, count, shape[1])]
    return model


def write(model, folder):
    header, data = {}, b""
    for name, shape in shapes():
        flat = model[name]
        if len(shape) == 2:
            flat = [x for row in flat for x in row]
        begin = len(data)
        data += struct.pack("<%df" % len(flat), *flat)
        header[name] = {"dtype": "F32", "shape": list(shape),
                        "data_offsets": [begin, len(data)]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, "model.safetensors"), "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(CONFIG, file)


def times(matrix, x):
    return [sum(a * b for a, b in zip(row, x)) for row in matrix]


def norm(x, by):
    scale = 1 / math.sqrt(sum(v * v for v in x) / len(x) + EPS)
    return [v * scale * w for v, w in zip(x, by)]


def turned(x, position):
    """Each head of a row, its halves turned by the position."""
    out = []
    for at in range(0, len(x), HEAD):
        head, half = x[at:at + HEAD], HEAD // 2
        angles = [position * THETA ** (-2 * i / HEAD) for i in range(half)]
        out += [head[i] * math.cos(a) - head[i + half] * math.sin(a)
                for i, a in enumerate(angles)]
        out += [head[i + half] * math.cos(a) + head[i] * math.sin(a)
                for i, a in enumerate(angles)]
    return out


def attend(query, keys, values):
    out = []
    for h in range(HEADS):
        q, at = query[h * HEAD:(h + 1) * HEAD], h * KV // HEADS * HEAD
        scores = [sum(a * b for a, b in zip(q, k[at:at + HEAD])) / math.sqrt(HEAD)
                  for k in keys]
        most = max(scores)
        weights = [math.exp(s - most) for s in scores]
        out += [sum(w * v[at + i] for w, v in zip(weights, values)) / sum(weights)
                for i in range(HEAD)]
    return out


def logits(model, tokens):
    caches = [([], []) for _ in range(LAYERS)]
    for position, token in enumerate(tokens):
        x = model["model.embed_tokens.weight"][token]
        for i, (keys, values) in enumerate(caches):
            def weight(name, at="model.layers.%d." % i):
                return model[at + name + ".weight"]
            h = norm(x, weight("input_layernorm"))
            keys.append(turned(times(weight("self_attn.k_proj"), h), position))
            values.append(times(weight("self_attn.v_proj"), h))
            query = turned(times(weight("self_attn.q_proj"), h), position)
            y = times(weight("self_attn.o_proj"), attend(query, keys, values))
            x = [a + b for a, b in zip(x, y)]
            h = norm(x, weight("post_attention_layernorm"))
            gate = [g / (1 + math.exp(-g)) for g in times(weight("mlp.gate_proj"), h)]
            y = times(weight("mlp.down_proj"),
                      [g * u for g, u in zip(gate, times(weight("mlp.up_proj"), h))])
            x = [a + b for a, b in zip(x, y)]
    return times(model["lm_head.weight"], norm(x, model["model.norm.weight"]))


def main():
    folder, count, out = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    os.makedirs(folder, exist_ok=True)
    model = make()
    write(model, folder)
    tokens = [(i * 2654435761 >> 8) % WORDS for i in range(count)]
    with open(out, "wb") as file:
        file.write(struct.pack("<%df" % WORDS, *logits(model, tokens)))


main()
