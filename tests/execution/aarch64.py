"""Programs compiled for AArch64, linked into a C program by its compiler and run
by qemu: quantized arrays, products with them and blocks of GGUF files, against
what implicit_ops.py, decode_only.py and ggml.py compare with; functions of f32
in clusters, against their bytes on the CPU of this machine.

usage: aarch64.py NABLA_RUN NABLA_COMPILE quick|medium
"""
import os
import re
import shutil
import subprocess
import sys

import arrays
import decode_only
import ggml
import harness
import implicit_dots
import implicit_ops
import ulps
from harness import np

COMPILERS = ("aarch64-linux-gnu-gcc",)
RUNNERS = ("qemu-aarch64", "qemu-aarch64-static")
LINE = 64

MAIN = """#include <stdio.h>
#include <stdlib.h>

#include "p.h"

static unsigned char *read_all(const char *path, size_t size) {
  unsigned char *data = aligned_alloc(64, (size + 64) / 64 * 64);
  FILE *file = fopen(path, "rb");
  if (!data || !file || fread(data, 1, size, file) != size) exit(2);
  fclose(file);
  return data;
}

int main(void) {
  unsigned char *in = read_all("in.bin", %d), *out = aligned_alloc(64, %d);
  FILE *file = fopen("out.bin", "wb");
  int status[] = {
%s  0};
  for (size_t i = 0; i < sizeof status / sizeof *status; i++)
    if (status[i]) printf("function %%zu: %%d\\n", i, status[i]);
  return !file || fwrite(out, 1, %d, file) != %d || fclose(file);
}
"""


def find(names):
    for name in names:
        if shutil.which(name):
            return name
    print("SKIP: needs %s (Debian: gcc-aarch64-linux-gnu, "
          "libc6-dev-arm64-cross, qemu-user)" % " or ".join(names))
    sys.exit(77)


class Memory:
    """Arrays one behind the other, each at the beginning of a line."""

    def __init__(self):
        self.parts, self.size = [], 0

    def add(self, array):
        at = self.size
        data = harness.plain(array).tobytes()
        self.parts.append(data + b"\0" * (-len(data) % LINE))
        self.size += len(self.parts[-1])
        return at


def open_sizes(type_text, shape):
    """Of the dimensions that the program does not know."""
    dims = re.match(r"tensor<(.*)>$", type_text).group(1).split("x")[:-1]
    return ["%d" % n for dim, n in zip(dims, shape) if dim == "?"]


def call(f, given, results):
    """C that calls a function; where each result is, and its array."""
    words, places = [], []
    for argument in f.arguments:
        name, text = re.match(r"%(\w+): (tensor<[^>]*>)", argument).groups()
        array = f.inputs.get(name, f.binds.get(name))
        words += ["(const void *)(in + %d)" % given.add(array),
                  *open_sizes(text, array.shape)]
    for (_, text, kind), check in zip(f.results, f.checks):
        # programs widen bf16
        array = np.zeros(check.shape,
                         harness.DTYPES["f32" if kind == "bf16" else kind])
        at = results.add(array)
        words += ["(void *)(out + %d)" % at, *open_sizes(text, check.shape)]
        places.append((at, array))
    return "    p_%s(%s, NULL),\n" % (f.name, ", ".join(words)), places


def run(s, tools, functions):
    """One program of all functions."""
    given, results, lines, places = Memory(), Memory(), [], []
    for f in functions:
        line, where = call(f, given, results)
        lines.append(line)
        places.append(where)
    folder = os.path.join(s.folder, "program%d" % s.serial)
    s.serial += 1
    os.mkdir(folder)
    write = {"p.mlir": "".join(f.text() for f in functions).encode(),
             "main.c": (MAIN % (given.size, results.size + 64, "".join(lines),
                                results.size, results.size)).encode(),
             "in.bin": b"".join(given.parts)}
    for name, data in write.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(data)
    for command in (
            [tools["compile"], "p.mlir", "--target", "aarch64", "--policy",
             "off", "-o", "p.o", "--header", "p.h"],
            [tools["cc"], "-std=c17", "-O1", "-Wall", "-Werror", "-static",
             "main.c", "p.o", "-o", "main"],
            [tools["qemu"], "./main"]):
        done = subprocess.run(command, cwd=folder, capture_output=True,
                              timeout=300)
        output = (done.stdout + done.stderr).decode(errors="replace")
        if not s.expect(not done.returncode and not done.stdout,
                        "%s: exit %d\n%s" % (command[0], done.returncode,
                                             output[:2000])):
            return
    with open(os.path.join(folder, "out.bin"), "rb") as file:
        data = file.read()
    for f, where in zip(functions, places):
        for number, ((at, array), check) in enumerate(zip(where, f.checks)):
            got = np.frombuffer(data, array.dtype, array.size, at).reshape(
                array.shape)
            if f.results[number][2] == "bf16":
                got = harness.narrow(got, "bf16")
            wrong = check(got)
            s.expect(not wrong, "%s: result %d: %s\n%s" % (
                f.name, number, wrong, f.text()[:2000]))


def implicit_cases(rng):
    make = implicit_ops.Maker(rng)
    for spec in arrays.specs():
        implicit_ops.add_components(make, spec, 1)
        implicit_dots.add_fused(make, spec, 1)
        implicit_dots.add_layers(make, spec)
        implicit_dots.add_dots(make, spec, 1)
    return make.functions


def block_cases(rng):
    c = ggml.Cases(rng)
    for form in ggml.formats():
        for add in (ggml.add_views, ggml.add_types, ggml.add_pieces,
                    ggml.add_dot):
            add(c, form)
    return c.functions


def function_cases(s):
    x = ulps.inputs()[::11]
    functions = []
    for name, (_, exact_of) in ulps.FUNCTIONS.items():
        f = ulps.function(name, x, exact_of)
        here = s.call(s.write(f.text()), f)[0]
        f.checks = [harness.exact(here)]
        functions.append(f)
    return functions


def test(s):
    tools = {"compile": os.path.abspath(sys.argv[2]), "cc": find(COMPILERS),
             "qemu": find(RUNNERS)}
    rng = np.random.default_rng(harness.seed())
    step = 3 if sys.argv[3] == "quick" else 1
    for functions in (implicit_cases(rng), block_cases(rng),
                      decode_only.cases(rng)):
        run(s, tools, functions[::step])
    run(s, tools, function_cases(s))


harness.session(sys.argv[1], test)
