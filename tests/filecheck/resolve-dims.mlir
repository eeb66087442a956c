// Sizes of what linalg computes are those of its outs; others stay.
// RUN: nabla-opt "%s" --nabla-resolve-dims | FileCheck "%s"
// RUN: not nabla-opt "%s" --nabla-resolve-dims=all=true 2>&1 | FileCheck "%s" --check-prefix=OPTION

#same = affine_map<(i, j) -> (i, j)>

// A chain of two, and a cast between.
// CHECK-LABEL: func.func @chain
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32>, %[[N:.*]]: index
// CHECK-NOT: tensor.dim
// CHECK: return %[[N]], %[[N]]
func.func @chain(%x: tensor<?x8xf32>, %n: index) -> (index, index) {
  %c0 = arith.constant 0 : index
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %0 = linalg.generic {indexing_maps = [#same, #same], iterator_types = ["parallel", "parallel"]} ins(%x : tensor<?x8xf32>) outs(%e : tensor<?x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    %s = arith.negf %a : f32
    linalg.yield %s : f32
  } -> tensor<?x8xf32>
  %d = tensor.dim %0, %c0 : tensor<?x8xf32>
  %f = tensor.empty(%d) : tensor<?x8xf32>
  %1 = linalg.exp ins(%0 : tensor<?x8xf32>) outs(%f : tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = tensor.cast %1 : tensor<?x8xf32> to tensor<?x?xf32>
  %g = tensor.dim %2, %c0 : tensor<?x?xf32>
  return %d, %g : index, index
}

// The second of two results; outs that is an argument.
// CHECK-LABEL: func.func @second
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32>, %[[Y:.*]]: tensor<8x?xf32>
// CHECK: %[[D:.*]] = tensor.dim %[[Y]], %c1
// CHECK: return %[[D]]
func.func @second(%x: tensor<?x8xf32>, %y: tensor<8x?xf32>) -> index {
  %c1 = arith.constant 1 : index
  %0:2 = linalg.generic {indexing_maps = [#same, affine_map<(i, j) -> (j, i)>], iterator_types = ["parallel", "parallel"]} outs(%x, %y : tensor<?x8xf32>, tensor<8x?xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %b, %a : f32, f32
  } -> (tensor<?x8xf32>, tensor<8x?xf32>)
  %d = tensor.dim %0#1, %c1 : tensor<8x?xf32>
  return %d : index
}

// Must not fire on arguments, on what linalg did not compute, and on an index
// that is not known: there outs alone takes the place.
// CHECK-LABEL: func.func @others
// CHECK-SAME: %[[X:.*]]: tensor<?x8xf32>, %[[N:.*]]: index
// CHECK-DAG: tensor.dim %[[X]], %c0
// CHECK-DAG: %[[E:.*]] = tensor.empty(%[[N]])
// CHECK-DAG: %[[S:.*]] = tensor.extract_slice
// CHECK: tensor.dim %[[S]], %c0
// CHECK: tensor.dim %[[E]], %[[N]]
func.func @others(%x: tensor<?x8xf32>, %n: index, %v: f32) -> (index, index, index) {
  %c0 = arith.constant 0 : index
  %0 = tensor.dim %x, %c0 : tensor<?x8xf32>
  %e = tensor.empty(%n) : tensor<?x8xf32>
  %s = tensor.extract_slice %x[0, 0] [%n, 8] [1, 1] : tensor<?x8xf32> to tensor<?x8xf32>
  %1 = tensor.dim %s, %c0 : tensor<?x8xf32>
  %f = linalg.fill ins(%v : f32) outs(%e : tensor<?x8xf32>) -> tensor<?x8xf32>
  %2 = tensor.dim %f, %n : tensor<?x8xf32>
  return %0, %1, %2 : index, index, index
}

// OPTION: no such option all
