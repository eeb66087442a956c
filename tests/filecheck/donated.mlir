// Donated arguments: the manifest, writes in place, and results in their memory.
// RUN: nabla-opt "%s" --nabla-manifest | FileCheck "%s" --check-prefix=MANIFEST
// RUN: nabla-opt "%s" --nabla-manifest --nabla-lower-control --nabla-to-linalg --nabla-states | FileCheck "%s" --check-prefix=STATES
// RUN: nabla-opt "%s" --nabla-cpu --mlir-print-ir-after=nabla-place-results --mlir-disable-threading 2>&1 >/dev/null | FileCheck "%s"

!k = tensor<?x4xf32>
!w = tensor<64x32xf32>

// MANIFEST: {\22name\22:\22k\22,\22dtype\22:\22F32\22,\22shape\22:[null,4],\22donated\22:true}
// MANIFEST: func.func @put
// MANIFEST-SAME: tensor<?x4xf32> {bufferization.writable = false, nabla.donated}

// A row is written in place, of any size, and the argument is the result.
// STATES-LABEL: func.func @put
// STATES-SAME: tensor<?x4xf32> {bufferization.writable = true, nabla.donated}
// CHECK-LABEL: func.func @put
// CHECK-SAME: %[[K:[a-z0-9]*]]: memref<?x4xf32>,
// CHECK-NOT: memref.alloc
// CHECK-NOT: nabla_result
// CHECK: %[[ROW:.*]] = memref.subview %[[K]]
// CHECK: memref.copy %{{.*}}, %[[ROW]]
// CHECK-NOT: memref.copy
// CHECK: return %[[K]]
func.func @put(%k: !k {nabla.name = "k", nabla.donated}, %x: tensor<1x4xf32>, %p: tensor<i64>) -> !k {
  %c0 = arith.constant 0 : index
  %i = tensor.extract %p[] : tensor<i64>
  %at = arith.index_cast %i : i64 to index
  %n = nabla.dynamic_update_slice %k, %x at (%at, %c0 : index, index) : !k, tensor<1x4xf32>
  return %n : !k
}

// An elementwise result is computed in the argument that it reads, also where a
// product read this before.
// CHECK-LABEL: func.func @train
// CHECK-SAME: %[[W:[a-z0-9]*]]: memref<64x32xf32>,
// CHECK: call @nabla_fused
// CHECK: call @nabla_cluster{{.*}}(%[[W]], %{{.*}}, %[[W]])
// CHECK: return %[[W]], %
func.func @train(%w: !w {nabla.name = "w", nabla.donated}, %x: tensor<8x32xf32>) -> (!w, tensor<8x64xf32>) {
  %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<8x32xf32>, !w
  %g = nabla.dot_general %y, %x contracting = [0] x [0] : tensor<8x64xf32>, tensor<8x32xf32>
  %n = nabla.sub %w, %g : !w, !w
  return %n, %y : !w, tensor<8x64xf32>
}

// The same of an operation that is no cluster.
// CHECK-LABEL: func.func @small
// CHECK-SAME: %[[A:[a-z0-9]*]]: memref<4xf32>,
// CHECK: linalg.generic {{.*}} ins(%[[A]], %{{.*}}) outs(%[[A]] :
// CHECK: return %[[A]]
func.func @small(%a: tensor<4xf32> {nabla.name = "a", nabla.donated}, %b: tensor<4xf32>) -> tensor<4xf32> {
  %n = nabla.add %a, %b : tensor<4xf32>, tensor<4xf32>
  return %n : tensor<4xf32>
}

// Two results, each in the memory of one argument.
// CHECK-LABEL: func.func @moments
// CHECK-SAME: %[[W:[a-z0-9]*]]: memref<64x32xf32>, %[[M:[a-z0-9]*]]: memref<64x32xf32>,
// CHECK-NOT: nabla_result
// CHECK: return %[[W]], %[[M]]
func.func @moments(%w: !w {nabla.donated}, %m: !w {nabla.donated}, %g: !w) -> (!w, !w) {
  %a = nabla.add %m, %g : !w, !w
  %b = nabla.sub %w, %a : !w, !w
  return %b, %a : !w, !w
}

// Not where the argument is read later, ...
// CHECK-LABEL: func.func @later
// CHECK-SAME: %[[A:[a-z0-9]*]]: memref<4x4xf32>)
// CHECK: nabla_result
// CHECK: nabla_result
// CHECK-NOT: return %[[A]]
func.func @later(%a: tensor<4x4xf32> {nabla.name = "a", nabla.donated}) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %n = nabla.exp %a : tensor<4x4xf32>
  %s = nabla.dot_general %a, %n contracting = [1] x [0] : tensor<4x4xf32>, tensor<4x4xf32>
  return %n, %s : tensor<4x4xf32>, tensor<4x4xf32>
}

// ... where elements are read at other places, ...
// CHECK-LABEL: func.func @turn
// CHECK: nabla_result
func.func @turn(%a: tensor<4x4xf32> {nabla.donated}) -> tensor<4x4xf32> {
  %t = nabla.transpose %a permutation = [1, 0] : tensor<4x4xf32> -> tensor<4x4xf32>
  %n = nabla.add %a, %t : tensor<4x4xf32>, tensor<4x4xf32>
  return %n : tensor<4x4xf32>
}

// ... of another type, ...
// CHECK-LABEL: func.func @wider
// CHECK: nabla_result
func.func @wider(%a: tensor<4xf32> {nabla.donated}) -> tensor<4xf64> {
  %n = nabla.convert %a : tensor<4xf32> -> tensor<4xf64>
  return %n : tensor<4xf64>
}

// ... of a reduction of rows, ...
// CHECK-LABEL: func.func @rows
// CHECK: nabla_result
func.func @rows(%a: !w {nabla.donated}) -> !w {
  %n = nabla.softmax %a dim = 1 : !w
  return %n : !w
}

// ... or where it is not donated.
// CHECK-LABEL: func.func @lent
// CHECK: nabla_result
func.func @lent(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %n = nabla.add %a, %b : tensor<4xf32>, tensor<4xf32>
  return %n : tensor<4xf32>
}
