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

// Of more than 16 cases it stays, and gives tensors that are its own.
// CHECK-LABEL: func.func @many
// CHECK-SAME: %[[N:.*]]: index, %[[A:.*]]: tensor<?xf32>, %[[B:.*]]: tensor<?xf32>
// CHECK: scf.index_switch %[[N]]
// CHECK-COUNT-17: bufferization.alloc_tensor() copy(%[[A]]) : tensor<?xf32>
// CHECK: default {
// CHECK: %[[C:.*]] = bufferization.alloc_tensor() copy(%[[B]]) : tensor<?xf32>
// CHECK: scf.yield %[[C]], %[[N]]
func.func @many(%n: index, %a: tensor<?xf32>, %b: tensor<?xf32>) -> (tensor<?xf32>, index) {
  %0:2 = scf.index_switch %n -> tensor<?xf32>, index
  case 0 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 1 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 2 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 3 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 4 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 5 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 6 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 7 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 8 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 9 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 10 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 11 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 12 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 13 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 14 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 15 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  case 16 {
    scf.yield %a, %n : tensor<?xf32>, index
  }
  default {
    scf.yield %b, %n : tensor<?xf32>, index
  }
  return %0#0, %0#1 : tensor<?xf32>, index
}

// OPTION: no such option all
