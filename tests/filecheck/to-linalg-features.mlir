// f16 is converted by instructions where the target has them, else by integer
// arithmetic: LLVM would call a library. bf16 always is.
// RUN: nabla-opt "%s" --nabla-to-linalg=features=avx2,f16c | FileCheck "%s" --check-prefixes=CHECK,F16C
// RUN: nabla-opt "%s" --nabla-to-linalg=features=avx2 | FileCheck "%s" --check-prefixes=CHECK,PLAIN --implicit-check-not=extf --implicit-check-not=truncf
// RUN: nabla-opt "%s" --nabla-to-linalg=features= | FileCheck "%s" --check-prefixes=CHECK,PLAIN --implicit-check-not=extf --implicit-check-not=truncf

// CHECK-LABEL: func.func @f16
// F16C: arith.extf %{{.*}} : f16 to f32
// PLAIN: arith.bitcast %{{.*}} : f16 to i16
// CHECK: arith.cmpf ugt, %{{.*}}, %{{.*}} : f32
// F16C: arith.truncf %{{.*}} : f32 to f16
// PLAIN: arith.bitcast %{{.*}} : i16 to f16
func.func @f16(%a: tensor<4xf16>) -> tensor<4xf16> {
  %0 = nabla.relu %a : tensor<4xf16>
  return %0 : tensor<4xf16>
}

// CHECK-LABEL: func.func @bf16
// CHECK-NOT: extf
// CHECK: arith.cmpf ugt, %{{.*}}, %{{.*}} : f32
// CHECK-NOT: truncf
// CHECK: arith.bitcast %{{.*}} : i16 to bf16
func.func @bf16(%a: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = nabla.relu %a : tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// f32 has nothing to convert.
// CHECK-LABEL: func.func @f32
// CHECK-NOT: bitcast
// CHECK: return
func.func @f32(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nabla.relu %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
