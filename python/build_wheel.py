"""Builds a wheel of Nabla, with Python's standard library alone.

usage: build_wheel.py --package nabla_runtime|nabla --library LIB --source FOLDER
         --out FOLDER [--cc CC] [--strip STRIP] [--extra LIB ...] [--tree]

The package consists of the library, stripped, the modules of python/ and those that
are made from the C headers. The wheel's tag names the glibc that the library needs.
With --tree no wheel is written, but a folder for PYTHONPATH, with a link to the
library.
"""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from generate import bindings, c_headers, elf, operations, wheel  # noqa: E402

LIBRARIES = {"nabla_runtime": ("quant", "runtime"),
             "nabla": ("quant", "runtime", "nabla")}
SUMMARY = {
    "nabla_runtime": "Packed weights of neural networks: quantize, multiply, run",
    "nabla": "Lazy arrays with packed weights as values, compiled with MLIR"}
# Libraries that a glibc system has; others have to be in the wheel.
SYSTEM = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
          "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}


def headers_of(source, package):
    with open(os.path.join(source, "cmake/headers.def"), encoding="utf-8") as file:
        rows = re.findall(r"HEADER\((\S+), *(\w+)\)", file.read())
    # mlir.h is for programs that use MLIR themselves
    return [name for name, library in rows if library in LIBRARIES[package] and
            name.endswith(".h") and name != "mlir.h"]


def version_of(source):
    with open(os.path.join(source, "include/nabla/version.h"),
              encoding="utf-8") as file:
        return ".".join(re.findall(r"VERSION_(?:MAJOR|MINOR|PATCH) (\d+)",
                                   file.read()))


def modules(source, package):
    """The Python files of a package, by their names in it."""
    files = {}
    for folder in ("common", package):
        top = os.path.join(source, "python", folder)
        for name in sorted(os.listdir(top)):
            if name.endswith((".py", ".pyi", ".typed")):
                with open(os.path.join(top, name), "rb") as file:
                    files[name] = file.read()
    return files


def stripped(path, strip):
    with tempfile.TemporaryDirectory() as folder:
        copy = os.path.join(folder, "library.so")
        shutil.copyfile(path, copy)
        if strip:
            subprocess.run([strip, "--strip-all", copy], check=True)
        needs = elf.read(copy)
        with open(copy, "rb") as file:
            return file.read(), needs


def metadata(options, tag):
    name, version = options.package.replace("_", "-"), options.version
    with open(os.path.join(options.source, "python/README.md"),
              encoding="utf-8") as file:
        readme = file.read()
    info = "\n".join([
        "Metadata-Version: 2.1", "Name: " + name, "Version: " + version,
        "Summary: " + SUMMARY[options.package], "License: Apache-2.0",
        "License-File: LICENSE", "Requires-Python: >=3.9", "Requires-Dist: numpy>=1.23",
        "Classifier: Operating System :: POSIX :: Linux", "Classifier: Typing :: Typed",
        "Description-Content-Type: text/markdown", "", readme])
    how = "\n".join(["Wheel-Version: 1.0", "Generator: nabla", "Root-Is-Purelib: false",
                     "Tag: " + tag, ""])
    with open(os.path.join(options.source, "LICENSE"), "rb") as file:
        licence = file.read()
    files = {}
    if options.package == "nabla":
        with open(os.path.join(options.source, "python/NOTICE"), "rb") as file:
            files["NOTICE"] = file.read()
    return {**files, "METADATA": info.encode(), "WHEEL": how.encode(), "LICENSE": licence,
            "top_level.txt": (options.package + "\n").encode()}


def add_libraries(options, files):
    """Adds the library and what it needs. Returns the tag of the wheel."""
    data, needs = stripped(options.library, options.strip)
    files["libnabla.so"] = data
    glibc, extra = needs.glibc, {}
    for path in options.extra:
        extra[os.path.basename(path)], more = stripped(path, None)
        glibc = max(glibc, more.glibc)
    missing = set(needs.libraries) - SYSTEM - set(extra)
    if missing:
        raise SystemExit("%s needs %s" % (options.library, ", ".join(sorted(missing))))
    files.update({name: data for name, data in extra.items()
                  if name in needs.libraries})
    return "py3-none-manylinux_%d_%d_%s" % (glibc + (needs.machine,))


def build(options):
    options.version = version_of(options.source)
    files = modules(options.source, options.package)
    include = os.path.join(options.source, "include")
    headers = c_headers.read(options.cc, include,
                             headers_of(options.source, options.package))
    files["_c.py"] = bindings.text(headers).encode()
    files["py.typed"] = b""
    if options.package == "nabla":
        files["_operations.py"] = operations.text(headers, options.source).encode()
        files["__init__.py"] = files["__init__.py"].replace(
            b"OPERATIONS", operations.imports(options.source).encode())
    os.makedirs(options.out, exist_ok=True)
    if options.tree:
        write_tree(options, files)
    else:
        write_wheel(options, files)


def write_tree(options, files):
    folder = os.path.join(options.out, options.package)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for path, data in files.items():
        with open(os.path.join(folder, path), "wb") as file:
            file.write(data)
    os.symlink(os.path.abspath(options.library), os.path.join(folder, "libnabla.so"))


def write_wheel(options, files):
    name = options.package
    tag = add_libraries(options, files)
    tree = {"%s/%s" % (name, path): data for path, data in files.items()}
    info = "%s-%s.dist-info" % (name, options.version)
    for path, data in metadata(options, tag).items():
        tree["%s/%s" % (info, path)] = data
    for old in os.listdir(options.out):
        if old.startswith(name + "-") and old.endswith(".whl"):
            os.remove(os.path.join(options.out, old))
    path = os.path.join(options.out, "%s-%s-%s.whl" % (name, options.version, tag))
    wheel.write(path, tree, info)
    print("%s: %.1f MB, library %.1f MB" % (
        os.path.basename(path), os.path.getsize(path) / 1e6,
        len(files["libnabla.so"]) / 1e6))


def main():
    parser = argparse.ArgumentParser()
    for flag in ("--package", "--library", "--source", "--out"):
        parser.add_argument(flag, required=True)
    parser.add_argument("--tree", action="store_true")
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--strip", default="strip")
    parser.add_argument("--extra", action="append", default=[])
    build(parser.parse_args())


main()
