"""Runs a module of tests of the Python packages, in a Python that has NumPy.

usage: run.py MODULE PACKAGES_FOLDER [--program FILE] [--package NAME]
         [--peers NAMES]; exit 77 without what it needs

--peers: runs it with the Python of scripts/peers torch, or this one, for each of the
names (torch, jax) that is there."""
import argparse
import os
import subprocess
import sys

parser = argparse.ArgumentParser()
parser.add_argument("module")
parser.add_argument("packages")
parser.add_argument("--program", default="")
parser.add_argument("--package", default="nabla")
parser.add_argument("--peers", default="")
options = parser.parse_args()
folder = os.path.dirname(os.path.abspath(__file__))
environment = dict(os.environ, NABLA_CACHE="", NABLA_TEST_PROGRAM=options.program,
                   NABLA_PYTHON_PACKAGE=options.package,
                   PYTHONPATH=os.path.abspath(options.packages),
                   PYTHONDONTWRITEBYTECODE="1")


def has(python, *modules):
    return subprocess.run([python, "-c", "import " + ", ".join(modules)],
                          capture_output=True, check=False).returncode == 0


def run(python, **more):
    return subprocess.run([python, "-m", "unittest", options.module], cwd=folder,
                          env=dict(environment, **more), check=False).returncode


def main():
    if not options.peers:
        if not has(sys.executable, "numpy"):
            print("skipped: no NumPy")
            return 77
        return run(sys.executable)
    peers = os.environ.get("NABLA_PEERS") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
        "nabla-peers")
    pythons = [os.path.join(peers, "torch/bin/python3"), sys.executable]
    done = []
    for name in options.peers.split(","):
        for python in pythons:
            try:
                found = has(python, "numpy", name)
            except OSError:
                found = False
            if found:
                if run(python, NABLA_PYTHON_PEERS=name):
                    return 1
                done.append(name)
                break
        else:
            print("skipped: no Python with %s" % name)
    return 0 if done else 77


sys.exit(main())
