// A saved program for test_runtime.py: a product with a packed weight, and a function
// with a state.
!w = !nabla.implicit<64x128xf32, #nabla.nf4<block = 64>>
func.func @product(%x: tensor<?x128xf32> {nabla.name = "x"},
                   %w: !w {nabla.name = "w"}) -> tensor<?x64xf32> {
  %y = nabla.linear %x, %w : tensor<?x128xf32>, !w
  return %y : tensor<?x64xf32>
}
func.func @count(%x: tensor<4xf32> {nabla.name = "x"},
                 %total: tensor<4xf32> {nabla.state = "total"})
    -> (tensor<4xf32>, tensor<4xf32> {nabla.state = "total"}) {
  %sum = nabla.add %total, %x : tensor<4xf32>, tensor<4xf32>
  %twice = nabla.add %sum, %sum : tensor<4xf32>, tensor<4xf32>
  return %twice, %sum : tensor<4xf32>, tensor<4xf32>
}
