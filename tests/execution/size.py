"""Programs of many operations, arguments or results: results against numpy,
with wrapping integers, which any wrong value changes; and the time of
compilation, which grows with their number, not with its square.

usage: size.py NABLA_RUN NABLA_COMPILE NABLA_OPT results|medium|long
"""
import random
import resource
import subprocess
import sys

import harness
from harness import np

# A tenth of the operations may not take less than a twelfth of the time. What
# does not grow (MLIR's own start) is measured and taken off; seconds of CPU, of
# up to three attempts, so that other work on the machine matters little.
MOST, ATTEMPTS = 12, 3
OPS = {"add": np.add, "sub": np.subtract, "mul": np.multiply,
       "maximum": np.maximum, "minimum": np.minimum}


def chain(rng, i):
    """The last value and an argument, always the same operation."""
    return "add", -1, 1


def mixed(rng, i):
    """The last value and an argument."""
    return rng.choice(list(OPS)), -1, rng.randrange(2)


def recent(rng, i):
    """Two of the last sixteen values, often the last."""
    return (rng.choice(list(OPS)), rng.choice([-1, -rng.randrange(1, 17)]),
            -rng.randrange(1, 17))


def anywhere(rng, i):
    """The last value, so that none is left out, and any before it."""
    return rng.choice(list(OPS)), -1, rng.randrange(i + 2)


def graph(choose, count, seed):
    """Lines of (operation, operand, operand), by number of value; 0 and 1 are
    the arguments."""
    rng = random.Random(seed)
    lines = []
    for i in range(count):
        op, a, b = choose(rng, i)
        have = i + 2
        lines.append((op, *(max(have + v, 0) if v < 0 else v for v in (a, b))))
    return lines


def text(lines, kind, results, prelude=()):
    """A program; `results` are numbers of values from the end."""
    names = ["%x", "%y"] + ["%%v%d" % i for i in range(len(lines))]
    out = ["func.func @f(%%x: %s, %%y: %s) -> (%s) {" % (
        kind, kind, ", ".join([kind] * len(results))), *prelude]
    for i, (op, a, b) in enumerate(lines):
        out.append("  %%v%d = nabla.%s %s, %s : %s, %s" % (
            i, op, names[a], names[b], kind, kind))
    out.append("  return %s : %s\n}\n" % (
        ", ".join(names[-r] for r in results), ", ".join([kind] * len(results))))
    return "\n".join(out)


def evaluate(lines, x, y):
    values = [x, y]
    for op, a, b in lines:
        values.append(OPS[op](values[a], values[b]))
    return values


def check_results(s):
    rng = np.random.default_rng(harness.seed())
    x, y = (rng.integers(-2 ** 31, 2 ** 31, (3, 7)).astype(np.int32)
            for _ in range(2))
    for kind in ("tensor<3x7xi32>", "tensor<?x7xi32>"):
        for choose in (chain, mixed, recent, anywhere):
            for count in (64, 65, 150, 1500)[:3 if "?" in kind else 4]:
                lines = graph(choose, count, harness.seed() + count)
                check_result(s, "%s %d %s" % (choose.__name__, count, kind),
                             text(lines, kind, (1, 5)), (x, y),
                             evaluate(lines, x, y)[-1:-6:-4])


# ---- many arguments --------------------------------------------------------------


def fold(names, values, kind, prefix):
    """Lines that subtract and add names in turn; their last value."""
    lines, last = [], names[0]
    for i, name in enumerate(names[1:]):
        made = "%%%s%d" % (prefix, i)
        lines.append("  %s = nabla.%s %s, %s : %s, %s" % (
            made, "sub" if i % 2 else "add", last, name, kind, kind))
        last = made
    value = values[0]
    for i, other in enumerate(values[1:]):
        value = value - other if i % 2 else value + other
    return lines, last, value


def arguments_program(arrays, kind, called):
    """A function of all arrays; `called`, "@g" or "private @g": one that calls
    this other one twice, the second time in a loop, with arguments in another
    order, one of them twice, and a value of its own."""
    names = ["%%a%d" % i for i in range(len(arrays))]
    takes = ", ".join("%s: %s" % (name, kind) for name in names)
    types = ", ".join([kind] * len(arrays))
    lines, last, value = fold(names, arrays, kind, "v")

    def function(name, body, first, second):
        return ["func.func %s(%s) -> (%s, %s) {" % (name, takes, kind, kind),
                *body, "  return %s, %s : %s, %s\n}\n" % (
                    first, second, kind, kind)]

    def call(result, operands):
        return "  %s:2 = func.call @g(%s) : (%s) -> (%s, %s)" % (
            result, ", ".join(operands), types, kind, kind)

    if not called:
        return ("\n".join(function("@f", lines, last, "%a1")),
                [value, arrays[1]])
    given = ["%own", *names[:0:-1]]
    given[3] = given[5]
    arrays_given = [arrays[0] + arrays[2], *arrays[:0:-1]]
    arrays_given[3] = arrays_given[5]
    inner = fold(names, arrays_given, kind, "v")[2]
    body = [
        "  %%own = nabla.add %%a0, %%a2 : %s, %s" % (kind, kind),
        call("%r", given),
        "  %zero = arith.constant 0 : index",
        "  %one = arith.constant 1 : index",
        "  %%s = scf.for %%i = %%zero to %%one step %%one iter_args("
        "%%c = %%r#0) -> (%s) {" % kind,
        call("%q", ["%c", *names[1:]]),
        "    %%t = nabla.sub %%q#0, %%own : %s, %s" % (kind, kind),
        "    scf.yield %%t : %s" % kind,
        "  }"]
    outer = fold(names, [inner, *arrays[1:]], kind, "v")[2]
    return ("\n".join(function(called, lines, last, "%a1") +
                      function("@f", body, "%s", "%r#1")),
            [outer - arrays_given[0], arrays_given[1]])


def check_arguments(s):
    rng = np.random.default_rng(harness.seed())
    for shape, kind in (((5,), "tensor<5xi32>"), ((), "tensor<i32>"),
                        ((2, 3), "tensor<?x3xi32>")):
        for count in (64, 65, 250)[:3 if shape == (5,) else 2]:
            arrays = [rng.integers(-2 ** 31, 2 ** 31, shape).astype(np.int32)
                      for _ in range(count)]
            with np.errstate(over="ignore"):
                for called in ("", "private @g", "@g"):
                    program, want = arguments_program(arrays, kind, called)
                    check_result(s, "%d arguments %s %s" % (
                        count, kind, called), program, arrays, want,
                        *(["--entry", "f"] if called == "@g" else []))


def results_program(x, count, kind):
    """A function of so many results: sums, each also in another shape, then an
    argument, a value a second time, and what a branch gives."""
    flat = "tensor<%sxi32>" % ("?" if "?" in kind else x.size)
    names, types, values, lines = [], [], [], []

    def give(name, type_text, value):
        names.append(name)
        types.append(type_text)
        values.append(value)

    value = x
    for i in range(count):
        lines.append("  %%v%d = nabla.add %s, %%x : %s, %s" % (
            i, "%%v%d" % (i - 1) if i else "%x", kind, kind))
        value = value + x
        if i % 2 or "?" in kind:
            give("%%v%d" % i, kind, value)
        else:
            lines.append("  %%w%d = nabla.reshape %%v%d : %s -> %s" % (
                i, i, kind, flat))
            give("%%w%d" % i, flat, value.reshape(-1))
    lines += ["  %%t = arith.constant false",
              "  %%b = scf.if %%t -> %s {" % kind,
              "    scf.yield %x : " + kind, "  } else {",
              "    %%n = nabla.neg %%x : %s" % kind,
              "    scf.yield %n : " + kind, "  }"]
    lines = [line.replace("%%", "%") for line in lines]
    give("%x", kind, x)
    give("%v1", kind, 3 * x)
    give("%b", kind, -x)
    return "\n".join([
        "func.func @f(%%x: %s) -> (%s) {" % (kind, ", ".join(types)), *lines,
        "  return %s : %s\n}" % (", ".join(names), ", ".join(types))]), values


def check_many_results(s):
    """Functions with more results than are returned in a structure."""
    x = np.arange(6, dtype=np.int32).reshape(2, 3) - 2
    for kind in ("tensor<2x3xi32>", "tensor<?x3xi32>"):
        for count in (12, 16, 100):
            program, want = results_program(x, count, kind)
            check_result(s, "%d results %s" % (len(want), kind), program, (x,),
                         want)


def check_result(s, what, program, arguments, want, *options):
    command = ["--cache", "off", *options]
    for i, array in enumerate(arguments):
        path = s.path(".npy")
        np.save(path, array)
        command += ["--input", "%d=%s" % (i, path)]
    outputs = [s.path(".npy") for _ in want]
    for path in outputs:
        command += ["--output", path]
    done = s.start(s.write(program), *command)
    s.expect(done.returncode == 0, what + ": " + done.stderr.decode()[-400:])
    for i, path in enumerate(outputs if done.returncode == 0 else []):
        s.expect(np.array_equal(np.load(path), want[i]),
                 "%s: result %d differs" % (what, i))


# ---- linalg of the user's -------------------------------------------------------


def generics(count, rank, inside="    %c = arith.constant 7 : i32\n"):
    """A chain of linalg.generic that add %c to each element of %x."""
    kind = "tensor<%sxi32>" % "x".join(["2"] + ["1"] * (rank - 1))
    dims = ", ".join("d%d" % i for i in range(rank))
    one = ("  %%%s = linalg.generic {indexing_maps = [#m, #m], iterator_types = ["
           + ", ".join(['"parallel"'] * rank) + "]} ins(%%%s : " + kind +
           ") outs(%%e : " + kind + ") {\n  ^bb0(%%a: i32, %%b: i32):\n" +
           inside.replace("%", "%%") + "    %%r = arith.addi %%a, %%c : i32\n"
           "    linalg.yield %%r : i32\n  } -> " + kind)
    names = ["x"] + ["v%d" % i for i in range(count)]
    lines = [one % (to, of) for of, to in zip(names, names[1:])]
    return ("#m = affine_map<(%s) -> (%s)>" % (dims, dims),
            ["  %%e = tensor.empty() : %s" % kind] + lines, kind,
            "%" + names[-1])


def check_generics(s, count=1100):
    """Bodies that take a value from outside, more dimensions than arrays have,
    and operations that are in no function."""
    x, c = np.array([3, 5], np.int32), np.array(7, np.int32)
    head, lines, kind, last = generics(count, 1, "")
    check_result(s, "a captured value", "\n".join([
        head, "func.func @f(%%x: %s, %%s: tensor<i32>) -> %s {" % (kind, kind),
        "  %c = tensor.extract %s[] : tensor<i32>", *lines,
        "  return %s : %s\n}\n" % (last, kind)]), (x, c), [x + count * c])
    head, lines, kind, last = generics(count, 40)
    groups = "[[" + ", ".join(map(str, range(40))) + "]]"
    check_result(s, "40 dimensions", "\n".join([
        head, "func.func @f(%given: tensor<2xi32>) -> tensor<2xi32> {",
        "  %%x = tensor.expand_shape %%given %s output_shape [2%s] : "
        "tensor<2xi32> into %s" % (groups, ", 1" * 39, kind), *lines,
        "  %%y = tensor.collapse_shape %s %s : %s into tensor<2xi32>" % (
            last, groups, kind),
        "  return %y : tensor<2xi32>\n}\n"]), (x,),
        [x + count * 7])
    head, lines, kind, last = generics(count, 1)
    done = s.start(s.write("\n".join([
        head, "%%x = arith.constant dense<1> : %s" % kind, *lines,
        "bufferization.dealloc_tensor %s : %s" % (last, kind)])))
    s.expect(done.returncode == 1 and b"at the top level" in done.stderr,
             "no function: exit %d, %s" % (done.returncode, done.stderr[-400:]))


# ---- time ---------------------------------------------------------------------


def seconds(s, program, passes=None):
    """Of CPU, to compile it to an object, or for these passes alone."""
    path, out = s.write(program), s.path(".o")
    command = ([sys.argv[3], path, *passes] if passes else
               [sys.argv[2], path]) + ["-o", out]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, timeout=900)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    s.expect(done.returncode == 0, done.stderr.decode()[-400:])
    return after.ru_utime - before.ru_utime


def arguments(count):
    """The sum of so many arguments."""
    kind = "tensor<64xf32>"
    names = ["%%a%d" % i for i in range(count)]
    lines, last = [], names[0]
    for i, name in enumerate(names[1:]):
        lines.append("  %%v%d = nabla.add %s, %s : %s, %s" % (
            i, last, name, kind, kind))
        last = "%%v%d" % i
    takes = ", ".join("%s: %s" % (name, kind) for name in names)
    return "\n".join(["func.func @f(%s) -> %s {" % (takes, kind), *lines,
                      "  return %s : %s\n}" % (last, kind)])


def calls(count):
    """The same in a function that another calls with all its arguments, the
    last first."""
    kind = "tensor<64xf32>"
    names = ["%%a%d" % i for i in range(count)]
    return "\n".join([
        arguments(count).replace("func.func @f", "func.func private @g"),
        "func.func @f(%s) -> %s {" % (", ".join(
            "%s: %s" % (name, kind) for name in names), kind),
        "  %%r = func.call @g(%s) : (%s) -> %s" % (
            ", ".join(names[::-1]), ", ".join([kind] * count), kind),
        "  return %%r : %s\n}" % kind])


def packed(count):
    """Packed arguments, each decoded."""
    kind = "!nabla.implicit<64xf32, #nabla.nf4<block = 64>>"
    return "\n".join([
        "func.func @f(%s) {" % ", ".join(
            "%%a%d: %s" % (i, kind) for i in range(count)),
        *("  %%m%d = nabla.materialize %%a%d : %s" % (i, i, kind)
          for i in range(count)), "  return\n}"])


def operations(choose):
    """Programs of so many operations."""
    def make(count):
        return text(graph(choose, count, 1), "tensor<64xf32>", (1,))
    make.__name__ = choose.__name__
    return make


def check_time(s, programs, few, passes=None):
    start = seconds(s, operations(chain)(1), passes)
    for make in programs:
        for attempt in range(ATTEMPTS):
            times = [seconds(s, make(n), passes) - start
                     for n in (few, 10 * few)]
            print("%s: %d in %.2f s, %d in %.2f s" % (
                make.__name__, few, times[0], 10 * few, times[1]))
            if times[1] <= MOST * times[0] + 0.3:
                break
        else:
            s.expect(False, "%s: %.2f s for %d, %.2f s for %d" % (
                make.__name__, times[0], few, times[1], 10 * few))


def test(s):
    if sys.argv[4] == "results":
        check_results(s)
        check_arguments(s)
        check_many_results(s)
    elif sys.argv[4] == "medium":
        check_time(s, map(operations, (chain, recent)), 3000)
        check_time(s, (arguments,), 500)
        check_time(s, (calls,), 1000)
        check_time(s, (packed,), 1000, ["--nabla-lower-implicit"])
    else:
        check_time(s, map(operations, (chain, mixed, recent, anywhere)), 10000)
        check_time(s, (arguments,), 1000)


harness.session(sys.argv[1], test)
