// Custom calls: numbered by target and attributes, written into the manifest,
// lowered to one service.
// RUN: nabla-opt "%s" --nabla-manifest --nabla-dispatch --nabla-calls 2>&1 | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-cpu | FileCheck "%s" --check-prefix=LLVM
// RUN: not nabla-opt "%s" --nabla-dispatch --nabla-to-linalg 2>&1 | FileCheck "%s" --check-prefix=ORDER

// CHECK: warning: 'nabla.custom_call' op materializes 1 operand of #nabla.nf4<block = 16>, 64 elements: its handler does not take the components
// CHECK: \22calls\22:[{\22target\22:\22nabla.check_finite\22,\22attributes\22:\22d0:\22},{\22target\22:\22nabla.check_finite\22,\22attributes\22:\22d1:s5:6c6162656cs1:61\22}]}
// CHECK-LABEL: func.func @f
// CHECK: nabla.custom_call @nabla.check_finite(%{{.*}}) {nabla.site = 0 : i64}
// CHECK: nabla.custom_call @nabla.check_finite(%{{.*}}) {label = "a", nabla.site = 1 : i64}
// CHECK: nabla.custom_call @nabla.check_finite(%{{.*}}) {nabla.site = 0 : i64}
// CHECK: nabla.custom_call @nabla.check_finite(%{{.*}}, %{{.*}}) {nabla.site = 0 : i64} : (tensor<4xf32>, index) -> tensor<?xf32>

// LLVM: llvm.func @nabla_entry_f
// ORDER: has no number: run --nabla-calls first

!w = !nabla.implicit<4x16xf32, #nabla.nf4<block = 16>>
func.func @f(%x: tensor<4xf32>, %w: !w) -> (tensor<4xf32>, tensor<4x16xf32>) {
  %0 = nabla.custom_call @nabla.check_finite(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nabla.custom_call @nabla.check_finite(%0) {label = "a"} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = nabla.custom_call @nabla.check_finite(%w) : (!w) -> tensor<4x16xf32>
  %c4 = arith.constant 4 : index
  %3 = nabla.custom_call @nabla.check_finite(%x, %c4) : (tensor<4xf32>, index) -> tensor<?xf32>
  return %1, %2 : tensor<4xf32>, tensor<4x16xf32>
}
