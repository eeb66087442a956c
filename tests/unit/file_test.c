/* lib/base/file/file.h, the reader: exact bytes, or an error that says where.
 */
#include "lib/base/file/file.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/failing_allocator.h"
#include "tests/support/faulty_os.h"
#include "tests/support/temp_folder.h"

#define BYTES 10000

static temp_folder folder;
static char path[256];
static uint8_t content[BYTES];

static void set_up(void) {
  temp_folder_create(&folder);
  temp_folder_path(&folder, "in", path);
  for (size_t i = 0; i < BYTES; i++) content[i] = (uint8_t)(i * 7 + i / 256);
  temp_folder_write(&folder, "in", content, BYTES);
}

static void tear_down(void) { temp_folder_destroy(&folder); }

/* .timeout: opening a FIFO must not wait for a writer */
TestSuite(file, .init = set_up, .fini = tear_down, .timeout = 60);

static nabla_file *open_in(const nabla_os *os) {
  nabla_file *file = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_assert_eq(nabla_file_open(os, NULL, path, &file, &diag), NABLA_OK, "%s",
               diag.what);
  return file;
}

static void expect_refused(const char *name, nabla_status code,
                           const char *what) {
  nabla_file *file = NULL;
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(nabla_file_open(NULL, NULL, name, &file, &diag), code);
  cr_expect_null(file);
  cr_expect_eq(diag.code, code);
  cr_expect_str_eq(diag.file, name);
  cr_expect_not_null(strstr(diag.what, what), "%s", diag.what);
}

Test(file, knows_its_size_path_and_identity) {
  nabla_file *file = open_in(NULL);
  struct stat now;
  cr_assert_eq(stat(path, &now), 0);
  cr_expect_eq(nabla_file_size(file), BYTES);
  cr_expect_str_eq(nabla_file_borrow_path(file), path);
  const nabla_os_info *info = nabla_file_borrow_info(file);
  cr_expect_eq(info->inode, (uint64_t)now.st_ino);
  cr_expect_eq(info->device, (uint64_t)now.st_dev);
  cr_expect_eq(info->changed_ns,
               now.st_mtim.tv_sec * 1000000000ll + now.st_mtim.tv_nsec);
  cr_expect(info->is_file && !info->is_folder && !info->is_link);
  nabla_file_close(file);
  nabla_file_close(NULL);
}

static void expect_right_bytes(nabla_file *file) {
  static const size_t ranges[][2] = {{0, BYTES}, {0, 1},     {BYTES - 1, 1},
                                     {17, 4096}, {BYTES, 0}, {3, 0}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    uint8_t got[BYTES + 1];
    memset(got, 0xa5, sizeof got);
    size_t at = ranges[i][0], size = ranges[i][1];
    cr_assert_eq(nabla_file_read(file, at, got, size, NULL), NABLA_OK);
    cr_expect_eq(memcmp(got, content + at, size), 0);
    cr_expect_eq(got[size], 0xa5, "wrote past the end");
  }
}

Test(file, reads_any_range) {
  nabla_file *file = open_in(NULL);
  expect_right_bytes(file);
  nabla_file_close(file);
}

Test(file, short_and_interrupted_reads_give_the_same_bytes) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.short_transfers = faulty.interrupt = 1;
  nabla_file *file = open_in(&faulty.os);
  expect_right_bytes(file);
  cr_expect_eq(nabla_file_check_unchanged(file, NULL), NABLA_OK);
  nabla_file_close(file);
  cr_expect_gt(faulty.calls[FAULTY_PREAD], 20u);
  cr_expect_eq(faulty.open_fds, 0);
}

Test(file, follows_links) {
  char link_path[256];
  temp_folder_path(&folder, "link", link_path);
  cr_assert_eq(symlink("in", link_path), 0);
  nabla_file *file = NULL;
  cr_assert_eq(nabla_file_open(NULL, NULL, link_path, &file, NULL), NABLA_OK);
  cr_expect_eq(nabla_file_size(file), BYTES);
  nabla_file_close(file);
}

Test(file, refuses_what_is_no_regular_file) {
  expect_refused(folder.path, NABLA_INVALID_ARGUMENT, "a folder");
  expect_refused("/dev/null", NABLA_INVALID_ARGUMENT, "device");
  char fifo[256];
  temp_folder_path(&folder, "fifo", fifo);
  cr_assert_eq(mkfifo(fifo, 0600), 0);
  expect_refused(fifo, NABLA_INVALID_ARGUMENT, "pipe");
}

Test(file, refuses_what_cannot_be_opened) {
  char missing[256];
  temp_folder_path(&folder, "missing", missing);
  expect_refused(missing, NABLA_IO, "No such file");
  cr_expect_eq(nabla_file_open(NULL, NULL, "", &(nabla_file *){0}, NULL),
               NABLA_INVALID_ARGUMENT);
  cr_expect_eq(nabla_file_open(NULL, NULL, NULL, &(nabla_file *){0}, NULL),
               NABLA_INVALID_ARGUMENT);
}

static void expect_end(nabla_file *file, uint64_t at, size_t size,
                       uint64_t offset) {
  uint8_t got[BYTES];
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(nabla_file_read(file, at, got, size, &diag), NABLA_CORRUPT);
  cr_expect_eq(diag.offset, offset);
  cr_expect_str_eq(diag.file, path);
}

Test(file, reading_past_the_end_is_corrupt) {
  nabla_file *file = open_in(NULL);
  expect_end(file, BYTES - 1, 2, BYTES);
  expect_end(file, BYTES + 5, 1, BYTES + 5);
  expect_end(file, UINT64_MAX, 1, UINT64_MAX);
  expect_end(file, 1, SIZE_MAX, BYTES);
  nabla_file_close(file);
}

Test(file, shrinking_while_open_is_corrupt) {
  nabla_file *file = open_in(NULL);
  cr_expect_eq(nabla_file_check_unchanged(file, NULL), NABLA_OK);
  cr_assert_eq(truncate(path, 100), 0);
  expect_end(file, 90, 20, 100);
  cr_expect_eq(nabla_file_check_unchanged(file, NULL), NABLA_CORRUPT);
  nabla_file_close(file);
}

Test(file, rewriting_while_open_is_noticed_at_equal_size) {
  nabla_file *file = open_in(NULL);
  const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(nabla_file_check_unchanged(file, &diag), NABLA_CORRUPT);
  cr_expect_str_eq(diag.file, path);
  nabla_file_close(file);
}

Test(file, all_of_it_is_read_up_to_a_limit) {
  nabla_file *file = open_in(NULL);
  nabla_buffer text;
  nabla_diag diag = NABLA_DIAG_INIT;
  uint8_t expected[BYTES];
  nabla_buffer_init(&text, NULL, "a text", 2 * BYTES);
  cr_assert_eq(nabla_file_read(file, 0, expected, BYTES, NULL), NABLA_OK);
  cr_expect_eq(nabla_file_read_all(file, BYTES - 1, &text, &diag),
               NABLA_TOO_LARGE);
  cr_assert_eq(nabla_buffer_append(&text, "x", 1, NULL), NABLA_OK);
  cr_assert_eq(nabla_file_read_all(file, BYTES, &text, &diag), NABLA_OK);
  cr_assert_eq(text.size, BYTES + 1u);
  cr_expect(text.data[0] == 'x' && !memcmp(text.data + 1, expected, BYTES));
  const struct timespec times[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  cr_assert_eq(utimensat(AT_FDCWD, path, times, 0), 0);
  text.size = 0;
  cr_expect_eq(nabla_file_read_all(file, BYTES, &text, &diag), NABLA_CORRUPT);
  nabla_buffer_deinit(&text);
  nabla_file_close(file);
}

static nabla_status use(const nabla_os *os, const nabla_allocator *allocator,
                        nabla_diag *diag) {
  nabla_file *file;
  uint8_t got[BYTES];
  NABLA_TRY(nabla_file_open(os, allocator, path, &file, diag));
  nabla_status status = nabla_file_read(file, 10, got, 500, diag);
  if (!status) status = nabla_file_check_unchanged(file, diag);
  nabla_file_close(file);
  return status;
}

Test(file, every_failing_call_is_reported_and_leaks_nothing) {
  for (uint64_t n = 1;; n++) {
    faulty_os faulty;
    faulty_os_init(&faulty, NULL);
    faulty.fail_at = n;
    nabla_diag diag = NABLA_DIAG_INIT;
    nabla_status status = use(&faulty.os, NULL, &diag);
    cr_expect_eq(faulty.open_fds, 0);
    int in_close = n == 5; /* the bytes are right by then */
    cr_expect_eq(status, faulty.faults && !in_close ? NABLA_IO : NABLA_OK);
    if (status) cr_expect_str_eq(diag.file, path);
    if (faulty.faults == 0) {
      cr_expect_eq(n, 6u, "open, info, pread, info, close");
      break;
    }
  }
}

Test(file, a_read_error_names_its_offset) {
  faulty_os faulty;
  faulty_os_init(&faulty, NULL);
  faulty.short_transfers = 1;
  faulty.fail_kind = FAULTY_PREAD;
  faulty.fail_at = 2;
  nabla_file *file = open_in(&faulty.os);
  uint8_t got[100];
  nabla_diag diag = NABLA_DIAG_INIT;
  cr_expect_eq(nabla_file_read(file, 1000, got, 100, &diag), NABLA_IO);
  cr_expect(diag.offset > 1000 && diag.offset <= 1050);
  nabla_file_close(file);
}

Test(file, survives_failing_allocations) {
  for (size_t n = 1;; n++) {
    failing_allocator failing;
    faulty_os faulty;
    failing_allocator_init(&failing, n);
    faulty_os_init(&faulty, NULL);
    nabla_status status = use(&faulty.os, &failing.allocator, NULL);
    cr_expect_eq(status, failing.failures ? NABLA_NO_MEMORY : NABLA_OK);
    cr_expect_eq(faulty.open_fds, 0);
    size_t failures = failing.failures;
    cr_expect(failing_allocator_is_clean(&failing));
    if (!failures) break;
  }
}
