// Dimensions that must agree and are not known to are compared at run time,
// before anything that relies on it; known ones are not.
// RUN: nabla-opt "%s" --nabla-to-linalg | FileCheck "%s"

// CHECK-DAG: llvm.mlir.global internal constant @nabla_where_add("nabla.add\00") {addr_space = 0 : i32}
// CHECK-DAG: llvm.mlir.global internal constant @nabla_where_dot_general("nabla.dot_general\00")
// CHECK-DAG: func.func private @nabla_require_equal(i64, i64, !llvm.ptr)

// CHECK-LABEL: func.func @add
// CHECK: %[[D:.*]] = tensor.dim %arg0, %{{.*}} : tensor<?x4xf32>
// CHECK: %[[E:.*]] = arith.constant 8 : index
// CHECK: %[[W:.*]] = llvm.mlir.addressof @nabla_where_add
// CHECK: %[[A:.*]] = arith.index_cast %[[D]] : index to i64
// CHECK: %[[B:.*]] = arith.index_cast %[[E]] : index to i64
// CHECK: call @nabla_require_equal(%[[A]], %[[B]], %[[W]]) : (i64, i64, !llvm.ptr) -> ()
// CHECK-NOT: call
// CHECK: tensor.empty() : tensor<8x4xf32>
// CHECK: linalg.generic
func.func @add(%a: tensor<?x4xf32>, %b: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = nabla.add %a, %b : tensor<?x4xf32>, tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}

// An operand agrees with itself.
// CHECK-LABEL: func.func @add_twice
// CHECK-NOT: call
// CHECK: return
func.func @add_twice(%a: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = nabla.add %a, %a : tensor<?x?xf32>, tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// One check for the batch, one for what is contracted.
// CHECK-LABEL: func.func @dot
// CHECK-COUNT-2: call @nabla_require_equal
// CHECK-NOT: call
// CHECK: linalg.fill
func.func @dot(%a: tensor<?x?x?xf32>, %b: tensor<8x4x5xf32>) -> tensor<8x?x5xf32> {
  %0 = nabla.dot_general %a, %b batching = [0] x [0] contracting = [2] x [1] : tensor<?x?x?xf32>, tensor<8x4x5xf32>
  return %0 : tensor<8x?x5xf32>
}

// What is left over for the one `?`, and that nothing is.
// CHECK-LABEL: func.func @reshape
// CHECK: %[[T:.*]] = arith.muli
// CHECK: %[[N:.*]] = arith.divui %{{.*}}, %{{.*}} : index
// CHECK: arith.mului_extended
// CHECK: call @nabla_require_equal
// CHECK: tensor.collapse_shape
// CHECK: tensor.expand_shape %{{.*}} output_shape [%[[N]], 3] : tensor<?xf32> into tensor<?x3xf32>
func.func @reshape(%a: tensor<?x4xf32>) -> tensor<?x3xf32> {
  %0 = nabla.reshape %a : tensor<?x4xf32> -> tensor<?x3xf32>
  return %0 : tensor<?x3xf32>
}

// Sizes are not negative, and give as many elements.
// CHECK-LABEL: func.func @reshape_sizes
// CHECK: arith.minsi %arg1, %{{.*}} : index
// CHECK: call @nabla_require_equal
// CHECK: arith.minsi %arg2, %{{.*}} : index
// CHECK: call @nabla_require_equal
// CHECK: call @nabla_require_equal
// CHECK-NOT: expand_shape
// CHECK: linalg.generic
// CHECK: tensor.extract
func.func @reshape_sizes(%a: tensor<?xf32>, %n: index, %m: index) -> tensor<?x?xf32> {
  %0 = nabla.reshape %a sizes(%n, %m) : tensor<?xf32> -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}

// A static shape is checked against what there is.
// CHECK-LABEL: func.func @reshape_static
// CHECK: call @nabla_require_equal
// CHECK: tensor.cast %{{.*}} : tensor<?xf32> to tensor<8xf32>
func.func @reshape_static(%a: tensor<?x4xf32>) -> tensor<2x4xf32> {
  %0 = nabla.reshape %a : tensor<?x4xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// A dimension of unknown size may be 1, and is repeated then.
// CHECK-LABEL: func.func @broadcast
// CHECK: arith.minsi %arg1
// CHECK: call @nabla_require_equal
// CHECK: %[[R:.*]] = arith.cmpi eq
// CHECK: arith.select %[[R]]
// CHECK: call @nabla_require_equal
// CHECK: linalg.generic
// CHECK: arith.select %[[R]]
// CHECK: tensor.extract %arg0
func.func @broadcast(%a: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %0 = nabla.broadcast_in_dim %a dims = [0] sizes(%n) : tensor<?xf32> -> tensor<?xf32>
  return %0 : tensor<?xf32>
}

// A known one must fit.
// CHECK-LABEL: func.func @broadcast_known
// CHECK: call @nabla_require_equal
// CHECK: arith.constant 4 : index
// CHECK: call @nabla_require_equal
// CHECK: linalg.generic {{.*}} ins(%arg0 : tensor<4xf32>)
func.func @broadcast_known(%a: tensor<4xf32>, %n: index) -> tensor<?xf32> {
  %0 = nabla.broadcast_in_dim %a dims = [0] sizes(%n) : tensor<4xf32> -> tensor<?xf32>
  return %0 : tensor<?xf32>
}
