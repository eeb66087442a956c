// What slices, joined arrays, pieces, pads and flips refuse.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.slice' op starts has an entry for each of the 2 dimensions, not 1}}
  %0 = nabla.slice %a starts = [0] limits = [1, 1] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.slice' op limits has an entry for each of the 2 dimensions, not 3}}
  %0 = nabla.slice %a starts = [0, 0] limits = [1, 1, 1] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.slice' op strides has an entry for each of the 2 dimensions, not 1}}
  %0 = nabla.slice %a starts = [0, 0] limits = [1, 1] strides = [1] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.slice' op strides are positive, not 0 in dimension 1}}
  %0 = nabla.slice %a starts = [0, 0] limits = [1, 1] strides = [1, 0] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.slice' op dimension 1 needs 0 <= start <= limit <= 3, not 0 and 4; a limit of -1 is the end}}
  %0 = nabla.slice %a starts = [0, 0] limits = [1, 4] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.slice' op dimension 0 needs 0 <= start <= limit <= 2, not 2 and 1; a limit of -1 is the end}}
  %0 = nabla.slice %a starts = [2, 0] limits = [1, 3] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<?xf32>) {
  // expected-error @+1 {{'nabla.slice' op dimension 0 needs 0 <= start <= limit <= ?, not -1 and 1; a limit of -1 is the end}}
  %0 = nabla.slice %a starts = [-1] limits = [1] : tensor<?xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // expected-error @+1 {{'nabla.slice' op dimension 0 needs 0 <= start <= limit <= 2, not 3 and -1; a limit of -1 is the end}}
  %0 = nabla.slice %a starts = [3] limits = [-1] : tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %i: index) {
  // expected-error @+1 {{'nabla.dynamic_slice' op the result has as many dimensions as the operand, 2}}
  %0 = nabla.dynamic_slice %a at(%i, %i : index, index) : tensor<2x3xf32> -> tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %i: index) {
  // expected-error @+1 {{'nabla.dynamic_slice' op keeps the element type}}
  %0 = nabla.dynamic_slice %a at(%i, %i : index, index) : tensor<2x3xf32> -> tensor<2x1xf64>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %i: index) {
  // expected-error @+1 {{'nabla.dynamic_slice' op takes 4 of dimension 1, which has 3}}
  %0 = nabla.dynamic_slice %a at(%i, %i : index, index) : tensor<2x3xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %i: index) {
  // expected-error @+1 {{'nabla.dynamic_slice' op at has an entry for each of the 2 dimensions, not 1}}
  %0 = nabla.dynamic_slice %a at(%i : index) : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %i: index) {
  // expected-error @+1 {{'nabla.dynamic_slice' op the result has 1 dynamic dimensions, sizes has 0}}
  %0 = nabla.dynamic_slice %a at(%i, %i : index, index) : tensor<2x3xf32> -> tensor<?x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<2xf32>, %i: index) {
  // expected-error @+1 {{'nabla.dynamic_update_slice' op an update of 2 does not fit into 2x3: it has as many dimensions, none of them larger}}
  %0 = nabla.dynamic_update_slice %a, %b at(%i, %i : index, index) : tensor<2x3xf32>, tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<?x4xf32>, %i: index) {
  // expected-error @+1 {{'nabla.dynamic_update_slice' op an update of ?x4 does not fit into 2x3}}
  %0 = nabla.dynamic_update_slice %a, %b at(%i, %i : index, index) : tensor<2x3xf32>, tensor<?x4xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<1x1xf16>, %i: index) {
  // expected-error @+1 {{'nabla.dynamic_update_slice' op array and update have the same element type; nabla.convert makes it}}
  %0 = nabla.dynamic_update_slice %a, %b at(%i, %i : index, index) : tensor<2x3xf32>, tensor<1x1xf16>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<1x1xf32>, %i: index) {
  // expected-error @+1 {{'nabla.dynamic_update_slice' op at has an entry for each of the 2 dimensions, not 3: an index, or a tensor of i64 or i32 of rank 0}}
  %0 = nabla.dynamic_update_slice %a, %b at(%i, %i, %i : index, index, index) : tensor<2x3xf32>, tensor<1x1xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.concatenate' op dim is less than the rank, 2, and not negative}}
  %0 = nabla.concatenate %a, %a dim = 2 : tensor<2x3xf32>, tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x3xf64>) {
  // expected-error @+1 {{'nabla.concatenate' op operands have the same element type}}
  %0 = nabla.concatenate %a, %b dim = 0 : tensor<2x3xf32>, tensor<2x3xf64>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>, %b: tensor<2x4xf32>) {
  // expected-error @+1 {{'nabla.concatenate' op operand #1, 2x4, cannot be joined to 2x3: they differ in more than dim}}
  %0 = nabla.concatenate %a, %b dim = 0 : tensor<2x3xf32>, tensor<2x4xf32>
  return
}

// -----

func.func @f(%a: tensor<9223372036854775807xf32>) {
  // expected-error @+1 {{'nabla.concatenate' op the result is too large}}
  %0 = nabla.concatenate %a, %a dim = 0 : tensor<9223372036854775807xf32>, tensor<9223372036854775807xf32>
  return
}

// -----

func.func @f() {
  // expected-error @+2 {{'nabla.concatenate' op failed to infer returned types}}
  // expected-error @+1 {{'nabla.concatenate' op takes 1 to 64 arrays, not 0}}
  %0 = "nabla.concatenate"() {dim = 0 : i64} : () -> tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>) {
  // expected-error @+1 {{'nabla.stack' op dim is at most the rank, 1, and not negative}}
  %0 = nabla.stack %a dim = -1 : tensor<2xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %b: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.stack' op operand #1, 3, cannot be joined to 2}}
  %0 = nabla.stack %a, %b dim = 0 : tensor<2xf32>, tensor<3xf32>
  return
}

// -----

func.func @f(%a: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>) {
  // expected-error @+1 {{'nabla.stack' op arrays have at most 16 dimensions}}
  %0 = nabla.stack %a dim = 0 : tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.split' op dim is less than the rank, 2, and not negative}}
  %0:1 = nabla.split %a dim = 2 sizes = [2] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.split' op sizes are not negative and sum up to dimension 1, 3}}
  %0:2 = nabla.split %a dim = 1 sizes = [2, 2] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.split' op sizes are not negative and sum up to dimension 1, 3}}
  %0:2 = nabla.split %a dim = 1 sizes = [4, -1] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.split' op sizes sum up to 2, not to 3, of dimension 1}}
  %0:2 = nabla.split %a dim = 1 sizes = [1, 1] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %v: tensor<1xf32>) {
  // expected-error @+1 {{'nabla.pad' op the value is a scalar of the array's element type}}
  %0 = nabla.pad %a, %v low = [0] high = [0] : tensor<2xf32>, tensor<1xf32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %v: tensor<i32>) {
  // expected-error @+1 {{'nabla.pad' op the value is a scalar of the array's element type}}
  %0 = nabla.pad %a, %v low = [0] high = [0] : tensor<2xf32>, tensor<i32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{'nabla.pad' op low has an entry for each of the 1 dimensions, not 0}}
  %0 = nabla.pad %a, %v low = [] high = [0] : tensor<2xf32>, tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{'nabla.pad' op high has an entry for each of the 1 dimensions, not 2}}
  %0 = nabla.pad %a, %v low = [0] high = [0, 0] : tensor<2xf32>, tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{'nabla.pad' op interior has an entry for each of the 1 dimensions, not 2}}
  %0 = nabla.pad %a, %v low = [0] high = [0] interior = [1, 1] : tensor<2xf32>, tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{'nabla.pad' op interior lies in 0 to 2^20, not -1}}
  %0 = nabla.pad %a, %v low = [0] high = [0] interior = [-1] : tensor<2xf32>, tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<2xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{'nabla.pad' op dimension 0 becomes negative or too large}}
  %0 = nabla.pad %a, %v low = [-2] high = [-1] : tensor<2xf32>, tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<3xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{'nabla.pad' op interior lies in 0 to 2^20, not 9223372036854775807}}
  %0 = nabla.pad %a, %v low = [0] high = [0] interior = [9223372036854775807] : tensor<3xf32>, tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.flip' op dims are distinct and less than the rank, 2}}
  %0 = nabla.flip %a dims = [1, 1] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<2x3xf32>) {
  // expected-error @+1 {{'nabla.split' op sizes has 1 to 64 entries, not 0}}
  nabla.split %a dim = 1 sizes = [] : tensor<2x3xf32>
  return
}

// -----

func.func @f(%a: tensor<?xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{'nabla.pad' op low and high lie within +-2^40, not 0 and -1099511627777}}
  %0 = nabla.pad %a, %v low = [0] high = [-1099511627777] : tensor<?xf32>, tensor<f32>
  return
}

// -----

func.func @f(%a: tensor<8796093022208xf32>, %v: tensor<f32>) {
  // expected-error @+1 {{'nabla.pad' op dimension 0 becomes negative or too large}}
  %0 = nabla.pad %a, %v low = [0] high = [0] interior = [1048576] : tensor<8796093022208xf32>, tensor<f32>
  return
}
