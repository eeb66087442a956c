/* Any text as the description of a packed tensor: parsed for each layout, and
 * put into a file around it whose other tensors are as it says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/json/json.h"
#include "nabla/measure.h"
#include "nabla/safetensors.h"
#include "quant/formats/packed.h"
#include "tests/fuzz/fuzz.h"
#include "tests/support/codec_calls.h"

const char fuzz_shape[] = "J";

#define PATH "/m.safetensors"

enum {
  FIXED_PEAK = 16 << 20,
  MAX_BYTES = 1 << 16,
  TABLE_VALUES = 16,
  MAX_KEYS = 32
};

static const struct variant {
  nabla_layout layout;
  const char *encoding; /* bitsandbytes: that of the suffix */
  const char *description, *scales;
} variants[] = {
    {NABLA_LAYOUT_BITSANDBYTES, "nf4", "w" NABLA_SUFFIX_STATE "nf4",
     "w" NABLA_SUFFIX_ABSMAX},
    {NABLA_LAYOUT_BITSANDBYTES, "fp4", "w" NABLA_SUFFIX_STATE "fp4",
     "w" NABLA_SUFFIX_ABSMAX},
    {NABLA_LAYOUT_NABLA, NULL, "w" NABLA_SUFFIX_FORMAT,
     "w" NABLA_SUFFIX_SCALES},
};

/* 1 when this build can decode what is described. */
static int is_supported(const nabla_description *text) {
  nabla_codec codec;
  return !text->unsupported[0] && text->elements > 0 &&
         !select_codec(&text->format, NABLA_ISA_SCALAR, &codec, NULL);
}

static int same_format(const nabla_format *a, const nabla_format *b) {
  return nabla_format_equal(a, b);
}

/* A newer version may repeat its keys, as far as this build can tell. */
static int may_repeat(const nabla_description *text) {
  return text->unsupported[0] != 0;
}

/* No key of the text stands in it twice. */
static void check_keys(const nabla_allocator *allocator,
                       const nabla_description *text, fuzz_span input) {
  char keys[MAX_KEYS][32];
  size_t count = 0;
  nabla_json *json = NULL;
  nabla_json_event event;
  fuzz_require(!nabla_json_create_span(allocator, input.data, input.size, 0,
                                       &json, NULL) &&
                   !nabla_json_next(json, &event, NULL),
               "what was accepted is JSON");
  while (!nabla_json_next(json, &event, NULL) && event.kind == NABLA_JSON_KEY &&
         count < MAX_KEYS) {
    (void)snprintf(keys[count], sizeof keys[count], "%s", event.text);
    for (size_t i = 0; i < count; i++)
      fuzz_require(strcmp(keys[i], keys[count]) != 0 || may_repeat(text),
                   "keys are not repeated");
    count++;
    fuzz_require(!nabla_json_next(json, &event, NULL) &&
                     !nabla_json_skip(json, &event, NULL),
                 "every key has a value");
  }
  nabla_json_destroy(json);
}

/* What this build would write for a description reads as the description. */
static void write_again(const nabla_allocator *allocator,
                        const struct variant *variant,
                        const nabla_description *text) {
  nabla_tensor tensor = {.name = "w",
                         .name_length = 1,
                         .dtype = text->dtype,
                         .rank = text->rank,
                         .shape = text->shape,
                         .elements = text->elements};
  if (!is_supported(text) ||
      nabla_layout_objection(variant->layout, &tensor, &text->format))
    return;
  nabla_description_text out;
  nabla_diag diag = NABLA_DIAG_INIT;
  fuzz_require(!nabla_description_write(&tensor, &text->format, variant->layout,
                                        text->nested_offset, &out, &diag),
               "a description can be written");
  nabla_description_source source = {variant->layout, variant->encoding,
                                     out.data, out.size, 0};
  nabla_description again;
  fuzz_require(!nabla_description_parse(allocator, &source, &again, &diag),
               "what was written parses");
  fuzz_require(
      same_format(&again.format, &text->format) && again.dtype == text->dtype &&
          again.rank == text->rank &&
          !memcmp(again.shape, text->shape, text->rank * sizeof *text->shape),
      "and says the same");
}

/* One tensor of the file to make. */
typedef struct part {
  const char *name;
  nabla_dtype dtype;
  uint64_t count; /* elements; the shape where it is not given */
  const void *data;
  uint64_t bytes;
  const uint64_t *shape;
  uint32_t rank;
} part;

static void write_file(fuzz_world *world, const part *parts, size_t count) {
  nabla_safetensors_writer *writer = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status = nabla_safetensors_writer_create(
      &world->memory.allocator, &world->files.os, &writer, &diag);
  size_t id;
  for (size_t i = 0; i < count && !status; i++)
    status = nabla_safetensors_writer_add(
        writer, parts[i].name, strlen(parts[i].name), parts[i].dtype,
        parts[i].shape ? parts[i].shape : &parts[i].count,
        parts[i].shape ? parts[i].rank : 1, &id, &diag);
  if (!status) status = nabla_safetensors_writer_begin(writer, PATH, 1, &diag);
  for (size_t i = 0; i < count && !status; i++)
    status = nabla_safetensors_writer_write(writer, i, 0, parts[i].data,
                                            (size_t)parts[i].bytes, &diag);
  if (!status) status = nabla_safetensors_writer_commit(writer, &diag);
  nabla_safetensors_writer_destroy(writer);
  fuzz_require(!status, "the file can be written");
}

static void fill_table(const char *encoding, float table[TABLE_VALUES]) {
  nabla_format format = {.encoding = nabla_encoding_find(encoding),
                         .granularity = NABLA_PER_BLOCK,
                         .block = TABLE_VALUES};
  nabla_codec codec;
  fuzz_require(!select_codec(&format, NABLA_ISA_SCALAR, &codec, NULL),
               "the table's codec");
  uint8_t codes[TABLE_VALUES / 2];
  for (int i = 0; i < TABLE_VALUES / 2; i++)
    codes[i] = (uint8_t)(2 * i << 4 | (2 * i + 1));
  const float one = 1;
  decode_f32(&codec, codes, &one, TABLE_VALUES, table);
}

/* Codes and scales as described where they are small, else too few. */
static nabla_packed_size sizes_of(const nabla_description *text, int parsed) {
  nabla_packed_size size = {8, 1, 4};
  nabla_packed_size said;
  if (parsed && text->format.encoding &&
      !nabla_format_size(&text->format, text->elements, &said, NULL) &&
      said.code_bytes <= MAX_BYTES && said.scales <= MAX_BYTES / sizeof(float))
    size = said;
  return size;
}

/* Codes and scales that decode to numbers. */
static void fill_bytes(const nabla_format *format, nabla_packed_size size,
                       uint8_t *codes, uint8_t *scales) {
  const int known = format->encoding != NULL;
  const int is_float = known && format->encoding->bits == 8 &&
                       strcmp(format->encoding->name, "int8") != 0;
  const uint64_t width =
      known ? nabla_scale_info_of(format->scale)->bytes : sizeof(float);
  for (uint64_t i = 0; i < size.code_bytes; i++) /* none is no number */
    codes[i] = (uint8_t)(is_float ? (i * 37 + 11) & 0x3f : i * 37 + 11);
  for (uint64_t i = 0; i < size.scales; i++) /* the highest byte: about 1 */
    scales[i * width + width - 1] = (uint8_t)(width == 1 ? 120 + i % 7 : 0x3f);
}

/* What the parts of a file are made of. */
typedef struct material {
  const nabla_description *text;
  nabla_packed_size size;
  uint8_t *codes, *scales;
  float *nested;
  uint64_t groups, column[2];
  float table[NABLA_DYNAMIC8_CODES], ones[NABLA_DYNAMIC8_CODES];
  part parts[8];
  size_t count;
} material;

static void add(material *m, const char *name, nabla_dtype dtype,
                uint64_t count, const void *data, uint64_t bytes) {
  m->parts[m->count++] = (part){name, dtype, count, data, bytes, NULL, 0};
}

static void add_nested(material *m, int foreign) {
  add(m,
      foreign ? "w" NABLA_SUFFIX_NESTED_ABSMAX : "w" NABLA_SUFFIX_NESTED_SCALES,
      NABLA_DTYPE_F32, m->groups, m->nested, m->groups * sizeof *m->nested);
  add(m, foreign ? "w" NABLA_SUFFIX_NESTED_MAP : "w" NABLA_SUFFIX_NESTED_TABLE,
      NABLA_DTYPE_F32, NABLA_DYNAMIC8_CODES, m->ones, sizeof m->ones);
  if (foreign) return;
  add(m, "w" NABLA_SUFFIX_NESTED_OFFSET, NABLA_DTYPE_F32, 1, m->ones,
      sizeof *m->ones);
  m->parts[m->count - 1].shape = &m->size.scales; /* of rank 0 */
}

/* (N4): codes are a vector, or a column for a weight of rank 1, and those of
 * int8 are I8. */
static void shape_codes(material *m, int foreign) {
  const nabla_format *format = &m->text->format;
  if (!format->encoding || foreign) return;
  if (!strcmp(format->encoding->name, "int8"))
    m->parts[0].dtype = NABLA_DTYPE_I8;
  if (m->text->rank != 1) return;
  m->column[0] = m->size.code_bytes;
  m->column[1] = 1;
  m->parts[0].shape = m->column;
  m->parts[0].rank = 2;
}

static void build(fuzz_world *world, const struct variant *variant,
                  fuzz_span input, const nabla_description *text,
                  nabla_packed_size size) {
  const nabla_format *format = &text->format;
  const int known = format->encoding != NULL, foreign = variant->encoding != 0;
  const nabla_scale_info *scale = nabla_scale_info_of(format->scale);
  const uint64_t width = known ? scale->bytes : sizeof(float);
  const uint64_t block =
      text->nested_block ? text->nested_block : NABLA_DYNAMIC8_BLOCK;
  material m = {.text = text, .size = size, .ones = {1}};
  m.groups = (size.scales + block - 1) / block;
  m.codes = calloc((size_t)size.code_bytes + 1, 1);
  m.scales = calloc((size_t)size.scales + 1, sizeof(float));
  m.nested = calloc((size_t)m.groups + 1, sizeof *m.nested);
  fuzz_require(m.codes && m.scales && m.nested, "memory for components");
  fill_bytes(format, size, m.codes, m.scales);
  add(&m, "w", NABLA_DTYPE_U8, size.code_bytes, m.codes, size.code_bytes);
  shape_codes(&m, foreign);
  add(&m, variant->scales, known ? scale->dtype : NABLA_DTYPE_F32, size.scales,
      m.scales, size.scales * width);
  add(&m, variant->description, NABLA_DTYPE_U8, input.size, input.data,
      input.size);
  if (foreign) {
    fill_table(variant->encoding, m.table);
    add(&m, "w" NABLA_SUFFIX_MAP, NABLA_DTYPE_F32, TABLE_VALUES, m.table,
        TABLE_VALUES * sizeof *m.table);
  }
  if (known && format->zero_point)
    add(&m, "w" NABLA_SUFFIX_ZERO_POINTS, m.parts[0].dtype, size.scales,
        m.scales, size.scales);
  if (format->scale == NABLA_SCALE_DYNAMIC8) add_nested(&m, foreign);
  write_file(world, m.parts, m.count);
  free(m.nested);
  free(m.codes);
  free(m.scales);
}

static void check_opened(const nabla_checkpoint *checkpoint,
                         const nabla_environment *environment,
                         const nabla_description *text) {
  fuzz_require(nabla_checkpoint_count(checkpoint) == 1, "one logical tensor");
  nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, 0);
  fuzz_require(
      tensor.rank == text->rank && tensor.elements == text->elements &&
          (tensor.rank == 0 || !memcmp(tensor.shape, text->shape,
                                       tensor.rank * sizeof *tensor.shape)),
      "the shape is the description's");
  fuzz_require((tensor.unsupported == NULL) == is_supported(text),
               "supported or not, as described");
  if (tensor.unsupported) return;
  fuzz_require(
      same_format(&tensor.format, &text->format) && tensor.dtype == text->dtype,
      "the format is the description's");
  nabla_statistics statistics;
  nabla_diag diag = NABLA_DIAG_INIT;
  fuzz_require(
      !nabla_tensor_statistics(checkpoint, 0, environment, &statistics, &diag),
      "it can be decoded");
  uint64_t codes = 0;
  for (size_t i = 0; i < 256; i++) codes += statistics.codes[i];
  fuzz_require(codes == text->elements && statistics.nan == 0 &&
                   statistics.elements == text->elements,
               "every element once");
}

static void open_file(fuzz_world *world, const nabla_description *text,
                      nabla_status parsed, int exact) {
  nabla_environment environment = {.allocator = &world->memory.allocator,
                                   .os = &world->files.os};
  nabla_checkpoint *checkpoint = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status =
      nabla_checkpoint_open(PATH, &environment, &checkpoint, &diag);
  fuzz_check_diag(status, &diag);
  if (parsed)
    fuzz_require(status == parsed, "a bad description is a bad file");
  else if (exact || !is_supported(text))
    fuzz_require(!status, "a file as described opens");
  else
    fuzz_require(status == NABLA_CORRUPT || status == NABLA_TOO_LARGE,
                 "too few codes are an error");
  if (!status) check_opened(checkpoint, &environment, text);
  nabla_checkpoint_close(checkpoint);
}

static void check_text(const nabla_allocator *allocator,
                       const struct variant *variant, fuzz_span input,
                       const nabla_description *text) {
  fuzz_require(text->rank <= NABLA_TENSOR_FILE_MAX_RANK, "the rank is bounded");
  if (!text->unsupported[0])
    fuzz_require(fuzz_is_product(text->shape, text->rank, text->elements),
                 "the product of the shape");
  check_keys(allocator, text, input);
  write_again(allocator, variant, text);
}

/* A file with everything the description needs, then one that lacks a byte of
 * the codes or a scale. */
static void try_files(fuzz_world *world, const struct variant *variant,
                      fuzz_span input, const nabla_description *text,
                      nabla_status parsed) {
  nabla_packed_size size = sizes_of(text, !parsed), said;
  int exact = !parsed && text->format.encoding &&
              !nabla_format_size(&text->format, text->elements, &said, NULL) &&
              said.code_bytes == size.code_bytes && said.scales == size.scales;
  build(world, variant, input, text, size);
  open_file(world, text, parsed, exact);
  if (!exact || size.scales == 0) return;
  if (input.size % 2)
    size.code_bytes--;
  else
    size.scales--;
  build(world, variant, input, text, size);
  open_file(world, text, parsed, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_span input = {data, size};
  for (size_t i = 0; i < sizeof variants / sizeof *variants; i++) {
    const struct variant *variant = &variants[i];
    fuzz_world world;
    fuzz_world_init(&world, 0);
    const nabla_allocator *allocator = &world.memory.allocator;
    nabla_description_source source = {variant->layout, variant->encoding, data,
                                       size, 0};
    nabla_description text = {.rank = 99};
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_status status =
        nabla_description_parse(allocator, &source, &text, &diag);
    fuzz_check_diag(status, &diag);
    fuzz_require(!status || text.rank == 99, "outputs stay as they were");
    if (!status) check_text(allocator, variant, input, &text);
    if (size <= NABLA_CHECKPOINT_MAX_STATE)
      try_files(&world, variant, input, &text, status);
    fuzz_world_end(&world, FIXED_PEAK);
  }
  return 0;
}
