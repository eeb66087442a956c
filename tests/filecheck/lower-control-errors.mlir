// Functions that call themselves, at whatever distance, are refused.
// RUN: nabla-opt "%s" --split-input-file --nabla-lower-control --verify-diagnostics -o "%t"

func.func @self(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{'func.call' op closes a circle of calls: recursion cannot be compiled; nabla.while repeats}}
  %0 = call @self(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

func.func @a(%p: i1, %x: f32) -> f32 {
  %0 = nabla.cond %p : i1 -> f32 {
    %1 = func.call @b(%p, %x) : (i1, f32) -> f32
    nabla.yield %1 : f32
  }, {
    nabla.yield %x : f32
  }
  return %0 : f32
}
func.func private @b(%p: i1, %x: f32) -> f32 {
  %0 = call @c(%p, %x) : (i1, f32) -> f32
  return %0 : f32
}
func.func private @c(%p: i1, %x: f32) -> f32 {
  // expected-error @below {{'func.call' op closes a circle of calls}}
  %0 = call @a(%p, %x) : (i1, f32) -> f32
  return %0 : f32
}

// -----

// Calls in calls, and of one function from two places, are none; nor is what
// is defined elsewhere.
func.func @main(%x: f32) -> f32 {
  %0 = call @twice(%x) : (f32) -> f32
  %1 = call @once(%0) : (f32) -> f32
  return %1 : f32
}
func.func private @twice(%x: f32) -> f32 {
  %0 = call @once(%x) : (f32) -> f32
  %1 = call @once(%0) : (f32) -> f32
  return %1 : f32
}
func.func private @once(%x: f32) -> f32 {
  %0 = call @outside(%x) : (f32) -> f32
  return %0 : f32
}
func.func private @outside(f32) -> f32

// -----

// A function of the same name in another module is another one.
module @outer {
  func.func @f(%x: f32) -> f32 {
    return %x : f32
  }
  module @inner {
    func.func @g(%x: f32) -> f32 {
      %0 = call @f(%x) : (f32) -> f32
      return %0 : f32
    }
    func.func private @f(f32) -> f32
  }
  func.func @g(%x: f32) -> f32 {
    %0 = call @f(%x) : (f32) -> f32
    return %0 : f32
  }
}
