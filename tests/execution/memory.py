"""Memory: nothing is read outside of an array (the arrays lie between NaNs, and
at the end of a file's last page), a bound weight is not copied, and small clusters
of operations take little.

usage: memory.py NABLA_RUN guards quick|medium
       memory.py NABLA_RUN peak NABLA_QUANT NABLA_OPT
"""
import os
import subprocess
import sys

import harness
from harness import np, Function, close, exact, tensor_type
import arrays
from arrays import fused_bound, packed

f32, f64 = np.float32, np.float64
PAGE = 4096


# ---- guards ------------------------------------------------------------------------


def guarded(tensors, last):
    """The tensors between NaNs, `last` at the end of the file."""
    out = {}
    for name in [n for n in tensors if n != last] + [last]:
        out["guard%d" % len(out)] = np.full(64, np.nan, f32)
        out[name] = tensors[name]
    return out


def check_guards(s, rng, rounds):
    """x, w and the bias lie in a mapped file: a value from beside them would
    be NaN, or the end of the page."""
    functions = []
    for spec in arrays.specs((16, 64)):
        for number in range(rounds):
            m, n = int(rng.choice([1, 2, 5, 9])), int(rng.integers(1, 40))
            k = int(rng.choice([1, 2, 15, 17, 31, 64, 65, 127, 130, 257]))
            stored = (n, k) if number % 2 else (k, n)
            f = Function("g%d_%s" % (len(functions), spec))
            functions.append(f)
            add_guarded(s, f, rng, spec, (m, n, k), stored)
        f = Function("m%d_%s" % (len(functions), spec))
        functions.append(f)
        add_moved(s, f, rng, spec)
    s.run_all(functions)


def add_guarded(s, f, rng, spec, sizes, stored):
    m, n, k = sizes
    codes, scales = arrays.components(rng, spec, stored)
    tensors = packed(spec, codes, scales, stored)
    tensors["x"] = rng.standard_normal((m, k)).astype(f32)
    tensors["b"] = rng.standard_normal(n).astype(f32)
    path = s.path(".safetensors")
    last = ("w", "w.nabla.scales", "x", "b")[int(rng.integers(4))]
    harness.write_safetensors(path, guarded(tensors, last), PAGE)
    q_type = "!nabla.implicit<%dx%dxf32, %s>" % (*stored, spec.attribute())
    x_type, b_type = tensor_type((None, k), "f32"), tensor_type((n,), "f32")
    y_type = tensor_type((m, n), "f32")
    q, x, b = (f.bound(t, path, name) for t, name in (
        (q_type, "w"), (x_type, "x"), (b_type, "b")))
    w = spec.decode(codes, scales, stored)
    by_rows = stored == (n, k)
    y = f.op("nabla.dot_general %s, %s contracting = [1] x [%d] : %s, %s" % (
        x, q, 1 if by_rows else 0, x_type, q_type))
    wide = f.op("nabla.broadcast_in_dim %s dims = [1] : %s -> %s" % (
        b, b_type, y_type))
    y = f.op("nabla.add %s, %s : %s, %s" % (
        y, wide, tensor_type((None, n), "f32"), y_type))
    w = (w if by_rows else w.T).astype(f64)
    total = np.abs(tensors["x"]) @ np.abs(w).T
    want = tensors["x"].astype(f64) @ w.T + tensors["b"]
    bound = fused_bound(k, m, total, by_rows) + harness.ulp(
        "f32", np.abs(want) + total)
    f.give(y, y_type, close(want, bound, "f32"))


def add_moved(s, f, rng, spec):
    """Rows of a table, some of them asked for outside; boxes and windows of an
    array, some of them beyond its end."""
    n, k = int(rng.integers(1, 20)), int(rng.integers(3, 70))
    codes, scales = arrays.components(rng, spec, (n, k))
    tensors = packed(spec, codes, scales, (n, k))
    a = tensors["x"] = rng.standard_normal((n, k)).astype(f32)
    path = s.path(".safetensors")
    last = ("w", "w.nabla.scales", "x")[int(rng.integers(3))]
    harness.write_safetensors(path, guarded(tensors, last), PAGE)
    q_type = "!nabla.implicit<%dx%dxf32, %s>" % (n, k, spec.attribute())
    x_type = tensor_type((None, k), "f32")
    q, x = f.bound(q_type, path, "w"), f.bound(x_type, path, "x")
    w = spec.decode(codes, scales, (n, k))
    edges = np.iinfo(np.int64)
    tokens = np.array([-1, 0, n - 1, n, edges.min, edges.max])
    t, t_type = f.argument(tokens)
    rows = np.clip(tokens, 0, n - 1)
    for table, table_type, want in ((q, q_type, w), (x, x_type, a)):
        y = f.op("nabla.gather %s, %s offset_dims = [1] collapsed_dims = [0] "
                 "index_map = [0] vector_dim = 1 sizes = [1, %d] : %s, %s" % (
                     table, t, k, table_type, t_type))
        f.give(y, tensor_type((6, k), "f32"), exact(want[rows].astype(f32)))
    at, one = f.size(edges.max), f.size(1)
    y = f.op("nabla.dynamic_slice %s at(%s, %s : index, index) : %s -> "
             "tensor<1x2xf32>" % (x, at, one, x_type))
    f.give(y, tensor_type((1, 2), "f32"), exact(a[n - 1:, 1:3]))
    y = f.op("nabla.pool max %s window = [1, 3] high = [0, 2] : %s" % (x, x_type))
    wide = np.concatenate([a, np.full((n, 2), -np.inf, f32)], axis=1)
    want = np.maximum(np.maximum(wide[:, :k], wide[:, 1:k + 1]), wide[:, 2:])
    f.give(y, x_type, exact(want))


# ---- peak --------------------------------------------------------------------------


# A process starts with the peak of the one that forked it: this one is small.
MEASURE = """import os, sys
pid = os.fork()
if pid == 0:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.execv(sys.argv[1], sys.argv[1:])
_, status, usage = os.wait4(pid, 0)
print(usage.ru_maxrss * 1024)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def peak(command):
    """Peak resident bytes of a process of its own."""
    done = subprocess.run([sys.executable, "-S", "-c", MEASURE, *command],
                          stdout=subprocess.PIPE, check=True)
    return int(done.stdout)


def check_memory(s):
    size, rng = 4096, np.random.default_rng(1)
    dense, nf4 = s.path(".safetensors"), s.path(".safetensors")
    harness.write_safetensors(dense, {"w.weight": rng.standard_normal(
        (size, size)).astype(f32)})
    subprocess.run([sys.argv[3], "quantize", dense, "-o", nf4, "--quiet"],
                   check=True)
    tiny = s.write("func.func @f(%x: tensor<?xf32>) -> tensor<?xf32> {\n  %y = "
                   "nabla.relu %x : tensor<?xf32>\n  return %y : tensor<?xf32>\n"
                   "}\n")
    q = "!nabla.implicit<%dx%dxf32, #nabla.nf4<block = 64>>" % (size, size)
    x = tensor_type((None, size), "f32")
    program = s.write(
        'func.func @f(%%x: %s, %%w: %s {nabla.name = "w"}) -> %s {\n  %%y = '
        "nabla.dot_general %%x, %%w contracting = [1] x [1] : %s, %s\n  return "
        "%%y : %s\n}\n" % (x, q, x, x, q, x))
    os.remove(dense)
    packed_bytes = size * size // 2 + size * size // 64 * 4
    for m in (1, 16):
        inputs = s.path(".npy"), s.path(".npy")
        np.save(inputs[0], np.ones(16, f32))
        np.save(inputs[1], np.ones((m, size), f32))
        bare = peak([s.tool, tiny, "--cache", "off", "--input",
                     "0=" + inputs[0]])
        full = peak([s.tool, program, "--cache", "off", "--input",
                     "0=" + inputs[1], "--bind", "w=%s:w.weight" % nf4])
        more = full - bare
        print("M = %d: %.1f MiB beyond a tiny program, %.1f MiB packed" % (
            m, more / 2 ** 20, packed_bytes / 2 ** 20))
        s.expect(more < packed_bytes + 16 * 2 ** 20, "M = %d: too much" % m)


def check_clusters(s, opt, count=20000):
    """Forming clusters takes memory for the operations that they have."""
    kind = "tensor<4x4xf32>"
    lines = ["func.func @f(%%x: %s) -> %s {" % (kind, kind)]
    lines += ["  %%v%d = nabla.tanh %%x : %s" % (i, kind) for i in range(count)]
    program = s.write("\n".join(lines + ["  return %%v0 : %s" % kind, "}\n"]))
    plain, clusters = (peak([opt, program, "-o", os.devnull, *passes])
                       for passes in ([], ["--nabla-cluster"]))
    each = (clusters - plain) / count
    print("%d clusters of one operation: %.0f bytes each" % (count, each))
    s.expect(each < 4096, "%.0f bytes for a cluster of one operation" % each)


def test(s):
    if sys.argv[2] == "peak":
        check_memory(s)
        check_clusters(s, sys.argv[4])
        return
    rng = np.random.default_rng(harness.seed())
    check_guards(s, rng, 40 if sys.argv[3] == "medium" else 6)


if __name__ == "__main__":
    harness.session(sys.argv[1], test)
