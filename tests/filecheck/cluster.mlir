// Clusters: which operations one kernel computes, and in how many passes.
// RUN: nabla-opt "%s" --nabla-decompose --nabla-cluster --remarks-filter='nabla.*' 2>&1 | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-decompose --nabla-cluster=no-fusion=on 2>&1 | FileCheck "%s" --check-prefix=OFF
// OFF-NOT: nabla_cluster

!t = tensor<64x256xf32>
!r = tensor<64xf32>
!v = tensor<256xf32>
!q = tensor<64x64xf32>

// A broadcast is read where it is used; two results.
// CHECK-DAG: computes add, mul, tanh, neg by one kernel: 1 pass over each row, 3 inputs, 2 results
func.func @chain(%a: !t, %b: !t, %v: !v) -> (!t, !t) {
  %w = nabla.broadcast_in_dim %v dims = [1] : !v -> !t
  %0 = nabla.add %a, %b : !t, !t
  %1 = nabla.mul %0, %w : !t, !t
  %2 = nabla.tanh %1 : !t
  %3 = nabla.neg %1 : !t
  return %2, %3 : !t, !t
}

// Softmax with what is in front of it and behind it: maximum, sum, result.
// CHECK-DAG: computes add, softmax, relu by one kernel: 3 passes over each row, 2 inputs, 1 results
func.func @softmax(%a: !t, %b: !t) -> !t {
  %0 = nabla.add %a, %b : !t, !t
  %1 = nabla.softmax %0 dim = 1 : !t
  %2 = nabla.relu %1 : !t
  return %2 : !t
}

// CHECK-DAG: computes mul, reduce, add, rsqrt, mul, mul by one kernel: 2 passes over each row, 2 inputs, 1 results
func.func @rms_norm(%x: !t, %w: !v) -> !t {
  %0 = nabla.rms_norm %x, %w eps = 1.0e-5 : !t, !v
  return %0 : !t
}

// CHECK-DAG: computes reduce, sub, mul, reduce, add, rsqrt, mul, mul, add by one kernel: 3 passes over each row, 3 inputs, 1 results
func.func @layer_norm(%x: !t, %w: !v, %b: !v) -> !t {
  %0 = nabla.layer_norm %x, %w, %b eps = 1.0e-5 : !t, !v, !v
  return %0 : !t
}

// A use of a result ends its cluster: the slice stands between two of them.
// CHECK-DAG: computes exp by one kernel: 1 pass over all elements, 1 inputs, 1 results
// CHECK-DAG: computes add by one kernel: 1 pass over all elements, 2 inputs, 1 results
func.func @between(%a: !t) -> !t {
  %0 = nabla.exp %a : !t
  %1 = nabla.flip %0 dims = [0] : !t
  %2 = nabla.add %0, %1 : !t, !t
  return %2 : !t
}

// A broadcast of a result that is used in between ends the cluster as well.
// CHECK-DAG: computes sqrt by one kernel: 1 pass over all elements, 1 inputs, 1 results
// CHECK-DAG: computes neg by one kernel: 1 pass over all elements, 1 inputs, 1 results
func.func @between_broadcast(%a: !t) -> (tensor<2x64x256xf32>, !t) {
  %0 = nabla.sqrt %a : !t
  %b = nabla.broadcast_in_dim %0 dims = [1, 2] : !t -> tensor<2x64x256xf32>
  %f = nabla.flip %b dims = [1] : tensor<2x64x256xf32>
  %1 = nabla.neg %0 : !t
  return %f, %1 : tensor<2x64x256xf32>, !t
}

// A vector that is repeated along rows and along columns is two inputs.
// CHECK-DAG: computes sub, abs by one kernel: 1 pass over each row, 2 inputs, 1 results
func.func @both_ways(%v: tensor<64xf32>) -> !q {
  %r = nabla.broadcast_in_dim %v dims = [0] : tensor<64xf32> -> !q
  %c = nabla.broadcast_in_dim %v dims = [1] : tensor<64xf32> -> !q
  %0 = nabla.sub %r, %c : !q, !q
  %1 = nabla.abs %0 : !q
  return %1 : !q
}

// Sums of rows that are used as columns are not at hand in a row.
// CHECK-DAG: computes relu, reduce by one kernel: 1 pass over each row, 1 inputs, 2 results
// CHECK-DAG: computes maximum by one kernel: 1 pass over each row, 2 inputs, 1 results
func.func @sums_as_columns(%x: !q) -> !q {
  %a = nabla.relu %x : !q
  %s = nabla.reduce sum %a dims = [1] : !q
  %b = nabla.broadcast_in_dim %s dims = [1] : tensor<64xf32> -> !q
  %y = nabla.maximum %a, %b : !q, !q
  return %y : !q
}

// A broadcast in another order of dimensions is read as the array that it is.
// CHECK-DAG: computes ceil, add by one kernel: 1 pass over {{.*}}, 2 inputs, 1 results
func.func @turned(%x: tensor<256x64xf32>, %v: !t) -> tensor<256x64xf32> {
  %b = nabla.broadcast_in_dim %v dims = [1, 0] : !t -> tensor<256x64xf32>
  %0 = nabla.ceil %x : tensor<256x64xf32>
  %1 = nabla.add %0, %b : tensor<256x64xf32>, tensor<256x64xf32>
  return %1 : tensor<256x64xf32>
}

// No exp and no division is computed in a product: it reads the softmax.
// CHECK-LABEL: func.func @attend
// CHECK: %[[P:.*]] = call @nabla_cluster_call_{{[0-9]+}}_softmax(
// CHECK-NEXT: nabla.dot_general %[[P]]
func.func @attend(%s: !t, %v: tensor<256x32xf32>) -> tensor<64x32xf32> {
  %p = nabla.softmax %s dim = 1 : !t
  %y = nabla.dot_general %p, %v contracting = [1] x [0] : !t, tensor<256x32xf32>
  return %y : tensor<64x32xf32>
}

// Too small for a call, and division of integers: as before.
// CHECK-LABEL: func.func @others
// CHECK: nabla.add
// CHECK: nabla.div
func.func @others(%a: tensor<4xf32>, %b: tensor<4096xi32>) -> (tensor<4xf32>, tensor<4096xi32>) {
  %0 = nabla.add %a, %a : tensor<4xf32>, tensor<4xf32>
  %1 = nabla.div %b, %b : tensor<4096xi32>, tensor<4096xi32>
  return %0, %1 : tensor<4xf32>, tensor<4096xi32>
}

// Clusters that begin behind another one, which reads their results, are
// computed before it.
// CHECK-LABEL: func.func @interleaved
// CHECK: %[[X:.*]] = call @nabla_cluster_call_{{[0-9]+}}_convert(%arg1)
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_div({{.*}}%[[X]]
func.func @interleaved(%arg0: tensor<5x?xf16>, %arg1: tensor<?x?xf16>, %arg2: tensor<5x?xf16>, %arg3: tensor<?x?xf16>) -> (tensor<5x?xf16>, tensor<5x?xf16>) {
  %0 = nabla.div %arg0, %arg1 : tensor<5x?xf16>, tensor<?x?xf16>
  %1 = nabla.convert %arg0 : tensor<5x?xf16> -> tensor<5x?xf32>
  %2 = nabla.convert %arg1 : tensor<?x?xf16> -> tensor<?x?xf32>
  %c1 = arith.constant 1 : index
  %dim = tensor.dim %1, %c1 : tensor<5x?xf32>
  %3 = nabla.full 1.000000e+00 : f32 sizes(%dim) -> tensor<5x?xf32>
  %4 = nabla.div %3, %2 : tensor<5x?xf32>, tensor<?x?xf32>
  %5 = nabla.convert %arg2 : tensor<5x?xf16> -> tensor<5x?xf32>
  %6 = nabla.mul %5, %4 : tensor<5x?xf32>, tensor<5x?xf32>
  %7 = nabla.convert %0 : tensor<5x?xf16> -> tensor<5x?xf32>
  %8 = nabla.neg %7 : tensor<5x?xf32>
  %9 = nabla.div %8, %2 : tensor<5x?xf32>, tensor<?x?xf32>
  %10 = nabla.convert %arg3 : tensor<?x?xf16> -> tensor<?x?xf32>
  %11 = nabla.mul %10, %9 : tensor<?x?xf32>, tensor<5x?xf32>
  %12 = nabla.add %6, %11 : tensor<5x?xf32>, tensor<5x?xf32>
  %13 = nabla.convert %12 : tensor<5x?xf32> -> tensor<5x?xf16>
  return %0, %13 : tensor<5x?xf16>, tensor<5x?xf16>
}

// Must not read a broadcast that exchanges dimensions, beside one of size 1.
// CHECK-LABEL: func.func @exchanged_broadcast
// CHECK: %[[B:.*]] = nabla.broadcast_in_dim %arg0
// CHECK: call @{{.*}}(%[[B]]
func.func @exchanged_broadcast(%x: tensor<16x1x16xf32>) -> tensor<4x16x16x16xf32> {
  %0 = nabla.broadcast_in_dim %x dims = [2, 0, 1] : tensor<16x1x16xf32> -> tensor<4x16x16x16xf32>
  %1 = nabla.neg %0 : tensor<4x16x16x16xf32>
  %2 = nabla.abs %1 : tensor<4x16x16x16xf32>
  return %2 : tensor<4x16x16x16xf32>
}

// Vectors of unknown sizes along different dimensions are no cluster, even
// where one operation reads both.
// CHECK-LABEL: func.func @along_two
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_exp(%arg0)
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_exp(%arg1)
func.func @along_two(%x: tensor<?xf32>, %y: tensor<?xf32>, %n: index, %m: index) -> tensor<?x?xf32> {
  %0 = nabla.exp %x : tensor<?xf32>
  %1 = nabla.exp %y : tensor<?xf32>
  %2 = nabla.broadcast_in_dim %0 dims = [0] sizes(%n, %m) : tensor<?xf32> -> tensor<?x?xf32>
  %3 = nabla.broadcast_in_dim %1 dims = [1] sizes(%n, %m) : tensor<?xf32> -> tensor<?x?xf32>
  %4 = nabla.mul %2, %3 : tensor<?x?xf32>, tensor<?x?xf32>
  return %4 : tensor<?x?xf32>
}

// Reductions of rows of unknown lengths, which may differ, are no cluster, even
// where one operation reads both.
// CHECK-LABEL: func.func @other_columns
// CHECK: %[[S:.*]] = call @nabla_cluster_call_{{[0-9]+}}_reduce(%arg0)
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_add(%arg1, %[[S]])
func.func @other_columns(%x: tensor<?x?xf32>, %y: tensor<?x?xf32>) -> tensor<?xf32> {
  %0 = nabla.reduce sum %x dims = [1] : tensor<?x?xf32>
  %1 = nabla.reduce max %y dims = [1] : tensor<?x?xf32>
  %2 = nabla.add %0, %1 : tensor<?xf32>, tensor<?xf32>
  return %2 : tensor<?xf32>
}

// CHECK-LABEL: func.func @other_columns_kept
// CHECK: %[[S:.*]] = call @nabla_cluster_call_{{[0-9]+}}_reduce(%arg0)
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_sub(%arg1, %[[S]])
func.func @other_columns_kept(%x: tensor<8x?xf32>, %y: tensor<8x?xf32>) -> tensor<8x1xf32> {
  %0 = nabla.reduce sum %x dims = [1] keep_dims : tensor<8x?xf32>
  %1 = nabla.reduce sum %y dims = [1] keep_dims : tensor<8x?xf32>
  %2 = nabla.sub %1, %0 : tensor<8x1xf32>, tensor<8x1xf32>
  return %2 : tensor<8x1xf32>
}

// They are one where an array that both read says that the lengths are equal.
// CHECK-LABEL: func.func @same_columns
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_add(%arg0
// CHECK-NEXT: return
func.func @same_columns(%x: tensor<?x?xf32>) -> tensor<?xf32> {
  %0 = nabla.abs %x : tensor<?x?xf32>
  %1 = nabla.reduce sum %x dims = [1] : tensor<?x?xf32>
  %2 = nabla.reduce max %0 dims = [1] : tensor<?x?xf32>
  %3 = nabla.add %1, %2 : tensor<?xf32>, tensor<?xf32>
  return %3 : tensor<?xf32>
}

// And where the number of columns is known, whatever the number of rows.
// CHECK-LABEL: func.func @known_columns
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_add(%arg{{[01]}}, %arg{{[01]}})
// CHECK-NEXT: return
func.func @known_columns(%x: tensor<?x64xf32>, %y: tensor<?x64xf32>) -> tensor<?xf32> {
  %0 = nabla.reduce sum %x dims = [1] : tensor<?x64xf32>
  %1 = nabla.reduce max %y dims = [1] : tensor<?x64xf32>
  %2 = nabla.add %0, %1 : tensor<?xf32>, tensor<?xf32>
  return %2 : tensor<?xf32>
}
