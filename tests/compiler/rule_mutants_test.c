/* Files of rules with one mistake each: every line, word and value of valid
 * rules is left out, repeated, or exchanged for another. Each is compiled or
 * refused with a sentence; none ends the process. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nabla/compiler.h"
#include "tests/support/temp_folder.h"

static const char program[] =
    "!w = !nabla.implicit<4x16xf32, #nabla.nf4<block = 16>>\n"
    "func.func @f(%w: !w) -> tensor<4x16xf32> {\n"
    "  %y = nabla.relu %w : !w\n"
    "  %d = nabla.materialize %w : !w\n"
    "  %s = nabla.sub %d, %w : tensor<4x16xf32>, !w\n"
    "  %z = nabla.add %y, %s : tensor<4x16xf32>, tensor<4x16xf32>\n"
    "  return %z : tensor<4x16xf32>\n"
    "}\n";

static const char decode_first[] =
    "pdl.pattern @r : benefit(1) {\n"
    "  %tw = pdl.type\n"
    "  %nf4 = pdl.attribute = \"nf4\"\n"
    "  pdl.apply_native_constraint \"nabla.has_encoding\"(%tw, %nf4 : "
    "!pdl.type, !pdl.attribute)\n"
    "  %w = pdl.operand : %tw\n"
    "  %ty = pdl.type\n"
    "  %root = pdl.operation \"nabla.relu\"(%w : !pdl.value) -> (%ty : "
    "!pdl.type)\n"
    "  pdl.rewrite %root {\n"
    "    %dt = pdl.apply_native_rewrite \"nabla.dense_type\"(%tw : !pdl.type) "
    ": !pdl.type\n"
    "    %m = pdl.operation \"nabla.materialize\"(%w : !pdl.value) -> (%dt : "
    "!pdl.type)\n"
    "    %d = pdl.result 0 of %m\n"
    "    %y = pdl.operation \"nabla.relu\"(%d : !pdl.value)\n"
    "    pdl.replace %root with %y\n"
    "  }\n"
    "}\n";

static const char two_operations[] =
    "pdl.pattern @r : benefit(1) {\n"
    "  %w = pdl.operand\n"
    "  %u = pdl.type\n"
    "  %m = pdl.operation \"nabla.materialize\"(%w : !pdl.value) -> (%u : "
    "!pdl.type)\n"
    "  %d = pdl.result 0 of %m\n"
    "  %root = pdl.operation \"nabla.sub\"(%d, %w : !pdl.value, !pdl.value) "
    "-> (%u : !pdl.type)\n"
    "  pdl.rewrite %root {\n"
    "    %n = pdl.operation \"nabla.add\"(%d, %d : !pdl.value, !pdl.value)\n"
    "    pdl.replace %root with %n\n"
    "  }\n"
    "}\n";

static const char lists[] =
    "pdl.pattern @r : benefit(1) {\n"
    "  %w = pdl.operands\n"
    "  %u = pdl.types\n"
    "  %root = pdl.operation \"nabla.sub\"(%w : !pdl.range<value>) -> (%u : "
    "!pdl.range<type>)\n"
    "  pdl.rewrite %root {\n"
    "    %n = pdl.operation \"nabla.add\"(%w : !pdl.range<value>)\n"
    "    pdl.replace %root with %n\n"
    "  }\n"
    "}\n";

static nabla_compiler *compiler;
static temp_folder folder;
static char said[8192], path[512], mutant[4096];
static int refused, compiled;

static void listen(void *self, const char *text) {
  size_t used = strlen(said);
  (void)self;
  snprintf(said + used, sizeof said - used, "%s\n", text);
}

/* Names the file that ended the process. */
static void on_crash(int number) {
  if (write(STDERR_FILENO, mutant, strlen(mutant)) >= 0) _exit(128 + number);
}

static void try_mutant(void) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_executable *executable = NULL;
  const char *rules = path;
  const nabla_compile_options options = {
      .struct_size = sizeof options, .rules = &rules, .rule_count = 1};
  temp_folder_write(&folder, "rules.pdl.mlir", mutant, strlen(mutant));
  said[0] = '\0';
  if (nabla_compile_text(compiler, program, strlen(program), "p", &options,
                         &executable, &diag)) {
    refused++;
    cr_expect(strstr(said, "rules.pdl.mlir:") || strstr(said, "rule 'r"),
              "%s%s\nof\n%s", said, diag.what, mutant);
  } else {
    compiled++;
  }
  nabla_executable_close(executable);
}

/* Tries `text` with `length` bytes from `at` on replaced. */
static void put(const char *text, size_t at, size_t length, const char *by,
                size_t by_length) {
  snprintf(mutant, sizeof mutant, "%.*s%.*s%s", (int)at, text, (int)by_length,
           by, text + at + length);
  if (strcmp(mutant, text)) try_mutant();
}

static bool is_word(char c) { return isalnum((unsigned char)c) || c == '_'; }

/* The token that begins at `at`: a value, name, number or string, or one
 * character. */
static size_t token_at(const char *text, size_t at) {
  size_t end = at + 1;
  if (text[at] == '"') {
    while (text[end++] != '"') continue;
    return end - at;
  }
  if (!is_word(text[at]) && !strchr("%!@", text[at])) return 1;
  while (is_word(text[end]) || text[end] == '.') end++;
  return end - at;
}

static void mutate_tokens(const char *text) {
  for (size_t at = 0, length; text[at]; at += length) {
    length = isspace((unsigned char)text[at]) ? 1 : token_at(text, at);
    if (isspace((unsigned char)text[at])) continue;
    put(text, at, length, "", 0);
    for (size_t k = 0, other; text[at] == '%' && text[k]; k += other) {
      other = token_at(text, k);
      if (text[k] == '%' && k < at + 200 && at < k + 200)
        put(text, at, length, text + k, other);
    }
  }
}

/* Lines left out and repeated; groups in brackets and result types left out. */
static void mutate_lines(const char *text) {
  for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
    const size_t at = (size_t)(line - text);
    const size_t length = (size_t)(strchr(line, '\n') + 1 - line);
    put(text, at, length, "", 0);
    put(text, at, 0, line, length);
    for (size_t i = at; i < at + length; i++)
      if (text[i] == '(')
        put(text, i, strcspn(text + i, ")") + 1, "", 0);
      else if (!strncmp(text + i, " -> (", 5))
        put(text, i, strcspn(text + i, ")") + 1, "", 0);
  }
}

static void check(const char *text) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const nabla_compiler_options options = {
      .struct_size = sizeof options, .cache = "", .diagnostic = listen};
  temp_folder_create(&folder);
  temp_folder_path(&folder, "rules.pdl.mlir", path);
  signal(SIGSEGV, on_crash);
  signal(SIGABRT, on_crash);
  cr_assert_eq(nabla_compiler_create(&options, NULL, &compiler, &diag),
               NABLA_OK);
  snprintf(mutant, sizeof mutant, "%s", text);
  try_mutant();
  cr_expect_eq(compiled, 1, "%s", said);
  mutate_lines(text);
  mutate_tokens(text);
  cr_expect(refused > 50, "%d", refused);
  nabla_compiler_destroy(compiler);
  temp_folder_destroy(&folder);
}

Test(rule_mutants, decode_first) { check(decode_first); }
Test(rule_mutants, two_operations) { check(two_operations); }
Test(rule_mutants, lists) { check(lists); }
