// What nabla-implicitize refuses, each with a sentence.
// RUN: not nabla-opt "%s" --nabla-implicitize="function=g args=0" 2>&1 | FileCheck "%s" --check-prefix=FUNCTION
// FUNCTION: error: 'builtin.module' op nabla-implicitize: there is no function @g
// RUN: not nabla-opt "%s" --nabla-implicitize="function=none args=0" 2>&1 | FileCheck "%s" --check-prefix=BODY
// BODY: nabla-implicitize: @none has no body
// RUN: not nabla-opt "%s" --nabla-implicitize="function=called args=0" 2>&1 | FileCheck "%s" --check-prefix=CALLED
// CALLED: error: 'func.call' op nabla-implicitize: calls @called with dense arguments: inline it first, or change the arguments of the function that calls it
// RUN: not nabla-opt "%s" --nabla-implicitize="args=v" 2>&1 | FileCheck "%s" --check-prefix=NAME
// NAME: no argument has the name, or number, 'v'; there are 6, the first one is 0
// RUN: not nabla-opt "%s" --nabla-implicitize="args=6" 2>&1 | FileCheck "%s" --check-prefix=NUMBER
// NUMBER: no argument has the name, or number, '6'
// RUN: not nabla-opt "%s" --nabla-implicitize 2>&1 | FileCheck "%s" --check-prefix=NOTHING
// NOTHING: no argument has the name, or number, ''
// RUN: not nabla-opt "%s" --nabla-implicitize="args=w encoding=nf5" 2>&1 | FileCheck "%s" --check-prefix=ENCODING
// ENCODING: 'nf5' is no encoding that an argument can have; one is nf4<block = 64>
// RUN: not nabla-opt "%s" --nabla-implicitize="args=w encoding='splat<1.0 : f32>'" 2>&1 | FileCheck "%s" --check-prefix=SPLAT
// SPLAT: 'splat<1.0 : f32>' is no encoding that an argument can have
// RUN: not nabla-opt "%s" --nabla-implicitize="args=w,w" 2>&1 | FileCheck "%s" --check-prefix=TWICE
// TWICE: argument 'w': is implicit already
// RUN: not nabla-opt "%s" --nabla-implicitize="args=1" 2>&1 | FileCheck "%s" --check-prefix=SIZE
// SIZE: argument '1': has a size that is not known: only a static shape is packed
// RUN: not nabla-opt "%s" --nabla-implicitize="args=2" 2>&1 | FileCheck "%s" --check-prefix=ELEMENT
// ELEMENT: argument '2': elements of an implicit array are f32, f16 or bf16
// RUN: not nabla-opt "%s" --nabla-implicitize="args=3" 2>&1 | FileCheck "%s" --check-prefix=TENSOR
// TENSOR: argument '3': is no tensor
// RUN: not nabla-opt "%s" --nabla-implicitize="args=4 encoding='int8<block = 0, blocks = leading>'" 2>&1 | FileCheck "%s" --check-prefix=SHAPE
// SHAPE: argument '4': {{.*}}
func.func @main(%w: tensor<4x64xf32> {nabla.name = "w"}, %a: tensor<?x64xf32>, %b: tensor<4x64xi8>, %c: index, %d: tensor<f32>, %e: tensor<4x64xf32>) {
  return
}
func.func private @none(tensor<4x64xf32>)
func.func private @called(%x: tensor<4x64xf32>) {
  return
}
func.func @calls(%x: tensor<4x64xf32>) {
  func.call @called(%x) : (tensor<4x64xf32>) -> ()
  return
}
