"""python_meshes.py MPI PACKAGES: arrays on a mesh of processes from Python have the
bytes of those on a mesh of threads, on each rank; a rank that raises ends the job."""

import os
import subprocess
import sys

import launch

PROGRAM = """
import sys
import numpy as np
import nabla as nb

how, size, file, wrong = sys.argv[1:5]
size = int(size)
nb.configure(processes=how == "mpi", cache="", target="x86-64-v3")
if how == "mpi":
    assert nb.rank_count() == size and 0 <= nb.rank() < size
    file += str(nb.rank())
else:
    assert (nb.rank(), nb.rank_count()) == (0, 1)
out = []


def put(array):
    out.append(array.numpy().tobytes())


draw = np.random.default_rng(5).standard_normal
x, w = draw((6, 12)).astype(np.float32), draw((12, 8)).astype(np.float32)
mesh = nb.Mesh("x=%d" % size)
rows, inner = nb.PartitionSpec(mesh, "x", None), nb.PartitionSpec(mesh, None, "x")
a, b = nb.shard(x, inner), nb.shard(w, rows)
put(a @ b)
put(nb.reshard(nb.tanh(a @ b), rows))
piece, _ = nb.read_local(nb.exp(nb.shard(w, rows)), nb.rank())
assert piece.shape == (12 // size, 8)
assert np.allclose(piece, np.exp(w[12 // size * nb.rank():][:12 // size]))


@nb.function
def loss(w, x):
    return nb.tanh(nb.shard(x, inner) @ nb.shard(w, rows)).mean()


step = nb.value_and_grad(loss)
for _ in range(3):
    value, gradient = step(w, x)
    w = (nb.array(w) - gradient * .1).realize()
    put(value)
put(w)
if wrong == "raise" and nb.rank() == size - 1:
    raise ValueError("a rank that fails")
put(nb.shard_map(lambda p: nb.all_mean(p, "x"), x, in_specs=rows,
                 out_specs=nb.PartitionSpec(mesh, None, None)))
packed = nb.quantize_array(draw((8, 128)).astype(np.float32), "nf4")
put(nb.linear(nb.shard(draw((6, 128)).astype(np.float32), rows), packed))
if wrong == "mesh":
    try:
        nb.shard(x, nb.PartitionSpec(nb.Mesh("y=%d" % (2 * size)), "y", None)).numpy()
    except nb.Error as error:
        assert "ranks" in str(error) or "devices" in str(error), error
    else:
        raise AssertionError("a mesh of another size")
with open(file, "wb") as done:
    done.write(b"".join(out))
if wrong == "exit":
    sys.exit(3)
"""


def read(path):
    if not os.path.exists(path):
        return b"none"
    with open(path, "rb") as file:
        return file.read()


def main():
    report = launch.Report()
    mpi, packages = sys.argv[1:3]
    launch.require(report, mpi)
    paths = [packages] + [path for path in sys.path if path]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    command = [sys.executable, "-B", "-c", PROGRAM]
    with launch.Folder() as folder:
        for ranks in 1, 2, 3:
            done = subprocess.run(command + ["threads", str(ranks), "threads", ""],
                                  cwd=folder.path)
            report.check(done.returncode == 0, "%d threads" % ranks)
            want = read(os.path.join(folder.path, "threads"))
            code, _, errors = launch.run(
                mpi, ranks, command + ["mpi", str(ranks), "rank", "mesh"], folder.path)
            report.check(code == 0, "%d ranks: %s %s" % (ranks, code, errors))
            for rank in range(ranks):
                path = os.path.join(folder.path, "rank%d" % rank)
                report.check(read(path) == want, "rank %d of %d: other bytes" % (
                    rank, ranks))
                os.remove(path)
        code, _, errors = launch.run(mpi, 2, command + ["mpi", "2", "rank", "raise"],
                                     folder.path, NABLA_RANK_TIMEOUT="20")
        report.check(code not in (0, None) and "a rank that fails" in errors,
                     "a rank that raises: %s %s" % (code, errors))
        code, _, errors = launch.run(mpi, 2, command + ["mpi", "2", "rank", "exit"],
                                     folder.path)
        report.check(code == 3, "an exit code: %s %s" % (code, errors))
        done = subprocess.run(command + ["mpi", "1", "rank", ""], cwd=folder.path,
                              env=launch.environment(), stderr=subprocess.PIPE,
                              text=True)
        report.check(done.returncode == 1 and "InvalidArgument" in done.stderr,
                     "without a launcher: %s" % done.stderr)
    return report.finish()


sys.exit(main())
