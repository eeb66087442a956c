#!/usr/bin/env python3
"""Perplexity of a small language model by encoding: perplexity.py NABLA_QUANT

Quantizes stories260K with each row of settings, decodes the result, and runs
it in numpy in float64 over a text that the dense model wrote: SEQUENCES
sequences of LENGTH tokens, sampled at temperature 1 with a fixed seed. Prints
a table: bits a weight, relative RMSE of the packed weights, perplexity of the
text, and the mean divergence (Kullback-Leibler, nats a token) of the dense
model's distribution of the next token from the packed model's. The dense
model's perplexity on its own text is the exponential of its entropy. The
divergence is what packing adds to the logarithm of the perplexity, without the
noise of the text.

The model is looked for in $NABLA_MODELS, or in ../shared/models beside the
source folder. Exits 77 without it. Needs numpy.
"""
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../tests/execution"))
import harness  # noqa: E402  (of the tests: files, models, numpy)

np = harness.np
FILE = "stories260K/stories260K-f32.safetensors"
BLOCKS, HEADS, SHARED, WIDTH, VOCABULARY = 5, 8, 4, 8, 512
EPS = float(np.float32(1e-5))
BEGIN, SEQUENCES, LENGTH, SEED = 1, 32, 256, 17
TABLE = "model.embed_tokens.weight"
# settings of nabla-quant: bits of codes and scales for each weight
ROWS = {
    "-e nf4": 4 + 32 / 64,
    "-e fp4": 4 + 32 / 64,
    "-e mxfp4": 4 + 8 / 32,
    "-e mxfp4 --search": 4 + 8 / 32,
    "-e nf4 --scale dynamic8 --search": 4 + 8 / 64 + 32 / 64 / 256,
    "--preset small": 4 + 8 / 32 + 32 / 32 / 256,
    "-e int4 --block 32 --scale f16": 4 + 16 / 32,
    "-e int4 --block 32 --scale f16 --search": 4 + 16 / 32,
    "--preset balanced": 4 + 8 / 16 + 32 / 16 / 256,
    "-e fp8": 8 + 32 / 64,
    "-e int8 --block 64": 8 + 32 / 64,
    "--preset best": 8 + 16 / 32,
}


class Model:
    """The forward pass in float64; keys and values of earlier tokens are kept
    between calls."""

    def __init__(self, path):
        self.w = {name: w.astype(np.float64)
                  for name, w in harness.read_safetensors(path).items()}
        self.past = {}

    def norm(self, x, name):
        square = (x * x).mean(axis=-1, keepdims=True) + EPS
        return x / np.sqrt(square) * self.w[name]

    def heads(self, x, name, count):
        y = x @ self.w[name].T
        return y.reshape(*x.shape[:2], count, WIDTH).transpose(0, 2, 1, 3)

    def rope(self, x, start):
        half = WIDTH // 2
        at = np.arange(start, start + x.shape[2])[:, None]
        angle = at * 10000.0 ** (-2 * np.arange(half) / WIDTH)
        c, s = np.cos(angle), np.sin(angle)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * c - b * s, a * s + b * c], -1)

    def attention(self, x, name):
        before = self.past.get(name)
        start = before[0].shape[2] if before else 0
        q = self.rope(self.heads(x, name + "q_proj.weight", HEADS), start)
        k = self.rope(self.heads(x, name + "k_proj.weight", SHARED), start)
        v = self.heads(x, name + "v_proj.weight", SHARED)
        if before:
            k, v = (np.concatenate(pair, 2) for pair in zip(before, (k, v)))
        self.past[name] = k, v
        k, v = (np.repeat(a, HEADS // SHARED, 1) for a in (k, v))
        scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(WIDTH)
        seen = np.tri(x.shape[1], k.shape[2], start, dtype=bool)
        p = np.exp(np.where(seen, scores, -np.inf)
                   - scores.max(axis=-1, keepdims=True))
        y = p / p.sum(axis=-1, keepdims=True) @ v
        return (y.transpose(0, 2, 1, 3).reshape(x.shape)
                @ self.w[name + "o_proj.weight"].T)

    def run(self, tokens):
        """Logarithms of the probabilities of what follows each token."""
        x = self.w[TABLE][tokens]
        for number in range(BLOCKS):
            name = "model.layers.%d." % number
            x = x + self.attention(self.norm(x, name + "input_layernorm.weight"),
                                   name + "self_attn.")
            h = self.norm(x, name + "post_attention_layernorm.weight")
            gate, up, down = (self.w["%smlp.%s_proj.weight" % (name, kind)]
                              for kind in ("gate", "up", "down"))
            g = h @ gate.T
            x = x + (g / (1 + np.exp(-g)) * (h @ up.T)) @ down.T
        y = self.norm(x, "model.norm.weight") @ self.w[TABLE].T
        y -= y.max(axis=-1, keepdims=True)
        return y - np.log(np.exp(y).sum(axis=-1, keepdims=True))


def write_text(model):
    """SEQUENCES x (1 + LENGTH) tokens that `model` sampled."""
    rng = np.random.default_rng(SEED)
    tokens = np.full((SEQUENCES, 1), BEGIN)
    for _ in range(LENGTH):
        p = np.exp(model.run(tokens[:, -1:])[:, 0]).cumsum(axis=-1)
        new = (p < rng.random((SEQUENCES, 1)) * p[:, -1:]).sum(axis=-1)
        tokens = np.concatenate([tokens, new[:, None]], 1)
    return tokens


def tool(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        raise SystemExit("FAILED: %s: %s" % (" ".join(arguments), done.stderr))


def measure(program, source, settings, dense, text, want, folder):
    """(relative RMSE, perplexity, divergence)."""
    packed, back = (os.path.join(folder, name + ".safetensors")
                    for name in ("packed", "back"))
    tool(program, "quantize", source, "-o", packed, "--force", "--quiet",
         *settings.split())
    tool(program, "dequantize", packed, "-o", back, "--force", "--quiet",
         "--dtype", "f32")
    model = Model(back)
    names = [name for name in dense.w
             if not np.array_equal(dense.w[name], model.w[name])]
    if settings != "-e none" and len(names) != 7 * BLOCKS:
        raise SystemExit("FAILED: %s packs %d weights" % (settings, len(names)))
    error = sum(((dense.w[n] - model.w[n]) ** 2).sum() for n in names)
    power = sum((dense.w[n] ** 2).sum() for n in names) or 1
    got = model.run(text[:, :-1])
    loss = -np.take_along_axis(got, text[:, 1:, None], -1).mean()
    apart = (np.exp(want) * (want - got)).sum(axis=-1).mean()
    return np.sqrt(error / power), np.exp(loss), apart


def main():
    source = harness.find_model(os.path.join(HERE, ".."), FILE)
    text = write_text(Model(source))
    dense = Model(source)
    want = dense.run(text[:, :-1])
    print("| settings | bits a weight | error | perplexity | divergence |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for settings, bits in {"-e none": 32, **ROWS}.items():
            print("| `%s` | %.2f | %.4f | %.3f | %.4f |" % (
                settings, bits, *measure(sys.argv[1], source, settings, dense,
                                         text, want, folder)), flush=True)


if __name__ == "__main__":
    main()
