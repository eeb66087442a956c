"""Runs what the documentation shows, as somebody who reads it.

The pages are read in the order in which "Where to read more" of README.md links
to them, README.md first: all blocks of all pages run one after the other, in one
shell's environment and working folder, beginning in a folder with a blank in its
name that holds build/release/bin, as a checkout does after the build. Nothing is
prepared for them: a page makes what it uses, or a page before it has.

A ```c block must compile without warnings, and if it has a main, run; a ```sh
block, and the lines of a ```console block that begin with "$ ", must succeed. An
HTML comment "not run: REASON" above a block exempts it. A page of docs/ that
README.md does not link to may hold no such block. C blocks that include
nabla/compiler.h, and the pages on the compiler, need --compiler, libnabla; without
it they are skipped by name.
"""

import argparse
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile


NEED_COMPILER = ("ARRAYS.md", "BATCHING.md", "COMPILER.md", "ENGINE.md",
                 "EXTENDING.md", "FUNCTIONS.md", "GRADIENTS.md", "SAVED.md",
                 "SHARDING.md", "TRAINING.md")


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


# Keeps variables and the working folder for the next block.
STATE = """
remember() {
  declare -p | grep -Ev "^declare -[a-zA-Z]*r|^declare -[-a-zA-Z]* (BASH|FUNCNAME|PIPESTATUS|DIRSTACK|GROUPS|_=)" >"$READER/variables"
  pwd >"$READER/folder"
}
[ ! -f "$READER/variables" ] || . "$READER/variables"
trap remember EXIT
set -euo pipefail
"""


class Reader:
    """A shell and its folder, and how C is compiled."""

    def __init__(self, options, scratch):
        self.options = options
        self.scratch = scratch
        checkout = scratch / "a checkout"
        (checkout / "build/release").mkdir(parents=True)
        (checkout / "build/release/bin").symlink_to(options.bin)
        (scratch / "folder").write_text(f"{checkout}\n", encoding="utf-8")
        self.environment = dict(os.environ, NO_COLOR="1", READER=str(scratch),
                                TMPDIR=str(scratch),
                                NABLA_CACHE=str(scratch / "cache"))

    def folder(self):
        return (self.scratch / "folder").read_text(encoding="utf-8")[:-1]

    def run(self, command, folder):
        return subprocess.run(
            command, cwd=folder, env=self.environment, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, check=False, timeout=300)

    def run_c(self, text):
        options = self.options
        source = self.scratch / "block.c"
        source.write_text(text, encoding="utf-8")
        command = shlex.split(options.cc) + [
            "-std=c17", "-Wall", "-Wextra", "-Werror",
            "-I", str(options.source / "include"), str(source)]
        if "int main(" not in text:
            return self.run(command + ["-fsyntax-only"], self.scratch)
        if options.sanitize:
            command.append("-fsanitize=" + options.sanitize)
        library = [options.library, "-pthread", "-lm"]
        if "nabla/compiler.h" in text or "nabla/array.h" in text:
            where = os.path.dirname(options.compiler)
            library = [options.compiler, "-Wl,-rpath," + where]
        program = str(self.scratch / "block")
        result = self.run(command + ["-o", program] + library, self.scratch)
        return result if result.returncode else self.run(
            [program], self.folder())

    def run_block(self, language, text):
        if language == "c":
            return self.run_c(text)
        commands = commands_of(language, text)
        if not commands.strip():
            commands = "echo no line begins with '$ '; exit 1"
        script = STATE + commands
        return self.run(["bash", "-c", script], self.folder())


def pages_of(source):
    """README.md, then what its last table links to, then the rest."""
    readme = source / "README.md"
    table = readme.read_text(encoding="utf-8").partition(
        "\n## Where to read more\n")[2].partition("\n## ")[0]
    order = [readme]
    for link in re.findall(r"\]\(([^)#]+\.md)\)", table):
        page = source / link
        if not page.is_file():
            raise SystemExit(f"README.md: {link} does not exist")
        if page not in order:
            order.append(page)
    linked = len(order)
    if linked == 1:
        raise SystemExit("README.md: 'Where to read more' links to no page")
    order += [page for page in sorted((source / "docs").rglob("*.md"))
              if page not in order]
    return order[:linked], order[linked:]


def runnable(page):
    return [block for block in blocks_of(page)
            if block[1] in ("c", "sh", "console")]


def read_page(reader, page):
    """Returns how many blocks ran and how many failed."""
    ran = failed = 0
    name = page.relative_to(reader.options.source)
    for line, language, text, reason in runnable(page):
        if reason:
            print(f"{name}:{line}: not run: {reason}")
            continue
        ran += 1
        result = reader.run_block(language, text)
        if result.returncode:
            failed += 1
            print(f"FAIL: {name}:{line}: exit {result.returncode}\n"
                  f"{text}\n{result.stdout}")
    return ran, failed


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
    linked, others = pages_of(options.source)
    ran = failed = 0
    for page in others:
        for line, *_ in runnable(page):
            failed += 1
            print(f"FAIL: {page.relative_to(options.source)}:{line}: a block on a "
                  "page to which 'Where to read more' of README.md does not link")
    with tempfile.TemporaryDirectory() as scratch:
        reader = Reader(options, pathlib.Path(scratch))
        for page in linked:
            if page.name in NEED_COMPILER and not options.compiler:
                print(f"SKIP: {page.relative_to(options.source)}: this build "
                      "has no compiler")
                continue
            counts = read_page(reader, page)
            ran, failed = ran + counts[0], failed + counts[1]
    print(f"{ran} blocks ran, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
