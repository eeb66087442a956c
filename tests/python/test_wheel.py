"""A wheel is what its RECORD says, has the same bytes when it is built again, and needs
no library that a glibc system lacks.

usage: test_wheel.py SOURCE_FOLDER LIBRARY CC STRIP"""
import base64
import csv
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import zipfile

source, library, compiler, strip = sys.argv[1:]


def build(folder):
    subprocess.run([sys.executable, "-B", os.path.join(source, "python/build_wheel.py"),
                    "--package", "nabla_runtime", "--library", library, "--source",
                    source, "--out", folder, "--cc", compiler, "--strip", strip],
                   check=True, stdout=subprocess.DEVNULL)
    name, = os.listdir(folder)
    with open(os.path.join(folder, name), "rb") as file:
        return name, file.read()


with tempfile.TemporaryDirectory() as first, tempfile.TemporaryDirectory() as second:
    name, data = build(first)
    assert (name, data) == build(second), "another wheel"
    assert re.fullmatch(r"nabla_runtime-[\d.]+-py3-none-manylinux_2_\d+_\w+\.whl",
                        name), name
    assert len(data) <= 5000000, len(data)
    with zipfile.ZipFile(os.path.join(first, name)) as wheel:
        info = "-".join(name.split("-")[:2]) + ".dist-info/"
        rows = list(csv.reader(wheel.read(info + "RECORD").decode().splitlines()))
        assert sorted(r[0] for r in rows) == sorted(wheel.namelist())
        for path, digest, size in rows:
            if path == info + "RECORD":
                assert not digest and not size
                continue
            content = wheel.read(path)
            want = base64.urlsafe_b64encode(hashlib.sha256(content).digest())
            assert digest == "sha256=" + want.rstrip(b"=").decode(), path
            assert int(size) == len(content), path
        tag = re.search(r"Tag: (\S+)", wheel.read(info + "WHEEL").decode())[1]
        assert name.endswith("-%s.whl" % tag), tag
        assert "nabla_runtime/py.typed" in wheel.namelist()
        assert b"Requires-Dist: numpy" in wheel.read(info + "METADATA")
print("%s: %d bytes" % (name, len(data)))
