/* Notes on what is probably not meant: patterns without effect, an output that
 * would be refused or has no room, files that stay behind. */
#include <errno.h>
#include <regex.h>
#include <string.h>

#include "tools/nabla-quant/cli.h"

#define PATH_ROOM 4096
#define SHOWN     3 /* names of files that stay behind */

/* ---- patterns ---- */

/* Patterns of one kind, compiled; those of a plan are known to be good. */
typedef struct patterns {
  regex_t compiled[NABLA_MAX_PATTERNS];
  size_t count;
} patterns;

typedef struct filters {
  patterns only, skip, rules;
  int unsure; /* a pattern could not be matched: there is no memory */
} filters;

static void add_pattern(patterns *all, const char *text) {
  regex_t *next = &all->compiled[all->count];
  all->count += !regcomp(next, text, REG_EXTENDED | REG_NOSUB);
}

static void drop(patterns *all) {
  while (all->count) regfree(&all->compiled[--all->count]);
}

static int matches(filters *all, const regex_t *pattern, const char *name) {
  errno = 0; /* glibc's regexec says "no match" where it lacks memory */
  const int code = regexec(pattern, name, 0, NULL, 0);
  if (code == REG_ESPACE || (code && errno == ENOMEM)) all->unsure = 1;
  return !code;
}

static int any_matches(filters *all, const patterns *some, const char *name) {
  for (size_t i = 0; i < some->count; i++)
    if (matches(all, &some->compiled[i], name)) return 1;
  return 0;
}

static void warn_unmatched(cli *c, const nabla_checkpoint *checkpoint,
                           filters *all, const patterns *some,
                           const char *option) {
  const nabla_quantize_options *o = &c->options.quantize;
  const char *const *texts = some == &all->only ? o->only : o->skip;
  size_t count = nabla_checkpoint_count(checkpoint);
  for (size_t i = 0; i < some->count; i++) {
    size_t k = 0;
    while (k < count && !matches(all, &some->compiled[i],
                                 nabla_checkpoint_tensor(checkpoint, k).name))
      k++;
    if (k == count && !all->unsure)
      cli_note(c, "warning: --%s '%s' matches no tensor", option, texts[i]);
  }
}

/* Why a rule took nothing. */
static const char *idle_reason(const nabla_checkpoint *checkpoint, filters *all,
                               const regex_t *rule) {
  int matched = 0;
  for (size_t i = 0; i < nabla_checkpoint_count(checkpoint); i++) {
    const char *name = nabla_checkpoint_tensor(checkpoint, i).name;
    if (!matches(all, rule, name)) continue;
    matched = 1;
    if (any_matches(all, &all->skip, name)) continue;
    if (all->only.count && !any_matches(all, &all->only, name)) continue;
    return "takes no tensor: what it matches is packed already or has an "
           "earlier rule";
  }
  return matched ? "takes no tensor: all that it matches is skipped, or "
                   "outside --only"
                 : "matches no tensor";
}

static void warn_rules(cli *c, const nabla_checkpoint *checkpoint,
                       const nabla_plan *plan, filters *all) {
  uint8_t took[NABLA_MAX_PATTERNS] = {0};
  if (!all->rules.count) return;
  for (size_t i = 0; i < nabla_plan_count(plan); i++) {
    size_t rule = nabla_plan_get(plan, i).rule;
    if (rule < all->rules.count) took[rule] = 1;
  }
  for (size_t i = 0; i < all->rules.count; i++) {
    if (took[i]) continue;
    const char *why = idle_reason(checkpoint, all, &all->rules.compiled[i]);
    if (!all->unsure)
      cli_note(c, "warning: rule %zu '%s' %s", i + 1,
               c->options.rules[i].pattern, why);
  }
}

static void warn_patterns(cli *c, const nabla_checkpoint *checkpoint,
                          const nabla_plan *plan) {
  const nabla_quantize_options *o = &c->options.quantize;
  filters all;
  all.only.count = all.skip.count = all.rules.count = 0;
  for (size_t i = 0; i < o->only_count; i++) add_pattern(&all.only, o->only[i]);
  for (size_t i = 0; i < o->skip_count; i++) add_pattern(&all.skip, o->skip[i]);
  for (size_t i = 0; i < o->rule_count; i++)
    add_pattern(&all.rules, o->rules[i].pattern);
  /* without memory for all of them there is nothing reliable to say */
  all.unsure = all.only.count < o->only_count ||
               all.skip.count < o->skip_count ||
               all.rules.count < o->rule_count;
  if (!all.unsure) {
    warn_unmatched(c, checkpoint, &all, &all.only, "only");
    warn_unmatched(c, checkpoint, &all, &all.skip, "skip");
    warn_rules(c, checkpoint, plan, &all);
  }
  drop(&all.only);
  drop(&all.skip);
  drop(&all.rules);
}

/* ---- files ---- */

static int ends_in(const char *text, const char *tail) {
  size_t length = strlen(text), size = strlen(tail);
  return length >= size && !strcmp(text + length - size, tail);
}

int cli_is_file_name(const char *path) { return ends_in(path, ".safetensors"); }

/* The folder of `path`; 0 when its name has no room. */
static int folder_of(const char *path, char out[PATH_ROOM]) {
  const char *slash = strrchr(path, '/');
  if (!slash) return snprintf(out, PATH_ROOM, ".") > 0;
  int length = slash == path ? 1 : (int)(slash - path);
  return snprintf(out, PATH_ROOM, "%.*s", length, path) < PATH_ROOM;
}

static int info_of(const char *path, nabla_os_info *out) {
  const nabla_os *os = nabla_os_default();
  return os->path_info(os->self, path, 1, out) >= 0;
}

static int is_same(const char *a, const char *b) {
  nabla_os_info of_a, of_b;
  return info_of(a, &of_a) && info_of(b, &of_b) && of_a.inode == of_b.inode &&
         of_a.device == of_b.device;
}

/* The folder that the input lies in, or is. */
static int input_folder(const cli *c, char out[PATH_ROOM]) {
  const char *input = c->options.operands[0];
  nabla_os_info info;
  if (info_of(input, &info) && info.is_folder)
    return snprintf(out, PATH_ROOM, "%s", input) < PATH_ROOM;
  return folder_of(input, out);
}

static int is_shard(const char *output, const char *folder,
                    const nabla_checkpoint *checkpoint) {
  char path[PATH_ROOM];
  for (uint32_t i = 0; i < nabla_checkpoint_shard_count(checkpoint); i++) {
    int length = snprintf(path, sizeof path, "%s/%s", folder,
                          nabla_checkpoint_shard_name(checkpoint, i));
    if (length < PATH_ROOM && is_same(path, output)) return 1;
  }
  return 0;
}

static int stop_at_first(void *context, const char *name) {
  (void)context, (void)name;
  return 1;
}

/* Says whether quantize would find something at `path`; an empty folder that
 * it may fill is nothing. */
static int is_taken(const char *path, int as_folder) {
  const nabla_os *os = nabla_os_default();
  nabla_os_info info;
  if (os->path_info(os->self, path, 0, &info) < 0) return 0;
  if (!as_folder || !info_of(path, &info) || !info.is_folder) return 1;
  return os->list(os->self, path, stop_at_first, NULL) != 0;
}

/* Only plan has to ask: quantize refuses. */
static void warn_output(cli *c, const nabla_checkpoint *checkpoint) {
  const char *output = c->options.output;
  char from[PATH_ROOM], place[PATH_ROOM];
  int as_file = cli_is_file_name(output);
  if (!input_folder(c, from)) return;
  if (!ends_in(output, ".json"))
    snprintf(place, sizeof place, "%s", output);
  else if (!folder_of(output, place))
    return;
  if (as_file ? is_shard(place, from, checkpoint) : is_same(place, from))
    cli_note(c, "warning: '%s' is the input; quantize will refuse it", output);
  else if (!cli_given(&c->options, CLI_OPTION_force) &&
           is_taken(place, !as_file))
    cli_note(c, "warning: '%s' exists; quantize will refuse it without --force",
             output);
}

/* Asks for the free space of the nearest folder above `path` that exists. */
int cli_free_space(const char *path, uint64_t *out) {
  const nabla_os *os = nabla_os_default();
  char folder[PATH_ROOM];
  size_t length = strlen(path);
  if (length >= sizeof folder) return 0;
  memcpy(folder, path, length + 1);
  for (;;) {
    if (os->free_bytes(os->self, folder, out) >= 0) return 1;
    char *slash = strrchr(folder, '/');
    if (!slash) return os->free_bytes(os->self, ".", out) >= 0;
    if (slash == folder) return os->free_bytes(os->self, "/", out) >= 0;
    *slash = '\0';
  }
}

static void warn_space(cli *c, const nabla_plan *plan,
                       const nabla_folder *folder) {
  uint64_t available, needed = nabla_plan_get_totals(plan).bytes_out;
  if (folder) needed += nabla_folder_get_totals(folder).bytes;
  char need[CLI_SIZE_TEXT], have[CLI_SIZE_TEXT];
  if (!cli_free_space(c->options.output, &available)) return;
  if (available >= needed) return;
  cli_size_text(needed, need);
  cli_size_text(available, have);
  cli_note(c, "warning: '%s' needs %s, but only %s are free there",
           c->options.output, need, have);
}

/* Which weights a search weighs by column; with -v by name. */
static void note_importance(cli *c, const nabla_checkpoint *checkpoint,
                            const nabla_plan *plan) {
  const nabla_plan_totals totals = nabla_plan_get_totals(plan);
  if (!c->options.importance) return;
  cli_note(c, "%zu of %zu searched weights have an importance", totals.weighted,
           totals.searched);
  if (!cli_given(&c->options, CLI_OPTION_verbose)) return;
  for (size_t i = 0; i < nabla_plan_count(plan); i++) {
    const nabla_plan_row row = nabla_plan_get(plan, i);
    if (row.quantized && row.search)
      cli_note(c, "%s: %s", row.has_importance ? "importance" : "no importance",
               nabla_checkpoint_tensor(checkpoint, row.tensor).name);
  }
}

void cli_plan_warn(cli *c, const nabla_checkpoint *checkpoint,
                   const nabla_plan *plan, const nabla_folder *folder) {
  if (cli_given(&c->options, CLI_OPTION_quiet)) return;
  if (!nabla_plan_get_totals(plan).quantized)
    cli_note(c, "warning: no tensor is quantized; plan says why for each");
  warn_patterns(c, checkpoint, plan);
  note_importance(c, checkpoint, plan);
  if (!c->options.output) return;
  if (c->options.verb == CLI_VERB_plan) warn_output(c, checkpoint);
  warn_space(c, plan, folder);
}

/* Files of the input's folder that are not of the checkpoint. */
typedef struct leftovers {
  const char *folder;
  const nabla_checkpoint *checkpoint;
  uint64_t count;
  char first[SHOWN][256]; /* of all names, the first in order */
} leftovers;

static int is_ours(const nabla_checkpoint *checkpoint, const char *name) {
  if (!strcmp(name, "model.safetensors.index.json")) return 1;
  for (uint32_t i = 0; i < nabla_checkpoint_shard_count(checkpoint); i++)
    if (!strcmp(name, nabla_checkpoint_shard_name(checkpoint, i))) return 1;
  return 0;
}

static int take_leftover(void *context, const char *name) {
  leftovers *all = context;
  char path[PATH_ROOM], held[256], given[256];
  nabla_os_info info;
  if (*name == '.' || is_ours(all->checkpoint, name)) return 0;
  int length = snprintf(path, sizeof path, "%s/%s", all->folder, name);
  if (length >= PATH_ROOM || !info_of(path, &info) || !info.is_file) return 0;
  all->count++;
  snprintf(given, sizeof given, "%s", name);
  for (int i = 0; i < SHOWN; i++) {
    if (*all->first[i] && strcmp(all->first[i], given) < 0) continue;
    memcpy(held, all->first[i], sizeof held);
    memcpy(all->first[i], given, sizeof given);
    memcpy(given, held, sizeof held);
  }
  return 0;
}

void cli_note_leftovers(cli *c, const nabla_checkpoint *checkpoint) {
  const nabla_os *os = nabla_os_default();
  const char *folder = c->options.operands[0];
  leftovers all = {.folder = folder, .checkpoint = checkpoint};
  nabla_os_info info;
  char to[PATH_ROOM], names[3 * 64] = "";
  size_t used = 0;
  if (cli_given(&c->options, CLI_OPTION_quiet) ||
      !cli_is_file_name(c->options.output))
    return;
  if (!info_of(folder, &info) || !info.is_folder) return;
  if (folder_of(c->options.output, to) && is_same(to, folder)) return;
  if (os->list(os->self, folder, take_leftover, &all) < 0 || !all.count) return;
  for (int i = 0; i < SHOWN && *all.first[i]; i++)
    used += (size_t)snprintf(names + used, sizeof names - used, "%s%.48s",
                             i ? ", " : "", all.first[i]);
  cli_note(c, "note: %llu other file%s of '%s' %s not copied (%s%s)",
           (unsigned long long)all.count, cli_plural(all.count), folder,
           all.count == 1 ? "was" : "were", names,
           all.count > SHOWN ? ", ..." : "");
}
