// Encodings in encodings: what is printed is read back as the same, and what is
// a default is not printed; levels are decoded one by one.
// RUN: nabla-opt "%s" | nabla-opt | FileCheck "%s"
// RUN: nabla-opt "%s" --mlir-print-op-generic | nabla-opt | FileCheck "%s"
// RUN: nabla-opt "%s" --nabla-to-linalg | FileCheck "%s" --check-prefix=LINALG

// CHECK-LABEL: func.func private @types(
// CHECK-SAME: !nabla.implicit<4x8xf32, #nabla.nf4<block = 16, scale = #nabla.dynamic8<block = 256>>>,
// CHECK-SAME: !nabla.implicit<4x8xf32, #nabla.int4<block = 16, scale = f16, zero_point = true>>,
// CHECK-SAME: !nabla.implicit<4x8xf32, #nabla.int8<block = 16>>,
// CHECK-SAME: !nabla.implicit<4x8xf32, #nabla.nf4<block = 16>>,
// CHECK-SAME: !nabla.implicit<4xf32, #nabla.dynamic8<block = 16>>,
// CHECK-SAME: !nabla.implicit<4xf32, #nabla.dynamic8<block = 16, scale = #nabla.mxfp8>>,
// CHECK-SAME: !nabla.implicit<4x8xbf16, #nabla.lora<base = #nabla.fp4<block = 64, scale = bf16>, rank = 2>>)
func.func private @types(
  !nabla.implicit<4x8xf32, #nabla.nf4<scale = #nabla.dynamic8<block = 256>, block = 16>>,
  !nabla.implicit<4x8xf32, #nabla.int4<zero_point = true, block = 16, scale = f16>>,
  !nabla.implicit<4x8xf32, #nabla.int8<block = 16, zero_point = false>>,
  !nabla.implicit<4x8xf32, #nabla.nf4<block = 16, scale = f32>>,
  !nabla.implicit<4xf32, #nabla.dynamic8<block = 16, scale = f32>>,
  !nabla.implicit<4xf32, #nabla.dynamic8<block = 16, scale = #nabla.mxfp8>>,
  !nabla.implicit<4x8xbf16, #nabla.lora<rank = 2, base = #nabla.fp4<block = 64, scale = bf16>>>)

!one = !nabla.implicit<4x64xf32, #nabla.nf4<block = 16>>
!two = !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>
!three = !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.dynamic8<block = 16>>>>

// CHECK-LABEL: func.func @levels
// CHECK: nabla.pack %{{.*}} : tensor<16xi8>, tensor<1xf32>, tensor<f32>, tensor<256xf32> -> !nabla.implicit<16xf32, #nabla.dynamic8<block = 16>>
// CHECK: nabla.unpack %{{.*}} : !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.dynamic8<block = 16>>>>
// CHECK: nabla.materialize %{{.*}} levels = 1 : !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.dynamic8<block = 16>>>>
// CHECK: nabla.materialize %{{.*}} levels = 1 : !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>
// CHECK: nabla.materialize %{{.*}} levels = 1 : !nabla.implicit<4x64xf32, #nabla.nf4<block = 16>>
// CHECK: nabla.implicit_depth %{{.*}} : !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>
//
// Codes go on as they are, and no level is decoded twice.
// LINALG-LABEL: func.func @levels(
// LINALG-SAME: %[[CODES:[^:]*]]: tensor<128xi8>
// LINALG: linalg.generic {{.*}} outs(%{{.*}} : tensor<1xf32>)
// LINALG: linalg.generic {{.*}} outs(%{{.*}} : tensor<16xf32>)
// LINALG: tensor.extract %[[CODES]]
// LINALG: %[[DEPTH:.*]] = arith.constant dense<2> : tensor<i64>
// LINALG: return %{{.*}}, %[[DEPTH]]
func.func @levels(%c: tensor<128xi8>, %sc: tensor<16xi8>, %ssc: tensor<1xi8>, %sss: tensor<1xf32>, %o: tensor<f32>, %m: tensor<256xf32>, %q: tensor<16xi8>) -> (tensor<4x64xf32>, tensor<i64>) {
  %unused = nabla.pack %q, %sss, %o, %m : tensor<16xi8>, tensor<1xf32>, tensor<f32>, tensor<256xf32> -> !nabla.implicit<16xf32, #nabla.dynamic8<block = 16>>
  %0 = nabla.pack %ssc, %sss, %o, %m : tensor<1xi8>, tensor<1xf32>, tensor<f32>, tensor<256xf32> -> !nabla.implicit<1xf32, #nabla.dynamic8<block = 16>>
  %1 = nabla.pack %sc, %0 : tensor<16xi8>, !nabla.implicit<1xf32, #nabla.dynamic8<block = 16>> -> !nabla.implicit<16xf32, #nabla.int8<block = 16, scale = #nabla.dynamic8<block = 16>>>
  %2 = nabla.pack %c, %1 : tensor<128xi8>, !nabla.implicit<16xf32, #nabla.int8<block = 16, scale = #nabla.dynamic8<block = 16>>> -> !three
  %3:2 = nabla.unpack %2 : !three
  %4 = nabla.pack %3#0, %3#1 : tensor<128xi8>, !nabla.implicit<16xf32, #nabla.int8<block = 16, scale = #nabla.dynamic8<block = 16>>> -> !three
  %5 = nabla.materialize %4 levels = 1 : !three
  %6 = nabla.materialize %5 levels = 1 : !two
  %7 = nabla.materialize %6 levels = 1 : !one
  %8 = nabla.implicit_depth %5 : !two
  return %7, %8 : tensor<4x64xf32>, tensor<i64>
}

// CHECK-LABEL: func.func @all_levels
// CHECK: nabla.materialize %{{.*}} : !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.dynamic8<block = 16>>>>
func.func @all_levels(%c: tensor<128xi8>, %sc: tensor<16xi8>, %ssc: tensor<1xi8>, %sss: tensor<1xf32>, %o: tensor<f32>, %m: tensor<256xf32>) -> tensor<4x64xf32> {
  %0 = nabla.pack %ssc, %sss, %o, %m : tensor<1xi8>, tensor<1xf32>, tensor<f32>, tensor<256xf32> -> !nabla.implicit<1xf32, #nabla.dynamic8<block = 16>>
  %1 = nabla.pack %sc, %0 : tensor<16xi8>, !nabla.implicit<1xf32, #nabla.dynamic8<block = 16>> -> !nabla.implicit<16xf32, #nabla.int8<block = 16, scale = #nabla.dynamic8<block = 16>>>
  %2 = nabla.pack %c, %1 : tensor<128xi8>, !nabla.implicit<16xf32, #nabla.int8<block = 16, scale = #nabla.dynamic8<block = 16>>> -> !three
  %3 = nabla.materialize %2 levels = all : !three
  return %3 : tensor<4x64xf32>
}
