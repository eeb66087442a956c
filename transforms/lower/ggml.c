/* Decoding single elements of the blocks of GGUF files in a lowering, by their
 * layout (quant/codec/ggml.h), bit for bit as nabla_ggml_decode. */
#include "quant/codec/ggml.h"

#include "lib/kernels/builder/k.h"
#include "transforms/lower/decode.h"

typedef nabla_decoding_level level;

/* Where an element is: the first byte of its block, and its number in it. */
typedef struct place {
  nabla_template *t;
  const nabla_ggml_layout *l;
  nabla_ssa_tensor blocks;
  nabla_ssa base, element; /* i64 */
} place;

static nabla_ssa binary(const place *p, const char *operation, nabla_ssa a,
                        nabla_ssa b) {
  return k_op(&p->t->emit, "arith.%s %%v%u, %%v%u : i64", operation, a, b);
}

static nabla_ssa with(const place *p, const char *operation, nabla_ssa a,
                      uint64_t b) {
  return binary(p, operation, a, k_i64(&p->t->emit, b));
}

/* The byte `at` (i64) of the block, as i64. */
static nabla_ssa byte_at(const place *p, nabla_ssa at, const char *extend) {
  nabla_emitter *e = &p->t->emit;
  nabla_ssa index =
      k_op(e, "arith.index_cast %%v%u : i64 to index", k_add(e, p->base, at));
  nabla_ssa byte = k_op(e, "tensor.extract %%v%u[%%v%u] : %s", p->blocks.value,
                        index, nabla_ssa_tensor_type(&p->blocks).data);
  return k_op(e, "arith.%s %%v%u : i8 to i64", extend, byte);
}

static nabla_ssa as_f32(const place *p, nabla_ssa number) {
  return k_op(&p->t->emit, "arith.sitofp %%v%u : i64 to f32", number);
}

static nabla_ssa f32_of(const place *p, const char *operation, nabla_ssa a,
                        nabla_ssa b) {
  return k_op(&p->t->emit, "arith.%s %%v%u, %%v%u : f32", operation, a, b);
}

/* The f16 at a byte of the block. */
static nabla_ssa half_at(const place *p, uint32_t at) {
  nabla_emitter *e = &p->t->emit;
  nabla_ssa low = byte_at(p, k_i64(e, at), "extui");
  nabla_ssa high = byte_at(p, k_i64(e, at + 1), "extui");
  nabla_ssa bits = binary(p, "ori", low, with(p, "shli", high, 8));
  bits = k_op(e, "arith.trunci %%v%u : i64 to i16", bits);
  bits = k_op(e, "arith.bitcast %%v%u : i16 to f16", bits);
  return nabla_element_load(p->t, nabla_element_named("f16"), bits);
}

/* 2^(e - 128): for 0 and 1 a subnormal. */
static nabla_ssa e8m0_at(const place *p, uint32_t at) {
  nabla_emitter *e = &p->t->emit;
  nabla_ssa byte = byte_at(p, k_i64(e, at), "extui");
  nabla_ssa small = binary(p, "shli", k_i64(e, nabla_ggml_e8m0_bits(0)), byte);
  nabla_ssa large = with(p, "shli", with(p, "subi", byte, 1), 23);
  nabla_ssa is_small =
      k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", byte, k_i64(e, 2));
  nabla_ssa bits =
      k_op(e, "arith.select %%v%u, %%v%u, %%v%u : i64", is_small, small, large);
  bits = k_op(e, "arith.trunci %%v%u : i64 to i32", bits);
  return k_op(e, "arith.bitcast %%v%u : i32 to f32", bits);
}

/* The upper bits of the code, where they belong. */
static nabla_ssa high_bits(const place *p) {
  const nabla_ggml_layout *l = p->l;
  nabla_emitter *e = &p->t->emit;
  nabla_ssa run = k_divide(e, p->element, l->part);
  nabla_ssa at = with(p, "remui", p->element, l->part);
  nabla_ssa group = k_divide(e, run, 8 / l->bits);
  at = k_add(e, at, k_multiply(e, group, l->part));
  nabla_ssa byte = byte_at(p, k_add_constant(e, at, l->high), "extui");
  nabla_ssa shift = k_multiply(e, with(p, "remui", run, 8 / l->bits), l->bits);
  nabla_ssa bits = with(p, "andi", binary(p, "shrui", byte, shift),
                        ((uint64_t)1 << l->bits) - 1);
  return with(p, "shli", bits, 4);
}

/* What the code stands for, f32, before the factor. */
static nabla_ssa code_value(const place *p, const nabla_ssa_tensor *table) {
  const nabla_ggml_layout *l = p->l;
  nabla_emitter *e = &p->t->emit;
  if (!l->run)
    return as_f32(p,
                  byte_at(p, k_add_constant(e, p->element, l->codes), "extsi"));
  nabla_ssa run = k_divide(e, p->element, l->run);
  nabla_ssa at = k_multiply(e, k_divide(e, run, 2), l->run);
  at = k_add(e, at, with(p, "remui", p->element, l->run));
  nabla_ssa byte = byte_at(p, k_add_constant(e, at, l->codes), "extui");
  nabla_ssa shift = k_multiply(e, with(p, "remui", run, 2), 4);
  nabla_ssa code = with(p, "andi", binary(p, "shrui", byte, shift), 15);
  if (l->bits) code = binary(p, "ori", code, high_bits(p));
  if (!l->table) return as_f32(p, with(p, "subi", code, (uint64_t)l->bias));
  code = k_op(e, "arith.index_cast %%v%u : i64 to index", code);
  return k_op(e, "tensor.extract %%v%u[%%v%u] : %s", table->value, code,
              nabla_ssa_tensor_type(table).data);
}

/* Replaces the factor and the minimum of the block by those of a part of 32
 * elements (quant/codec/ggml_decode.c, packed6). */
static void packed6(const place *p, nabla_ssa *factor, nabla_ssa *min) {
  nabla_emitter *e = &p->t->emit;
  nabla_ssa part = k_divide(e, p->element, NABLA_GGML_PACKED6_PART);
  nabla_ssa low = k_add_constant(e, with(p, "andi", part, 3), p->l->sub_at);
  nabla_ssa f = byte_at(p, low, "extui");
  nabla_ssa m = byte_at(p, k_add_constant(e, low, 4), "extui");
  nabla_ssa both =
      byte_at(p, k_add_constant(e, part, p->l->sub_at + 4), "extui");
  nabla_ssa is_low =
      k_op(e, "arith.cmpi ult, %%v%u, %%v%u : i64", part, k_i64(e, 4));
  nabla_ssa values[2] = {f, m}, *out[2] = {factor, min};
  for (int i = 0; i < 2; i++) {
    nabla_ssa plain = with(p, "andi", values[i], 63);
    nabla_ssa upper = with(p, "shli", with(p, "shrui", values[i], 6), 4);
    nabla_ssa lower = i ? with(p, "shrui", both, 4) : with(p, "andi", both, 15);
    nabla_ssa chosen = k_op(e, "arith.select %%v%u, %%v%u, %%v%u : i64", is_low,
                            plain, binary(p, "ori", lower, upper));
    *out[i] = f32_of(p, "mulf", *out[i], as_f32(p, chosen));
  }
}

void nabla_ggml_begin(nabla_template *t, nabla_decoding_level *d) {
  const nabla_ggml_layout *l = d->ggml->layout;
  int64_t count = NABLA_GGML_TABLE_VALUES;
  if (!l->table) return;
  d->table = nabla_ssa_tensor_static("f32", 1, &count);
  d->table.value = ++t->emit.last;
  nabla_text_add(&t->text, "  %%v%u = arith.constant dense<[", d->table.value);
  for (int i = 0; i < count; i++)
    nabla_text_add(&t->text, "%s%d.0", i ? ", " : "", l->table[i]);
  nabla_text_add(&t->text, "]> : %s\n", nabla_ssa_tensor_type(&d->table).data);
}

nabla_ssa nabla_ggml_value(nabla_template *t, const nabla_decoding_level *d,
                           nabla_ssa at) {
  const nabla_ggml_layout *l = d->ggml->layout;
  nabla_emitter *e = &t->emit;
  nabla_ssa block = k_divide(e, at, d->ggml->elements);
  place p = {.t = t, .l = l, .blocks = d->codes};
  p.element = with(&p, "remui", at, d->ggml->elements);
  p.base = k_multiply(e, block, d->ggml->bytes);
  nabla_ssa factor = l->is_e8m0 ? e8m0_at(&p, l->d) : half_at(&p, l->d);
  nabla_ssa min = l->min < 0 ? 0 : half_at(&p, (uint32_t)l->min);
  if (l->sub == NABLA_GGML_SUB_PACKED6) packed6(&p, &factor, &min);
  if (l->sub == NABLA_GGML_SUB_BYTES) {
    nabla_ssa part = k_divide(e, p.element, NABLA_GGML_BYTES_PART);
    part = k_add_constant(e, part, l->sub_at);
    factor = f32_of(&p, "mulf", factor, as_f32(&p, byte_at(&p, part, "extsi")));
  }
  nabla_ssa value = f32_of(&p, "mulf", factor, code_value(&p, &d->table));
  if (!min) return value;
  return f32_of(&p, l->sub == NABLA_GGML_SUB_PACKED6 ? "subf" : "addf", value,
                min);
}
