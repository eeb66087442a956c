"""decoder.py MPI BIN DECODE SOURCE: 200 greedy tokens of stories260K, dense and
packed in nf4, on 2 and 4 processes are those of the program that is not divided
and of ranks of threads."""

import os
import shutil
import subprocess
import sys

import launch

SHARDS = ["--shard", '*.q_proj.weight=[{"model"}, {}]',
          "--shard", '*.gate_proj.weight=[{"model"}, {}]']


def tokens(report, what, code, out, errors):
    lines = out.splitlines()
    report.check(code == 0 and len(lines) == 1 and len(lines[0].split()) == 201,
                 "%s: %s %s" % (what, code, errors))
    return lines


def check(report, arguments, folder, model):
    mpi, tools, decode = arguments

    def run(*command):
        return subprocess.run(command, cwd=folder, check=True,
                              capture_output=True, text=True)

    run(os.path.join(tools, "llama"), model, "--ids", "1", "-n", "1", "--text",
        "decoder.mlir")
    compiled = os.path.join(tools, "nabla-compile")
    run(compiled, "decoder.mlir", "-o", "d1.so")
    done = run(decode, "threads", "1", "d1.so", model)
    want = tokens(report, "one rank", 0, done.stdout, done.stderr)
    for ranks in 2, 4:
        name = "d%d.so" % ranks
        run(compiled, "decoder.mlir", "--mesh", "model=%d" % ranks, "-o", name,
            *SHARDS)
        done = run(decode, "threads", str(ranks), name, model)
        got = tokens(report, "threads", 0, done.stdout, done.stderr)
        report.check(got == want, "%d threads: other tokens" % ranks)
        got = tokens(report, mpi, *launch.run(
            mpi, ranks, [decode, "mpi", name, model], folder))
        report.check(got == want, "%d processes: other tokens" % ranks)
        got = launch.run(mpi, ranks, [
            os.path.join(tools, "llama"), model, "--ids", "1", "-n", "200",
            "--mesh", "model=%d" % ranks], folder)
        report.check(got[0] == 0 and got[1].split() == want[0].split(),
                     "llama --mesh, %d processes: %s" % (ranks, got))


def main():
    report = launch.Report()
    arguments, source = sys.argv[1:4], sys.argv[4]
    launch.require(report, arguments[0])
    models = os.environ.get("NABLA_MODELS",
                            os.path.join(source, "..", "shared", "models"))
    dense = os.path.join(models, "stories260K", "stories260K-f32.safetensors")
    if not os.path.exists(dense):
        report.skip("stories260K", "not in $NABLA_MODELS")
        return report.finish()
    with launch.Folder() as folder:
        check(report, arguments, folder.path, dense)
        packed = os.path.join(folder.path, "packed.safetensors")
        subprocess.run([os.path.join(arguments[1], "nabla-quant"), "quantize",
                        dense, "-o", packed, "-e", "nf4", "--only",
                        "_proj|lm_head|embed_tokens"],
                       check=True, capture_output=True)
        shutil.copy(os.path.join(os.path.dirname(dense), "config.json"),
                    folder.path)
        check(report, arguments, folder.path, packed)
    return report.finish()


sys.exit(main())
