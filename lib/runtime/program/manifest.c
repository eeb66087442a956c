/* See the header. The order of keys is fixed, so that each is met once. */
#include "lib/runtime/program/manifest.h"

#include <inttypes.h>
#include <string.h>

#include "lib/base/checked.h"
#include "lib/base/json/json.h"
#include "lib/runtime/program/components.h"
#include "nabla/services.h"

typedef struct parser {
  nabla_json *json;
  nabla_manifest *out;
  size_t texts_used;
  nabla_diag *diag;
} parser;

static nabla_status corrupt_at(const parser *p, const nabla_json_event *event,
                               nabla_status status) {
  nabla_diag_set_offset(p->diag, event->offset);
  return status;
}

/* ---- values ------------------------------------------------------------- */

/* Checks that `event` is the key `name`. */
static nabla_status check_key(const parser *p, const nabla_json_event *event,
                              const char *name) {
  if (event->kind == NABLA_JSON_KEY && !strcmp(event->text, name))
    return NABLA_OK;
  return corrupt_at(
      p, event,
      nabla_fail(p->diag, NABLA_CORRUPT, "expected the key '%s'%s%.60s%s", name,
                 event->kind == NABLA_JSON_KEY ? ", found '" : "",
                 event->kind == NABLA_JSON_KEY ? event->text : "",
                 event->kind == NABLA_JSON_KEY ? "'" : ""));
}

static nabla_status take_key(const parser *p, const char *name) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  return check_key(p, &event, name);
}

static nabla_status take_kind(const parser *p, nabla_json_kind kind,
                              const char *what) {
  nabla_json_event event;
  return nabla_json_expect(p->json, kind, what, &event, p->diag);
}

/* Reads a string into the texts, which have room for every string of the
 * manifest: decoded, with its NUL, it is no longer than with its quotes. */
static nabla_status take_string(parser *p, const char *what, const char **out) {
  nabla_json_event event;
  NABLA_TRY(
      nabla_json_expect(p->json, NABLA_JSON_STRING, what, &event, p->diag));
  char *text = p->out->texts + p->texts_used;
  memcpy(text, event.text, event.length + 1);
  p->texts_used += event.length + 1;
  *out = text;
  return NABLA_OK;
}

static nabla_status take_name(parser *p, const char **out) {
  NABLA_TRY(take_key(p, "name"));
  return take_string(p, "a name", out);
}

static nabla_status take_u64(const parser *p, const char *name, uint64_t *out) {
  nabla_json_event event;
  NABLA_TRY(take_key(p, name));
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_NUMBER, "a number", &event,
                              p->diag));
  return nabla_json_u64(&event, name, out, p->diag);
}

static nabla_status take_dtype(const parser *p, nabla_dtype *out) {
  nabla_json_event event;
  NABLA_TRY(take_key(p, "dtype"));
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_STRING, "a dtype", &event,
                              p->diag));
  if (nabla_dtype_find(event.text, event.length, out, NULL) ||
      nabla_dtype_bits(*out) % 8 != 0)
    return corrupt_at(
        p, &event,
        nabla_fail(p->diag, NABLA_CORRUPT, "'%.40s' is no dtype of an array",
                   event.text));
  return NABLA_OK;
}

static nabla_status take_dimension(const parser *p,
                                   const nabla_json_event *event,
                                   int64_t *out) {
  if (event->kind == NABLA_JSON_NULL) {
    *out = NABLA_DYNAMIC;
    return NABLA_OK;
  }
  uint64_t value;
  NABLA_TRY(nabla_json_u64(event, "a dimension", &value, p->diag));
  if (value > INT64_MAX)
    return corrupt_at(
        p, event,
        nabla_fail(p->diag, NABLA_TOO_LARGE, "a dimension is beyond 2^63 - 1"));
  *out = (int64_t)value;
  return NABLA_OK;
}

/* Reads the shape; the bytes of what is static in it must be countable. */
static nabla_status take_shape(const parser *p, nabla_port *port) {
  nabla_json_event event;
  uint64_t bytes = nabla_dtype_bits(port->dtype) / 8;
  NABLA_TRY(take_key(p, "shape"));
  NABLA_TRY(take_kind(p, NABLA_JSON_ARRAY_BEGIN, "a shape"));
  for (;;) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (port->rank == NABLA_ARRAY_MAX_RANK)
      return corrupt_at(
          p, &event,
          nabla_fail(p->diag, NABLA_TOO_LARGE, "more than %d dimensions",
                     NABLA_ARRAY_MAX_RANK));
    int64_t *dim = &port->shape[port->rank++];
    NABLA_TRY(take_dimension(p, &event, dim));
    if (*dim != NABLA_DYNAMIC &&
        (!nabla_mul_u64(bytes, (uint64_t)*dim, &bytes) || bytes > INT64_MAX))
      return corrupt_at(
          p, &event,
          nabla_fail(p->diag, NABLA_TOO_LARGE, "the shape overflows"));
  }
}

/* ---- packed arguments --------------------------------------------------- */

/* Reads granularity and block. A row's block is what the shape says, and may
 * be left out; without elements it means nothing. Ends having read the key that
 * follows, into `event`. */
static nabla_status take_granularity(const parser *p, nabla_port *port,
                                     nabla_json_event *event) {
  nabla_json_event kind;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_STRING, "a granularity",
                              &kind, p->diag));
  const int whole = !strcmp(kind.text, "tensor");
  const int rows = whole || !strcmp(kind.text, "row");
  if (!rows && strcmp(kind.text, "block") != 0)
    return corrupt_at(p, &kind,
                      nabla_fail(p->diag, NABLA_CORRUPT,
                                 "'%.40s' is no granularity", kind.text));
  uint64_t row = 1; /* after a first size of 0, anything may follow */
  for (uint32_t i = whole ? 0 : 1; i < port->rank; i++)
    if (!nabla_mul_u64(row, (uint64_t)port->shape[i], &row))
      return nabla_fail(p->diag, NABLA_TOO_LARGE, "a row overflows");
  const int is_empty = row == 0 || (port->rank > 0 && port->shape[0] == 0);
  port->layout.format.granularity = whole  ? NABLA_PER_TENSOR
                                    : rows ? NABLA_PER_ROW
                                           : NABLA_PER_BLOCK;
  port->layout.format.block = row;
  NABLA_TRY(nabla_json_next(p->json, event, p->diag));
  if (rows && event->kind == NABLA_JSON_KEY &&
      strcmp(event->text, "block") != 0)
    return NABLA_OK;
  NABLA_TRY(check_key(p, event, "block"));
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_NUMBER, "a block size", &kind,
                              p->diag));
  NABLA_TRY(
      nabla_json_u64(&kind, "block", &port->layout.format.block, p->diag));
  if (rows && !is_empty && port->layout.format.block != row)
    return corrupt_at(p, &kind,
                      nabla_fail(p->diag, NABLA_CORRUPT,
                                 "a block of %" PRIu64 " for rows of %" PRIu64,
                                 port->layout.format.block, row));
  return nabla_json_next(p->json, event, p->diag);
}

/* A component as it is given. */
typedef struct component {
  const char *name;
  nabla_dtype dtype;
  uint64_t bytes;
} component;

/* Reads one behind its '{'. */
static nabla_status take_component(parser *p, component *out) {
  NABLA_TRY(take_name(p, &out->name));
  NABLA_TRY(take_dtype(p, &out->dtype));
  NABLA_TRY(take_u64(p, "bytes", &out->bytes));
  return take_kind(p, NABLA_JSON_OBJECT_END, "the end of a component");
}

/* It must be the one that follows from the format. */
static nabla_status check_component(const parser *p, const component *given,
                                    const nabla_component_slot *needed) {
  const int same_dtype =
      given->dtype == needed->dtype ||
      (nabla_dtype_bits(needed->dtype) == 8 &&
       (given->dtype == NABLA_DTYPE_U8 || given->dtype == NABLA_DTYPE_I8));
  if (!strcmp(given->name, needed->name) && same_dtype &&
      given->bytes == needed->bytes)
    return NABLA_OK;
  return nabla_fail(p->diag, NABLA_CORRUPT,
                    "a component '%.20s' of %" PRIu64
                    " bytes of %s; its "
                    "argument needs '%s', %" PRIu64 " of %s",
                    given->name, given->bytes, nabla_dtype_name(given->dtype),
                    needed->name, needed->bytes,
                    nabla_dtype_name(needed->dtype));
}

/* What components say of the format: scales f16 or bf16, zero points. */
static void take_format(const component *given, nabla_port *port) {
  nabla_scale_type type;
  if (!strcmp(given->name, "zero_points"))
    port->layout.format.zero_point = 1;
  else if (!strcmp(given->name, "scales") &&
           (given->dtype == NABLA_DTYPE_F16 ||
            given->dtype == NABLA_DTYPE_BF16) &&
           nabla_scale_type_find(nabla_dtype_name(given->dtype), &type))
    port->layout.format.scale = type;
}

/* The components of an encoding that this build knows. */
static nabla_status take_components(parser *p, nabla_port *port) {
  component given[NABLA_WEIGHT_MAX_COMPONENTS];
  nabla_component_slots needed;
  nabla_json_event event;
  uint32_t count = 0;
  for (;; count++) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) break;
    if (event.kind != NABLA_JSON_OBJECT_BEGIN ||
        count == NABLA_WEIGHT_MAX_COMPONENTS)
      return corrupt_at(p, &event,
                        nabla_fail(p->diag, NABLA_CORRUPT,
                                   "at most %d components, objects, are there",
                                   NABLA_WEIGHT_MAX_COMPONENTS));
    NABLA_TRY(take_component(p, &given[count]));
    if (port->layout.kind == NABLA_STORAGE_PLANES)
      take_format(&given[count], port);
  }
  nabla_diag why = NABLA_DIAG_INIT;
  if (nabla_port_components(port, &needed, &why))
    return nabla_fail(p->diag, NABLA_CORRUPT, "argument '%.60s': %s",
                      port->name, why.what);
  port->component_count = needed.count;
  if (count != port->component_count)
    return nabla_fail(p->diag, NABLA_CORRUPT,
                      "argument '%.60s' has %u components, not %u", port->name,
                      count, port->component_count);
  for (uint32_t i = 0; i < count; i++)
    NABLA_TRY(check_component(p, &given[i], &needed.at[i]));
  return NABLA_OK;
}

/* Reads the number behind "nested_block" and the key that follows. */
static nabla_status take_nested_block(const parser *p, nabla_port *port,
                                      nabla_json_event *event) {
  uint64_t block;
  nabla_json_event number;
  NABLA_TRY(nabla_json_expect(p->json, NABLA_JSON_NUMBER, "a block size",
                              &number, p->diag));
  NABLA_TRY(nabla_json_u64(&number, "nested_block", &block, p->diag));
  if (block < NABLA_BLOCK_MIN || block > NABLA_BLOCK_MAX ||
      (block & (block - 1)) != 0)
    return corrupt_at(p, &number,
                      nabla_fail(p->diag, NABLA_CORRUPT,
                                 "a nested_block of %" PRIu64, block));
  port->layout.nested_block = (uint32_t)block;
  port->layout.format.scale = NABLA_SCALE_DYNAMIC8;
  return nabla_json_next(p->json, event, p->diag);
}

/* The row of "ggml<ROW>", or NULL. */
static const nabla_ggml *ggml_named(const char *name) {
  char row[16];
  const size_t before = strlen("ggml<"), length = strlen(name);
  if (strncmp(name, "ggml<", before) != 0 || name[length - 1] != '>')
    return NULL;
  const size_t size = length - before - 1;
  if (size >= sizeof row) return NULL;
  memcpy(row, name + before, size);
  row[size] = 0;
  return nabla_ggml_find(row);
}

/* The layout that an encoding's name begins; DENSE where this build knows none
 * of that name. */
static void begin_layout(nabla_port *port) {
  nabla_storage *layout = &port->layout;
  layout->ggml = ggml_named(port->encoding_name);
  if (layout->ggml) {
    layout->kind = NABLA_STORAGE_BLOCKS;
    return;
  }
  layout->format.encoding = nabla_encoding_find(port->encoding_name);
  if (!layout->format.encoding) return;
  layout->kind = NABLA_STORAGE_PLANES;
  if (layout->format.encoding->is_mx) layout->format.scale = NABLA_SCALE_E8M0;
}

/* Reads what follows the key "encoding". */
static nabla_status take_encoding(parser *p, nabla_port *port) {
  nabla_json_event event;
  NABLA_TRY(take_string(p, "an encoding", &port->encoding_name));
  if (!*port->encoding_name)
    return nabla_fail(p->diag, NABLA_CORRUPT, "an encoding has no name");
  begin_layout(port);
  const nabla_storage_kind kind = port->layout.kind;
  for (uint32_t i = 0; i < port->rank; i++)
    if (kind != NABLA_STORAGE_DENSE && port->shape[i] == NABLA_DYNAMIC)
      return nabla_fail(p->diag, NABLA_CORRUPT,
                        "argument '%.60s' is packed and of unknown size",
                        port->name);
  NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  if (kind == NABLA_STORAGE_PLANES) {
    NABLA_TRY(check_key(p, &event, "granularity"));
    NABLA_TRY(take_granularity(p, port, &event));
    if (event.kind == NABLA_JSON_KEY && !strcmp(event.text, "nested_block"))
      NABLA_TRY(take_nested_block(p, port, &event));
  }
  NABLA_TRY(check_key(p, &event, "components"));
  NABLA_TRY(take_kind(p, NABLA_JSON_ARRAY_BEGIN, "components"));
  if (kind != NABLA_STORAGE_DENSE) return take_components(p, port);
  NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  if (event.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
  return corrupt_at(p, &event,
                    nabla_fail(p->diag, NABLA_UNSUPPORTED,
                               "this build does not know the encoding '%.40s'",
                               port->encoding_name));
}

/* ---- functions ---------------------------------------------------------- */

/* Reads what follows the key "state". */
static nabla_status take_state(parser *p, nabla_port *port) {
  NABLA_TRY(take_string(p, "the name of a state", &port->state_name));
  if (!*port->state_name)
    return nabla_fail(p->diag, NABLA_CORRUPT, "a state has no name");
  for (uint32_t i = 0; i < port->rank; i++)
    if (port->shape[i] == NABLA_DYNAMIC)
      return nabla_fail(p->diag, NABLA_CORRUPT,
                        "the state '%.60s' is of unknown size",
                        port->state_name);
  return NABLA_OK;
}

/* What a result has in `packed` until ports stay where they are: link_up. */
static const nabla_port packed_later;

/* Reads what follows the key "packed" of a result: the array that it is the
 * first component of. */
static nabla_status take_packed(parser *p, nabla_port *port) {
  nabla_port packed = {.name = "", .encoding_name = "", .state_name = ""};
  NABLA_TRY(take_kind(p, NABLA_JSON_OBJECT_BEGIN, "a packed result"));
  NABLA_TRY(take_dtype(p, &packed.dtype));
  NABLA_TRY(take_shape(p, &packed));
  NABLA_TRY(take_key(p, "encoding"));
  NABLA_TRY(take_encoding(p, &packed));
  NABLA_TRY(take_kind(p, NABLA_JSON_OBJECT_END, "the end of a packed result"));
  if (!packed.component_count)
    return nabla_fail(p->diag, NABLA_CORRUPT,
                      "a packed result of the encoding '%.40s', which has no "
                      "components",
                      packed.encoding_name);
  port->packed = &packed_later;
  return nabla_buffer_append(&p->out->packed_buffer, &packed, sizeof packed,
                             p->diag);
}

static nabla_status refuse_cut(const parser *p, const nabla_port *port) {
  return nabla_fail(p->diag, NABLA_CORRUPT,
                    "'%.60s' is divided in no legal way", port->name);
}

/* Divides the dimensions of `cut->local`: sizes of dense arrays are rounded
 * up. */
static nabla_status divide(const parser *p, nabla_argument_cut *cut) {
  nabla_component_slots slots;
  for (uint32_t i = 0; i < cut->count; i++) {
    const nabla_cut_place *at = &cut->at[i];
    if (at->dim >= cut->local.rank || !at->stride || at->size < 2)
      return refuse_cut(p, &cut->local);
    int64_t *dim = &cut->local.shape[at->dim];
    if (*dim == NABLA_DYNAMIC) continue;
    if (*dim < 0 || (*dim % at->size && cut->local.component_count))
      return refuse_cut(p, &cut->local);
    *dim = (*dim + at->size - 1) / at->size; /* the last piece is padded */
  }
  nabla_format *format = &cut->local.layout.format;
  if (cut->local.component_count && format->granularity == NABLA_PER_ROW) {
    format->block = 1;
    for (uint32_t i = 1; i < cut->local.rank; i++)
      format->block *= (uint64_t)cut->local.shape[i];
  }
  if (!cut->local.component_count) return NABLA_OK;
  if (format->scale == NABLA_SCALE_DYNAMIC8) {
    format->scale = NABLA_SCALE_F32; /* pieces have decoded scales */
    cut->local.layout.nested_block = 0;
  }
  NABLA_TRY(nabla_port_components(&cut->local, &slots, p->diag));
  cut->local.component_count = slots.count;
  return NABLA_OK;
}

/* A result is dense, of known sizes, and described as its piece. */
static nabla_status check_result(const parser *p,
                                 const nabla_argument_cut *cut) {
  for (uint32_t i = 0; i < cut->local.rank; i++)
    if (cut->local.shape[i] <= 0) return refuse_cut(p, &cut->local);
  for (uint32_t i = 0; i < cut->count; i++) {
    const nabla_cut_place *at = &cut->at[i];
    if (at->dim >= cut->local.rank || !at->stride || at->size < 2)
      return refuse_cut(p, &cut->local);
  }
  return cut->local.packed ? refuse_cut(p, &cut->local) : NABLA_OK;
}

/* Reads what follows the key "cut" of a port: three numbers for each place. */
static nabla_status take_cut(parser *p, const nabla_port *port,
                             int is_argument) {
  nabla_argument_cut cut = {
      .port = p->out->port_buffer.size / sizeof(nabla_port),
      .is_result = !is_argument,
      .local = *port};
  nabla_json_event event;
  uint32_t count = 0;
  NABLA_TRY(take_kind(p, NABLA_JSON_ARRAY_BEGIN, "a cut"));
  for (;; count++) {
    uint64_t number;
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) break;
    NABLA_TRY(nabla_json_u64(&event, "cut", &number, p->diag));
    if (number > UINT32_MAX || count == 3 * NABLA_MANIFEST_MAX_CUTS)
      return refuse_cut(p, port);
    nabla_cut_place *at = &cut.at[count / 3];
    *(count % 3 == 0   ? &at->dim
      : count % 3 == 1 ? &at->stride
                       : &at->size) = (uint32_t)number;
  }
  if (!count || count % 3) return refuse_cut(p, port);
  cut.count = count / 3;
  NABLA_TRY(is_argument ? divide(p, &cut) : check_result(p, &cut));
  return nabla_buffer_append(&p->out->cut_buffer, &cut, sizeof cut, p->diag);
}

static nabla_status take_port(parser *p, int is_argument) {
  nabla_port port = {.encoding_name = "", .state_name = ""};
  nabla_json_event event;
  NABLA_TRY(take_name(p, &port.name));
  NABLA_TRY(take_dtype(p, &port.dtype));
  NABLA_TRY(take_shape(p, &port));
  NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  if (event.kind == NABLA_JSON_KEY && !strcmp(event.text, "state") &&
      is_argument) {
    NABLA_TRY(take_state(p, &port));
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  } else if (event.kind == NABLA_JSON_KEY && !strcmp(event.text, "donated") &&
             is_argument) {
    NABLA_TRY(take_kind(p, NABLA_JSON_TRUE, "true"));
    port.is_donated = 1;
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  } else if (event.kind != NABLA_JSON_OBJECT_END && is_argument &&
             strcmp(event.text, "cut") != 0) {
    NABLA_TRY(check_key(p, &event, "encoding"));
    NABLA_TRY(take_encoding(p, &port));
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  } else if (event.kind == NABLA_JSON_KEY && !strcmp(event.text, "packed") &&
             !is_argument) {
    NABLA_TRY(take_packed(p, &port));
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  }
  if (event.kind == NABLA_JSON_KEY && !strcmp(event.text, "cut")) {
    NABLA_TRY(take_cut(p, &port, is_argument));
    port.is_piece = !is_argument;
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  }
  if (event.kind != NABLA_JSON_OBJECT_END)
    return corrupt_at(p, &event,
                      nabla_fail(p->diag, NABLA_CORRUPT,
                                 "%s has a key that is unknown or repeated",
                                 is_argument ? "an argument" : "a result"));
  return nabla_buffer_append(&p->out->port_buffer, &port, sizeof port, p->diag);
}

/* Reads `"arguments": [...]` or `"results": [...]`. */
static nabla_status take_ports(parser *p, const char *name, int is_argument,
                               size_t *out_count) {
  nabla_json_event event;
  NABLA_TRY(take_key(p, name));
  NABLA_TRY(take_kind(p, NABLA_JSON_ARRAY_BEGIN, name));
  for (*out_count = 0;; ++*out_count) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (event.kind != NABLA_JSON_OBJECT_BEGIN)
      return corrupt_at(p, &event,
                        nabla_fail(p->diag, NABLA_CORRUPT,
                                   "one of the %s is no object", name));
    if (*out_count == NABLA_MANIFEST_MAX_PORTS)
      return nabla_fail(p->diag, NABLA_TOO_LARGE,
                        "a function has more than %u %s",
                        NABLA_MANIFEST_MAX_PORTS, name);
    NABLA_TRY(take_port(p, is_argument));
  }
}

static nabla_status take_function(parser *p) {
  nabla_signature function = {0};
  NABLA_TRY(take_name(p, &function.name));
  if (!*function.name)
    return nabla_fail(p->diag, NABLA_CORRUPT, "a function has no name");
  NABLA_TRY(take_ports(p, "arguments", 1, &function.argument_count));
  NABLA_TRY(take_ports(p, "results", 0, &function.result_count));
  NABLA_TRY(take_kind(p, NABLA_JSON_OBJECT_END, "the end of a function"));
  return nabla_buffer_append(&p->out->function_buffer, &function,
                             sizeof function, p->diag);
}

static nabla_status take_functions(parser *p) {
  nabla_json_event event;
  NABLA_TRY(take_key(p, "functions"));
  NABLA_TRY(take_kind(p, NABLA_JSON_ARRAY_BEGIN, "functions"));
  for (size_t count = 0;; count++) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) return NABLA_OK;
    if (event.kind != NABLA_JSON_OBJECT_BEGIN)
      return corrupt_at(
          p, &event,
          nabla_fail(p->diag, NABLA_CORRUPT, "a function is no object"));
    if (count == NABLA_MANIFEST_MAX_FUNCTIONS)
      return nabla_fail(p->diag, NABLA_TOO_LARGE, "more than %u functions",
                        NABLA_MANIFEST_MAX_FUNCTIONS);
    NABLA_TRY(take_function(p));
  }
}

static nabla_status take_call(parser *p) {
  nabla_call_site site;
  NABLA_TRY(take_key(p, "target"));
  NABLA_TRY(take_string(p, "a target", &site.target));
  NABLA_TRY(take_key(p, "attributes"));
  NABLA_TRY(take_string(p, "attributes", &site.attributes));
  NABLA_TRY(take_kind(p, NABLA_JSON_OBJECT_END, "the end of a custom call"));
  return nabla_buffer_append(&p->out->call_buffer, &site, sizeof site, p->diag);
}

static nabla_status corrupt_ranks(parser *p, const nabla_json_event *event) {
  return corrupt_at(p, event,
                    nabla_fail(p->diag, NABLA_CORRUPT,
                               "the devices of the mesh are no permutation of "
                               "its ranks"));
}

/* Each rank once, in row-major order of the mesh. */
static nabla_status take_devices(parser *p) {
  nabla_json_event event;
  uint64_t seen = 0, rank;
  uint32_t count = 0;
  NABLA_TRY(take_kind(p, NABLA_JSON_ARRAY_BEGIN, "the devices of the mesh"));
  if (p->out->ranks > NABLA_COMM_MAX_RANKS)
    return nabla_fail(p->diag, NABLA_TOO_LARGE,
                      "the mesh has an order of %u devices; at most %u",
                      p->out->ranks, NABLA_COMM_MAX_RANKS);
  for (;; count++) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) break;
    NABLA_TRY(nabla_json_u64(&event, "devices", &rank, p->diag));
    if (rank >= p->out->ranks || seen >> rank & 1)
      return corrupt_ranks(p, &event);
    seen |= (uint64_t)1 << rank;
    p->out->devices[count] = (uint32_t)rank;
  }
  p->out->has_devices = 1;
  return count == p->out->ranks ? NABLA_OK : corrupt_ranks(p, &event);
}

/* The ranks, and their order where it is not that of their numbers. Reads the
 * event behind them. */
static nabla_status take_ranks(parser *p, nabla_json_event *event) {
  uint64_t ranks;
  NABLA_TRY(nabla_json_next(p->json, event, p->diag));
  NABLA_TRY(nabla_json_u64(event, "ranks", &ranks, p->diag));
  if (!ranks || ranks > UINT32_MAX)
    return corrupt_at(
        p, event,
        nabla_fail(p->diag, NABLA_CORRUPT,
                   "the program is for %" PRIu64 " ranks", ranks));
  p->out->ranks = (uint32_t)ranks;
  NABLA_TRY(nabla_json_next(p->json, event, p->diag));
  if (event->kind != NABLA_JSON_KEY || strcmp(event->text, "devices") != 0)
    return NABLA_OK;
  NABLA_TRY(take_devices(p));
  return nabla_json_next(p->json, event, p->diag);
}

/* The ranks and the custom calls, where there are some, and the end. */
static nabla_status take_calls(parser *p) {
  nabla_json_event event;
  NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
  if (event.kind == NABLA_JSON_KEY && !strcmp(event.text, "ranks"))
    NABLA_TRY(take_ranks(p, &event));
  if (event.kind == NABLA_JSON_OBJECT_END) return NABLA_OK;
  NABLA_TRY(check_key(p, &event, "calls"));
  NABLA_TRY(take_kind(p, NABLA_JSON_ARRAY_BEGIN, "custom calls"));
  for (;;) {
    NABLA_TRY(nabla_json_next(p->json, &event, p->diag));
    if (event.kind == NABLA_JSON_ARRAY_END) break;
    if (event.kind != NABLA_JSON_OBJECT_BEGIN)
      return corrupt_at(
          p, &event,
          nabla_fail(p->diag, NABLA_CORRUPT, "a custom call is no object"));
    NABLA_TRY(take_call(p));
  }
  return take_kind(p, NABLA_JSON_OBJECT_END, "the end of the manifest");
}

static nabla_status take_manifest(parser *p) {
  uint64_t abi;
  NABLA_TRY(take_kind(p, NABLA_JSON_OBJECT_BEGIN, "an object"));
  NABLA_TRY(take_u64(p, "abi", &abi));
  if (abi != NABLA_SERVICES_VERSION) {
    const nabla_status status =
        nabla_fail(p->diag, NABLA_UNSUPPORTED,
                   "the code was compiled for version %" PRIu64
                   " of the services; this build has %u",
                   abi, NABLA_SERVICES_VERSION);
    nabla_diag_set_next(p->diag, "compile the program again");
    return status;
  }
  NABLA_TRY(take_functions(p));
  NABLA_TRY(take_calls(p));
  return take_kind(p, NABLA_JSON_END, "the end");
}

/* ---- the whole ---------------------------------------------------------- */

static const char *name_at(const void *self, size_t index, size_t *out_length) {
  const nabla_signature *functions = self;
  *out_length = strlen(functions[index].name);
  return functions[index].name;
}

static nabla_names names_of(const nabla_manifest *manifest) {
  return (nabla_names){manifest->functions, name_at};
}

/* Whether a result is a component as it follows from the format. */
static int is_component(const nabla_port *result,
                        const nabla_component_slot *slot, uint32_t number) {
  const int same_dtype =
      result->dtype == slot->dtype || (nabla_dtype_bits(slot->dtype) == 8 &&
                                       nabla_dtype_bits(result->dtype) == 8);
  return !strcmp(result->name, slot->name) && same_dtype &&
         result->rank == slot->rank &&
         (!result->rank || result->shape[0] == (int64_t)slot->count) &&
         (number == 0 || !result->packed);
}

/* The results from `at` on are the components of `packed`. */
static nabla_status check_packed(const nabla_signature *function, size_t at,
                                 const nabla_port *packed, nabla_diag *diag) {
  nabla_component_slots slots;
  NABLA_TRY(nabla_port_components(packed, &slots, diag));
  int good = slots.count <= function->result_count - at;
  for (uint32_t i = 0; good && i < slots.count; i++)
    good = is_component(&function->results[at + i], &slots.at[i], i);
  return good ? NABLA_OK
              : nabla_fail(diag, NABLA_CORRUPT,
                           "result %zu of '%.60s' is packed (%.40s), but its "
                           "components do not follow",
                           at, function->name, packed->encoding_name);
}

/* Links the results of all functions to the packed arrays that they begin. */
static nabla_status link_packed(nabla_manifest *out, nabla_diag *diag) {
  const nabla_port *packed =
      (const nabla_port *)(void *)out->packed_buffer.data;
  size_t used = 0;
  for (size_t i = 0; i < out->function_count; i++) {
    const nabla_signature *function = &out->functions[i];
    for (size_t r = 0; r < function->result_count; r++) {
      if (!function->results[r].packed) continue;
      NABLA_TRY(check_packed(function, r, &packed[used], diag));
      out->ports[&function->results[r] - out->ports].packed = &packed[used++];
    }
  }
  return NABLA_OK;
}

/* The arrays do not move any more: functions learn where their ports are. */
static nabla_status link_up(nabla_manifest *out, nabla_diag *diag) {
  out->functions = (nabla_signature *)(void *)out->function_buffer.data;
  out->function_count = out->function_buffer.size / sizeof(nabla_signature);
  out->ports = (nabla_port *)(void *)out->port_buffer.data;
  out->port_count = out->port_buffer.size / sizeof(nabla_port);
  out->calls = (nabla_call_site *)(void *)out->call_buffer.data;
  out->call_count = out->call_buffer.size / sizeof(nabla_call_site);
  out->cuts = (nabla_argument_cut *)(void *)out->cut_buffer.data;
  out->cut_count = out->cut_buffer.size / sizeof(nabla_argument_cut);
  size_t at = 0;
  for (size_t i = 0; i < out->function_count; i++) {
    nabla_signature *function = &out->functions[i];
    const size_t ports = function->argument_count + function->result_count;
    if (ports) function->arguments = out->ports + at;
    if (ports)
      function->results = function->arguments + function->argument_count;
    at += ports;
  }
  NABLA_TRY(link_packed(out, diag));
  size_t first, duplicate;
  NABLA_TRY(nabla_name_index_build(&out->names, out->allocator, names_of(out),
                                   out->function_count, &first, &duplicate,
                                   diag));
  if (duplicate != SIZE_MAX)
    return nabla_fail(diag, NABLA_CORRUPT, "two functions are called '%.60s'",
                      out->functions[duplicate].name);
  return NABLA_OK;
}

static nabla_status parse(const char *text, size_t size, nabla_manifest *out,
                          nabla_diag *diag) {
  void *texts = NULL;
  NABLA_TRY(nabla_alloc(out->allocator, size + 1, 1, &texts, diag));
  out->texts = texts;
  out->texts_size = size + 1;
  parser p = {.out = out, .diag = diag};
  NABLA_TRY(
      nabla_json_create_span(out->allocator, text, size, 0, &p.json, diag));
  nabla_status status = take_manifest(&p);
  nabla_json_destroy(p.json);
  if (!status) status = link_up(out, diag);
  return status;
}

nabla_status nabla_manifest_parse(const nabla_allocator *allocator,
                                  const char *text, size_t size,
                                  nabla_manifest *out, nabla_diag *diag) {
  nabla_manifest manifest = {.allocator = allocator};
  if (size > NABLA_MANIFEST_MAX)
    return nabla_fail(diag, NABLA_TOO_LARGE,
                      "the manifest has %zu bytes; at most %u are read", size,
                      NABLA_MANIFEST_MAX);
  nabla_buffer_init(&manifest.function_buffer, allocator, "functions",
                    NABLA_MANIFEST_MAX_FUNCTIONS * sizeof(nabla_signature));
  nabla_buffer_init(&manifest.port_buffer, allocator, "arguments and results",
                    (size_t)2 * NABLA_MANIFEST_MAX_PORTS *
                        NABLA_MANIFEST_MAX_FUNCTIONS * sizeof(nabla_port));
  nabla_buffer_init(&manifest.packed_buffer, allocator, "packed results",
                    (size_t)NABLA_MANIFEST_MAX_PORTS *
                        NABLA_MANIFEST_MAX_FUNCTIONS * sizeof(nabla_port));
  nabla_buffer_init(&manifest.call_buffer, allocator, "custom calls",
                    NABLA_MANIFEST_MAX_CALLS * sizeof(nabla_call_site));
  nabla_buffer_init(&manifest.cut_buffer, allocator, "divided arguments",
                    (size_t)NABLA_MANIFEST_MAX_PORTS *
                        NABLA_MANIFEST_MAX_FUNCTIONS *
                        sizeof(nabla_argument_cut));
  const nabla_status status = parse(text, size, &manifest, diag);
  if (status) {
    nabla_diag_set_file(diag, "manifest");
    nabla_manifest_deinit(&manifest);
    return status;
  }
  *out = manifest;
  return NABLA_OK;
}

void nabla_manifest_deinit(nabla_manifest *manifest) {
  nabla_name_index_deinit(&manifest->names);
  nabla_buffer_deinit(&manifest->cut_buffer);
  nabla_buffer_deinit(&manifest->call_buffer);
  nabla_buffer_deinit(&manifest->packed_buffer);
  nabla_buffer_deinit(&manifest->port_buffer);
  nabla_buffer_deinit(&manifest->function_buffer);
  nabla_free(manifest->allocator, manifest->texts, manifest->texts_size, 1);
  *manifest = (nabla_manifest){0};
}

size_t nabla_manifest_find(const nabla_manifest *manifest, const char *name) {
  return nabla_name_index_find(&manifest->names, names_of(manifest), name,
                               strlen(name));
}

const nabla_argument_cut *nabla_manifest_cut(const nabla_manifest *manifest,
                                             size_t number) {
  size_t low = 0, high = manifest->cut_count;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (manifest->cuts[middle].port < number)
      low = middle + 1;
    else
      high = middle;
  }
  return low < manifest->cut_count && manifest->cuts[low].port == number
             ? &manifest->cuts[low]
             : NULL;
}
