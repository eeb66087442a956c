/* Any text as a config.json: putting a quantization_config in and taking it
 * out again changes nothing else. */
#include <string.h>

#include "quant/huggingface/hf_config.h"
#include "tests/fuzz/fuzz.h"

const char fuzz_shape[] = "J";

/* The parser's string, and two texts of at most 1 MiB that grow by half. */
enum { FIXED_PEAK = 1 << 20, PEAK_PER_BYTE = 16 };

static void read_it(const nabla_allocator *allocator, const nabla_buffer *text,
                    nabla_hf_config *out) {
  fuzz_require(
      !nabla_hf_config_read(allocator, text->data, text->size, out, NULL),
      "what was written is read");
}

/* Splices and reads the result; 0 when it is too long. */
static int splice(const nabla_allocator *allocator, fuzz_span text,
                  const nabla_hf_config *from, const nabla_hf_value *value,
                  nabla_buffer *out, nabla_hf_config *result) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_buffer_init(out, allocator, "text", NABLA_HF_CONFIG_MAX);
  const nabla_status status =
      nabla_hf_config_splice(text.data, text.size, from, value, out, &diag);
  fuzz_check_diag(status, &diag);
  fuzz_require(!status || status == NABLA_TOO_LARGE, "a splice succeeds");
  if (!status) read_it(allocator, out, result);
  return !status;
}

static void check(const nabla_allocator *allocator, fuzz_span text,
                  const nabla_hf_config *config) {
  static const char *const skip[] = {"a.b", "\"\\\n"};
  static const size_t lengths[] = {3, 3};
  const nabla_hf_value value = {.type = "nf4",
                                .compute_dtype = "bfloat16",
                                .has_skip = 1,
                                .skip = skip,
                                .skip_length = lengths,
                                .skip_count = 2};
  nabla_buffer with, without;
  nabla_hf_config changed, back;
  if (splice(allocator, text, config, &value, &with, &changed)) {
    fuzz_require(changed.has_member && !changed.is_null, "it is in");
    fuzz_require(!strcmp(changed.quantization.method, "bitsandbytes") &&
                     !strcmp(changed.quantization.type, "nf4") &&
                     changed.quantization.load_in_4bit,
                 "it says what it was told to");
    fuzz_require(!strcmp(changed.dtype, config->dtype), "the rest stays");
    fuzz_require(changed.members == config->members + !config->has_member,
                 "no other member comes or goes");
    const fuzz_span again = {with.data, with.size};
    if (splice(allocator, again, &changed, NULL, &without, &back)) {
      fuzz_require(!back.has_member, "it is out");
      fuzz_require(
          config->has_member || (without.size == text.size &&
                                 !memcmp(without.data, text.data, text.size)),
          "in and out changes nothing");
    }
    nabla_buffer_deinit(&without);
  }
  nabla_buffer_deinit(&with);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_world world;
  fuzz_world_init(&world, 0);
  const nabla_allocator *allocator = &world.memory.allocator;
  const fuzz_span text = {data, size};
  nabla_hf_config config = {.members = 7};
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_status status =
      nabla_hf_config_read(allocator, data, size, &config, &diag);
  fuzz_check_diag(status, &diag);
  if (status)
    fuzz_require(config.members == 7, "outputs stay as they were");
  else
    check(allocator, text, &config);
  fuzz_world_end(&world, FIXED_PEAK + PEAK_PER_BYTE * size);
  return 0;
}
