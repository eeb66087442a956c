/* See ruled.h: the parts as bodies. */
#include "lib/array/derivative/ruled.h"

#include <inttypes.h>
#include <string.h>

#include "lib/array/derivative/ruled_trace.h"
#include "lib/array/derivative/transform.h"
#include "lib/array/packed.h"

bool nabla_ruled_has_cotangent(const nabla_array_type *type) {
  return !nabla_dtype_is_packed(type->dtype) &&
         nabla_dtype_is_float(type->dtype);
}

/* A part's arguments: arrays that have their weakness, and their types. */
typedef struct shape {
  nabla_buffer arrays; /* nabla_array *    */
  nabla_buffer types;  /* nabla_array_type */
} shape;

static nabla_status add(shape *s, nabla_array *array,
                        const nabla_array_type *type, nabla_diag *diag) {
  NABLA_TRY(
      nabla_buffer_append(&s->arrays, &array, sizeof(nabla_array *), diag));
  return nabla_buffer_append(&s->types, type, sizeof *type, diag);
}

/* Adds arrays, or those that have a cotangent, as they are outside of `body`,
 * NULL: they are outside. */
static nabla_status add_all(shape *s, size_t count, nabla_array *const *arrays,
                            const nabla_body *body, bool only_floats,
                            nabla_diag *diag) {
  for (size_t i = 0; i < count; i++) {
    nabla_array_type type = arrays[i]->dense;
    if (only_floats && !nabla_array_has_floats(arrays[i])) continue;
    if (only_floats && !body && nabla_dtype_is_packed(type.dtype)) continue;
    if (only_floats) type.dtype = nabla_dtype_element(type.dtype);
    if (body) nabla_body_lift_sizes(body, &type);
    NABLA_TRY(add(s, arrays[i], &type, diag));
  }
  return NABLA_OK;
}

/* ---- parts ---- */

static nabla_status add_arguments(const nabla_ruled_trace *t,
                                  nabla_ruled_part part, shape *s,
                                  size_t *first, nabla_diag *diag) {
  nabla_array **leaves = nabla_arrays(&t->leaves);
  const nabla_body *body = &t->bodies[NABLA_PART_BODY];
  const nabla_body *forward = &t->bodies[NABLA_PART_FORWARD];
  if (part == NABLA_PART_BACKWARD)
    NABLA_TRY(add_all(s, t->ruled->saved_count,
                      forward->results + t->result_count, forward, false,
                      diag));
  else
    NABLA_TRY(add_all(s, t->argument_count, leaves, NULL, false, diag));
  *first = nabla_arrays_count(&s->arrays);
  if (part == NABLA_PART_JVP)
    return add_all(s, t->argument_count, leaves, NULL, true, diag);
  if (part == NABLA_PART_BACKWARD)
    return add_all(s, t->result_count, body->results, body, true, diag);
  return NABLA_OK;
}

/* How many arrays a part gives, in the second list. */
static size_t count_given(const nabla_ruled_trace *t, nabla_ruled_part part) {
  size_t count = 0;
  if (part == NABLA_PART_FORWARD) return t->ruled->saved_count;
  if (part == NABLA_PART_BACKWARD) {
    for (size_t i = 0; i < t->argument_count; i++)
      count += nabla_ruled_has_cotangent(&nabla_arrays(&t->leaves)[i]->dense);
  } else if (part == NABLA_PART_JVP) {
    for (size_t i = 0; i < t->result_count; i++)
      count += nabla_array_has_floats(t->bodies[NABLA_PART_BODY].results[i]);
  }
  return count;
}

/* Makes a list of `count` places. */
static nabla_status make_list(nabla_buffer *items, size_t count,
                              nabla_tree *out, nabla_diag *diag) {
  const nabla_tree one = nabla_tree_of_array(NULL);
  for (size_t i = 0; i < count; i++)
    NABLA_TRY(nabla_buffer_append(items, &one, sizeof one, diag));
  *out = nabla_tree_of_list(count, (nabla_tree *)(void *)items->data);
  return NABLA_OK;
}

/* Trees of a part. */
typedef struct part_trees {
  nabla_tree in[2], out[2];
  nabla_buffer items[3];
} part_trees;

static nabla_status trace_part(nabla_ruled_trace *t, nabla_ruled_part part,
                               shape *s, part_trees *trees, nabla_diag *diag) {
  size_t first;
  nabla_tree in = *t->ruled->arguments, out = *t->ruled->results;
  nabla_body *body = &t->bodies[part];
  const nabla_ruled_source *from = &t->ruled->parts[part];
  NABLA_TRY(add_arguments(t, part, s, &first, diag));
  const size_t count = nabla_arrays_count(&s->arrays);
  trees->in[0] = in;
  if (part == NABLA_PART_BACKWARD)
    NABLA_TRY(make_list(&trees->items[0], first, &trees->in[0], diag));
  NABLA_TRY(make_list(&trees->items[1], count - first, &trees->in[1], diag));
  NABLA_TRY(
      make_list(&trees->items[2], count_given(t, part), &trees->out[1], diag));
  trees->out[0] = out;
  if (part == NABLA_PART_BACKWARD || part == NABLA_PART_JVP)
    in = nabla_tree_of_list(2, trees->in);
  if (part == NABLA_PART_BACKWARD)
    out = trees->out[1];
  else if (part != NABLA_PART_BODY)
    out = nabla_tree_of_list(2, trees->out);
  const nabla_body_source source = {from->callback, from->self, NULL, &in,
                                    &out};
  nabla_body_init(body, t->ruled->site, t->ruled->scope, count,
                  nabla_arrays(&s->arrays));
  body->types = (const void *)s->types.data;
  if (!nabla_body_trace(body, &source))
    return nabla_scope_status(t->ruled->scope, diag);
  return part == NABLA_PART_BODY
             ? nabla_tree_settle(t->ruled->results, &out, diag)
             : NABLA_OK;
}

static nabla_status run_part(nabla_ruled_trace *t, nabla_ruled_part part,
                             nabla_diag *diag) {
  shape s;
  part_trees trees;
  const nabla_allocator *allocator =
      nabla_engine_allocator(t->ruled->scope->engine);
  if (!t->ruled->parts[part].callback) return NABLA_OK;
  nabla_buffer_init(&s.arrays, allocator, "a rule", SIZE_MAX / 2);
  nabla_buffer_init(&s.types, allocator, "a rule", SIZE_MAX / 2);
  for (int i = 0; i < 3; i++)
    nabla_buffer_init(&trees.items[i], allocator, "a rule", SIZE_MAX / 2);
  const nabla_status status = trace_part(t, part, &s, &trees, diag);
  if (part == NABLA_PART_BODY) t->result_count = t->bodies[part].result_count;
  nabla_buffer_deinit(&s.arrays);
  nabla_buffer_deinit(&s.types);
  for (int i = 0; i < 3; i++) nabla_buffer_deinit(&trees.items[i]);
  return status;
}

/* ---- checks ---- */

static bool same_type(const nabla_scope *scope, const nabla_array_type *a,
                      const nabla_array_type *b) {
  int64_t size;
  bool same = a->dtype == b->dtype && a->rank == b->rank;
  for (uint32_t d = 0; same && d < a->rank; d++)
    same = nabla_size_join(scope, a->shape[d], b->shape[d], &size);
  return same;
}

static nabla_status check_type(const nabla_ruled_trace *t,
                               nabla_ruled_part part, size_t index,
                               const nabla_array *want, nabla_diag *diag) {
  static const char *const names[] = {"body", "forward", "backward", "jvp"};
  nabla_array_type wanted = want->dense;
  const nabla_dense *have = &t->bodies[part].results[index]->dense;
  const bool is_result = part != NABLA_PART_BACKWARD && index < t->result_count;
  if (!is_result) wanted.dtype = nabla_dtype_element(wanted.dtype);
  if (same_type(t->ruled->scope, &wanted, have)) return NABLA_OK;
  return nabla_fail(
      diag, NABLA_INVALID_ARGUMENT,
      "the rule '%s' gives array %zu as %s of rank %u, which has another dtype "
      "or shape than %s, %s of rank %u",
      names[part], index, nabla_dtype_name(nabla_dtype_element(have->dtype)),
      have->rank, is_result ? "the result" : "what it belongs to",
      nabla_dtype_name(nabla_dtype_element(wanted.dtype)), wanted.rank);
}

/* What parts give has the types of what it stands for. */
static nabla_status check_parts(const nabla_ruled_trace *t, nabla_diag *diag) {
  const nabla_body *body = &t->bodies[NABLA_PART_BODY];
  size_t backward = 0, jvp = t->result_count;
  for (size_t i = 0; i < t->result_count; i++) {
    for (nabla_ruled_part part = NABLA_PART_FORWARD; part < NABLA_PARTS; part++)
      if (t->bodies[part].site && part != NABLA_PART_BACKWARD)
        NABLA_TRY(check_type(t, part, i, body->results[i], diag));
    if (t->bodies[NABLA_PART_JVP].site &&
        nabla_array_has_floats(body->results[i]))
      NABLA_TRY(check_type(t, NABLA_PART_JVP, jvp++, body->results[i], diag));
  }
  for (size_t i = 0; i < t->argument_count; i++) {
    const nabla_array *leaf = nabla_arrays(&t->leaves)[i];
    if (t->bodies[NABLA_PART_BACKWARD].site &&
        nabla_ruled_has_cotangent(&leaf->dense))
      NABLA_TRY(check_type(t, NABLA_PART_BACKWARD, backward++, leaf, diag));
  }
  return NABLA_OK;
}

static nabla_status check_straight(const nabla_ruled_trace *t,
                                   nabla_diag *diag) {
  const nabla_array *x = t->argument_count ? nabla_arrays(&t->leaves)[0] : NULL;
  const nabla_body *body = &t->bodies[NABLA_PART_BODY];
  const nabla_array *y = t->result_count ? body->results[0] : NULL;
  if (!t->ruled->is_straight) return NABLA_OK;
  if (x && y && nabla_array_has_floats(x) && nabla_array_has_floats(y)) {
    nabla_array_type a = x->dense, b = y->dense;
    a.dtype = b.dtype = NABLA_DTYPE_F32; /* only shapes are compared */
    if (same_type(t->ruled->scope, &a, &b)) return NABLA_OK;
  }
  return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                    "the first argument and the first result are not arrays of "
                    "floats of one shape, so that no cotangent can pass "
                    "straight through");
}

/* ---- captures ---- */

size_t nabla_ruled_capture(const nabla_ruled_trace *t,
                           const nabla_array *array) {
  size_t at = 0;
  while (at < nabla_arrays_count(&t->captures) &&
         nabla_arrays(&t->captures)[at] != array)
    at++;
  return at;
}

/* A rule gives captured arrays no cotangent: numbers that callbacks make, and
 * packed arrays, need none. */
static nabla_status check_capture(const nabla_ruled_trace *t, int part,
                                  const nabla_array *array, nabla_diag *diag) {
  if (t->ruled->is_straight || array->is_weak ||
      !nabla_ruled_has_cotangent(&array->dense))
    return NABLA_OK;
  if (part == NABLA_PART_BODY)
    return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                      "a function with a rule captures an array of floats, "
                      "which would get no gradient: make it an argument");
  for (uint32_t d = 0; d < array->dense.rank; d++)
    if (array->dense.shape[d] < 0)
      return nabla_fail(diag, NABLA_INVALID_ARGUMENT,
                        "a rule captures an array of floats of unknown size: "
                        "save it, or make it an argument");
  return NABLA_OK;
}

static nabla_status collect_captures(nabla_ruled_trace *t, nabla_diag *diag) {
  for (int part = 0; part < NABLA_PARTS; part++) {
    const nabla_body *body = &t->bodies[part];
    for (size_t i = 0; body->site && i < nabla_body_capture_count(body); i++) {
      nabla_array *array = nabla_body_capture(body, i);
      NABLA_TRY(check_capture(t, part, array, diag));
      if (nabla_ruled_capture(t, array) == nabla_arrays_count(&t->captures))
        NABLA_TRY(nabla_buffer_append(&t->captures, &array,
                                      sizeof(nabla_array *), diag));
    }
  }
  return NABLA_OK;
}

/* ---- the call ---- */

static nabla_status record(nabla_ruled_trace *t, nabla_buffer *out,
                           nabla_diag *diag) {
  const nabla_ruled *r = t->ruled;
  NABLA_TRY(nabla_arrays_add(&t->leaves, r->arguments, diag));
  t->argument_count = nabla_arrays_count(&t->leaves);
  const nabla_array_call checked = {r->site->function, r->site->place,
                                    (uint32_t)t->argument_count,
                                    nabla_arrays(&t->leaves)};
  if (!nabla_call_begin(&checked)) return nabla_scope_status(r->scope, diag);
  for (nabla_ruled_part part = NABLA_PART_BODY; part < NABLA_PARTS; part++)
    NABLA_TRY(run_part(t, part, diag));
  NABLA_TRY(check_straight(t, diag));
  NABLA_TRY(check_parts(t, diag));
  NABLA_TRY(collect_captures(t, diag));
  NABLA_TRY(nabla_buffer_append(
      out, NULL, (t->result_count + 1) * sizeof(nabla_array *), diag));
  nabla_array **results = nabla_arrays(out);
  if (!nabla_ruled_call(t, results)) return nabla_scope_status(r->scope, diag);
  nabla_body_lift_results(&t->bodies[NABLA_PART_BODY], 0, t->result_count,
                          results);
  return nabla_tree_unflatten(r->results, t->result_count, results, diag);
}

bool nabla_ruled_record(const nabla_ruled *ruled) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_ruled_trace t = {.ruled = ruled};
  nabla_buffer out;
  const nabla_allocator *allocator =
      nabla_engine_allocator(ruled->scope->engine);
  nabla_buffer_init(&t.leaves, allocator, "arguments", SIZE_MAX / 2);
  nabla_buffer_init(&t.captures, allocator, "captures", SIZE_MAX / 2);
  nabla_buffer_init(&out, allocator, "results", SIZE_MAX / 2);
  const nabla_status status = record(&t, &out, &diag);
  for (int part = 0; part < NABLA_PARTS; part++)
    if (t.bodies[part].site) nabla_body_deinit(&t.bodies[part]);
  nabla_buffer_deinit(&t.leaves);
  nabla_buffer_deinit(&t.captures);
  nabla_buffer_deinit(&out);
  if (status)
    nabla_call_fail(ruled->site, ruled->scope, status, "%s", diag.what);
  return !status;
}
