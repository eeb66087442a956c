"""The tools write and print the same bytes in a process whose locale has a
decimal comma. The locale is compiled by localedef into a scratch folder, and
a preloaded library enters it before main(). Each TEST is a program that passes
there.

usage: locale_test.py --shim LIBRARY --maker MAKE_CHECKPOINT --bin FOLDER [TEST...]
"""
import argparse
import hashlib
import os
import shutil
import subprocess
import sys

from common import Folder, Report

WEIGHTS = {"packed": "!nabla.implicit<64x64xf32, #nabla.nf4<block = 64>>",
           "dense": "tensor<64x64xf32>"}
PROGRAM = """
func.func @main(%x: tensor<3x64xf32>, %w: !w) -> tensor<3x64xf32> {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<3x64xf32>, !w
  %g = nabla.gelu %y : tensor<3x64xf32>
  %e = nabla.exp %g : tensor<3x64xf32>
  %n = nabla.softmax %e dim = 1 : tensor<3x64xf32>
  return %n : tensor<3x64xf32>
}
"""


def digest(folder):
    """Names and hashes of the files in a folder."""
    found = {}
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as opened:
            found[name] = hashlib.sha256(opened.read()).hexdigest()
    return found


def in_locale(folder, shim):
    """The environment of a process with a decimal comma, or why there is none."""
    if not shutil.which("localedef"):
        return None, "no localedef"
    made = subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8",
                           folder / "de_DE.UTF-8"],
                          capture_output=True, text=True, check=False)
    if not os.path.isdir(folder / "de_DE.UTF-8"):
        return None, "localedef: " + made.stderr.strip()[:100]
    # LD_PRELOAD ends a name at a blank
    return {**os.environ, "LOCPATH": folder.path,
            "LD_PRELOAD": os.path.basename(shim),
            "LD_LIBRARY_PATH": os.path.dirname(shim),
            "NABLA_LOCALE": "de_DE.UTF-8"}, None


def cut(value):
    return str(value)[:500]


def run_all(commands, folder, environment):
    """What each command prints, and the files that all of them write."""
    os.mkdir(folder)
    said = {}
    for name, command in commands.items():
        done = subprocess.run([part.replace("OUT", folder) for part in command],
                              env=environment, capture_output=True, check=False)
        said[name] = (done.returncode,
                      done.stdout.decode().replace(folder, "OUT"),
                      done.stderr.decode().replace(folder, "OUT"))
    return said, digest(folder)


def commands_of(tools, folder):
    """Commands of the tools that are built, by name."""
    quant = os.path.join(tools, "nabla-quant")
    commands = {
        "quantize": [quant, "quantize", folder / "model", "-o",
                     "OUT/q.safetensors", "-e", "nf4", "--scale", "dynamic8", "--quiet"],
        "plan": [quant, "plan", folder / "model", "--json"],
        "inspect": [quant, "inspect", "OUT/q.safetensors", "--json"],
        "dequantize": [quant, "dequantize", "OUT/q.safetensors", "-o",
                       "OUT/d.safetensors", "--quiet"],
        "diff": [quant, "diff", folder / "model", "OUT/q.safetensors",
                 "--json"],
    }
    packed, dense = folder / "packed.mlir", folder / "dense.mlir"
    for name, arguments in (("nabla-opt", ["--nabla-cpu", packed]),
                            ("nabla-compile", [packed, "--emit", "llvm", "-o", "OUT/p.ll"]),
                            ("nabla-run", [dense, "-i", "0=random:3x64",
                                           "-i", "1=random:64x64", "--cache", "off",
                                           "-o", "OUT/y.npy"])):
        tool = os.path.join(tools, name)
        if os.access(tool, os.X_OK):
            commands[name] = [tool, *arguments]
    return commands


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shim", required=True)
    parser.add_argument("--maker", required=True)
    parser.add_argument("--bin", required=True)
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    report = Report()
    with Folder() as folder:
        environment, why = in_locale(folder, options.shim)
        if not environment:
            report.skip("locale", why)
            sys.exit(report.finish())
        subprocess.run([options.maker, "--out", folder / "model", "--megabytes", "1"],
                       check=True, capture_output=True)
        for name, weight in WEIGHTS.items():
            with open(folder / (name + ".mlir"), "w", encoding="utf-8") as out:
                out.write(f"!w = {weight}" + PROGRAM)
        commands = commands_of(options.bin, folder)
        point, files = run_all(commands, folder / "point", None)
        comma, comma_files = run_all(commands, folder / "comma", environment)
        for name in commands:
            report.check(point[name][0] in (0, 1), f"{name}: {cut(point[name])}")
            report.check(comma[name] == point[name],
                         f"{name} with a decimal comma: {cut(comma[name])} "
                         f"in place of {cut(point[name])}")
        report.check(files == comma_files, f"files: {comma_files} in place of {files}")
        for test in options.tests:
            done = subprocess.run([test], env=environment, capture_output=True, check=False)
            report.check(done.returncode == 0, f"{test}: {done.stderr.decode()[-2000:]}")
    sys.exit(report.finish())


if __name__ == "__main__":
    main()
