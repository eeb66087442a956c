// What an encoding from outside may not say of itself.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

// expected-error @+1 {{nobody has added an encoding 'none' (nabla_add_encoding), and components and decode = @f are not given}}
func.func private @a(!nabla.implicit<4x8xf32, #nabla.custom<"none">>)
// -----
// expected-error @+1 {{takes a name of letters, digits, '_' and '.', and a dictionary}}
func.func private @b(!nabla.implicit<4x8xf32, #nabla.custom<"a b", {k = 1}>>)
// -----
// expected-error @+1 {{takes a name of letters, digits, '_' and '.', and a dictionary}}
func.func private @c(!nabla.implicit<4x8xf32, #nabla.custom<7 : i64>>)
// -----
// expected-error @+1 {{takes a name of letters, digits, '_' and '.', and a dictionary}}
func.func private @c(!nabla.implicit<4x8xf32, #nabla.custom<"a", 7 : i64>>)
// -----
// expected-error @+1 {{components is a list of 1 to 4}}
func.func private @d(!nabla.implicit<4x8xf32, #nabla.custom<"a", {components = [], decode = @f}>>)
// -----
// expected-error @+1 {{component 0 is no ["name", type, affine_map<(n) -> (count)>] of f64, f32, f16, bf16, i64, i32 or i8}}
func.func private @e(!nabla.implicit<4x8xf32, #nabla.custom<"a", {components = [["codes", i4, affine_map<(n) -> (n)>]], decode = @f}>>)
// -----
// expected-error @+1 {{component 0 is no ["name", type, affine_map<(n) -> (count)>]}}
func.func private @e(!nabla.implicit<4x8xf32, #nabla.custom<"a", {components = [["codes", i8, affine_map<(n)[s] -> (n)>]], decode = @f}>>)
// -----
// expected-error @+1 {{component 0 is no ["name", type, affine_map<(n) -> (count)>]}}
func.func private @e(!nabla.implicit<4x8xf32, #nabla.custom<"a", {components = [["codes", i8, affine_map<(n) -> (n, n)>]], decode = @f}>>)
// -----
// expected-error @+1 {{component 0 is no ["name", type, affine_map<(n) -> (count)>]}}
func.func private @e(!nabla.implicit<4x8xf32, #nabla.custom<"a", {components = ["codes"], decode = @f}>>)
// -----
// expected-error @+1 {{the count of 'codes' takes 3 dimensions, the storage has 2}}
func.func private @f(!nabla.implicit<4x8xf32, #nabla.custom<"a", {components = [["codes", i8, affine_map<(x, y, z) -> (x)>]], decode = @f}>>)
// -----
// expected-error @+1 {{component 0 has -1 elements}}
func.func private @f(!nabla.implicit<4x8xf32, #nabla.custom<"a", {components = [["codes", i8, affine_map<(n) -> (-1)>]], decode = @f}>>)
// -----
// expected-error @+1 {{the count of 'codes' is no number of elements}}
func.func private @f(!nabla.implicit<4611686018427387xf32, #nabla.custom<"a", {components = [["codes", i8, affine_map<(n) -> (n * 1000000)>]], decode = @f}>>)
// -----
// expected-error @+1 {{cut is a number of elements}}
func.func private @g(!nabla.implicit<4x8xf32, #nabla.custom<"a", {components = [["codes", i8, affine_map<(n) -> (n)>]], decode = @f, cut = -1}>>)
// -----
!w = !nabla.implicit<4x8xf32, #nabla.custom<"a", {components = [["codes", i8, affine_map<(n) -> (n)>]], decode = @f}>>
func.func @quantize(%x: tensor<4x8xf32>) -> !w {
  // expected-error @+1 {{a custom encoding says how to decode only: make the components, and nabla.pack them}}
  %q = nabla.quantize %x : tensor<4x8xf32> -> !w
  return %q : !w
}
// -----
!w = !nabla.implicit<4x8xf32, #nabla.custom<"a", {components = [["codes", i64, affine_map<(n) -> (n)>]], decode = @f}>>
func.func @pack(%x: tensor<31xi64>) -> !w {
  // expected-error @+1 {{component 'codes' is tensor<32xi64>}}
  %q = nabla.pack %x : tensor<31xi64> -> !w
  return %q : !w
}
// -----
!w = !nabla.implicit<3x4x8xf32, #nabla.custom<"a", {components = [["codes", i8, affine_map<(n) -> (n)>]], decode = @f}>>
!s = !nabla.implicit<4x8xf32, #nabla.custom<"a", {components = [["codes", i8, affine_map<(n) -> (n)>]], decode = @f}>>
func.func @no_cut(%w: !w) {
  // expected-error @+1 {{nabla.scan}}
  nabla.scan over(%w : !w) {
  ^bb0(%s: !s):
    nabla.yield
  }
  return
}
