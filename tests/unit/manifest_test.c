/* The manifest of compiled code: what is accepted, and that everything that is
 * missing, repeated, of another type or too large is refused. */
#include "lib/runtime/program/manifest.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/failing_allocator.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

#define HEAD "{\"abi\":1,\"functions\":["
#define TAIL "]}"
#define FUNCTION(arguments, results)                                         \
  HEAD "{\"name\":\"f\",\"arguments\":[" arguments "],\"results\":[" results \
       "]}" TAIL
#define PORT(dtype, shape) \
  "{\"name\":\"x\",\"dtype\":\"" dtype "\",\"shape\":[" shape "]}"
#define STATED(more) "{\"name\":\"x\",\"dtype\":\"F32\",\"shape\":[2]" more "}"
#define SHAPE(shape) FUNCTION(PORT("F32", shape), "")
#define PACKED(shape, encoding, format, components)              \
  FUNCTION("{\"name\":\"w\",\"dtype\":\"F32\",\"shape\":[" shape \
           "],\"encoding\":\"" encoding "\"" format              \
           ",\"components\":[" components "]}",                  \
           "")
#define BLOCK(n) ",\"granularity\":\"block\",\"block\":" n
#define ROWS     ",\"granularity\":\"row\""
#define PARTS(dtype, codes, scales)                              \
  "{\"name\":\"codes\",\"dtype\":\"" dtype "\",\"bytes\":" codes \
  "},{\"name\":\"scales\",\"dtype\":\"F32\",\"bytes\":" scales "}"
#define PART(name, dtype, bytes) \
  "{\"name\":\"" name "\",\"dtype\":\"" dtype "\",\"bytes\":" bytes "}"
#define FOUR  "1,1,1,1"
#define TEN_4 FOUR "," FOUR "," FOUR "," FOUR

typedef struct row {
  const char *text;
  nabla_status status;
  const char *what; /* a part of the message */
} row;

static const row rows[] = {
    /* accepted */
    {HEAD TAIL, NABLA_OK, ""},
    {" \n" HEAD " " TAIL "\t", NABLA_OK, ""},
    {FUNCTION("", ""), NABLA_OK, ""},
    {SHAPE(""), NABLA_OK, ""},
    {SHAPE("null,0,7"), NABLA_OK, ""},
    {SHAPE(TEN_4), NABLA_OK, ""},
    {FUNCTION(STATED(",\"donated\":true"), ""), NABLA_OK, ""},
    {FUNCTION(STATED(",\"state\":\"k\""), ""), NABLA_OK, ""},
    {FUNCTION(STATED(",\"donated\":false"), ""), NABLA_CORRUPT,
     "expected true"},
    {FUNCTION(STATED(",\"donated\":1"), ""), NABLA_CORRUPT, "expected true"},
    {FUNCTION(STATED(",\"donated\":true,\"donated\":true"), ""), NABLA_CORRUPT,
     "unknown or repeated"},
    {FUNCTION(STATED(",\"donated\":true,\"state\":\"k\""), ""), NABLA_CORRUPT,
     "unknown or repeated"},
    {FUNCTION("", STATED(",\"donated\":true")), NABLA_CORRUPT,
     "unknown or repeated"},
    {FUNCTION(PORT("BOOL", "2") "," PORT("F8_E4M3", "2"), PORT("BF16", "1")),
     NABLA_OK, ""},
    {PACKED("4,32", "nf4", BLOCK("64"), PARTS("U8", "64", "8")), NABLA_OK, ""},
    {PACKED("3,5", "fp4", BLOCK("16"), PARTS("U8", "8", "4")), NABLA_OK, ""},
    {PACKED("4,32", "int8", BLOCK("16"), PARTS("I8", "128", "32")), NABLA_OK,
     ""},
    {PACKED("4,32", "int8", ROWS, PARTS("U8", "128", "16")), NABLA_OK, ""},
    {PACKED("4,32", "int8", ROWS ",\"block\":32", PARTS("I8", "128", "16")),
     NABLA_OK, ""},
    {PACKED("4,32", "int4", BLOCK("64"),
            PARTS("U8", "64", "8") ",{\"name\":\"zero_points\",\"dtype\":"
                                   "\"U8\",\"bytes\":2}"),
     NABLA_OK, ""},
    {PACKED(
         "4,32", "nf4", BLOCK("16") ",\"nested_block\":256",
         PART("codes", "U8", "64") "," PART("scales.codes", "U8", "8") "," PART(
             "scales.scales", "F32",
             "4") "," PART("scales.offset", "F32",
                           "4") "," PART("scales.map", "F32", "1024")),
     NABLA_OK, ""},
    {PACKED("0,32", "nf4", BLOCK("64"), PARTS("U8", "0", "0")), NABLA_OK, ""},
    {PACKED("0,32", "int8", ROWS ",\"block\":1", PARTS("I8", "0", "0")),
     NABLA_OK, ""},
    {PACKED("4,64", "ggml<q4_0>", "", PART("blocks", "U8", "144")), NABLA_OK,
     ""},
    {PACKED("4,64", "ggml<q6_k>", "", PART("blocks", "I8", "210")), NABLA_OK,
     ""},
    {PACKED("0,7", "ggml<mxfp4>", "", PART("blocks", "U8", "0")), NABLA_OK, ""},
    {PACKED("4,64", "ggml<q4_0>", "", PART("blocks", "U8", "143")),
     NABLA_CORRUPT, "needs 'blocks', 144 of U8"},
    {PACKED("4,64", "ggml<q4_0>", "", PART("codes", "U8", "144")),
     NABLA_CORRUPT, "needs 'blocks', 144 of U8"},
    {PACKED("4,65", "ggml<q4_0>", "", PART("blocks", "U8", "144")),
     NABLA_CORRUPT, "whole number of blocks of q4_0"},
    {PACKED("4,64", "ggml<q4_0>", "", PARTS("U8", "144", "8")), NABLA_CORRUPT,
     "has 2 components, not 1"},
    {PACKED("null,64", "ggml<q4_0>", "", PART("blocks", "U8", "144")),
     NABLA_CORRUPT, "packed and of unknown size"},
    {PACKED("4,64", "ggml<q4_0>", BLOCK("32"), PART("blocks", "U8", "144")),
     NABLA_CORRUPT, "found 'granularity'"},
    {PACKED("4,64", "ggml<q9_9>", "", PART("blocks", "U8", "144")),
     NABLA_UNSUPPORTED, "does not know the encoding 'ggml<q9_9>'"},
    {PACKED("4,64", "ggml<q4_0", "", PART("blocks", "U8", "144")),
     NABLA_UNSUPPORTED, "does not know the encoding"},
    {PACKED("4,64", "ggml<>", "", PART("blocks", "U8", "144")),
     NABLA_UNSUPPORTED, "does not know the encoding"},
    {PACKED("null", "splat", "", ""), NABLA_OK, ""},
    {PACKED("4", "of_another_kind", "", ""), NABLA_OK, ""},
    /* the whole */
    {"", NABLA_CORRUPT, "expected"},
    {"[]", NABLA_CORRUPT, "expected an object"},
    {"{}", NABLA_CORRUPT, "expected the key 'abi'"},
    {"{\"functions\":[],\"abi\":1}", NABLA_CORRUPT, "found 'functions'"},
    {"{\"abi\":2,\"functions\":[],\"new\":1}", NABLA_UNSUPPORTED,
     "version 2 of the services; this build has 1"},
    {"{\"abi\":0}", NABLA_UNSUPPORTED, "version 0"},
    {"{\"abi\":\"1\"}", NABLA_CORRUPT, "a number"},
    {"{\"abi\":1.0}", NABLA_CORRUPT, "abi"},
    {"{\"abi\":-1}", NABLA_CORRUPT, "abi"},
    {"{\"abi\":99999999999999999999}", NABLA_TOO_LARGE, "abi"},
    {"{\"abi\":1}", NABLA_CORRUPT, "expected the key 'functions'"},
    {"{\"abi\":1,\"abi\":1,\"functions\":[]}", NABLA_CORRUPT, "found 'abi'"},
    {"{\"abi\":1,\"functions\":{}}", NABLA_CORRUPT, "expected functions"},
    {"{\"abi\":1,\"functions\":[1]}", NABLA_CORRUPT, "no object"},
    {"{\"abi\":1,\"functions\":[],\"x\":1}", NABLA_CORRUPT, "the key 'calls'"},
    {"{\"abi\":1,\"functions\":[],\"calls\":1}", NABLA_CORRUPT, "custom calls"},
    {"{\"abi\":1,\"functions\":[],\"calls\":[1]}", NABLA_CORRUPT,
     "a custom call is no object"},
    {"{\"abi\":1,\"functions\":[],\"calls\":[{\"target\":\"t\"}]}",
     NABLA_CORRUPT, "expected the key 'attributes'"},
    {"{\"abi\":1,\"functions\":[],\"calls\":[],\"x\":1}", NABLA_CORRUPT,
     "the end of the manifest"},
    {HEAD TAIL "x", NABLA_CORRUPT, ""},
    {HEAD TAIL HEAD TAIL, NABLA_CORRUPT, ""},
    {HEAD, NABLA_CORRUPT, ""},
    /* functions */
    {HEAD "{}" TAIL, NABLA_CORRUPT, "expected the key 'name'"},
    {HEAD "{\"name\":1}" TAIL, NABLA_CORRUPT, "a name"},
    {HEAD "{\"name\":\"\",\"arguments\":[],\"results\":[]}" TAIL, NABLA_CORRUPT,
     "no name"},
    {HEAD "{\"name\":\"a\\u0000b\"}" TAIL, NABLA_CORRUPT, ""},
    {HEAD "{\"name\":\"f\",\"results\":[],\"arguments\":[]}" TAIL,
     NABLA_CORRUPT, "expected the key 'arguments'"},
    {HEAD "{\"name\":\"f\",\"arguments\":[]}" TAIL, NABLA_CORRUPT,
     "expected the key 'results'"},
    {HEAD "{\"name\":\"f\",\"arguments\":[],\"results\":[],\"x\":1}" TAIL,
     NABLA_CORRUPT, "the end of a function"},
    {HEAD "{\"name\":\"f\",\"arguments\":null,\"results\":[]}" TAIL,
     NABLA_CORRUPT, "expected arguments"},
    {HEAD "{\"name\":\"f\",\"arguments\":[],\"results\":[]},"
          "{\"name\":\"f\",\"arguments\":[],\"results\":[]}" TAIL,
     NABLA_CORRUPT, "two functions are called 'f'"},
    /* arguments and results */
    {FUNCTION("7", ""), NABLA_CORRUPT, "one of the arguments is no object"},
    {FUNCTION("", "[]"), NABLA_CORRUPT, "one of the results is no object"},
    {FUNCTION("{}", ""), NABLA_CORRUPT, "expected the key 'name'"},
    {FUNCTION("{\"name\":\"x\",\"shape\":[]}", ""), NABLA_CORRUPT,
     "expected the key 'dtype'"},
    {FUNCTION("{\"name\":\"x\",\"dtype\":\"F32\"}", ""), NABLA_CORRUPT,
     "expected the key 'shape'"},
    {FUNCTION("{\"name\":\"x\",\"dtype\":\"F32\",\"shape\":[],\"shape\":[]}",
              ""),
     NABLA_CORRUPT, "found 'shape'"},
    {FUNCTION("{\"name\":\"x\",\"dtype\":32,\"shape\":[]}", ""), NABLA_CORRUPT,
     "a dtype"},
    {FUNCTION(PORT("f32", ""), ""), NABLA_CORRUPT, "'f32' is no dtype"},
    {FUNCTION(PORT("F4", "2"), ""), NABLA_CORRUPT, "'F4' is no dtype"},
    {SHAPE("-1"), NABLA_CORRUPT, "a dimension"},
    {SHAPE("1.5"), NABLA_CORRUPT, "a dimension"},
    {SHAPE("\"1\""), NABLA_CORRUPT, "a dimension"},
    {SHAPE("[]"), NABLA_CORRUPT, "a dimension"},
    {SHAPE("9223372036854775808"), NABLA_TOO_LARGE, "beyond"},
    {SHAPE("18446744073709551616"), NABLA_TOO_LARGE, "a dimension"},
    {SHAPE("9223372036854775807"), NABLA_TOO_LARGE, "overflows"},
    {SHAPE("4294967296,4294967296"), NABLA_TOO_LARGE, "overflows"},
    {SHAPE("4294967296,null,4294967296"), NABLA_TOO_LARGE, "overflows"},
    {SHAPE(TEN_4 ",1"), NABLA_TOO_LARGE, "more than 16 dimensions"},
    /* packed ones */
    {FUNCTION("",
              "{\"name\":\"\",\"dtype\":\"F32\",\"shape\":[4],"
              "\"encoding\":\"splat\",\"components\":[]}"),
     NABLA_CORRUPT, "a result has a key that is unknown"},
    {PACKED("4,32", "", "", ""), NABLA_CORRUPT, "no name"},
    {PACKED("4,32", "nf9", "", PARTS("U8", "64", "8")), NABLA_UNSUPPORTED,
     "does not know the encoding 'nf9'"},
    {PACKED("4,32", "nf9", BLOCK("64"), ""), NABLA_CORRUPT,
     "expected the key 'components'"},
    {PACKED("4,32", "nf4", "", PARTS("U8", "64", "8")), NABLA_CORRUPT,
     "expected the key 'granularity'"},
    {PACKED("4,32", "nf4", ",\"granularity\":\"block\"", ""), NABLA_CORRUPT,
     "expected the key 'block'"},
    {PACKED("4,32", "nf4", ",\"granularity\":\"tile\",\"block\":64", ""),
     NABLA_CORRUPT, "'tile' is no granularity"},
    {PACKED("4,32", "nf4", ",\"granularity\":1", ""), NABLA_CORRUPT,
     "a granularity"},
    {PACKED("4,32", "nf4", BLOCK("48"), PARTS("U8", "64", "12")), NABLA_CORRUPT,
     "block size 48 is not allowed"},
    {PACKED("4,32", "nf4", BLOCK("0"), PARTS("U8", "64", "8")), NABLA_CORRUPT,
     "block size 0"},
    {PACKED("4,32", "nf4", BLOCK("\"64\""), ""), NABLA_CORRUPT, "a block size"},
    {PACKED("4,32", "nf4", ROWS, PARTS("U8", "64", "16")), NABLA_CORRUPT,
     "no form with one scale per row"},
    {PACKED("4,32", "int8", ROWS ",\"block\":16", PARTS("I8", "128", "16")),
     NABLA_CORRUPT, "a block of 16 for rows of 32"},
    {PACKED("4,0", "int8", ROWS, PARTS("I8", "0", "0")), NABLA_CORRUPT,
     "no values"},
    {PACKED("null,32", "nf4", BLOCK("64"), ""), NABLA_CORRUPT,
     "packed and of unknown size"},
    {PACKED("0,4611686018427387904,4", "int8", ROWS, PARTS("I8", "0", "0")),
     NABLA_TOO_LARGE, "a row overflows"},
    {PACKED("4,32", "nf4", BLOCK("64"), PARTS("U8", "63", "8")), NABLA_CORRUPT,
     "needs 'codes', 64 of U8"},
    {PACKED("4,32", "nf4", BLOCK("64"), PARTS("U8", "64", "12")), NABLA_CORRUPT,
     "needs 'scales', 8 of F32"},
    {PACKED("4,32", "nf4", BLOCK("64"), PARTS("F32", "64", "8")), NABLA_CORRUPT,
     "of F32"},
    {PACKED("4,32", "nf4", BLOCK("64"), ""), NABLA_CORRUPT,
     "has 0 components, not 2"},
    {PACKED("4,32", "nf4", BLOCK("64"),
            "{\"name\":\"codes\",\"dtype\":\"U8\",\"bytes\":64}"),
     NABLA_CORRUPT, "has 1 components, not 2"},
    {PACKED("4,32", "nf4", BLOCK("64"),
            PARTS("U8", "64", "8") "," PARTS("U8", "64", "8")),
     NABLA_CORRUPT, "has 4 components, not 2"},
    {PACKED("4,32", "nf4", BLOCK("64"),
            "{\"name\":\"scales\",\"dtype\":\"F32\",\"bytes\":8},"
            "{\"name\":\"codes\",\"dtype\":\"U8\",\"bytes\":64}"),
     NABLA_CORRUPT, "a component 'scales' of 8 bytes"},
    {PACKED("4,32", "nf4", BLOCK("64"), "1"), NABLA_CORRUPT, "objects"},
    {PACKED("4,32", "int4", BLOCK("64") ",\"nested_block\":48",
            PARTS("U8", "64", "8")),
     NABLA_CORRUPT, "a nested_block of 48"},
    {PACKED("4,32", "int4", BLOCK("64") ",\"nested_block\":256",
            PARTS("U8", "64", "8")),
     NABLA_CORRUPT, "has 2 components, not 5"},
    {PACKED("4,32", "nf4", BLOCK("64"),
            PARTS("U8", "64", "8") ",{\"name\":\"zero_points\",\"dtype\":"
                                   "\"U8\",\"bytes\":2}"),
     NABLA_CORRUPT, "has no zero points"},
    {PACKED("4,32", "int4", BLOCK("64"),
            PARTS("U8", "64", "8") ",{\"name\":\"zero_points\",\"dtype\":"
                                   "\"U8\",\"bytes\":3}"),
     NABLA_CORRUPT, "needs 'zero_points', 2 of U8"},
};

static nabla_diag diag;

static nabla_status parse(const nabla_allocator *allocator, const char *text) {
  nabla_manifest manifest;
  diag = (nabla_diag)NABLA_DIAG_INIT;
  const nabla_status status =
      nabla_manifest_parse(allocator, text, strlen(text), &manifest, &diag);
  if (!status) nabla_manifest_deinit(&manifest);
  return status;
}

Test(manifest, everything_is_checked) {
  for (size_t i = 0; i < COUNT(rows); i++) {
    failing_allocator memory;
    failing_allocator_init(&memory, 0);
    const nabla_status status = parse(&memory.allocator, rows[i].text);
    cr_expect_eq(status, rows[i].status, "%s: %s %s", rows[i].text,
                 nabla_status_name(status), diag.what);
    cr_expect(strstr(diag.what, rows[i].what) != NULL, "%s: '%s' lacks '%s'",
              rows[i].text, diag.what, rows[i].what);
    if (status) cr_expect_str_eq(diag.file, "manifest");
    cr_expect(failing_allocator_is_clean(&memory));
  }
}

/* `head`, `count` times `item` with commas, `tail`; free with free(). */
static char *repeat(const char *head, const char *item, size_t count,
                    const char *tail) {
  const size_t size = strlen(item) + 16;
  char *text = malloc(strlen(head) + count * size + strlen(tail) + 1);
  cr_assert(text != NULL);
  char *at = stpcpy(text, head);
  for (size_t i = 0; i < count; i++)
    at += snprintf(at, size, item, i ? "," : "", i);
  (void)stpcpy(at, tail);
  return text;
}

Test(manifest, counts_are_limited) {
  static const char function[] =
      "%s{\"name\":\"f%zu\",\"arguments\":[],\"results\":[]}";
  static const char port[] =
      "%s{\"name\":\"x%zu\",\"dtype\":\"F32\",\"shape\":[]}";
  static const struct {
    const char *head, *item, *tail;
    size_t limit;
  } limits[] = {
      {HEAD, function, TAIL, NABLA_MANIFEST_MAX_FUNCTIONS},
      {HEAD "{\"name\":\"f\",\"arguments\":[", port, "],\"results\":[]}" TAIL,
       NABLA_MANIFEST_MAX_PORTS},
      {HEAD "{\"name\":\"f\",\"arguments\":[],\"results\":[", port, "]}" TAIL,
       NABLA_MANIFEST_MAX_PORTS},
  };
  for (size_t i = 0; i < COUNT(limits); i++)
    for (size_t more = 0; more < 2; more++) {
      char *text = repeat(limits[i].head, limits[i].item,
                          limits[i].limit + more, limits[i].tail);
      cr_expect_eq(parse(NULL, text), more ? NABLA_TOO_LARGE : NABLA_OK, "%s",
                   diag.what);
      free(text);
    }
}

Test(manifest, its_size_is_limited) {
  const size_t size = (size_t)NABLA_MANIFEST_MAX + 1;
  char *text = malloc(size + 1);
  cr_assert(text != NULL);
  memset(text, ' ', size);
  text[size] = 0;
  cr_expect_eq(parse(NULL, text), NABLA_TOO_LARGE);
  free(text);
}

Test(manifest, functions_and_ports_are_linked) {
  static const char text[] =
      HEAD "{\"name\":\"a\",\"arguments\":[],\"results\":[]},"
           "{\"name\":\"b\",\"arguments\":[" PORT("F32", "1") "],\"results\":["
           PORT("F16", "2") "," PORT("I8", "3") "]},"
           "{\"name\":\"c\\u00e9\",\"arguments\":[],\"results\":["
           PORT("F64", "4") "]}" TAIL;
  nabla_manifest manifest;
  cr_assert_eq(nabla_manifest_parse(NULL, text, strlen(text), &manifest, &diag),
               0);
  cr_assert_eq(manifest.function_count, 3);
  cr_expect_eq(manifest.port_count, 4);
  cr_expect_eq(nabla_manifest_find(&manifest, "a"), 0);
  cr_expect_eq(nabla_manifest_find(&manifest, "c\xc3\xa9"), 2);
  cr_expect_eq(nabla_manifest_find(&manifest, "d"), SIZE_MAX);
  const nabla_signature *b = &manifest.functions[1];
  cr_expect_eq(b->arguments[0].dtype, NABLA_DTYPE_F32);
  cr_expect_eq(b->results[1].dtype, NABLA_DTYPE_I8);
  cr_expect_eq(manifest.functions[2].results[0].shape[0], 4);
  nabla_manifest_deinit(&manifest);
}

#define RANKS(text) "{\"abi\":1,\"functions\":[],\"ranks\":" text "}"

/* An order of devices has each rank once. */
Test(manifest, devices) {
  static const struct {
    const char *text;
    nabla_status status;
  } cases[] = {
      {RANKS("3"), NABLA_OK},
      {RANKS("3,\"devices\":[2,0,1]"), NABLA_OK},
      {RANKS("3,\"devices\":[2,0,1],\"calls\":[]"), NABLA_OK},
      {RANKS("3,\"devices\":[]"), NABLA_CORRUPT},
      {RANKS("3,\"devices\":[2,0]"), NABLA_CORRUPT},
      {RANKS("3,\"devices\":[2,0,2]"), NABLA_CORRUPT},
      {RANKS("3,\"devices\":[2,0,3]"), NABLA_CORRUPT},
      {RANKS("3,\"devices\":[2,0,1,0]"), NABLA_CORRUPT},
      {RANKS("3,\"devices\":[2,0,-1]"), NABLA_CORRUPT},
      {RANKS("3,\"devices\":2"), NABLA_CORRUPT},
      {RANKS("65,\"devices\":[0]"), NABLA_TOO_LARGE},
  };
  for (size_t i = 0; i < COUNT(cases); i++)
    cr_expect_eq(parse(NULL, cases[i].text), cases[i].status, "%s",
                 cases[i].text);
  nabla_manifest manifest;
  cr_assert_eq(nabla_manifest_parse(NULL, cases[1].text, strlen(cases[1].text),
                                    &manifest, &diag),
               0);
  cr_expect(manifest.has_devices);
  cr_expect_eq(manifest.devices[0], 2);
  cr_expect_eq(manifest.devices[2], 1);
  nabla_manifest_deinit(&manifest);
}

/* Every text cut short is refused. */
Test(manifest, no_part_of_it_is_enough) {
  static const char whole[] =
      PACKED("4,32", "nf4", BLOCK("64"), PARTS("U8", "64", "8"));
  for (size_t size = 0; size < sizeof whole - 1; size++) {
    nabla_manifest manifest;
    cr_expect_eq(nabla_manifest_parse(NULL, whole, size, &manifest, &diag),
                 NABLA_CORRUPT, "%zu", size);
  }
}
