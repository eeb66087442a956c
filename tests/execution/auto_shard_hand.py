"""nabla-auto-shard beside layouts by hand: data parallel, tensor parallel (Megatron), and
greedy by one axis, as annotations of the arguments of the same programs, which propagation
completes. What the solver finds takes no more time in its model than any of them, and sends
more bytes, as counted in the partitioned text, only than a layout that takes longer. In the
programs of BETTER it takes less time than all three.

usage: auto_shard_hand.py NABLA_RUN NABLA_OPT"""
import json
import os
import re
import subprocess
import sys
import tempfile

from auto_shard import received

MESH = {"a": 2, "b": 2}
HEAD = ('nabla.mesh @m <["a"=2, "b"=2]> {bandwidth = [1.0e10, 1.0e10], '
        'latency = [2.0e-6, 2.0e-6]}\n')
BOTH = '{"a", "b"}'
CUT = {"": "{}", "ab": BOTH, "a": '{"a"}', "b": '{"b"}'}


class Graph:
    """`lines` with arguments (name, shape); layouts by hand have a word for each dimension
    of an argument that is divided."""

    def __init__(self, name, arguments, result, lines, data, tensor):
        self.name, self.arguments, self.result = name, arguments, result
        self.lines, self.data, self.tensor = lines, data, tensor

    def text(self, function, layout):
        """layout: argument to words; None: without annotations."""
        heads = []
        for name, shape in self.arguments:
            words = (layout or {}).get(name, [""] * len(shape))
            note = "" if layout is None else " {nabla.sharding = #nabla.sharding<@m, [%s]>}" % (
                ", ".join(CUT[w] for w in words))
            heads.append("%%%s: %s%s" % (name, kind(shape), note))
        return "func.func @%s(%s) -> %s {\n%s  return %%r : %s\n}\n" % (
            function, ", ".join(heads), kind(self.result), self.lines, kind(self.result))


def kind(shape):
    return "tensor<%s>" % "x".join([str(s) for s in shape] + ["f32"])


def linear(out, x, w, shapes):
    return "  %%%s = nabla.linear %%%s, %%%s : %s, %s\n" % (
        out, x, w, kind(shapes[0]), kind(shapes[1]))


def mlp(rows, width, hidden):
    """A feed-forward layer."""
    lines = linear("h", "x", "up", [(rows, width), (hidden, width)])
    lines += "  %%s = nabla.silu %%h : %s\n" % kind((rows, hidden))
    lines += linear("r", "s", "down", [(rows, hidden), (width, hidden)])
    return Graph("mlp %d %d %d" % (rows, width, hidden),
                 [("x", (rows, width)), ("up", (hidden, width)), ("down", (width, hidden))],
                 (rows, width), lines, {"x": ["ab", ""]},
                 {"up": ["ab", ""], "down": ["", "ab"]})


def mixed(rows, width, hidden, large):
    """A feed-forward layer of many rows, whose sum goes through one of large weights."""
    lines = linear("h", "x", "w", [(rows, width), (hidden, width)])
    lines += "  %%s = nabla.relu %%h : %s\n" % kind((rows, hidden))
    lines += linear("t", "s", "v", [(rows, hidden), (width, hidden)])
    lines += "  %%p = nabla.reduce sum %%t dims = [0] keep_dims : %s\n" % kind((rows, width))
    lines += linear("u", "p", "up", [(1, width), (large, width)])
    lines += linear("r", "u", "down", [(1, large), (width, large)])
    return Graph("mixed %d %d %d %d" % (rows, width, hidden, large),
                 [("x", (rows, width)), ("w", (hidden, width)), ("v", (width, hidden)),
                  ("up", (large, width)), ("down", (width, large))],
                 (1, width), lines, {"x": ["ab", ""]},
                 {"w": ["ab", ""], "v": ["", "ab"], "up": ["ab", ""], "down": ["", "ab"]})


def head(rows, width, classes):
    """Logits of many classes, of which the largest remains."""
    lines = linear("h", "x", "w", [(rows, width), (width, width)])
    lines += linear("l", "h", "head", [(rows, width), (classes, width)])
    lines += "  %%r = nabla.reduce max %%l dims = [1] : %s\n" % kind((rows, classes))
    return Graph("head %d %d" % (rows, classes),
                 [("x", (rows, width)), ("w", (width, width)), ("head", (classes, width))],
                 (rows,), lines, {"x": ["ab", ""]}, {"w": ["ab", ""], "head": ["", "ab"]})


def product(rows, inner, columns):
    """One product."""
    return Graph("product %d %d %d" % (rows, inner, columns),
                 [("x", (rows, inner)), ("w", (columns, inner))], (rows, columns),
                 linear("r", "x", "w", [(rows, inner), (columns, inner)]),
                 {"x": ["ab", ""]}, {"w": ["ab", ""]})


GRAPHS = [mlp(8, 2048, 8192), mlp(32768, 256, 1024), mlp(512, 1024, 4096),
          head(2048, 1024, 32768), head(512, 512, 16384), product(4096, 4096, 4096)]
# Better than by hand: rows divided first, weights later; and a contraction.
BETTER = [mixed(8192, 256, 512, 65536), mixed(16384, 128, 512, 131072),
          mixed(4096, 512, 1024, 32768), mixed(32768, 256, 256, 131072),
          product(16, 8192, 512)]


class Runner:
    """Runs passes over functions of one module."""

    def __init__(self, opt, folder):
        self.opt = opt
        self.program, self.plan = [os.path.join(folder, n) for n in ("p.mlir", "p.json")]

    def run(self, text, *passes):
        with open(self.program, "w", encoding="utf-8") as file:
            file.write(text)
        done = subprocess.run([self.opt, self.program, *passes], capture_output=True,
                              text=True, check=False)
        if done.returncode:
            raise SystemExit(done.stderr + text)
        return done.stdout

    def sent(self, text, *passes):
        """Bytes that the first device receives, of each function."""
        done = self.run(text, *passes, "--nabla-propagate-sharding", "--nabla-partition")
        return [sum(received(line, MESH) for line in body.split("\n"))
                for body in re.split(r"\n  func\.func ", done)[1:]]

    def seconds(self, graph, layouts):
        """Time by the model of each layout, of which all values are annotated."""
        text = HEAD + "".join(graph.text("f%d" % i, l) for i, l in enumerate(layouts))
        if layouts[0] is not None:
            text = closed(self.run(text, "--nabla-propagate-sharding"))
        self.run(text, "--nabla-auto-shard=dump=" + self.plan)
        with open(self.plan, encoding="utf-8") as file:
            functions = json.load(file)["functions"]
        if not all(f["exact"] for f in functions):
            raise SystemExit("%s: not exact" % graph.name)
        return [f["seconds"] for f in functions]


def whole(rank):
    return "#nabla.sharding<@m, [%s]>" % ", ".join(["{}"] * rank)


def closed(text):
    """What propagation left without a sharding is whole, and stays so."""
    def argument(found):
        return found.group(0) + " {nabla.sharding = %s}" % whole(found.group(1).count("x"))

    lines = []
    for line in text.split("\n"):
        if " = nabla." in line and "nabla.shardings" not in line:
            rank = 1 if "reduce" in line and "keep_dims" not in line else 2
            line = line.replace(" : ", " {nabla.shardings = [%s]} : " % whole(rank), 1)
        elif "func.func" in line:
            line = re.sub(r"%arg\d+: tensor<([\dxf]+)>(?! \{)", argument, line)
        lines.append(line)
    return "\n".join(lines)


def greedy(runner, graph):
    """Of one argument after the other the division by one axis that is best when the later
    ones are whole."""
    layout = {}
    for name, shape in graph.arguments:
        options = [[""] * len(shape)]
        options += [[axis if d == i else "" for d in range(len(shape))]
                    for i in range(len(shape)) for axis in ("a", "b")]
        times = runner.seconds(graph, [{**layout, name: o} for o in options])
        layout[name] = options[times.index(min(times))]
    return layout


def main():
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(sys.argv[2], folder)
        for graph in GRAPHS + BETTER:
            names = ["auto", "data", "tensor", "greedy"]
            layouts = [graph.data, graph.tensor, greedy(runner, graph)]
            times = runner.seconds(graph, [None]) + runner.seconds(graph, layouts)
            sent = runner.sent(HEAD + graph.text("f", None), "--nabla-auto-shard")
            sent += runner.sent(HEAD + "".join(graph.text("f%d" % i, l)
                                               for i, l in enumerate(layouts)))
            print(graph.name, "".join("; %s %.1f us %d bytes" % (n, t * 1e6, b)
                                      for n, t, b in zip(names, times, sent)), flush=True)
            for time, count in zip(times[1:], sent[1:]):
                if times[0] > time * (1 + 1e-9):
                    raise SystemExit("%s: worse in the model" % graph.name)
                if sent[0] > count and times[0] > time * .9999:
                    raise SystemExit("%s: more bytes for the same time" % graph.name)
            if graph in BETTER and times[0] > min(times[1:]) * .99:
                raise SystemExit("%s: not better than by hand" % graph.name)


if __name__ == "__main__":
    main()
