// Meshes, shardings and collectives that are refused.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

// expected-error @+1 {{has the axis 'a' twice}}
nabla.mesh @m <["a"=2, "a"=4]>
// -----
// expected-error @+1 {{axis 'a' has the size 0, at least 1}}
nabla.mesh @m <["a"=0]>
// -----
// expected-error @+1 {{has more than 1048576 devices}}
nabla.mesh @m <["a"=1048576, "b"=2]>
// -----
// expected-error @+1 {{an axis has a name of at most 31 letters, digits, '_', '.' and '-', not 'a b'}}
nabla.mesh @m <["a b"=2]>
// -----
// expected-error @+1 {{is named 'a b'; shardings name meshes by at most 63 letters, digits, '_', '.' and '-'}}
nabla.mesh @"a b" <["a"=2]>
// -----
// expected-error @+1 {{is named ''}}
nabla.mesh @"" <["a"=2]>
// -----
// expected-error @+1 {{has an axis without a size}}
"nabla.mesh"() {sym_name = "m", axes = ["a", 2, "b"]} : () -> ()
// -----
// expected-error @+1 {{has axes that are no names with sizes}}
"nabla.mesh"() {sym_name = "m", axes = ["a", 36893488147419103234 : i128]} : () -> ()
// -----
// expected-error @+1 {{has axes that are no names with sizes}}
"nabla.mesh"() {sym_name = "m", axes = ["a", 2 : index]} : () -> ()
// -----
// expected-error @+1 {{bandwidth has 1 numbers, the mesh has 2 axes}}
nabla.mesh @m <["a"=2, "b"=2]> {bandwidth = [1.0]}
// -----
// expected-error @+1 {{latency is a positive float for each axis}}
nabla.mesh @m <["a"=2]> {latency = [-1.0]}
// -----
// expected-error @+1 {{devices has 1 twice}}
nabla.mesh @m <["a"=2]> {devices = [1, 1]}
// -----
// expected-error @+1 {{devices are numbers from 0 to 1}}
nabla.mesh @m <["a"=2]> {devices = [0, 2]}
// -----
// expected-error @+1 {{a sharding is written <@mesh, [{"axis"}, {?}]>: expected '@' and the name of a mesh, found 'm, [{}]'}}
func.func private @f(tensor<4xf32> {nabla.sharding = #nabla.sharding<m, [{}]>})
// -----
// expected-error @+1 {{expected '}' behind '?', found '"a"}]'}}
func.func private @f(tensor<4xf32> {nabla.sharding = #nabla.sharding<@m, [{? "a"}]>})
// -----
// expected-error @+1 {{expected a sub-axis of at least 2 behind at least 1, found '}]'}}
func.func private @f(tensor<4xf32> {nabla.sharding = #nabla.sharding<@m, [{"a":(1)1}]>})
// -----
// expected-error @+1 {{expected sum, prod, max, min, any or all}}
func.func private @f(tensor<4xf32> {nabla.sharding = #nabla.sharding<@m, [{}], partial = {"a": mean}>})
// -----
// expected-error @+1 {{expected 'replicated' or 'partial'}}
func.func private @f(tensor<4xf32> {nabla.sharding = #nabla.sharding<@m, [{}], unused = {"a"}>})
// -----
// expected-error @+1 {{expected an encoding}}
func.func private @f(!nabla.implicit<4x64xf32, #nabla.sharding<@m, [{}]>>)
// -----
func.func @no_mesh(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the module has no mesh @m}}
  %y = nabla.sharding_constraint %x : tensor<4xf32> sharding = #nabla.sharding<@m, [{"a"}]>
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @axis(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{mesh @m has no axis "c": it has "a", "b"}}
  %y = nabla.sharding_constraint %x : tensor<4xf32> sharding = #nabla.sharding<@m, [{"c"}]>
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @rank(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the sharding has 2 dimensions, the array has 1}}
  %y = nabla.sharding_constraint %x : tensor<4xf32> sharding = #nabla.sharding<@m, [{"a"}, {}]>
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @twice(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{axis "a" is used twice}}
  %y = nabla.sharding_constraint %x : tensor<4x4xf32> sharding = #nabla.sharding<@m, [{"a":(1)2}, {"a"}]>
  return %y : tensor<4x4xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @sub_axis(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{sub-axis "a":(1)3 does not divide its axis, of size 4}}
  %y = nabla.sharding_constraint %x : tensor<4x4xf32> sharding = #nabla.sharding<@m, [{"a":(1)3}, {}]>
  return %y : tensor<4x4xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @whole(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{sub-axis "a":(1)4 is the whole axis: write "a"}}
  %y = nabla.sharding_constraint %x : tensor<4x4xf32> sharding = #nabla.sharding<@m, [{"a":(1)4}, {}]>
  return %y : tensor<4x4xf32>
}
// -----
nabla.mesh @m <["a"=8, "b"=2]>
func.func @maximal(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  // expected-error @+1 {{sub-axes "a":(1)2 and (2)2 are one: write (1)4}}
  %y = nabla.sharding_constraint %x : tensor<4x4xf32> sharding = #nabla.sharding<@m, [{"a":(1)2, "a":(2)2}, {}]>
  return %y : tensor<4x4xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @outside(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{stands in nabla.shard_map and in partitioned functions alone, which have the attribute nabla.partitioned = @mesh}}
  %y = nabla.all_reduce sum %x axes = ["a"] : tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @inside(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nabla.partitioned = @m} {
  // expected-error @+1 {{stands outside of shard_map and partitioned functions}}
  %y = nabla.sharding_constraint %x : tensor<4xf32> sharding = #nabla.sharding<@m, [{"a"}]>
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @mean(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nabla.partitioned = @m} {
  // expected-error @+1 {{mean cannot be joined: divide the sum}}
  %y = nabla.all_reduce mean %x axes = ["a"] : tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @no_axes(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nabla.partitioned = @m} {
  // expected-error @+1 {{axes is a list such as ["model", "data:(2)2"]}}
  %y = nabla.all_reduce sum %x axes = [] : tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @sizes(%x: tensor<6xf32>) -> tensor<2xf32> attributes {nabla.partitioned = @m} {
  // expected-error @+1 {{dimension 0 is 6 in the operand and 2 in the result, for 4 devices}}
  %y = nabla.all_slice %x dim = 0 axes = ["a"] : tensor<6xf32> -> tensor<2xf32>
  return %y : tensor<2xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @gathered(%x: tensor<6xf32>) -> tensor<12xf32> attributes {nabla.partitioned = @m} {
  // expected-error @+1 {{dimension 0 is 6 in the operand and 12 in the result, for 4 devices}}
  %y = nabla.all_gather %x dim = 0 axes = ["a"] : tensor<6xf32> -> tensor<12xf32>
  return %y : tensor<12xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @dim(%x: tensor<8xf32>) -> tensor<2xf32> attributes {nabla.partitioned = @m} {
  // expected-error @+1 {{dim is 1, the operand has 1 dimensions}}
  %y = nabla.reduce_scatter sum %x dim = 1 axes = ["a"] : tensor<8xf32> -> tensor<2xf32>
  return %y : tensor<2xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @one_dim(%x: tensor<8x8xf32>) -> tensor<8x8xf32> attributes {nabla.partitioned = @m} {
  // expected-error @+1 {{split and concat are one dimension}}
  %y = nabla.all_to_all %x split = 1 concat = 1 axes = ["a"] : tensor<8x8xf32> -> tensor<8x8xf32>
  return %y : tensor<8x8xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @pairs(%x: tensor<8xf32>) -> tensor<8xf32> attributes {nabla.partitioned = @m} {
  // expected-error @+1 {{pairs has device 1 twice as a target}}
  %y = nabla.permute %x pairs = [0, 1, 2, 1] axes = ["a"] : tensor<8xf32>
  return %y : tensor<8xf32>
}
// -----
nabla.mesh @m <["a"=4, "b"=2]>
func.func @far(%x: tensor<8xf32>) -> tensor<8xf32> attributes {nabla.partitioned = @m} {
  // expected-error @+1 {{from is device 4 of 4}}
  %y = nabla.broadcast %x from = 4 axes = ["a"] : tensor<8xf32>
  return %y : tensor<8xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @count(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{in has 0 shardings, one for each of 1 operands}}
  %y = nabla.shard_map(%x : tensor<4xf32>) in = [] out = [#nabla.sharding<@m, [{"a"}]>] -> tensor<4xf32> {
  ^bb0(%p: tensor<2xf32>):
    nabla.yield %p : tensor<2xf32>
  }
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @no_sharding(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{in has an element that is no sharding}}
  %y = nabla.shard_map(%x : tensor<4xf32>) in = [unit] out = [#nabla.sharding<@m, [{"a"}]>] -> tensor<4xf32> {
  ^bb0(%p: tensor<2xf32>):
    nabla.yield %p : tensor<2xf32>
  }
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @piece(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
  // expected-error @+1 {{operand #0 is divided into pieces of 2x3, with the element type and encoding of the whole, packed scales as f32; the region has another type}}
  %y = nabla.shard_map(%x : tensor<4x3xf32>) in = [#nabla.sharding<@m, [{"a"}, {}]>] out = [#nabla.sharding<@m, [{"a"}, {}]>] -> tensor<4x3xf32> {
  ^bb0(%p: tensor<4x3xf32>):
    nabla.yield %p : tensor<4x3xf32>
  }
  return %y : tensor<4x3xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @indivisible(%x: tensor<5xf32>) -> tensor<5xf32> {
  // expected-error @+1 {{operand #0: dimension 0 of size 5 is not divided by 2}}
  %y = nabla.shard_map(%x : tensor<5xf32>) in = [#nabla.sharding<@m, [{"a"}]>] out = [#nabla.sharding<@m, [{}]>] -> tensor<5xf32> {
  ^bb0(%p: tensor<2xf32>):
    nabla.yield %p : tensor<2xf32>
  }
  return %y : tensor<5xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @partial(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{result #0 has partial axes: join its values by all_reduce in the region}}
  %y = nabla.shard_map(%x : tensor<4xf32>) in = [#nabla.sharding<@m, [{}]>] out = [#nabla.sharding<@m, [{}], partial = {"a": sum}>] -> tensor<4xf32> {
  ^bb0(%p: tensor<4xf32>):
    nabla.yield %p : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @nested(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nabla.shard_map(%x : tensor<4xf32>) in = [#nabla.sharding<@m, [{"a"}]>] out = [#nabla.sharding<@m, [{"a"}]>] -> tensor<4xf32> {
  ^bb0(%p: tensor<2xf32>):
    // expected-error @+1 {{stands outside of shard_map and partitioned functions}}
    %q = nabla.reshard %p : tensor<2xf32> sharding = #nabla.sharding<@m, [{"a"}]>
    nabla.yield %q : tensor<2xf32>
  }
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @outside(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{stands in nabla.shard_map and in partitioned functions alone}}
  %y = nabla.all_reduce sum %x axes = ["a"] : tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @arguments(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{the region has 0 arguments, one for each of 1 operands}}
  %y = nabla.shard_map(%x : tensor<4xf32>) in = [#nabla.sharding<@m, [{}]>] out = [#nabla.sharding<@m, [{}]>] -> tensor<4xf32> {
    nabla.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @groups(%x: tensor<4xf32>, %y: tensor<6xf32>) {
  nabla.sharding_group %x group = 1 : tensor<4xf32>
  // expected-error @+1 {{has another shape than group 1 before}}
  nabla.sharding_group %y group = 1 : tensor<6xf32>
  return
}
// -----
nabla.mesh @m <["a"=2]>
func.func @few(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{nabla.shardings has 2 shardings, the operation 1 results}}
  %y = nabla.exp %x {nabla.shardings = [#nabla.sharding<@m, [{"a"}]>, #nabla.sharding<@m, [{}]>]} : tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @none(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{nabla.shardings has 0 shardings, the operation 1 results}}
  %y = nabla.exp %x {nabla.shardings = []} : tensor<4xf32>
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @scans(%x: tensor<4xf32>, %s: tensor<3x4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{nabla.shardings has 3 shardings, the operation 1 results and 1 inputs}}
  %y = nabla.scan init(%x : tensor<4xf32>) over(%s : tensor<3x4xf32>) attributes {nabla.shardings = [#nabla.sharding<@m, [{}]>, #nabla.sharding<@m, [{}]>, #nabla.sharding<@m, [{}]>]} -> tensor<4xf32> {
  ^bb0(%c: tensor<4xf32>, %i: tensor<4xf32>):
    %d = nabla.add %c, %i : tensor<4xf32>, tensor<4xf32>
    nabla.yield %d : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}
// -----
nabla.mesh @m <["a"=2]>
func.func @calls(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{nabla.shardings is a list with a sharding for each result}}
  %y = nabla.exp %x {nabla.shardings = #nabla.sharding<@m, [{"a"}]>} : tensor<4xf32>
  return %y : tensor<4xf32>
}
