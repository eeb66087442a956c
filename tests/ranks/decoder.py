"""decoder.py MPI BIN DECODE SOURCE: 200 greedy tokens of stories260K, dense and
packed in nf4, on 2 and 4 processes are those of the program that is not divided
and of ranks of threads. The same of a decoder of made-up weights of which every
matrix is divided: each process holds its share of weights and caches, by the count
of its session and by resident memory, and 2 % of the whole at most."""

import json
import os
import re
import shutil
import struct
import subprocess
import sys

import launch

SHARDS = ["--shard", '*.q_proj.weight=[{"model"}, {}]',
          "--shard", '*.gate_proj.weight=[{"model"}, {}]']
EVERY = SHARDS + ["--shard", '*embed_tokens.weight=[{"model"}, {}]',
                  "--shard", 'lm_head.weight=[{"model"}, {}]']
MADE_UP = dict(
    architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=1024,
    intermediate_size=2816, num_hidden_layers=4, num_attention_heads=16,
    num_key_value_heads=8, vocab_size=512, max_position_embeddings=512,
    rms_norm_eps=1e-5, rope_theta=10000.0, hidden_act="silu",
    tie_word_embeddings=False)


def tokens(report, what, code, out, errors):
    lines = out.splitlines()
    report.check(code == 0 and len(lines) == 1 and len(lines[0].split()) == 201,
                 "%s: %s %s" % (what, code, errors))
    return lines


def make_up(folder):
    """Writes MADE_UP to a folder: 190 MiB of f32."""
    import numpy
    random = numpy.random.default_rng(1)
    h, wide = MADE_UP["hidden_size"], MADE_UP["intermediate_size"]
    shapes = {"model.embed_tokens.weight": (512, h), "lm_head.weight": (512, h),
              "model.norm.weight": (h,)}
    for layer in range(MADE_UP["num_hidden_layers"]):
        at = "model.layers.%d." % layer
        shapes.update({
            at + "input_layernorm.weight": (h,),
            at + "post_attention_layernorm.weight": (h,),
            at + "self_attn.q_proj.weight": (h, h),
            at + "self_attn.k_proj.weight": (h // 2, h),
            at + "self_attn.v_proj.weight": (h // 2, h),
            at + "self_attn.o_proj.weight": (h, h),
            at + "mlp.gate_proj.weight": (wide, h),
            at + "mlp.up_proj.weight": (wide, h),
            at + "mlp.down_proj.weight": (h, wide)})
    header, end = {}, 0
    for name, shape in shapes.items():
        bytes_ = 4 * int(numpy.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [end, end + bytes_]}
        end += bytes_
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path = os.path.join(folder, "model.safetensors")
    with open(path, "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for shape in shapes.values():
            out.write((random.standard_normal(shape, dtype="float32") * 0.05
                       if len(shape) > 1
                       else numpy.ones(shape, "float32")).tobytes())
        # What was just written is cached in pages of 2 MiB, of which each
        # counts as resident with the neighbours of a piece.
        out.flush()
        os.fsync(out.fileno())
        os.posix_fadvise(out.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    with open(os.path.join(folder, "config.json"), "w") as out:
        json.dump(MADE_UP, out)
    return path


def held(errors):
    """Of each rank: bytes of weights and states, and resident ones."""
    found = re.findall(r"rank \d+: pieces \d+ states (\d+) weights (\d+) "
                       r"other \d+ resident (\d+)", errors)
    return [(int(states) + int(weights), int(resident))
            for states, weights, resident in found]


def check(report, arguments, folder, model, shards=SHARDS, is_even=False):
    mpi, tools, decode = arguments

    def run(*command):
        return subprocess.run(command, cwd=folder, check=True,
                              capture_output=True, text=True)

    run(os.path.join(tools, "llama"), model, "--ids", "1", "-n", "1", "--text",
        "decoder.mlir")
    compiled = os.path.join(tools, "nabla-compile")
    run(compiled, "decoder.mlir", "-o", "d1.so")
    done = run(decode, "threads", "1", "d1.so", model)
    want = tokens(report, "one rank", 0, done.stdout, done.stderr)
    whole = held(done.stderr)[0][0]
    for ranks in 2, 4:
        name = "d%d.so" % ranks
        run(compiled, "decoder.mlir", "--mesh", "model=%d" % ranks, "-o", name,
            *shards)
        done = run(decode, "threads", str(ranks), name, model)
        got = tokens(report, "threads", 0, done.stdout, done.stderr)
        report.check(got == want, "%d threads: other tokens" % ranks)
        code, out, errors = launch.run(
            mpi, ranks, [decode, "mpi", name, model], folder)
        got = tokens(report, mpi, code, out, errors)
        report.check(got == want, "%d processes: other tokens" % ranks)
        got = launch.run(mpi, ranks, [
            os.path.join(tools, "llama"), model, "--ids", "1", "-n", "200",
            "--mesh", "model=%d" % ranks], folder)
        report.check(got[0] == 0 and got[1].split() == want[0].split(),
                     "llama --mesh, %d processes: %s" % (ranks, got))
        if not is_even:
            continue
        most = whole * (1 / ranks + 0.02)
        shares = held(errors)
        report.check(len(shares) == ranks and
                     all(max(share) <= most for share in shares),
                     "%d processes: %s bytes, more than %d of %d" % (
                         ranks, shares, most, whole))


def main():
    report = launch.Report()
    arguments, source = sys.argv[1:4], sys.argv[4]
    launch.require(report, arguments[0])
    with launch.Folder() as folder:
        check(report, arguments, folder.path, make_up(folder.path), EVERY, True)
    models = os.environ.get("NABLA_MODELS",
                            os.path.join(source, "..", "shared", "models"))
    dense = os.path.join(models, "stories260K", "stories260K-f32.safetensors")
    if not os.path.exists(dense):
        report.skip("stories260K", "not in $NABLA_MODELS")
        return report.finish()
    with launch.Folder() as folder:
        check(report, arguments, folder.path, dense)
        packed = os.path.join(folder.path, "packed.safetensors")
        subprocess.run([os.path.join(arguments[1], "nabla-quant"), "quantize",
                        dense, "-o", packed, "-e", "nf4", "--only",
                        "_proj|lm_head|embed_tokens"],
                       check=True, capture_output=True)
        shutil.copy(os.path.join(os.path.dirname(dense), "config.json"),
                    folder.path)
        check(report, arguments, folder.path, packed)
    return report.finish()


sys.exit(main())
