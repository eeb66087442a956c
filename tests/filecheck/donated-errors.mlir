// Donated arguments that a program cannot have.
// RUN: nabla-opt "%s" --split-input-file --nabla-manifest --verify-diagnostics

// expected-error @+1 {{'func.func' op has the donated argument 'k', #0, with a value: write {nabla.donated}}}
func.func @value(%k: tensor<4xf32> {nabla.name = "k", nabla.donated = true}) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has the donated argument 'arg0', #0, which is no dense tensor: only the memory of dense arrays is given to results}}
func.func @packed(%k: !nabla.implicit<64x64xf32, #nabla.nf4<block = 64>> {nabla.donated}) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has the donated argument 'arg0', #0, which is a state: states are written in place already}}
func.func @state(%k: tensor<4xf32> {nabla.donated, nabla.state = "k"}) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has the donated argument 'arg0', #0, and is private: only callers of public functions donate arrays}}
func.func private @private(%k: tensor<4xf32> {nabla.donated}) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has nabla.donated on result #0: donate the argument whose memory it may take}}
func.func @result(%k: tensor<4xf32>) -> (tensor<4xf32> {nabla.donated}) {
  return %k : tensor<4xf32>
}

// -----

func.func @late(%k: tensor<4xf32> {nabla.name = "k", nabla.donated}, %x: tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %n = nabla.dynamic_update_slice %k, %x at (%c0 : index) : tensor<4xf32>, tensor<1xf32>
  // expected-error-re @+1 {{'nabla.exp' op reads the donated argument 'k' after it was written at loc({{.*}}donated-errors.mlir":{{[0-9]+}}:8): read it before, or read the new value}}
  %e = nabla.exp %k : tensor<4xf32>
  return %e, %n : tensor<4xf32>, tensor<4xf32>
}

// -----

// Two writes to the old value, and one that is not returned.
func.func @two(%k: tensor<4xf32> {nabla.donated}, %x: tensor<1xf32>) -> tensor<f32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = nabla.dynamic_update_slice %k, %x at (%c0 : index) : tensor<4xf32>, tensor<1xf32>
  // expected-error @+1 {{'nabla.dynamic_update_slice' op reads the donated argument 'arg0' after it was written}}
  %b = nabla.dynamic_update_slice %k, %x at (%c1 : index) : tensor<4xf32>, tensor<1xf32>
  %s = nabla.add %a, %b : tensor<4xf32>, tensor<4xf32>
  %r = nabla.reduce sum %s dims = [0] : tensor<4xf32>
  return %r : tensor<f32>
}

// -----

// The old value as a result.
func.func @old(%k: tensor<4xf32> {nabla.donated}, %x: tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %c0 = arith.constant 0 : index
  %n = nabla.dynamic_update_slice %k, %x at (%c0 : index) : tensor<4xf32>, tensor<1xf32>
  // expected-error @+1 {{'func.return' op reads the donated argument 'arg0' after it was written}}
  return %k, %n : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @twice(%k: tensor<4xf32> {nabla.donated}) -> (tensor<4xf32>, tensor<2xf32>, tensor<4xf32>) {
  %c = nabla.constant dense<0.0> : tensor<2xf32>
  // expected-error @+1 {{'func.return' op gives the donated argument 'arg0' as result #0 and as result #2: both would be in its memory; give it once}}
  return %k, %c, %k : tensor<4xf32>, tensor<2xf32>, tensor<4xf32>
}

// -----

// expected-error @+2 {{'func.func' op has donated arguments and more than one block: write its control flow as nabla.cond, while or scan}}
// expected-warning @+1 {{is no entry point}}
func.func @blocks(%k: tensor<4xf32> {nabla.donated}, %c: i1) -> tensor<4xf32> {
  cf.cond_br %c, ^a, ^b
^a:
  return %k : tensor<4xf32>
^b:
  return %k : tensor<4xf32>
}
