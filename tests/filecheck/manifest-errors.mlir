// Names of functions and arguments that a program cannot have.
// RUN: nabla-opt "%s" --split-input-file --nabla-manifest --verify-diagnostics

// expected-error @+1 {{'func.func' op has the name "f g\00\22h": a name is text in UTF-8 without '@' and control characters, and not empty; rename it}}
func.func @"f g\00\22h"(%a: tensor<4xf32>) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has the name "": a name is text}}
func.func @""(%a: tensor<4xf32>) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has the name "f@g": a name is text}}
func.func @"f@g"(%a: tensor<4xf32>) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has the name "f\FFg": a name is text}}
func.func private @"f\FFg"(%a: tensor<4xf32>) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has the name 'malloc', which compiled code has for itself; rename it}}
func.func @malloc(%a: tensor<4xf32>) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has two arguments of the name 'x', #0 and #2: give each a nabla.name of its own}}
func.func @twice(%a: tensor<4xf32> {nabla.name = "x"}, %b: tensor<4xf32> {nabla.name = "w"}, %c: tensor<4xf32> {nabla.name = "x"}) {
  return
}

// -----

// The name of an argument that has none.
// expected-error @+1 {{'func.func' op has two arguments of the name 'arg1', #0 and #1: give each a nabla.name of its own}}
func.func @fallback(%a: tensor<4xf32> {nabla.name = "arg1"}, %b: tensor<4xf32>) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has 5 : i64 as nabla.name of argument #1: it is a string that is not empty, as in {nabla.name = "x"}}}
func.func @number(%a: tensor<4xf32>, %b: tensor<4xf32> {nabla.name = 5}) {
  return
}

// -----

// expected-error @+1 {{'func.func' op has "" as nabla.name of argument #0: it is a string that is not empty}}
func.func @empty(%a: tensor<4xf32> {nabla.name = ""}) {
  return
}

// -----

// Blanks, quotes and signs are no obstacle; names of arguments of functions
// that are called inside alone mean nothing.
func.func @"f g-\22h'.$ü"(%a: tensor<4xf32> {nabla.name = "arg1"}, %b: tensor<4xf32> {nabla.name = "arg0"}) {
  return
}
func.func private @inside(%a: tensor<4xf32> {nabla.name = "x"}, %b: tensor<4xf32> {nabla.name = "x"}) {
  return
}
