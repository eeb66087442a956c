// Composites: operations of models that can be decomposed into other operations
// (transforms/composite/decompositions.def). Included by Nabla.td, which has the
// base classes.
#ifndef NABLA_DIALECT_COMPOSITE_TD
#define NABLA_DIALECT_COMPOSITE_TD

class Nabla_CompositeOp<string mnemonic, string text, list<Trait> traits = []>
    : Nabla_InferOp<mnemonic, traits> {
  let summary = text;
  let results = (outs Nabla_FloatTensor:$result);
}

def Nabla_LinearOp : Nabla_CompositeOp<"linear",
    "A layer: x w^T, plus a bias"> {
  let description = [{
    `x` has rows of K elements in its last dimension, `w` is N x K, the bias has
    N elements; the result has rows of N. A packed `w` becomes `fused_dot`, with
    the bias in its epilogue. Products of f16 and bf16 are summed in f32 and
    rounded once; if no kernel supports a packed `w`, also before the bias is
    added.

    ```mlir
    !w = !nabla.implicit<8x64xf32, #nabla.nf4<block = 64>>
    func.func @linear(%x: tensor<?x64xf32>, %w: !w, %b: tensor<8xf32>) -> tensor<?x8xf32> {
      %y = nabla.linear %x, %w, %b : tensor<?x64xf32>, !w, tensor<8xf32>
      return %y : tensor<?x8xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_FloatArray:$x, Nabla_FloatArray:$w,
                       Optional<Nabla_FloatArray>:$bias);
  let assemblyFormat = [{
    $x `,` $w (`,` $bias^)? attr-dict `:` qualified(type($x)) `,`
    qualified(type($w)) (`,` qualified(type($bias))^)?
  }];
}

def Nabla_RmsNormOp : Nabla_CompositeOp<"rms_norm",
    "x divided by the root of the mean of its squares, times a weight"> {
  let description = [{
    x / sqrt(mean(x^2) + eps) along the last dimension, multiplied by the weight,
    which has a value for each index of this dimension, if there is one. f16 and
    bf16 are computed in f32 and rounded once.

    ```mlir
    func.func @rms_norm(%x: tensor<2x?xf32>, %w: tensor<64xf32>) -> tensor<2x64xf32> {
      %y = nabla.rms_norm %x, %w eps = 1.0e-5 : tensor<2x?xf32>, tensor<64xf32>
      return %y : tensor<2x64xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_FloatArray:$input,
                       Optional<Nabla_FloatArray>:$weight, F64Attr:$eps);
  let assemblyFormat = [{
    $input (`,` $weight^)? `eps` `=` $eps attr-dict `:` qualified(type($input))
    (`,` qualified(type($weight))^)?
  }];
}

def Nabla_LayerNormOp : Nabla_CompositeOp<"layer_norm",
    "(x - mean) / standard deviation, times a weight, plus a bias"> {
  let description = [{
    (x - mean(x)) / sqrt(mean((x - mean(x))^2) + eps) along the last dimension,
    times the weight and plus the bias, which have a value for each index of this
    dimension. `parameters` are none, the weight, or both. f16 and bf16 are
    computed in f32 and rounded once.

    ```mlir
    func.func @layer_norm(%x: tensor<?x64xf32>, %w: tensor<64xf32>, %b: tensor<64xf32>) -> tensor<?x64xf32> {
      %y = nabla.layer_norm %x, %w, %b eps = 1.0e-5 : tensor<?x64xf32>, tensor<64xf32>, tensor<64xf32>
      return %y : tensor<?x64xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_FloatArray:$input,
                       Variadic<Nabla_FloatArray>:$parameters, F64Attr:$eps);
  let assemblyFormat = [{
    $input (`,` $parameters^)? `eps` `=` $eps attr-dict
    `:` qualified(type($input)) (`,` qualified(type($parameters))^)?
  }];
}

def Nabla_RopePairs : I32EnumAttr<"RopePairs", "pairs of elements that rope rotates", [
  I32EnumAttrCase<"interleaved", 0>, I32EnumAttrCase<"halves", 1>]> {
  let cppNamespace = "::nabla";
}
def Nabla_RopeOp : Nabla_CompositeOp<"rope",
    "Rotates pairs of elements by angles that grow with the position"> {
  let description = [{
    Rotary position embedding. The last dimension has D elements, in D / 2
    pairs: `interleaved` pairs elements 2i and 2i + 1 (llama2.c, GGUF), `halves`
    i and i + D / 2 (Hugging Face). At position p pair i is rotated by
    p theta^(-2i / D). Each index of `dim` has a position: an element of the
    operand `positions`, or without it `offset`, `offset` + 1, ... Angles are
    computed in f64; f16 and bf16 are rotated in f32 and rounded once.

    ```mlir
    func.func @rope(%x: tensor<?x4x16xf32>, %p: tensor<?xi64>) -> tensor<?x4x16xf32> {
      %y = nabla.rope halves %x, %p dim = 0 theta = 500000.0 : tensor<?x4x16xf32>, tensor<?xi64>
      return %y : tensor<?x4x16xf32>
    }
    ```
  }];
  let arguments = (ins Nabla_FloatArray:$input,
      Optional<Nabla_IndexTensor>:$positions, I64Attr:$dim,
      DefaultValuedAttr<Nabla_RopePairs, "::nabla::RopePairs::interleaved">:$pairs,
      DefaultValuedOptionalAttr<F64Attr, "10000.0">:$theta,
      DefaultValuedOptionalAttr<I64Attr, "0">:$offset);
  let assemblyFormat = [{
    $pairs $input (`,` $positions^)? `dim` `=` $dim (`theta` `=` $theta^)?
    (`offset` `=` $offset^)? attr-dict `:` qualified(type($input))
    (`,` type($positions)^)?
  }];
}

def Nabla_KeyCount : 0DTensorOf<[I64, I32]>;

// The base class of attention and fused_attention.
class Nabla_AttentionLikeOp<string mnemonic, string text>
    : Nabla_CompositeOp<mnemonic, text, [AttrSizedOperandSegments]> {
  let arguments = (ins Nabla_FloatArray:$q, Nabla_FloatArray:$k,
      Nabla_FloatArray:$v, Optional<Nabla_Array>:$mask,
      Optional<Nabla_KeyCount>:$keys,
      OptionalAttr<F64Attr>:$scale, UnitAttr:$causal);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`mask` `(` $mask^ `:` qualified(type($mask)) `)`)?
    (`keys` `(` $keys^ `:` type($keys) `)`)?
    (`scale` `=` $scale^)? (`causal` $causal^)? attr-dict
    `:` qualified(type($q)) `,` qualified(type($k)) `,` qualified(type($v))
  }];
}

def Nabla_AttentionOp : Nabla_AttentionLikeOp<"attention",
    "softmax(q k^T scale + mask) v"> {
  let description = [{
    The last two dimensions are T x D in `q`, S x D in `k`, S x E in `v` and
    T x E in the result. The dimension before them is the number of heads; the
    dimensions before the heads are equal in all three operands. `q` may have H
    heads, a multiple of the H' heads of `k` and `v`: its first H / H' heads use
    the first head of `k` and `v`, and so on (grouped queries). The element type
    of `k` and `v` is that of `q` or one that is not wider, such as bf16 for the
    cache of an f32 program.

    The default of `scale` is 1 / sqrt(D). The mask is T x S, and may have heads
    and further dimensions before these. Its elements are i1, true where a query
    sees a key, or floats, which are added. `keys` is the number n of keys that
    count, clamped to [0, S]; by default n is S. Later keys are not read: the
    time of a decoder's step depends on the keys in its cache, not on the size
    of the cache.

    With `causal`, query i sees key j only if j - n <= i - T: the last query
    sees all keys that count. The result for a query that sees no key is NaN; if
    S is 0, all results are 0. The `v` of a key that counts must be finite, even
    if a query does not see the key: it may be multiplied by 0. f16 and bf16 are
    computed in f32, scores and softmax too, and rounded once.

    ```mlir
    func.func @attention(%q: tensor<8x3x16xf32>, %k: tensor<2x?x16xf32>, %v: tensor<2x?x16xf32>) -> tensor<8x3x16xf32> {
      %y = nabla.attention %q, %k, %v causal
          : tensor<8x3x16xf32>, tensor<2x?x16xf32>, tensor<2x?x16xf32>
      return %y : tensor<8x3x16xf32>
    }
    func.func @attention_step(%q: tensor<8x1x16xf32>, %k: tensor<2x512x16xbf16>, %v: tensor<2x512x16xbf16>, %n: tensor<i64>) -> tensor<8x1x16xf32> {
      %y = nabla.attention %q, %k, %v keys(%n : tensor<i64>)
          : tensor<8x1x16xf32>, tensor<2x512x16xbf16>, tensor<2x512x16xbf16>
      return %y : tensor<8x1x16xf32>
    }
    ```
  }];
}

def Nabla_FusedAttentionOp : Nabla_AttentionLikeOp<"fused_attention",
    "Attention by a kernel, which stores scores of only one block of keys"> {
  let description = [{
    `nabla.attention` with q, k and v in f32, f16 or bf16 and heads of at most
    256 elements. `nabla-dispatch` creates this operation.

    ```mlir
    func.func @fused_attention(%q: tensor<8x3x16xf32>, %k: tensor<2x?x16xf32>, %v: tensor<2x?x16xf32>) -> tensor<8x3x16xf32> {
      %y = nabla.fused_attention %q, %k, %v causal
          : tensor<8x3x16xf32>, tensor<2x?x16xf32>, tensor<2x?x16xf32>
      return %y : tensor<8x3x16xf32>
    }
    ```
  }];
}

#endif
