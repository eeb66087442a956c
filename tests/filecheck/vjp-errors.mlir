// RUN: nabla-opt "%s" --nabla-vjp --split-input-file --verify-diagnostics

!w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
func.func @main(%x: tensor<2x64xf32>, %w: !w) -> tensor<2x8xf32> {
  // expected-error@+1 {{has no derivative: nabla-dispatch makes it; differentiate before}}
  %0 = nabla.fused_dot %x, %w : tensor<2x64xf32>, !w
  return %0 : tensor<2x8xf32>
}

// -----
// expected-error@+1 {{cannot be differentiated: it has no argument that is a tensor of floats}}
func.func @main(%i: tensor<2xi32>) -> tensor<2xi32> {
  return %i : tensor<2xi32>
}

// -----
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{has no derivative: give the call the attribute nabla.vjp = [@forward, @backward] or nabla.jvp = @function; or add rules for its target by nabla_add_call_rules}}
  %0 = nabla.custom_call @f(%x) pure : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----
func.func @main(%x: tensor<5x4xf32>, %i: tensor<3x1xi64>, %u: tensor<3x4xf32>) -> tensor<5x4xf32> {
  // expected-error@+1 {{has no derivative: scatter mul would need to know that no two updates have the same place}}
  %0 = nabla.scatter mul %x, %i, %u offset_dims = [1] collapsed_dims = [0] index_map = [0] vector_dim = 1 : tensor<5x4xf32>, tensor<3x1xi64>, tensor<3x4xf32>
  return %0 : tensor<5x4xf32>
}

// -----
func.func @main(%x: tensor<f32>) -> tensor<f32> {
  // expected-error@+1 {{has no derivative in reverse: the number of its steps, and so what would have to be kept, is not known. Give it max_steps = N}}
  %0 = nabla.while(%x) : tensor<f32> cond {
  ^bb0(%a: tensor<f32>):
    %p = nabla.compare lt %a, %a : tensor<f32>, tensor<f32>
    nabla.condition %p, %a : tensor<i1>, tensor<f32>
  } do {
  ^bb0(%a: tensor<f32>):
    nabla.yield %a : tensor<f32>
  }
  return %0 : tensor<f32>
}

// -----
func.func @main(%p: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{has effects, which its derivative would have twice}}
  %0 = nabla.cond %p : tensor<i1> -> tensor<2xf32> {
    %1 = nabla.custom_call @log(%x) : (tensor<2xf32>) -> tensor<2xf32>
    nabla.yield %x : tensor<2xf32>
  }, {
    nabla.yield %x : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}

// -----
func.func private @forward(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<3xf32>)
// expected-error@+1 {{is a rule for the derivative of @f, but does not take first what the forward function saves}}
func.func private @backward(%s: tensor<4xf32>, %u: tensor<2xf32>) -> tensor<2xf32>
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> attributes {nabla.vjp = [@forward, @backward]}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = func.call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----
func.func private @forward(%x: tensor<2xf32>) -> tensor<2xf32>
// expected-error@+1 {{is a rule for the derivative of @f, but does not return a cotangent of the type of each argument that is a tensor of floats}}
func.func private @backward(%u: tensor<2xf32>) -> tensor<3xf32>
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> attributes {nabla.vjp = [@forward, @backward]}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = func.call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----
func.func private @f(%x: tensor<2xf32>) -> tensor<3xf32> attributes {nabla.straight_through}
func.func @main(%x: tensor<2xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{calls a function with nabla.straight_through, whose first argument and first result are not arrays of floats of one shape}}
  %0 = func.call @f(%x) : (tensor<2xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----
// expected-error@+1 {{cannot be differentiated: a function with several blocks has no derivative}}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  cf.br ^next
^next:
  return %x : tensor<2xf32>
}

// -----
// expected-error@+1 {{has the name of the derivative that is asked for}}
func.func private @main.vjp()
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----
// Rules are checked where nothing calls the function, too.
// expected-error@+1 {{is a rule for the derivative of @never, but does not take a cotangent for each result that is an array of floats behind what is saved}}
func.func private @too_few(%s: tensor<2xf32>) -> tensor<2xf32> {
  return %s : tensor<2xf32>
}
func.func private @never_forward(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  return %x, %x : tensor<2xf32>, tensor<2xf32>
}
func.func private @never(%x: tensor<2xf32>) -> tensor<2xf32> attributes {nabla.vjp = [@never_forward, @too_few]} {
  return %x : tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  return %x : tensor<2xf32>
}

// -----
// expected-error@+1 {{is a rule for the derivative of @f, but does not return a cotangent of the type of each argument}}
func.func private @backward(%s: tensor<2xf32>, %u: tensor<2xf32>) -> tensor<3xf32> {
  %0 = nabla.full 0.0 : f32 -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
func.func private @forward(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  return %x, %x : tensor<2xf32>, tensor<2xf32>
}
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = nabla.custom_call @f(%x) {nabla.vjp = [@forward, @backward]} : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----
func.func private @effect(%x: tensor<2xf32>) -> tensor<2xf32>
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error@+1 {{has effects, which its derivative would have twice: declare its custom calls pure, or move them outside}}
  %0 = nabla.remat -> tensor<2xf32> {
    %1 = func.call @effect(%x) : (tensor<2xf32>) -> tensor<2xf32>
    nabla.yield %1 : tensor<2xf32>
  }
  return %0 : tensor<2xf32>
}
