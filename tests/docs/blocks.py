"""Runs what the documentation shows.

In README.md, CONTRIBUTING.md and docs/: a ```c block must compile without
warnings, and if it has a main, run; a ```sh block, and the lines of a
```console block that begin with "$ ", must succeed. Blocks of a page run in
order in one scratch folder, which holds `model` (two shards with an index) and
has the tool and make_checkpoint on its PATH. An HTML comment "not run: REASON"
above a block exempts it. C blocks that include nabla/compiler.h, and the pages
on the compiler, need --compiler, libnabla; without it they are skipped by name.
"""

import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile


NEED_COMPILER = ("COMPILER.md", "EXTENDING.md", "SAVED.md")

def blocks_of(page):
    """Yields (line number, language, text, reason not to run or None)."""
    lines = page.read_text(encoding="utf-8").split("\n")
    reason = language = None
    body, start = [], 0
    for number, line in enumerate(lines, 1):
        fence = re.match(r"^```(\w*)\s*$", line)
        if language is not None:
            if fence:
                yield start, language, "\n".join(body) + "\n", reason
                language = reason = None
            else:
                body.append(line)
        elif fence:
            language, body, start = fence.group(1), [], number
        elif line.strip():
            exempt = re.match(r"^<!-- not run: (.+) -->$", line)
            reason = exempt.group(1) if exempt else None
    if language is not None:
        raise SystemExit(f"{page}:{start}: the block does not end")


def commands_of(language, text):
    if language == "sh":
        return text
    lines, more = [], False
    for line in text.split("\n"):
        if more or line.startswith("$ "):
            lines.append(line if more else line[2:])
            more = line.endswith("\\")
    return "\n".join(lines) + "\n"


class Runner:
    def __init__(self, options):
        self.options = options
        self.environment = dict(os.environ, NO_COLOR="1")
        self.environment["PATH"] = (
            options.bin + os.pathsep + self.environment["PATH"])

    def run(self, command, folder):
        return subprocess.run(
            command, cwd=folder, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False, timeout=300)

    def run_c(self, text, folder):
        options = self.options
        source = pathlib.Path(folder, "block.c")
        source.write_text(text, encoding="utf-8")
        command = shlex.split(options.cc) + [
            "-std=c17", "-Wall", "-Wextra", "-Werror",
            "-I", str(options.source / "include"), "block.c"]
        if "int main(" not in text:
            return self.run(command + ["-fsyntax-only"], folder)
        if options.sanitize:
            command.append("-fsanitize=" + options.sanitize)
        library = [options.library, "-pthread", "-lm"]
        if "nabla/compiler.h" in text:
            where = os.path.dirname(options.compiler)
            library = [options.compiler, "-Wl,-rpath," + where]
        command += ["-o", "block"] + library
        result = self.run(command, folder)
        return result if result.returncode else self.run(["./block"], folder)

    def run_block(self, language, text, folder):
        if language == "c":
            return self.run_c(text, folder)
        script = commands_of(language, text)
        return self.run(["bash", "-euo", "pipefail", "-c", script], folder)

    def make_model(self, folder):
        result = self.run(
            ["make_checkpoint", "--out", "model", "--megabytes", "2",
             "--shards", "2"], folder)
        if result.returncode:
            raise SystemExit("make_checkpoint failed:\n" + result.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--bin", required=True)
    parser.add_argument("--library", required=True)
    parser.add_argument("--compiler", default="")
    parser.add_argument("--cc", required=True)
    parser.add_argument("--sanitize", default="")
    options = parser.parse_args()
    options.source = options.source.resolve()
    options.bin = os.path.abspath(options.bin)
    options.library = os.path.abspath(options.library)
    if options.compiler:
        options.compiler = os.path.abspath(options.compiler)
    runner = Runner(options)
    pages = [options.source / "README.md", options.source / "CONTRIBUTING.md"]
    pages += sorted((options.source / "docs").rglob("*.md"))
    ran = failed = 0
    for page in pages:
        name = page.relative_to(options.source)
        if page.name in NEED_COMPILER and not options.compiler:
            print(f"SKIP: {name}: this build has no compiler")
            continue
        with tempfile.TemporaryDirectory() as folder:
            runner.make_model(folder)
            for line, language, text, reason in blocks_of(page):
                if language not in ("c", "sh", "console"):
                    continue
                if reason:
                    print(f"{name}:{line}: not run: {reason}")
                    continue
                ran += 1
                result = runner.run_block(language, text, folder)
                if result.returncode:
                    failed += 1
                    print(f"FAIL: {name}:{line}: exit {result.returncode}\n"
                          f"{text}\n{result.stdout}")
    print(f"{ran} blocks ran, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
