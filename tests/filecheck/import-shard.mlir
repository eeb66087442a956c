// The dialect shard of MLIR as shardings; what follows from them is divided.
// RUN: split-file "%s" "%t.d"
// RUN: nabla-opt "%t.d/good.mlir" --nabla-import-shard | FileCheck "%s" --implicit-check-not=shard.
// RUN: nabla-opt "%t.d/good.mlir" --nabla-import-shard --nabla-propagate-sharding --nabla-partition | FileCheck "%s" --check-prefix=LOCAL
// What is not of the dialect stays.
// RUN: nabla-opt "%t.d/other.mlir" --nabla-import-shard | FileCheck "%s" --check-prefix=OTHER
// RUN: not nabla-opt "%t.d/unknown.mlir" --nabla-import-shard 2>&1 | FileCheck "%s" --check-prefix=UNKNOWN
// RUN: not nabla-opt "%t.d/halo.mlir" --nabla-import-shard 2>&1 | FileCheck "%s" --check-prefix=HALO
// RUN: not nabla-opt "%t.d/offsets.mlir" --nabla-import-shard 2>&1 | FileCheck "%s" --check-prefix=HALO
// RUN: not nabla-opt "%t.d/collective.mlir" --nabla-import-shard 2>&1 | FileCheck "%s" --check-prefix=COLLECTIVE
// RUN: not nabla-opt "%t.d/argument.mlir" --nabla-import-shard 2>&1 | FileCheck "%s" --check-prefix=ARGUMENT
// RUN: not nabla-opt "%t.d/used.mlir" --nabla-import-shard 2>&1 | FileCheck "%s" --check-prefix=USED
// RUN: not nabla-opt "%t.d/rank.mlir" --nabla-import-shard 2>&1 | FileCheck "%s" --check-prefix=RANK
// RUN: not nabla-opt "%t.d/axes.mlir" --nabla-import-shard 2>&1 | FileCheck "%s" --check-prefix=AXES
// RUN: not nabla-opt "%t.d/name.mlir" --nabla-import-shard 2>&1 | FileCheck "%s" --check-prefix=NAME
// RUN: not nabla-opt "%t.d/empty.mlir" --nabla-import-shard 2>&1 | FileCheck "%s" --check-prefix=NAME
// RUN: not nabla-opt "%t.d/huge.mlir" --nabla-import-shard 2>&1 | FileCheck "%s" --check-prefix=HUGE

// NAME: 'shard.sharding' op has a grid whose name no mesh has
// HUGE: 'nabla.mesh' op has more than 1048576 devices
// UNKNOWN: 'shard.grid' op has an axis whose size is not known
// HALO: 'shard.sharding' op has halos or offsets
// COLLECTIVE: 'shard.all_reduce' op is not imported
// ARGUMENT: 'shard.shard' op takes no sharding that a shard.sharding makes
// USED: 'shard.sharding' op is used by another operation than shard.shard
// RANK: 'shard.shard' op has a sharding of more dimensions than the array
// AXES: 'shard.grid' op has more axes than a nabla.mesh

//--- good.mlir
// CHECK: nabla.mesh @grid <["axis0"=2, "axis1"=4]>
shard.grid @grid(shape = 2x4)
// CHECK-LABEL: func.func @f
// LOCAL-LABEL: func.func @f
func.func @f(%x: tensor<8x16xf32>, %w: tensor<32x16xf32>) -> tensor<8x32xf32> {
  // the axis of the contraction: pieces are summed
  // CHECK: nabla.sharding_constraint %{{.*}} : tensor<8x16xf32> sharding = #nabla.sharding<@grid, [{"axis0"}, {"axis1"}]>
  %s = shard.sharding @grid split_axes = [[0], [1]] : !shard.sharding
  %a = shard.shard %x to %s : tensor<8x16xf32>
  // a sharding that ends early leaves the rest whole, an axis may be of two
  // CHECK: nabla.sharding_constraint %{{.*}} : tensor<32x16xf32> sharding = #nabla.sharding<@grid, [{}, {"axis1"}]>
  %t = shard.sharding @grid split_axes = [[], [1]] : !shard.sharding
  %b = shard.shard %w to %t annotate_for_users : tensor<32x16xf32>
  %y = nabla.linear %a, %b : tensor<8x16xf32>, tensor<32x16xf32>
  // CHECK: nabla.sharding_constraint %{{.*}} : tensor<8x32xf32> sharding = #nabla.sharding<@grid, [{"axis0"}, {}]>
  // LOCAL: nabla.linear %{{.*}}, %{{.*}} : tensor<4x4xf32>, tensor<32x4xf32>
  // LOCAL: nabla.all_reduce sum %{{.*}} axes = ["axis1"] : tensor<4x32xf32>
  %u = shard.sharding @grid split_axes = [[0]] : !shard.sharding
  %c = shard.shard %y to %u : tensor<8x32xf32>
  // for its users it is divided otherwise
  // CHECK: nabla.sharding_constraint %{{.*}} : tensor<8x32xf32> sharding = #nabla.sharding<@grid, [{"axis1", "axis0"}, {}]>
  %v = shard.sharding @grid split_axes = [[1, 0], []] : !shard.sharding
  %d = shard.shard %c to %v annotate_for_users : tensor<8x32xf32>
  // LOCAL: nabla.exp %{{.*}} : tensor<1x32xf32>
  %e = nabla.exp %d : tensor<8x32xf32>
  return %e : tensor<8x32xf32>
}
//--- other.mlir
// OTHER: nabla.mesh @m <["a"=2]>
// OTHER: nabla.exp %{{.*}} {nabla.shardings = [#nabla.sharding<@m, [{"a"}]>]} : tensor<8xf32>
// OTHER-NOT: nabla.sharding_constraint
nabla.mesh @m <["a"=2]>
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = nabla.exp %x {nabla.shardings = [#nabla.sharding<@m, [{"a"}]>]} : tensor<8xf32>
  return %y : tensor<8xf32>
}
//--- unknown.mlir
shard.grid @grid(shape = 2x?)
//--- axes.mlir
shard.grid @grid(shape = 1x1x1x1x1x1x1x1x1)
//--- halo.mlir
shard.grid @grid(shape = 2)
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = shard.sharding @grid split_axes = [[0]] halo_sizes = [1, 1] : !shard.sharding
  %y = shard.shard %x to %s : tensor<8xf32>
  return %y : tensor<8xf32>
}
//--- offsets.mlir
shard.grid @grid(shape = 2)
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = shard.sharding @grid split_axes = [[0]] sharded_dims_offsets = [0, 3, 8] : !shard.sharding
  %y = shard.shard %x to %s : tensor<8xf32>
  return %y : tensor<8xf32>
}
//--- collective.mlir
shard.grid @grid(shape = 2)
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = shard.all_reduce %x on @grid grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
  return %y : tensor<8xf32>
}
//--- argument.mlir
func.func @f(%x: tensor<8xf32>, %s: !shard.sharding) -> tensor<8xf32> {
  %y = shard.shard %x to %s : tensor<8xf32>
  return %y : tensor<8xf32>
}
//--- used.mlir
shard.grid @grid(shape = 2)
func.func @f() -> !shard.sharding {
  %s = shard.sharding @grid split_axes = [[0]] : !shard.sharding
  return %s : !shard.sharding
}
//--- rank.mlir
shard.grid @grid(shape = 2)
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = shard.sharding @grid split_axes = [[0], []] : !shard.sharding
  %y = shard.shard %x to %s : tensor<8xf32>
  return %y : tensor<8xf32>
}
//--- name.mlir
shard.grid @"a\00b"(shape = 2)
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = shard.sharding @"a\00b" split_axes = [[0]] : !shard.sharding
  %y = shard.shard %x to %s : tensor<8xf32>
  return %y : tensor<8xf32>
}
//--- empty.mlir
shard.grid @""(shape = 2)
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = shard.sharding @"" split_axes = [[0]] : !shard.sharding
  %y = shard.shard %x to %s : tensor<8xf32>
  return %y : tensor<8xf32>
}
//--- huge.mlir
shard.grid @grid(shape = 9223372036854775807x2)
