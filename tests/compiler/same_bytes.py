"""Programs compile to the same bytes each time, wherever the compiler's values
lie in memory: those of the FileCheck tests that compile, a tenth of them where
NABLA_TEST_SLICE says which. Other thresholds of malloc put blocks in another
order of addresses, as address randomization does by chance."""
import glob
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "support"))
from slices import SLICES, slice_number  # noqa: E402

# Blocks of this many bytes or more are mapped, each below the one before; small
# ones are not given out again in the order of a cache.
LAYOUTS = ("glibc.malloc.mmap_threshold=160", "glibc.malloc.tcache_count=0")


def programs(folder):
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.mlir"),
                                 recursive=True)):
        with open(path, encoding="utf-8") as file:
            parts = re.split(r"^// -----.*$", file.read(), flags=re.M)
        for number, text in enumerate(parts):
            yield "%s, part %d" % (os.path.relpath(path, folder), number), text


def compiled(compiler, source, layout):
    """What a program becomes; None if it is refused."""
    done = subprocess.run(
        [compiler, source, "--emit", "llvm", "--policy", "off"],
        env=dict(os.environ, GLIBC_TUNABLES=layout), capture_output=True,
        check=False)
    return None if done.returncode else done.stdout


def main():
    compiler, folder = sys.argv[1:]
    number = slice_number()
    count, failures = 0, 0
    with tempfile.TemporaryDirectory() as work:
        os.environ["NABLA_CACHE"] = os.path.join(work, "cache")
        source = os.path.join(work, "program.mlir")
        for i, (name, text) in enumerate(programs(folder)):
            if number not in (None, "all") and i % SLICES != number:
                continue
            with open(source, "w", encoding="utf-8") as file:
                file.write(text)
            first = compiled(compiler, source, "")
            if first is None:
                continue
            count += 1
            for layout in LAYOUTS:
                if compiled(compiler, source, layout) != first:
                    failures += 1
                    print("FAILED: %s: other bytes with %s" % (name, layout))
    print("%d programs, %d differ" % (count, failures))
    return 1 if failures or count < 10 else 0


if __name__ == "__main__":
    sys.exit(main())
