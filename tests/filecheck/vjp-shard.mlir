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

// A branch that some devices take: what they have of the cotangent of a value
// that is equal on all is summed behind the branches, in which no device waits.
// RUN: nabla-opt "%s" --nabla-vjp="function=branch" | FileCheck "%s" --check-prefix=BRANCH
// BRANCH-LABEL: @branch.vjp
// BRANCH: nabla.shard_map
// BRANCH: nabla.cond
// BRANCH: nabla.shard_map
// BRANCH: nabla.cond
// BRANCH-NOT: nabla.all_reduce
// BRANCH: }, {
// BRANCH-NOT: nabla.all_reduce
// BRANCH: }
// BRANCH: nabla.all_reduce sum %{{.*}} axes = ["a"] : tensor<2xf32>
func.func @branch(%x: tensor<2xf32>) -> tensor<4xf32> {
  %y = nabla.shard_map(%x : tensor<2xf32>) in = [#nabla.sharding<@m, [{}]>] out = [#nabla.sharding<@m, [{"a"}]>] -> tensor<4xf32> {
  ^bb0(%a: tensor<2xf32>):
    %i = nabla.axis_index axes = ["a"] : tensor<i64>
    %z = nabla.full 0 : i64 -> tensor<i64>
    %p = nabla.compare eq %i, %z : tensor<i64>, tensor<i64>
    %r = nabla.cond %p : tensor<i1> -> tensor<2xf32> {
      %s = nabla.sin %a : tensor<2xf32>
      nabla.yield %s : tensor<2xf32>
    }, {
      nabla.yield %a : tensor<2xf32>
    }
    nabla.yield %r : tensor<2xf32>
  }
  return %y : tensor<4xf32>
}
