// RUN: nabla-opt "%s" --nabla-cluster="features=avx512f" | FileCheck "%s"

// Places of windows in rows of padding are numbers of 32 bits: 1,500 rows of a
// width of 2^20 are, 2,100 are not.
// CHECK-LABEL: func.func @near
// CHECK-NOT: nabla.conv_general
func.func @near(%x: tensor<1x1x1x1048576xf32>, %k: tensor<8x1x1x1xf32>) -> tensor<1x8x1501x1xf32> {
  %r = nabla.conv_general %x, %k strides = [1, 1048576] low = [1500, 0] high = [0, 0] : tensor<1x1x1x1048576xf32>, tensor<8x1x1x1xf32>
  return %r : tensor<1x8x1501x1xf32>
}

// CHECK-LABEL: func.func @far
// CHECK: nabla.conv_general
func.func @far(%x: tensor<1x1x1x1048576xf32>, %k: tensor<8x1x1x1xf32>) -> tensor<1x8x2101x1xf32> {
  %r = nabla.conv_general %x, %k strides = [1, 1048576] low = [2100, 0] high = [0, 0] : tensor<1x1x1x1048576xf32>, tensor<8x1x1x1xf32>
  return %r : tensor<1x8x2101x1xf32>
}
