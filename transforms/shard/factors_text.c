/* Text of factors; see factors.h. */
#include <inttypes.h>
#include <mlir-c/BuiltinAttributes.h>
#include <stdio.h>
#include <string.h>

#include "dialect/dialect.h"
#include "transforms/shard/partitioners.h"
#include "transforms/shard/rules.h"

/* ---- printing ---- */

static const char *const joins[] = {"sum",  "max", "prod", "min",
                                    "mean", "any", "all"};
#define JOINS (int)(sizeof joins / sizeof *joins)

static const char *kind_of(const nabla_factor *factor) {
  if (factor->kind == NABLA_FACTOR_MOVED) return "moved";
  if (factor->kind == NABLA_FACTOR_WHOLE) return "whole";
  return factor->join < 0 || factor->join >= JOINS ? "first"
                                                   : joins[factor->join];
}

static void print_dim(const nabla_factor_dim *dim, nabla_text *out) {
  if (!dim->count) nabla_text_add(out, "1");
  if (dim->count > 1) nabla_text_add(out, "(");
  for (uint8_t i = 0; i < dim->count; i++)
    nabla_text_add(out, "%s%c", i ? " " : "", 'a' + dim->at[i]);
  if (dim->count > 1) nabla_text_add(out, ")");
}

void nabla_factors_print(const nabla_factors *factors, nabla_text *out) {
  bool arrow = false, comma = false;
  for (uint32_t a = 0; a < factors->array_count; a++) {
    const nabla_factor_array *array = &factors->arrays[a];
    if (array->is_result && !arrow) {
      nabla_text_add(out, "%s->", a ? " " : "");
      arrow = true;
      comma = false;
    }
    nabla_text_add(out, "%s", comma ? "," : "");
    for (intptr_t d = 0; d < array->rank; d++) {
      nabla_text_add(out, "%s", d || a || arrow ? " " : "");
      print_dim(&array->dims[d], out);
    }
    if (!array->rank) nabla_text_add(out, "%s()", a || arrow ? " " : "");
    comma = true;
  }
  comma = false;
  for (uint32_t i = 0; i < factors->count; i++) {
    const nabla_factor *factor = &factors->all[i];
    if (factor->kind == NABLA_FACTOR_PASS) continue;
    nabla_text_add(out, "%s%c: %s", comma ? ", " : " {", 'a' + i,
                   kind_of(factor));
    comma = true;
  }
  if (comma) nabla_text_add(out, "}");
}

/* ---- reading ---- */

#define MAX_NAME 16

typedef struct reading {
  const char *at, *end;
  nabla_factors *out;
  char names[NABLA_MAX_FACTORS][MAX_NAME];
  char *message;
} reading;

#define REFUSE(r, ...) \
  return snprintf((r)->message, NABLA_MESSAGE_SIZE, __VA_ARGS__), false

static bool take(reading *r, const char *text) {
  const size_t size = strlen(text);
  while (r->at < r->end && *r->at == ' ') r->at++;
  if ((size_t)(r->end - r->at) < size || memcmp(r->at, text, size) != 0)
    return false;
  r->at += size;
  return true;
}

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* A name; false where there is none. */
static bool take_name(reading *r, char out[MAX_NAME]) {
  size_t size = 0;
  (void)take(r, "");
  while (r->at + size < r->end &&
         (is_letter(r->at[size]) ||
          (size && r->at[size] >= '0' && r->at[size] <= '9')))
    size++;
  if (!size || size >= MAX_NAME) return false;
  memcpy(out, r->at, size);
  out[size] = 0;
  r->at += size;
  return true;
}

#define UNKNOWN (-1) /* the size of a factor that is not known yet */

/* The factor of a name, which may be a new one of size `size`. */
static bool find(reading *r, const char *name, bool may_add, int64_t size,
                 uint8_t *out) {
  for (uint32_t i = 0; i < r->out->count; i++) {
    if (strcmp(r->names[i], name) != 0) continue;
    *out = (uint8_t)i;
    return true;
  }
  if (!may_add) REFUSE(r, "factor '%s' is of no array", name);
  const uint8_t factor = nabla_factor_add(r->out, NABLA_FACTOR_PASS, size);
  if (factor == NABLA_MAX_FACTORS)
    REFUSE(r, "more than %d factors", NABLA_MAX_FACTORS - 1);
  memcpy(r->names[factor], name, MAX_NAME);
  /* the operation sees the elements of padding: pieces have one size */
  r->out->all[factor].is_even = true;
  *out = factor;
  return true;
}

/* A dimension that is one factor. */
static bool give_one(reading *r, nabla_factor_array *a, intptr_t dim,
                     const char *name) {
  uint8_t factor;
  const int64_t size = nabla_factor_size_of(a, dim);
  if (!find(r, name, true, size, &factor)) return false;
  int64_t *known = &r->out->all[factor].size;
  if (*known == UNKNOWN) *known = size;
  if (*known != size && !nabla_is_dynamic(size) && !nabla_is_dynamic(*known))
    REFUSE(r, "factor '%s' has the sizes %" PRId64 " and %" PRId64, name,
           *known, size);
  nabla_factor_give(a, dim, factor);
  return true;
}

/* "m", "1" or "(h g)"; all factors of one dimension but one are known from
 * other dimensions. */
static bool read_dim(reading *r, nabla_factor_array *a, intptr_t dim) {
  char name[MAX_NAME];
  uint8_t factor;
  if (take(r, "1")) {
    if (nabla_factor_size_of(a, dim) == 1) return true;
    REFUSE(r, "dimension %td is written 1, and has another size", dim);
  }
  if (take_name(r, name)) return give_one(r, a, dim, name);
  if (!take(r, "("))
    REFUSE(r, "expected a dimension, found '%.*s'", (int)(r->end - r->at),
           r->at);
  for (int count = 0; !take(r, ")"); count++) {
    if (count == NABLA_FACTORS_OF_DIM || !take_name(r, name))
      REFUSE(r, "expected at most %d names and ')'", NABLA_FACTORS_OF_DIM);
    if (!find(r, name, true, UNKNOWN, &factor)) return false;
    nabla_factor_give(a, dim, factor);
  }
  return true;
}

/* The number of dimensions up to the end of the array. */
static intptr_t count_dims(const reading *r) {
  intptr_t named = 0;
  int depth = 0;
  for (const char *at = r->at;
       at < r->end && *at != ',' && *at != '{' && *at != '-'; at++) {
    const bool begins = *at != ' ' && (at == r->at || at[-1] == ' ' ||
                                       at[-1] == ')' || *at == '(');
    named += begins && !depth;
    depth += (*at == '(') - (*at == ')');
  }
  return named;
}

/* "..., m k": all dimensions of an array. `leading` is the number of those that
 * "..." is, -1 before it was seen. */
static bool read_array(reading *r, nabla_factor_array *a, intptr_t *leading) {
  char name[MAX_NAME];
  intptr_t dim = 0;
  if (take(r, "()")) return a->rank == 0;
  if (take(r, "...")) {
    (void)take(r, ",");
    const intptr_t named = count_dims(r);
    if (*leading < 0) *leading = a->rank - named;
    if (*leading != a->rank - named || *leading < 0)
      REFUSE(r, "'...' stands for %td dimensions, and for %td", *leading,
             a->rank - named);
    for (; dim < *leading; dim++) {
      snprintf(name, sizeof name, ".%d", (int)(dim % NABLA_MAX_RANK));
      if (!give_one(r, a, dim, name)) return false;
    }
  }
  for (; dim < a->rank; dim++)
    if (!read_dim(r, a, dim)) return false;
  return true;
}

/* Sizes of factors that stand in products alone. */
static bool find_sizes(reading *r) {
  nabla_factors *f = r->out;
  for (uint32_t turn = 0; turn <= f->count; turn++)
    for (uint32_t a = 0; a < f->array_count; a++)
      for (intptr_t d = 0; d < f->arrays[a].rank; d++) {
        const nabla_factor_dim *dim = &f->arrays[a].dims[d];
        const int64_t size = nabla_factor_size_of(&f->arrays[a], d);
        int64_t product = 1;
        int unknown = -1, count = 0;
        for (uint8_t i = 0; i < dim->count; i++) {
          const int64_t one = f->all[dim->at[i]].size;
          if (one == UNKNOWN) unknown = dim->at[i], count++;
          if (one > 0) product *= one;
        }
        if (dim->count < 2 || nabla_is_dynamic(size)) continue;
        if (count == 1 && size % product == 0)
          f->all[unknown].size = size / product;
        else if (count == 0 && product != size)
          REFUSE(r,
                 "the factors of a dimension of %" PRId64
                 " have the product %" PRId64,
                 size, product);
      }
  for (uint32_t i = 0; i < f->count; i++)
    if (f->all[i].size == UNKNOWN)
      REFUSE(r, "the size of factor '%s' is not known", r->names[i]);
  return true;
}

static bool read_kinds(reading *r) {
  char name[MAX_NAME], word[MAX_NAME];
  uint8_t factor;
  do {
    if (!take_name(r, name) || !take(r, ":") || !take_name(r, word))
      REFUSE(r, "expected 'factor: word' in braces");
    if (!find(r, name, false, 0, &factor)) return false;
    nabla_factor *f = &r->out->all[factor];
    int join = 0;
    while (join < JOINS && strcmp(word, joins[join]) != 0) join++;
    f->kind = !strcmp(word, "moved")   ? NABLA_FACTOR_MOVED
              : !strcmp(word, "whole") ? NABLA_FACTOR_WHOLE
                                       : NABLA_FACTOR_REDUCE;
    f->join = join;
    if (f->kind == NABLA_FACTOR_REDUCE && (join == JOINS || join == 4))
      REFUSE(r, "'%s' is none of sum, max, prod, min, any, all, moved, whole",
             word);
  } while (take(r, ","));
  if (!take(r, "}")) REFUSE(r, "expected '}'");
  return true;
}

/* Whether an operand or a result has a factor. */
static bool has(const nabla_factors *f, bool is_result, uint32_t factor) {
  for (uint32_t a = 0; a < f->array_count; a++)
    for (intptr_t d = 0; d < f->arrays[a].rank; d++)
      for (uint8_t i = 0; i < f->arrays[a].dims[d].count; i++)
        if (f->arrays[a].is_result == is_result &&
            f->arrays[a].dims[d].at[i] == factor)
          return true;
  return false;
}

/* Factors that pass are of operands and results; those that are joined of
 * operands. `join` is that of those without a kind, -1: none. */
static bool check_kinds(reading *r, int join) {
  for (uint32_t i = 0; i < r->out->count; i++) {
    nabla_factor *f = &r->out->all[i];
    const bool in = has(r->out, false, i), out = has(r->out, true, i);
    if (f->kind == NABLA_FACTOR_PASS && !out && join >= 0) {
      f->kind = NABLA_FACTOR_REDUCE;
      f->join = join;
    }
    if (f->kind == NABLA_FACTOR_PASS && !out)
      REFUSE(r, "factor '%s' is of no result: say how it is joined",
             r->names[i]);
    if (f->kind == NABLA_FACTOR_PASS && !in)
      REFUSE(r, "factor '%s' is of no operand: it is whole", r->names[i]);
    if (f->kind == NABLA_FACTOR_REDUCE && out)
      REFUSE(r, "factor '%s' is joined, and of a result", r->names[i]);
  }
  return true;
}

/* The join that the attribute nabla.reduction names; -1. */
static int join_of(MlirOperation op) {
  MlirAttribute name =
      mlirOperationGetAttributeByName(op, nabla_ref(NABLA_REDUCTION));
  if (mlirAttributeIsNull(name) || !mlirAttributeIsAString(name)) return -1;
  for (int i = 0; i < JOINS; i++)
    if (i != 4 && nabla_text_equals(mlirStringAttrGetValue(name), joins[i]))
      return i;
  return -1;
}

bool nabla_factors_read(const char *text, size_t size, MlirOperation op,
                        nabla_factors *out, char message[NABLA_MESSAGE_SIZE]) {
  reading r = {.at = text, .end = text + size, .out = out, .message = message};
  intptr_t leading = -1;
  snprintf(message, NABLA_MESSAGE_SIZE, "it does not read");
  nabla_factors_arrays(op, out);
  bool arrow = false;
  for (uint32_t a = 0; a < out->array_count; a++) {
    const bool first =
        !a || out->arrays[a].is_result != out->arrays[a - 1].is_result;
    if (out->arrays[a].is_result && !arrow) {
      arrow = true;
      if (!take(&r, "->")) REFUSE(&r, "expected '->' behind the operands");
    } else if (!first && !take(&r, ",")) {
      REFUSE(&r, "expected ',' and one more array");
    }
    if (!read_array(&r, &out->arrays[a], &leading)) return false;
  }
  if (take(&r, "{") && !read_kinds(&r)) return false;
  (void)take(&r, "");
  if (r.at != r.end)
    REFUSE(&r, "'%.*s' is left over", (int)(r.end - r.at), r.at);
  return check_kinds(&r, join_of(op)) && find_sizes(&r);
}

/* The attribute of a custom call, else what the program said of its target. */
bool nabla_factors_custom_call(MlirOperation op, nabla_factors *f) {
  char message[NABLA_MESSAGE_SIZE];
  MlirAttribute text =
      mlirOperationGetAttributeByName(op, nabla_ref(NABLA_FACTORS));
  if (mlirAttributeIsNull(text)) return nabla_partitioner_factors(op, f);
  if (!mlirAttributeIsAString(text)) return false;
  MlirStringRef s = mlirStringAttrGetValue(text);
  return nabla_factors_read(s.data, s.length, op, f, message);
}
