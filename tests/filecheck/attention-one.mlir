// Heads of one element out of a slice: upstream's reshape does not keep their
// stride, and bufferization would allocate memory with strides, which nothing
// lowers.
// RUN: nabla-opt "%s" --pass-pipeline='builtin.module(nabla-cpu)' | FileCheck "%s"

// CHECK-LABEL: llvm.func{{.*}}@f
// CHECK-NOT: memref.alloc
func.func @f(%q: tensor<1x1xf32>, %cache: tensor<3x3x3xf16>) -> tensor<1x1xf32> {
  %0 = nabla.slice %cache starts = [1, 1, 1] limits = [2, 2, 2] : tensor<3x3x3xf16>
  %k = nabla.reshape %0 : tensor<1x1x1xf16> -> tensor<1x1xf16>
  %y = nabla.attention %q, %k, %k scale = 3.0e-01 : tensor<1x1xf32>, tensor<1x1xf16>, tensor<1x1xf16>
  return %y : tensor<1x1xf32>
}
