"""Programs that are large in one way: more operands, results, exchanges or rounds than a
model has. The passes of shardings divide them as small ones.

usage: shard_limits.py NABLA_RUN NABLA_OPT"""
import json
import os
import re
import subprocess
import sys
import tempfile

AUTO = "--nabla-auto-shard"
AFTER = ["--nabla-propagate-sharding", "--nabla-partition"]
HALF = '{nabla.sharding = #nabla.sharding<@m, [{}, {"a"}]>}'


def scan(inputs, note="", mesh='"a"=2'):
    """Sums rows of many inputs in a scan."""
    many = range(inputs)
    tall, flat = "tensor<4x4096xf32>", "tensor<4096xf32>"
    body, last = "", "%s"
    for i in many:
        body += "    %%r%d = nabla.add %s, %%b%d : %s, %s\n" % (i, last, i, flat, flat)
        last = "%%r%d" % i
    return "nabla.mesh @m <[%s]>\nfunc.func @f(%s, %%c: %s) -> %s {\n" % (
        mesh, ", ".join("%%a%d: %s %s" % (i, tall, note) for i in many), flat, flat
    ) + "  %%y = nabla.scan init(%%c : %s) over(%s : %s) -> %s {\n  ^bb0(%%s: %s, %s):\n" % (
        flat, ", ".join("%%a%d" % i for i in many), ", ".join(tall for i in many), flat, flat,
        ", ".join("%%b%d: %s" % (i, flat) for i in many)
    ) + body + "    nabla.yield %s : %s\n  }\n  return %%y : %s\n}\n" % (last, flat, flat)


def call(results):
    """A function with results that are divided, whose caller needs them divided in
    another way: each is exchanged behind the call."""
    one = "tensor<6x6xf32>"
    cut = '%s {nabla.sharding = #nabla.sharding<@m, [{"a", "b"}, {}]>}' % one
    many = range(results)
    types = ", ".join(one for i in many)
    lines = "".join(
        "  %%z%d = nabla.reshard %%y#%d : %s sharding = #nabla.sharding<@m, [{}, {\"b\"}]>\n"
        % (i, i, one) for i in many)
    lines += "  %w0 = nabla.exp %z0 : " + one + "\n"
    for i in many[1:]:
        lines += "  %%w%d = nabla.add %%w%d, %%z%d : %s, %s\n" % (i, i - 1, i, one, one)
    return ('nabla.mesh @m <["a"=2, "b"=2]>\n'
            "func.func private @g(%%x: %s) -> (%s) {\n  return %s : %s\n}\n" % (
                cut, ", ".join(cut for i in many), ", ".join("%x" for i in many), types)
            + "func.func @f(%%x: %s) -> %s {\n  %%y:%d = call @g(%%x) : (%s) -> (%s)\n" % (
                one, one, results, one, types)
            + lines + "  return %%w%d : %s\n}\n" % (results - 1, one))


class Runner:
    def __init__(self, opt, folder):
        self.opt, self.folder = opt, folder

    def run(self, program, *passes):
        path = os.path.join(self.folder, "p.mlir")
        with open(path, "w", encoding="utf-8") as file:
            file.write(program)
        done = subprocess.run([self.opt, path] + list(passes), capture_output=True,
                              text=True, check=False, timeout=300)
        if done.returncode:
            raise SystemExit("%s: %s: %s\n%s" % (passes, done.returncode, done.stderr[-4000:],
                                                 program[:4000]))
        return done.stdout, done.stderr

    def solve(self, program, options="", *more):
        plan = os.path.join(self.folder, "p.json")
        text, messages = self.run(program, "%s=dump=%s%s" % (AUTO, plan, options), *more)
        with open(plan, encoding="utf-8") as file:
            return json.load(file)["functions"][0], text, messages


def expect(good, what, *values):
    if not good:
        raise SystemExit("%s: %s" % (what, values))


def shardings_of(text):
    """The layouts that a scan has."""
    found = re.search(r"nabla\.scan .*?\{nabla\.shardings = \[(.*)\]\}", text)
    return [] if not found else re.findall(r"#nabla\.sharding<@m, (.*?)>", found.group(1))


def check_scan(runner, inputs):
    """Propagation and the solver say a layout for the result, and one for each slice."""
    text, _ = runner.run(scan(inputs, HALF), AFTER[0])
    found = shardings_of(text)
    expect(found == ['[{"a"}]'] * (inputs + 1), "propagated", inputs, found)
    _, text, _ = runner.solve(scan(inputs))
    found = shardings_of(text)
    expect(len(found) == inputs + 1, "solved", inputs, found)
    plan, text, _ = runner.solve(scan(inputs), "", *AFTER)
    expect(plan["seconds"] > 0 and "nabla.scan" in text, "divided", inputs)


def check_call(runner, results):
    text, _ = runner.run(call(results), AFTER[1])
    found = text.count("nabla.all_gather") + text.count("nabla.all_to_all")
    expect(found >= results, "exchanges", results, found)


def many_axes(kind, axes):
    mesh = ", ".join('"a%d"=2' % i for i in range(axes))
    return ("nabla.mesh @m <[%s]>\nfunc.func @f(%%x: %s) -> %s {\n  %%0 = nabla.exp %%x : %s\n"
            "  return %%0 : %s\n}\n" % (mesh, kind, kind, kind, kind))


def check_axes(runner):
    """Ways to divide that are too many are cut, in seconds, and said to be; what is found
    divides the work among all devices. Others are not cut."""
    plan, _, messages = runner.solve(many_axes("tensor<8x8x8x64xf32>", 3))
    expect(plan["nodes_cut"] == 0 and plan["exact"] and "warning" not in messages, "cut",
           messages)
    asked = ("#nabla.sharding<@m, [%s]>" % ", ".join(["{}"] * 7 + ['{"a1", "a0"}']))
    program = many_axes("tensor<8x8x8x8x8x8x8x8xf32>", 8).replace(
        "xf32>) ->", "xf32> {nabla.sharding = %s}) ->" % asked)
    plan, _, _ = runner.solve(program)
    expect(plan["nodes_cut"] == 1 and len(plan["nodes"][0]["choices"]) == 1, "annotated",
           plan["nodes_cut"], len(plan["nodes"][0]["choices"]))
    for axes in (5, 8):
        plan, text, messages = runner.solve(
            many_axes("tensor<8x8x8x8x8x8x8x8xf32>", axes), " memory=1GiB", *AFTER)
        expect(plan["nodes_cut"] == 2 and not plan["exact"], "not cut", axes)
        expect("at most 256 ways each were tried" in messages, "no warning", messages)
        expect(max(len(n["choices"]) for n in plan["nodes"]) <= 256, "choices", axes)
        local = re.search(r"nabla\.exp .*: tensor<([0-9x]*)xf32>", text).group(1)
        size = 1
        for d in local.split("x"):
            size *= int(d)
        expect(size == 8 ** 8 >> axes, "not divided", axes, local)


def loop_of(kind, inside):
    return ('nabla.mesh @m <["a0"=2, "a1"=2, "a2"=2, "a3"=2]>\n'
            "func.func @f(%%x: %s, %%s: tensor<4x%s) -> %s {\n"
            "  %%y = nabla.scan init(%%x : %s) over(%%s : tensor<4x%s) -> %s {\n"
            "  ^bb0(%%c: %s, %%b: %s):\n    %%0 = nabla.%s %%c, %%b : %s, %s\n"
            "    nabla.yield %%0 : %s\n  }\n  return %%y : %s\n}\n" % (
                kind, kind[7:], kind, kind, kind[7:], kind, kind, kind, inside, kind, kind,
                kind, kind))


def check_ports(runner):
    """Ports of scans are cut as arguments are, and named in the plan."""
    plan, _, _ = runner.solve(loop_of("tensor<16x16x16x16x16xf32>", "add"))
    expect(plan["nodes_cut"] == 5, "ports", plan["nodes_cut"])
    found = [(n["port"], n["index"]) for n in plan["nodes"] if "port" in n]
    expect(found == [("carry", 0), ("slice", 1)], "names of ports", found)


def main():
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(sys.argv[2], folder)
        for inputs in (1, 70, 200):
            check_scan(runner, inputs)
        for results in (2, 60, 150):
            check_call(runner, results)
        check_axes(runner)
        check_ports(runner)


if __name__ == "__main__":
    main()
