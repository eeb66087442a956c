// What nabla-auto-shard refuses: options, files, modules without a mesh, and
// limits that cannot be kept.
// RUN: split-file "%s" "%t.d"
// RUN: not nabla-opt "%t.d/one.mlir" --nabla-auto-shard=memory=much 2>&1 | FileCheck "%s" --check-prefix=MEMORY
// RUN: not nabla-opt "%t.d/one.mlir" --nabla-auto-shard=memory=0 2>&1 | FileCheck "%s" --check-prefix=MEMORY
// RUN: not nabla-opt "%t.d/one.mlir" --nabla-auto-shard=memory=511 2>&1 | FileCheck "%s" --check-prefix=SMALL
// RUN: nabla-opt "%t.d/one.mlir" --nabla-auto-shard=memory=512 -o /dev/null
// RUN: not nabla-opt "%t.d/one.mlir" --nabla-auto-shard='machine="%t.d/none.json"' 2>&1 | FileCheck "%s" --check-prefix=NONE
// RUN: not nabla-opt "%t.d/one.mlir" --nabla-auto-shard='machine="%t.d/other.json"' 2>&1 | FileCheck "%s" --check-prefix=OTHER
// RUN: not nabla-opt "%t.d/one.mlir" --nabla-auto-shard='machine="%t.d/axis.json"' 2>&1 | FileCheck "%s" --check-prefix=AXIS
// RUN: not nabla-opt "%t.d/one.mlir" --nabla-auto-shard='machine="%t.d/cut.json"' 2>&1 | FileCheck "%s" --check-prefix=CUT
// RUN: not nabla-opt "%t.d/one.mlir" --nabla-auto-shard='dump="%t.d/none/plan.json"' 2>&1 | FileCheck "%s" --check-prefix=DUMP
// RUN: not nabla-opt "%t.d/meshless.mlir" --nabla-auto-shard 2>&1 | FileCheck "%s" --check-prefix=MESH
// RUN: nabla-opt "%t.d/one.mlir" --nabla-auto-shard='machine="%t.d/good.json"' -o /dev/null

// MEMORY: memory is a number of bytes, or of KiB, MiB, GiB or TiB, such as 16GiB, not
// SMALL: a run takes 512 bytes of each device in the smallest division that was found, more than memory=511
// NONE: nabla-auto-shard: machine '{{.*}}none.json'
// OTHER: nabla-machine/1 has no 'speed'
// AXIS: an axis has a name, a bandwidth of at least 1 and a latency
// CUT: nabla-auto-shard: machine '{{.*}}cut.json'
// DUMP: nabla-auto-shard: dump '{{.*}}plan.json'
// MESH: nabla-auto-shard: the module has no nabla.mesh

//--- one.mlir
nabla.mesh @m <["a"=2]>
func.func @f(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %y = nabla.exp %x : tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
//--- meshless.mlir
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}
//--- other.json
{"schema": "nabla-machine/1", "speed": 3}
//--- axis.json
{"schema": "nabla-machine/1", "axes": [{"name": "a", "bandwidth": 0, "latency": 1}]}
//--- cut.json
{"schema": "nabla-machine/1", "axes": [
//--- good.json
{"schema": "nabla-machine/1", "operations_per_second": 1e12, "bytes_per_second": 5e10,
 "axes": [{"name": "a", "bandwidth": 1e9, "latency": 1e-5}, {"name": "other", "bandwidth": 1, "latency": 0}]}
