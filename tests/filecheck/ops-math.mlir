// The operations of NablaMath.td, printed as they are read; in the generic form
// too.
// RUN: nabla-opt "%s" > "%t.once"
// RUN: nabla-opt "%t.once" > "%t.twice"
// RUN: diff "%t.once" "%t.twice"
// RUN: nabla-opt "%s" --mlir-print-op-generic | nabla-opt > "%t.generic"
// RUN: diff "%t.once" "%t.generic"
// RUN: FileCheck "%s" --input-file="%t.once"
// RUN: nabla-opt "%s" --nabla-dispatch="policy=off" --nabla-lower-implicit --nabla-to-linalg | FileCheck "%s" --check-prefix=LOWER

!nf4 = !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>

// CHECK-LABEL: func.func @unary
// LOWER-LABEL: func.func @unary
// LOWER-NOT: nabla.{{[a-z]}}
func.func @unary(%x: tensor<?x8xf32>, %i: tensor<3xi32>, %b: tensor<2xi1>, %w: !nf4) -> (tensor<4x8xf32>, tensor<?x8xi1>) {
  // CHECK: nabla.abs %{{.*}} : tensor<3xi32>
  %0 = nabla.abs %i : tensor<3xi32>
  // CHECK: nabla.neg %{{.*}} : tensor<?x8xf32>
  %1 = nabla.neg %x : tensor<?x8xf32>
  // CHECK: nabla.sign
  %2 = nabla.sign %x : tensor<?x8xf32>
  // CHECK: nabla.exp %{{.*}} : !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
  %3 = nabla.exp %w : !nf4
  // CHECK: nabla.log
  %4 = nabla.log %x : tensor<?x8xf32>
  // CHECK: nabla.log1p
  %5 = nabla.log1p %x : tensor<?x8xf32>
  // CHECK: nabla.sqrt
  %6 = nabla.sqrt %x : tensor<?x8xf32>
  // CHECK: nabla.rsqrt
  %7 = nabla.rsqrt %x : tensor<?x8xf32>
  // CHECK: nabla.sin
  %8 = nabla.sin %x : tensor<?x8xf32>
  // CHECK: nabla.cos
  %9 = nabla.cos %x : tensor<?x8xf32>
  // CHECK: nabla.tan
  %10 = nabla.tan %x : tensor<?x8xf32>
  // CHECK: nabla.acos
  %11 = nabla.acos %x : tensor<?x8xf32>
  // CHECK: nabla.atanh
  %12 = nabla.atanh %x : tensor<?x8xf32>
  // CHECK: nabla.tanh
  %13 = nabla.tanh %x : tensor<?x8xf32>
  // CHECK: nabla.erf
  %14 = nabla.erf %x : tensor<?x8xf32>
  // CHECK: nabla.sigmoid
  %15 = nabla.sigmoid %x : tensor<?x8xf32>
  // CHECK: nabla.gelu %{{.*}} : tensor<?x8xf32>
  %16 = nabla.gelu %x approximate = none : tensor<?x8xf32>
  // CHECK: nabla.gelu %{{.*}} approximate = tanh : tensor<?x8xf32>
  %17 = nabla.gelu %x approximate = tanh : tensor<?x8xf32>
  // CHECK: nabla.floor
  %18 = nabla.floor %x : tensor<?x8xf32>
  // CHECK: nabla.ceil
  %19 = nabla.ceil %x : tensor<?x8xf32>
  // CHECK: nabla.round
  %20 = nabla.round %x : tensor<?x8xf32>
  // CHECK: nabla.trunc
  %21 = nabla.trunc %x : tensor<?x8xf32>
  // CHECK: nabla.not %{{.*}} : tensor<2xi1>
  %22 = nabla.not %b : tensor<2xi1>
  // CHECK: nabla.is_nan
  %23 = nabla.is_nan %x : tensor<?x8xf32>
  // CHECK: nabla.is_inf
  %24 = nabla.is_inf %x : tensor<?x8xf32>
  return %3, %24 : tensor<4x8xf32>, tensor<?x8xi1>
}

// CHECK-LABEL: func.func @binary
// LOWER-LABEL: func.func @binary
func.func @binary(%x: tensor<?x8xf32>, %y: tensor<4x?xf32>, %i: tensor<3xui8>) -> (tensor<4x8xf32>, tensor<3xui8>) {
  // Divisors are counted that are zero.
  // LOWER: linalg.generic {{.*}} iterator_types = ["reduction"]
  // LOWER: call @nabla_require_divisors
  // CHECK: nabla.div %{{.*}}, %{{.*}} : tensor<3xui8>, tensor<3xui8>
  %0 = nabla.div %i, %i : tensor<3xui8>, tensor<3xui8>
  // CHECK: nabla.mod
  %1 = nabla.mod %0, %i : tensor<3xui8>, tensor<3xui8>
  // CHECK: nabla.sub %{{.*}}, %{{.*}} : tensor<?x8xf32>, tensor<4x?xf32>
  %2 = nabla.sub %x, %y : tensor<?x8xf32>, tensor<4x?xf32>
  // CHECK: nabla.pow
  %3 = nabla.pow %2, %2 : tensor<4x8xf32>, tensor<4x8xf32>
  // CHECK: nabla.maximum
  %4 = nabla.maximum %3, %x : tensor<4x8xf32>, tensor<?x8xf32>
  // CHECK: nabla.minimum
  %5 = nabla.minimum %4, %x : tensor<4x8xf32>, tensor<?x8xf32>
  // CHECK: nabla.and
  %6 = nabla.and %1, %i : tensor<3xui8>, tensor<3xui8>
  // CHECK: nabla.or
  %7 = nabla.or %6, %i : tensor<3xui8>, tensor<3xui8>
  // CHECK: nabla.xor
  %8 = nabla.xor %7, %i : tensor<3xui8>, tensor<3xui8>
  // CHECK: nabla.compare le %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<?x8xf32>
  %9 = nabla.compare le %5, %x : tensor<4x8xf32>, tensor<?x8xf32>
  // CHECK: nabla.select %{{.*}}, %{{.*}}, %{{.*}} : tensor<4x8xi1>, tensor<?x8xf32>, tensor<4x8xf32>
  %10 = nabla.select %9, %x, %5 : tensor<4x8xi1>, tensor<?x8xf32>, tensor<4x8xf32>
  return %10, %8 : tensor<4x8xf32>, tensor<3xui8>
}

// CHECK-LABEL: func.func @create
func.func @create(%n: index, %seed: tensor<i64>, %x: tensor<?xf64>) -> tensor<?x3xf32> {
  // CHECK: nabla.full 1.500000e+00 : f32 sizes(%{{.*}}) -> tensor<?x3xf32>
  %0 = nabla.full 1.5 : f32 sizes(%n) -> tensor<?x3xf32>
  // CHECK: nabla.iota dim = 1 -> tensor<2x3xi8>
  %1 = nabla.iota dim = 1 -> tensor<2x3xi8>
  // CHECK: nabla.tri -> tensor<2x3xi1>
  %2 = nabla.tri -> tensor<2x3xi1>
  // CHECK: nabla.tri diagonal = -1 -> tensor<2x3xi1>
  %3 = nabla.tri diagonal = -1 -> tensor<2x3xi1>
  // CHECK: nabla.uniform %{{.*}} sizes(%{{.*}}) : tensor<i64> -> tensor<?xf16>
  %4 = nabla.uniform %seed sizes(%n) : tensor<i64> -> tensor<?xf16>
  // CHECK: nabla.normal %{{.*}} : tensor<i64> -> tensor<4xf64>
  %5 = nabla.normal %seed : tensor<i64> -> tensor<4xf64>
  // CHECK: nabla.convert %{{.*}} : tensor<?xf64> -> tensor<?xbf16>
  %6 = nabla.convert %x : tensor<?xf64> -> tensor<?xbf16>
  return %0 : tensor<?x3xf32>
}

// CHECK-LABEL: func.func @along
func.func @along(%x: tensor<?x8xf32>) -> (tensor<?x1xi64>, tensor<8xf32>) {
  // CHECK: nabla.argmax %{{.*}} dim = 1 keep_dims : tensor<?x8xf32>
  %0 = nabla.argmax %x dim = 1 keep_dims : tensor<?x8xf32>
  // CHECK: nabla.argmin %{{.*}} dim = 0 : tensor<?x8xf32>
  %1 = nabla.argmin %x dim = 0 : tensor<?x8xf32>
  // CHECK: nabla.cumsum %{{.*}} dim = 0 : tensor<?x8xf32>
  %2 = nabla.cumsum %x dim = 0 : tensor<?x8xf32>
  // CHECK: nabla.softmax
  %3 = nabla.softmax %2 dim = 1 : tensor<?x8xf32>
  // CHECK: nabla.log_softmax
  %4 = nabla.log_softmax %3 dim = 1 : tensor<?x8xf32>
  // CHECK: nabla.logsumexp %{{.*}} dim = 0 : tensor<?x8xf32>
  %5 = nabla.logsumexp %4 dim = 0 : tensor<?x8xf32>
  // CHECK: nabla.reduce mean %{{.*}} dims = [0]
  %6 = nabla.reduce mean %4 dims = [0] : tensor<?x8xf32>
  // CHECK: nabla.reduce prod
  %7 = nabla.reduce prod %4 dims = [0] : tensor<?x8xf32>
  // CHECK: nabla.reduce min
  %8 = nabla.reduce min %4 dims = [0] : tensor<?x8xf32>
  return %0, %5 : tensor<?x1xi64>, tensor<8xf32>
}

// CHECK-LABEL: func.func @stop_gradient
// LOWER-LABEL: func.func @stop_gradient
// LOWER-NOT: nabla.{{[a-z]}}
func.func @stop_gradient(%x: tensor<?x8xf32>) -> tensor<?x8xf32> {
  // CHECK: nabla.stop_gradient %{{.*}} : tensor<?x8xf32>
  %0 = nabla.stop_gradient %x : tensor<?x8xf32>
  return %0 : tensor<?x8xf32>
}
