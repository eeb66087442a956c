// RUN: nabla-opt "%s" --nabla-lower-switch | FileCheck "%s"
// RUN: not nabla-opt "%s" --nabla-lower-switch=all=true 2>&1 | FileCheck "%s" --check-prefix=OPTION

// CHECK-LABEL: func.func @two
// CHECK-SAME: %[[N:.*]]: index, %[[A:.*]]: tensor<4xf32>, %[[B:.*]]: tensor<4xf32>
// CHECK-DAG: %[[SEVEN:.*]] = arith.constant 7 : index
// CHECK-DAG: %[[IS:.*]] = arith.cmpi eq, %[[N]], %[[SEVEN]] : index
// CHECK-DAG: %[[TWO:.*]] = arith.constant -2 : index
// CHECK-DAG: %[[IS2:.*]] = arith.cmpi eq, %[[N]], %[[TWO]] : index
// CHECK: %[[R:.*]]:2 = scf.if %[[IS]] -> (tensor<4xf32>, index) {
// CHECK: scf.yield %[[A]], %[[N]]
// CHECK: } else {
// CHECK: %[[I:.*]]:2 = scf.if %[[IS2]] -> (tensor<4xf32>, index) {
// CHECK: scf.yield %[[B]], %[[N]]
// CHECK: } else {
// CHECK: %[[S:.*]] = arith.addf %[[A]], %[[B]]
// CHECK: scf.yield %[[S]], %[[N]]
// CHECK: scf.yield %[[I]]#0, %[[I]]#1
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @two(%n: index, %a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, index) {
  %0:2 = scf.index_switch %n -> tensor<4xf32>, index
  case 7 {
    scf.yield %a, %n : tensor<4xf32>, index
  }
  case -2 {
    scf.yield %b, %n : tensor<4xf32>, index
  }
  default {
    %s = arith.addf %a, %b : tensor<4xf32>
    scf.yield %s, %n : tensor<4xf32>, index
  }
  return %0#0, %0#1 : tensor<4xf32>, index
}

// CHECK-LABEL: func.func @none
// CHECK-NOT: scf.
// CHECK: %[[S:.*]] = arith.addf
// CHECK: return %[[S]]
func.func @none(%n: index, %a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = scf.index_switch %n -> tensor<4xf32>
  default {
    %s = arith.addf %a, %a : tensor<4xf32>
    scf.yield %s : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}

// Must not fire where there are no results.
// CHECK-LABEL: func.func @effects
// CHECK: scf.index_switch
func.func @effects(%n: index, %m: memref<f32>, %x: f32) {
  scf.index_switch %n
  case 1 {
    memref.store %x, %m[] : memref<f32>
    scf.yield
  }
  default {
  }
  return
}

// OPTION: no such option all
