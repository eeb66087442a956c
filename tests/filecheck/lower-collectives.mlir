// Collectives become custom calls of the runtime; meshes are gone.
// RUN: nabla-opt "%s" --nabla-lower-collectives | FileCheck "%s" --implicit-check-not nabla.mesh

nabla.mesh @m <["data"=2, "model"=4]>

// CHECK-LABEL: @known
func.func @known(%x: tensor<8x16xf32>) -> (tensor<8x16xf32>, tensor<4x16xf32>, tensor<i64>) attributes {nabla.partitioned = @m} {
  // CHECK: nabla.custom_call @nabla.all_reduce(%arg0) {axes = array<i64: 2, 2, 1, 2>, kind = 0 : i64} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %a = nabla.all_reduce sum %x axes = ["model"] : tensor<8x16xf32>
  // CHECK: nabla.custom_call @nabla.reduce_scatter(%arg0) {axes = array<i64: 1, 2>, dim = 0 : i64, kind = 1 : i64}
  %b = nabla.reduce_scatter max %x dim = 0 axes = ["model:(2)2"] : tensor<8x16xf32> -> tensor<4x16xf32>
  // CHECK: nabla.custom_call @nabla.axis_index() {axes = array<i64: 2, 2, 1, 2, 4, 2>} : () -> tensor<i64>
  %c = nabla.axis_index axes = ["model", "data"] : tensor<i64>
  return %a, %b, %c : tensor<8x16xf32>, tensor<4x16xf32>, tensor<i64>
}

// Sizes that are not known follow from those of the operand.
// CHECK-LABEL: @unknown
func.func @unknown(%x: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) attributes {nabla.partitioned = @m} {
  // CHECK-DAG: %[[TWO:.*]] = arith.constant 2 : index
  // CHECK: %[[MORE:.*]] = arith.muli %{{.*}}, %{{.*}} : index
  // CHECK: nabla.custom_call @nabla.all_gather(%arg0, %[[MORE]], %{{.*}}) {axes = array<i64: 4, 2>, dim = 0 : i64} : (tensor<?x?xf32>, index, index) -> tensor<?x?xf32>
  %a = nabla.all_gather %x dim = 0 axes = ["data"] : tensor<?x?xf32> -> tensor<?x?xf32>
  // CHECK: %[[LESS:.*]] = arith.divui %{{.*}}, %{{.*}} : index
  // CHECK: nabla.custom_call @nabla.all_slice(%arg0, %{{.*}}, %[[LESS]]) {axes = array<i64: 4, 2>, dim = 1 : i64}
  %b = nabla.all_slice %x dim = 1 axes = ["data"] : tensor<?x?xf32> -> tensor<?x?xf32>
  return %a, %b : tensor<?x?xf32>, tensor<?x?xf32>
}
