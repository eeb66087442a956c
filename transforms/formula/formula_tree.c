/* Parsing formulas and walking their trees; see formula_tree.h. */
#include "transforms/formula/formula_tree.h"

#include <assert.h>
#include <ctype.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/c_locale.h"

static const nabla_formula formulas[] = {
#define FORMULA(id, arguments, text) {#id, arguments, text, NULL},
#include "transforms/formula/formulas.def"
#undef FORMULA
#define MATH(id, type, arguments, text) {#id "_f32", arguments, text, NULL},
#include "transforms/formula/math.def"
#undef MATH
};
enum {
#define FORMULA(id, arguments, text) FORMULA_##id,
#include "transforms/formula/formulas.def"
#undef FORMULA
  OWN_FORMULAS, /* those of formulas.def come first */
  FORMULAS = sizeof formulas / sizeof *formulas,
  MAX_NAME = 24
};

static const struct {
  const char *name;
  int arguments;
  const char *refusal;
} words[] = {
#define WORD(id, arguments, refusal) {#id, arguments, refusal},
#include "transforms/formula/words.def"
#undef WORD
};

static const struct {
  const char *name;
  float numbers[NABLA_FORMULA_TABLE_VALUES];
} tables[] = {
#define TABLE(id, ...) {#id, {__VA_ARGS__}},
#include "transforms/formula/tables.def"
#undef TABLE
};

static const struct {
  char sign;
  const char *op, *f;
} arithmetic[] = {
#define ARITHMETIC(name, sign) {sign, #name, #name "f"},
#define COMPARISON(id, sign, cmpf, kind)
#include "transforms/formula/signs.def"
#undef COMPARISON
#undef ARITHMETIC
};

static const struct {
  const char *sign, *f;
  int kind;
} comparisons[] = {
#define ARITHMETIC(name, sign)
#define COMPARISON(id, sign, cmpf, kind) {sign, "cmpf " #cmpf ",", kind},
#include "transforms/formula/signs.def"
#undef COMPARISON
#undef ARITHMETIC
};

const nabla_formula *nabla_formulas(size_t *out_count) {
  *out_count = OWN_FORMULAS;
  return formulas;
}

const nabla_formula *nabla_formulas_of_f32(size_t *out_count) {
  *out_count = FORMULAS - OWN_FORMULAS;
  return formulas + OWN_FORMULAS;
}

bool nabla_formula_is_wide(const nabla_formula *formula) {
  enum { f32, f64 };
  static const bool wide[] = {
#define MATH(id, type, arguments, text) type,
#include "transforms/formula/math.def"
#undef MATH
      true};
  const size_t at = (size_t)(formula - formulas);
  return at < OWN_FORMULAS || wide[at - OWN_FORMULAS];
}

const nabla_formula *nabla_formula_of_f32(const char *name) {
  const size_t length = strlen(name);
  for (size_t i = OWN_FORMULAS; i < FORMULAS; i++)
    if (!strncmp(formulas[i].name, name, length) &&
        !strcmp(formulas[i].name + length, "_f32"))
      return &formulas[i];
  return NULL;
}

const nabla_formula *nabla_formula_find(const char *name) {
  for (size_t i = 0; i < FORMULAS; i++)
    if (!strcmp(formulas[i].name, name)) return &formulas[i];
  return NULL;
}

int nabla_formula_argument_count(const nabla_formula *formula) {
  int count = 1;
  for (const char *at = formula->arguments; *at; at++) count += *at == ' ';
  return count;
}

const char *nabla_formula_word_name(nabla_formula_word word) {
  return words[word].name;
}

const char *nabla_formula_word_refusal(nabla_formula_word word) {
  return words[word].refusal;
}

/* The row of a sign. */
static size_t row_of(char sign) {
  size_t at = 0;
  while (arithmetic[at].sign != sign) {
    at++;
    assert(at < sizeof arithmetic / sizeof *arithmetic);
  }
  return at;
}

const char *nabla_formula_arithmetic_op(char sign) {
  return arithmetic[row_of(sign)].op;
}

const char *nabla_formula_arithmetic_f(char sign) {
  return arithmetic[row_of(sign)].f;
}

const char *nabla_formula_comparison_f(nabla_formula_comparison how) {
  return comparisons[how].f;
}

int nabla_formula_comparison_kind(nabla_formula_comparison how) {
  return comparisons[how].kind;
}

/* ---- parsing ---- */

typedef struct parser {
  nabla_formula_tree *tree;
  const char *at;
  const char *error; /* the first one; at it parsing ends */
  int depth;
  int name_count;
  char names[NABLA_FORMULA_MAX_NAMES][MAX_NAME];
} parser;

static int choice(parser *p);

static int fail(parser *p, const char *error) {
  if (!p->error) p->error = error;
  return -1;
}

static void skip_blanks(parser *p) {
  while (*p->at == ' ') p->at++;
}

static bool take(parser *p, const char *word) {
  skip_blanks(p);
  size_t length = strlen(word);
  if (p->error || strncmp(p->at, word, length) != 0) return false;
  p->at += length;
  return true;
}

/* True for a name; `out` is empty where there is none. */
static bool take_name(parser *p, char out[MAX_NAME]) {
  size_t length = 0;
  skip_blanks(p);
  *out = 0;
  if (p->error || isdigit((unsigned char)*p->at)) return false;
  while (isalnum((unsigned char)p->at[length]) || p->at[length] == '_')
    length++;
  if (length >= MAX_NAME) {
    (void)fail(p, "a name is too long");
    return false;
  }
  memcpy(out, p->at, length);
  out[length] = 0;
  p->at += length;
  return length > 0;
}

static int add(parser *p, nabla_formula_node node) {
  if (p->error) return -1;
  if (p->tree->count == NABLA_FORMULA_MAX_NODES)
    return fail(p, "the formula is too long");
  node.first = node.next = -1;
  p->tree->nodes[p->tree->count] = node;
  return p->tree->count++;
}

/* `node` with these operands. */
static int with(parser *p, nabla_formula_node node, int count,
                const int *operands) {
  int made = add(p, node);
  if (p->error) return -1;
  int *link = &p->tree->nodes[made].first;
  for (int i = 0; i < count; i++) {
    *link = operands[i];
    link = &p->tree->nodes[operands[i]].next;
  }
  return made;
}

static int number(parser *p, double value) {
  return add(
      p, (nabla_formula_node){.kind = NABLA_FORMULA_NUMBER, .number = value});
}

static int call_formula(parser *p, const char *name, int count,
                        const int *operands) {
  const nabla_formula *callee = nabla_formula_find(name);
  if (!callee) return fail(p, "no function has this name");
  if (count != nabla_formula_argument_count(callee))
    return fail(p, "wrong number of arguments");
  return with(
      p, (nabla_formula_node){.kind = NABLA_FORMULA_CALL, .callee = callee},
      count, operands);
}

/* The numbers of a table, or NULL. */
static const float *table_named(const char *name) {
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
    if (!strcmp(tables[i].name, name)) return tables[i].numbers;
  return NULL;
}

static int call(parser *p, const char *name) {
  int operands[NABLA_FORMULA_MAX_OPERANDS], count = 0;
  do {
    if (count == NABLA_FORMULA_MAX_OPERANDS)
      return fail(p, "a function has too many arguments");
    operands[count++] = choice(p);
  } while (take(p, ","));
  if (!take(p, ")")) return fail(p, "')' is missing");
  for (int i = 0; i < NABLA_FORMULA_WORDS; i++) {
    if (strcmp(name, words[i].name) != 0) continue;
    if (words[i].arguments ? count != words[i].arguments : count < 2)
      return fail(p, "wrong number of arguments");
    return with(p,
                (nabla_formula_node){.kind = NABLA_FORMULA_WORD,
                                     .word = (nabla_formula_word)i},
                count, operands);
  }
  nabla_formula_node node = {.kind = NABLA_FORMULA_TABLE,
                             .table = table_named(name)};
  return node.table && count == 1 ? with(p, node, count, operands)
                                  : call_formula(p, name, count, operands);
}

static int named(parser *p, const char *name) {
  if (!strcmp(name, "inf")) return number(p, (double)__builtin_inff());
  if (!strcmp(name, "nan")) return number(p, (double)__builtin_nanf(""));
  for (int i = p->name_count - 1; i >= 0; i--)
    if (!strcmp(p->names[i], name))
      return add(p,
                 (nabla_formula_node){.kind = NABLA_FORMULA_NAME, .slot = i});
  return fail(p, "nothing has this name");
}

static int factor(parser *p) {
  char name[MAX_NAME];
  if (take(p, "(")) {
    int inside = choice(p);
    return take(p, ")") ? inside : fail(p, "')' is missing");
  }
  if (take(p, "-")) {
    if (++p->depth > NABLA_FORMULA_MAX_DEPTH)
      return fail(p, "the formula is nested too deeply");
    int operand = factor(p);
    p->depth--;
    return with(p, (nabla_formula_node){.kind = NABLA_FORMULA_NEGATE}, 1,
                &operand);
  }
  if (isdigit((unsigned char)*p->at)) {
    char *end;
    double value = nabla_c_strtod(p->at, &end);
    p->at = end;
    return number(p, value);
  }
  if (!take_name(p, name)) return fail(p, "a number or a name is missing");
  return take(p, "(") ? call(p, name) : named(p, name);
}

/* Operands of `next` with one of two signs between them, from the left. */
static int chain(parser *p, const char *signs, int (*next)(parser *)) {
  int left = next(p);
  for (;;) {
    skip_blanks(p);
    if (p->error || !*p->at || !strchr(signs, *p->at)) return left;
    char sign = *p->at++;
    int operands[2] = {left, next(p)};
    left = with(
        p, (nabla_formula_node){.kind = NABLA_FORMULA_ARITHMETIC, .sign = sign},
        2, operands);
  }
}

static int product(parser *p) { return chain(p, "*/", factor); }

static int sum(parser *p) { return chain(p, "+-", product); }

static int choice_of(parser *p) {
  int left = sum(p);
  for (size_t i = 0; i < sizeof comparisons / sizeof *comparisons; i++) {
    if (!take(p, comparisons[i].sign)) continue;
    int operands[4] = {left, sum(p)};
    if (!take(p, "?")) return fail(p, "'?' is missing");
    operands[2] = choice(p);
    if (!take(p, ":")) return fail(p, "':' is missing");
    operands[3] = choice(p);
    return with(p,
                (nabla_formula_node){.kind = NABLA_FORMULA_CHOICE,
                                     .comparison = (nabla_formula_comparison)i},
                4, operands);
  }
  return left;
}

static int choice(parser *p) {
  if (++p->depth > NABLA_FORMULA_MAX_DEPTH)
    return fail(p, "the formula is nested too deeply");
  int node = choice_of(p);
  p->depth--;
  return node;
}

static void define(parser *p, const char *name) {
  if (p->name_count == NABLA_FORMULA_MAX_NAMES)
    (void)fail(p, "the formula has too many names");
  else
    memcpy(p->names[p->name_count++], name, MAX_NAME);
}

/* The arguments' names, a blank between them. */
static void parse_arguments(parser *p, const char *arguments) {
  char name[MAX_NAME];
  p->at = arguments;
  while (take_name(p, name)) define(p, name);
  if (*p->at) (void)fail(p, "arguments are names");
  p->tree->arguments = p->name_count;
}

const char *nabla_formula_parse(const nabla_formula *formula,
                                nabla_formula_tree *out, size_t *at) {
  char name[MAX_NAME];
  parser p = {.tree = out};
  out->count = out->root_count = 0;
  parse_arguments(&p, formula->arguments);
  p.at = formula->text;
  for (bool more = true; more && !p.error;) {
    const char *start = p.at;
    more = take_name(&p, name) && take(&p, "=") && *p.at != '=';
    if (!more) p.at = start;
    int root = choice(&p);
    if (out->root_count == NABLA_FORMULA_MAX_NAMES)
      (void)fail(&p, "the formula has too many names");
    if (p.error) break;
    out->roots[out->root_count++] = root;
    if (!more) break;
    define(&p, name);
    if (!take(&p, ";")) (void)fail(&p, "';' is missing");
  }
  skip_blanks(&p);
  if (!p.error && *p.at) (void)fail(&p, "the formula should end here");
  if (at) *at = (size_t)(p.at - formula->text);
  return p.error;
}

/* ---- emitting ---- */

static nabla_formula_tree trees[FORMULAS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The table is part of the program, and a test parses each row. */
static void parse_all(void) {
  for (size_t i = 0; i < FORMULAS; i++) {
    const char *error = nabla_formula_parse(&formulas[i], &trees[i], NULL);
    assert(!error);
    (void)error;
  }
}

typedef struct walk {
  const nabla_formula_tree *tree;
  const nabla_formula_emitter *emitter;
  void *self;
  nabla_formula_value slots[NABLA_FORMULA_MAX_NAMES];
} walk;

static nabla_formula_value emit(walk *w, int index);

static nabla_formula_value emit_choice(walk *w,
                                       const nabla_formula_node *node) {
  nabla_formula_value x[3];
  int at = node->first;
  for (int i = 0; i < 2; i++, at = w->tree->nodes[at].next) x[i] = emit(w, at);
  x[0] = w->emitter->compare(w->self, node->comparison, x);
  for (int i = 1; i < 3; i++, at = w->tree->nodes[at].next) x[i] = emit(w, at);
  return w->emitter->select(w->self, x);
}

static nabla_formula_value emit_call(walk *w, const nabla_formula *callee,
                                     int count, const nabla_formula_value *x) {
  nabla_formula_value out;
  if (w->emitter->call && w->emitter->call(w->self, callee, count, x, &out))
    return out;
  return nabla_formula_evaluate(callee, w->emitter, w->self, x);
}

static nabla_formula_value emit(walk *w, int index) {
  const nabla_formula_node *node = &w->tree->nodes[index];
  nabla_formula_value x[NABLA_FORMULA_MAX_OPERANDS];
  int count = 0;
  if (node->kind == NABLA_FORMULA_CHOICE) return emit_choice(w, node);
  for (int at = node->first; at >= 0; at = w->tree->nodes[at].next)
    x[count++] = emit(w, at);
  switch (node->kind) {
    case NABLA_FORMULA_NUMBER:
      return w->emitter->number(w->self, node->number);
    case NABLA_FORMULA_NAME:
      return w->slots[node->slot];
    case NABLA_FORMULA_NEGATE:
      return w->emitter->negate(w->self, x[0]);
    case NABLA_FORMULA_ARITHMETIC:
      return w->emitter->arithmetic(w->self, node->sign, x);
    case NABLA_FORMULA_WORD:
      return w->emitter->word(w->self, node->word, count, x);
    case NABLA_FORMULA_TABLE:
      assert(w->emitter->table);
      return w->emitter->table(w->self, node->table, x[0]);
    default:
      return emit_call(w, node->callee, count, x);
  }
}

nabla_formula_value nabla_formula_evaluate(const nabla_formula *formula,
                                           const nabla_formula_emitter *emitter,
                                           void *self,
                                           const nabla_formula_value *x) {
  (void)pthread_once(&once, parse_all);
  walk w = {formula->tree ? formula->tree : &trees[formula - formulas],
            emitter,
            self,
            {{0}}};
  nabla_formula_value value = {0};
  for (int i = 0; i < w.tree->arguments; i++) w.slots[i] = x[i];
  for (int i = 0; i < w.tree->root_count; i++) {
    value = emit(&w, w.tree->roots[i]);
    const int at = w.tree->arguments + i;
    if (at >= 0 && at < NABLA_FORMULA_MAX_NAMES) w.slots[at] = value;
  }
  return value;
}
