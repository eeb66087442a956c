/* lib/base/file/file.h, output files: the final name is as before or complete,
 * whatever fails, and no temporary stays behind. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/file/file.h"
#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_os.h"
#include "tests/support/temp_folder.h"

#define BYTES 3000
#define OLD   "the old content"

/* A temporary of a process that cannot exist: PIDs stay below 2^22. */
#define STALE ".out.nabla-999999999-0"

static temp_folder folder;
static char path[256];
static uint8_t content[BYTES];

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "out", path);
  for (size_t i = 0; i < BYTES; i++) content[i] = (uint8_t)(i * 11 + i / 256);
}

static void tear_down(void) { temp_folder_destroy(&folder); }

TestSuite(output, .init = set_up, .fini = tear_down, .timeout = 120);

/* ---- helpers ------------------------------------------------------------ */

static int exists(const char *name) {
  char full[256];
  struct stat info;
  temp_folder_path(&folder, name, full);
  return lstat(full, &info) == 0;
}

/* 1 when `out` holds exactly these bytes. */
static int holds(const void *data, size_t size) {
  uint8_t got[BYTES + 1];
  int fd = open(path, O_RDONLY);
  if (fd < 0) return 0;
  ssize_t length = read(fd, got, sizeof got);
  close(fd);
  return length == (ssize_t)size && memcmp(got, data, size) == 0;
}

static int holds_new(void) { return holds(content, BYTES); }
static int holds_old(void) { return holds(OLD, sizeof OLD); }
static void write_old(void) {
  temp_folder_write(&folder, "out", OLD, sizeof OLD);
}

static nabla_output_options with(const nabla_os *os, int force) {
  return (nabla_output_options){.os = os, .force = force};
}

/* Writes the content in three pieces, not in order, and commits. */
static nabla_status make(const nabla_output_options *options,
                         nabla_diag *diag) {
  nabla_output *output;
  NABLA_TRY(nabla_output_create(path, options, &output, diag));
  nabla_status status =
      nabla_output_write(output, 1000, content + 1000, 1500, diag);
  if (!status) status = nabla_output_write(output, 0, content, 1000, diag);
  if (!status)
    status = nabla_output_write(output, 2500, content + 2500, 500, diag);
  if (!status) status = nabla_output_commit(output, diag);
  nabla_output_destroy(output);
  return status;
}

static nabla_output *begin(const nabla_os *os, int force) {
  nabla_output_options options = with(os, force);
  nabla_output *output = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_output_create(path, &options, &output, &diag), NABLA_OK,
               "%s", diag.what);
  return output;
}

static void expect_refused(const char *name, int force, nabla_status code,
                           const char *what) {
  nabla_output_options options = with(NULL, force);
  nabla_output *output = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(nabla_output_create(name, &options, &output, &diag), code, "%s",
               diag.what);
  cr_expect_null(output);
  cr_expect_eq(diag.code, code);
  cr_expect_not_null(strstr(diag.what, what), "%s", diag.what);
}

/* ---- what an output is -------------------------------------------------- */

Test(output, appears_whole_at_commit) {
  nabla_output *output = begin(NULL, 0);
  cr_expect_eq(nabla_output_write(output, 0, content, BYTES, NULL), NABLA_OK);
  cr_expect_not(exists("out"));
  char temp[64];
  snprintf(temp, sizeof temp, ".out.nabla-%ld-0", (long)getpid());
  cr_expect(exists(temp), "the documented name");
  cr_expect_eq(nabla_output_commit(output, NULL), NABLA_OK);
  cr_expect(holds_new());
  nabla_output_destroy(output);
  cr_expect(holds_new(), "destroy after commit keeps it");
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

Test(output, destroyed_before_commit_leaves_nothing) {
  nabla_output *output = begin(NULL, 0);
  cr_expect_eq(nabla_output_write(output, 0, content, BYTES, NULL), NABLA_OK);
  nabla_output_destroy(output);
  nabla_output_destroy(NULL);
  cr_expect_eq(temp_folder_count(&folder), 0u);
}

Test(output, default_options_do_not_replace) {
  cr_assert_eq(make(NULL, NULL), NABLA_OK);
  cr_expect(holds_new());
  cr_expect_eq(make(NULL, NULL), NABLA_EXISTS);
}

Test(output, has_the_mode_that_umask_leaves) {
  umask(027);
  cr_assert_eq(make(NULL, NULL), NABLA_OK);
  struct stat info;
  cr_assert_eq(stat(path, &info), 0);
  cr_expect_eq(info.st_mode & 0777u, 0640u);
}

Test(output, short_and_interrupted_calls_give_the_same_bytes) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.short_transfers = faulty.interrupt = 1;
  nabla_output_options options = with(&faulty.os, 0);
  temp_folder_write(&folder, STALE, "x", 1);
  cr_expect_eq(make(&options, NULL), NABLA_OK);
  cr_expect(holds_new());
  cr_expect_eq(temp_folder_count(&folder), 1u);
  cr_expect_gt(faulty.calls[FAULTY_PWRITE], 20u);
  cr_expect_eq(faulty.open_fds, 0);
}

Test(output, a_write_that_moves_nothing_ends) {
  faulty_os faulty;
  for (uint64_t from = 1; from < 4; from++) {
    faulty_os_init(&faulty, NULL);
    faulty.short_transfers = 1;
    faulty.zero_from = from;
    nabla_output_options options = with(&faulty.os, 0);
    nabla_diag diag = NABLA_DIAG_INIT;
    cr_expect_eq(make(&options, &diag), NABLA_IO);
    cr_expect_eq(faulty.calls[FAULTY_PWRITE], from, "tried again");
    cr_expect_not_null(strstr(diag.what, "cannot write"), "%s", diag.what);
    cr_expect_eq(temp_folder_count(&folder), 0u);
  }
}

Test(output, two_of_one_name_do_not_disturb_each_other) {
  nabla_output *a = begin(NULL, 1), *b = begin(NULL, 1);
  cr_expect_eq(temp_folder_count(&folder), 2u);
  cr_expect_eq(nabla_output_write(a, 0, content, BYTES, NULL), NABLA_OK);
  cr_expect_eq(nabla_output_write(b, 0, OLD, sizeof OLD, NULL), NABLA_OK);
  cr_expect_eq(nabla_output_commit(a, NULL), NABLA_OK);
  cr_expect(holds_new());
  cr_expect_eq(nabla_output_commit(b, NULL), NABLA_OK);
  cr_expect(holds_old());
  nabla_output_destroy(a);
  nabla_output_destroy(b);
}

/* ---- refusals ----------------------------------------------------------- */

Test(output, refuses_an_existing_file_without_force) {
  write_old();
  expect_refused(path, 0, NABLA_EXISTS, "exists");
  cr_expect(holds_old());
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

Test(output, force_replaces_an_existing_file) {
  write_old();
  nabla_output_options options = with(NULL, 1);
  cr_expect_eq(make(&options, NULL), NABLA_OK);
  cr_expect(holds_new());
}

Test(output, refuses_links_folders_and_pipes_even_with_force) {
  char link_path[256], dangling[256], fifo[256], slash[512];
  temp_folder_path(&folder, "link", link_path);
  temp_folder_path(&folder, "dangling", dangling);
  temp_folder_path(&folder, "fifo", fifo);
  write_old();
  cr_assert_eq(symlink("out", link_path), 0);
  cr_assert_eq(symlink("nowhere", dangling), 0);
  cr_assert_eq(mkfifo(fifo, 0600), 0);
  snprintf(slash, sizeof slash, "%s/", folder.path);
  for (int force = 0; force < 2; force++) {
    expect_refused(link_path, force, NABLA_INVALID_ARGUMENT, "link");
    expect_refused(dangling, force, NABLA_INVALID_ARGUMENT, "link");
    expect_refused(fifo, force, NABLA_INVALID_ARGUMENT, "pipe");
    expect_refused(folder.path, force, NABLA_INVALID_ARGUMENT, "folder");
    expect_refused(slash, force, NABLA_INVALID_ARGUMENT, "folder");
    expect_refused(".", force, NABLA_INVALID_ARGUMENT, "folder");
    expect_refused("..", force, NABLA_INVALID_ARGUMENT, "folder");
    expect_refused("", force, NABLA_INVALID_ARGUMENT, "empty");
    expect_refused(NULL, force, NABLA_INVALID_ARGUMENT, "empty");
  }
  cr_expect(holds_old());
  cr_expect_eq(temp_folder_count(&folder), 4u);
}

Test(output, refuses_a_missing_folder_and_a_file_in_its_place) {
  char inner[512];
  snprintf(inner, sizeof inner, "%s/missing/out", folder.path);
  expect_refused(inner, 0, NABLA_IO, "No such file");
  write_old();
  snprintf(inner, sizeof inner, "%s/out/out", folder.path);
  expect_refused(inner, 0, NABLA_IO, "Not a directory");
}

Test(output, refuses_a_read_only_folder) {
  cr_assert_eq(chmod(folder.path, 0555), 0);
  if (geteuid() == 0) cr_assert_eq(seteuid(65534), 0, "drop root's rights");
  expect_refused(path, 0, NABLA_IO, "Permission denied");
  if (getuid() == 0) cr_assert_eq(seteuid(0), 0);
  cr_assert_eq(chmod(folder.path, 0700), 0);
  cr_expect_eq(temp_folder_count(&folder), 0u);
}

/* ---- paths -------------------------------------------------------------- */

Test(output, a_bare_name_is_in_the_current_folder) {
  cr_assert_eq(chdir(folder.path), 0);
  nabla_output *output;
  cr_assert_eq(nabla_output_create("bare", NULL, &output, NULL), NABLA_OK);
  cr_expect_eq(nabla_output_commit(output, NULL), NABLA_OK);
  nabla_output_destroy(output);
  cr_expect(exists("bare"));
}

static void note_folder(void *context, faulty_call kind, const char *opened) {
  char *out = context;
  if (kind == FAULTY_OPEN && !*out) snprintf(out, 64, "%s", opened);
}

Test(output, a_name_below_the_root_is_in_the_root) {
  char first[64] = "";
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.before = note_folder;
  faulty.context = first;
  faulty.fail_at = 2; /* nothing is created */
  nabla_output_options options = with(&faulty.os, 0);
  nabla_output *output;
  cr_expect_eq(nabla_output_create("///out", &options, &output, NULL),
               NABLA_IO);
  cr_expect_str_eq(first, "/");
}

/* Commits an empty file of that name and checks that nothing else is there. */
static void expect_name_works(const char *name) {
  char full[512];
  snprintf(full, sizeof full, "%s/%s", folder.path, name);
  nabla_output *output;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_output_create(full, NULL, &output, &diag), NABLA_OK, "%s",
               diag.what);
  cr_expect_eq(nabla_output_commit(output, NULL), NABLA_OK);
  nabla_output_destroy(output);
  cr_expect_eq(access(full, F_OK), 0);
  cr_expect_eq(unlink(full), 0);
  cr_expect_eq(temp_folder_count(&folder), 0u);
}

Test(output, names_up_to_255_bytes_work) {
  char name[257];
  memset(name, 'n', sizeof name);
  static const size_t lengths[] = {1, 221, 222, 223, 254, 255};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    name[lengths[i]] = 0;
    expect_name_works(name);
    name[lengths[i]] = 'n';
  }
  char full[512];
  name[256] = 0;
  snprintf(full, sizeof full, "%s/%s", folder.path, name);
  expect_refused(full, 0, NABLA_IO, "too long");
}

static char temp_seen[600];

static void note_temp(void *context, faulty_call kind, const char *opened) {
  (void)context;
  if (kind == FAULTY_OPEN) snprintf(temp_seen, sizeof temp_seen, "%s", opened);
}

Test(output, a_shortened_name_ends_between_two_characters) {
  char name[256], full[512];
  for (size_t i = 0; i < 255; i += 3) memcpy(name + i, "\xe2\x88\x87", 3);
  name[255] = 0;
  snprintf(full, sizeof full, "%s/x%.252s", folder.path, name);
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.before = note_temp;
  nabla_output_options options = with(&faulty.os, 0);
  nabla_output *output;
  cr_assert_eq(nabla_output_create(full, &options, &output, NULL), NABLA_OK);
  const char *mark = strstr(temp_seen, ".nabla-");
  cr_assert_not_null(strstr(temp_seen, "/.x\xe2\x88\x87"));
  cr_assert_eq(memcmp(mark - 3, "\xe2\x88\x87", 3), 0);
  nabla_output_destroy(output);
}

Test(output, long_paths_are_refused_not_cut) {
  static char longest[1 << 20];
  static const size_t lengths[] = {4070, 4094, 4095, 4096, 4097, 1 << 19};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    size_t length = lengths[i], at = strlen(folder.path);
    memcpy(longest, folder.path, at);
    for (; at < length - 1; at += 2) memcpy(longest + at, "/.", 2);
    memcpy(longest + length - 2, "/x", 3);
    nabla_output *output = NULL;
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_status status = nabla_output_create(longest, NULL, &output, &diag);
    /* the temporary is longer than the path, so it may not fit either */
    nabla_status expected = length < 4096 ? NABLA_IO : NABLA_INVALID_ARGUMENT;
    cr_expect_eq(status, length < 4071 ? NABLA_OK : expected, "%zu %s", length,
                 diag.what);
    if (!status) nabla_output_destroy(output);
    cr_expect_eq(temp_folder_count(&folder), 0u);
  }
}

/* ---- temporaries of others ---------------------------------------------- */

Test(output, removes_only_temporaries_of_its_name) {
  static const char *const kept[] = {
      ".outs.nabla-999999999-0", ".ou.nabla-999999999-0",
      "out.nabla-999999999-0",   ".out.nabla-999999999-",
      ".out.nabla--0",           ".out.nabla-999999999-0x",
      ".out.nabla-999999999",    ".out.nabla-999999999-0.old",
      ".other.nabla-9-9",        ".out.nable-1-1"};
  enum { KEPT = sizeof kept / sizeof *kept };
  for (size_t i = 0; i < KEPT; i++) temp_folder_write(&folder, kept[i], "k", 1);
  temp_folder_write(&folder, STALE, "s", 1);
  temp_folder_write(&folder, ".out.nabla-1-123", "s", 1);
  nabla_output_destroy(begin(NULL, 0));
  cr_expect_eq(temp_folder_count(&folder), (size_t)KEPT);
  for (size_t i = 0; i < KEPT; i++) cr_expect(exists(kept[i]), "%s", kept[i]);
}

Test(output, leaves_links_and_pipes_that_look_like_temporaries) {
  char fake[256];
  write_old();
  temp_folder_path(&folder, STALE, fake);
  cr_assert_eq(symlink("out", fake), 0);
  temp_folder_path(&folder, ".out.nabla-1-1", fake);
  cr_assert_eq(mkfifo(fake, 0600), 0);
  nabla_output_destroy(begin(NULL, 1));
  cr_expect(holds_old());
  cr_expect_eq(temp_folder_count(&folder), 3u);
}

/* Runs an output in a child that waits to be killed; returns its PID. */
static pid_t start_child(void) {
  int ready[2];
  char byte;
  cr_assert_eq(pipe(ready), 0);
  pid_t child = fork();
  cr_assert_geq(child, 0);
  if (child == 0) {
    nabla_output *output;
    if (nabla_output_create(path, NULL, &output, NULL)) _exit(1);
    if (nabla_output_write(output, 0, content, BYTES, NULL)) _exit(1);
    if (write(ready[1], "r", 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ready[1]);
  cr_assert_eq(read(ready[0], &byte, 1), 1, "the child must get ready");
  close(ready[0]);
  return child;
}

Test(output, a_live_temporary_stays_a_killed_one_goes) {
  pid_t child = start_child();
  cr_expect_eq(temp_folder_count(&folder), 1u);
  nabla_output_destroy(begin(NULL, 0));
  cr_expect_eq(temp_folder_count(&folder), 1u, "it is live");
  kill(child, SIGKILL);
  cr_assert_eq(waitpid(child, NULL, 0), child);
  cr_expect_eq(temp_folder_count(&folder), 1u, "it is stale");
  cr_expect_eq(make(NULL, NULL), NABLA_OK);
  cr_expect(holds_new());
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

/* What another process may do between our open and our lock. */
static enum rival { REMOVES, REPLACES, LOCKS, STAYS } rival;
static int rival_fd = -1;
static char first_temp[sizeof temp_seen];

static void interfere(void *context, faulty_call kind, const char *opened) {
  faulty_os *faulty = context;
  note_temp(NULL, kind, opened);
  if (kind != FAULTY_LOCK || faulty->calls[FAULTY_LOCK] != 1) return;
  memcpy(first_temp, temp_seen, sizeof first_temp);
  if (rival >= LOCKS) {
    rival_fd = open(temp_seen, O_RDONLY);
    cr_assert_eq(flock(rival_fd, LOCK_EX | LOCK_NB), 0);
  }
  if (rival != STAYS) cr_assert_eq(unlink(temp_seen), 0);
  if (rival == REPLACES) close(open(temp_seen, O_CREAT | O_WRONLY, 0600));
}

Test(output, a_cleaner_between_create_and_lock_does_no_harm) {
  for (rival = REMOVES; rival <= STAYS; rival++) {
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.before = interfere;
    faulty.context = &faulty;
    nabla_output_options options = with(&faulty.os, 0);
    cr_expect_eq(make(&options, NULL), NABLA_OK);
    cr_expect(holds_new());
    cr_expect_eq(faulty.calls[FAULTY_LOCK], 2u, "it took a second name");
    cr_expect_eq(faulty.open_fds, 0);
    cr_expect_eq(unlink(path), 0);
    if (rival == REPLACES) cr_expect_eq(unlink(first_temp), 0, "not ours");
    cr_expect_eq(temp_folder_count(&folder), 0u);
  }
  close(rival_fd);
}

/* A lock of a process that is no cleaner, and removes nothing. */
Test(output, what_cannot_be_locked_does_not_stay) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.fail_kind = FAULTY_LOCK;
  faulty.fail_at = 1;
  faulty.fail_calls = 100;
  faulty.error = -EWOULDBLOCK;
  nabla_output_options options = with(&faulty.os, 0);
  cr_expect_eq(make(&options, NULL), NABLA_OK);
  cr_expect(holds_new());
  cr_expect_eq(temp_folder_count(&folder), 1u);
  cr_expect_eq(faulty.open_fds, 0);
}

/* The stale name becomes another file between the look and the removal. */
static void swap_stale(void *context, faulty_call kind, const char *opened) {
  static int done;
  (void)context;
  if (kind != FAULTY_LOCK || done) return;
  (void)opened;
  char stale[256];
  done = 1;
  temp_folder_path(&folder, STALE, stale);
  cr_assert_eq(unlink(stale), 0);
  temp_folder_write(&folder, STALE, "another", 7);
}

Test(output, a_stale_name_that_becomes_another_file_stays) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.before = swap_stale;
  temp_folder_write(&folder, STALE, "x", 1);
  nabla_output_options options = with(&faulty.os, 0);
  cr_expect_eq(make(&options, NULL), NABLA_OK);
  cr_expect(exists(STALE));
}

static unsigned mode_of(const char *name) {
  struct stat info;
  char full[256];
  temp_folder_path(&folder, name, full);
  cr_assert_eq(stat(full, &info), 0, "%s", name);
  return info.st_mode & 07777;
}

static unsigned widest;
static void watch_mode(void *context, faulty_call kind, const char *opened) {
  struct stat info;
  note_temp(context, kind, opened);
  if (*temp_seen && stat(temp_seen, &info) == 0 && S_ISREG(info.st_mode))
    widest |= info.st_mode & 0777;
}

Test(output, permissions_are_of_what_is_replaced_and_never_wider) {
  static const unsigned modes[] = {0600, 0640, 0444, 0666, 0400};
  umask(022);
  for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.before = watch_mode;
    write_old();
    cr_assert_eq(chmod(path, modes[i]), 0);
    nabla_output_options options = with(&faulty.os, 1);
    options.permissions = 0777;
    widest = 0;
    cr_expect_eq(make(&options, NULL), NABLA_OK);
    cr_expect_eq(mode_of("out"), modes[i]);
    cr_expect_eq(widest & ~0600u, modes[i] & ~0600u & widest);
    cr_assert_eq(unlink(path), 0);
    widest = 0;
    options.permissions = modes[i];
    cr_expect_eq(make(&options, NULL), NABLA_OK);
    cr_expect_eq(mode_of("out"), modes[i] & ~022u);
    cr_expect_eq(widest, modes[i] & ~022u, "%o", widest);
    cr_assert_eq(unlink(path), 0);
  }
}

Test(output, permissions_stay_when_the_old_file_is_removed_meanwhile) {
  umask(022);
  write_old();
  cr_assert_eq(chmod(path, 0664), 0);
  nabla_output *output = begin(NULL, 1);
  cr_assert_eq(nabla_output_write(output, 0, content, BYTES, NULL), NABLA_OK);
  cr_assert_eq(unlink(path), 0);
  cr_expect_eq(nabla_output_commit(output, NULL), NABLA_OK);
  nabla_output_destroy(output);
  cr_expect_eq(mode_of("out"), 0664u);
}

Test(output, a_user_removes_what_is_his_alone) {
  char stale[256];
  if (geteuid() != 0) cr_skip_test("only root can make files of others");
  temp_folder_write(&folder, STALE, "x", 1);
  temp_folder_path(&folder, STALE, stale);
  cr_assert_eq(chown(stale, 65534, 65534), 0);
  nabla_output_destroy(begin(NULL, 0));
  cr_expect(exists(STALE));
  cr_assert_eq(chown(stale, 0, 0), 0);
  nabla_output_destroy(begin(NULL, 0));
  cr_expect(!exists(STALE));
}

Test(output, works_where_nothing_can_be_locked) {
  static const int errors[] = {-ENOLCK, -ENOSYS, -EOPNOTSUPP, -EBADF};
  for (size_t i = 0; i < 4; i++) {
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.fail_kind = FAULTY_LOCK;
    faulty.fail_at = 1;
    faulty.fail_calls = 100;
    faulty.error = errors[i];
    temp_folder_write(&folder, STALE, "x", 1);
    nabla_output_options options = with(&faulty.os, 1);
    cr_expect_eq(make(&options, NULL), NABLA_OK);
    cr_expect(holds_new());
    cr_expect(exists(STALE), "without a lock it may be live");
  }
}

/* ---- races for the final name ------------------------------------------- */

static void appear(void *context, faulty_call kind, const char *from) {
  (void)context, (void)from;
  if (kind == FAULTY_RENAME) write_old();
}

Test(output, never_replaces_what_appeared_meanwhile) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.before = appear;
  nabla_output_options options = with(&faulty.os, 0);
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(make(&options, &diag), NABLA_EXISTS);
  cr_expect_str_eq(diag.file, path);
  cr_expect(holds_old());
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

/* Makes renameat2 fail with ENOSYS in this process, as before Linux 3.15. */
static void forbid_renameat2(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

Test(output, never_replaces_without_renameat2_either) {
  forbid_renameat2();
  cr_expect_eq(make(NULL, NULL), NABLA_OK);
  cr_expect(holds_new());
  cr_expect_eq(temp_folder_count(&folder), 1u);
  cr_expect_eq(unlink(path), 0);
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.before = appear;
  nabla_output_options options = with(&faulty.os, 0);
  cr_expect_eq(make(&options, NULL), NABLA_EXISTS);
  cr_expect(holds_old());
  cr_expect_eq(temp_folder_count(&folder), 1u);
}

Test(output, the_system_table_never_replaces_by_accident) {
  const nabla_os *os = nabla_os_default();
  char from[256], link_path[256];
  write_old();
  temp_folder_path(&folder, "link", link_path);
  cr_assert_eq(symlink("new", link_path), 0);
  cr_expect_eq(os->open(os->self, path, NABLA_OS_CREATE_NEW), -EEXIST);
  cr_expect_eq(os->open(os->self, link_path, NABLA_OS_CREATE_NEW), -EEXIST);
  cr_expect(holds_old());
  cr_assert_eq(unlink(path), 0);
  temp_folder_path(&folder, "from", from);
  for (int round = 0; round < 2; round++) { /* with renameat2, and without */
    cr_assert_eq(mkdir(from, 0777), 0);
    cr_assert_eq(mkdir(path, 0777), 0);
    cr_expect_eq(os->rename(os->self, from, path, NABLA_OS_NO_REPLACE),
                 -EEXIST);
    cr_assert_eq(rmdir(path), 0);
    cr_expect_eq(os->rename(os->self, from, path, NABLA_OS_NO_REPLACE), 0);
    cr_assert_eq(rmdir(path), 0);
    if (round == 0) forbid_renameat2();
  }
  cr_expect_eq(os->rename(os->self, link_path, path, NABLA_OS_EXCHANGE),
               -EINVAL);
}

/* ---- failures ----------------------------------------------------------- */

/* Names that this process made and did not remove. */
static size_t own_temps(void) {
  size_t others = (size_t)exists("out") + (size_t)exists(STALE);
  return temp_folder_count(&folder) - others;
}

/* One run in which call `n` fails; returns whether there was such a call. */
static int run_with_fault(uint64_t n, int error, int force) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.fail_at = n;
  faulty.error = error;
  unlink(path);
  if (force) write_old();
  temp_folder_write(&folder, STALE, "x", 1);
  nabla_output_options options = with(&faulty.os, force);
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status = make(&options, &diag);
  cr_expect_eq(faulty.open_fds, 0, "call %d leaks", (int)n);
  cr_expect_eq(own_temps(), 0u, "call %d leaves a temporary", (int)n);
  if (status == NABLA_OK) {
    cr_expect(holds_new());
    return faulty.faults > 0;
  }
  cr_expect_gt(faulty.faults, 0u);
  cr_expect_eq(status, NABLA_IO);
  cr_expect_str_eq(diag.file, path);
  cr_expect_neq(diag.next[0], 0);
  if (error == -ENOSPC) cr_expect_not_null(strstr(diag.what, "are free"));
  if (holds_new())
    cr_expect_not_null(strstr(diag.what, "it is in place"));
  else
    cr_expect(force ? holds_old() : !exists("out"), "call %d", (int)n);
  return 1;
}

Test(output, every_failing_call_leaves_the_final_name_alone) {
  static const int errors[] = {-EIO, -ENOSPC, -EDQUOT, -EACCES};
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    for (int force = 0; force < 2; force++) {
      uint64_t n = 1;
      while (run_with_fault(n, errors[i], force)) n++;
      cr_expect_gt(n, 18u, "calls made: %d", (int)n);
    }
}

/* Fails the first call of one kind; what must be reported, not passed over. */
static void expect_reported(faulty_call kind, const char *what) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.fail_kind = kind;
  faulty.fail_at = 1;
  nabla_output_options options = with(&faulty.os, 0);
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(make(&options, &diag), NABLA_IO, "kind %d", (int)kind);
  cr_expect_not_null(strstr(diag.what, what), "%s", diag.what);
  cr_expect_eq(temp_folder_count(&folder), 0u);
}

Test(output, failures_that_matter_are_reported) {
  expect_reported(FAULTY_PWRITE, "write 1500 bytes");
  expect_reported(FAULTY_SYNC, "to the disk");
  expect_reported(FAULTY_RENAME, "rename");
  expect_reported(FAULTY_LOCK, "temporary");
}

Test(output, a_folder_that_does_not_sync_is_reported_in_place) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.fail_kind = FAULTY_SYNC;
  faulty.fail_at = 2;
  nabla_output_options options = with(&faulty.os, 0);
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(make(&options, &diag), NABLA_IO);
  cr_expect_not_null(strstr(diag.what, "may not survive a power loss"));
  cr_expect(holds_new());
  unlink(path);
  faulty_os_init(&faulty, NULL);
  faulty.fail_kind = FAULTY_SYNC;
  faulty.fail_at = 2;
  faulty.error = -EINVAL; /* no sync for folders here */
  cr_expect_eq(make(&options, NULL), NABLA_OK);
}

Test(output, what_could_not_be_removed_is_removed_next_time) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.fail_kind = FAULTY_UNLINK;
  faulty.fail_at = 1;
  nabla_output_destroy(begin(&faulty.os, 0));
  cr_expect_eq(temp_folder_count(&folder), 1u);
  cr_expect_eq(make(NULL, NULL), NABLA_OK);
  cr_expect_eq(temp_folder_count(&folder), 1u);
  cr_expect(holds_new());
}

Test(output, a_full_disk_names_the_free_bytes) {
  for (uint64_t space = 0; space <= BYTES; space += 250) {
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.space = space;
    nabla_output_options options = with(&faulty.os, 0);
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_status status = make(&options, &diag);
    cr_expect_eq(status, space < BYTES ? NABLA_IO : NABLA_OK);
    cr_expect_eq(exists("out"), space >= BYTES);
    if (!status) break;
    cr_expect_not_null(strstr(diag.what, "(0 bytes are free)"), "%s",
                       diag.what);
    cr_expect_not_null(strstr(diag.next, "free some space"));
    cr_expect_eq(temp_folder_count(&folder), 0u);
  }
}

Test(output, a_file_size_limit_is_an_error_not_a_signal) {
  signal(SIGXFSZ, SIG_IGN); /* then it shows as EFBIG */
  struct rlimit before, limit;
  cr_assert_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
  limit = before;
  limit.rlim_cur = 2000;
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
  nabla_diag diag = NABLA_DIAG_INIT;
  nabla_status status = make(NULL, &diag);
  cr_assert_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
  cr_expect_eq(status, NABLA_IO);
  cr_expect_eq(diag.offset, 2000u);
  cr_expect_not_null(strstr(diag.what, "are free"), "%s", diag.what);
  cr_expect_not_null(strstr(diag.next, "ulimit -f"));
  cr_expect_eq(temp_folder_count(&folder), 0u);
}

Test(output, offsets_beyond_what_files_have_are_refused) {
  nabla_output *output = begin(NULL, 0);
  static const uint64_t offsets[] = {INT64_MAX, UINT64_MAX, UINT64_MAX - 3};
  for (size_t i = 0; i < 3; i++) {
    nabla_diag diag = NABLA_DIAG_INIT;
    cr_expect_eq(nabla_output_write(output, offsets[i], "1234", 4, &diag),
                 NABLA_IO);
    cr_expect_eq(diag.offset, offsets[i]);
  }
  nabla_output_destroy(output);
}

static int64_t swallow(void *self, int fd, const void *in, size_t size,
                       uint64_t at) {
  (void)self, (void)fd, (void)in, (void)at;
  return (int64_t)size;
}

/* As much as would ask the disk to begin. */
static void write_once(const nabla_os *os, uint64_t expected) {
  nabla_os quick = *os;
  quick.pwrite = swallow;
  nabla_output_options options = with(&quick, 1);
  options.expected = expected;
  nabla_output *output = NULL;
  uint8_t *piece = calloc(NABLA_OUTPUT_EARLY_EVERY, 1);
  cr_assert_not_null(piece);
  cr_assert_eq(nabla_output_create(path, &options, &output, NULL), NABLA_OK);
  cr_expect_eq(
      nabla_output_write(output, 0, piece, NABLA_OUTPUT_EARLY_EVERY, NULL),
      NABLA_OK);
  cr_expect_eq(nabla_output_commit(output, NULL), NABLA_OK);
  nabla_output_destroy(output);
  free(piece);
}

Test(output, asks_the_disk_to_begin_and_does_not_mind_a_refusal) {
  enum { PIECE = 24 << 20, PIECES = 9 }; /* 64, 128 and 192 MiB are passed */
  nabla_os quick = *nabla_os_default();
  faulty_os faulty;
  quick.pwrite = swallow;
  faulty_os_init(&faulty, &quick);
  faulty.fail_kind = FAULTY_START_SYNC;
  faulty.fail_at = 2;
  uint8_t *piece = calloc(PIECE, 1);
  cr_assert_not_null(piece);
  nabla_output_options options = with(&faulty.os, 0);
  options.expected = NABLA_OUTPUT_EARLY_FROM;
  nabla_output *output = NULL;
  cr_assert_eq(nabla_output_create(path, &options, &output, NULL), NABLA_OK);
  for (int i = 0; i < PIECES; i++)
    cr_expect_eq(
        nabla_output_write(output, (uint64_t)i * PIECE, piece, PIECE, NULL),
        NABLA_OK);
  cr_expect_eq(nabla_output_commit(output, NULL), NABLA_OK);
  nabla_output_destroy(output);
  free(piece);
  cr_expect_eq(faulty.calls[FAULTY_START_SYNC], 3u);
  cr_expect_eq(faulty.faults, 1u);
  quick.start_sync = NULL; /* an embedder's table need not have it */
  write_once(&quick, NABLA_OUTPUT_EARLY_FROM);
  faulty_os_init(&faulty, NULL);
  write_once(&faulty.os, NABLA_OUTPUT_EARLY_FROM - 1); /* soon synced */
  write_once(&faulty.os, 0);
  cr_expect_eq(faulty.calls[FAULTY_START_SYNC], 0u);
}

Test(output, survives_failing_allocations) {
  for (size_t n = 1;; n++) {
    failing_allocator failing;
    faulty_os faulty;
    failing_allocator_init(&failing, n);
    faulty_os_init(&faulty, NULL);
    nabla_output_options options = with(&faulty.os, 0);
    options.allocator = &failing.allocator;
    nabla_status status = make(&options, NULL);
    size_t failures = failing.failures;
    cr_expect_eq(status, failures ? NABLA_NO_MEMORY : NABLA_OK);
    cr_expect_eq(faulty.open_fds, 0);
    cr_expect_eq(temp_folder_count(&folder), failures ? 0u : 1u);
    cr_expect(failing_allocator_is_clean(&failing));
    if (!failures) break;
  }
}
