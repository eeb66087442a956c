/* lib/base/file/file.h, output folders: the final name is as before or
 * complete, whatever fails; what others put into an old folder is never
 * removed. */
#include <criterion/criterion.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/file/file.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_os.h"
#include "tests/support/temp_folder.h"

/* A temporary of a process that cannot exist: PIDs stay below 2^22. */
#define STALE ".out.nabla-999999999-0"

static temp_folder folder;
static char path[256];

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "out", path);
}

static int remove_any(const char *name, const struct stat *info, int type,
                      struct FTW *walk) {
  (void)info, (void)type, (void)walk;
  return remove(name);
}

static void remove_tree(const char *root) {
  nftw(root, remove_any, 8, FTW_DEPTH | FTW_PHYS);
}

static void tear_down(void) { remove_tree(folder.path); }

TestSuite(output_folder, .init = set_up, .fini = tear_down, .timeout = 120);

/* ---- helpers ------------------------------------------------------------ */

static int owns(void *self, const char *name, int is_folder) {
  (void)self;
  return !is_folder && strncmp(name, "part-", 5) == 0;
}

static const nabla_output_owner parts = {NULL, owns};

static const char *in(const char *relative) {
  static char full[512];
  snprintf(full, sizeof full, "%s/%s", folder.path, relative);
  return full;
}

static int exists(const char *relative) {
  struct stat info;
  return lstat(in(relative), &info) == 0;
}

static void put(const char *relative, const char *text) {
  FILE *file = fopen(in(relative), "wb");
  cr_assert_not_null(file);
  fputs(text, file);
  fclose(file);
}

static int has(const char *relative, const char *text) {
  char got[64] = "";
  FILE *file = fopen(in(relative), "rb");
  if (!file) return 0;
  size_t length = fread(got, 1, sizeof got - 1, file);
  fclose(file);
  return length == strlen(text) && strcmp(got, text) == 0;
}

static size_t count_in(const char *relative) {
  temp_folder inner;
  int length = snprintf(inner.path, sizeof inner.path, "%s", in(relative));
  cr_assert_lt(length, (int)sizeof inner.path);
  return temp_folder_count(&inner);
}

static void make_old(void) {
  cr_assert_eq(mkdir(in("out"), 0777), 0);
  put("out/part-1", "old 1");
  put("out/part-2", "old 2");
  put("out/part-3", "old 3");
}

static int holds_old(void) {
  return exists("out") && count_in("out") == 3 && has("out/part-1", "old 1") &&
         has("out/part-2", "old 2") && has("out/part-3", "old 3");
}

static int holds_new(void) {
  return exists("out") && count_in("out") == 2 && has("out/part-1", "new 1") &&
         has("out/part-2", "new 2");
}

static void make_stale(void) {
  cr_assert_eq(mkdir(in(STALE), 0777), 0);
  put(STALE "/part-1", "stale");
  put(STALE "/.part-2.nabla-999999999-0", "stale");
}

static nabla_output_options with(const nabla_os *os, int force) {
  return (nabla_output_options){.os = os, .force = force};
}

static nabla_status add(nabla_output_folder *output,
                        const nabla_output_options *options, const char *name,
                        const char *text, nabla_diag *diag) {
  char full[512];
  nabla_output *file;
  snprintf(full, sizeof full, "%s/%s", nabla_output_folder_borrow_path(output),
           name);
  NABLA_TRY(nabla_output_create(full, options, &file, diag));
  nabla_status status = nabla_output_write(file, 0, text, strlen(text), diag);
  if (!status) status = nabla_output_commit(file, diag);
  nabla_output_destroy(file);
  return status;
}

static nabla_status make(const nabla_output_options *options,
                         nabla_diag *diag) {
  nabla_output_folder *output;
  NABLA_TRY(nabla_output_folder_create(path, options, &parts, &output, diag));
  nabla_status status = add(output, options, "part-1", "new 1", diag);
  if (!status) status = add(output, options, "part-2", "new 2", diag);
  if (!status) status = nabla_output_folder_commit(output, diag);
  nabla_output_folder_destroy(output);
  return status;
}

static void expect_refused(const char *name, int force, nabla_status code,
                           const char *what) {
  nabla_output_options options = with(NULL, force);
  nabla_output_folder *output = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(
      nabla_output_folder_create(name, &options, &parts, &output, &diag), code,
      "%s", diag.what);
  cr_expect_null(output);
  cr_expect_eq(diag.code, code);
  cr_expect_not_null(strstr(diag.what, what), "%s", diag.what);
}

/* ---- what an output folder is ------------------------------------------- */

Test(output_folder, appears_whole_at_commit) {
  nabla_output_folder *output;
  cr_assert_eq(nabla_output_folder_create(path, NULL, &parts, &output, NULL),
               NABLA_OK);
  char temp[512];
  snprintf(temp, sizeof temp, "%s/.out.nabla-%ld-0", folder.path,
           (long)getpid());
  cr_expect_str_eq(nabla_output_folder_borrow_path(output), temp);
  cr_expect_eq(add(output, NULL, "part-1", "new 1", NULL), NABLA_OK);
  cr_expect_eq(add(output, NULL, "part-2", "new 2", NULL), NABLA_OK);
  cr_expect_not(exists("out"));
  cr_expect_eq(nabla_output_folder_commit(output, NULL), NABLA_OK);
  nabla_output_folder_destroy(output);
  cr_expect(holds_new());
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

Test(output_folder, destroyed_before_commit_leaves_nothing) {
  nabla_output_folder *output;
  cr_assert_eq(nabla_output_folder_create(path, NULL, &parts, &output, NULL),
               NABLA_OK);
  cr_expect_eq(add(output, NULL, "part-1", "new 1", NULL), NABLA_OK);
  nabla_output_folder_destroy(output);
  nabla_output_folder_destroy(NULL);
  cr_expect_eq(temp_folder_count(&folder), 0u);
}

Test(output_folder, trailing_slashes_do_not_matter) {
  size_t length = strlen(path);
  memcpy(path + length, "///", 4);
  cr_expect_eq(make(NULL, NULL), NABLA_OK);
  cr_expect(holds_new());
  expect_refused(path, 0, NABLA_EXISTS, "exists");
}

Test(output_folder, survives_interrupted_calls) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.short_transfers = faulty.interrupt = 1;
  nabla_output_options options = with(&faulty.os, 1);
  make_old();
  make_stale();
  cr_expect_eq(make(&options, NULL), NABLA_OK);
  cr_expect(holds_new());
  cr_expect_eq(temp_folder_count(&folder), 1u);
  cr_expect_eq(faulty.open_fds, 0);
}

/* ---- refusals ----------------------------------------------------------- */

Test(output_folder, refuses_what_it_must_not_replace) {
  make_old();
  put("file", "x");
  cr_assert_eq(symlink("out", in("link")), 0);
  expect_refused(path, 0, NABLA_EXISTS, "exists");
  for (int force = 0; force < 2; force++) {
    expect_refused(in("file"), force, NABLA_INVALID_ARGUMENT, "not a folder");
    expect_refused(in("link"), force, NABLA_INVALID_ARGUMENT, "link");
    expect_refused(in("missing/out"), force, NABLA_IO, "No such file");
    expect_refused(in("out/.."), force, NABLA_INVALID_ARGUMENT, "no name");
    expect_refused(".", force, NABLA_INVALID_ARGUMENT, "no name");
    expect_refused("/", force, NABLA_INVALID_ARGUMENT, "no name");
    expect_refused("", force, NABLA_INVALID_ARGUMENT, "empty");
  }
  cr_expect(holds_old());
  cr_expect_eq(temp_folder_count(&folder), 3u);
}

Test(output_folder, refuses_a_read_only_folder) {
  cr_assert_eq(chmod(folder.path, 0555), 0);
  if (geteuid() == 0) cr_assert_eq(seteuid(65534), 0, "drop root's rights");
  expect_refused(path, 0, NABLA_IO, "Permission denied");
  if (getuid() == 0) cr_assert_eq(seteuid(0), 0);
  cr_assert_eq(chmod(folder.path, 0700), 0);
}

/* ---- replacing ---------------------------------------------------------- */

Test(output_folder, force_replaces_a_folder_of_ours) {
  nabla_output_options options = with(NULL, 1);
  make_old();
  cr_expect_eq(make(&options, NULL), NABLA_OK);
  cr_expect(holds_new());
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

Test(output_folder, force_without_an_old_folder_works) {
  nabla_output_options options = with(NULL, 1);
  cr_expect_eq(make(&options, NULL), NABLA_OK);
  cr_expect(holds_new());
}

Test(output_folder, a_foreign_file_is_named_and_nothing_touched) {
  make_old();
  put("out/thesis.tex", "mine");
  expect_refused(path, 1, NABLA_EXISTS, "'thesis.tex'");
  cr_expect(has("out/thesis.tex", "mine"));
  cr_expect_eq(count_in("out"), 4u);
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

Test(output_folder, a_folder_inside_is_foreign_whatever_its_name) {
  make_old();
  cr_assert_eq(mkdir(in("out/part-4"), 0777), 0);
  expect_refused(path, 1, NABLA_EXISTS, "'part-4'");
}

static int owns_tree(void *self, const char *name, int is_folder) {
  (void)self;
  const char *last = strrchr(name, '/');
  return strncmp(last ? last + 1 : name, is_folder ? "sub" : "part-",
                 is_folder ? 3 : 5) == 0;
}

static const nabla_output_owner tree = {NULL, owns_tree};

/* "out" with "sub/sub/part-2" in it. */
static nabla_status make_tree(const nabla_output_options *options,
                              nabla_diag *diag) {
  nabla_output_folder *output;
  NABLA_TRY(nabla_output_folder_create(path, options, &tree, &output, diag));
  nabla_status status = add(output, options, "part-1", "new 1", diag);
  if (!status) status = nabla_output_folder_add(output, "sub", 0, diag);
  if (!status) status = nabla_output_folder_add(output, "sub", 0, diag);
  if (!status) status = nabla_output_folder_add(output, "sub/sub", 0, diag);
  if (!status) status = add(output, options, "sub/sub/part-2", "new 2", diag);
  if (!status) status = nabla_output_folder_commit(output, diag);
  nabla_output_folder_destroy(output);
  return status;
}

static int holds_tree(void) {
  return exists("out") && count_in("out") == 2 && has("out/part-1", "new 1") &&
         count_in("out/sub") == 1 && count_in("out/sub/sub") == 1 &&
         has("out/sub/sub/part-2", "new 2");
}

static void make_old_tree(void) {
  make_old();
  cr_assert_eq(mkdir(in("out/sub-old"), 0777), 0);
  put("out/sub-old/part-9", "old 9");
}

Test(output_folder, folders_inside_are_replaced_and_removed_whole) {
  nabla_output_options options = with(NULL, 1);
  nabla_diag diag = NABLA_DIAG_INIT;
  make_old_tree();
  cr_assert_eq(make_tree(&options, &diag), NABLA_OK, "%s", diag.what);
  cr_expect(holds_tree());
  cr_assert_eq(make_tree(&options, &diag), NABLA_OK, "%s", diag.what);
  cr_expect(holds_tree());
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

Test(output_folder, a_foreign_file_in_a_folder_inside_is_named) {
  nabla_output_options options = with(NULL, 1);
  nabla_diag diag = NABLA_DIAG_INIT;
  make_old_tree();
  put("out/sub-old/thesis.tex", "mine");
  cr_expect_eq(make_tree(&options, &diag), NABLA_EXISTS);
  cr_expect_not_null(strstr(diag.what, "'sub-old/thesis.tex'"), "%s",
                     diag.what);
  cr_expect(has("out/sub-old/thesis.tex", "mine"));
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

Test(output_folder, a_link_to_a_folder_is_not_followed) {
  nabla_output_options options = with(NULL, 1);
  make_old();
  cr_assert_eq(mkdir(in("else"), 0777), 0);
  put("else/part-7", "mine");
  cr_assert_eq(symlink("../else", in("out/part-4")), 0);
  cr_assert_eq(make_tree(&options, NULL), NABLA_OK);
  cr_expect(holds_tree());
  cr_expect(has("else/part-7", "mine"));
}

Test(output_folder, folders_nested_too_deep_are_foreign) {
  char name[128] = "out";
  make_old();
  for (int i = 0; i <= NABLA_OUTPUT_MAX_DEPTH; i++) {
    const size_t used = strlen(name);
    (void)snprintf(name + used, sizeof name - used, "/sub");
    cr_assert_eq(mkdir(in(name), 0777), 0);
  }
  nabla_output_options options = with(NULL, 1);
  cr_expect_eq(make_tree(&options, NULL), NABLA_EXISTS);
  cr_expect(exists(name));
}

/* What a killed process left, folders and all, is removed by the next. */
Test(output_folder, a_stale_tree_is_removed) {
  make_stale();
  cr_assert_eq(mkdir(in(STALE "/sub"), 0777), 0);
  put(STALE "/sub/part-3", "stale");
  nabla_output_options options = with(NULL, 0);
  cr_assert_eq(make_tree(&options, NULL), NABLA_OK);
  cr_expect(holds_tree());
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

Test(output_folder, every_call_of_a_tree_fails_once) {
  for (uint64_t n = 1;; n++) {
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.fail_at = n;
    nabla_output_options options = with(&faulty.os, 1);
    nabla_diag diag = NABLA_DIAG_INIT;
    make_old_tree();
    const nabla_status status = make_tree(&options, &diag);
    const int is_old =
        exists("out/sub-old/part-9") && has("out/part-1", "old 1");
    cr_assert(is_old || holds_tree(), "call %d: %s", (int)n, diag.what);
    cr_assert(status == NABLA_IO || (!status && holds_tree()), "call %d: %s",
              (int)n, diag.what);
    cr_assert_eq(temp_folder_count(&folder), 1u, "call %d: %s", (int)n,
                 diag.what);
    cr_assert_eq(faulty.open_fds, 0);
    remove_tree(path);
    if (!faulty.faults) return;
  }
}

Test(output_folder, without_an_owner_everything_is_foreign) {
  make_old();
  nabla_output_options options = with(NULL, 1);
  nabla_output_folder *output;
  cr_expect_eq(nabla_output_folder_create(path, &options, NULL, &output, NULL),
               NABLA_EXISTS);
  cr_expect(holds_old());
}

/* When a foreign file arrives: before or just after the exchange. */
static struct {
  faulty_call at;
  uint64_t number; /* of that call, counted from 1 */
  const char *name;
} arrival;

static void arrive(void *context, faulty_call kind, const char *from) {
  faulty_os *faulty = context;
  (void)from;
  if (kind == arrival.at && faulty->calls[kind] == arrival.number)
    put(arrival.name, "mine");
}

/* Renames: one per file, then the exchange. */
#define EXCHANGE_CALL 3

static void expect_arrival_is_safe(int error) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.before = arrive;
  faulty.context = &faulty;
  faulty.fail_kind = FAULTY_RENAME;
  faulty.fail_at = error ? EXCHANGE_CALL : 0;
  faulty.error = error;
  nabla_output_options options = with(&faulty.os, 1);
  nabla_diag diag = NABLA_DIAG_INIT;
  make_old();
  cr_expect_eq(make(&options, &diag), NABLA_EXISTS, "%s", diag.what);
  cr_expect_not_null(strstr(diag.what, "'thesis.tex'"), "%s", diag.what);
  cr_expect(has("out/thesis.tex", "mine"));
  cr_expect(has("out/part-3", "old 3"));
  cr_expect_eq(count_in("out"), 4u);
  cr_expect_eq(temp_folder_count(&folder), 1u);
  cr_expect_eq(faulty.open_fds, 0);
  remove_tree(path);
}

Test(output_folder, a_foreign_file_that_arrives_late_is_safe) {
  arrival.name = "out/thesis.tex";
  arrival.at = FAULTY_SYNC;
  arrival.number = 1; /* before commit looks */
  expect_arrival_is_safe(0);
  arrival.at = FAULTY_RENAME;
  arrival.number = EXCHANGE_CALL; /* after commit looked */
  expect_arrival_is_safe(0);
  arrival.number = EXCHANGE_CALL + 1; /* the same in two steps */
  expect_arrival_is_safe(-EINVAL);
}

static void appear(void *context, faulty_call kind, const char *from) {
  faulty_os *faulty = context;
  (void)from;
  if (kind == FAULTY_RENAME && faulty->calls[kind] == EXCHANGE_CALL) make_old();
}

/* An attacker exchanges a folder of a stale temporary for a link, just before
 * it is listed. */
static int swapped;
static void swap_for_link(void *context, faulty_call kind, const char *opened) {
  (void)context;
  if (kind != FAULTY_OPEN || swapped || !opened) return;
  const size_t size = strlen(opened);
  if (size < 5 || strcmp(opened + size - 5, "/deep") != 0) return;
  swapped = 1;
  char deep[512];
  snprintf(deep, sizeof deep, "%s", in(STALE "/deep"));
  cr_assert_eq(rename(deep, in("aside")), 0);
  cr_assert_eq(symlink("../victim", deep), 0);
}

Test(output_folder, nothing_is_removed_behind_a_link_that_appears) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.before = swap_for_link;
  make_stale();
  cr_assert_eq(mkdir(in(STALE "/deep"), 0777), 0);
  put(STALE "/deep/part", "stale");
  cr_assert_eq(mkdir(in("victim"), 0777), 0);
  put("victim/thesis.tex", "mine");
  nabla_output_options options = with(&faulty.os, 0);
  cr_expect_eq(make(&options, NULL), NABLA_OK);
  cr_expect(swapped);
  cr_expect(has("victim/thesis.tex", "mine"));
  cr_expect(has("aside/part", "stale"));
  cr_expect(holds_new());
}

/* A write-protected folder of the same user is replaced, as a file is, and no
 * temporary is left; the new folder has the permissions of the old one. */
Test(output_folder, force_replaces_what_is_write_protected) {
  nabla_output_options options = with(NULL, 1);
  nabla_diag diag = NABLA_DIAG_INIT;
  struct stat info;
  if (geteuid() == 0) {
    cr_assert_eq(chown(folder.path, 65534, 65534), 0);
    cr_assert_eq(seteuid(65534), 0, "drop root's rights");
  }
  make_old_tree();
  cr_assert_eq(chmod(in("out/sub-old"), 0500), 0);
  cr_assert_eq(chmod(in("out"), 0555), 0);
  cr_expect_eq(make_tree(&options, &diag), NABLA_OK, "%s", diag.what);
  cr_expect(holds_tree());
  cr_expect_eq(temp_folder_count(&folder), 1u);
  cr_assert_eq(stat(in("out"), &info), 0);
  cr_expect_eq(info.st_mode & 0777, 0555u);
  cr_assert_eq(chmod(in("out"), 0755), 0);
  if (getuid() == 0) cr_assert_eq(seteuid(0), 0);
}

Test(output_folder, permissions_stay_when_the_old_folder_is_removed_meanwhile) {
  nabla_output_options options = with(NULL, 1);
  nabla_output_folder *output;
  struct stat info;
  cr_assert_eq(mkdir(in("out"), 0755), 0);
  cr_assert_eq(chmod(in("out"), 0775), 0);
  cr_assert_eq(
      nabla_output_folder_create(path, &options, &parts, &output, NULL),
      NABLA_OK);
  cr_assert_eq(rmdir(in("out")), 0);
  cr_expect_eq(nabla_output_folder_commit(output, NULL), NABLA_OK);
  nabla_output_folder_destroy(output);
  cr_assert_eq(stat(in("out"), &info), 0);
  cr_expect_eq(info.st_mode & 0777, 0775u);
}

/* Descriptors and memory have come to an end: what is known goes all the
 * same. */
Test(output_folder, a_deep_temporary_goes_with_one_descriptor_left) {
  nabla_output_folder *output;
  cr_assert_eq(nabla_output_folder_create(path, NULL, &parts, &output, NULL),
               NABLA_OK);
  char deep[64] = "d";
  for (int i = 0; i < NABLA_OUTPUT_MAX_DEPTH; i++) {
    cr_assert_eq(nabla_output_folder_add(output, deep, 0, NULL), NABLA_OK);
    snprintf(deep + strlen(deep), 3, "/d");
  }
  struct rlimit limit;
  const int next = dup(0);
  cr_assert_geq(next, 0);
  close(next);
  cr_assert_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = (rlim_t)next + 1;
  cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
  nabla_output_folder_destroy(output);
  limit.rlim_cur = limit.rlim_max;
  cr_assert_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
  cr_expect_eq(temp_folder_count(&folder), 0u);
}

Test(output_folder, never_replaces_what_appeared_meanwhile) {
  for (int force = 0; force < 2; force++) {
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.before = appear;
    faulty.context = &faulty;
    nabla_output_options options = with(&faulty.os, force);
    cr_expect_eq(make(&options, NULL), NABLA_EXISTS);
    cr_expect(holds_old());
    cr_expect_eq(temp_folder_count(&folder), 1u);
    remove_tree(path);
  }
}

Test(output_folder, replaces_where_exchange_is_unsupported) {
  static const int errors[] = {-EINVAL, -ENOSYS, -EOPNOTSUPP};
  make_old();
  for (size_t i = 0; i < 3; i++) {
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.fail_kind = FAULTY_RENAME;
    faulty.fail_at = EXCHANGE_CALL;
    faulty.error = errors[i];
    nabla_output_options options = with(&faulty.os, 1);
    cr_expect_eq(make(&options, NULL), NABLA_OK);
    cr_expect_eq(faulty.faults, 1u);
    cr_expect(holds_new());
    cr_expect_eq(temp_folder_count(&folder), 1u);
    cr_expect_eq(faulty.open_fds, 0);
  }
}

/* An inner system that cannot exchange. */
static int rename_without_exchange(void *self, const char *from, const char *to,
                                   nabla_os_rename_mode mode) {
  if (mode == NABLA_OS_EXCHANGE) return -EINVAL;
  return nabla_os_default()->rename(self, from, to, mode);
}

static const nabla_os *inner_os(int can_exchange) {
  static nabla_os limited;
  if (can_exchange) return NULL;
  limited = *nabla_os_default();
  limited.rename = rename_without_exchange;
  return &limited;
}

Test(output_folder, an_old_folder_that_cannot_return_is_kept_and_named) {
  faulty_os faulty;
  faulty_os_init(&faulty, inner_os(0));
  faulty.fail_kind = FAULTY_RENAME;
  faulty.fail_at = EXCHANGE_CALL + 2; /* new to its name, and old back */
  faulty.fail_calls = 2;
  nabla_output_options options = with(&faulty.os, 1);
  nabla_diag diag = NABLA_DIAG_INIT;
  make_old();
  cr_expect_eq(make(&options, &diag), NABLA_IO);
  const char *where = strstr(diag.next, "rename it back from ");
  cr_assert_not_null(where, "%s", diag.next);
  cr_expect_not(exists("out"));
  cr_expect_eq(rename(where + strlen("rename it back from "), path), 0);
  cr_expect(holds_old());
  cr_expect_eq(faulty.open_fds, 0);
}

/* Fails to put the old folder back after an exchange, with `failures` renames
 * that fail; returns where the message says that the old folder is. */
static const char *strand(nabla_diag *diag, uint64_t failures) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  arrival.name = "out/thesis.tex";
  arrival.at = FAULTY_RENAME;
  arrival.number = EXCHANGE_CALL;
  faulty.before = arrive;
  faulty.context = &faulty;
  faulty.fail_kind = FAULTY_RENAME;
  faulty.fail_at = EXCHANGE_CALL + 1;
  faulty.fail_calls = failures;
  nabla_output_options options = with(&faulty.os, 1);
  make_old();
  cr_expect_eq(make(&options, diag), NABLA_IO);
  cr_expect(holds_new());
  cr_expect_not_null(strstr(diag->what, "is in place"), "%s", diag->what);
  cr_expect_eq(faulty.open_fds, 0);
  const char *where = strstr(diag->next, " from ");
  cr_assert_not_null(where, "%s", diag->next);
  return where + strlen(" from ");
}

Test(output_folder, an_exchange_that_cannot_be_undone_loses_nothing) {
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_output_options again = with(NULL, 1);
  const char *where = strand(&diag, 1);
  cr_expect_eq(strncmp(diag.next, "rename it back from ", 20), 0);
  cr_expect_eq(make(&again, NULL), NABLA_OK, "the next run, which cleans up");
  remove_tree(path);
  cr_expect_eq(rename(where, path), 0, "%s", where);
  cr_expect(has("out/thesis.tex", "mine"));
  cr_expect_eq(count_in("out"), 4u);
}

Test(output_folder, an_old_folder_that_the_next_run_would_remove_is_told) {
  nabla_diag diag = NABLA_DIAG_INIT;
  const char *where = strand(&diag, 2);
  cr_expect_not_null(strstr(diag.next, "the next run will remove it"), "%s",
                     diag.next);
  remove_tree(path);
  cr_expect_eq(rename(where, path), 0, "%s", where);
  cr_expect(has("out/thesis.tex", "mine"));
}

Test(output_folder, one_that_is_being_replaced_is_refused) {
  make_old();
  nabla_output_options options = with(NULL, 1);
  nabla_output_folder *output;
  cr_assert_eq(
      nabla_output_folder_create(path, &options, &parts, &output, NULL),
      NABLA_OK);
  int fd = nabla_os_default()->open(NULL, path, NABLA_OS_FOLDER);
  cr_assert_eq(nabla_os_default()->lock(NULL, fd), 0);
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(nabla_output_folder_commit(output, &diag), NABLA_IO);
  cr_expect_not_null(strstr(diag.what, "another process"));
  nabla_output_folder_destroy(output);
  close(fd);
  cr_expect(holds_old());
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

/* ---- temporaries of others ---------------------------------------------- */

Test(output_folder, a_stale_temporary_goes_with_its_files) {
  make_stale();
  put(".out.nabla-999999999-1", "a file of the same name");
  cr_assert_eq(mkdir(in(".outer.nabla-999999999-0"), 0777), 0);
  cr_expect_eq(make(NULL, NULL), NABLA_OK);
  cr_expect(holds_new());
  cr_expect(exists(".outer.nabla-999999999-0"));
  cr_expect_eq(temp_folder_count(&folder), 2u);
}

Test(output_folder, a_live_temporary_stays_a_killed_one_goes) {
  int ready[2];
  char byte;
  cr_assert_eq(pipe(ready), 0);
  pid_t child = fork();
  cr_assert_geq(child, 0);
  if (child == 0) {
    nabla_output_folder *output;
    if (nabla_output_folder_create(path, NULL, &parts, &output, NULL)) _exit(1);
    if (add(output, NULL, "part-1", "child", NULL)) _exit(1);
    if (write(ready[1], "r", 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  cr_assert_eq(read(ready[0], &byte, 1), 1, "the child must get ready");
  cr_expect_eq(make(NULL, NULL), NABLA_OK);
  cr_expect(holds_new());
  cr_expect_eq(temp_folder_count(&folder), 2u, "it is live");
  kill(child, SIGKILL);
  cr_assert_eq(waitpid(child, NULL, 0), child);
  nabla_output_options options = with(NULL, 1);
  cr_expect_eq(make(&options, NULL), NABLA_OK);
  cr_expect_eq(temp_folder_count(&folder), 1u, "it was stale");
}

static char temp_made[512];

static void clean_early(void *context, faulty_call kind, const char *name) {
  faulty_os *faulty = context;
  if (kind == FAULTY_MAKE_FOLDER)
    snprintf(temp_made, sizeof temp_made, "%s", name);
  int opens = kind == FAULTY_OPEN && strcmp(name, temp_made) == 0;
  if (faulty->calls[FAULTY_MAKE_FOLDER] != 1) return;
  if ((arrival.at == FAULTY_OPEN && opens) ||
      (arrival.at == FAULTY_LOCK && kind == FAULTY_LOCK))
    cr_assert_eq(rmdir(temp_made), 0);
}

Test(output_folder, a_cleaner_between_create_and_lock_does_no_harm) {
  static const faulty_call moments[] = {FAULTY_OPEN, FAULTY_LOCK};
  for (size_t i = 0; i < 2; i++) {
    arrival.at = moments[i];
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.before = clean_early;
    faulty.context = &faulty;
    nabla_output_options options = with(&faulty.os, 0);
    nabla_output_folder *output;
    cr_assert_eq(
        nabla_output_folder_create(path, &options, &parts, &output, NULL),
        NABLA_OK);
    cr_expect_eq(faulty.calls[FAULTY_MAKE_FOLDER], 2u);
    nabla_output_folder_destroy(output);
    cr_expect_eq(faulty.open_fds, 0);
    cr_expect_eq(temp_folder_count(&folder), 0u);
  }
}

/* ---- failures ----------------------------------------------------------- */

/* Bits of a row: force, a system that can exchange, ENOSPC instead of EIO. */
static int run_with_fault(uint64_t n, int row) {
  int force = row & 1, error = row & 4 ? -ENOSPC : -EIO;
  faulty_os faulty;
  faulty_os_init(&faulty, inner_os(row & 2));
  faulty.fail_at = n;
  faulty.error = error;
  remove_tree(path);
  remove_tree(in(STALE));
  if (force) make_old();
  make_stale();
  nabla_output_options options = with(&faulty.os, force);
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status = make(&options, &diag);
  size_t known = (size_t)exists("out") + (size_t)exists(STALE);
  cr_expect_eq(faulty.open_fds, 0, "row %d call %d leaks", row, (int)n);
  cr_expect_eq(temp_folder_count(&folder), known, "row %d call %d: temporary",
               row, (int)n);
  if (status == NABLA_OK) {
    cr_expect(holds_new());
    return faulty.faults > 0;
  }
  cr_expect_eq(status, NABLA_IO, "row %d call %d", row, (int)n);
  cr_expect_neq(diag.file[0], 0);
  if (error == -ENOSPC) cr_expect_not_null(strstr(diag.what, "are free"));
  if (holds_new())
    cr_expect_not_null(strstr(diag.what, "is in place"), "%s", diag.what);
  else
    cr_expect(force ? holds_old() : !exists("out"), "row %d call %d", row,
              (int)n);
  return 1;
}

Test(output_folder, every_failing_call_leaves_the_final_name_alone) {
  for (int row = 0; row < 8; row++) {
    uint64_t n = 1;
    while (run_with_fault(n, row)) n++;
    cr_expect_gt(n, 40u, "calls made: %d", (int)n);
  }
}

Test(output_folder, survives_failing_allocations) {
  for (size_t n = 1;; n++) {
    failing_allocator failing;
    faulty_os faulty;
    failing_allocator_init(&failing, n);
    faulty_os_init(&faulty, NULL);
    nabla_output_options options = with(&faulty.os, 1);
    options.allocator = &failing.allocator;
    remove_tree(path);
    make_old();
    nabla_status status = make(&options, NULL);
    size_t failures = failing.failures;
    cr_expect_eq(status, failures ? NABLA_NO_MEMORY : NABLA_OK);
    cr_expect(failures ? holds_old() : holds_new());
    cr_expect_eq(faulty.open_fds, 0);
    cr_expect_eq(temp_folder_count(&folder), 1u);
    cr_expect(failing_allocator_is_clean(&failing));
    if (!failures) break;
  }
}
