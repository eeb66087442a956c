// What an encoding attribute refuses, and what it says would be legal.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

// expected-error @+1 {{unknown encoding 'nf5'; this version has nf4, fp4, int8, int4, ternary, binary, fp8, fp8_e5m2, mxfp4, mxfp8, mxfp8_e5m2, ggml, dynamic8, lora, splat, identity, custom}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf5<block = 64>>

// -----

// expected-error @+1 {{#nabla.nf4: needs block, the number of elements per scale: block = 64}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4>

// -----

// expected-error @+1 {{expected valid keyword}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<>>

// -----

// expected-error @+1 {{#nabla.nf4: block = 24 is not legal: a power of two from 16 to 4096}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 24>>

// -----

// expected-error @+1 {{#nabla.nf4: block = 8 is not legal: a power of two from 16 to 4096}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 8>>

// -----

// expected-error @+1 {{#nabla.nf4: block = 8192 is not legal: a power of two from 16 to 4096}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 8192>>

// -----

// expected-error @+1 {{#nabla.nf4: block = -64 is not legal: a power of two from 16 to 4096}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = -64>>

// -----

// expected-error @+1 {{#nabla.int8: block = 0 is not legal: a power of two from 16 to 4096, or block = 0 with blocks = leading}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.int8<block = 0>>

// -----

// expected-error @+1 {{#nabla.nf4: has no scales per row: leave blocks = leading out}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 0, blocks = leading>>

// -----

// expected-error @+1 {{#nabla.int8: blocks = leading has one scale for each index of the first dimension: block = 0}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.int8<block = 64, blocks = leading>>

// -----

// expected-error @+1 {{#nabla.int8: blocks is one of flat, leading}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.int8<block = 64, blocks = last>>

// -----

// expected-error @+1 {{#nabla.nf4: scale is f32, f16, bf16 or an encoding, as #nabla.dynamic8<block = 256>}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64, scale = f64>>

// -----

// expected-error @+1 {{#nabla.nf4: scale is f32, f16, bf16 or an encoding, as #nabla.dynamic8<block = 256>}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64, scale = "int8">>

// -----

// expected-error @+1 {{#nabla.nf4: has no zero points: int4 and int8 have them}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64, zero_point = true>>

// -----

// expected-error @+1 {{parameter 'block' is given twice}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64, block = 32>>

// -----

// expected-error @+1 {{#nabla.nf4: needs block, the number of elements per scale: block = 64}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 1.0>>

// -----

// expected-error @+1 {{#nabla.nf4: unknown parameter 'value'; legal: block, blocks, scale}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<64>>

// -----

// expected-error @+1 {{expected '>'}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block 64>>

// -----

// expected-error @+1 {{expected valid keyword}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = >>

// -----

// expected-error @+1 {{#nabla.nf4: needs block, the number of elements per scale: block = 64}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64 : i128>>

// -----

// expected-error @+1 {{#nabla.nf4: needs block, the number of elements per scale: block = 64}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 340282366920938463463374607431768211456 : i256>>

// -----

// expected-error @+1 {{#nabla.nf4: needs block, the number of elements per scale: block = 64}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 18446744073709551680 : i128>>

// -----

// expected-error @+1 {{#nabla.splat: takes one float: #nabla.splat<0.5 : f32>}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.splat>

// -----

// expected-error @+1 {{#nabla.splat: takes one float: #nabla.splat<0.5 : f32>}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.splat<1>>

// -----

// expected-error @+1 {{#nabla.splat: takes one float: #nabla.splat<0.5 : f32>}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.splat<0.5, block = 64>>

// -----

// expected-error @+1 {{#nabla.splat: takes one float: #nabla.splat<0.5 : f32>}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.splat<hello>>

// -----

// expected-error @+1 {{expected 'view'}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64>, window<4x4>>

// -----

// expected-error @+1 {{#nabla.nf4: unknown parameter 'value'; legal: block, blocks, scale}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64, value = 3>>

// -----

// expected-error @+1 {{#nabla.mxfp4: has blocks of 32: leave block out}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.mxfp4<block = 64>>

// -----

// expected-error @+1 {{#nabla.mxfp8: has powers of two as scales: leave scale out}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.mxfp8<scale = f16>>

// -----

// expected-error @+1 {{#nabla.nf4: has no form with one scale: leave blocks = tensor out}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 0, blocks = tensor>>

// -----

// expected-error @+1 {{#nabla.fp8: blocks = tensor has one scale: block = 0}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.fp8<block = 64, blocks = tensor>>

// -----

// expected-error @+1 {{#nabla.ternary: has no scales per row: leave blocks = leading out}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.ternary<block = 0, blocks = leading>>

// -----

// expected-error @+1 {{#nabla.identity: has no parameters: #nabla.identity}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.identity<block = 64>>
