// Reductions of dimensions in front of the last, argmax, argmin and cumsum: which
// a kernel computes.
// RUN: nabla-opt "%s" --nabla-cluster --remarks-filter='nabla.*' 2>&1 | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-cluster=no-fusion=on 2>&1 | FileCheck "%s" --check-prefix=OFF
// RUN: nabla-opt "%s" --nabla-cluster 2>&1 | FileCheck "%s" --check-prefix=BYTES
// OFF-NOT: nabla_cluster

!t = tensor<64x256xf32>

// CHECK-DAG: remark: {{.*}}computes reduce by one kernel of columns
// CHECK-DAG: remark: {{.*}}computes argmax by one kernel of rows
// CHECK-DAG: remark: {{.*}}computes cumsum by one kernel of columns

// Of rows, in the middle, of unknown sizes, behind a kernel.
// CHECK-LABEL: func.func @kernels
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_reduce(%{{.*}}) : (tensor<64x256xf32>) -> tensor<256xf32>
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_reduce(%{{.*}}) : (tensor<4x5x6x32xf16>) -> tensor<4x1x1x32xf16>
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_reduce(%{{.*}}) : (tensor<?x?x?xbf16>) -> tensor<?x?xbf16>
// CHECK: %[[E:.*]] = call @nabla_cluster_call_{{[0-9]+}}_exp(
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_reduce(%[[E]])
func.func @kernels(%a: !t, %b: tensor<4x5x6x32xf16>, %c: tensor<?x?x?xbf16>)
    -> (tensor<256xf32>, tensor<4x1x1x32xf16>, tensor<?x?xbf16>, tensor<256xf32>) {
  %0 = nabla.reduce sum %a dims = [0] : !t
  %1 = nabla.reduce mean %b dims = [2, 1] keep_dims : tensor<4x5x6x32xf16>
  %2 = nabla.reduce max %c dims = [1] : tensor<?x?x?xbf16>
  %3 = nabla.exp %a : !t
  %4 = nabla.reduce min %3 dims = [0] : !t
  return %0, %1, %2, %4 : tensor<256xf32>, tensor<4x1x1x32xf16>, tensor<?x?xbf16>, tensor<256xf32>
}

// Equal reductions share a kernel and its function.
// CHECK-LABEL: func.func @shared
// CHECK: call @[[F:nabla_cluster_call_[0-9]+_reduce]](
// CHECK: call @[[F]](
func.func @shared(%a: !t, %b: !t) -> (tensor<256xf32>, tensor<256xf32>) {
  %0 = nabla.reduce prod %a dims = [0] : !t
  %1 = nabla.reduce prod %b dims = [0] : !t
  return %0, %1 : tensor<256xf32>, tensor<256xf32>
}

// Of f64, integers and truth values, also behind a kernel of them.
// CHECK-LABEL: func.func @types
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_reduce(%{{.*}}) : (tensor<64x256xf64>) -> tensor<256xf64>
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_reduce(%{{.*}}) : (tensor<64x?xi32>) -> tensor<?xi32>
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_reduce(%{{.*}}) : (tensor<64x256xui8>) -> tensor<1x256xui8>
// CHECK: %[[C:.*]] = call @nabla_cluster_call_{{[0-9]+}}_compare(
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_reduce(%[[C]]) : (tensor<64x256xi1>) -> tensor<256xi1>
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_cumsum(%{{.*}}) : (tensor<64x256xf64>) -> tensor<64x256xf64>
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_argmin(%{{.*}}) : (tensor<64x256xui8>) -> tensor<64xi64>
func.func @types(%a: tensor<64x256xf64>, %b: tensor<64x?xi32>, %c: tensor<64x256xui8>)
    -> (tensor<256xf64>, tensor<?xi32>, tensor<1x256xui8>, tensor<256xi1>, tensor<64x256xf64>, tensor<64xi64>) {
  %0 = nabla.reduce mean %a dims = [0] : tensor<64x256xf64>
  %1 = nabla.reduce max %b dims = [0] : tensor<64x?xi32>
  %2 = nabla.reduce sum %c dims = [0] keep_dims : tensor<64x256xui8>
  %3 = nabla.compare lt %c, %c : tensor<64x256xui8>, tensor<64x256xui8>
  %4 = nabla.reduce any %3 dims = [0] : tensor<64x256xi1>
  %5 = nabla.cumsum %a dim = 0 : tensor<64x256xf64>
  %6 = nabla.argmin %c dim = 1 : tensor<64x256xui8>
  return %0, %1, %2, %4, %5, %6 : tensor<256xf64>, tensor<?xi32>, tensor<1x256xui8>, tensor<256xi1>, tensor<64x256xf64>, tensor<64xi64>
}

// Columns of bytes are in vectors of 64 if there are as many.
// BYTES-DAG: llvm.load {{.*}} -> vector<64xi8>
// BYTES-DAG: llvm.load {{.*}} -> vector<16xi8>
// CHECK-LABEL: func.func @bytes
// CHECK: call @[[WIDE:nabla_cluster_call_[0-9]+_cumsum]](%arg0)
// CHECK: call @[[NARROW:nabla_cluster_call_[0-9]+_cumsum]](%arg1)
func.func @bytes(%a: tensor<64x64xi8>, %b: tensor<64x63xi8>) -> (tensor<64x64xi8>, tensor<64x63xi8>) {
  %0 = nabla.cumsum %a dim = 0 : tensor<64x64xi8>
  %1 = nabla.cumsum %b dim = 0 : tensor<64x63xi8>
  return %0, %1 : tensor<64x64xi8>, tensor<64x63xi8>
}

// Too small, too few columns, dimensions that are no neighbours,
// an array that its reader can compute.
// CHECK-LABEL: func.func @others
// CHECK-NOT: nabla_cluster_call
// CHECK: return
func.func @others(%a: tensor<4x16xf64>, %b: tensor<4096x8xi32>, %c: tensor<4x16xf32>, %d: tensor<4096x8xf32>, %e: tensor<8x64x8x64xi64>, %f: tensor<256xf64>)
    -> (tensor<16xf64>, tensor<8xi32>, tensor<16xf32>, tensor<8xf32>, tensor<64x64xi64>, tensor<256xf64>) {
  %0 = nabla.reduce sum %a dims = [0] : tensor<4x16xf64>
  %1 = nabla.reduce max %b dims = [0] : tensor<4096x8xi32>
  %2 = nabla.reduce sum %c dims = [0] : tensor<4x16xf32>
  %3 = nabla.reduce sum %d dims = [0] : tensor<4096x8xf32>
  %4 = nabla.reduce sum %e dims = [0, 2] : tensor<8x64x8x64xi64>
  %5 = nabla.broadcast_in_dim %f dims = [1] : tensor<256xf64> -> tensor<64x256xf64>
  %6 = nabla.reduce sum %5 dims = [0] : tensor<64x256xf64>
  return %0, %1, %2, %3, %4, %6 : tensor<16xf64>, tensor<8xi32>, tensor<16xf32>, tensor<8xf32>, tensor<64x64xi64>, tensor<256xf64>
}

// Along the last dimension, one in front, one of unknown size, whose rows are
// counted.
// CHECK-LABEL: func.func @along
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_argmax(%{{.*}}) : (tensor<64x256xf32>) -> tensor<64xi64>
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_argmin(%{{.*}}) : (tensor<?x256xbf16>) -> tensor<1x256xi64>
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_cumsum(%{{.*}}) : (tensor<64x256xf32>) -> tensor<64x256xf32>
// CHECK: call @nabla_cluster_call_{{[0-9]+}}_cumsum(%{{.*}}) : (tensor<?xf16>) -> tensor<?xf16>
func.func @along(%a: !t, %b: tensor<?x256xbf16>, %c: tensor<?xf16>)
    -> (tensor<64xi64>, tensor<1x256xi64>, !t, tensor<?xf16>) {
  %0 = nabla.argmax %a dim = 1 : !t
  %1 = nabla.argmin %b dim = 0 keep_dims : tensor<?x256xbf16>
  %2 = nabla.cumsum %a dim = 0 : !t
  %3 = nabla.cumsum %c dim = 0 : tensor<?xf16>
  return %0, %1, %2, %3 : tensor<64xi64>, tensor<1x256xi64>, !t, tensor<?xf16>
}

// Small, of few columns.
// CHECK-LABEL: func.func @loops
// CHECK-NOT: nabla_cluster_call
// CHECK: return
func.func @loops(%a: tensor<4x64xf32>, %b: tensor<4096x8xf64>, %c: tensor<4x64xi32>)
    -> (tensor<4xi64>, tensor<8xi64>, tensor<4x64xi32>) {
  %0 = nabla.argmax %a dim = 1 : tensor<4x64xf32>
  %1 = nabla.argmin %b dim = 0 : tensor<4096x8xf64>
  %2 = nabla.cumsum %c dim = 1 : tensor<4x64xi32>
  return %0, %1, %2 : tensor<4xi64>, tensor<8xi64>, tensor<4x64xi32>
}
