"""Operations with random shardings of their arguments, on ranks of threads: each
result equals that of one rank.

  sharded.py NABLA_RUN NABLA_COMPILE TIER

The seed is printed; NABLA_TEST_SEED sets it. A case is an operation, a mesh, and
for each argument a list of axes of each dimension, which need not divide it."""
import os
import random
import re
import subprocess
import sys
import tempfile

# Arguments: name, shape. Lines: the body; %a is the first argument and so on. The
# last value is %r, of the type behind it.
CASES = [
    ("linear", [(4, 8), (6, 8)], "%r = nabla.linear %a, %b : A, B", (4, 6)),
    ("linear_bias", [(2, 4, 8), (6, 8), (6,)],
     "%r = nabla.linear %a, %b, %c : A, B, C", (2, 4, 6)),
    ("dot_general", [(4, 6, 8), (4, 8, 2)],
     "%r = nabla.dot_general %a, %b batching = [0] x [0] contracting = [2] x [1]"
     " : A, B", (4, 6, 2)),
    ("dot_two_sums", [(4, 6, 8), (8, 4, 2)],
     "%r = nabla.dot_general %a, %b contracting = [0, 2] x [1, 0] : A, B", (6, 2)),
    ("add", [(8, 6), (8, 6)], "%r = nabla.add %a, %b : A, B", (8, 6)),
    ("chain", [(8, 6), (8, 6)],
     "%t = nabla.mul %a, %b : A, B\n  %u = nabla.silu %t : A\n"
     "  %v = nabla.exp %u : A\n  %r = nabla.maximum %v, %a : A, A", (8, 6)),
    ("select", [(8, 4), (8, 4)],
     "%t = nabla.compare lt %a, %b : A, B\n"
     "  %r = nabla.select %t, %a, %b : tensor<8x4xi1>, A, B", (8, 4)),
    ("rms_norm", [(4, 2, 8), (8,)],
     "%r = nabla.rms_norm %a, %b eps = 1.0e-5 : A, B", (4, 2, 8)),
    ("layer_norm", [(4, 8), (8,), (8,)],
     "%r = nabla.layer_norm %a, %b, %c eps = 1.0e-5 : A, B, C", (4, 8)),
    ("softmax", [(4, 6, 8)], "%r = nabla.softmax %a dim = 1 : A", (4, 6, 8)),
    ("logsumexp", [(4, 6, 8)], "%r = nabla.logsumexp %a dim = 1 : A", (4, 8)),
    ("cumsum", [(4, 8)], "%r = nabla.cumsum %a dim = 0 : A", (4, 8)),
    ("rope", [(4, 6, 8)],
     "%p = nabla.iota dim = 0 -> tensor<6xi64>\n"
     "  %r = nabla.rope halves %a, %p dim = 1 : A, tensor<6xi64>", (4, 6, 8)),
    ("rope_offset", [(4, 6, 8)], "%r = nabla.rope interleaved %a dim = 0 : A",
     (4, 6, 8)),
    ("attention", [(8, 4, 8), (4, 6, 8), (4, 6, 2)],
     "%r = nabla.attention %a, %b, %c : A, B, C", (8, 4, 2)),
    ("attention_causal", [(2, 8, 6, 4), (2, 2, 6, 4), (2, 2, 6, 4)],
     "%r = nabla.attention %a, %b, %c causal : A, B, C", (2, 8, 6, 4)),
    ("transpose", [(4, 6, 8)],
     "%r = nabla.transpose %a permutation = [2, 0, 1] : A", (8, 4, 6)),
    ("reshape_split", [(4, 24)], "%r = nabla.reshape %a : A -> R", (4, 2, 12)),
    ("reshape_join", [(4, 6, 8)], "%r = nabla.reshape %a : A -> R", (24, 8)),
    ("reshape_both", [(6, 8)], "%r = nabla.reshape %a : A -> R", (4, 12)),
    ("reshape_ones", [(1, 8, 1, 6)], "%r = nabla.reshape %a : A -> R", (8, 1, 6)),
    ("broadcast", [(4, 1)],
     "%r = nabla.broadcast_in_dim %a dims = [1, 2] : A -> R", (2, 4, 6)),
    ("sum", [(4, 6, 8)], "%r = nabla.reduce sum %a dims = [0, 2] : A", (6,)),
    ("max_kept", [(4, 6, 8)],
     "%r = nabla.reduce max %a dims = [1] keep_dims : A", (4, 1, 8)),
    ("mean", [(4, 8)], "%r = nabla.reduce mean %a dims = [1] : A", (4,)),
    ("gather", [(8, 6)],
     "%i = nabla.constant dense<[3, 0, 7, 7]> : tensor<4xi64>\n"
     "  %r = nabla.gather %a, %i offset_dims = [1] collapsed_dims = [0] "
     "index_map = [0] vector_dim = 1 sizes = [1, 6] : A, tensor<4xi64>", (4, 6)),
    ("update", [(4, 8, 6), (4, 2, 6)],
     "%z = arith.constant 0 : index\n  %t = arith.constant 3 : index\n"
     "  %r = nabla.dynamic_update_slice %a, %b at(%z, %t, %z : index, index, "
     "index) : A, B", (4, 8, 6)),
    ("take", [(4, 8)],
     "%z = arith.constant 0 : index\n  %t = arith.constant 3 : index\n"
     "  %r = nabla.dynamic_slice %a at(%z, %t : index, index) : A -> R", (4, 2)),
    ("concatenate", [(4, 6), (2, 6)],
     "%r = nabla.concatenate %a, %b dim = 0 : A, B", (6, 6)),
    ("flip", [(4, 8)], "%r = nabla.flip %a dims = [1] : A", (4, 8)),
    ("slice", [(4, 8)],
     "%r = nabla.slice %a starts = [0, 2] limits = [4, 6] : A", (4, 4)),
    ("mlp", [(4, 8), (12, 8), (8, 12)],
     "%t = nabla.linear %a, %b : A, B\n  %u = nabla.silu %t : tensor<4x12xf32>\n"
     "  %v = nabla.linear %u, %c : tensor<4x12xf32>, C\n"
     "  %r = nabla.add %v, %a : A, A", (4, 8)),
]
MESHES = [("a", [("a", 2)]), ("b", [("a", 4)]), ("c", [("a", 2), ("b", 2)]),
          ("d", [("a", 2), ("b", 4)]), ("e", [("a", 3)]), ("f", [("a", 8)])]


def tensor(shape):
    return "tensor<%sf32>" % "".join("%dx" % n for n in shape)


def sharding(rng, mesh, rank):
    """Axes in random dimensions, each at most once, some as two sub-axes."""
    dims = [[] for _ in range(rank)]
    for name, size in mesh:
        parts = [name]
        if size in (4, 8) and rng.random() < .5:
            parts = ["%s\":(1)2" % name, "%s\":(2)%d" % (name, size // 2)]
        for part in parts:
            if rng.random() < .7:
                dim = rng.choice(dims)
                if not (dim and ":(" in part and dim[-1].startswith(name)):
                    dim.append(part)
    text = ["{%s}" % ", ".join(
        ["\"%s" % p if ":" in p else "\"%s\"" % p for p in d]
        + ["?"] * (rng.random() < .5)) for d in dims]
    return "[%s]" % ", ".join(text)


def program(case, mesh, rng):
    _, shapes, body, result = case
    arguments = []
    for i, shape in enumerate(shapes):
        name = "abc"[i]
        note = ""
        if mesh and rng.random() < .8:
            note = ", nabla.sharding = #nabla.sharding<@m, %s>" % sharding(
                rng, mesh, len(shape))
        arguments.append("%%%s: %s {nabla.name = \"%s\"%s}" % (
            name, tensor(shape), name, note))
        body = re.sub(r"\b%s\b" % name.upper(), tensor(shape), body)
    body = re.sub(r"\bR\b", tensor(result), body)
    head = "" if not mesh else "nabla.mesh @m <[%s]>\n" % ", ".join(
        "\"%s\"=%d" % axis for axis in mesh)
    return "%sfunc.func @f(%s) -> %s {\n  %s\n  return %%r : %s\n}\n" % (
        head, ", ".join(arguments), tensor(result), body, tensor(result))


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


# A result that every device has whole, and one of which each has a piece.
PIECES = """nabla.mesh @m <["a"=2]>
func.func @f(%a: tensor<4x3xf32> {nabla.name = "a",
    nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>})
    -> (tensor<3xf32>, tensor<4x3xf32>) {
  %s = nabla.reduce sum %a dims = [0] : tensor<4x3xf32>
  %e = nabla.exp %a : tensor<4x3xf32>
  return %s, %e : tensor<3xf32>, tensor<4x3xf32>
}
"""


def check_pieces(nabla_run, folder):
    """Pieces are written to no file."""
    path, *out = [os.path.join(folder, n) for n in ("p.mlir", "s.npy", "e.npy")]
    with open(path, "w", encoding="utf-8") as file:
        file.write(PIECES)
    line = [nabla_run, path, "-i", "a=random:4x3", "--ranks", "2", "--results",
            "divided", "-o", out[0]]
    code, said = run(*line)
    if code:
        raise SystemExit(said)
    os.remove(out[0])
    code, said = run(*line, "-o", out[1])
    if code != 6 or "result 1 is the piece of one device" not in said \
            or any(map(os.path.exists, out)):
        raise SystemExit("exit %d: %s" % (code, said))


# A device that exchanges with itself.
ALONE = """nabla.mesh @m <["a"=1]>
func.func @f(%a: tensor<4x3xf32> {nabla.name = "a"}) -> tensor<3xf32> {
  %y = nabla.shard_map(%a : tensor<4x3xf32>)
      in = [#nabla.sharding<@m, [{"a"}, {}]>] out = [#nabla.sharding<@m, [{}]>]
      -> tensor<3xf32> {
  ^bb0(%p: tensor<4x3xf32>):
    %s = nabla.reduce sum %p dims = [0] : tensor<4x3xf32>
    %r = nabla.all_reduce sum %s axes = ["a"] : tensor<3xf32>
    nabla.yield %r : tensor<3xf32>
  }
  return %y : tensor<3xf32>
}
"""


def check_alone(nabla_run, folder):
    """A mesh of one device needs no --ranks, and takes it."""
    path, out = [os.path.join(folder, n) for n in ("p.mlir", "alone.npy")]
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r"  %y = .*?\n  \}", "  %y = nabla.reduce sum %a dims = "
                          "[0] : tensor<4x3xf32>", ALONE, flags=re.DOTALL))
    line = [nabla_run, path, "-i", "a=random:4x3", "--repeat", "2"]
    said = [run(*line, "-o", out)]
    with open(path, "w", encoding="utf-8") as file:
        file.write(ALONE)
    said += [run(*line, "--expect", out, *ranks) for ranks in ([], ["--ranks", "1"])]
    if any(code for code, _ in said):
        raise SystemExit(said)


def main():
    nabla_run, tier = sys.argv[1:]
    seed = int(os.environ.get("NABLA_TEST_SEED") or random.randrange(1 << 31))
    rounds = {"quick": 1, "medium": 1, "long": 20}[tier]
    print("seed %d" % seed, flush=True)
    rng, count = random.Random(seed), 0
    with tempfile.TemporaryDirectory() as folder:
        check_pieces(nabla_run, folder)
        check_alone(nabla_run, folder)
        path = os.path.join(folder, "p.mlir")
        want = os.path.join(folder, "want.npy")
        for case in CASES:
            inputs = []
            for i, shape in enumerate(case[1]):
                inputs += ["-i", "%s=random:%s" % ("abc"[i],
                                                   "x".join(map(str, shape)))]
            for turn in range(rounds + 1):
                mesh = None if not turn else rng.choice(MESHES)[1]
                text = program(case, mesh, rng)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                if not turn:
                    code, said = run(nabla_run, path, *inputs, "-o", want)
                else:
                    ranks = 1
                    for _, size in mesh:
                        ranks *= size
                    code, said = run(nabla_run, path, *inputs, "--ranks",
                                     str(ranks), "--expect", want,
                                     "--tolerance", "2e-6")
                    count += 1
                if code:
                    raise SystemExit("seed %d: %s\n%s\n%s" % (
                        seed, case[0], text, said))
    print("%d divided programs equal those of one rank" % count)


main()
