// Operations with regions: cond, while, scan, and their terminators, with the
// interfaces that upstream passes need: the order of regions, the values that are
// passed between them, the carries of a loop. Verifiers are in verify_control.c,
// canonical folds in control_folds.c. Calls are func.call. The C++ code here is
// in `using namespace mlir`.
#ifndef NABLA_CONTROL_TD
#define NABLA_CONTROL_TD

include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/LoopLikeInterface.td"

def Nabla_Carry : AnyTypeOf<
    [Nabla_Array, Index, AnySignlessInteger, Nabla_Float],
    "tensor, implicit array or scalar">;
def Nabla_Selector : AnyTypeOf<
    [I1, I32, I64, Index, 0DTensorOf<[I1, I32, I64]>],
    "i1, i32, i64, index, or a tensor of one of the first three, of rank 0">;
def Nabla_Predicate : AnyTypeOf<[I1, 0DTensorOf<[I1]>],
                                "i1 or tensor of i1 of rank 0">;

// An op whose regions' effects are its own.
class Nabla_RegionOp<string mnemonic, list<Trait> traits>
    : Op<Nabla_Dialect, mnemonic,
         !listconcat([SingleBlock, RecursiveMemoryEffects], traits)> {
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
  code hooks = [{
    LogicalResult $cppClass::verify() {
      return ::unwrap(nablaVerifyOp(::wrap(getOperation())));
    }
    void $cppClass::getCanonicalizationPatterns(
        RewritePatternSet &patterns, MLIRContext *context) {
      patterns.add<::nabla::FoldInC>(getOperationName(), context);
    }
  }];
}

def Nabla_CondOp : Nabla_RegionOp<"cond", [RecursivelySpeculatable,
    DeclareOpInterfaceMethods<RegionBranchOpInterface,
        ["getEntrySuccessorRegions", "getRegionInvocationBounds"]>]> {
  let summary = "Runs one of its regions";
  let description = [{
    If the selector is an i1, there are two regions: the first runs if it is
    true, otherwise the second, as in StableHLO's `if`. If it is an integer, the
    region with this number runs, and the last region for any other number,
    also a negative one, as in StableHLO's `case`. Regions may use values that
    are defined outside of them. Implicit results stay implicit.

    ```mlir
    func.func @cond(%p: tensor<i1>, %a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
      %y = nabla.cond %p : tensor<i1> -> tensor<4xf32> {
        nabla.yield %a : tensor<4xf32>
      }, {
        nabla.yield %b : tensor<4xf32>
      }
      return %y : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Selector:$selector);
  let results = (outs Variadic<Nabla_Carry>:$results);
  let regions = (region VariadicRegion<SizedRegion<1>>:$branches);
  let assemblyFormat = "$selector attr-dict `:` type($selector) "
                       "(`->` qualified(type($results))^)? $branches";
  let extraClassDefinition = hooks # [{
    void $cppClass::getSuccessorRegions(
        RegionBranchPoint point, SmallVectorImpl<RegionSuccessor> &regions) {
      if (!point.isParent()) {
        regions.emplace_back(getOperation(), getOperation()->getResults());
        return;
      }
      for (Region &region : getBranches()) regions.emplace_back(&region);
    }
    void $cppClass::getEntrySuccessorRegions(
        ArrayRef<Attribute> operands,
        SmallVectorImpl<RegionSuccessor> &regions) {
      intptr_t chosen =
          nablaCondChoice(::wrap(operands[0]), intptr_t(getBranches().size()));
      if (chosen < 0)
        return getSuccessorRegions(RegionBranchPoint::parent(), regions);
      regions.emplace_back(&getBranches()[size_t(chosen)]);
    }
    void $cppClass::getRegionInvocationBounds(
        ArrayRef<Attribute> operands,
        SmallVectorImpl<InvocationBounds> &bounds) {
      unsigned count = unsigned(getBranches().size());
      intptr_t chosen = nablaCondChoice(::wrap(operands[0]), count);
      for (unsigned i = 0; i < count; i++)
        bounds.emplace_back(chosen == intptr_t(i) ? 1u : 0u,
                            chosen < 0 || chosen == intptr_t(i) ? 1u : 0u);
    }
  }];
}

def Nabla_WhileOp : Nabla_RegionOp<"while", [
    RangedTypesMatchWith<"results have the types of the carries", "initial",
                         "results", "$_self">,
    DeclareOpInterfaceMethods<RegionBranchOpInterface,
        ["getEntrySuccessorOperands"]>,
    DeclareOpInterfaceMethods<LoopLikeOpInterface,
        ["getInitsMutable", "getRegionIterArgs", "getYieldedValuesMutable",
         "getLoopResults"]>]> {
  let summary = "Runs its body as long as a condition holds";
  let description = [{
    Both regions have the carries as arguments. The first region ends with
    `nabla.condition`: if it is true, the body runs with the carries that it
    passes on; if not, these are the results. The body ends with `nabla.yield`
    of the next carries. Types of carries do not change; a size that changes is
    `?`. Implicit carries stay implicit. With `max_steps` the loop ends after this
    number of steps at the latest, whatever the condition is; its derivative in
    reverse mode needs this bound, since it keeps what each step begins with.
    With `remat = N` the derivative keeps every N-th step's alone.

    ```mlir
    func.func @while(%a: tensor<f32>, %limit: tensor<f32>) -> tensor<f32> {
      %r = nabla.while(%a) : tensor<f32> cond {
      ^bb0(%x: tensor<f32>):
        %p = nabla.compare lt %x, %limit : tensor<f32>, tensor<f32>
        nabla.condition %p, %x : tensor<i1>, tensor<f32>
      } do {
      ^bb0(%x: tensor<f32>):
        %y = nabla.add %x, %x : tensor<f32>, tensor<f32>
        nabla.yield %y : tensor<f32>
      }
      return %r : tensor<f32>
    }
    ```
  }];
  let arguments = (ins Variadic<Nabla_Carry>:$initial,
      OptionalAttr<I64Attr>:$max_steps, OptionalAttr<I64Attr>:$remat);
  let results = (outs Variadic<Nabla_Carry>:$results);
  let regions = (region SizedRegion<1>:$condition, SizedRegion<1>:$body);
  let assemblyFormat = "(`(` $initial^ `)` `:` qualified(type($initial)))? "
                       "(`max_steps` `=` $max_steps^)? (`remat` `=` $remat^)? "
                       "attr-dict-with-keyword `cond` $condition `do` $body";
  let extraClassDefinition = hooks # [{
    OperandRange $cppClass::getEntrySuccessorOperands(RegionSuccessor) {
      return getInitial();
    }
    void $cppClass::getSuccessorRegions(
        RegionBranchPoint point, SmallVectorImpl<RegionSuccessor> &regions) {
      Operation *from = point.getTerminatorPredecessorOrNull();
      if (!from || from->getParentRegion() == &getBody()) {
        regions.emplace_back(&getCondition(), getCondition().getArguments());
        return;
      }
      regions.emplace_back(&getBody(), getBody().getArguments());
      regions.emplace_back(getOperation(), getOperation()->getResults());
    }
    SmallVector<Region *> $cppClass::getLoopRegions() {
      return {&getCondition(), &getBody()};
    }
    MutableArrayRef<OpOperand> $cppClass::getInitsMutable() {
      return getInitialMutable();
    }
    Block::BlockArgListType $cppClass::getRegionIterArgs() {
      return getCondition().getArguments();
    }
    std::optional<MutableArrayRef<OpOperand>>
    $cppClass::getYieldedValuesMutable() {
      return getBody().front().getTerminator()->getOpOperands();
    }
    std::optional<ResultRange> $cppClass::getLoopResults() {
      return getOperation()->getResults();
    }
  }];
}

def Nabla_ScanOp : Nabla_RegionOp<"scan", [
    AttrSizedOperandSegments, RecursivelySpeculatable,
    DeclareOpInterfaceMethods<RegionBranchOpInterface,
        ["getEntrySuccessorOperands"]>,
    DeclareOpInterfaceMethods<LoopLikeOpInterface,
        ["getInitsMutable", "getRegionIterArgs", "getYieldedValuesMutable",
         "getLoopResults"]>]> {
  let summary = "Runs its body for each index of the first dimension";
  let description = [{
    The arguments of the body are the carries, then one slice of each stacked
    input, without its first dimension. The body yields the next carries, then
    one slice of each stacked output. The results are the last carries, then the
    stacked outputs. The inputs have the same first dimension, which is the
    number of steps; without inputs `length` has it. `reverse` begins with the
    last index. `sizes` has, in order, each `?` of the slices of stacked outputs.
    With `remat = N` the derivative in reverse mode keeps the carries of every N-th
    step, and runs the steps between them once more to have the others: of T steps
    about T / N + N carries are in memory at a time.

    Implicit carries stay implicit. A slice of an implicit input is implicit if
    it consists of consecutive whole blocks, so that its components are parts of
    the components of the input. The argument of the body may be a tensor
    instead; the input is then materialized, which is reported. The same holds
    for stacked outputs.

    ```mlir
    func.func @scan(%h0: tensor<4xf32>, %xs: tensor<?x4xf32>)
        -> (tensor<4xf32>, tensor<?x4xf32>) {
      %h, %ys = nabla.scan init(%h0 : tensor<4xf32>) over(%xs : tensor<?x4xf32>)
          -> tensor<4xf32>, tensor<?x4xf32> {
      ^bb0(%s: tensor<4xf32>, %x: tensor<4xf32>):
        %y = nabla.add %s, %x : tensor<4xf32>, tensor<4xf32>
        nabla.yield %y, %y : tensor<4xf32>, tensor<4xf32>
      }
      return %h, %ys : tensor<4xf32>, tensor<?x4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Nabla_Carry>:$initial,
      Variadic<Nabla_Array>:$inputs, Optional<Index>:$length,
      Variadic<Index>:$sizes, UnitAttr:$reverse, OptionalAttr<I64Attr>:$remat);
  let results = (outs Variadic<Nabla_Carry>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`init` `(` $initial^ `:` qualified(type($initial)) `)`)?
    (`over` `(` $inputs^ `:` qualified(type($inputs)) `)`)?
    (`length` `(` $length^ `)`)? (`sizes` `(` $sizes^ `)`)?
    (`reverse` $reverse^)? (`remat` `=` $remat^)? attr-dict-with-keyword
    (`->` qualified(type($results))^)? $body
  }];
  let extraClassDefinition = hooks # [{
    OperandRange $cppClass::getEntrySuccessorOperands(RegionSuccessor) {
      return getInitial();
    }
    void $cppClass::getSuccessorRegions(
        RegionBranchPoint, SmallVectorImpl<RegionSuccessor> &regions) {
      regions.emplace_back(&getBody(), getRegionIterArgs());
      regions.emplace_back(getOperation(), *getLoopResults());
    }
    SmallVector<Region *> $cppClass::getLoopRegions() {
      return {&getBody()};
    }
    MutableArrayRef<OpOperand> $cppClass::getInitsMutable() {
      return getInitialMutable();
    }
    Block::BlockArgListType $cppClass::getRegionIterArgs() {
      return getBody().getArguments().take_front(getInitial().size());
    }
    std::optional<MutableArrayRef<OpOperand>>
    $cppClass::getYieldedValuesMutable() {
      return getBody().front().getTerminator()->getOpOperands().take_front(
          getInitial().size());
    }
    std::optional<ResultRange> $cppClass::getLoopResults() {
      return getOperation()->getResults().take_front(getInitial().size());
    }
  }];
}

def Nabla_RematOp : Nabla_RegionOp<"remat", [RecursivelySpeculatable,
    DeclareOpInterfaceMethods<RegionBranchOpInterface>]> {
  let summary = "Its region, which reverse mode runs again and does not keep";
  let description = [{
    The results are the values that the region yields. `nabla-vjp` keeps no value
    that the region computes. Where the backward pass needs one, `nabla-vjp` copies
    the region's operations there; they read the outside values that they use from
    the results of a `nabla.barrier`, so that no pass merges them with the originals.

    ```mlir
    func.func @remat(%x: tensor<4xf32>) -> tensor<4xf32> {
      %y = nabla.remat -> tensor<4xf32> {
        %a = nabla.exp %x : tensor<4xf32>
        %b = nabla.sin %a : tensor<4xf32>
        nabla.yield %b : tensor<4xf32>
      }
      return %y : tensor<4xf32>
    }
    ```
  }];
  let results = (outs Variadic<Nabla_Carry>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword "
                       "(`->` qualified(type($results))^)? $body";
  let extraClassDefinition = hooks # [{
    void $cppClass::getSuccessorRegions(
        RegionBranchPoint point, SmallVectorImpl<RegionSuccessor> &regions) {
      if (point.isParent())
        regions.emplace_back(&getBody());
      else
        regions.emplace_back(getOperation(), getOperation()->getResults());
    }
  }];
}

def Nabla_BarrierOp : Nabla_InferOp<"barrier"> {
  let summary = "Values that are not there before another one is";
  let description = [{
    The results are all operands but the last, unchanged. What uses them is not
    computed before the last operand is, and is not shared with what uses the
    operands: `nabla-vjp` begins with it what it computes again, behind the
    cotangent that it is needed for, so that memory holds it no earlier. No
    instruction remains of it.

    ```mlir
    func.func @barrier(%saved: tensor<4xf32>, %cotangent: tensor<4xf32>)
        -> tensor<4xf32> {
      %x = nabla.barrier %saved, %cotangent : tensor<4xf32>, tensor<4xf32>
      %y = nabla.exp %x : tensor<4xf32>
      %z = nabla.mul %y, %cotangent : tensor<4xf32>, tensor<4xf32>
      return %z : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Nabla_Array>:$values);
  let results = (outs Variadic<Nabla_Array>:$results);
  let assemblyFormat = "$values attr-dict `:` qualified(type($values))";
}

class Nabla_TerminatorOp<string mnemonic, list<Trait> traits>
    : Op<Nabla_Dialect, mnemonic,
         !listconcat([Pure, Terminator,
                      DeclareOpInterfaceMethods<
                          RegionBranchTerminatorOpInterface>], traits)>;

def Nabla_YieldOp : Nabla_TerminatorOp<"yield",
    [ParentOneOf<["CondOp", "WhileOp", "ScanOp", "RematOp", "ShardMapOp"]>]> {
  let summary =
      "Ends a region of cond, scan, remat or shard_map, or the body of while";
  let description = [{
    ```mlir
    func.func @yield(%i: tensor<i32>, %a: tensor<4xf32>) -> tensor<4xf32> {
      %y = nabla.cond %i : tensor<i32> -> tensor<4xf32> {
        nabla.yield %a : tensor<4xf32>
      }, {
        %b = nabla.neg %a : tensor<4xf32>
        nabla.yield %b : tensor<4xf32>
      }
      return %y : tensor<4xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Nabla_Carry>:$values);
  let assemblyFormat =
      "($values^ `:` qualified(type($values)))? attr-dict";
  // The yield of scan passes on its carries, not its stacked slices.
  let extraClassDefinition = [{
    MutableOperandRange
    $cppClass::getMutableSuccessorOperands(RegionSuccessor) {
      auto all = getValuesMutable();
      auto scan = dyn_cast<ScanOp>((*this)->getParentOp());
      return scan ? all.slice(0, unsigned(scan.getInitial().size())) : all;
    }
  }];
}

def Nabla_ConditionOp : Nabla_TerminatorOp<"condition",
    [HasParent<"WhileOp">]> {
  let summary = "Ends the first region of while; the body follows if it is true";
  let description = [{
    ```mlir
    func.func @condition(%i: tensor<i64>, %n: tensor<i64>) -> tensor<i64> {
      %r = nabla.while(%i) : tensor<i64> cond {
      ^bb0(%k: tensor<i64>):
        %more = nabla.compare lt %k, %n : tensor<i64>, tensor<i64>
        nabla.condition %more, %k : tensor<i1>, tensor<i64>
      } do {
      ^bb0(%k: tensor<i64>):
        %one = nabla.constant dense<1> : tensor<i64>
        %next = nabla.add %k, %one : tensor<i64>, tensor<i64>
        nabla.yield %next : tensor<i64>
      }
      return %r : tensor<i64>
    }
    ```
  }];
  let arguments = (ins Nabla_Predicate:$predicate,
                       Variadic<Nabla_Carry>:$values);
  let assemblyFormat = "$predicate (`,` $values^)? attr-dict `:` "
      "type($predicate) (`,` qualified(type($values))^)?";
  let extraClassDefinition = [{
    MutableOperandRange
    $cppClass::getMutableSuccessorOperands(RegionSuccessor) {
      return getValuesMutable();
    }
  }];
}

#endif
