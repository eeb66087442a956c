/* quant/huggingface/hf_config.h: a quantization_config is put into a
 * config.json, replaced or taken out, and no other byte changes; what is wrong
 * is named with its offset. */
#include "quant/huggingface/hf_config.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/failing_allocator.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

TestSuite(hf_config, .timeout = 60);

/* A value without modules, on one line. */
#define NULL_VALUE                                                          \
  "{\"_load_in_4bit\": true, \"_load_in_8bit\": false, "                    \
  "\"bnb_4bit_compute_dtype\": \"float16\", \"bnb_4bit_quant_storage\": "   \
  "\"uint8\", \"bnb_4bit_quant_type\": \"nf4\", "                           \
  "\"bnb_4bit_use_double_quant\": false, "                                  \
  "\"llm_int8_enable_fp32_cpu_offload\": false, "                           \
  "\"llm_int8_has_fp16_weight\": false, \"llm_int8_skip_modules\": null, "  \
  "\"llm_int8_threshold\": 6.0, \"load_in_4bit\": true, \"load_in_8bit\": " \
  "false, \"quant_method\": \"bitsandbytes\"}"

static const nabla_hf_value plain = {.type = "nf4", .compute_dtype = "float16"};

static nabla_hf_config read_good(const char *text) {
  nabla_hf_config config;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_hf_config_read(NULL, text, strlen(text), &config, &diag),
               NABLA_OK, "%s: %s at %llu", text, diag.what,
               (unsigned long long)diag.offset);
  return config;
}

static void expect(const char *text, const nabla_hf_value *value,
                   const char *wanted) {
  const nabla_hf_config config = read_good(text);
  nabla_buffer out;
  nabla_buffer_init(&out, NULL, "text", NABLA_HF_CONFIG_MAX);
  cr_assert_eq(
      nabla_hf_config_splice(text, strlen(text), &config, value, &out, NULL),
      NABLA_OK);
  cr_expect(out.size == strlen(wanted) && !memcmp(out.data, wanted, out.size),
            "of %s came\n%.*s\nnot\n%s", text, (int)out.size, out.data, wanted);
  nabla_buffer_deinit(&out);
}

Test(hf_config, insert_on_one_line) {
  expect("{}", &plain, "{\"quantization_config\": " NULL_VALUE "}");
  expect(" { } ", &plain, " {\"quantization_config\": " NULL_VALUE " } ");
  expect("{\"a\": 1e-05}", &plain,
         "{\"a\": 1e-05, \"quantization_config\": " NULL_VALUE "}");
  expect("\xef\xbb\xbf{\"a\": [1, {}]} \n", &plain,
         "\xef\xbb\xbf{\"a\": [1, {}], \"quantization_config\": " NULL_VALUE
         "} \n");
  /* the key in another place, or within a string, is not the member */
  expect("{\"b\": {\"quantization_config\": 1}}", &plain,
         "{\"b\": {\"quantization_config\": 1}, "
         "\"quantization_config\": " NULL_VALUE "}");
  expect("{\"b\": \"\\\"quantization_config\\\": {}\"}", &plain,
         "{\"b\": \"\\\"quantization_config\\\": {}\", "
         "\"quantization_config\": " NULL_VALUE "}");
  expect("{\"a\": [NaN, -Infinity, Infinity]}", &plain,
         "{\"a\": [NaN, -Infinity, Infinity], "
         "\"quantization_config\": " NULL_VALUE "}");
}

Test(hf_config, replace_leaves_the_rest) {
  expect("{\"a\": 1, \"quantization_config\" : {\"x\": [{}]} , \"b\": 2}",
         &plain,
         "{\"a\": 1, \"quantization_config\" : " NULL_VALUE " , \"b\": 2}");
  expect("{\"a\": 1, \"quantization_config\": null}", &plain,
         "{\"a\": 1, \"quantization_config\": " NULL_VALUE "}");
  /* an escaped key is the same key */
  expect("{\"a\": 1, \"quantization\\u005fconfig\": {}}", &plain,
         "{\"a\": 1, \"quantization\\u005fconfig\": " NULL_VALUE "}");
}

Test(hf_config, compact_stays_compact) {
  const char *const skip[] = {"a.b", "c\"d"};
  const size_t lengths[] = {3, 3};
  const nabla_hf_value value = {.type = "int8",
                                .compute_dtype = "bfloat16",
                                .double_quant = 1,
                                .has_skip = 1,
                                .skip = skip,
                                .skip_length = lengths,
                                .skip_count = 2};
  expect("{\"a\":1}", &value,
         "{\"a\":1,\"quantization_config\":{\"_load_in_4bit\":false,"
         "\"_load_in_8bit\":true,\"bnb_4bit_compute_dtype\":\"bfloat16\","
         "\"bnb_4bit_quant_storage\":\"uint8\",\"bnb_4bit_quant_type\":\"fp4\","
         "\"bnb_4bit_use_double_quant\":true,"
         "\"llm_int8_enable_fp32_cpu_offload\":false,"
         "\"llm_int8_has_fp16_weight\":false,"
         "\"llm_int8_skip_modules\":[\"a.b\",\"c\\\"d\"],"
         "\"llm_int8_threshold\":6.0,\"load_in_4bit\":false,"
         "\"load_in_8bit\":true,\"quant_method\":\"bitsandbytes\"}}");
}

#define LINES(nl, in)                                                        \
  "\"quantization_config\": {" nl in in "\"_load_in_4bit\": true," nl in in  \
  "\"_load_in_8bit\": false," nl in in                                       \
  "\"bnb_4bit_compute_dtype\": \"float16\"," nl in in                        \
  "\"bnb_4bit_quant_storage\": \"uint8\"," nl in in                          \
  "\"bnb_4bit_quant_type\": \"nf4\"," nl in in                               \
  "\"bnb_4bit_use_double_quant\": false," nl in in                           \
  "\"llm_int8_enable_fp32_cpu_offload\": false," nl in in                    \
  "\"llm_int8_has_fp16_weight\": false," nl in in                            \
  "\"llm_int8_skip_modules\": [" nl in in in "\"m\"" nl in in "]," nl in in  \
  "\"llm_int8_threshold\": 6.0," nl in in "\"load_in_4bit\": true," nl in in \
  "\"load_in_8bit\": false," nl in in                                        \
  "\"quant_method\": \"bitsandbytes\"" nl in "}"

Test(hf_config, lines_keep_their_indentation_and_ends) {
  const char *const skip[] = {"m"};
  const size_t lengths[] = {1};
  nabla_hf_value value = plain;
  value.has_skip = 1;
  value.skip = skip;
  value.skip_length = lengths;
  value.skip_count = 1;
  expect("{\n  \"a\": 1\n}\n", &value,
         "{\n  \"a\": 1,\n  " LINES("\n", "  ") "\n}\n");
  expect("{\r\n\t\"a\": 1,\r\n\t\"b\": 2\r\n}", &value,
         "{\r\n\t\"a\": 1,\r\n\t\"b\": 2,\r\n\t" LINES("\r\n", "\t") "\r\n}");
  expect("{\n}", &value, "{\n  " LINES("\n", "  ") "\n}");
  expect("{\n    \"quantization_config\": {\n    },\n    \"z\": 0\n}", &value,
         "{\n    " LINES("\n", "    ") ",\n    \"z\": 0\n}");
}

Test(hf_config, take_out) {
  expect("{\"a\": 1}", NULL, "{\"a\": 1}");
  expect("{\"quantization_config\": {}}", NULL, "{}");
  expect("{\n  \"quantization_config\": {}\n}", NULL, "{\n}");
  expect("{\n  \"quantization_config\": {},\n  \"b\": 2\n}\n", NULL,
         "{\n  \"b\": 2\n}\n");
  expect("{\n  \"a\": 1,\n  \"quantization_config\": {\"x\": 1}\n}\n", NULL,
         "{\n  \"a\": 1\n}\n");
  expect("{\r\n \"a\": 1,\r\n \"quantization_config\": null,\r\n \"b\": 2\r\n}",
         NULL, "{\r\n \"a\": 1,\r\n \"b\": 2\r\n}");
  expect("{\"a\":1 , \"quantization_config\" : {} , \"b\":2}", NULL,
         "{\"a\":1 , \"b\":2}");
}

Test(hf_config, what_it_says) {
  const nabla_hf_config c = read_good(
      "{\"dtype\": \"bfloat16\", \"quantization_config\": {\"quant_method\": "
      "\"x\", \"quant_method\": \"bitsandbytes\", \"load_in_4bit\": true, "
      "\"load_in_8bit\": 1, \"bnb_4bit_quant_type\": \"nf4\", \"more\": "
      "{\"quant_method\": \"no\"}, \"bnb_4bit_compute_dtype\": 3}, \"z\": 1}");
  cr_expect_str_eq(c.dtype, "bfloat16");
  cr_expect_str_eq(c.quantization.method, "bitsandbytes");
  cr_expect_str_eq(c.quantization.type, "nf4");
  cr_expect_str_eq(c.quantization.compute_dtype, "");
  cr_expect(c.quantization.load_in_4bit);
  cr_expect(!c.quantization.load_in_8bit);
  cr_expect(c.has_member && !c.is_null);
  cr_expect_eq(c.begin, 45u);
  const nabla_hf_config cut =
      read_good("{\"torch_dtype\": \"a text that is longer than any dtype\"}");
  cr_expect_str_eq(cut.dtype, "a text that is longer than any ");
}

Test(hf_config, what_is_wrong_is_named) {
  static const struct {
    const char *text;
    nabla_status status;
    uint64_t offset;
    const char *what;
  } rows[] = {
      {"", NABLA_CORRUPT, 0, "found the end"},
      {"[]", NABLA_CORRUPT, 0, "the object of a config.json"},
      {"{\"a\": 1} x", NABLA_CORRUPT, 9, "nothing more"},
      {"{\"a\": 1,}", NABLA_CORRUPT, 8, "a key in quotes"},
      {"{\"a\": Inf}", NABLA_CORRUPT, 9, "Infinity"},
      {"{\"a\": -Inf}", NABLA_CORRUPT, 10, "Infinity"},
      {"{\"a\": nan}", NABLA_CORRUPT, 7, "null"},
      {"\xef\xbb\xbf[]", NABLA_CORRUPT, 3, "the object of a config.json"},
      {"{\"quantization_config\": {}, \"quantization_config\": {}}",
       NABLA_CORRUPT, 28, "two members"},
      {"{\"quantization_config\": {}, \"a\": 1, \"quantization\\u005fconfig\": "
       "{}}",
       NABLA_CORRUPT, 36, "two members"},
      {"{\"quantization_config\": []}", NABLA_CORRUPT, 24, "is not an object"},
      {"{\"a\": [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[", NABLA_TOO_LARGE, 37,
       "nested deeper"},
  };
  for (size_t i = 0; i < COUNT(rows); i++) {
    nabla_hf_config config = {.key = 7};
    nabla_diag diag = NABLA_DIAG_INIT;
    cr_expect_eq(nabla_hf_config_read(NULL, rows[i].text, strlen(rows[i].text),
                                      &config, &diag),
                 rows[i].status, "%s", rows[i].text);
    cr_expect_not_null(strstr(diag.what, rows[i].what), "%s: %s", rows[i].text,
                       diag.what);
    cr_expect_eq(diag.offset, rows[i].offset, "%s: %llu", rows[i].text,
                 (unsigned long long)diag.offset);
    cr_expect_eq(config.key, 7u, "the result is untouched");
  }
}

Test(hf_config, one_byte_more_than_the_limit) {
  static char text[NABLA_HF_CONFIG_MAX + 1];
  nabla_hf_config config;
  nabla_diag diag = NABLA_DIAG_INIT;
  memset(text, ' ', sizeof text);
  memcpy(text, "{}", 2);
  cr_expect_eq(nabla_hf_config_read(NULL, text, sizeof text - 1, &config, NULL),
               NABLA_OK);
  cr_expect_eq(nabla_hf_config_read(NULL, text, sizeof text, &config, &diag),
               NABLA_TOO_LARGE);
  cr_expect_not_null(strstr(diag.what, "1048576"), "%s", diag.what);
}

Test(hf_config, a_result_above_the_limit_is_refused) {
  static const char text[] = "{\"a\": 1}";
  const nabla_hf_config config = read_good(text);
  nabla_buffer out;
  nabla_buffer_init(&out, NULL, "text", 100);
  cr_expect_eq(nabla_hf_config_splice(text, sizeof text - 1, &config, &plain,
                                      &out, NULL),
               NABLA_TOO_LARGE);
  nabla_buffer_deinit(&out);
}

Test(hf_config, every_allocation_fails_once) {
  static const char text[] = "{\"a\": 1, \"quantization_config\": {\"b\": {}}}";
  nabla_status status = NABLA_NO_MEMORY;
  for (size_t n = 1; status; n++) {
    failing_allocator failing;
    nabla_hf_config config;
    nabla_buffer out;
    failing_allocator_init(&failing, n);
    nabla_buffer_init(&out, &failing.allocator, "text", NABLA_HF_CONFIG_MAX);
    status = nabla_hf_config_read(&failing.allocator, text, sizeof text - 1,
                                  &config, NULL);
    if (!status)
      status = nabla_hf_config_splice(text, sizeof text - 1, &config, &plain,
                                      &out, NULL);
    nabla_buffer_deinit(&out);
    cr_assert(status == NABLA_NO_MEMORY || (!status && !failing.failures));
    cr_assert(failing_allocator_is_clean(&failing));
    cr_assert_lt(n, 100u);
  }
}
