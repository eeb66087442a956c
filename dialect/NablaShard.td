// Meshes, shardings and collectives (docs/SHARDING.md). Included by Nabla.td,
// which has the base classes.
#ifndef NABLA_SHARD_TD
#define NABLA_SHARD_TD

def Nabla_Direction : I32EnumAttr<"Direction", "direction of propagation", [
  I32EnumAttrCase<"none", 0>, I32EnumAttrCase<"forward", 1>,
  I32EnumAttrCase<"backward", 2>, I32EnumAttrCase<"both", 3>]> {
  let cppNamespace = "::nabla";
}

def Nabla_MeshOp : Nabla_EffectOp<"mesh"> {
  let summary = "A mesh: named axes over which arrays are divided";
  let description = [{
    `nabla.mesh @m <["data"=2, "model"=4]>` stands in a module and names a grid of
    2 x 4 devices. Device i has the coordinates of i in row-major order: the last
    axis varies fastest. `bandwidth` (bytes/s), `latency` (s), a number for each
    axis, and `devices`, a permutation of the devices, may follow.

    A *sharding* says over which axes each dimension of an array is divided:
    `#nabla.sharding<@m, [{"data"}, {"model", ?}p1], replicated = {"x"}, partial =
    {"y": sum}>`. A dimension in braces lists axes, the first divides into the
    largest pieces; `?` behind them permits propagation to add axes, pN is a
    priority. `"model":(2)2` is a sub-axis: the part of size 2 of "model" behind
    a part of size 2. Axes in `replicated` stay unused. Axes in `partial` have
    values to be joined by sum, prod, max, min, any or all.

    ```mlir
    nabla.mesh @m <["data"=2, "model"=4]> {bandwidth = [1.0e10, 5.0e10], latency = [2.0e-6, 1.0e-6]}
    func.func @mesh(%x: tensor<8x16xf32> {nabla.sharding = #nabla.sharding<@m, [{"data"}, {?} ]>}) -> tensor<8x16xf32> {
      return %x : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, ArrayAttr:$axes,
                       OptionalAttr<ArrayAttr>:$bandwidth,
                       OptionalAttr<ArrayAttr>:$latency,
                       OptionalAttr<ArrayAttr>:$devices);
  let hasCustomAssemblyFormat = 1;
  let extraClassDefinition = verifyHook # [{
    ::mlir::ParseResult $cppClass::parse(::mlir::OpAsmParser &parser,
                                         ::mlir::OperationState &result) {
      ::mlir::StringAttr name;
      ::llvm::SmallVector<::mlir::Attribute> axes;
      auto axis = [&]() -> ::mlir::ParseResult {
        ::std::string text;
        int64_t size = 0;
        if (parser.parseString(&text) || parser.parseEqual() ||
            parser.parseInteger(size))
          return ::mlir::failure();
        axes.push_back(parser.getBuilder().getStringAttr(text));
        axes.push_back(parser.getBuilder().getI64IntegerAttr(size));
        return ::mlir::success();
      };
      if (parser.parseSymbolName(name, "sym_name", result.attributes) ||
          parser.parseLess() ||
          parser.parseCommaSeparatedList(
              ::mlir::AsmParser::Delimiter::Square, axis) ||
          parser.parseGreater())
        return ::mlir::failure();
      result.addAttribute("axes", parser.getBuilder().getArrayAttr(axes));
      return parser.parseOptionalAttrDict(result.attributes);
    }
    void $cppClass::print(::mlir::OpAsmPrinter &printer) {
      printer << ' ';
      printer.printSymbolName(getSymName());
      printer << " <[";
      for (size_t i = 0; i + 1 < getAxes().size(); i += 2) {
        printer << (i ? ", " : "") << getAxes()[i] << '=';
        printer.printAttributeWithoutType(getAxes()[i + 1]);
      }
      printer << "]>";
      printer.printOptionalAttrDict((*this)->getAttrs(), {"sym_name", "axes"});
    }
  }];
}

def Nabla_ShardingConstraintOp : Nabla_Op<"sharding_constraint",
    [AllTypesMatch<["input", "result"]>]> {
  let summary = "Asks for a sharding of a value";
  let description = [{
    The result is the operand, divided as the attribute says. Propagation takes
    it as given; a division that is not legal is an error.

    ```mlir
    nabla.mesh @m <["model"=4]>
    func.func @sharding_constraint(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %y = nabla.sharding_constraint %x : tensor<8x16xf32> sharding = #nabla.sharding<@m, [{}, {"model"} ]>
      return %y : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_EncodingAttr:$sharding);
  let results = (outs Nabla_Array:$result);
  let assemblyFormat =
      "$input `:` qualified(type($input)) `sharding` `=` $sharding attr-dict";
}

// Operations on shardings of whole arrays; nabla-partition removes them.
class Nabla_ShardingOp<string mnemonic, string text>
    : Nabla_Op<mnemonic, [AllTypesMatch<["input", "result"]>]> {
  let summary = text;
  let results = (outs Nabla_Array:$result);
}

def Nabla_ReshardOp : Nabla_ShardingOp<"reshard",
    "Divides a value in another way"> {
  let description = [{
    The result is the operand, divided as the attribute says. Unlike
    `sharding_constraint` it does not ask that the operand be divided so:
    propagation goes neither forward nor backward through it. Packed arrays
    cannot be exchanged; a `reshard` of one that changes its division is an
    error.

    ```mlir
    nabla.mesh @m <["model"=4]>
    func.func @reshard(%x: tensor<8x16xf32> {nabla.sharding = #nabla.sharding<@m, [{"model"}, {} ]>}) -> tensor<8x16xf32> {
      %y = nabla.reshard %x : tensor<8x16xf32> sharding = #nabla.sharding<@m, [{}, {"model"} ]>
      return %y : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_EncodingAttr:$sharding);
  let assemblyFormat = "$input `:` qualified(type($input)) `sharding` `=` "
                       "$sharding attr-dict";
}

def Nabla_PropagationBarrierOp : Nabla_ShardingOp<"propagation_barrier",
    "Limits the propagation of shardings"> {
  let description = [{
    The result is the operand. `allowed` is the direction in which propagation
    passes: `none`, `forward` (from the operand to the result), `backward`, or
    `both`.

    ```mlir
    nabla.mesh @m <["model"=4]>
    func.func @propagation_barrier(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
      %y = nabla.propagation_barrier %x allowed = forward : tensor<8x16xf32>
      return %y : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_Direction:$allowed);
  let assemblyFormat = "$input `allowed` `=` $allowed attr-dict `:` "
                       "qualified(type($input))";
}

// They have no results, and would be removed if they had no effects.
def Nabla_ShardingGroupOp : Nabla_EffectOp<"sharding_group"> {
  let summary = "Divides several values in the same way";
  let description = [{
    Values of one shape with the same `group` get one sharding.

    ```mlir
    nabla.mesh @m <["model"=4]>
    func.func @sharding_group(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> tensor<8x16xf32> {
      nabla.sharding_group %x group = 0 : tensor<8x16xf32>
      nabla.sharding_group %y group = 0 : tensor<8x16xf32>
      %z = nabla.add %x, %y : tensor<8x16xf32>, tensor<8x16xf32>
      return %z : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, I64Attr:$group);
  let assemblyFormat =
      "$input `group` `=` $group attr-dict `:` qualified(type($input))";
}

def Nabla_InspectShardingOp : Nabla_EffectOp<"inspect_sharding"> {
  let summary = "Tells a callback how a value is divided";
  let description = [{
    While the program is compiled, the function that
    `nabla_add_sharding_callback` (nabla/shard.h) added under the name gets the
    sharding and the local type of the value.

    ```mlir
    nabla.mesh @m <["model"=4]>
    func.func @inspect_sharding(%x: tensor<8x16xf32>) -> tensor<8x16xf32> {
      nabla.inspect_sharding @hidden %x : tensor<8x16xf32>
      return %x : tensor<8x16xf32>
    }
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callback, Nabla_Array:$input);
  let assemblyFormat =
      "$callback $input attr-dict `:` qualified(type($input))";
}

def Nabla_ShardMapOp : Nabla_EffectOp<"shard_map",
    [SingleBlock, RecursiveMemoryEffects]> {
  let summary = "Computes on the pieces of each device";
  let description = [{
    The region is written for one device: its arguments are the pieces of the
    operands that `in` describes, and it yields pieces of the results, which
    `out` describes. Collectives exchange values between devices. Implicit
    operands stay packed; a packed array is never exchanged. Values from outside
    that the region uses are whole on every device.

    A value is *equal* along an axis of the mesh if all devices that differ in
    this axis alone have the same; otherwise it is *varying*. This is derived:
    operands vary along the axes that divide them, and results of `all_reduce`,
    `all_gather` and `broadcast` are equal along their axes. A result that
    varies along an axis that does not divide it is an error.

    ```mlir
    nabla.mesh @m <["data"=2, "model"=4]>
    func.func @shard_map(%x: tensor<8x16xf32>) -> tensor<8xf32> {
      %y = nabla.shard_map(%x : tensor<8x16xf32>)
          in = [#nabla.sharding<@m, [{"data"}, {"model"} ]>]
          out = [#nabla.sharding<@m, [{"data"} ]>] -> tensor<8xf32> {
      ^bb0(%piece: tensor<4x4xf32>):
        %sums = nabla.reduce sum %piece dims = [1] : tensor<4x4xf32>
        %all = nabla.all_reduce sum %sums axes = ["model"] : tensor<4xf32>
        nabla.yield %all : tensor<4xf32>
      }
      return %y : tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Variadic<Nabla_Array>:$inputs, ArrayAttr:$in,
                       ArrayAttr:$out);
  let results = (outs Variadic<Nabla_Array>:$results);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`(` $inputs^ `:` qualified(type($inputs)) `)`)? `in` `=` $in `out` `=` $out
    attr-dict-with-keyword (`->` qualified(type($results))^)? $body
  }];
}

// Collectives exchange values between the devices of a mesh that differ in the
// coordinates of `axes` alone. They see local types, and have no memory
// effects, but may not be moved to where fewer devices meet them.
class Nabla_CollectiveOp<string mnemonic, string text, list<Trait> traits = []>
    : Nabla_EffectOp<mnemonic, !listconcat([NoMemoryEffect], traits)> {
  let summary = text;
}

// The description of a collective: an example in a partitioned function.
class Nabla_CollectiveExample<string name, string from, string line,
                              string gives> {
  string text = "```mlir\nnabla.mesh @m <[\"data\"=2, \"model\"=4]>\n" #
      "func.func @" # name # "(%x: " # from # ") -> " # gives #
      " attributes {nabla.partitioned = @m} {\n  %r = nabla." # name # " " #
      line # "\n  return %r : " # gives # "\n}\n```\n";
}

def Nabla_AllReduceOp : Nabla_CollectiveOp<"all_reduce",
    "Joins the values of devices, for each element",
    [AllTypesMatch<["input", "result"]>]> {
  let description = [{
Each device gets the join of all. Elements are joined by a balanced tree over
the devices, in their order, f16 and bf16 in f32 and rounded once: the bytes
depend on the number of devices alone.

}] # Nabla_CollectiveExample<"all_reduce", "tensor<8x16xf32>",
        "sum %x axes = [\"model\"] : tensor<8x16xf32>",
        "tensor<8x16xf32>">.text;
  let arguments = (ins Nabla_ReduceKind:$kind, Nabla_Tensor:$input,
                       StrArrayAttr:$axes);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat =
      "$kind $input `axes` `=` $axes attr-dict `:` type($input)";
}

def Nabla_AllGatherOp : Nabla_CollectiveOp<"all_gather",
    "Joins the pieces of devices along a dimension"> {
  let description = [{
Each device gets the pieces of all along `dim`, in the order of their
coordinates.

}] # Nabla_CollectiveExample<"all_gather", "tensor<8x4xf32>",
        "%x dim = 1 axes = [\"model\"] : tensor<8x4xf32> -> tensor<8x16xf32>",
        "tensor<8x16xf32>">.text;
  let arguments = (ins Nabla_Tensor:$input, I64Attr:$dim, StrArrayAttr:$axes);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input `dim` `=` $dim `axes` `=` $axes attr-dict `:` "
                       "type($input) `->` type($result)";
}

def Nabla_AllSliceOp : Nabla_CollectiveOp<"all_slice",
    "Takes the device's own piece along a dimension"> {
  let description = [{
The inverse of `all_gather`. Nothing is exchanged.

}] # Nabla_CollectiveExample<"all_slice", "tensor<8x16xf32>",
        "%x dim = 1 axes = [\"model\"] : tensor<8x16xf32> -> tensor<8x4xf32>",
        "tensor<8x4xf32>">.text;
  let arguments = (ins Nabla_Tensor:$input, I64Attr:$dim, StrArrayAttr:$axes);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input `dim` `=` $dim `axes` `=` $axes attr-dict `:` "
                       "type($input) `->` type($result)";
}

def Nabla_ReduceScatterOp : Nabla_CollectiveOp<"reduce_scatter",
    "Joins the values of devices, and takes the device's own piece"> {
  let description = [{
As `all_reduce` and then `all_slice`, with the same bytes, and half of the
exchange.

}] # Nabla_CollectiveExample<"reduce_scatter", "tensor<8x16xf32>",
        "sum %x dim = 1 axes = [\"model\"] : tensor<8x16xf32> -> "
        "tensor<8x4xf32>", "tensor<8x4xf32>">.text;
  let arguments = (ins Nabla_ReduceKind:$kind, Nabla_Tensor:$input,
                       I64Attr:$dim, StrArrayAttr:$axes);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$kind $input `dim` `=` $dim `axes` `=` $axes attr-dict "
                       "`:` type($input) `->` type($result)";
}

def Nabla_AllToAllOp : Nabla_CollectiveOp<"all_to_all",
    "Divides along one dimension in place of another"> {
  let description = [{
Device j gets piece j of each device along `split`, joined along `concat` in
the order of the devices' coordinates.

}] # Nabla_CollectiveExample<"all_to_all", "tensor<8x4xf32>",
        "%x split = 0 concat = 1 axes = [\"model\"] : tensor<8x4xf32> -> "
        "tensor<2x16xf32>", "tensor<2x16xf32>">.text;
  let arguments = (ins Nabla_Tensor:$input, I64Attr:$split, I64Attr:$concat,
                       StrArrayAttr:$axes);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input `split` `=` $split `concat` `=` $concat `axes` "
                       "`=` $axes attr-dict `:` type($input) `->` "
                       "type($result)";
}

def Nabla_PermuteOp : Nabla_CollectiveOp<"permute",
    "Sends values from device to device",
    [AllTypesMatch<["input", "result"]>]> {
  let description = [{
`pairs` has a source and a target for each transfer, as numbers among the
devices that differ in `axes`. A device that is no target gets zeros.

}] # Nabla_CollectiveExample<"permute", "tensor<8xf32>",
        "%x pairs = [0, 1, 1, 0] axes = [\"data\"] : tensor<8xf32>",
        "tensor<8xf32>">.text;
  let arguments = (ins Nabla_Tensor:$input, DenseI64ArrayAttr:$pairs,
                       StrArrayAttr:$axes);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input `pairs` `=` $pairs `axes` `=` $axes attr-dict "
                       "`:` type($input)";
}

def Nabla_BroadcastOp : Nabla_CollectiveOp<"broadcast",
    "Gives all devices the value of one",
    [AllTypesMatch<["input", "result"]>]> {
  let description = [{
`from` is a number among the devices that differ in `axes`.

}] # Nabla_CollectiveExample<"broadcast", "tensor<8xf32>",
        "%x from = 1 axes = [\"data\"] : tensor<8xf32>", "tensor<8xf32>">.text;
  let arguments = (ins Nabla_Tensor:$input, I64Attr:$from, StrArrayAttr:$axes);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input `from` `=` $from `axes` `=` $axes attr-dict `:` "
                       "type($input)";
}

def Nabla_AxisIndexOp : Nabla_CollectiveOp<"axis_index",
    "Number of the device among those that differ in some axes"> {
  let description = [{
The first axis counts most.

}] # Nabla_CollectiveExample<"axis_index", "tensor<8xf32>",
        "axes = [\"data\", \"model\"] : tensor<i64>", "tensor<i64>">.text;
  let arguments = (ins StrArrayAttr:$axes);
  let results = (outs 0DTensorOf<[I64]>:$index);
  let assemblyFormat = "`axes` `=` $axes attr-dict `:` type($index)";
}

#endif
