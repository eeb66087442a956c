// Divisions that nabla-auto-shard finds, and what nabla-partition makes of them.
// RUN: nabla-opt "%s" --nabla-auto-shard=memory=1GiB --nabla-propagate-sharding --nabla-partition --split-input-file --verify-diagnostics | FileCheck "%s"

// Megatron for a pair of products of few rows: one all_reduce.
// CHECK-LABEL: @megatron
// CHECK-SAME: (%arg0: tensor<4x4096xf32>, %arg1: tensor<2048x4096xf32>, %arg2: tensor<4096x2048xf32>)
nabla.mesh @m <["model"=4]>
func.func @megatron(%x: tensor<4x4096xf32>, %up: tensor<8192x4096xf32>, %down: tensor<4096x8192xf32>) -> tensor<4x4096xf32> {
  // CHECK-NEXT: %[[H:.*]] = nabla.linear %arg0, %arg1
  // CHECK-NEXT: %[[S:.*]] = nabla.silu %[[H]] : tensor<4x2048xf32>
  // CHECK-NEXT: %[[Y:.*]] = nabla.linear %[[S]], %arg2
  // CHECK-NEXT: %[[R:.*]] = nabla.all_reduce sum %[[Y]] axes = ["model"] : tensor<4x4096xf32>
  // CHECK-NEXT: return %[[R]]
  %h = nabla.linear %x, %up : tensor<4x4096xf32>, tensor<8192x4096xf32>
  %s = nabla.silu %h : tensor<4x8192xf32>
  %y = nabla.linear %s, %down : tensor<4x8192xf32>, tensor<4096x8192xf32>
  return %y : tensor<4x4096xf32>
}

// -----
// So for 64 rows, where computing takes longer than reading the weights, but does not
// hide it: whole weights are read by each device.
// CHECK-LABEL: @some_rows
// CHECK-SAME: (%arg0: tensor<64x1024xf32>, %arg1: tensor<2048x1024xf32>, %arg2: tensor<1024x2048xf32>)
nabla.mesh @m <["model"=2]>
func.func @some_rows(%x: tensor<64x1024xf32>, %up: tensor<4096x1024xf32>, %down: tensor<1024x4096xf32>) -> tensor<64x1024xf32> {
  %h = nabla.linear %x, %up : tensor<64x1024xf32>, tensor<4096x1024xf32>
  %y = nabla.linear %h, %down : tensor<64x4096xf32>, tensor<1024x4096xf32>
  return %y : tensor<64x1024xf32>
}

// -----
// Data parallelism for many rows: weights are whole.
// CHECK-LABEL: @rows
// CHECK-SAME: (%arg0: tensor<8192x64xf32>, %arg1: tensor<256x64xf32>, %arg2: tensor<64x256xf32>)
nabla.mesh @m <["data"=4]>
func.func @rows(%x: tensor<32768x64xf32>, %up: tensor<256x64xf32>, %down: tensor<64x256xf32>) -> tensor<32768x64xf32> {
  // CHECK-NEXT: %[[H:.*]] = nabla.linear %arg0, %arg1
  // CHECK-NEXT: %[[Y:.*]] = nabla.linear %[[H]], %arg2
  // CHECK-NEXT: nabla.all_gather %[[Y]] dim = 0 axes = ["data"]
  %h = nabla.linear %x, %up : tensor<32768x64xf32>, tensor<256x64xf32>
  %y = nabla.linear %h, %down : tensor<32768x256xf32>, tensor<64x256xf32>
  return %y : tensor<32768x64xf32>
}

// -----
// What is annotated stays, though another division is cheaper: the weight is
// whole, the constraint is met.
// CHECK-LABEL: @annotated
// CHECK-SAME: %arg1: tensor<8192x4096xf32>)
nabla.mesh @m <["model"=4]>
func.func @annotated(%x: tensor<4x4096xf32>, %w: tensor<8192x4096xf32> {nabla.sharding = #nabla.sharding<@m, [{}, {}]>}) -> tensor<4x8192xf32> {
  // CHECK: nabla.exp %{{.*}} : tensor<1x8192xf32>
  %h = nabla.linear %x, %w : tensor<4x4096xf32>, tensor<8192x4096xf32>
  %s = nabla.sharding_constraint %h : tensor<4x8192xf32> sharding = #nabla.sharding<@m, [{"model"}, {}]>
  %e = nabla.exp %s : tensor<4x8192xf32>
  return %e : tensor<4x8192xf32>
}

// -----
// An argument and what comes of it, of .94 GiB each, do not fit whole.
// CHECK-LABEL: @memory
// CHECK-SAME: %arg0: tensor<{{61440x1024|15360x4096}}xf32>
nabla.mesh @m <["model"=4]>
func.func @memory(%w: tensor<61440x4096xf32>) -> tensor<f32> {
  %e = nabla.cumsum %w dim = 0 : tensor<61440x4096xf32>
  %y = nabla.cumsum %e dim = 1 : tensor<61440x4096xf32>
  %s = nabla.reduce sum %y dims = [0, 1] : tensor<61440x4096xf32>
  return %s : tensor<f32>
}

// -----
// What a loop carries, takes slices of and stacks stays divided in it as before
// it: nothing is exchanged in its rounds.
// CHECK-LABEL: @loop
nabla.mesh @m <["model"=4]>
func.func @loop(%x: tensor<4x4096xf32>, %up: tensor<8192x4096xf32>, %c: tensor<8192xf32>) -> tensor<4x8192xf32> {
  // CHECK: %[[H:.*]] = nabla.linear %arg0, %arg1 : tensor<4x4096xf32>, tensor<2048x4096xf32>
  // CHECK-NEXT: %[[Y:.*]]:2 = nabla.scan init(%arg2 : tensor<2048xf32>) over(%[[H]] : tensor<4x2048xf32>)
  // CHECK-NOT: axes
  // CHECK: nabla.all_gather %[[Y]]#1 dim = 1 axes = ["model"]
  // CHECK-NEXT: return
  %h = nabla.linear %x, %up : tensor<4x4096xf32>, tensor<8192x4096xf32>
  %y:2 = nabla.scan init(%c : tensor<8192xf32>) over(%h : tensor<4x8192xf32>) -> tensor<8192xf32>, tensor<4x8192xf32> {
  ^bb0(%a: tensor<8192xf32>, %b: tensor<8192xf32>):
    %s = nabla.add %a, %b : tensor<8192xf32>, tensor<8192xf32>
    nabla.yield %s, %s : tensor<8192xf32>, tensor<8192xf32>
  }
  return %y#1 : tensor<4x8192xf32>
}

// -----
// Layers with stacked weights: each is Megatron, joined once in a round.
// CHECK-LABEL: @layers
// CHECK-SAME: (%arg0: tensor<4x1024xf32>, %arg1: tensor<6x1024x1024xf32>, %arg2: tensor<6x1024x1024xf32>)
nabla.mesh @m <["model"=4]>
func.func @layers(%x: tensor<4x1024xf32>, %up: tensor<6x4096x1024xf32>, %down: tensor<6x1024x4096xf32>) -> tensor<4x1024xf32> {
  // CHECK-NEXT: %[[Y:.*]] = nabla.scan init(%arg0 : tensor<4x1024xf32>) over(%arg1, %arg2 : tensor<6x1024x1024xf32>, tensor<6x1024x1024xf32>)
  // CHECK-NEXT: ^bb0(%[[C:.*]]: tensor<4x1024xf32>, %[[U:.*]]: tensor<1024x1024xf32>, %[[D:.*]]: tensor<1024x1024xf32>)
  // CHECK-NEXT: %[[H:.*]] = nabla.linear %[[C]], %[[U]]
  // CHECK-NEXT: %[[S:.*]] = nabla.silu %[[H]] : tensor<4x1024xf32>
  // CHECK-NEXT: %[[P:.*]] = nabla.linear %[[S]], %[[D]]
  // CHECK-NEXT: %[[R:.*]] = nabla.all_reduce sum %[[P]] axes = ["model"] : tensor<4x1024xf32>
  // CHECK-NEXT: nabla.yield %[[R]]
  // CHECK: return %[[Y]]
  %y = nabla.scan init(%x : tensor<4x1024xf32>) over(%up, %down : tensor<6x4096x1024xf32>, tensor<6x1024x4096xf32>) -> tensor<4x1024xf32> {
  ^bb0(%c: tensor<4x1024xf32>, %u: tensor<4096x1024xf32>, %d: tensor<1024x4096xf32>):
    %h = nabla.linear %c, %u : tensor<4x1024xf32>, tensor<4096x1024xf32>
    %s = nabla.silu %h : tensor<4x4096xf32>
    %p = nabla.linear %s, %d : tensor<4x4096xf32>, tensor<1024x4096xf32>
    nabla.yield %p : tensor<4x1024xf32>
  }
  return %y : tensor<4x1024xf32>
}

// -----
// The body of a loop that ends when a condition says so takes its values whole:
// they are gathered once, before it.
// CHECK-LABEL: @whole_loop
nabla.mesh @m <["model"=4]>
func.func @whole_loop(%x: tensor<4x4096xf32>, %up: tensor<8192x4096xf32>, %n: tensor<i64>) -> tensor<4x8192xf32> {
  // CHECK: %[[H:.*]] = nabla.linear %arg0, %arg1 : tensor<4x4096xf32>, tensor<2048x4096xf32>
  // CHECK-NEXT: %[[G:.*]] = nabla.all_gather %[[H]] dim = 1 axes = ["model"]
  // CHECK: nabla.while
  // CHECK-NOT: nabla.all_
  // CHECK: return
  %h = nabla.linear %x, %up : tensor<4x4096xf32>, tensor<8192x4096xf32>
  %zero = nabla.constant dense<0> : tensor<i64>
  %one = nabla.constant dense<1> : tensor<i64>
  %i, %y = nabla.while(%zero, %h) : tensor<i64>, tensor<4x8192xf32> cond {
  ^bb0(%k: tensor<i64>, %a: tensor<4x8192xf32>):
    %more = nabla.compare lt %k, %n : tensor<i64>, tensor<i64>
    nabla.condition %more, %k, %a : tensor<i1>, tensor<i64>, tensor<4x8192xf32>
  } do {
  ^bb0(%k: tensor<i64>, %a: tensor<4x8192xf32>):
    %next = nabla.add %k, %one : tensor<i64>, tensor<i64>
    %b = nabla.exp %a : tensor<4x8192xf32>
    nabla.yield %next, %b : tensor<i64>, tensor<4x8192xf32>
  }
  return %y : tensor<4x8192xf32>
}
