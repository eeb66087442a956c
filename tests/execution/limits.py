"""Buffers that do not fit a function are refused with an exit code and a
message, whatever is wrong with them.

usage: limits.py NABLA_RUN
"""
import os
import sys

import harness
from harness import np, Function, tensor_type
import arrays
import shape_limits
from arrays import packed
from dense_ops import silu
from math_ops import gelu

f32 = np.float32
USAGE, INPUT, IO, MEMORY = 2, 3, 4, 5
# A size that nobody has is an answer of malloc's, not a report of ASan's.
os.environ["ASAN_OPTIONS"] = os.environ.get(
    "ASAN_OPTIONS", "") + ":allocator_may_return_null=1"


def run(s, program, f, inputs, more=()):
    command = ["--entry", f.name, *more]
    for name, array in inputs.items():
        path = s.path(".npy")
        np.save(path, array)
        command += ["--input", "%s=%s" % (name, path)]
    for bind in f.bound_arguments:
        command += ["--bind", bind]
    return s.start(program, *command)


def refuse(s, what, done, codes, *texts):
    """It ended with one of the codes and a message that has the texts."""
    told = done.stderr.decode(errors="replace")
    if not isinstance(codes, tuple):
        codes = (codes,)
    s.expect(done.returncode in codes and told and "Sanitizer" not in told,
             "%s: exit %d, not %s: %s" % (what, done.returncode, codes, told))
    for text in texts:
        s.expect(text in told, "%s: no '%s' in: %s" % (what, text, told))


# ---- arguments that are not those of the function ------------------------------


def check_arguments(s):
    f = Function("args")
    x, x_type = f.argument(np.zeros((3, 4), f32), [0])
    y, y_type = f.argument(np.zeros((3, 4), f32), [0])
    f.give(f.op("nabla.add %s, %s : %s, %s" % (x, y, x_type, y_type)), x_type,
           None)
    program = s.write(f.text())
    good = np.ones((3, 4), f32)
    a, b = x[1:], y[1:]
    done = run(s, program, f, {a: good, b: good})
    s.expect(done.returncode == 0, "good arguments: " + done.stderr.decode())
    for what, array in (
            ("rank", np.ones(12, f32)), ("rank", np.ones((3, 4, 1), f32)),
            ("rank", f32(1)), ("static size", np.ones((3, 5), f32)),
            ("static size", np.ones((4, 3), f32)),
            ("no elements", np.ones((3, 0), f32)),
            ("dtype", np.ones((3, 4))), ("dtype", np.ones((3, 4), np.int32)),
            ("dtype", np.ones((3, 4), np.float16)),
            ("dtype", np.ones((3, 4), np.complex64)),
            ("dtype", np.ones((3, 4), ">f4"))):
        label = "%s %s %s" % (what, array.dtype, array.shape)
        done = run(s, program, f, {a: array, b: good})
        refuse(s, label, done, (USAGE, 6))
        done = run(s, program, f, {a: good, b: array})
        refuse(s, label + ", second", done, (USAGE, 6))
    refuse(s, "an argument is missing", run(s, program, f, {a: good}), USAGE, b)
    refuse(s, "no argument of that name", run(
        s, program, f, {a: good, b: good, "nobody": good}), USAGE, "nobody")
    refuse(s, "too many outputs", run(s, program, f, {a: good, b: good}, [
        "--output", s.path(".npy"), "--output", s.path(".npy")]), USAGE)
    refuse(s, "no such function", s.start(program, "--entry", "nobody"), USAGE)
    refuse(s, "a size that differs", run(
        s, program, f, {a: good, b: np.ones((5, 4), f32)}), USAGE, "nabla.add",
        "3", "5")


def check_files(s):
    """Damaged .npy files."""
    f = Function("files")
    x, x_type = f.argument(np.zeros(8, f32), [0])
    f.give(f.op("nabla.relu %s : %s" % (x, x_type)), x_type, None)
    program = s.write(f.text())
    path = s.path(".npy")
    np.save(path, np.arange(8, dtype=f32))
    with open(path, "rb") as file:
        data = file.read()
    broken = [data[:n] for n in (0, 5, 9, 40, 127, len(data) - 1)]
    broken += [data + b"x", b"PK" + data[2:],
               data.replace(b"(8,), } ", b"(-8,), }"),
               data.replace(b"(8,), }".ljust(30),
                            b"(2305843009213693953,), }".ljust(30)),
               data.replace(b"'<f4'", b"'|O' ")]
    s.expect(data not in broken, "the header of .npy is not what it was")
    for number, content in enumerate(broken):
        with open(path, "wb") as file:
            file.write(content)
        done = s.start(program, "--input", "%s=%s" % (x[1:], path))
        refuse(s, "broken .npy %d" % number, done, (USAGE, INPUT, 6))
    done = s.start(program, "--input", "%s=%s" % (x[1:], path + ".none"))
    refuse(s, "no such .npy", done, IO)


# ---- sizes that disagree at run time -------------------------------------------


def sizes_that_differ():
    """(what, function, inputs that must be refused, text of the message)"""
    one, out = f32, []

    def case(what, build, bad, text):
        f = Function("f%d" % len(out))
        build(f)
        out.append((what, f, bad, text))

    def dot(lists, a, b, result):
        def build(f):
            x, x_type = f.argument(np.zeros(a, one), range(len(a)))
            y, y_type = f.argument(np.zeros(b, one), range(len(b)))
            f.give(f.op("nabla.dot_general %s, %s %s : %s, %s" % (
                x, y, lists, x_type, y_type)),
                tensor_type([None] * result, "f32"), None)
        return build
    case("contracted sizes", dot("contracting = [1] x [1]", (3, 4), (5, 4), 2),
         [(3, 4), (5, 6)], "nabla.fused_dot")
    case("contracted sizes, 0", dot("contracting = [1] x [0]", (3, 4), (4, 5),
                                    2), [(3, 0), (4, 5)], "nabla.fused_dot")
    case("batches", dot("batching = [0] x [0] contracting = [2] x [1]",
                        (2, 3, 4), (2, 4, 5), 3), [(2, 3, 4), (3, 4, 5)],
         "nabla.fused_dot")
    for op in ("add", "mul"):
        def build(f, op=op):
            x, x_type = f.argument(np.zeros((2, 3), one), [0, 1])
            y, y_type = f.argument(np.zeros((2, 3), one), [1])
            f.give(f.op("nabla.%s %s, %s : %s, %s" % (op, x, y, x_type,
                                                      y_type)),
                   tensor_type((2, None), "f32"), None)
        case(op, build, [(2, 3), (2, 4)], "nabla." + op)
        case(op + ", rows", build, [(5, 3), (2, 3)], "nabla." + op)

    def spread(f):
        x, x_type = f.argument(np.zeros(3, one), [0])
        n, m = f.size(3), f.size(2)
        to = tensor_type((None, None), "f32")
        f.give(f.op("nabla.broadcast_in_dim %s dims = [0] sizes(%s, %s) : %s -> "
                    "%s" % (x, n, m, x_type, to)), to, None)
    for n, m in ((4, 2), (-3, 2), (3, -1), (3, -2 ** 63), (2 ** 62, 1),
                 (3, 2 ** 63 - 1), (3, 2 ** 61)):
        case("broadcast to %d x %d" % (n, m), spread, [(3,), n, m], "")

    def reshape(f):
        x, x_type = f.argument(np.zeros((4, 6), one), [0, 1])
        n, m = f.size(3), f.size(8)
        to = tensor_type((None, None), "f32")
        f.give(f.op("nabla.reshape %s sizes(%s, %s) : %s -> %s" % (
            x, n, m, x_type, to)), to, None)
    for n, m in ((5, 5), (-4, -6), (24, 0), (0, 24), (-1, -24), (1, 2 ** 62),
                 (2 ** 32, 2 ** 32), (2 ** 61 + 3, 8), (-2 ** 63, 3)):
        case("reshape to %d x %d" % (n, m), reshape, [(4, 6), n, m],
             "nabla.reshape")

    def infer(f):
        x, x_type = f.argument(np.zeros(35, one), [0])
        to = tensor_type((5, None), "f32")
        f.give(f.op("nabla.reshape %s : %s -> %s" % (x, x_type, to)), to, None)
    add_scans(case)
    add_casts(case)
    add_epilogues(case)
    case("reshape that leaves a rest", infer, [(36,)], "nabla.reshape")
    case("reshape of none to some", lambda f: reshape_static(f), [(0,)],
         "nabla.reshape")
    shape_limits.add(case)
    return out


def add_scans(case):
    """Lengths that differ, and sizes that are not those of the slices."""
    row = tensor_type((None,), "f32")

    def build(length):
        def scan(f):
            x, x_type = f.argument(np.zeros((3, 4), f32), [0, 1])
            y, y_type = f.argument(np.zeros(3, f32), [0])
            n = f.size(4)
            out = tensor_type((length, None), "f32")
            f.give(f.op(
                "nabla.scan over(%s, %s : %s, %s) sizes(%s) -> %s {\n^bb0(%%a: "
                "%s, %%b: tensor<f32>):\n  nabla.yield %%a : %s\n}" % (
                    x, y, x_type, y_type, n, out, row, row)), out, None)
        return scan
    for what, length, bad in (
            ("lengths", None, [(3, 4), (2,), 4]),
            ("a length of 0", None, [(0, 4), (3,), 4]),
            ("the length of the result", 3, [(2, 4), (2,), 4]),
            ("the size of slices", None, [(3, 5), (3,), 4]),
            ("a size below 0", None, [(3, 4), (3,), -4])):
        case("scan: " + what, build(length), bad, "nabla.scan")

    def counted(f):
        x, x_type = f.argument(np.zeros(3, f32), [0])
        n = f.size(2)
        f.give(f.op("nabla.scan init(%s : %s) length(%s) -> %s {\n^bb0(%%a: %s):"
                    "\n  nabla.yield %%a : %s\n}" % (
                        x, x_type, n, x_type, row, row)), row, None)
    case("scan: a length below 0", counted, [(3,), -1], "nabla.scan")


def add_epilogues(case):
    """Batches of what kernels of convolutions read besides."""
    shapes = (2, 64, 22), (64, 64, 3), (2, 64, 20)

    def build(f):
        (x, x_type), (k, k_type), (r, r_type) = (
            f.argument(np.zeros(shape, f32), [] if i == 1 else [0])
            for i, shape in enumerate(shapes))
        y = f.op("nabla.conv_general %s, %s : %s, %s" % (x, k, x_type, k_type))
        y = f.op("nabla.add %s, %s : %s, %s" % (y, r, r_type, r_type))
        n = f.size(2)
        b, b_type = f.argument(np.zeros(64, f32))
        b = f.op("nabla.broadcast_in_dim %s dims = [1] sizes(%s) : %s -> %s" % (
            b, n, b_type, r_type))
        f.give(f.op("nabla.mul %s, %s : %s, %s" % (y, b, r_type, r_type)),
               r_type, None)
    for batch, size, text in ((3, 2, "nabla.add"), (1, 2, "nabla.add"),
                              (2, 3, "nabla.mul"), (2, 0, "nabla.mul")):
        case("an epilogue of %d and %d" % (batch, size), build,
             [*shapes[:2], (batch, 64, 20), size, (64,)], text)


def add_casts(case):
    """The program's own, from `?` to a size that the array does not have."""
    def line(f):
        return f.argument(np.zeros(8, f32), [0])

    def cast(f, x, of, to):
        return f.op("tensor.cast %s : %s to %s" % (x, of, to))
    unknown, known = tensor_type((None,), "f32"), tensor_type((8,), "f32")

    def alone(f):
        f.give(cast(f, *line(f), known), known, None)

    def computed(f):
        x, x_type = line(f)
        y = f.op("nabla.add %s, %s : %s, %s" % (x, x, x_type, x_type))
        y = cast(f, y, x_type, known)
        f.give(f.op("nabla.mul %s, %s : %s, %s" % (y, y, known, known)), known,
               None)

    def again(f):
        x = cast(f, cast(f, *line(f), known), known, unknown)
        f.give(f.op("nabla.abs %s : %s" % (x, unknown)), unknown, None)

    def known_otherwise(f):
        x, x_type = line(f)
        y, y_type = f.argument(np.zeros(8, f32))
        z = cast(f, x, x_type, known)
        f.give(f.op("nabla.add %s, %s : %s, %s" % (z, y, known, y_type)), known,
               None)

    def in_a_body(f):
        x, x_type = f.argument(np.zeros((3, 8), f32), [1])
        to = tensor_type((3, 8), "f32")
        f.give(f.op("nabla.scan over(%s : %s) -> %s {\n^bb0(%%a: %s):\n  %%c = "
                    "tensor.cast %%a : %s to %s\n  nabla.yield %%c : %s\n}" % (
                        x, x_type, to, unknown, unknown, known, known)), to,
               None)
    for name, build in (("alone", alone), ("computed", computed),
                        ("again", again)):
        for n in (4, 0, 9):
            case("cast, %s, %d" % (name, n), build, [(n,)], "tensor.cast")
    case("cast, added", known_otherwise, [(4,), (8,)], "tensor.cast")
    case("cast in a body", in_a_body, [(3, 4)], "tensor.cast")

    def second(f):
        x, x_type = f.argument(np.zeros((2, 3), f32), [0, 1])
        to = tensor_type((None, 3), "f32")
        f.give(cast(f, x, x_type, to), to, None)
    case("cast, second", second, [(2, 5)], "tensor.cast")


def reshape_static(f):
    x, x_type = f.argument(np.zeros(12, f32), [0])
    to = tensor_type((3, 4), "f32")
    f.give(f.op("nabla.reshape %s : %s -> %s" % (x, x_type, to)), to, None)


def fused_cases(rng):
    out = []
    for spec in arrays.specs((64,)):
        if spec.scale == "bf16":
            continue  # .npy has no bf16: such inputs are bound
        f = Function("fused_%s" % spec)
        q = arrays.implicit(f, rng, spec, (20, 33))
        named = [f.argument(np.zeros(size, f32), range(len(size)))
                 for size in ((3, 33), (20,), (3, 20))]
        f.give(f.op(
            'nabla.fused_dot %s, %s (%s, %s) epilogue = ["bias", "add"] : '
            "%s, %s, %s, %s" % (named[0][0], q.value, named[1][0], named[2][0],
                                named[0][1], q.type(), named[1][1],
                                named[2][1])),
            tensor_type((None, 20), "f32"), None)
        f.names = [name[1:] for name, _ in named]
        for what, sizes in (
                ("another K", ((3, 32), (20,), (3, 20))),
                ("no K", ((3, 0), (20,), (3, 20))),
                ("a short bias", ((3, 33), (19,), (3, 20))),
                ("a long bias", ((3, 33), (21,), (3, 20))),
                ("a residual of another M", ((3, 33), (20,), (2, 20))),
                ("a residual of M = 0", ((3, 33), (20,), (0, 20))),
                ("a residual of another N", ((3, 33), (20,), (3, 21)))):
            inputs = dict(f.inputs)
            inputs.update((name, np.ones(size, f32))
                          for name, size in zip(f.names, sizes))
            out.append((what, f, inputs))
    return out


def check_sizes(s, rng):
    cases = sizes_that_differ()
    program = s.write("".join(f.text() for _, f, _, _ in cases))
    for what, f, bad, text in cases:
        done = run(s, program, f, f.inputs)
        s.expect(done.returncode == 0, "good sizes of %s: exit %d: %s" % (
            what, done.returncode, done.stderr.decode()))
        inputs = {}
        for name, value in zip(f.inputs, bad):
            inputs[name] = (np.array([value], np.int64) if isinstance(value, int)
                            else np.ones(value, f32))
        refuse(s, what, run(s, program, f, inputs), (USAGE, MEMORY), text)
    cases = fused_cases(rng)
    functions = {f.name: f for _, f, _ in cases}
    program = s.write("".join(f.text() for f in functions.values()))
    for f in functions.values():
        done = run(s, program, f, f.inputs)
        s.expect(done.returncode == 0, "fused: " + done.stderr.decode())
    for what, f, inputs in cases:
        refuse(s, "%s: %s" % (f.name, what), run(s, program, f, inputs), USAGE,
               "nabla.fused_dot")


def check_math(s):
    """Divisors that are zero, sizes below 0, lines without elements."""
    f = Function("divide")
    x, x_type = f.argument(np.arange(6, dtype=np.int32), [0])
    y, y_type = f.argument(np.ones(6, np.int32), [0])
    for op in ("div", "mod"):
        f.give(f.op("nabla.%s %s, %s : %s, %s" % (op, x, y, x_type, y_type)),
               x_type, None)
    program = s.write(f.text())
    s.expect(run(s, program, f, f.inputs).returncode == 0, "good divisors")
    zeros = dict(f.inputs)
    zeros[y[1:]] = np.array([1, 0, 2, 0, 0, 1], np.int32)
    refuse(s, "zeros", run(s, program, f, zeros), USAGE, "nabla.div",
           "3 integers are divided by zero")
    shorter = dict(f.inputs)
    shorter[y[1:]] = np.ones(5, np.int32)
    refuse(s, "another size", run(s, program, f, shorter), USAGE, "nabla.div",
           "5", "6")
    texts = ["nabla.iota dim = 0 sizes(%s) -> tensor<?xi64>",
             "nabla.full 7 : i64 sizes(%s) -> tensor<?xi64>"]
    for number, text in enumerate(texts):
        f = Function("create%d" % number)
        n = f.size(4)
        f.give(f.op(text % n), "tensor<?xi64>", None)
        program = s.write(f.text())
        name = list(f.inputs)[0]
        s.expect(run(s, program, f, f.inputs).returncode == 0, "a good size")
        for size in (-1, -2 ** 63, 2 ** 60):
            refuse(s, "size %d" % size, run(s, program, f, {
                name: np.array([size], np.int64)}), (USAGE, MEMORY))
    for op, dtype in (("argmax", f32), ("argmin", np.int32)):
        f = Function("choose_" + op)
        x, x_type = f.argument(np.zeros((2, 3), dtype), [0, 1])
        f.give(f.op("nabla.%s %s dim = 1 : %s" % (op, x, x_type)),
               "tensor<?xi64>", None)
        program = s.write(f.text())
        s.expect(run(s, program, f, f.inputs).returncode == 0, "a good line")
        refuse(s, "no elements", run(s, program, f, {
            x[1:]: np.zeros((2, 0), dtype)}), USAGE, "nabla." + op)


# ---- weights that do not fit -----------------------------------------------------


def check_weights(s, rng):
    specs = arrays.specs((32, 64))
    shape = (8, 96)
    for spec in specs:
        f = Function("bind_%s" % spec)
        q_type = "!nabla.implicit<8x96xf32, %s>" % spec.attribute()
        q = f.bound(q_type, "", "")
        f.give(f.op("nabla.materialize %s : %s" % (q, q_type)),
               tensor_type(shape, "f32"), None)
        program = s.write(f.text())
        name = q[1:]
        wrong = [(other, shape) for other in specs if other is not spec]
        wrong += [(spec, (96, 8)), (spec, (8, 95)), (spec, (768,))]
        for other, size in wrong:
            if len(size) < 2 and not other.block:
                continue
            path = s.path(".safetensors")
            harness.write_safetensors(path, packed(
                other, *arrays.components(rng, other, size), size))
            f.bound_arguments = ["%s=%s:w" % (name, path)]
            refuse(s, "%s as %s %s" % (other, spec, size),
                   run(s, program, f, {}), USAGE, name)
        path = s.path(".safetensors")
        harness.write_safetensors(path, packed(
            spec, *arrays.components(rng, spec, shape), shape))
        check_one_weight(s, f, program, name, path)


def check_one_weight(s, f, program, name, path):
    def bound(*binds):
        f.bound_arguments = list(binds)
        return run(s, program, f, {})
    good = "%s=%s:w" % (name, path)
    done = bound(good)
    s.expect(done.returncode == 0, f.name + ": " + done.stderr.decode())
    refuse(s, "not bound", bound(), USAGE, name)
    refuse(s, "bound twice", bound(good, good), USAGE)
    refuse(s, "no such tensor", bound(good + "x"), USAGE)
    refuse(s, "no such file", bound("%s=%s.none:w" % (name, path)), IO)
    refuse(s, "no such argument", bound(good, "no" + good), USAGE)
    with open(path, "rb") as file:
        data = file.read()
    with open(path, "wb") as file:
        file.write(data[:-10])
    refuse(s, "a short file", bound(good), INPUT)


def check_repeated(s):
    """A formula of rows that are repeated is compiled in time, with marks of
    nabla-scalar-loops."""
    x = np.linspace(-3, 3, 4).reshape(4, 1)
    f = Function("repeated")
    name, _ = f.argument(x)
    text = "tensor<4x64xf64>"
    y = f.op("nabla.broadcast_in_dim %s dims = [0, 1] : tensor<4x1xf64> -> %s" % (
        name, text))
    for op in ("gelu", "silu"):
        y = f.op("nabla.%s %s : %s" % (op, y, text))
    want = silu(np.asarray(gelu(x), np.float64), "f64")[0]
    want = np.broadcast_to(want, (4, 64))
    f.give(y, text, harness.close(want, 1e-14, "f64"))
    s.check(s.write(f.text()), f)


def test(s):
    rng = np.random.default_rng(harness.seed())
    check_arguments(s)
    check_files(s)
    check_sizes(s, rng)
    shape_limits.check_computed(s, refuse)
    check_math(s)
    check_repeated(s)
    check_weights(s, rng)


harness.session(sys.argv[1], test)
