// Batches of operations on shardings: the batch is a dimension in front, which
// propagation may divide.
// RUN: nabla-opt "%s" --nabla-vmap="function=f axis-size=3" | FileCheck "%s"

// CHECK-LABEL: @f.vmap
// CHECK: nabla.sharding_constraint %{{.*}} : tensor<3x8x4xf32> sharding = #nabla.sharding<@m, [{?}, {"a"}, {}]>
// CHECK: nabla.reshard %{{.*}} : tensor<3x8x4xf32> sharding = #nabla.sharding<@m, [{?}, {}, {"a"}]>
// CHECK: nabla.propagation_barrier %{{.*}} allowed = forward : tensor<3x8x4xf32>
// CHECK: nabla.sharding_group %{{.*}} group = 2 : tensor<3x8x4xf32>
// CHECK: nabla.inspect_sharding @seen %{{.*}} : tensor<3x8x4xf32>
nabla.mesh @m <["a"=2, "b"=2]>
func.func @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %c = nabla.sharding_constraint %x : tensor<8x4xf32> sharding = #nabla.sharding<@m, [{"a"}, {}]>
  %r = nabla.reshard %c : tensor<8x4xf32> sharding = #nabla.sharding<@m, [{}, {"a"}]>
  %b = nabla.propagation_barrier %r allowed = forward : tensor<8x4xf32>
  nabla.sharding_group %b group = 2 : tensor<8x4xf32>
  nabla.inspect_sharding @seen %b : tensor<8x4xf32>
  return %b : tensor<8x4xf32>
}

// Regions that are written for one device: the batch is not divided, or stands
// on an axis, of which each device has its examples.
// RUN: nabla-opt "%s" --nabla-vmap="function=map axis-size=4" | FileCheck "%s" --check-prefix=WHOLE
// RUN: nabla-opt "%s" --nabla-vmap="function=map axis-size=4 in-axes=0,none spmd-axis=b" | FileCheck "%s" --check-prefix=SPMD
// WHOLE-LABEL: @map.vmap(%arg0: tensor<4x8x4xf32> {nabla.sharding = #nabla.sharding<@m, [{?}, {"a"}, {}]>}, %arg1: tensor<4x4xf32>)
// WHOLE: nabla.shard_map(%arg0, %arg1 : tensor<4x8x4xf32>, tensor<4x4xf32>) in = [#nabla.sharding<@m, [{?}, {"a"}, {}]>, #nabla.sharding<@m, [{?}, {}]>] out = [#nabla.sharding<@m, [{?}, {}, {}]>] -> tensor<4x8x4xf32>
// WHOLE: ^bb0(%{{.*}}: tensor<4x4x4xf32>, %{{.*}}: tensor<4x4xf32>):
// WHOLE: nabla.all_gather %{{.*}} dim = 1 axes = ["a"] : tensor<4x4x4xf32> -> tensor<4x8x4xf32>
// SPMD-LABEL: @map.vmap(%arg0: tensor<4x8x4xf32> {nabla.sharding = #nabla.sharding<@m, [{"b"}, {"a"}, {}]>}, %arg1: tensor<4xf32>)
// SPMD: in = [#nabla.sharding<@m, [{"b"}, {"a"}, {}]>, #nabla.sharding<@m, [{}]>] out = [#nabla.sharding<@m, [{"b"}, {}, {}]>] -> tensor<4x8x4xf32>
// SPMD: ^bb0(%{{.*}}: tensor<2x4x4xf32>, %{{.*}}: tensor<4xf32>):
// SPMD: nabla.all_gather %{{.*}} dim = 1 axes = ["a"] : tensor<2x4x4xf32> -> tensor<2x8x4xf32>
func.func @map(%x: tensor<8x4xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}, %w: tensor<4xf32>) -> tensor<8x4xf32> {
  %y = nabla.shard_map(%x, %w : tensor<8x4xf32>, tensor<4xf32>) in = [#nabla.sharding<@m, [{"a"}, {}]>, #nabla.sharding<@m, [{}]>] out = [#nabla.sharding<@m, [{}, {}]>] -> tensor<8x4xf32> {
  ^bb0(%p: tensor<4x4xf32>, %v: tensor<4xf32>):
    %b = nabla.broadcast_in_dim %v dims = [1] : tensor<4xf32> -> tensor<4x4xf32>
    %s = nabla.mul %p, %b : tensor<4x4xf32>, tensor<4x4xf32>
    %g = nabla.all_gather %s dim = 0 axes = ["a"] : tensor<4x4xf32> -> tensor<8x4xf32>
    nabla.yield %g : tensor<8x4xf32>
  }
  return %y : tensor<8x4xf32>
}
