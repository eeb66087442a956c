"""programs.py MPI BIN: nabla-run under mpirun gives the bytes of nabla-run
--ranks, rank 0 alone prints and writes, and what is refused."""

import array
import filecmp
import json
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


# a packed weight whose rows are divided: 4 blocks each
PRODUCT = """
func.func @product(%x: tensor<3x256xf32> {nabla.name = "x"},
    %w: !nabla.implicit<64x256xf32, #nabla.nf4<block = 64>>
      {nabla.name = "proj.weight"}) -> tensor<3x64xf32> {
  %y = nabla.linear %x, %w : tensor<3x256xf32>,
    !nabla.implicit<64x256xf32, #nabla.nf4<block = 64>>
  return %y : tensor<3x64xf32>
}
"""


def write_weight(path):
    """A tensor of 64 x 256 in f32, as safetensors."""
    numbers = array.array("f", ((i * 7919 % 2003 - 1001) / 1001
                                for i in range(64 * 256)))
    header = json.dumps({"proj.weight": {"dtype": "F32", "shape": [64, 256],
                               "data_offsets": [0, 64 * 256 * 4]}}).encode()
    with open(path, "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header +
                   numbers.tobytes())

# places of the mesh in an order that is not that of ranks, and along one axis
# alone: each exchange has some of the ranks
PLACED = """
nabla.mesh @m <["data"=2, "model"=2]> {devices = [2, 0, 3, 1]}
func.func @placed(%x: tensor<4x64xf32> {nabla.name = "x",
      nabla.sharding = #nabla.sharding<@m, [{"data"}, {"model"}]>},
    %w: tensor<64x64xf32> {nabla.name = "w",
      nabla.sharding = #nabla.sharding<@m, [{}, {"model"}]>})
    -> tensor<4x64xf32> {
  %y = nabla.linear %x, %w : tensor<4x64xf32>, tensor<64x64xf32>
  return %y : tensor<4x64xf32>
}
"""


class Tests:
    def __init__(self, report, mpi, tools, folder):
        self.report, self.mpi, self.folder = report, mpi, folder
        self.run = os.path.join(tools, "nabla-run")
        self.compile = os.path.join(tools, "nabla-compile")
        self.quant = os.path.join(tools, "nabla-quant")

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

    def product(self, ranks):
        """The contraction is divided: each rank joins half, or a quarter."""
        with open(self.path("product.mlir"), "w", encoding="utf-8") as file:
            file.write(PRODUCT)
        if not os.path.exists(self.path("packed.safetensors")):
            write_weight(self.path("w.safetensors"))
            subprocess.run([self.quant, "quantize", "w.safetensors",
                            "-o", "packed.safetensors", "-e", "nf4",
                            "--block", "64"],
                           cwd=self.folder, check=True, capture_output=True)
        inputs = ["--bind-all", "packed.safetensors", "-i", "x=random:3x256"]
        subprocess.run([self.run, "product.mlir", "-o", "whole.npy"] + inputs,
                       cwd=self.folder, check=True)
        subprocess.run([self.compile, "product.mlir", "--mesh",
                        "model=%d" % ranks, "--shard", 'proj.weight=[{}, {"model"}]',
                        "-o", "product.so"], cwd=self.folder, check=True)
        subprocess.run([self.run, "product.so", "--ranks", str(ranks), "-o",
                        "t.npy", "--expect", "whole.npy", "--tolerance", "1e-6"]
                       + inputs, cwd=self.folder, check=True,
                       stdout=subprocess.DEVNULL)
        code, _, errors = launch.run(
            self.mpi, ranks, [self.run, "product.so", "-o", "p.npy"] + inputs,
            self.folder)
        self.report.check(code == 0, "product: %s %s" % (code, errors))
        self.same("t.npy", "p.npy", "product on %d ranks" % ranks)
        os.remove(self.path("p.npy"))

    def placed(self):
        """The members of an exchange are ranks, not places of the mesh."""
        with open(self.path("placed.mlir"), "w", encoding="utf-8") as file:
            file.write(PLACED)
        whole = "".join(line for line in PLACED.splitlines(True)
                        if "nabla.mesh" not in line)
        for text in 'nabla.sharding = #nabla.sharding<@m, [{"data"}, {"model"}]>', \
                'nabla.sharding = #nabla.sharding<@m, [{}, {"model"}]>':
            whole = whole.replace(",\n      " + text, "")
        with open(self.path("whole.mlir"), "w", encoding="utf-8") as file:
            file.write(whole)
        inputs = ["-i", "x=random:4x64", "-i", "w=random:64x64"]
        subprocess.run([self.run, "whole.mlir", "-o", "whole.npy"] + inputs,
                       cwd=self.folder, check=True)
        subprocess.run([self.run, "placed.mlir", "--ranks", "4", "-o", "t.npy",
                        "--expect", "whole.npy", "--tolerance", "1e-5"] + inputs,
                       cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        code, _, errors = launch.run(
            self.mpi, 4, [self.run, "placed.mlir", "-o", "p.npy"] + inputs,
            self.folder)
        self.report.check(code == 0, "placed: %s %s" % (code, errors))
        self.same("t.npy", "p.npy", "places in another order")

    def refused(self, ranks, words, text, **more):
        code, out, errors = launch.run(self.mpi, ranks, [self.run] + words,
                                       self.folder, **more)
        self.report.check(code and text in errors,
                          "'%s' is not in %s: %s" % (text, code, errors))

    def refusals(self):
        self.refused(2, ["layer4.so", "-o", "no.npy"] + INPUTS,
                     "is for 4 ranks, the communicator has 2")
        self.refused(2, ["layer.mlir", "-o", "no.npy"] + INPUTS,
                     "the program is not divided: it is for one rank, the "
                     "communicator has 2; compile it with --mesh")
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
            tests.product(ranks)
        tests.placed()
        tests.refusals()
    return report.finish()


if __name__ == "__main__":
    sys.exit(main())
