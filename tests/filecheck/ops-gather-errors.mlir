// What gather and scatter refuse.
// RUN: nabla-opt "%s" --split-input-file --verify-diagnostics

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op vector_dim is at most the rank of the indices, and not negative}}
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 2 sizes = [1, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op vector_dim is at most the rank of the indices, and not negative}}
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = -1 sizes = [1, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op collapsed_dims are dimensions of the array, rising}}
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [2] index_map = [0] vector_dim = 1 sizes = [1, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op collapsed_dims are dimensions of the array, rising}}
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [1, 0] index_map = [0] vector_dim = 1 sizes = [1, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op batching dimensions of the array are rising, and not in collapsed_dims}}
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] batching = [0] x [0] index_map = [0] vector_dim = 1 sizes = [1, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op the lists of batching dimensions differ in length}}
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] batching = [1] x [] index_map = [0] vector_dim = 1 sizes = [1, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op batching dimensions of the indices are distinct, and not vector_dim}}
  %0 = nabla.gather %x, %i offset_dims = [] batching = [0, 1] x [0, 0] index_map = [] vector_dim = 1 sizes = [1, 1] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op batching dimensions of the indices are distinct, and not vector_dim}}
  %0 = nabla.gather %x, %i offset_dims = [] collapsed_dims = [0] batching = [1] x [0] index_map = [0] vector_dim = 0 sizes = [1, 1] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op index_map names distinct dimensions of the array that are not batching}}
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] index_map = [0, 0] vector_dim = 1 sizes = [1, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op index_map names distinct dimensions of the array that are not batching}}
  %0 = nabla.gather %x, %i offset_dims = [] collapsed_dims = [1] batching = [0] x [0] index_map = [0] vector_dim = 1 sizes = [1, 1] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op each dimension of the array is either in collapsed_dims, or in batching, or has an entry in offset_dims}}
  %0 = nabla.gather %x, %i offset_dims = [] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op offset_dims are dimensions of the result, rising}}
  %0 = nabla.gather %x, %i offset_dims = [2] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<2xi32>) {
  // expected-error @+1 {{'nabla.gather' op offset_dims are dimensions of the result, rising}}
  %0 = nabla.gather %x, %i offset_dims = [1, 0] index_map = [0, 1] vector_dim = 0 sizes = [1, 1] : tensor<4x8xf32>, tensor<2xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xi32>) {
  // expected-error @+1 {{'nabla.gather' op the result has more than 16 dimensions}}
  %0 = nabla.gather %x, %i offset_dims = [0, 1] index_map = [0] vector_dim = 16 sizes = [1, 1] : tensor<4x8xf32>, tensor<1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op places have 3 components, index_map has 1}}
  %0 = nabla.gather %x, %i offset_dims = [0] collapsed_dims = [0] index_map = [0] vector_dim = 0 sizes = [1, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op batching dimensions disagree: 4 and 3}}
  %0 = nabla.gather %x, %i offset_dims = [1] batching = [0] x [0] index_map = [1] vector_dim = 1 sizes = [1, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op sizes has an entry for each of the 2 dimensions, not 1}}
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op sizes of collapsed and batching dimensions are 1, not 2}}
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [2, 8] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op takes 9 of dimension 1, which has 8}}
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, 9] : tensor<4x8xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x?xf32>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.gather' op takes -2 of dimension 1, which has ?}}
  %0 = nabla.gather %x, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, -2] : tensor<4x?xf32>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: !nabla.implicit<3x5xf32, #nabla.splat<0.5 : f32>>, %i: tensor<3xi32>) {
  // expected-error @+1 {{'nabla.fused_gather' op the array is packed}}
  %0 = nabla.fused_gather %x, %i offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 sizes = [1, 5] : !nabla.implicit<3x5xf32, #nabla.splat<0.5 : f32>>, tensor<3xi32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>, %u: tensor<3x8xf32>) {
  // expected-error @+1 {{'nabla.scatter' op vector_dim is at most the rank of the indices, and not negative}}
  %0 = nabla.scatter add %x, %i, %u offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 2 : tensor<4x8xf32>, tensor<3xi32>, tensor<3x8xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>, %u: tensor<3x8xf64>) {
  // expected-error @+1 {{'nabla.scatter' op array and updates have the same element type}}
  %0 = nabla.scatter add %x, %i, %u offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 : tensor<4x8xf32>, tensor<3xi32>, tensor<3x8xf64>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>, %u: tensor<3xf32>) {
  // expected-error @+1 {{'nabla.scatter' op updates have 2 dimensions, not 1}}
  %0 = nabla.scatter add %x, %i, %u offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 : tensor<4x8xf32>, tensor<3xi32>, tensor<3xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>, %u: tensor<3x9xf32>) {
  // expected-error @+1 {{'nabla.scatter' op updates 9 of dimension 1, which has 8}}
  %0 = nabla.scatter add %x, %i, %u offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 : tensor<4x8xf32>, tensor<3xi32>, tensor<3x9xf32>
  return
}

// -----

func.func @f(%x: tensor<4x8xf32>, %i: tensor<3xi32>, %u: tensor<4x8xf32>) {
  // expected-error @+1 {{'nabla.scatter' op updates are 4x8, indices ask for 3x8}}
  %0 = nabla.scatter add %x, %i, %u offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 : tensor<4x8xf32>, tensor<3xi32>, tensor<4x8xf32>
  return
}
