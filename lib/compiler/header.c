/* See header.h. What programs call things is checked before it becomes C, also
 * in comments. */
#include "lib/compiler/header.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/kernels/builder/text.h"
#include "lib/runtime/program/components.h"
#include "lib/runtime/program/type_to_text.h"
#include "nabla/services.h"
#include "nabla_object_prelude.inc"

_Static_assert(NABLA_SERVICES_VERSION == 1,
               "object_prelude.h.in is of version 1");
_Static_assert(NABLA_SERVICES_ALIGNMENT == 64,
               "object_prelude.h.in aligns to 64");
_Static_assert(NABLA_FAILURE_NO_MEMORY == 1 && NABLA_FAILURE_SHAPE == 2 &&
                   NABLA_FAILURE_DIVISION == 3,
               "object_prelude.h.in has these numbers");

#define NAME_ROOM (NABLA_HEADER_MAX_NAME + 32)

/* A pointer that a C function takes: an argument or result, or a component. */
typedef struct pointer {
  char name[NAME_ROOM];
  const char *type; /* of its elements, in C */
  uint64_t element; /* bytes */
  uint32_t rank;
  int64_t sizes[NABLA_ARRAY_MAX_RANK]; /* NABLA_DYNAMIC: a parameter */
  bool is_result;
} pointer;

typedef struct writer {
  const char *prefix;
  const nabla_signature *function;
  pointer *pointers; /* arguments, then results */
  size_t count, arguments;
  nabla_text text;
  nabla_diag *diag;
} writer;

/* ---- names -------------------------------------------------------------- */

static bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_identifier(const char *name) {
  if (!is_letter(*name) || strlen(name) > NABLA_HEADER_MAX_NAME) return false;
  while (is_letter(*name) || is_digit(*name)) name++;
  return !*name;
}

/* Words that mean something else in C17 or C++20, or in a function below. */
static bool is_taken(const char *name) {
  static const char words[] =
      " alignas alignof and and_eq asm auto bitand bitor bool break case catch "
      "char char8_t char16_t char32_t class compl concept const consteval "
      "constexpr constinit const_cast continue co_await co_return co_yield "
      "decltype default delete do double dynamic_cast else enum explicit "
      "export "
      "extern false float for friend goto if inline int linux long mutable "
      "namespace new noexcept not not_eq nullptr operator or or_eq private "
      "protected public register reinterpret_cast requires restrict return "
      "short signed sizeof static static_assert static_cast struct switch "
      "template this thread_local throw true try typedef typeid typename "
      "union unix unsigned using virtual void volatile wchar_t while xor "
      "xor_eq "
      "pool begin end run ports sizes data words places int8_t uint8_t int32_t "
      "int64_t uint16_t NULL memset sizeof nabla_object_run uintptr_t ";
  char word[NAME_ROOM + 2];
  (void)snprintf(word, sizeof word, " %s ", name);
  return strstr(words, word) != NULL;
}

/* Whether `name` is NAME_3, a size of `array`. */
static bool is_size_of(const char *name, const char *array) {
  const size_t length = strlen(array);
  return !strncmp(name, array, length) && name[length] == '_' &&
         is_digit(name[length + 1]);
}

static bool is_used(const writer *w, const char *name) {
  for (size_t i = 0; i < w->count; i++) {
    const char *other = w->pointers[i].name;
    if (!strcmp(name, other) || is_size_of(name, other) ||
        is_size_of(other, name))
      return true;
  }
  return is_taken(name);
}

/* An identifier for "NAME.PART" that no other pointer of the function has. */
static void make_name(const writer *w, const char *name, const char *part,
                      char out[NAME_ROOM]) {
  char text[NABLA_HEADER_MAX_NAME];
  (void)snprintf(text, sizeof text, "%s%.150s%s%.30s",
                 is_letter(*name) ? "" : "a", name, *part ? "_" : "", part);
  for (char *at = text; *at; at++)
    if (!is_letter(*at) && !is_digit(*at)) *at = '_';
  /* no reserved names, and none that ends as a size does */
  const char *begin = text + strspn(text, "_");
  (void)snprintf(out, NAME_ROOM, "%s", *begin ? begin : "a");
  if (is_digit(*out)) (void)snprintf(out, NAME_ROOM, "a%s", begin);
  char base[NAME_ROOM - 16];
  (void)snprintf(base, sizeof base, "%s", out);
  for (unsigned i = 2; is_used(w, out); i++)
    (void)snprintf(out, NAME_ROOM, "%s_v%u", base, i);
}

/* ---- pointers ----------------------------------------------------------- */

static const char *c_type(nabla_dtype dtype) {
  switch (dtype) {
    case NABLA_DTYPE_F32:
      return "float";
    case NABLA_DTYPE_F64:
      return "double";
    case NABLA_DTYPE_I64:
      return "int64_t";
    case NABLA_DTYPE_I32:
      return "int32_t";
    case NABLA_DTYPE_I8:
      return "int8_t";
    case NABLA_DTYPE_F16:
    case NABLA_DTYPE_BF16:
      return "uint16_t";
    default:
      return nabla_dtype_bits(dtype) == 8 ? "uint8_t" : NULL;
  }
}

static nabla_status add_pointer(writer *w, const char *name, const char *part,
                                nabla_dtype dtype) {
  if (w->count == NABLA_HEADER_MAX_PORTS)
    return nabla_fail(w->diag, NABLA_UNSUPPORTED,
                      "function '%.60s' has more than %u arrays: too many for "
                      "a function of C",
                      w->function->name, NABLA_HEADER_MAX_PORTS);
  if (!c_type(dtype))
    return nabla_fail(w->diag, NABLA_UNSUPPORTED,
                      "function '%.60s' has an array of %s, which C lacks",
                      w->function->name, nabla_dtype_name(dtype));
  pointer *p = &w->pointers[w->count];
  *p = (pointer){.type = c_type(dtype), .element = nabla_dtype_bits(dtype) / 8};
  make_name(w, name, part, p->name);
  w->count++;
  return NABLA_OK;
}

static nabla_status add_port(writer *w, const nabla_port *port,
                             const char *name, bool is_result) {
  if (*port->encoding_name && !port->component_count) return NABLA_OK;
  if (*port->state_name) {
    const nabla_status status = nabla_fail(
        w->diag, NABLA_UNSUPPORTED,
        "'%.60s' has the state '%.60s', which a header cannot express",
        w->function->name, port->state_name);
    nabla_diag_set_next(w->diag,
                        "save it as PROGRAM.so and run it in a "
                        "session");
    return status;
  }
  if (port->is_donated) {
    const nabla_status status = nabla_fail(
        w->diag, NABLA_UNSUPPORTED,
        "'%.60s' has the donated argument '%.60s', which a header cannot "
        "express",
        w->function->name, port->name);
    nabla_diag_set_next(w->diag, "save it as PROGRAM.so, or do not donate");
    return status;
  }
  if (!port->component_count) {
    NABLA_TRY(add_pointer(w, name, "", port->dtype));
    pointer *p = &w->pointers[w->count - 1];
    p->rank = port->rank;
    p->is_result = is_result;
    memcpy(p->sizes, port->shape, sizeof p->sizes);
    return NABLA_OK;
  }
  nabla_component_slots parts;
  NABLA_TRY(nabla_port_components(port, &parts, w->diag));
  for (uint32_t i = 0; i < parts.count; i++) {
    NABLA_TRY(add_pointer(w, name, parts.at[i].name, parts.at[i].dtype));
    pointer *p = &w->pointers[w->count - 1];
    p->rank = parts.at[i].rank;
    p->sizes[0] = (int64_t)parts.at[i].count;
  }
  return NABLA_OK;
}

static nabla_status add_ports(writer *w) {
  const nabla_signature *f = w->function;
  w->count = 0;
  for (size_t i = 0; i < f->argument_count; i++)
    NABLA_TRY(add_port(w, &f->arguments[i], f->arguments[i].name, false));
  w->arguments = w->count;
  for (size_t i = 0; i < f->result_count; i++)
    NABLA_TRY(add_port(w, &f->results[i],
                       *f->results[i].name ? f->results[i].name : "y", true));
  return NABLA_OK;
}

/* ---- text --------------------------------------------------------------- */

/* Of a comment, which nothing in it may end. */
static void add_comment(writer *w, const char *text) {
  for (; *text; text++) {
    const char c = *text;
    const bool plain = c >= 0x20 && c < 0x7f && !strchr("*/\\?", c);
    nabla_text_add(&w->text, "%c", plain || c == '?' ? c : '_');
  }
}

static void describe_ports(writer *w, const nabla_port *ports, size_t count) {
  for (size_t i = 0; i < count; i++) {
    const nabla_text_80 is = nabla_describe_port(&ports[i]);
    nabla_text_add(&w->text, " *   ");
    add_comment(w, ports[i].name);
    nabla_text_add(&w->text, *ports[i].name ? ": " : "");
    add_comment(w, is.text);
    nabla_text_add(&w->text, "\n");
  }
}

static void add_parameters(writer *w) {
  for (size_t i = 0; i < w->count; i++) {
    const pointer *p = &w->pointers[i];
    nabla_text_add(&w->text, "    %s%s *%s,\n", p->is_result ? "" : "const ",
                   p->type, p->name);
    for (uint32_t d = 0; d < p->rank; d++)
      if (p->sizes[d] == NABLA_DYNAMIC)
        nabla_text_add(&w->text, "    int64_t %s_%" PRIu32 ",\n", p->name, d);
  }
}

/* The tables that nabla_object_call wants; each has a last entry that nobody
 * reads, for there are functions without arrays. */
static void add_tables(writer *w) {
  uint64_t words = 1;
  nabla_text_add(&w->text, "  static const nabla_object_port ports[] = {");
  for (size_t i = 0; i < w->count; i++) {
    const pointer *p = &w->pointers[i];
    nabla_text_add(&w->text, "{%" PRIu64 ", %" PRIu32 "}, ", p->element,
                   p->rank);
    words += 3 + 2 * (uint64_t)p->rank;
  }
  nabla_text_add(&w->text, "{1, 0}};\n  const int64_t sizes[] = {");
  for (size_t i = 0; i < w->count; i++) {
    const pointer *p = &w->pointers[i];
    for (uint32_t d = 0; d < p->rank; d++) {
      if (p->sizes[d] == NABLA_DYNAMIC)
        nabla_text_add(&w->text, "%s_%" PRIu32 ", ", p->name, d);
      else
        nabla_text_add(&w->text, "%" PRId64 ", ", p->sizes[d]);
    }
  }
  nabla_text_add(&w->text, "0};\n  void *const data[] = {");
  for (size_t i = 0; i < w->count; i++)
    nabla_text_add(&w->text, "(void *)(uintptr_t)%s, ", w->pointers[i].name);
  nabla_text_add(&w->text,
                 "NULL};\n"
                 "  int64_t words[%" PRIu64
                 "];\n"
                 "  void *places[%zu];\n"
                 "  nabla_object_run run;\n"
                 "  memset(&run, 0, sizeof run);\n",
                 words, w->count + 1);
}

static void add_call(writer *w) {
  nabla_text_add(&w->text,
                 "  return nabla_object_call(&run, " NABLA_ENTRY_PREFIX
                 "%s, ports, %zu, %zu, sizes, data,\n"
                 "                           words, places);\n"
                 "}\n\n",
                 w->function->name, w->arguments, w->count - w->arguments);
}

static void add_whole(writer *w) {
  const nabla_signature *f = w->function;
  nabla_text_add(&w->text,
                 "void " NABLA_ENTRY_PREFIX
                 "%s(const nabla_object_services *, void *const *,\n"
                 "    void *const *);\n\n"
                 "/* Takes\n",
                 f->name);
  describe_ports(w, f->arguments, f->argument_count);
  nabla_text_add(&w->text, " * and gives\n");
  describe_ports(w, f->results, f->result_count);
  nabla_text_add(&w->text,
                 " * pool: NULL for the calling thread alone. */\n"
                 "static inline int %s_%s(\n",
                 w->prefix, f->name);
  add_parameters(w);
  nabla_text_add(&w->text, "    const nabla_object_pool *pool) {\n");
  add_tables(w);
  nabla_text_add(&w->text, "  run.pool = pool;\n");
  add_call(w);
}

/* Rows of the weight are columns of the result. */
static void add_rows(writer *w) {
  const pointer *y = &w->pointers[w->arguments];
  const int64_t rows = y->sizes[1];
  nabla_text_add(&w->text,
                 "/* The same for rows [begin, end) of the weight, of %" PRId64
                 ", on the calling thread: columns\n"
                 " * of the result, others of which are left as they are. */\n"
                 "static inline int %s_%s_rows(\n",
                 rows, w->prefix, w->function->name);
  add_parameters(w);
  nabla_text_add(&w->text, "    int64_t begin, int64_t end) {\n");
  add_tables(w);
  nabla_text_add(&w->text,
                 "  if (begin < 0 || begin > end || end > %" PRId64
                 ") return NABLA_OBJECT_ARGUMENT;\n"
                 "  run.is_part = 1;\n"
                 "  run.rows = %" PRId64
                 ";\n"
                 "  run.begin = (uint64_t)begin;\n"
                 "  run.end = (uint64_t)end;\n",
                 rows, rows);
  add_call(w);
}

/* ---- the whole ---------------------------------------------------------- */

static nabla_status fail_name(const writer *w, const char *what,
                              const char *name) {
  const nabla_status status =
      nabla_fail(w->diag, NABLA_INVALID_ARGUMENT, "%s '%.80s' is no name in C",
                 what, name);
  nabla_diag_set_next(w->diag,
                      "use letters, digits and '_', at most %u of them",
                      NABLA_HEADER_MAX_NAME);
  return status;
}

static nabla_status check_names(const writer *w,
                                const nabla_manifest *manifest) {
  if (!is_identifier(w->prefix) || is_taken(w->prefix) || *w->prefix == '_' ||
      !strncmp(w->prefix, "nabla_", 6))
    return fail_name(w, "the header's name", w->prefix);
  for (size_t i = 0; i < manifest->function_count; i++)
    if (!is_identifier(manifest->functions[i].name))
      return fail_name(w, "function", manifest->functions[i].name);
  if (!manifest->call_count) return NABLA_OK;
  const nabla_status status = nabla_fail(
      w->diag, NABLA_UNSUPPORTED,
      "the program calls '%.80s': a header has no place for handlers of custom "
      "calls",
      manifest->calls[0].target);
  nabla_diag_set_next(w->diag, "save it as PROGRAM.so, and open it");
  return status;
}

/* Two functions of the header with one name: "f_rows" and the rows of "f". */
static bool has_function(const nabla_manifest *manifest, const char *name,
                         const char *suffix) {
  char whole[NAME_ROOM];
  (void)snprintf(whole, sizeof whole, "%s%s", name, suffix);
  return nabla_manifest_find(manifest, whole) != SIZE_MAX;
}

static void begin(writer *w) {
  nabla_text_add(&w->text,
                 "/* Made by nabla-compile with the object beside it: link "
                 "both. Arrays are row-major and\n"
                 " * aligned to their elements; results must not overlap "
                 "arguments. Functions return 0 or\n"
                 " * a NABLA_OBJECT_ value, may be called from several threads "
                 "at once, and allocate with\n"
                 " * malloc, and free, what they need. */\n"
                 "#ifndef NABLA_PROGRAM_%s_H\n"
                 "#define NABLA_PROGRAM_%s_H\n\n",
                 w->prefix, w->prefix);
  nabla_text_add(&w->text, "%s", nabla_object_prelude);
  nabla_text_add(&w->text,
                 "#ifdef __cplusplus\n"
                 "extern \"C\" {\n"
                 "#endif\n\n");
}

static nabla_status write_all(writer *w, const nabla_manifest *manifest,
                              bool (*is_product)(const void *self,
                                                 const char *function),
                              const void *self) {
  NABLA_TRY(check_names(w, manifest));
  begin(w);
  for (size_t i = 0; i < manifest->function_count; i++) {
    w->function = &manifest->functions[i];
    NABLA_TRY(add_ports(w));
    add_whole(w);
    const pointer *y = &w->pointers[w->arguments];
    if (is_product(self, w->function->name) && w->count - w->arguments == 1 &&
        y->rank == 2 && y->sizes[1] >= 0 &&
        !has_function(manifest, w->function->name, "_rows"))
      add_rows(w);
  }
  nabla_text_add(&w->text,
                 "#ifdef __cplusplus\n"
                 "}\n"
                 "#endif\n"
                 "#endif\n");
  return w->text.failed
             ? nabla_fail(w->diag, NABLA_NO_MEMORY, "no memory for a header")
             : NABLA_OK;
}

nabla_status nabla_header_write(
    const nabla_manifest *manifest, const char *prefix,
    bool (*is_product)(const void *self, const char *function),
    const void *self, const nabla_sink *to, nabla_diag *diag) {
  writer w = {.prefix = prefix, .diag = diag};
  w.pointers = calloc(NABLA_HEADER_MAX_PORTS, sizeof *w.pointers);
  if (!w.pointers)
    return nabla_fail(diag, NABLA_NO_MEMORY, "no memory for a header");
  nabla_status status = write_all(&w, manifest, is_product, self);
  if (!status) status = to->write(to->self, w.text.data, w.text.size, diag);
  nabla_text_deinit(&w.text);
  free(w.pointers);
  return status;
}
