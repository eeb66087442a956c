// A cotangent is divided as its value is.
// RUN: nabla-opt "%s" --nabla-vjp="function=f" | FileCheck "%s" --check-prefix=VJP
// RUN: nabla-opt "%s" --nabla-jvp="function=f" | FileCheck "%s" --check-prefix=JVP

// VJP-LABEL: @f.vjp
// VJP: nabla.propagation_barrier %arg1 allowed = backward : tensor<8x4xf32>
// VJP: nabla.reshard %{{.*}} : tensor<8x4xf32> sharding = #nabla.sharding<@m, [{}, {"a"}]>
// VJP: nabla.sharding_constraint %{{.*}} : tensor<8x4xf32> sharding = #nabla.sharding<@m, [{"a"}, {}]>
// JVP-LABEL: @f.jvp
// JVP: nabla.sharding_constraint %arg1
// JVP: nabla.reshard
// JVP: nabla.propagation_barrier %{{.*}} allowed = forward : tensor<8x4xf32>
nabla.mesh @m <["a"=2]>
func.func @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %c = nabla.sharding_constraint %x : tensor<8x4xf32> sharding = #nabla.sharding<@m, [{"a"}, {}]>
  %r = nabla.reshard %c : tensor<8x4xf32> sharding = #nabla.sharding<@m, [{}, {"a"}]>
  %b = nabla.propagation_barrier %r allowed = forward : tensor<8x4xf32>
  return %b : tensor<8x4xf32>
}

// A weight that is divided and gathered where it is used: its gradient is
// scattered. Gradients are divided as their arguments, cotangents as the results.
// RUN: nabla-opt "%s" --nabla-vjp="function=zero" | FileCheck "%s" --check-prefix=ZERO
// ZERO-LABEL: @zero.vjp
// ZERO-SAME: %arg2: tensor<4x2xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}
// ZERO: nabla.shard_map(%arg0, %arg1 : tensor<4x3xf32>, tensor<2x3xf32>)
// ZERO: nabla.shard_map(%arg0, %arg1, %arg2 :
// ZERO-SAME: out = [#nabla.sharding<@m, [{"a"}, {}]>, #nabla.sharding<@m, [{"a"}, {}]>]
// ZERO-NOT: nabla.all_reduce
// ZERO: nabla.reduce_scatter sum %{{.*}} dim = 0 axes = ["a"] : tensor<2x3xf32> -> tensor<1x3xf32>
// ZERO-NOT: nabla.all_reduce
func.func @zero(%x: tensor<4x3xf32>, %w: tensor<2x3xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) -> (tensor<4x2xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}) {
  %y = nabla.shard_map(%x, %w : tensor<4x3xf32>, tensor<2x3xf32>) in = [#nabla.sharding<@m, [{"a"}, {}]>, #nabla.sharding<@m, [{"a"}, {}]>] out = [#nabla.sharding<@m, [{"a"}, {}]>] -> tensor<4x2xf32> {
  ^bb0(%a: tensor<2x3xf32>, %b: tensor<1x3xf32>):
    %c = nabla.all_gather %b dim = 0 axes = ["a"] : tensor<1x3xf32> -> tensor<2x3xf32>
    %r = nabla.linear %a, %c : tensor<2x3xf32>, tensor<2x3xf32>
    nabla.yield %r : tensor<2x2xf32>
  }
  return %y : tensor<4x2xf32>
}
