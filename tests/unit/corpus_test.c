/* Archives of fuzzer inputs: each escape, lines that are none, memory of the
 * input's size. tests/scripts/corpus_test.py tests the writer. */
#include "tests/support/corpus.h"

#include <criterion/criterion.h>
#include <string.h>

#include "tests/support/temp_folder.h"

typedef struct seen {
  char names[64];
  uint8_t bytes[64];
  size_t size;
} seen;

static void note(void *context, const char *name, const uint8_t *data,
                 size_t size) {
  seen *s = context;
  cr_assert_lt(strlen(s->names) + strlen(name) + 2, sizeof s->names);
  cr_assert_leq(s->size + size, sizeof s->bytes);
  strncat(s->names, name, sizeof s->names - strlen(s->names) - 1);
  strncat(s->names, "|", sizeof s->names - strlen(s->names) - 1);
  memcpy(s->bytes + s->size, data, size);
  s->size += size;
}

static long read_text(const char *text, size_t size, seen *s) {
  temp_folder folder;
  char path[256];
  temp_folder_create(&folder);
  temp_folder_write(&folder, "some.txt", text, size);
  temp_folder_path(&folder, "some.txt", path);
  long count = corpus_read(path, note, s);
  temp_folder_destroy(&folder);
  return count;
}

Test(corpus, inputs_are_read) {
  static const char text[] =
      "# a remark\n"
      "first \"a b\\\\\\\"\\n\\r\\t\\x00\\xff~\"\n"
      "no\\thing \"\"\n"
      "third \"\\x41\\x0a\"\n";
  static const char wanted[] = "a b\\\"\n\r\t\0\xff~A\n";
  seen s = {0};
  cr_assert_eq(read_text(text, sizeof text - 1, &s), 3);
  cr_expect_str_eq(s.names, "first|no\\thing|third|");
  cr_assert_eq(s.size, sizeof wanted - 1);
  cr_expect_arr_eq(s.bytes, wanted, s.size);
}

Test(corpus, an_empty_archive_has_none) {
  seen s = {0};
  cr_expect_eq(read_text("", 0, &s), 0);
  cr_expect_eq(read_text("# a\n", 4, &s), 0);
}

Test(corpus, other_lines_are_refused) {
  static const char *const lines[] = {
      "a\n",         "a \n",         "a b\n",         " \"\"\n",
      "a \"\n",      "a \"\\\"\n",   "a \"b\"c\n",    "a \"\"b\"\n",
      "a \"\\q\"\n", "a \"\\x4\"\n", "a \"\\xFF\"\n", "a \"\\x\"\n",
      "a \"\t\"\n",  "a \"\x80\"\n", "a \"b\"",       "\n",
      "a  \"b\"\n",
  };
  for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
    seen s = {0};
    cr_expect_eq(read_text(lines[i], strlen(lines[i]), &s), -1, "line %zu", i);
    cr_expect_eq(s.size, 0, "line %zu", i);
  }
  seen s = {0};
  cr_expect_eq(read_text("a \"b\0c\"\n", 8, &s), -1);
  cr_expect_eq(corpus_read("/nothing/of/the/kind", note, &s), -1);
}
