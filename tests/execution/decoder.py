"""A Llama decoder, written with composites, with the weights of stories260K:
one block, and the whole model of five, which is compiled as one block that is
called. The dense program is made packed by nabla-implicitize; packed weights
(nf4, int8) give what the dense run of the decoded weights gives, both within
the bound of a float64 forward pass in numpy, and nothing is materialized. The
whole dense model goes on as the text that the model is known by.

usage: decoder.py NABLA_RUN NABLA_QUANT NABLA_OPT SOURCE_FOLDER
The model is looked for in $NABLA_MODELS, or in ../shared/models beside the
source folder. Exits 77, which ctest shows as skipped, without it.
"""
import subprocess
import sys

import harness
from harness import np, Function, close
import formats
from arrays import chain

f32, f64 = np.float32, np.float64
FILE = "stories260K/stories260K-f32.safetensors"
DIM, HIDDEN, HEADS, SHARED, VOCABULARY = 64, 172, 8, 4, 512
WIDTH = DIM // HEADS
UNIT = 2.0 ** -24
EPS = float(f32(1e-5))
MATRICES = {"q_proj": (DIM, DIM), "k_proj": (SHARED * WIDTH, DIM),
            "v_proj": (SHARED * WIDTH, DIM), "o_proj": (DIM, DIM),
            "gate_proj": (HIDDEN, DIM), "up_proj": (HIDDEN, DIM),
            "down_proj": (DIM, HIDDEN)}
PACKED = "(embed_tokens|_proj).weight"
# Beginning of sequence; then "Once upon a time, there was a little girl named"
BEGIN = 1


def tool(*command):
    done = subprocess.run(command, capture_output=True)
    if done.returncode:
        raise SystemExit("FAILED: %s: %s" % (command, done.stderr.decode()))


# ---- the program -------------------------------------------------------------


class Decoder(Function):
    """@main(tokens, positions, weights...): the hidden state, and the logits."""

    def __init__(self, path, blocks):
        super().__init__("main")
        self.path = path
        self.weights = {}  # of matrices: name of the tensor, of the argument
        self.tokens, _ = self.argument(np.zeros(0, np.int64), [0])
        self.positions, _ = self.argument(np.zeros(0, np.int64), [0])
        zero = self.op("arith.constant 0 : index")
        self.size = self.op("tensor.dim %s, %s : tensor<?xi64>" % (self.tokens,
                                                                   zero))
        table = self.weight("model.embed_tokens.weight", (VOCABULARY, DIM))
        x = self.op("nabla.gather %s, %s offset_dims = [1] collapsed_dims = [0] "
                    "index_map = [0] vector_dim = 1 sizes = [1, %d] : "
                    "tensor<%dx%dxf32>, tensor<?xi64>" % (
                        table, self.tokens, DIM, VOCABULARY, DIM))
        for number in range(blocks):
            x = self.block(x, "model.layers.%d." % number)
        x = self.norm(x, "model.norm.weight")
        y = self.op("nabla.linear %s, %s : tensor<?x%dxf32>, tensor<%dx%dxf32>"
                    % (x, table, DIM, VOCABULARY, DIM))
        self.give(x, "tensor<?x%dxf32>" % DIM, None)
        self.give(y, "tensor<?x%dxf32>" % VOCABULARY, None)

    def weight(self, name, shape):
        value = self.bound("tensor<%sxf32>" % "x".join(map(str, shape)),
                           self.path, name)
        if len(shape) == 2:
            self.weights[name] = value[1:]
        return value

    def norm(self, x, name):
        return self.op("nabla.rms_norm %s, %s eps = 1.0e-05 : tensor<?x%dxf32>, "
                       "tensor<%dxf32>" % (x, self.weight(name, (DIM,)), DIM,
                                           DIM))

    def linear(self, x, name, kind):
        n, k = MATRICES[kind]
        return self.op("nabla.linear %s, %s : tensor<?x%dxf32>, tensor<%dx%dxf32>"
                       % (x, self.weight(name + kind + ".weight", (n, k)), k, n,
                          k))

    def heads(self, x, count):
        """Positions x columns as heads x positions x width."""
        x = self.op("nabla.reshape %s sizes(%s) : tensor<?x%dxf32> -> "
                    "tensor<?x%dx%dxf32>" % (x, self.size, count * WIDTH, count,
                                             WIDTH))
        return self.op("nabla.transpose %s permutation = [1, 0, 2] : "
                       "tensor<?x%dx%dxf32>" % (x, count, WIDTH))

    def rope(self, x, count):
        return self.op("nabla.rope halves %s, %s dim = 1 : tensor<%dx?x%dxf32>, "
                       "tensor<?xi64>" % (x, self.positions, count, WIDTH))

    def pair(self, op, x, y, width):
        kind = "tensor<?x%dxf32>" % width
        return self.op("nabla.%s %s, %s : %s, %s" % (op, x, y, kind, kind))

    def block(self, x, name):
        h = self.norm(x, name + "input_layernorm.weight")
        q, k, v = (self.heads(self.linear(h, name + "self_attn.", kind), count)
                   for kind, count in (("q_proj", HEADS), ("k_proj", SHARED),
                                       ("v_proj", SHARED)))
        many, few = ("tensor<%dx?x%dxf32>" % (n, WIDTH) for n in (HEADS,
                                                                  SHARED))
        y = self.op("nabla.attention %s, %s, %s causal : %s, %s, %s" % (
            self.rope(q, HEADS), self.rope(k, SHARED), v, many, few, few))
        y = self.op("nabla.transpose %s permutation = [1, 0, 2] : %s" % (y, many))
        y = self.op("nabla.reshape %s sizes(%s) : tensor<?x%dx%dxf32> -> "
                    "tensor<?x%dxf32>" % (y, self.size, HEADS, WIDTH, DIM))
        x = self.pair("add", x, self.linear(y, name + "self_attn.", "o_proj"),
                      DIM)
        h = self.norm(x, name + "post_attention_layernorm.weight")
        g = self.linear(h, name + "mlp.", "gate_proj")
        g = self.op("nabla.silu %s : tensor<?x%dxf32>" % (g, HIDDEN))
        u = self.linear(h, name + "mlp.", "up_proj")
        y = self.linear(self.pair("mul", g, u, HIDDEN), name + "mlp.",
                        "down_proj")
        return self.pair("add", x, y, DIM)


# ---- the reference -----------------------------------------------------------


class Reference:
    """The forward pass in f64. With `rng` each product is off by its bound, and
    everything else by 16 roundings of f32, each element up or down."""

    def __init__(self, weights, rng=None):
        self.w = {name: w.astype(f64) for name, w in weights.items()}
        self.rng = rng

    def off(self, x, bound):
        if self.rng is None:
            return x
        return x + self.rng.choice([-1.0, 1.0], x.shape) * bound

    def rounded(self, x):
        return self.off(x, 16 * UNIT * np.abs(x))

    def linear(self, x, name):
        w = self.w[name + ".weight"]
        k = w.shape[1]
        bound = (chain(k, len(x)) + 16) * UNIT * (np.abs(x) @ np.abs(w).T)
        return self.off(x @ w.T, np.maximum(bound, (k + 16) * UNIT * (
            np.abs(x) @ np.abs(w).T)))

    def norm(self, x, name):
        square = (x * x).mean(axis=1, keepdims=True) + EPS
        return self.rounded(x / np.sqrt(square) * self.w[name])

    def heads(self, x, name, count):
        y = self.linear(x, name)
        return y.reshape(len(x), count, WIDTH).transpose(1, 0, 2)

    def rope(self, x):
        half = WIDTH // 2
        i = np.arange(half)
        angle = np.arange(x.shape[1])[:, None] * 10000.0 ** (-2 * i / WIDTH)
        c, s = np.cos(angle), np.sin(angle)
        a, b = x[..., :half], x[..., half:]
        return self.rounded(np.concatenate([a * c - b * s, a * s + b * c], -1))

    def attention(self, x, name):
        q = self.rope(self.heads(x, name + "q_proj", HEADS))
        k = self.rope(self.heads(x, name + "k_proj", SHARED))
        v = self.heads(x, name + "v_proj", SHARED)
        k, v = (np.repeat(a, HEADS // SHARED, 0) for a in (k, v))
        scores = self.rounded(q @ k.transpose(0, 2, 1) / np.sqrt(WIDTH))
        scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        p = np.exp(scores - scores.max(axis=-1, keepdims=True))
        p = self.rounded(p / p.sum(axis=-1, keepdims=True))
        y = self.off(p @ v, (len(x) + 16) * UNIT * (p @ np.abs(v)))
        return self.linear(y.transpose(1, 0, 2).reshape(x.shape),
                           name + "o_proj")

    def forward(self, tokens, blocks):
        x = self.w["model.embed_tokens.weight"][tokens]
        for number in range(blocks):
            name = "model.layers.%d." % number
            h = self.norm(x, name + "input_layernorm.weight")
            x = self.rounded(x + self.attention(h, name + "self_attn."))
            h = self.norm(x, name + "post_attention_layernorm.weight")
            g = self.linear(h, name + "mlp.gate_proj")
            y = self.rounded(g / (1 + np.exp(-g))) * self.linear(
                h, name + "mlp.up_proj")
            x = self.rounded(x + self.linear(y, name + "mlp.down_proj"))
        x = self.norm(x, "model.norm.weight")
        return x, self.linear(x, "model.embed_tokens")


def bounds(weights, tokens, blocks, rng):
    """The results in f64, and the largest of what eight passes differ from
    them, in each row, four times: signs could be worse than random."""
    want = Reference(weights).forward(tokens, blocks)
    far = [np.zeros((len(tokens), 1)), np.zeros((len(tokens), 1))]
    for _ in range(8):
        got = Reference(weights, rng).forward(tokens, blocks)
        for i in range(2):
            off = np.abs(got[i] - want[i]).max(axis=1, keepdims=True)
            far[i] = np.maximum(far[i], off)
    return want, [4 * off for off in far]


# ---- the test ----------------------------------------------------------------


def give_tokens(f, tokens):
    names = list(f.inputs)
    f.inputs = {names[0]: np.asarray(tokens, np.int64),
                names[1]: np.arange(len(tokens), dtype=np.int64)}


def run_both(s, dense, packed, decoded, label, blocks, rng):
    """`dense` and `packed` are (function, program)."""
    weights = harness.read_safetensors(decoded)
    for count in (1, 2, 17):
        tokens = [BEGIN] + list(rng.integers(3, VOCABULARY, count - 1))
        want, far = bounds(weights, tokens, blocks, rng)
        for x, off in zip(want, far):  # a bound that says something
            s.expect((off < 1e-3 * np.abs(x).max(axis=1, keepdims=True)).all(),
                     "%s: the bound is loose" % label)
        for f, program in (dense, packed):
            give_tokens(f, tokens)
            f.checks = [close(x, np.broadcast_to(off, x.shape), "f32")
                        for x, off in zip(want, far)]
            before = s.failed
            s.check(program, f, ["--policy", "error"])
            if s.failed > before:
                print("  above: %s, %d blocks, %d tokens" % (label, blocks,
                                                             count))


def pack(s, model, spec):
    """Two files: packed, and what the tool decodes of it."""
    paths = s.path(".safetensors"), s.path(".safetensors")
    rule = "%s=%s:block=%d" % (PACKED, spec.name, spec.block)
    tool(sys.argv[2], "quantize", model, "-o", paths[0], "-e", "none",
         "--layout", "nabla", "--rule", rule, "--quiet")
    tool(sys.argv[2], "dequantize", paths[0], "-o", paths[1], "--dtype", "f32",
         "--quiet")
    return paths


def implicitize(s, f, program, spec):
    """The program with packed weights, which nothing materializes."""
    path = s.path(".mlir")
    option = "function=main args=%s encoding='%s'" % (
        ",".join(f.weights.values()), spec.attribute())
    tool(sys.argv[3], program, "--nabla-implicitize=" + option, "-o", path)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    s.expect("nabla.materialize" not in text, "%s is materialized" % spec)
    s.expect(len(f.weights) == text.count(": !nabla.implicit<", 0, text.index(
        ") ->")), "%s: not all weights are packed" % spec)
    return path


def check_text(s, model, f, program):
    """Greedy: the tokens of the f64 pass, one after the other."""
    reference, tokens = Reference(harness.read_safetensors(model)), [BEGIN]
    f.checks = [None, None]
    for _ in range(24):
        give_tokens(f, tokens)
        got = int(s.call(program, f)[1][-1].argmax())
        want = int(reference.forward(tokens, 5)[1][-1].argmax())
        s.expect(got == want, "token %d is %d, not %d" % (len(tokens), got,
                                                          want))
        tokens.append(want)
    # of the sentence that the model is known to begin with
    s.expect(tokens[1:4] == [403, 407, 261], "it says %s" % tokens)


def test(s):
    model = harness.find_model(sys.argv[4], FILE)
    rng = np.random.default_rng(harness.seed())
    for blocks in (1, 5):
        f = Decoder(model, blocks)
        program = s.write(f.text())
        if blocks == 5:
            check_text(s, model, f, program)
        for spec in (formats.Spec("nf4", 64), formats.Spec("int8", 64)):
            packed_file, decoded = pack(s, model, spec)
            other = implicitize(s, f, program, spec)
            dense, packed = Decoder(decoded, blocks), Decoder(packed_file,
                                                              blocks)
            run_both(s, (dense, program), (packed, other), decoded, str(spec),
                     blocks, rng)


harness.session(sys.argv[1], test)
