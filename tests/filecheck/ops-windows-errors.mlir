// What convolutions and pools refuse.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

func.func @f(%x: tensor<2xf32>, %k: tensor<2xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op input and kernel have one rank of 2 or more, not 1 and 1}}
  %0 = nabla.conv_general %x, %k  : tensor<2xf32>, tensor<2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<2x2xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op input and kernel have one rank of 2 or more, not 3 and 2}}
  %0 = nabla.conv_general %x, %k  : tensor<2x4x9xf32>, tensor<2x2xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf64>) {
  // expected-error @+1 {{'nabla.conv_general' op operands have the same element type}}
  %0 = nabla.conv_general %x, %k  : tensor<2x4x9xf32>, tensor<6x2x3xf64>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op input_dims must name each of the 3 dimensions once}}
  %0 = nabla.conv_general %x, %k groups = 2 input_dims = [0, 1] : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op kernel_dims must name each of the 3 dimensions once}}
  %0 = nabla.conv_general %x, %k groups = 2 kernel_dims = [0, 1, 1] : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op output_dims must name each of the 3 dimensions once}}
  %0 = nabla.conv_general %x, %k groups = 2 output_dims = [0, 1, 3] : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op strides has an entry for each of the 1 dimensions, not 2}}
  %0 = nabla.conv_general %x, %k strides = [1, 1] groups = 2 : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op low has an entry for each of the 1 dimensions, not 2}}
  %0 = nabla.conv_general %x, %k low = [1, 1] groups = 2 : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op input_dilation has an entry for each of the 1 dimensions, not 2}}
  %0 = nabla.conv_general %x, %k input_dilation = [1, 1] groups = 2 : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op kernel_dilation has an entry for each of the 1 dimensions, not 2}}
  %0 = nabla.conv_general %x, %k kernel_dilation = [1, 1] groups = 2 : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op strides and dilations lie in 1 to 2^20}}
  %0 = nabla.conv_general %x, %k strides = [0] groups = 2 : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op groups is positive}}
  %0 = nabla.conv_general %x, %k groups = 0 : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op groups is positive}}
  %0 = nabla.conv_general %x, %k groups = -1 : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<5x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op 2 groups do not divide 5 output features}}
  %0 = nabla.conv_general %x, %k groups = 2 : tensor<2x4x9xf32>, tensor<5x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op the input has 4 features, not 2 in each of 1 groups as the kernel}}
  %0 = nabla.conv_general %x, %k  : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op padded dimension 2 becomes negative or too large}}
  %0 = nabla.conv_general %x, %k low = [-10] groups = 2 : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x9xf32>, %k: tensor<6x2x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op low and high lie within +-2^40, windows have at most 2^40}}
  %0 = nabla.conv_general %x, %k low = [9223372036854775807] groups = 2 : tensor<2x4x9xf32>, tensor<6x2x3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.pool' op window has an entry for each of the 2 dimensions, not 1}}
  %0 = nabla.pool max %x window = [2] : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.pool' op windows have at least one element}}
  %0 = nabla.pool max %x window = [2, 0] : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.pool' op strides and dilations lie in 1 to 2^20}}
  %0 = nabla.pool max %x window = [2, 2] dilation = [1, -1] : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.pool' op high has an entry for each of the 2 dimensions, not 1}}
  %0 = nabla.pool max %x window = [2, 2] high = [1] : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.pool' op padded dimension 1 becomes negative or too large}}
  %0 = nabla.pool max %x window = [2, 2] low = [0, -5] high = [0, -4] : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.pool' op low and high lie within +-2^40, windows have at most 2^40}}
  %0 = nabla.pool max %x window = [2, 9223372036854775807] dilation = [1, 3] : tensor<4x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xi32>) {
  // expected-error @+1 {{'nabla.pool' op avg is of floats}}
  %0 = nabla.pool avg %x window = [2, 2] : tensor<4x8xi32>
  return
}

// -----

func.func @f(%x: tensor<2x4x8xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op has no attribute 'batch_groups': there is one batch group: convolve slices of the batch with slices of the kernel and concatenate the features}}
  %0 = nabla.conv_general %x, %w {batch_groups = 2 : i64} : tensor<2x4x8xf32>, tensor<6x4x3xf32>
  return
}

// -----

func.func @f(%x: tensor<2x4x8xf32>, %w: tensor<6x4x3xf32>) {
  // expected-error @+1 {{'nabla.conv_general' op has no attribute 'window_reversal': windows are not reversed: nabla.flip turns the kernel's spatial dimensions round}}
  %0 = nabla.conv_general %x, %w {window_reversal = [true]} : tensor<2x4x8xf32>, tensor<6x4x3xf32>
  return
}
