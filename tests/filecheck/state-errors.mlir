// States that a program cannot have.
// RUN: nabla-opt "%s" --split-input-file --nabla-manifest --verify-diagnostics

// expected-error @+1 {{'func.func' op has 4 : i64 as nabla.state of argument #0: it is a string that is not empty, as in {nabla.state = "cache"}}}
func.func @number(%k: tensor<4xf32> {nabla.state = 4}) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has the state 'k' of type tensor<?xf32>, argument #0: a state is a dense tensor whose sizes are known; give it the largest size}}
func.func @size(%k: tensor<?xf32> {nabla.state = "k"}) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has two arguments for the state 'k', #0 and #1: give each state a name of its own}}
func.func @twice(%a: tensor<4xf32> {nabla.state = "k"}, %b: tensor<4xf32> {nabla.state = "k"}) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has two results for the state 'k', #0 and #1}}
func.func @results(%a: tensor<4xf32> {nabla.state = "k"}) -> (tensor<4xf32> {nabla.state = "k"}, tensor<4xf32> {nabla.state = "k"}) {
  return %a, %a : tensor<4xf32>, tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op has result #0 for the state 'k', which no argument is: add {nabla.state = "k"} to the argument that it replaces}}
func.func @lost(%a: tensor<4xf32>) -> (tensor<4xf32> {nabla.state = "k"}) {
  return %a : tensor<4xf32>
}

// -----

// expected-error @+1 {{'func.func' op has the state 'k' as argument #0 of type tensor<4xf32> and as result #0 of type tensor<2x2xf32>: both are the same}}
func.func @type(%a: tensor<4xf32> {nabla.state = "k"}) -> (tensor<2x2xf32> {nabla.state = "k"}) {
  %r = nabla.reshape %a : tensor<4xf32> -> tensor<2x2xf32>
  return %r : tensor<2x2xf32>
}

// -----

// expected-error @+1 {{'func.func' op is private and has states: only public functions have them; their values are passed on as arguments and results}}
func.func private @private(%a: tensor<4xf32> {nabla.state = "k"}) {
  return
}

// -----

func.func @callee(%a: tensor<4xf32> {nabla.state = "k"}) {
  return
}
func.func @caller(%a: tensor<4xf32>) {
  // expected-error @+1 {{'func.call' op calls 'callee', which has states: move what both do to a private function}}
  func.call @callee(%a) : (tensor<4xf32>) -> ()
  return
}

// -----

func.func @one(%a: tensor<4xf32> {nabla.state = "k"}) {
  return
}
// expected-error @+1 {{'func.func' op has the state 'k' of type tensor<8xf32>; in 'one' it is tensor<4xf32>: functions share a state by its name}}
func.func @other(%a: tensor<8xf32> {nabla.state = "k"}) {
  return
}

// -----

func.func @late(%k: tensor<4xf32> {nabla.state = "k"}, %x: tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32> {nabla.state = "k"}) {
  %c0 = arith.constant 0 : index
  %n = nabla.dynamic_update_slice %k, %x at (%c0 : index) : tensor<4xf32>, tensor<1xf32>
  // expected-error-re @+1 {{'nabla.exp' op reads the state 'k' after it was written at loc({{.*}}state-errors.mlir":{{[0-9]+}}:8): read it before, or read the new value}}
  %e = nabla.exp %k : tensor<4xf32>
  return %e, %n : tensor<4xf32>, tensor<4xf32>
}

// -----

// The old value as a result.
func.func @old(%k: tensor<4xf32> {nabla.state = "k"}) -> (tensor<4xf32>, tensor<4xf32> {nabla.state = "k"}) {
  %n = nabla.exp %k : tensor<4xf32>
  // expected-error @+1 {{'func.return' op reads the state 'k' after it was written}}
  return %k, %n : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @swap(%k: tensor<4xf32> {nabla.state = "k"}, %l: tensor<4xf32> {nabla.state = "l"}) -> (tensor<4xf32> {nabla.state = "k"}, tensor<4xf32> {nabla.state = "l"}) {
  // expected-error @+1 {{'func.return' op writes to another array than the state 'k' and gives it as that state: begin with the state's own argument}}
  return %l, %k : tensor<4xf32>, tensor<4xf32>
}

// -----

// A function that the state is passed to reads it before: it is called before.
func.func private @put(%k: tensor<4xf32>, %x: tensor<1xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %n = nabla.dynamic_update_slice %k, %x at (%c0 : index) : tensor<4xf32>, tensor<1xf32>
  return %n : tensor<4xf32>
}
func.func @through(%k: tensor<4xf32> {nabla.state = "k"}, %x: tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32> {nabla.state = "k"}) {
  %n = func.call @put(%k, %x) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  // expected-error @+1 {{'nabla.exp' op reads the state 'k' after it was written}}
  %e = nabla.exp %k : tensor<4xf32>
  return %e, %n : tensor<4xf32>, tensor<4xf32>
}

// -----

// The first of two writes is read behind the second one.
func.func @between(%k: tensor<4xf32> {nabla.state = "k"}, %x: tensor<1xf32>) -> (tensor<4xf32>, tensor<4xf32> {nabla.state = "k"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %a = nabla.dynamic_update_slice %k, %x at (%c0 : index) : tensor<4xf32>, tensor<1xf32>
  %b = nabla.dynamic_update_slice %a, %x at (%c1 : index) : tensor<4xf32>, tensor<1xf32>
  // expected-error @+1 {{'nabla.exp' op reads the state 'k' after it was written}}
  %e = nabla.exp %a : tensor<4xf32>
  return %e, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// A branch behind the write reads the old value.
func.func @branch(%k: tensor<4xf32> {nabla.state = "k"}, %x: tensor<1xf32>, %t: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32> {nabla.state = "k"}) {
  %c = tensor.extract %t[] : tensor<i1>
  %c0 = arith.constant 0 : index
  %n = nabla.dynamic_update_slice %k, %x at (%c0 : index) : tensor<4xf32>, tensor<1xf32>
  %e = scf.if %c -> tensor<4xf32> {
    // expected-error @+1 {{'nabla.exp' op reads the state 'k' after it was written}}
    %i = nabla.exp %k : tensor<4xf32>
    scf.yield %i : tensor<4xf32>
  } else {
    scf.yield %n : tensor<4xf32>
  }
  return %e, %n : tensor<4xf32>, tensor<4xf32>
}
