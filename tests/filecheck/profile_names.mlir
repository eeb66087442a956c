// Locations name the operation of the program, also after decomposition.
// RUN: nabla-opt "%s" --nabla-profile-names --nabla-decompose --mlir-print-debuginfo | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-profile-names=when=off --mlir-print-debuginfo | FileCheck "%s" --check-prefix=OFF
// RUN: not nabla-opt "%s" --nabla-profile-names=all=true 2>&1 | FileCheck "%s" --check-prefix=OPTION

// OFF-NOT: loc("nabla.
// OPTION: no such option all

// CHECK-DAG: loc("nabla.rms_norm"(
// CHECK-DAG: loc("nabla.add"(
// Must not fire on operations of other dialects.
// CHECK-NOT: loc("arith.
func.func @f(%x: tensor<2x8xf32>, %w: tensor<8xf32>) -> tensor<2x8xf32> {
  %c = arith.constant 0 : index
  %a = nabla.rms_norm %x, %w eps = 1.0 : tensor<2x8xf32>, tensor<8xf32>
  %b = nabla.add %a, %x : tensor<2x8xf32>, tensor<2x8xf32>
  return %b : tensor<2x8xf32>
}
