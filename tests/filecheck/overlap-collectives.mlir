// Exchanges are started behind their operands and waited for before the first use.
// RUN: nabla-opt "%s" --split-input-file --nabla-lower-collectives | FileCheck "%s"
// RUN: nabla-opt "%s" --split-input-file --nabla-lower-collectives=overlap=off | FileCheck "%s" --check-prefix=OFF --implicit-check-not nabla.wait
// RUN: not nabla-opt "%s" --split-input-file --nabla-lower-collectives=overlap=maybe 2>&1 | FileCheck "%s" --check-prefix=BAD

// BAD: overlap is on or off
// The gradient of the weight is computed before that of the input, which hides its
// exchange; what is returned is waited for at the end.
nabla.mesh @m <["data"=2]>
// CHECK-LABEL: @backward
// OFF-LABEL: @backward
func.func @backward(%g: tensor<256x256xf32>, %x: tensor<256x256xf32>, %w: tensor<256x256xf32>) -> (tensor<256x256xf32>, tensor<256x256xf32>) attributes {nabla.partitioned = @m} {
  // CHECK-NEXT: %[[DW:.*]] = nabla.dot_general %arg0, %arg1 contracting = [0] x [0]
  // CHECK-NEXT: %[[START:.*]] = nabla.custom_call @nabla.start_all_reduce(%[[DW]]) {axes = array<i64: 1, 2>, kind = 0 : i64}
  // CHECK-NEXT: %[[DX:.*]] = nabla.dot_general %arg0, %arg2
  // CHECK-NEXT: %[[R:.*]] = nabla.custom_call @nabla.wait(%[[START]]) {nabla.in_place = 0 : i64} : (tensor<256x256xf32>) -> tensor<256x256xf32>
  // CHECK-NEXT: return %[[DX]], %[[R]]
  // OFF: nabla.custom_call @nabla.all_reduce
  %dx = nabla.dot_general %g, %w contracting = [1] x [0] : tensor<256x256xf32>, tensor<256x256xf32>
  %dw = nabla.dot_general %g, %x contracting = [0] x [0] : tensor<256x256xf32>, tensor<256x256xf32>
  %r = nabla.all_reduce sum %dw axes = ["data"] : tensor<256x256xf32>
  return %dx, %r : tensor<256x256xf32>, tensor<256x256xf32>
}

// -----
// What changes its size is exchanged from a copy, which the wait keeps too; sizes that
// are not known follow.
nabla.mesh @m <["data"=2]>
// CHECK-LABEL: @copies
func.func @copies(%g: tensor<?x256xf32>, %w: tensor<256x256xf32>) -> (tensor<?x256xf32>, tensor<?x256xf32>) attributes {nabla.partitioned = @m} {
  // CHECK: %[[N:.*]] = tensor.dim %arg0
  // CHECK: %[[MORE:.*]] = arith.muli
  // CHECK: %[[START:.*]]:2 = nabla.custom_call @nabla.start_all_gather(%arg0, %[[MORE]], %{{.*}}) {{.*}} : (tensor<?x256xf32>, index, index) -> (tensor<?x256xf32>, tensor<?x256xf32>)
  // CHECK: nabla.linear
  // CHECK: nabla.custom_call @nabla.wait(%[[START]]#0, %[[START]]#1, %[[MORE]])
  %all = nabla.all_gather %g dim = 0 axes = ["data"] : tensor<?x256xf32> -> tensor<?x256xf32>
  %y = nabla.linear %g, %w : tensor<?x256xf32>, tensor<256x256xf32>
  %z = nabla.linear %y, %w : tensor<?x256xf32>, tensor<256x256xf32>
  return %all, %z : tensor<?x256xf32>, tensor<?x256xf32>
}

// -----
// Not where nothing is computed before the first use, not for a few bytes, and not for
// exchanges that only move.
nabla.mesh @m <["data"=2]>
// CHECK-LABEL: @at_once
func.func @at_once(%x: tensor<256x256xf32>, %w: tensor<256x256xf32>, %v: tensor<16xf32>) -> (tensor<256x256xf32>, tensor<16xf32>, tensor<256x256xf32>) attributes {nabla.partitioned = @m} {
  // CHECK-NOT: start
  // CHECK-NOT: wait
  // CHECK: nabla.custom_call @nabla.permute
  // CHECK: nabla.custom_call @nabla.all_reduce
  // CHECK: nabla.custom_call @nabla.all_reduce
  // CHECK-NOT: wait
  // CHECK: return
  %p = nabla.permute %x pairs = [0, 1, 1, 0] axes = ["data"] : tensor<256x256xf32>
  %s = nabla.all_reduce sum %v axes = ["data"] : tensor<16xf32>
  %y = nabla.linear %x, %w : tensor<256x256xf32>, tensor<256x256xf32>
  %r = nabla.all_reduce sum %y axes = ["data"] : tensor<256x256xf32>
  %z = nabla.linear %r, %w : tensor<256x256xf32>, tensor<256x256xf32>
  return %z, %s, %p : tensor<256x256xf32>, tensor<16xf32>, tensor<256x256xf32>
}

// -----
// Weights that are gathered come one product ahead, not all at the beginning: each
// takes its whole memory from its start on.
nabla.mesh @m <["model"=2]>
// CHECK-LABEL: @gathered_ahead
func.func @gathered_ahead(%x: tensor<512x512xf32>, %u: tensor<256x512xf32>, %v: tensor<256x512xf32>, %w: tensor<256x512xf32>) -> tensor<512x512xf32> attributes {nabla.partitioned = @m} {
  // CHECK-NEXT: nabla.custom_call @nabla.all_gather(%arg1)
  // CHECK-NEXT: %[[V:.*]]:2 = nabla.custom_call @nabla.start_all_gather(%arg2)
  // CHECK-NEXT: nabla.linear
  // CHECK-NEXT: nabla.custom_call @nabla.wait(%[[V]]#0
  // CHECK-NEXT: %[[W:.*]]:2 = nabla.custom_call @nabla.start_all_gather(%arg3)
  // CHECK-NEXT: nabla.linear
  // CHECK-NEXT: nabla.custom_call @nabla.wait(%[[W]]#0
  // CHECK-NEXT: nabla.linear
  %a = nabla.all_gather %u dim = 0 axes = ["model"] : tensor<256x512xf32> -> tensor<512x512xf32>
  %0 = nabla.linear %x, %a : tensor<512x512xf32>, tensor<512x512xf32>
  %b = nabla.all_gather %v dim = 0 axes = ["model"] : tensor<256x512xf32> -> tensor<512x512xf32>
  %1 = nabla.linear %0, %b : tensor<512x512xf32>, tensor<512x512xf32>
  %c = nabla.all_gather %w dim = 0 axes = ["model"] : tensor<256x512xf32> -> tensor<512x512xf32>
  %2 = nabla.linear %1, %c : tensor<512x512xf32>, tensor<512x512xf32>
  return %2 : tensor<512x512xf32>
}

// -----
// Products of few rows do not hide a gather: at most two waits are passed, and
// exchanges keep their order.
nabla.mesh @m <["model"=2]>
// CHECK-LABEL: @few_rows
func.func @few_rows(%x: tensor<8x512xf32>, %s: tensor<256x512xf32>, %t: tensor<256x512xf32>, %u: tensor<256x512xf32>, %v: tensor<256x512xf32>, %w: tensor<256x512xf32>) -> tensor<8x512xf32> attributes {nabla.partitioned = @m} {
  // CHECK-NEXT: nabla.custom_call @nabla.all_gather(%arg1)
  // CHECK-NEXT: %[[T:.*]]:2 = nabla.custom_call @nabla.start_all_gather(%arg2)
  // CHECK-NEXT: %[[U:.*]]:2 = nabla.custom_call @nabla.start_all_gather(%arg3)
  // CHECK-NEXT: %[[V:.*]]:2 = nabla.custom_call @nabla.start_all_gather(%arg4)
  // CHECK-NEXT: nabla.linear
  // CHECK-NEXT: nabla.custom_call @nabla.wait(%[[T]]#0
  // CHECK-NEXT: nabla.custom_call @nabla.start_all_gather(%arg5)
  %a = nabla.all_gather %s dim = 0 axes = ["model"] : tensor<256x512xf32> -> tensor<512x512xf32>
  %0 = nabla.linear %x, %a : tensor<8x512xf32>, tensor<512x512xf32>
  %b = nabla.all_gather %t dim = 0 axes = ["model"] : tensor<256x512xf32> -> tensor<512x512xf32>
  %1 = nabla.linear %0, %b : tensor<8x512xf32>, tensor<512x512xf32>
  %c = nabla.all_gather %u dim = 0 axes = ["model"] : tensor<256x512xf32> -> tensor<512x512xf32>
  %2 = nabla.linear %1, %c : tensor<8x512xf32>, tensor<512x512xf32>
  %d = nabla.all_gather %v dim = 0 axes = ["model"] : tensor<256x512xf32> -> tensor<512x512xf32>
  %3 = nabla.linear %2, %d : tensor<8x512xf32>, tensor<512x512xf32>
  %e = nabla.all_gather %w dim = 0 axes = ["model"] : tensor<256x512xf32> -> tensor<512x512xf32>
  %4 = nabla.linear %3, %e : tensor<8x512xf32>, tensor<512x512xf32>
  return %4 : tensor<8x512xf32>
}
