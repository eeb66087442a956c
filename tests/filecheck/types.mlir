// The implicit type and encodings have one spelling each: defaults and the
// identity view are not printed, equal views are equal types.
// RUN: nabla-opt "%s" | FileCheck "%s"
// RUN: nabla-opt "%s" --emit-bytecode | nabla-opt --allow-bytecode | FileCheck "%s"

// CHECK-LABEL: @defaults
// CHECK-SAME: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
// CHECK-SAME: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
// CHECK-SAME: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
func.func private @defaults(
  !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>,
  !nabla.implicit<4x8xf32, #nabla.nf4<scale = f32, blocks = flat, block = 64>>,
  !nabla.implicit<4x8xf32, #nabla.nf4<block = 64 : i32>>)

// CHECK-LABEL: @encodings
// CHECK-SAME: !nabla.implicit<4x8xf16, #nabla.fp4<block = 4096>>
// CHECK-SAME: !nabla.implicit<4x8xbf16, #nabla.int8<block = 16>>
// CHECK-SAME: !nabla.implicit<4x8xf32, #nabla.int8<block = 0, blocks = leading>>
// CHECK-SAME: !nabla.implicit<4x8xf32, #nabla.splat<5.000000e-01 : f32>>
// CHECK-SAME: !nabla.implicit<4x8xf32, #nabla.splat<5.000000e-01 : f32>>
// CHECK-SAME: !nabla.implicit<f32, #nabla.splat<0x7F800000 : f32>>
func.func private @encodings(
  !nabla.implicit<4x8xf16, #nabla.fp4<block = 4096>>,
  !nabla.implicit<4x8xbf16, #nabla.int8<block = 16>>,
  !nabla.implicit<4x8xf32, #nabla.int8<blocks = leading, block = 0>>,
  !nabla.implicit<4x8xf32, #nabla.splat<0.5 : f32>>,
  !nabla.implicit<4x8xf32, #nabla.splat<value = 0.5 : f32>>,
  !nabla.implicit<f32, #nabla.splat<0x7F800000 : f32>>)

// Shapes without elements, and of rank 0.
// CHECK-LABEL: @shapes
// CHECK-SAME: !nabla.implicit<f32, #nabla.nf4<block = 64>>
// CHECK-SAME: !nabla.implicit<0x8xf32, #nabla.nf4<block = 64>>
// CHECK-SAME: !nabla.implicit<3x0xf32, #nabla.int8<block = 0, blocks = leading>>
func.func private @shapes(
  !nabla.implicit<f32, #nabla.nf4<block = 64>>,
  !nabla.implicit<0x8xf32, #nabla.nf4<block = 64>>,
  !nabla.implicit<3x0xf32, #nabla.int8<block = 0, blocks = leading>>)

// The identity, and what cannot be told from it: strides of dimensions of size
// 1 or without any index, the offset of an array without elements.
// CHECK-LABEL: @identity
// CHECK-SAME: !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>>
// CHECK-SAME: !nabla.implicit<1x8xf32, #nabla.nf4<block = 64>>
// CHECK-SAME: !nabla.implicit<0x8xf32, #nabla.nf4<block = 64>>
func.func private @identity(
  !nabla.implicit<4x8xf32, #nabla.nf4<block = 64>, view<4x8, strides = [8, 1], offset = 0>>,
  !nabla.implicit<1x8xf32, #nabla.nf4<block = 64>, view<1x8, strides = [77, 1], offset = 0>>,
  !nabla.implicit<0x8xf32, #nabla.nf4<block = 64>, view<0x8, strides = [5, 6], offset = 7>>)

// CHECK-LABEL: @views
// CHECK-SAME: !nabla.implicit<8x4xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1, 8], offset = 0>>
// CHECK-SAME: !nabla.implicit<1x4xf32, #nabla.nf4<block = 64>, view<4x8, strides = [0, 8], offset = 3>>
// CHECK-SAME: !nabla.implicit<f32, #nabla.nf4<block = 64>, view<4x8, strides = [], offset = 31>>
// CHECK-SAME: !nabla.implicit<32xf32, #nabla.int8<block = 0, blocks = leading>, view<4x8, strides = [1], offset = 0>>
func.func private @views(
  !nabla.implicit<8x4xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1, 8], offset = 0>>,
  !nabla.implicit<1x4xf32, #nabla.nf4<block = 64>, view<4x8, strides = [5, 8], offset = 3>>,
  !nabla.implicit<f32, #nabla.nf4<block = 64>, view<4x8, strides = [], offset = 31>>,
  !nabla.implicit<32xf32, #nabla.int8<block = 0, blocks = leading>, view<4x8, strides = [1], offset = 0>>)

// Equal views are equal types: this would not verify otherwise.
// CHECK-LABEL: func.func @equal
// CHECK-SAME: -> !nabla.implicit<8x1xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1, 0], offset = 0>>
func.func @equal(%a: !nabla.implicit<8x1xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1, 3], offset = 0>>)
    -> !nabla.implicit<8x1xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1, 9], offset = 0>> {
  return %a : !nabla.implicit<8x1xf32, #nabla.nf4<block = 64>, view<4x8, strides = [1, 8], offset = 0>>
}

// CHECK-LABEL: @attribute
// CHECK-SAME: nabla.note = #nabla.int8<block = 0, blocks = leading>
func.func private @attribute() attributes {nabla.note = #nabla.int8<block = 0, blocks = leading, scale = f32>}
