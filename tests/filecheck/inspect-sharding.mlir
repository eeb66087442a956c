// How values are divided, on standard error.
// RUN: nabla-opt "%s" --nabla-propagate-sharding --nabla-inspect-sharding -o /dev/null 2>&1 | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-inspect-sharding --nabla-inspect-sharding -o /dev/null 2>&1 | FileCheck "%s" --check-prefix=BEFORE

// CHECK: @f on mesh @m, 4 devices
// CHECK-NEXT: argument #0 "x": @m, [{"a"}, {}] tensor<8x4xf32> -> tensor<2x4xf32>
// CHECK-NEXT: argument #1: @m, [{}] tensor<4xf32>
// CHECK-NEXT: nabla.neg: @m, [{"a"}, {}] tensor<8x4xf32> -> tensor<2x4xf32>
// CHECK-NEXT: nabla.exp: @m, [{}] tensor<4xf32>
// CHECK-NOT: func.return
// What was not propagated is whole.
// BEFORE: nabla.neg: @m, [{}, {}] tensor<8x4xf32>
nabla.mesh @m <["a"=4]>
func.func @f(%x: tensor<8x4xf32> {nabla.name = "x", nabla.sharding = #nabla.sharding<@m, [{"a"}, {}]>}, %y: tensor<4xf32>) -> (tensor<8x4xf32>, tensor<4xf32>) {
  %n = nabla.neg %x : tensor<8x4xf32>
  %e = nabla.exp %y : tensor<4xf32>
  return %n, %e : tensor<8x4xf32>, tensor<4xf32>
}
