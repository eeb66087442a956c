// Gradients through shard_map, and batches on an axis, that are refused.
// RUN: split-file "%s" "%t"
// RUN: nabla-opt "%t/vjp.mlir" --split-input-file --verify-diagnostics --nabla-vjp="function=f"
// RUN: nabla-opt "%t/vmap.mlir" --split-input-file --verify-diagnostics --nabla-vmap="function=f axis-size=4 spmd-axis=a"
// RUN: nabla-opt "%t/size.mlir" --verify-diagnostics --nabla-vmap="function=f axis-size=3 spmd-axis=a"

//--- vjp.mlir
nabla.mesh @m <["a"=2]>
func.func @f(%x: tensor<4xf32>) -> tensor<2xf32> {
  %y = nabla.shard_map(%x : tensor<4xf32>) in = [#nabla.sharding<@m, [{"a"}]>] out = [#nabla.sharding<@m, [{}]>] -> tensor<2xf32> {
  ^bb0(%p: tensor<2xf32>):
    // expected-error @+1 {{has no derivative: those of sum, max and min are known; write a product as the exponential of a sum of logarithms}}
    %r = nabla.all_reduce prod %p axes = ["a"] : tensor<2xf32>
    nabla.yield %r : tensor<2xf32>
  }
  return %y : tensor<2xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @f(%x: tensor<4xf32>) -> tensor<2xf32> {
  %y = nabla.shard_map(%x : tensor<4xf32>) in = [#nabla.sharding<@m, [{"a"}]>] out = [#nabla.sharding<@m, [{"a"}]>] -> tensor<2xf32> {
  ^bb0(%p: tensor<2xf32>):
    // expected-error @+1 {{has no derivative: that of sum is known; write others as all_reduce and all_slice}}
    %r = nabla.reduce_scatter max %p dim = 0 axes = ["a"] : tensor<2xf32> -> tensor<1xf32>
    nabla.yield %r : tensor<1xf32>
  }
  return %y : tensor<2xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @f(%x: tensor<4xf32>, %q: tensor<i1>) -> tensor<4xf32> {
  %y = nabla.shard_map(%x : tensor<4xf32>) in = [#nabla.sharding<@m, [{"a"}]>] out = [#nabla.sharding<@m, [{"a"}]>] -> tensor<4xf32> {
  ^bb0(%p: tensor<2xf32>):
    // expected-error @+1 {{has no derivative in reverse: the number of its steps, and so what would have to be kept, is not known}}
    %r = nabla.while(%p) : tensor<2xf32> cond {
    ^bb1(%h: tensor<2xf32>):
      nabla.condition %q, %h : tensor<i1>, tensor<2xf32>
    } do {
    ^bb1(%h: tensor<2xf32>):
      %s = nabla.sin %h : tensor<2xf32>
      nabla.yield %s : tensor<2xf32>
    }
    nabla.yield %r : tensor<2xf32>
  }
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nabla.partitioned = @m} {
  // expected-error @+1 {{has no derivative in a partitioned function: differentiate before nabla-partition}}
  %r = nabla.all_reduce sum %x axes = ["a"] : tensor<4xf32>
  return %r : tensor<4xf32>
}

//--- vmap.mlir
nabla.mesh @m <["a"=2]>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{nabla-vmap: has a sharding over the axis of spmd-axis, where the batch stands}}
  %r = nabla.sharding_constraint %x : tensor<4xf32> sharding = #nabla.sharding<@m, [{"a"}]>
  return %r : tensor<4xf32>
}
// -----
nabla.mesh @m <["b"=2]>
// expected-error @+1 {{nabla-vmap: spmd-axis=a: the mesh has no such axis}}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
// -----
// expected-error @+1 {{nabla-vmap: spmd-axis=a: the module has no mesh}}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nabla.shard_map(%x : tensor<4xf32>) in = [#nabla.sharding<@m, [{}]>] out = [#nabla.sharding<@m, [{}]>] -> tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    // expected-error @+1 {{nabla-vmap: exchanges over axis "a", where the batch stands (spmd-axis)}}
    %r = nabla.all_reduce sum %p axes = ["a"] : tensor<4xf32>
    nabla.yield %r : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

//--- size.mlir
nabla.mesh @m <["a"=2]>
// expected-error @+1 {{nabla-vmap: spmd-axis=a: axis-size is a multiple of the axis, of size 2}}
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
