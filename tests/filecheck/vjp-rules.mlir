// Rules that custom calls name, and cotangents that are left out: rules are
// copied without them. Symbols that attributes alone name stay.
// RUN: nabla-opt "%s" --nabla-vjp="function=main wrt=0" --symbol-dce | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-jvp="function=main wrt=0" | FileCheck "%s" --check-prefix=JVP
// RUN: nabla-opt "%s" --symbol-dce | FileCheck "%s" --check-prefix=KEPT
// RUN: nabla-opt "%s" --nabla-vjp="function=main wrt=0 check-finite=on" | FileCheck "%s" --check-prefix=FINITE
// RUN: not nabla-opt "%s" --nabla-vjp="check-finite=maybe" 2>&1 | FileCheck "%s" --check-prefix=WORD

// KEPT: @forward
// KEPT: @backward
// KEPT: @tangents

// WORD: nabla-vjp: check-finite 'maybe' is none of off, on

// CHECK-LABEL: func.func private @backward.absent_0(
// CHECK-SAME: %[[S:.*]]: tensor<4xf32>, %[[U:.*]]: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[P:.*]] = nabla.mul %[[S]], %[[U]]
// CHECK-NEXT: return %[[P]]
// CHECK-LABEL: func.func @main.vjp(
// CHECK: %[[F:.*]]:3 = {{.*}}call @forward(%arg0, %arg1)
// CHECK: %[[G:.*]] = call @backward.absent_0(%[[F]]#2, %arg2)
// CHECK: return %[[F]]#0, %[[G]]
// JVP-LABEL: func.func private @tangents.absent_0(
// JVP: nabla.exp
// JVP-NOT: nabla.cos
// JVP-LABEL: func.func @main.jvp(
// JVP: call @tangents.absent_0(%arg0, %arg1, %arg2)
// FINITE: nabla.custom_call @nabla.check_finite(%{{.*}}) {label = "the gradient of @main to 'arg0'"} : (tensor<4xf32>) -> tensor<4xf32>
func.func private @forward(%x: tensor<4xf32>, %w: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = nabla.mul %x, %w : tensor<4xf32>, tensor<4xf32>
  %1 = nabla.sin %w : tensor<4xf32>
  return %0, %1, %w : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func private @backward(%s: tensor<4xf32>, %u: tensor<4xf32>, %v: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nabla.mul %s, %u : tensor<4xf32>, tensor<4xf32>
  %1 = nabla.cos %s : tensor<4xf32>
  %2 = nabla.mul %1, %v : tensor<4xf32>, tensor<4xf32>
  %3 = nabla.neg %2 : tensor<4xf32>
  %4 = nabla.add %3, %0 : tensor<4xf32>, tensor<4xf32>
  %5 = nabla.mul %v, %v : tensor<4xf32>, tensor<4xf32>
  return %4, %5 : tensor<4xf32>, tensor<4xf32>
}
func.func private @tangents(%x: tensor<4xf32>, %w: tensor<4xf32>, %dx: tensor<4xf32>, %dw: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = nabla.exp %x : tensor<4xf32>
  %1 = nabla.mul %0, %dx : tensor<4xf32>, tensor<4xf32>
  %2 = nabla.cos %w : tensor<4xf32>
  %3 = nabla.mul %2, %dw : tensor<4xf32>, tensor<4xf32>
  %4 = nabla.sin %w : tensor<4xf32>
  return %0, %4, %1, %3 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %w: tensor<4xf32>) -> tensor<4xf32> {
  %y, %z = nabla.custom_call @mine(%x, %w) {nabla.vjp = [@forward, @backward], nabla.jvp = @tangents, nabla.symbolic_zeros} : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  return %y : tensor<4xf32>
}
