// What the implicit type refuses: shapes that its encoding cannot hold, views
// that reach beyond the storage.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

// expected-error @+1 {{elements of an implicit array are f32, f16 or bf16}}
func.func private @f() -> !nabla.implicit<4x4xf64, #nabla.nf4<block = 64>>

// -----

// expected-error @+1 {{elements of an implicit array are f32, f16 or bf16}}
func.func private @f() -> !nabla.implicit<4x4xi8, #nabla.nf4<block = 64>>

// -----

// expected-error @+1 {{dimensions of an implicit array are static, with less than 2^62 elements}}
func.func private @f() -> !nabla.implicit<4x?xf32, #nabla.nf4<block = 64>>

// -----

// expected-error @+1 {{expected an encoding, as #nabla.nf4<block = 64>}}
func.func private @f() -> !nabla.implicit<4x4xf32, 64>

// -----

// expected-error @+1 {{#nabla.int8 with blocks = leading needs a storage of rank 2 or more; rank 1 is legal with block = 64}}
func.func private @f() -> !nabla.implicit<4xf32, #nabla.int8<block = 0, blocks = leading>>

// -----

// expected-error @+1 {{an implicit array has at most 16 dimensions}}
func.func private @f() -> !nabla.implicit<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32, #nabla.nf4<block = 64>>

// -----

// expected-error @+1 {{an implicit array has at most 16 dimensions}}
func.func private @f() -> !nabla.implicit<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32, #nabla.splat<0.5 : f32>>

// -----

// expected-error @+1 {{dimensions of an implicit array are static, with less than 2^62 elements}}
func.func private @f() -> !nabla.implicit<4294967296x4294967296xf32, #nabla.nf4<block = 64>>

// -----

// expected-error @+1 {{the view reaches element 18 of a storage of 16 elements}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, view<4x4, strides = [4, 2], offset = 0>>

// -----

// expected-error @+1 {{the view reaches element 16 of a storage of 16 elements}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, view<4x4, strides = [4, 1], offset = 1>>

// -----

// expected-error @+1 {{offset of a view is negative}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, view<4x4, strides = [4, 1], offset = -1>>

// -----

// expected-error @+1 {{strides of a view are not negative}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, view<4x4, strides = [4, -1], offset = 3>>

// -----

// expected-error @+1 {{a view of rank 2 has a stride for each dimension, not 1}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, view<4x4, strides = [4], offset = 0>>

// -----

// expected-error @+1 {{strides of a view overflow}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, view<4x4, strides = [9223372036854775807, 9223372036854775807], offset = 9223372036854775807>>

// -----

// expected-error @+1 {{an implicit array has at most 16 dimensions}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, view<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x16, strides = [4, 1], offset = 0>>

// -----

// expected-error @+1 {{#nabla.splat has no storage to view}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.splat<0.5 : f32>, view<4x4, strides = [1, 4], offset = 0>>

// -----

// expected-error @+1 {{expected static shape}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, view<4x?, strides = [1, 4], offset = 0>>

// -----

// expected-error @+1 {{a view names its storage shape: view<4x8, ...>}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, view<, strides = [1, 4], offset = 0>>

// -----

// expected-error @+1 {{expected ','}}
func.func private @f() -> !nabla.implicit<4x4xf32>

// -----

// expected-error @+1 {{#nabla.int8 with blocks = leading needs a storage of rank 2 or more; rank 1 is legal with block = 64}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.int8<block = 0, blocks = leading>, view<16, strides = [4, 1], offset = 0>>

// -----

// expected-error @+1 {{integer value too large}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, view<4x4, strides = [1, 4], offset = 99999999999999999999999>>

// -----

// expected-error @+1 {{#nabla.identity is a matrix, of rank 2}}
func.func private @f() -> !nabla.implicit<4x4x4xf32, #nabla.identity>

// -----

// expected-error @+1 {{#nabla.identity has no storage to view}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.identity, view<4x4, strides = [1, 4], offset = 0>>
