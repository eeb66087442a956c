// mode=split makes two functions: @NAME.forward also returns what is saved,
// @NAME.backward takes the arguments, what is saved, and cotangents.
// RUN: nabla-opt "%s" --nabla-vjp="mode=split" | FileCheck "%s" --check-prefixes=CHECK,ALL
// RUN: nabla-opt "%s" --nabla-vjp="mode=split save=dots" | FileCheck "%s" --check-prefixes=CHECK,DOTS
// RUN: nabla-opt "%s" --nabla-vjp="mode=split save=none" | FileCheck "%s" --check-prefixes=CHECK,NONE
// RUN: not nabla-opt "%s" --nabla-vjp="mode=both" 2>&1 | FileCheck "%s" --check-prefix=MODE

// MODE: nabla-vjp: mode 'both' is none of joint, split

// CHECK-LABEL: func.func @main.forward(
// CHECK-SAME: %arg0: tensor<?x4xf32> {nabla.name = "x"}, %arg1: tensor<8x4xf32> {nabla.name = "w"})
// ALL-SAME: -> (tensor<?x8xf32> {nabla.name = "y"}, tensor<?x8xf32> {nabla.name = "saved.0.dot_general"}, tensor<?x8xf32> {nabla.name = "saved.1.tanh"}, tensor<?x8xf32> {nabla.name = "saved.2.exp"})
// DOTS-SAME: -> (tensor<?x8xf32> {nabla.name = "y"}, tensor<?x8xf32> {nabla.name = "saved.0.dot_general"})
// NONE-SAME: -> (tensor<?x8xf32> {nabla.name = "y"})
// CHECK: %[[P:.*]] = nabla.dot_general
// CHECK: %[[T:.*]] = nabla.tanh %[[P]]
// CHECK: %[[E:.*]] = nabla.exp %[[T]]
// CHECK-NOT: nabla.mul
// CHECK-LABEL: func.func @main.backward(
// CHECK-SAME: {nabla.name = "y.cotangent"}) -> (tensor<?x4xf32> {nabla.name = "x.gradient"}, tensor<8x4xf32> {nabla.name = "w.gradient"})
// ALL-NOT: nabla.exp
// ALL-NOT: nabla.tanh
// DOTS-NOT: nabla.dot_general
// DOTS: nabla.tanh %arg2
// DOTS: nabla.exp
// NONE: nabla.dot_general %arg0, %arg1 contracting = [1] x [1]
// NONE: nabla.tanh
// CHECK: nabla.dot_general %{{.*}}, %arg1 contracting = [1] x [0]
// CHECK: nabla.dot_general %{{.*}}, %arg0 contracting = [0] x [0]
// CHECK-NOT: @main.vjp
func.func @main(%x: tensor<?x4xf32> {nabla.name = "x"}, %w: tensor<8x4xf32> {nabla.name = "w"}) -> (tensor<?x8xf32> {nabla.name = "y"}) {
  %0 = nabla.linear %x, %w : tensor<?x4xf32>, tensor<8x4xf32>
  %1 = nabla.tanh %0 : tensor<?x8xf32>
  %2 = nabla.exp %1 : tensor<?x8xf32>
  return %2 : tensor<?x8xf32>
}
