// The nabla dialect. Verifiers and type inference are written in C
// (dialect/verify, dialect/infer) and called through one hook each. An op is a
// definition here and a row of ops.def.
#ifndef NABLA_DIALECT_TD
#define NABLA_DIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Nabla_Dialect : Dialect {
  let name = "nabla";
  let cppNamespace = "::nabla";
  let summary = "Computation on implicit arrays: values that are stored in "
                "another form, such as packed codes and scales";
  let description = [{
    An implicit array has a logical shape and element type; its encoding defines
    the stored components. Operations accept implicit arrays in place of tensors.
    `nabla-dispatch` replaces such an operation by a fused operation that decodes
    while it computes, or by a view. Otherwise it decodes the operand with
    `nabla.materialize`, which is counted and reported.

    The type of a result is not written if it is a tensor type that follows from
    operands and attributes. Implicit result types are printed as `-> TYPE` after
    the types of the operands; a program may omit them if they follow. Every
    operation below has an example that can be compiled.

    ### Unknown sizes

    A dimension of a tensor may be `?`: its size is known only when the program
    runs. Dimensions of implicit arrays are always known. The sizes of a result
    follow from the operands:

    * If dimensions of several operands must agree, the size is that of the
      first operand in which it is known. This holds for `add` and all other
      elementwise operations, `select`, `stack`, `concatenate` except along
      `dim`, and batching dimensions of `dot_general`; in `linear` for the
      columns of `w` and the bias; in `rms_norm` and `layer_norm` for the last
      dimension, the weight and the bias; in `rope` for the dimension `dim` and
      the positions; in `attention` for the queries and the mask, and for the
      dimensions before the heads of q, k, v and the mask.
    * Two known sizes that differ are an error at compile time. A known size and
      a `?`, or two `?`, are compared when the program runs; an error names the
      operation.
    * A dimension of only one operand keeps its size: `transpose`, `reduce`,
      `pad`, `softmax`, the other dimensions of `dot_general`.
    * The result of `concatenate` has `?` along `dim` if an operand has it. A
      `slice` of a `?` has a known size if it ends at a limit, and `?` if the
      limit is -1.
    * If the result type is written, it has the sizes: `reshape` computes one
      `?`; `broadcast_in_dim`, `full`, `iota`, `tri`, `uniform`, `normal`,
      `dynamic_slice`, `scan`, and `reshape` with several `?`, take each `?`
      from `sizes(...)`, values of type index, in order.
    * `tensor.dim` returns a size as a value. `tensor.cast` changes the sizes in
      a type; a cast from `?` to a size fails at run time if the size differs.

    ```mlir
    func.func @sizes(%x: tensor<?x3xf32>, %y: tensor<2x?xf32>) -> tensor<2x3xf32> {
      %z = nabla.add %x, %y : tensor<?x3xf32>, tensor<2x?xf32>
      return %z : tensor<2x3xf32>
    }
    ```
  }];
  let useDefaultTypePrinterParser = 1;
  let extraClassDeclaration = [{
    ::mlir::Attribute parseAttribute(::mlir::DialectAsmParser &parser,
                                     ::mlir::Type type) const override;
    void printAttribute(::mlir::Attribute attribute,
                        ::mlir::DialectAsmPrinter &printer) const override;
  }];
}

def Nabla_EncodingAttr : AttrDef<Nabla_Dialect, "Encoding"> {
  let attrName = "nabla.encoding";
  let summary = "an encoding with its parameters: #nabla.nf4<block = 64>";
  let description = [{
    `#nabla.NAME<PARAMETER, ...>`, where NAME is a row of quant/codec/encodings.def or
    one of those below. Parameters that have their default are not printed.
    * `block`: elements per scale, a power of two from 16 to 4096
    * `blocks = flat | leading`: the flattened storage is divided into blocks,
      or each index of the first dimension is one block (`block = 0`; the rows
      of LLM.int8)
    * `scale`: the type of stored scales: f32 (the default), f16, bf16, or an
      encoding, with which the scales are an implicit array: `#nabla.nf4<block =
      64, scale = #nabla.dynamic8<block = 256>>`. Encodings can be nested to a
      depth of 8; the encoding of scales cannot have `blocks = leading`
    * `zero_point = true`: each block has a zero point (int4, int8)
    * `#nabla.dynamic8<block = 256>`: bitsandbytes' encoding of scales, with the
      values map[code] * scales[i / block] + offset; `scale` as above, except
      f16 and bf16
    * `#nabla.lora<base = ENCODING, rank = 8>`: a weight of rank 2 in `base`
      with an update of low rank: base + b . a. `dot_general` multiplies by
      base, a and b, and never by a decoded sum of the weight's size.
      *Merge* is `quantize(materialize(w))` into the encoding of the base (it
      rounds); *unmerge* is the base that `unpack` returns, which was never
      changed. `quantize` into a lora sets a and b to zeros
    * `#nabla.ggml<q4_0>`: blocks of GGUF files (docs/FORMAT.md, G); the storage
      is a whole number of blocks. Programs can only decode them
    * `#nabla.splat<0.5 : f32>`: a constant; nothing is stored
    * `#nabla.identity`: a matrix with 1 where row and column agree, and 0
      elsewhere. `dot_general` with a square one returns the other operand:
      elements are not multiplied by the zeros, so that a NaN or an infinity
      does not change other elements, and -0 stays -0
    * `#nabla.custom<"name", {parameters}>`: defined by a program,
      docs/EXTENDING.md
  }];
  let parameters = (ins StringRefParameter<>:$encoding,
                        "::mlir::DictionaryAttr":$parameters);
}

def Nabla_ImplicitType : TypeDef<Nabla_Dialect, "Implicit"> {
  let mnemonic = "implicit";
  let summary = "implicit array";
  let description = [{
    `!nabla.implicit<SHAPE x ELEMENT, ENCODING [, view<STORAGE, strides = [..],
    offset = N>]>`. A view has the shape STORAGE of the stored array; the
    element with a logical index is at the flat storage index
    offset + sum(index * stride). A view of the whole array in its own order is
    not printed.
  }];
  let parameters = (ins ArrayRefParameter<"int64_t">:$shape,
                        "::mlir::Type":$elementType,
                        "::mlir::Attribute":$encoding,
                        OptionalArrayRefParameter<"int64_t">:$view);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def Nabla_ReduceKind : I32EnumAttr<"ReduceKind", "operation of a reduction", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>,
  I32EnumAttrCase<"prod", 2>, I32EnumAttrCase<"min", 3>,
  I32EnumAttrCase<"mean", 4>, I32EnumAttrCase<"any", 5>,
  I32EnumAttrCase<"all", 6>]> {
  let cppNamespace = "::nabla";
}

def Nabla_ScatterKind : I32EnumAttr<"ScatterKind",
    "combination of an element and its update in a scatter", [
  I32EnumAttrCase<"set", 0>, I32EnumAttrCase<"add", 1>,
  I32EnumAttrCase<"mul", 2>, I32EnumAttrCase<"min", 3>,
  I32EnumAttrCase<"max", 4>]> {
  let cppNamespace = "::nabla";
}

def Nabla_PoolKind : I32EnumAttr<"PoolKind", "reduction of a window", [
  I32EnumAttrCase<"sum", 0>, I32EnumAttrCase<"max", 1>,
  I32EnumAttrCase<"min", 2>, I32EnumAttrCase<"avg", 3>]> {
  let cppNamespace = "::nabla";
}

class Nabla_EffectOp<string mnemonic, list<Trait> traits = []>
    : Op<Nabla_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
  code verifyHook = [{
    ::llvm::LogicalResult $cppClass::verify() {
      return ::unwrap(nablaVerifyOp(::wrap(getOperation())));
    }
  }];
  code inferHook = [{
    ::llvm::LogicalResult $cppClass::inferReturnTypes(
        ::mlir::MLIRContext *context, ::std::optional<::mlir::Location> location,
        ::mlir::ValueRange operands, ::mlir::DictionaryAttr attributes,
        ::mlir::OpaqueProperties properties, ::mlir::RegionRange,
        ::llvm::SmallVectorImpl<::mlir::Type> &types) {
      return ::nabla::inferInC<$cppClass>(context, location, operands,
                                          attributes, properties, types);
    }
  }];
  let extraClassDefinition = verifyHook;
}

class Nabla_Op<string mnemonic, list<Trait> traits = []>
    : Nabla_EffectOp<mnemonic, !listconcat([Pure], traits)>;

// An op whose result types follow from its operands.
class Nabla_InferOp<string mnemonic, list<Trait> traits = []>
    : Nabla_Op<mnemonic,
               !listconcat([DeclareOpInterfaceMethods<InferTypeOpInterface>],
                           traits)> {
  let extraClassDefinition = verifyHook # inferHook;
}

// An op whose results may be implicit: operands, keys with a number or a list
// of numbers, types. Implicit results are printed, `-> TYPE`, and may be left
// out, since they are inferred. `form` is a nabla::Form of Dialect.cpp.
class Nabla_ArrayOp<string mnemonic, string form, list<Trait> traits = []>
    : Nabla_InferOp<mnemonic, traits> {
  let hasCustomAssemblyFormat = 1;
  let extraClassDefinition = verifyHook # inferHook # [{
    ::mlir::ParseResult $cppClass::parse(::mlir::OpAsmParser &parser,
                                         ::mlir::OperationState &result) {
      return ::nabla::parseArrays<$cppClass>(parser, result, }] # form # [{);
    }
    void $cppClass::print(::mlir::OpAsmPrinter &printer) {
      ::nabla::printArrays(printer, getOperation(), }] # form # [{);
    }
  }];
}

// The description of an op of one line: an example, as docs/DIALECT.md has one
// of each.
class Nabla_Example<string name, string arguments, string line, string gives> {
  string text = "```mlir\nfunc.func @" # name # "(" # arguments # ") -> " #
      gives # " {\n  %r = nabla." # name # " " # line # "\n  return %r : " #
      gives # "\n}\n```\n";
}

def Nabla_Float : AnyTypeOf<[F64, F32, F16, BF16]>;
def Nabla_Tensor : AnyTypeOf<
    [RankedTensorOf<[F64, F32, F16, BF16, I64, I32, I8, UI8, I1]>],
    "tensor of f64 f32 f16 bf16 i64 i32 i8 ui8 or i1",
    "::mlir::RankedTensorType">;
def Nabla_FloatTensor : RankedTensorOf<[F64, F32, F16, BF16], [],
                                       "tensor of floats">;
def Nabla_Array : AnyTypeOf<[Nabla_Tensor, Nabla_ImplicitType],
                            "tensor of f64 f32 f16 bf16 i64 i32 i8 ui8 or i1, "
                            "or implicit array">;
def Nabla_FloatArray : AnyTypeOf<[Nabla_FloatTensor, Nabla_ImplicitType],
                                 "tensor of floats or implicit array">;
def Nabla_Component
    : AnyTypeOf<[RankedTensorOf<[I8, F32, F16, BF16, F64, I32, I64]>,
                 Nabla_ImplicitType],
                "component of an implicit array">;

def Nabla_QuantizeOp : Nabla_Op<"quantize"> {
  let summary = "Encodes a dense array";
  let description = [{
    The result has the same bytes as that of `quant/` (docs/FORMAT.md). Its
    gradient is the straight-through estimator. A block with a NaN or an
    infinity decodes to undefined values.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @quantize(%x: tensor<8x64xf32>) -> !w {
      %w = nabla.quantize %x : tensor<8x64xf32> -> !w
      return %w : !w
    }
    ```
  }];
  let arguments = (ins Nabla_FloatTensor:$input);
  let results = (outs Nabla_ImplicitType:$output);
  let assemblyFormat =
      "$input attr-dict `:` type($input) `->` qualified(type($output))";
}

def Nabla_MaterializeOp
    : Nabla_ArrayOp<"materialize", "{{{\"levels\", false, true}}, 1}"> {
  let summary = "Decodes an implicit array into a dense one";
  let description = [{
    By default all levels are decoded, and the result is a tensor. `levels = N`
    decodes only the N innermost levels: for an array whose scales are packed,
    `levels = 1` returns the same codes with scales that are packed one level
    less. Decoding level by level, or all at once, gives the same bits. See
    `implicit_depth`.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @materialize(%w: !w) -> tensor<8x64xf32> {
      %x = nabla.materialize %w : !w
      return %x : tensor<8x64xf32>
    }
    !nested = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64, scale = #nabla.dynamic8<block = 256>>>
    func.func @levels(%w: !nested) -> !w {
      %x = nabla.materialize %w levels = 1 : !nested -> !w
      return %x : !w
    }
    ```
  }];
  let arguments = (ins Nabla_ImplicitType:$input,
                       OptionalAttr<I64Attr>:$levels);
  let results = (outs Nabla_FloatArray:$output);
}

def Nabla_ImplicitDepthOp : Nabla_InferOp<"implicit_depth"> {
  let summary = "Number of levels of an implicit array";
  let description = [{
    The depth is 0 for a tensor, 1 for a packed array, and one more for each
    encoding of its scales: after so many operations `materialize levels = 1`
    the result is a tensor. A lora has the depth of its base. The result is a
    constant: the array is not read.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @implicit_depth(%w: !w) -> tensor<i64> {
      %n = nabla.implicit_depth %w : !w
      return %n : tensor<i64>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input);
  let results = (outs 0DTensorOf<[I64]>:$depth);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input))";
}

def Nabla_PackOp : Nabla_Op<"pack"> {
  let summary = "Combines components to an implicit array";
  let description = [{
    The components are the results of `unpack`, in the same order; for a
    view, those of the whole storage. Codes and zero points are tensors of i8
    and rank 1. Scales are of rank 1 too, in f32, f16 or bf16, or in i8 for mx
    encodings; packed scales are an implicit array of f32.

    | encoding | components |
    |---|---|
    | all others | codes, scales, zero_points if it has them |
    | `dynamic8` | codes, scales, offset (f32, rank 0), map (256 f32) |
    | `lora` | base (implicit), a (rank x columns), b (rows x rank) |
    | `splat` | none |

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @pack(%codes: tensor<256xi8>, %scales: tensor<8xf32>) -> !w {
      %w = nabla.pack %codes, %scales : tensor<256xi8>, tensor<8xf32> -> !w
      return %w : !w
    }
    ```
  }];
  let arguments = (ins Variadic<Nabla_Component>:$components);
  let results = (outs Nabla_ImplicitType:$output);
  let assemblyFormat = "($components^ `:` type($components))? attr-dict `->` "
                       "qualified(type($output))";
}

def Nabla_UnpackOp : Nabla_ArrayOp<"unpack", "{{}, 1}"> {
  let summary = "Returns the components of an implicit array";
  let description = [{
    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @unpack(%w: !w) -> (tensor<256xi8>, tensor<8xf32>) {
      %codes, %scales = nabla.unpack %w : !w
      return %codes, %scales : tensor<256xi8>, tensor<8xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_ImplicitType:$input);
  let results = (outs Variadic<Nabla_Component>:$components);
}

def Nabla_DotGeneralOp : Nabla_InferOp<"dot_general"> {
  let summary = "Contracts dimensions of two arrays";
  let description = [{
    StableHLO's dot_general: the dimensions of the result are the batching
    dimensions, then the other dimensions of lhs that are not contracted, then
    those of rhs. Products of f16 and bf16 are summed in f32 and rounded once.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @dot_general(%x: tensor<?x64xf32>, %w: !w) -> tensor<?x8xf32> {
      %y = nabla.dot_general %x, %w contracting = [1] x [1] : tensor<?x64xf32>, !w
      return %y : tensor<?x8xf32>
    }
    func.func @batches(%a: tensor<8x4x16xf32>, %b: tensor<8x16x32xf32>) -> tensor<8x4x32xf32> {
      %y = nabla.dot_general %a, %b batching = [0] x [0] contracting = [2] x [1]
          : tensor<8x4x16xf32>, tensor<8x16x32xf32>
      return %y : tensor<8x4x32xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_FloatArray:$lhs, Nabla_FloatArray:$rhs,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$lhs_batching,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$rhs_batching,
      DenseI64ArrayAttr:$lhs_contracting, DenseI64ArrayAttr:$rhs_contracting);
  let results = (outs Nabla_FloatTensor:$result);
  let assemblyFormat = [{
    $lhs `,` $rhs (`batching` `=` $lhs_batching^ `x` $rhs_batching)?
    `contracting` `=` $lhs_contracting `x` $rhs_contracting attr-dict
    `:` qualified(type($lhs)) `,` qualified(type($rhs))
  }];
}

def Nabla_FusedDotOp : Nabla_Op<"fused_dot", [
    DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "Multiplies by a weight with a kernel; a packed one is decoded on the fly";
  let description = [{
    y[m, n] = sum over k of x[m, k] * w[n, k], followed by the steps of
    `epilogue` in order, in f32: "bias" adds its operand b[n], "add" adds its
    operand r[m, n], "relu" and "silu" have no operand. `nabla-dispatch` and
    `nabla-fuse` create this operation.

    `w` is packed, or a tensor. With a tensor, `contracting` and `batching` have
    the meaning that they have in `dot_general`: one dimension of each operand
    is contracted (by default the second), any number are batches, and one
    remains. The operand of "add" then has the shape of the result.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @fused_dot(%x: tensor<?x64xf32>, %w: !w, %b: tensor<8xf32>) -> tensor<?x8xf32> {
      %y = nabla.fused_dot %x, %w(%b) epilogue = ["bias", "relu"]
          : tensor<?x64xf32>, !w, tensor<8xf32>
      return %y : tensor<?x8xf32>
    }
    func.func @fused_dot_dense(%x: tensor<?x64xf32>, %w: tensor<64x8xf32>) -> tensor<?x8xf32> {
      %y = nabla.fused_dot %x, %w contracting = [1] x [0]
          : tensor<?x64xf32>, tensor<64x8xf32>
      return %y : tensor<?x8xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_FloatTensor:$x, Nabla_FloatArray:$w,
      Variadic<Nabla_FloatTensor>:$extra,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$lhs_batching,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$rhs_batching,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$lhs_contracting,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$rhs_contracting,
      DefaultValuedOptionalAttr<StrArrayAttr, "{}">:$epilogue);
  let results = (outs Nabla_FloatTensor:$result);
  let assemblyFormat = [{
    $x `,` $w (`(` $extra^ `)`)?
    (`batching` `=` $lhs_batching^ `x` $rhs_batching)?
    (`contracting` `=` $lhs_contracting^ `x` $rhs_contracting)?
    (`epilogue` `=` $epilogue^)? attr-dict
    `:` type($x) `,` qualified(type($w)) (`,` type($extra)^)?
  }];
  let extraClassDefinition = verifyHook # inferHook;
}

def Nabla_TransposeOp
    : Nabla_ArrayOp<"transpose", "{{{\"permutation\", true}}, 1}"> {
  let summary = "Permutes dimensions; of an implicit array: a view";
  let description = [{
    ```mlir
    func.func @transpose(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
      %y = nabla.transpose %x permutation = [2, 0, 1] : tensor<2x3x4xf32>
      return %y : tensor<4x2x3xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Nabla_Array:$result);
}

def Nabla_ReshapeOp : Nabla_Op<"reshape"> {
  let summary = "Changes the shape; the elements keep their order";
  let description = [{
    The result for an implicit array is a view, if strides can express it; with
    a tensor as the result type the array is materialized. One `?` of the result
    follows from the number of elements; for several, `sizes` has each.

    ```mlir
    func.func @reshape(%x: tensor<?x6xf32>) -> tensor<?x2x3xf32> {
      %y = nabla.reshape %x : tensor<?x6xf32> -> tensor<?x2x3xf32>
      return %y : tensor<?x2x3xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Variadic<Index>:$sizes);
  let results = (outs Nabla_Array:$result);
  let assemblyFormat = "$input (`sizes` `(` $sizes^ `)`)? attr-dict `:` "
                       "qualified(type($input)) `->` qualified(type($result))";
}

def Nabla_BroadcastInDimOp : Nabla_Op<"broadcast_in_dim"> {
  let summary = "Repeats an array along new dimensions, or those of size 1";
  let description = [{
    Dimension i of the operand becomes dimension dims[i] of the result. The
    result for an implicit array is a view. `sizes` has each `?` of the result.

    ```mlir
    func.func @broadcast_in_dim(%x: tensor<3xf32>, %like: tensor<?x3xf32>) -> tensor<?x3xf32> {
      %zero = arith.constant 0 : index
      %n = tensor.dim %like, %zero : tensor<?x3xf32>
      %y = nabla.broadcast_in_dim %x dims = [1] sizes(%n) : tensor<3xf32> -> tensor<?x3xf32>
      return %y : tensor<?x3xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, DenseI64ArrayAttr:$dims,
                       Variadic<Index>:$sizes);
  let results = (outs Nabla_Array:$result);
  let assemblyFormat = "$input `dims` `=` $dims (`sizes` `(` $sizes^ `)`)? "
      "attr-dict `:` qualified(type($input)) `->` qualified(type($result))";
}

// Where a slice begins.
def Nabla_Start : AnyTypeOf<[Index, 0DTensorOf<[I64, I32]>],
                            "index, or tensor of i64 or i32 of rank 0">;

def Nabla_SliceOp : Nabla_ArrayOp<"slice",
    "{{{\"starts\", true}, {\"limits\", true}, {\"strides\", true, true}}, 1}"> {
  let summary = "Extracts a box of an array, with optional strides";
  let description = [{
    StableHLO's slice: the elements at starts, starts + strides, ... below
    limits. By default strides are 1. A limit of -1 is the end of the dimension.
    The result for an implicit array is a view.

    ```mlir
    func.func @slice(%x: tensor<8x10xf32>) -> tensor<4x5xf32> {
      %y = nabla.slice %x starts = [2, 0] limits = [6, -1] strides = [1, 2] : tensor<8x10xf32>
      return %y : tensor<4x5xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, DenseI64ArrayAttr:$starts,
      DenseI64ArrayAttr:$limits,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$strides);
  let results = (outs Nabla_Array:$result);
}

def Nabla_DynamicSliceOp : Nabla_Op<"dynamic_slice", [AttrSizedOperandSegments]> {
  let summary = "Extracts a box of an array at offsets that are operands";
  let description = [{
    The result type has the size of the box; `sizes` has each `?` of it. A box
    that would extend beyond the array is moved inside, as in StableHLO. Of a
    packed operand only the box is decoded (`fused_gather`).

    ```mlir
    func.func @dynamic_slice(%x: tensor<8x10xf32>, %i: tensor<i64>) -> tensor<2x10xf32> {
      %y = nabla.dynamic_slice %x at(%i, %i : tensor<i64>, tensor<i64>) : tensor<8x10xf32> -> tensor<2x10xf32>
      return %y : tensor<2x10xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Variadic<Nabla_Start>:$starts,
                       Variadic<Index>:$sizes);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $input `at` `(` ($starts^ `:` type($starts))? `)` (`sizes` `(` $sizes^ `)`)?
    attr-dict `:` qualified(type($input)) `->` type($result)
  }];
}

def Nabla_DynamicUpdateSliceOp : Nabla_InferOp<"dynamic_update_slice"> {
  let summary = "Replaces a box of an array";
  let description = [{
    The second operand, the update, has the shape of the box: as many dimensions
    as the array, none of them larger, and the same element type. `at` has the
    beginning of the box, one entry for each dimension: an index, or a tensor of
    i64 or i32 of rank 0. A box that would extend beyond the array is moved
    inside, as in StableHLO. The result is a tensor; packed operands are
    materialized, which is reported. The array is updated in place if no other
    operation reads it.

    ```mlir
    func.func @dynamic_update_slice(%cache: tensor<8x10xf32>, %row: tensor<1x10xf32>, %i: tensor<i64>) -> tensor<8x10xf32> {
      %zero = nabla.constant dense<0> : tensor<i64>
      %y = nabla.dynamic_update_slice %cache, %row at(%i, %zero : tensor<i64>, tensor<i64>)
          : tensor<8x10xf32>, tensor<1x10xf32>
      return %y : tensor<8x10xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_Array:$update,
                       Variadic<Nabla_Start>:$starts);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $update `at` `(` ($starts^ `:` type($starts))? `)` attr-dict
    `:` qualified(type($input)) `,` qualified(type($update))
  }];
}

class Nabla_JoinOp<string mnemonic>
    : Nabla_ArrayOp<mnemonic, "{{{\"dim\"}}, -1}"> {
  let arguments = (ins Variadic<Nabla_Array>:$inputs, I64Attr:$dim);
  let results = (outs Nabla_Array:$result);
}
def Nabla_ConcatenateOp : Nabla_JoinOp<"concatenate"> {
  let summary = "Joins arrays along a dimension";
  let description = [{
    The result for implicit arrays of one encoding is implicit if joining their
    components gives the components of the result. This holds along the first
    dimension that has more than one element, for arrays (or slices of arrays,
    in order) that begin and, except the last, end at block boundaries; with
    `blocks = leading`, for whole rows. Otherwise the operands are materialized.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @concatenate(%a: tensor<2x3xf32>, %b: tensor<?x3xf32>, %v: !w) -> (tensor<?x3xf32>, !nabla.implicit<16x64xf32, #nabla.nf4<block = 64>>) {
      %x = nabla.concatenate %a, %b dim = 0 : tensor<2x3xf32>, tensor<?x3xf32>
      %y = nabla.concatenate %v, %v dim = 0 : !w, !w
          -> !nabla.implicit<16x64xf32, #nabla.nf4<block = 64>>
      return %x, %y : tensor<?x3xf32>, !nabla.implicit<16x64xf32, #nabla.nf4<block = 64>>
    }
    ```
  }];
}
def Nabla_StackOp : Nabla_JoinOp<"stack"> {
  let summary = "Joins arrays along a new dimension";
  let description = [{
    The result for implicit arrays of one encoding is a view of their
    concatenation, if this stays packed and `dim` is 0.

    ```mlir
    func.func @stack(%a: tensor<2x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x2x3xf32> {
      %y = nabla.stack %a, %b dim = 1 : tensor<2x3xf32>, tensor<2x3xf32>
      return %y : tensor<2x2x3xf32>
    }
    ```
  }];
}

def Nabla_SplitOp : Nabla_ArrayOp<"split",
    "{{{\"dim\"}, {\"sizes\", true}}, 1}"> {
  let summary = "Divides an array into pieces along a dimension";
  let description = [{
    `sizes` has the sizes of the pieces, whose sum is the size of the dimension.
    The results for an implicit array are views.

    ```mlir
    func.func @split(%x: tensor<8x6xf32>) -> (tensor<8x2xf32>, tensor<8x4xf32>) {
      %a, %b = nabla.split %x dim = 1 sizes = [2, 4] : tensor<8x6xf32>
      return %a, %b : tensor<8x2xf32>, tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, I64Attr:$dim,
                       DenseI64ArrayAttr:$sizes);
  let results = (outs Variadic<Nabla_Array>:$results);
}

def Nabla_PadOp : Nabla_InferOp<"pad"> {
  let summary = "Inserts a value around and between the elements of an array";
  let description = [{
    StableHLO's pad: inserts `low` values before, `high` after and `interior`
    (by default 0) between the elements of each dimension. A negative `low` or
    `high` removes elements.

    ```mlir
    func.func @pad(%x: tensor<2x3xf32>, %v: tensor<f32>) -> tensor<3x6xf32> {
      %y = nabla.pad %x, %v low = [0, 1] high = [0, 2] interior = [1, 0] : tensor<2x3xf32>, tensor<f32>
      return %y : tensor<3x6xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_Tensor:$value,
      DenseI64ArrayAttr:$low, DenseI64ArrayAttr:$high,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$interior);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $value `low` `=` $low `high` `=` $high
    (`interior` `=` $interior^)? attr-dict
    `:` qualified(type($input)) `,` type($value)
  }];
}

def Nabla_FlipOp : Nabla_InferOp<"flip"> {
  let summary = "Reverses dimensions";
  let description = [{
    An implicit array is materialized: strides of views cannot be negative.

    ```mlir
    func.func @flip(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
      %y = nabla.flip %x dims = [1] : tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, DenseI64ArrayAttr:$dims);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$input `dims` `=` $dims attr-dict `:` "
                       "qualified(type($input))";
}

def Nabla_IndexTensor : RankedTensorOf<[I64, I32], [], "tensor of i64 or i32">;

// The dimension numbers of StableHLO's gather.
class Nabla_GatherBase<string mnemonic, Type operand>
    : Nabla_InferOp<mnemonic> {
  let arguments = (ins operand:$input, Nabla_IndexTensor:$indices,
      DenseI64ArrayAttr:$offset_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$collapsed_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$input_batching,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$indices_batching,
      DenseI64ArrayAttr:$index_map, I64Attr:$vector_dim,
      DenseI64ArrayAttr:$sizes);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $input `,` $indices `offset_dims` `=` $offset_dims
    (`collapsed_dims` `=` $collapsed_dims^)?
    (`batching` `=` $input_batching^ `x` $indices_batching)?
    `index_map` `=` $index_map `vector_dim` `=` $vector_dim `sizes` `=` $sizes
    attr-dict `:` qualified(type($input)) `,` type($indices)
  }];
}
def Nabla_GatherOp : Nabla_GatherBase<"gather", Nabla_Array> {
  let summary = "Extracts boxes of an array at offsets from an index array";
  let description = [{
    StableHLO's gather. The indices contain index vectors along the dimension
    `vector_dim`; if this is the rank of the indices, each index is a vector of
    one number. Number i of a vector is an index in dimension index_map[i] of
    the array. At this place begins a box of `sizes` (-1: the whole dimension);
    a box that would extend beyond the array is moved inside. The dimensions of
    the box become the offset_dims of the result, except those in collapsed_dims
    and in `batching`, which have size 1. The other dimensions of the result are
    those of the indices. `batching` pairs dimensions of array and indices, which
    may be of size 0: the result is empty then.
    Rows of a table: `offset_dims = [1] collapsed_dims = [0] index_map = [0]
    vector_dim = 1 sizes = [1, 64]`. Of a packed operand only the boxes are
    decoded (`fused_gather`).

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @gather(%w: !w, %rows: tensor<?x1xi64>) -> tensor<?x64xf32> {
      %y = nabla.gather %w, %rows offset_dims = [1] collapsed_dims = [0] index_map = [0]
          vector_dim = 1 sizes = [1, 64] : !w, tensor<?x1xi64>
      return %y : tensor<?x64xf32>
    }
    ```
  }];
}
def Nabla_FusedGatherOp
    : Nabla_GatherBase<"fused_gather", Nabla_ImplicitType> {
  let summary = "Decodes boxes of a packed array, without the other elements";
  let description = [{
    Attributes and result are those of `gather`. `nabla-dispatch` creates this
    operation.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @fused_gather(%w: !w, %rows: tensor<?x1xi64>) -> tensor<?x64xf32> {
      %y = nabla.fused_gather %w, %rows offset_dims = [1] collapsed_dims = [0] index_map = [0]
          vector_dim = 1 sizes = [1, 64] : !w, tensor<?x1xi64>
      return %y : tensor<?x64xf32>
    }
    ```
  }];
}

def Nabla_ScatterOp : Nabla_InferOp<"scatter"> {
  let summary = "Replaces or updates boxes of an array";
  let description = [{
    StableHLO's scatter; the dimension numbers are those of a `gather` that
    would take the updates (offset_dims are update_window_dims, collapsed_dims
    inserted_window_dims). Updates outside of the array are ignored. Updates
    are applied one after the other in row-major order, each rounded to the
    element type; `min` and `max` of a NaN are NaN.

    ```mlir
    func.func @scatter(%x: tensor<8x4xf32>, %rows: tensor<2x1xi64>, %u: tensor<2x4xf32>) -> tensor<8x4xf32> {
      %y = nabla.scatter add %x, %rows, %u offset_dims = [1] collapsed_dims = [0] index_map = [0]
          vector_dim = 1 : tensor<8x4xf32>, tensor<2x1xi64>, tensor<2x4xf32>
      return %y : tensor<8x4xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_IndexTensor:$indices,
      Nabla_Array:$updates, Nabla_ScatterKind:$kind,
      DenseI64ArrayAttr:$offset_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$collapsed_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$input_batching,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$indices_batching,
      DenseI64ArrayAttr:$index_map, I64Attr:$vector_dim);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $kind $input `,` $indices `,` $updates `offset_dims` `=` $offset_dims
    (`collapsed_dims` `=` $collapsed_dims^)?
    (`batching` `=` $input_batching^ `x` $indices_batching)?
    `index_map` `=` $index_map `vector_dim` `=` $vector_dim
    attr-dict `:` qualified(type($input)) `,` type($indices) `,`
    qualified(type($updates))
  }];
}

def Nabla_ConvGeneralOp : Nabla_InferOp<"conv_general"> {
  let summary = "Convolves an array with a kernel";
  let description = [{
    StableHLO's convolution with one batch group and without reversal (`flip`
    reverses a kernel). `input_dims` and `output_dims` list the dimension of the
    batch, that of the features, and the spatial dimensions; `kernel_dims` lists
    those of the output features and of the input features, and the spatial
    ones. The default is 0, 1, 2, ... Each spatial dimension has an entry in
    `strides`, `input_dilation` and `kernel_dilation` (by default 1) and in the
    padding `low` and `high` (by default 0; may be negative). `groups` divides
    the features into as many parts, each with kernels of its own. Products of
    f16 and bf16 are summed in f32 and rounded once.

    ```mlir
    func.func @conv_general(%x: tensor<1x3x8x8xf32>, %k: tensor<4x3x3x3xf32>) -> tensor<1x4x4x4xf32> {
      %y = nabla.conv_general %x, %k strides = [2, 2] low = [1, 1] high = [1, 1]
          : tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>
      return %y : tensor<1x4x4x4xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_FloatArray:$input, Nabla_FloatArray:$kernel,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$strides,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$low,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$high,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$input_dilation,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$kernel_dilation,
      DefaultValuedOptionalAttr<I64Attr, "1">:$groups,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$input_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$kernel_dims,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$output_dims);
  let results = (outs Nabla_FloatTensor:$result);
  let assemblyFormat = [{
    $input `,` $kernel (`strides` `=` $strides^)? (`low` `=` $low^)?
    (`high` `=` $high^)? (`input_dilation` `=` $input_dilation^)?
    (`kernel_dilation` `=` $kernel_dilation^)? (`groups` `=` $groups^)?
    (`input_dims` `=` $input_dims^)? (`kernel_dims` `=` $kernel_dims^)?
    (`output_dims` `=` $output_dims^)? attr-dict
    `:` qualified(type($input)) `,` qualified(type($kernel))
  }];
}

def Nabla_PoolOp : Nabla_InferOp<"pool"> {
  let summary = "Reduces the windows of an array";
  let description = [{
    StableHLO's reduce_window. Each dimension has an entry in `window`, its
    size, in `strides` and `dilation` (by default 1), and in the padding `low`
    and `high` (by default 0; may be negative). Padding does not contribute to
    the result. `avg`, of floats only, divides by the number of elements of the
    array in the window (NaN if there are none), or with `count_padding` by the
    size of the window. `max` and `min` of a NaN are NaN. f16 and bf16 are
    summed in f32 and rounded once.

    ```mlir
    func.func @pool(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32> {
      %y = nabla.pool avg %x window = [1, 1, 2, 2] strides = [1, 1, 2, 2] : tensor<1x3x8x8xf32>
      return %y : tensor<1x3x4x4xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_PoolKind:$kind,
      DenseI64ArrayAttr:$window,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$strides,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$dilation,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$low,
      DefaultValuedOptionalAttr<DenseI64ArrayAttr, "{}">:$high,
      UnitAttr:$count_padding);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = [{
    $kind $input `window` `=` $window (`strides` `=` $strides^)?
    (`dilation` `=` $dilation^)? (`low` `=` $low^)? (`high` `=` $high^)?
    (`count_padding` $count_padding^)? attr-dict `:` qualified(type($input))
  }];
}

class Nabla_UnaryOp<string mnemonic> : Nabla_InferOp<mnemonic> {
  let description = Nabla_Example<mnemonic, "%x: tensor<4xf32>",
      "%x : tensor<4xf32>", "tensor<4xf32>">.text;
  let arguments = (ins Nabla_FloatArray:$input);
  let results = (outs Nabla_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` qualified(type($input))";
}
def Nabla_ReluOp : Nabla_UnaryOp<"relu"> {
  let summary = "max(x, 0); NaN stays NaN";
}
def Nabla_SiluOp : Nabla_UnaryOp<"silu"> {
  let summary = "x / (1 + exp(-x))";
}

class Nabla_BinaryOp<string mnemonic> : Nabla_InferOp<mnemonic, [Commutative]> {
  let arguments = (ins Nabla_Array:$lhs, Nabla_Array:$rhs);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` qualified(type($lhs)) `,` "
                       "qualified(type($rhs))";
}
def Nabla_AddOp : Nabla_BinaryOp<"add"> {
  let summary = "Adds element by element; integers wrap";
  let description = [{
    ```mlir
    func.func @add(%x: tensor<?xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
      %z = nabla.add %x, %y : tensor<?xf32>, tensor<4xf32>
      return %z : tensor<4xf32>
    }
    ```
  }];
}
def Nabla_MulOp
    : Nabla_ArrayOp<"mul", "{{}, 2}", [Commutative]> {
  let summary = "Multiplies element by element; integers wrap";
  let description = [{
    The product of a packed array and a `#nabla.splat` is packed, with
    multiplied scales, in two cases: scales and elements are f32; or neither is
    f16, and the factor is a power of two. With a power of two the dense values
    are the same, bit for bit, as long as the product of each scale is in the
    range of its type. With other factors an element is value * (scale *
    factor), not (value * scale) * factor.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    !half = !nabla.implicit<8x64xf32, #nabla.splat<0.5 : f32>>
    func.func @mul(%x: tensor<4xf32>, %w: !w) -> (tensor<4xf32>, !w) {
      %y = nabla.mul %x, %x : tensor<4xf32>, tensor<4xf32>
      %half = nabla.pack -> !half
      %v = nabla.mul %w, %half : !w, !half -> !w
      return %y, %v : tensor<4xf32>, !w
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$lhs, Nabla_Array:$rhs);
  let results = (outs Nabla_Array:$result);
}

def Nabla_ReduceOp : Nabla_InferOp<"reduce"> {
  let summary = "Reduces dimensions: sum, mean, product, maximum and others";
  let description = [{
    Over no elements `sum` is 0, `prod` 1, `max` the lowest value of the type
    (-inf), `min` the highest, `mean` NaN, `any` false and `all` true. `max` and
    `min` of a NaN are NaN. f16 and bf16 are summed, or multiplied, in f32 and
    rounded once; integers wrap. `mean` is of floats, `any` and `all` are of i1.

    ```mlir
    func.func @reduce(%x: tensor<2x3xf32>) -> tensor<2x1xf32> {
      %y = nabla.reduce max %x dims = [1] keep_dims : tensor<2x3xf32>
      return %y : tensor<2x1xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_Array:$input, Nabla_ReduceKind:$kind,
                       DenseI64ArrayAttr:$dims, UnitAttr:$keep_dims);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$kind $input `dims` `=` $dims (`keep_dims` "
      "$keep_dims^)? attr-dict `:` qualified(type($input))";
}

def Nabla_ConstantOp : Nabla_InferOp<"constant"> {
  let summary = "A dense constant";
  let description = [{
    ```mlir
    func.func @constant() -> tensor<2xf32> {
      %y = nabla.constant dense<[1.0, 2.0]> : tensor<2xf32>
      return %y : tensor<2xf32>
    }
    ```
  }];
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Nabla_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
}

include "NablaControl.td"
include "NablaMath.td"
include "NablaComposite.td"
include "NablaCall.td"
include "NablaShard.td"

#endif
