"""Writes a random Llama in both forms, with the same weights: OUT/model.bin, as
llama2.c's run.c reads it, and OUT/model.safetensors with OUT/config.json, which
nabla_decoder_write reads. OUT/tokenizer.bin has letters and their combinations.

  make_checkpoint.py OUT [DIM HIDDEN LAYERS HEADS KV_HEADS VOCABULARY CONTEXT]
"""

import json
import pathlib
import struct
import sys

import numpy as np


def half_rotation(rows, heads):
    """Pairs of neighbouring rows, which llama2.c rotates, to the two halves of a
    head, which Hugging Face rotates."""
    size = rows.shape[0] // heads
    return rows.reshape(heads, size // 2, 2, -1).swapaxes(1, 2).reshape(
        rows.shape)


def pieces_of(count):
    """Special pieces, bytes, a space, then a, b, ... z, aa, ba, ..."""
    pieces = [b"<unk>", b"\n<s>\n", b"\n</s>\n"]
    pieces += [b"<0x%02X>" % byte for byte in range(256)] + [b" "]
    for index in range(count - len(pieces)):
        piece = b""
        while index >= 0:
            piece += bytes([97 + index % 26])
            index = index // 26 - 1
        pieces.append(piece)
    return pieces[:count]


def main():
    out = pathlib.Path(sys.argv[1])
    sizes = [int(text) for text in sys.argv[2:]] or [
        1024, 2816, 16, 16, 16, 32000, 512]
    dim, hidden, layers, heads, kv_heads, vocabulary, context = sizes
    kv_dim = dim * kv_heads // heads
    random = np.random.default_rng(1)

    def matrix(rows, columns):
        return random.standard_normal((rows, columns), np.float32) * np.float32(
            .7 / np.sqrt(columns))

    names = (("self_attn.q_proj", dim, dim), ("self_attn.k_proj", kv_dim, dim),
             ("self_attn.v_proj", kv_dim, dim), ("self_attn.o_proj", dim, dim),
             ("mlp.gate_proj", hidden, dim), ("mlp.down_proj", dim, hidden),
             ("mlp.up_proj", hidden, dim))
    embedding = matrix(vocabulary, dim)
    weights = {name: [matrix(rows, columns) for _ in range(layers)]
               for name, rows, columns in names}
    ones = np.ones(dim, np.float32)
    out.mkdir(parents=True, exist_ok=True)
    with open(out / "model.bin", "wb") as file:
        file.write(struct.pack("<7i", *sizes))
        file.write(embedding.tobytes())
        for name, _, _ in names:
            if name in ("self_attn.q_proj", "mlp.gate_proj"):
                file.write(ones.tobytes() * layers)  # norms
            for values in weights[name]:
                file.write(values.tobytes())
        file.write(ones.tobytes())
        file.write(bytes(4 * context * (dim // heads)))
    tensors = {"model.embed_tokens.weight": embedding, "model.norm.weight": ones}
    for layer in range(layers):
        prefix = "model.layers.%d." % layer
        for norm in ("input_layernorm", "post_attention_layernorm"):
            tensors[prefix + norm + ".weight"] = ones
        for name, _, _ in names:
            values = weights[name][layer]
            count = {"self_attn.q_proj": heads,
                     "self_attn.k_proj": kv_heads}.get(name)
            tensors[prefix + name + ".weight"] = (
                half_rotation(values, count) if count else values)
    header, offset = {}, 0
    for name, values in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(values.shape),
                        "data_offsets": [offset, offset + values.nbytes]}
        offset += values.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for values in tensors.values():
            file.write(np.ascontiguousarray(values).tobytes())
    (out / "config.json").write_text(json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama",
        "hidden_size": dim, "intermediate_size": hidden,
        "num_hidden_layers": layers, "num_attention_heads": heads,
        "num_key_value_heads": kv_heads, "vocab_size": vocabulary,
        "max_position_embeddings": context, "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0, "tie_word_embeddings": True,
        "hidden_act": "silu", "torch_dtype": "float32"}), encoding="utf-8")
    with open(out / "tokenizer.bin", "wb") as file:
        pieces = pieces_of(vocabulary)
        file.write(struct.pack("<i", max(map(len, pieces))))
        for index, piece in enumerate(pieces):
            file.write(struct.pack("<fi", -float(index), len(piece)) + piece)


if __name__ == "__main__":
    main()
