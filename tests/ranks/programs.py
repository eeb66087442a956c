"""programs.py MPI BIN: nabla-run under mpirun gives the bytes of nabla-run
--ranks, rank 0 alone prints and writes, and what is refused."""

import filecmp
import os
import subprocess
import sys

import launch

LAYER = """
func.func @layer(%x: tensor<4x64xf32> {nabla.name = "x"},
    %up: tensor<256x64xf32> {nabla.name = "up"},
    %down: tensor<64x256xf32> {nabla.name = "down"}) -> tensor<4x64xf32> {
  %h = nabla.linear %x, %up : tensor<4x64xf32>, tensor<256x64xf32>
  %s = nabla.silu %h : tensor<4x256xf32>
  %y = nabla.linear %s, %down : tensor<4x256xf32>, tensor<64x256xf32>
  return %y : tensor<4x64xf32>
}
"""
INPUTS = ["-i", "x=random:4x64", "-i", "up=random:256x64",
          "-i", "down=random:64x256"]
# up across rows, down along rows: the MLP of Megatron
SHARDS = ["--shard", 'up=[{"model"}, {}]', "--shard", 'down=[{}, {"model"}]']


class Tests:
    def __init__(self, report, mpi, tools, folder):
        self.report, self.mpi, self.folder = report, mpi, folder
        self.run = os.path.join(tools, "nabla-run")
        self.compile = os.path.join(tools, "nabla-compile")

    def path(self, name):
        return os.path.join(self.folder, name)

    def same(self, one, other, what):
        self.report.check(os.path.exists(self.path(other)) and filecmp.cmp(
            self.path(one), self.path(other), shallow=False),
            "%s: other bytes" % what)

    def make(self, ranks):
        with open(self.path("layer.mlir"), "w", encoding="utf-8") as file:
            file.write(LAYER)
        name = "layer%d.so" % ranks
        subprocess.run([self.compile, "layer.mlir", "--mesh",
                        "model=%d" % ranks, "-o", name] + SHARDS,
                       cwd=self.folder, check=True)
        return name

    def layer(self, ranks):
        name = self.make(ranks)
        subprocess.run([self.run, name, "--ranks", str(ranks), "-o", "t.npy"] +
                       INPUTS, cwd=self.folder, check=True)
        code, out, errors = launch.run(
            self.mpi, ranks,
            [self.run, name, "-o", "p.npy", "--expect", "t.npy"] + INPUTS,
            self.folder)
        self.report.check(code == 0 and errors == "" and
                          out.count("t.npy: ok") == 1,
                          "layer: %s %s %s" % (code, out, errors))
        self.same("t.npy", "p.npy", "layer on %d ranks" % ranks)

    def refused(self, ranks, words, text, **more):
        code, out, errors = launch.run(self.mpi, ranks, [self.run] + words,
                                       self.folder, **more)
        self.report.check(code and text in errors,
                          "'%s' is not in %s: %s" % (text, code, errors))

    def refusals(self):
        self.refused(2, ["layer4.so", "-o", "no.npy"] + INPUTS,
                     "is for 4 ranks, the communicator has 2")
        self.refused(2, ["layer2.so", "--ranks", "2"] + INPUTS,
                     "mpirun has started this process as a rank")
        self.refused(2, ["layer2.so", "-o", "no.npy"], "is not given")
        self.report.check(not os.path.exists(self.path("no.npy")),
                          "a refused run wrote its output")


def main():
    report = launch.Report()
    mpi, tools = sys.argv[1:3]
    launch.require(report, mpi)
    with launch.Folder() as folder:
        tests = Tests(report, mpi, tools, folder.path)
        for ranks in 2, 4:
            tests.layer(ranks)
        tests.refusals()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
