"""Writes a Llama from safetensors and config.json as a GGUF file for llama.cpp,
all matrices in one of the package gguf's types, without a tokenizer.

usage: nabla-peer-write-gguf MODEL TYPE OUT.gguf
MODEL is a folder, TYPE as q4_0, q8_0, f16 or f32. scripts/peers installs it.
Prints "ready BYTES gguf", or "no REASON".
"""
import json
import os
import sys

import gguf
import numpy as np

LAYER = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
WHOLE = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def refuse(why):
    print("no " + why)
    sys.exit(0)


def values(data, dtype, shape):
    if dtype == "BF16":
        wide = np.frombuffer(data, "<u2").astype(np.uint32) << 16
        return wide.view(np.float32).reshape(shape)
    if dtype not in ("F16", "F32"):
        refuse("tensors of " + dtype)
    return np.frombuffer(data, "<f" + ("2" if dtype == "F16" else "4")).astype(
        np.float32).reshape(shape)


def tensors(folder):
    """Names and values of all tensors, one at a time."""
    names = sorted(n for n in os.listdir(folder) if n.endswith(".safetensors"))
    if not names:
        refuse("no .safetensors in " + folder)
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(size))
            header.pop("__metadata__", None)
            for key, tensor in header.items():
                begin, end = tensor["data_offsets"]
                file.seek(8 + size + begin)
                yield key, values(file.read(end - begin), tensor["dtype"],
                                  tensor["shape"])


def interleaved(matrix, heads):
    """Rows of q or k as GGUF files have them: llama.cpp turns neighbours."""
    rows = matrix.shape[0]
    return matrix.reshape(heads, 2, rows // heads // 2, -1).swapaxes(
        1, 2).reshape(matrix.shape)


def place(key, value, config):
    """The name in the file, and the values there."""
    if key in WHOLE:
        return WHOLE[key], value
    parts = key.split(".")
    part = LAYER.get(".".join(parts[3:-1]))
    if parts[:2] != ["model", "layers"] or parts[-1] != "weight" or not part:
        refuse("a tensor that a Llama does not have: " + key)
    heads = config["num_attention_heads"]
    if part == "attn_q":
        value = interleaved(value, heads)
    elif part == "attn_k":
        value = interleaved(value, config.get("num_key_value_heads", heads))
    return "blk.%s.%s.weight" % (parts[2], part), value


def add_sizes(writer, config):
    heads = config["num_attention_heads"]
    head = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_context_length(config.get("max_position_embeddings", 2048))
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads", heads))
    writer.add_key_length(head)
    writer.add_value_length(head)
    writer.add_rope_dimension_count(head)
    writer.add_rope_freq_base(config.get("rope_theta", 10000.0))
    writer.add_layer_norm_rms_eps(config.get("rms_norm_eps", 1e-6))
    writer.add_vocab_size(config["vocab_size"])
    writer.add_tokenizer_model("none")


def main():
    if len(sys.argv) != 4:
        sys.exit("usage: nabla-peer-write-gguf MODEL TYPE OUT.gguf")
    folder, name, out = sys.argv[1:]
    kind = getattr(gguf.GGMLQuantizationType, name.upper(), None)
    if kind is None:
        refuse("no type " + name)
    with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    writer = gguf.GGUFWriter(out + ".new", "llama")
    add_sizes(writer, config)
    for key, value in tensors(folder):
        key, value = place(key, value, config)
        if value.ndim == 1:
            writer.add_tensor(key, np.ascontiguousarray(value))
            continue
        try:
            data = gguf.quants.quantize(np.ascontiguousarray(value), kind)
        except (NotImplementedError, gguf.quants.QuantError) as problem:
            refuse("%s as %s: %s" % (key, name, problem))
        writer.add_tensor(key, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(out + ".new", out)
    print("ready %d gguf" % os.path.getsize(out))


main()
