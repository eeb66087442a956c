// A region that is written per device.
// RUN: nabla-opt "%s" --nabla-propagate-sharding --nabla-partition --split-input-file --verify-diagnostics | FileCheck "%s"

// The region stands in place of the op, with local types; operands that come
// otherwise are divided, results are brought on. Nothing is left of shard_map.
// CHECK-LABEL: @both
// CHECK-SAME: (%arg0: tensor<4x16xf32>, %arg1: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
nabla.mesh @m <["data"=2, "model"=4]>
func.func @both(%x: tensor<8x16xf32> {nabla.sharding = #nabla.sharding<@m, [{"data"}, {}]>}, %w: !nabla.implicit<32x64xf32, #nabla.nf4<block = 64>>) -> (tensor<8xf32>, tensor<32x64xf32>) {
  // CHECK-NEXT: %[[P:.*]] = nabla.all_slice %arg0 dim = 1 axes = ["model"] : tensor<4x16xf32> -> tensor<4x4xf32>
  // CHECK-NEXT: %[[S:.*]] = nabla.reduce sum %[[P]] dims = [1] : tensor<4x4xf32>
  // CHECK-NEXT: %[[R:.*]] = nabla.all_reduce sum %[[S]] axes = ["model"] : tensor<4xf32>
  // CHECK-NEXT: %[[D:.*]] = nabla.materialize %arg1
  // CHECK-NEXT: %[[G:.*]] = nabla.all_gather %[[R]] dim = 0 axes = ["data"] : tensor<4xf32> -> tensor<8xf32>
  // CHECK-NEXT: %[[H:.*]] = nabla.all_gather %[[D]] dim = 0 axes = ["model"] : tensor<8x64xf32> -> tensor<32x64xf32>
  // CHECK-NEXT: return %[[G]], %[[H]]
  %y:2 = nabla.shard_map(%x, %w : tensor<8x16xf32>, !nabla.implicit<32x64xf32, #nabla.nf4<block = 64>>)
      in = [#nabla.sharding<@m, [{"data"}, {"model"}]>, #nabla.sharding<@m, [{"model"}, {}]>]
      out = [#nabla.sharding<@m, [{"data"}]>, #nabla.sharding<@m, [{"model"}, {}]>] -> tensor<8xf32>, tensor<32x64xf32> {
  ^bb0(%piece: tensor<4x4xf32>, %rows: !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>):
    %sums = nabla.reduce sum %piece dims = [1] : tensor<4x4xf32>
    %all = nabla.all_reduce sum %sums axes = ["model"] : tensor<4xf32>
    %d = nabla.materialize %rows : !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    nabla.yield %all, %d : tensor<4xf32>, tensor<8x64xf32>
  }
  return %y#0, %y#1 : tensor<8xf32>, tensor<32x64xf32>
}

// -----
// What the region uses from outside is whole; a shard_map may stand in a
// branch.
// CHECK-LABEL: @captured
nabla.mesh @m <["a"=2]>
func.func @captured(%x: tensor<4xf32> {nabla.sharding = #nabla.sharding<@m, [{"a"}]>}, %p: tensor<i1>) -> tensor<4xf32> {
  // CHECK: %[[C:.*]] = nabla.cond %arg1 : tensor<i1> -> tensor<2xf32> {
  // CHECK-NEXT: %[[N:.*]] = nabla.neg %arg0 : tensor<2xf32>
  // CHECK-NEXT: nabla.yield %[[N]]
  %c = nabla.cond %p : tensor<i1> -> tensor<4xf32> {
    %y = nabla.shard_map(%x : tensor<4xf32>) in = [#nabla.sharding<@m, [{"a"}]>] out = [#nabla.sharding<@m, [{"a"}]>] -> tensor<4xf32> {
    ^bb0(%piece: tensor<2xf32>):
      %n = nabla.neg %piece : tensor<2xf32>
      nabla.yield %n : tensor<2xf32>
    }
    nabla.yield %y : tensor<4xf32>
  }, {
    nabla.yield %x : tensor<4xf32>
  }
  // CHECK: %[[W:.*]] = nabla.all_gather %[[C]] dim = 0 axes = ["a"] : tensor<2xf32> -> tensor<4xf32>
  // CHECK-NEXT: %[[X:.*]] = nabla.all_gather %arg0 dim = 0 axes = ["a"] : tensor<2xf32> -> tensor<4xf32>
  // CHECK-NEXT: nabla.add %[[W]], %[[X]] : tensor<4xf32>, tensor<4xf32>
  %s = nabla.shard_map in = [] out = [#nabla.sharding<@m, [{}]>] -> tensor<4xf32> {
    %z = nabla.add %c, %x : tensor<4xf32>, tensor<4xf32>
    nabla.yield %z : tensor<4xf32>
  }
  return %s : tensor<4xf32>
}

// -----
// Propagation: operands are asked for, results are given; a group has one
// sharding, a barrier passes in one direction, reshard in none.
// CHECK-LABEL: @propagated
// CHECK-SAME: (%arg0: tensor<4xf32>, %arg1: tensor<4xf32>, %arg2: tensor<8xf32>, %arg3: tensor<8xf32>)
nabla.mesh @m <["a"=2]>
func.func @propagated(%x: tensor<8xf32>, %z: tensor<8xf32>, %u: tensor<8xf32>, %v: tensor<8xf32>) -> tensor<8xf32> {
  // CHECK-NEXT: %[[N:.*]] = nabla.neg %arg0 : tensor<4xf32>
  // CHECK-NEXT: %[[E:.*]] = nabla.exp %[[N]] : tensor<4xf32>
  // CHECK-NEXT: %[[U:.*]] = nabla.all_slice %arg2 dim = 0 axes = ["a"] : tensor<8xf32> -> tensor<4xf32>
  // CHECK-NEXT: %[[V:.*]] = nabla.all_slice %arg3 dim = 0 axes = ["a"] : tensor<8xf32> -> tensor<4xf32>
  %n = nabla.neg %x : tensor<8xf32>
  nabla.sharding_group %n group = 3 : tensor<8xf32>
  nabla.sharding_group %z group = 3 : tensor<8xf32>
  %y = nabla.shard_map(%n : tensor<8xf32>) in = [#nabla.sharding<@m, [{"a"}]>] out = [#nabla.sharding<@m, [{"a"}]>] -> tensor<8xf32> {
  ^bb0(%piece: tensor<4xf32>):
    %e = nabla.exp %piece : tensor<4xf32>
    nabla.yield %e : tensor<4xf32>
  }
  %r = nabla.reshard %u : tensor<8xf32> sharding = #nabla.sharding<@m, [{"a"}]>
  %b = nabla.propagation_barrier %v allowed = forward : tensor<8xf32>
  %s = nabla.add %y, %r : tensor<8xf32>, tensor<8xf32>
  %t = nabla.add %s, %b : tensor<8xf32>, tensor<8xf32>
  %w = nabla.add %t, %z : tensor<8xf32>, tensor<8xf32>
  return %w : tensor<8xf32>
}

// -----
// Must not fire: without shard_map, and in functions that are partitioned, the
// pass leaves collectives alone.
// CHECK-LABEL: @already
// CHECK-NEXT: nabla.all_reduce sum %arg0 axes = ["a"] : tensor<4xf32>
nabla.mesh @m <["a"=2]>
func.func @already(%x: tensor<4xf32>) -> tensor<4xf32> attributes {nabla.partitioned = @m} {
  %y = nabla.all_reduce sum %x axes = ["a"] : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----
// Loops: a carry that is joined in each step stays equal.
// CHECK-LABEL: @loop
// CHECK: nabla.scan
// CHECK: nabla.all_reduce
nabla.mesh @m <["a"=2]>
func.func @loop(%x: tensor<4xf32>) -> tensor<2xf32> {
  %y = nabla.shard_map(%x : tensor<4xf32>) in = [#nabla.sharding<@m, [{"a"}]>] out = [#nabla.sharding<@m, [{}]>] -> tensor<2xf32> {
  ^bb0(%piece: tensor<2xf32>):
    %zero = nabla.constant dense<0.0> : tensor<2xf32>
    %n = arith.constant 3 : index
    %r = nabla.scan init(%zero : tensor<2xf32>) length(%n) -> tensor<2xf32> {
    ^bb0(%s: tensor<2xf32>):
      %t = nabla.add %s, %piece : tensor<2xf32>, tensor<2xf32>
      %j = nabla.all_reduce sum %t axes = ["a"] : tensor<2xf32>
      nabla.yield %j : tensor<2xf32>
    }
    nabla.yield %r : tensor<2xf32>
  }
  return %y : tensor<2xf32>
}

// -----
nabla.mesh @m <["a"=2]>
func.func @varies(%x: tensor<4xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{result #0 varies along axis "a", which does not divide it: join or gather it in the region, or name the axis in `out`}}
  %y = nabla.shard_map(%x : tensor<4xf32>) in = [#nabla.sharding<@m, [{"a"}]>] out = [#nabla.sharding<@m, [{}]>] -> tensor<2xf32> {
  ^bb0(%piece: tensor<2xf32>):
    nabla.yield %piece : tensor<2xf32>
  }
  return %y : tensor<2xf32>
}

// -----
// A loop of no steps returns what it begins with.
nabla.mesh @m <["a"=2]>
func.func @begins_varying(%x: tensor<4xf32>, %xs: tensor<3x2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{result #0 varies along axis "a", which does not divide it}}
  %y = nabla.shard_map(%x, %xs : tensor<4xf32>, tensor<3x2xf32>) in = [#nabla.sharding<@m, [{"a"}]>, #nabla.sharding<@m, [{}, {}]>] out = [#nabla.sharding<@m, [{}]>] -> tensor<2xf32> {
  ^bb0(%piece: tensor<2xf32>, %all: tensor<3x2xf32>):
    %r = nabla.scan init(%piece : tensor<2xf32>) over(%all : tensor<3x2xf32>) -> tensor<2xf32> {
    ^bb1(%h: tensor<2xf32>, %s: tensor<2xf32>):
      nabla.yield %s : tensor<2xf32>
    }
    nabla.yield %r : tensor<2xf32>
  }
  return %y : tensor<2xf32>
}

// -----
nabla.mesh @m <["a"=2]>
func.func @decides(%x: tensor<2xi1>, %v: tensor<4xf32>) -> tensor<4xf32> {
  %y = nabla.shard_map(%x, %v : tensor<2xi1>, tensor<4xf32>) in = [#nabla.sharding<@m, [{"a"}]>, #nabla.sharding<@m, [{}]>] out = [#nabla.sharding<@m, [{}]>] -> tensor<4xf32> {
  ^bb0(%piece: tensor<1xi1>, %w: tensor<4xf32>):
    %p = nabla.reshape %piece : tensor<1xi1> -> tensor<i1>
    %c = nabla.cond %p : tensor<i1> -> tensor<4xf32> {
      // expected-error @+1 {{stands under a condition that varies between devices, which would wait for each other: exchange the values outside}}
      %s = nabla.all_reduce sum %w axes = ["a"] : tensor<4xf32>
      nabla.yield %s : tensor<4xf32>
    }, {
      nabla.yield %w : tensor<4xf32>
    }
    nabla.yield %c : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----
nabla.mesh @m <["a"=4]>
func.func @rows(%w: !nabla.implicit<4x16xf32, #nabla.nf4<block = 64>>) -> tensor<4x16xf32> {
  // expected-error @+1 {{operand #0: pieces of 1 rows are no whole blocks of 64}}
  %y = nabla.shard_map(%w : !nabla.implicit<4x16xf32, #nabla.nf4<block = 64>>) in = [#nabla.sharding<@m, [{"a"}, {}]>] out = [#nabla.sharding<@m, [{"a"}, {}]>] -> tensor<4x16xf32> {
  ^bb0(%piece: !nabla.implicit<1x16xf32, #nabla.nf4<block = 64>>):
    %d = nabla.materialize %piece : !nabla.implicit<1x16xf32, #nabla.nf4<block = 64>>
    nabla.yield %d : tensor<1x16xf32>
  }
  return %y : tensor<4x16xf32>
}
