// What nested encodings, zero points, dynamic8 and lora refuse, and what they
// say would be legal.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

// expected-error @+1 {{#nabla.nf4: scales are packed in an encoding that stores them: scale = #nabla.dynamic8<block = 256>}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64, scale = #nabla.splat<1.0 : f32>>>

// -----

// expected-error @+1 {{#nabla.nf4: scales are packed in an encoding that stores them}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64, scale = #nabla.lora<base = #nabla.nf4<block = 64>, rank = 1>>>

// -----

// expected-error @+1 {{#nabla.nf4: scales are a list without rows: leave blocks = leading out of their encoding}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.nf4<block = 64, scale = #nabla.int8<block = 0, blocks = leading>>>

// -----

// expected-error @+1 {{#nabla.int8: rows have scales of f32, f16 or bf16; blocks have packed ones: block = 64, without blocks = leading}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.int8<block = 0, blocks = leading, scale = #nabla.int8<block = 64>>>

// -----

// expected-error @+1 {{#nabla.mxfp4: has powers of two as scales: leave scale out}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.mxfp4<scale = #nabla.int8<block = 64>>>

// -----

// expected-error @+1 {{#nabla.int8: zero_point is true or false}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.int8<block = 64, zero_point = 1>>

// -----

// expected-error @+1 {{#nabla.int8: has zero points with blocks only: block = 64, without blocks = leading}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.int8<block = 0, blocks = leading, zero_point = true>>

// -----

// expected-error @+1 {{#nabla.dynamic8: needs block, a power of two from 16 to 4096: block = 256}}
func.func private @f() -> !nabla.implicit<4xf32, #nabla.dynamic8<block = 100>>

// -----

// expected-error @+1 {{#nabla.dynamic8: needs block}}
func.func private @f() -> !nabla.implicit<4xf32, #nabla.dynamic8>

// -----

// expected-error @+1 {{#nabla.dynamic8: scale is f32 or an encoding}}
func.func private @f() -> !nabla.implicit<4xf32, #nabla.dynamic8<block = 256, scale = f16>>

// -----

// expected-error @+1 {{#nabla.dynamic8: unknown parameter 'blocks'; legal: block, scale}}
func.func private @f() -> !nabla.implicit<4xf32, #nabla.dynamic8<block = 256, blocks = flat>>

// -----

// expected-error @+1 {{at most 8 encodings stand in each other}}
func.func private @f() -> !nabla.implicit<4xf32, #nabla.int8<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.int8<block = 16>>>>>>>>>>

// -----

#a = #nabla.int8<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.int8<block = 16, scale = #nabla.int8<block = 16>>>>
#b = #nabla.lora<base = #nabla.int8<block = 16, scale = #a>, rank = 1>
#c = #nabla.lora<base = #nabla.lora<base = #b, rank = 1>, rank = 1>
// expected-error @+1 {{#nabla.lora: at most 8 encodings stand in each other}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.lora<base = #c, rank = 1>>

// -----

// expected-error @+1 {{#nabla.lora: needs base, the encoding of the weight that it changes: base = #nabla.nf4<block = 64>}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.lora<rank = 1>>

// -----

// expected-error @+1 {{#nabla.lora: base is an encoding that is stored}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.lora<base = #nabla.splat<1.0 : f32>, rank = 1>>

// -----

// expected-error @+1 {{#nabla.lora: needs rank, from 1 to 65536: rank = 8}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 0>>

// -----

// expected-error @+1 {{#nabla.lora: unknown parameter 'alpha'; legal: base, rank}}
func.func private @f() -> !nabla.implicit<4x4xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 1, alpha = 2.0>>

// -----

// expected-error @+1 {{#nabla.lora needs a storage of rank 2, rows and columns, not of rank 3}}
func.func private @f() -> !nabla.implicit<2x4x4xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 1>>

// -----

// expected-error @+1 {{the factors of #nabla.lora have less than 2^62 elements}}
func.func private @f() -> !nabla.implicit<0x4611686018427387903xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 2>>

// -----

func.func @f(%c: tensor<128xi8>, %s: tensor<16xf32>) {
  // expected-error @+1 {{'nabla.pack' op component 'scales' is !nabla.implicit<16xf32, #nabla.int8<block = 16>>}}
  %0 = nabla.pack %c, %s : tensor<128xi8>, tensor<16xf32> -> !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>
  return
}

// -----

func.func @f(%c: tensor<128xi8>, %s: tensor<16xf32>) {
  // expected-error @+1 {{'nabla.pack' op the encoding has 3 components, not 2}}
  %0 = nabla.pack %c, %s : tensor<128xi8>, tensor<16xf32> -> !nabla.implicit<4x64xf32, #nabla.int4<block = 16, zero_point = true>>
  return
}

// -----

func.func @f(%c: tensor<16xi8>, %s: tensor<1xf32>, %o: tensor<1xf32>, %m: tensor<256xf32>) {
  // expected-error @+1 {{'nabla.pack' op component 'offset' is tensor<f32>}}
  %0 = nabla.pack %c, %s, %o, %m : tensor<16xi8>, tensor<1xf32>, tensor<1xf32>, tensor<256xf32> -> !nabla.implicit<16xf32, #nabla.dynamic8<block = 16>>
  return
}

// -----

func.func @f(%w: !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>) {
  // expected-error @+1 {{'nabla.materialize' op levels = 3 is not legal: the array has 2, leave levels out to decode all}}
  %0 = nabla.materialize %w levels = 3 : !nabla.implicit<4x64xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>
  return
}

// -----

func.func @f(%w: !nabla.implicit<4x64xf32, #nabla.nf4<block = 16>>) {
  // expected-error @+1 {{'nabla.materialize' op levels = 0 is not legal: the array has 1}}
  %0 = nabla.materialize %w levels = 0 : !nabla.implicit<4x64xf32, #nabla.nf4<block = 16>>
  return
}

// -----

// Slices whose scales have an offset and a map of their own cannot be stacked.
func.func @f(%ws: !nabla.implicit<3x16x16xf32, #nabla.nf4<block = 16, scale = #nabla.dynamic8<block = 16>>>) -> !nabla.implicit<3x16x16xf32, #nabla.nf4<block = 16, scale = #nabla.dynamic8<block = 16>>> {
  // expected-error @+1 {{whose scales have one offset and one map: arrays with their own cannot be stacked}}
  %0 = nabla.scan over(%ws : !nabla.implicit<3x16x16xf32, #nabla.nf4<block = 16, scale = #nabla.dynamic8<block = 16>>>) -> !nabla.implicit<3x16x16xf32, #nabla.nf4<block = 16, scale = #nabla.dynamic8<block = 16>>> {
  ^bb0(%w: !nabla.implicit<16x16xf32, #nabla.nf4<block = 16, scale = #nabla.dynamic8<block = 16>>>):
    nabla.yield %w : !nabla.implicit<16x16xf32, #nabla.nf4<block = 16, scale = #nabla.dynamic8<block = 16>>>
  }
  return %0 : !nabla.implicit<3x16x16xf32, #nabla.nf4<block = 16, scale = #nabla.dynamic8<block = 16>>>
}

// -----

// A slice that begins within a block of the scales is none.
func.func @f(%ws: !nabla.implicit<3x8x16xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>) {
  // expected-error @+1 {{is no slice of it; implicit ones have whole blocks, one behind the other}}
  %0 = nabla.scan over(%ws : !nabla.implicit<3x8x16xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>) -> tensor<3xf32> {
  ^bb0(%w: !nabla.implicit<8x16xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>):
    %1 = nabla.reduce sum %w dims = [0, 1] : !nabla.implicit<8x16xf32, #nabla.nf4<block = 16, scale = #nabla.int8<block = 16>>>
    nabla.yield %1 : tensor<f32>
  }
  return
}

// -----

func.func @f(%w: !nabla.implicit<4x64xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 1>>) {
  // expected-error @+1 {{'nabla.convert' op the factors of a lora have its element type: unpack it, convert its components and pack them}}
  %0 = nabla.convert %w : !nabla.implicit<4x64xf32, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 1>> -> !nabla.implicit<4x64xf16, #nabla.lora<base = #nabla.nf4<block = 64>, rank = 1>>
  return
}

// -----

func.func @f(%q: !nabla.implicit<4x64xf32, #nabla.nf4<block = 16>>) {
  // expected-error @+1 {{expected integer value}}
  %0 = nabla.materialize %q levels = some : !nabla.implicit<4x64xf32, #nabla.nf4<block = 16>>
  return
}
