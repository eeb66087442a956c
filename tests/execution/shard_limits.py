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


def main():
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(sys.argv[2], folder)
        for inputs in (1, 70, 200):
            check_scan(runner, inputs)
        for results in (2, 60, 150):
            check_call(runner, results)


if __name__ == "__main__":
    main()
