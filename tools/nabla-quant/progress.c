/* Progress on standard error: a bar, or one JSON object per line. */
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "tools/nabla-quant/cli.h"
#include "tools/nabla-quant/signals.h"

#define BAR_INTERVAL  0.1 /* seconds: at most 10 bars a second */
#define JSON_INTERVAL 0.2 /* and 5 lines */
#define BAR_CELLS     20
#define MAX_COLUMNS   200

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void cli_progress_begin(cli *c) {
  cli_progress *p = &c->progress;
  const cli_options *o = &c->options;
  int tty = isatty(STDERR_FILENO) || cli_given(o, CLI_OPTION_fake_tty);
  /* JSON on the same terminal would be torn apart by a bar */
  if (cli_given(o, CLI_OPTION_json) && isatty(STDOUT_FILENO)) tty = 0;
  p->mode = o->progress;
  if (p->mode == CLI_PROGRESS_AUTO)
    p->mode = tty && !cli_given(o, CLI_OPTION_quiet) ? CLI_PROGRESS_BAR
                                                     : CLI_PROGRESS_NONE;
  p->verb = cli_verbs[o->verb].name;
  p->started = now(), p->shown = -1;
  c->environment.progress = cli_progress_report;
  c->environment.progress_self = c;
}

static double rate(const cli_progress *p, double time) {
  double elapsed = time - p->started;
  return elapsed > 0 ? (double)p->last.bytes_done / elapsed : 0;
}

static size_t columns(void) {
  struct winsize size;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) || !size.ws_col) return 80;
  return size.ws_col < MAX_COLUMNS ? size.ws_col : MAX_COLUMNS;
}

static void draw_bar(cli_progress *p, double time) {
  char line[MAX_COLUMNS + 1], cells[BAR_CELLS + 1], eta[32] = "--:--";
  uint64_t done = p->last.bytes_done, total = p->last.bytes_total;
  double share = total ? (double)done / (double)total : 0,
         speed = rate(p, time);
  if (share > 1) share = 1;
  for (int i = 0; i < BAR_CELLS; i++)
    cells[i] = share * BAR_CELLS > i ? '#' : '-';
  cells[BAR_CELLS] = '\0';
  if (speed > 0 && total >= done) {
    double left = (double)(total - done) / speed;
    if (left < 3600 * 100)
      snprintf(eta, sizeof eta, "%02u:%02u", (unsigned)left / 60,
               (unsigned)left % 60);
  }
  snprintf(line, columns(),
           "%s %3d%% [%s] %llu/%llu tensors  %.1f MB/s  ETA %s",
           p->last.phase ? p->last.phase : p->verb, (int)(share * 100), cells,
           (unsigned long long)p->last.tensors_done,
           (unsigned long long)p->last.tensors_total, speed / 1e6, eta);
  fprintf(stderr, "\r%s\033[K", line);
  fflush(stderr);
  p->on_screen = 1;
}

static void write_json(cli_progress *p, double time, const char *kind,
                       const char *status) {
  nabla_json_out out = cli_json_to(stderr);
  nabla_json_out_object(&out);
  cli_json_text(&out, "progress", kind);
  cli_json_text(&out, "verb", p->verb);
  cli_json_text(&out, "phase", p->last.phase);
  cli_json_number(&out, "bytes_done", p->last.bytes_done);
  cli_json_number(&out, "bytes_total", p->last.bytes_total);
  cli_json_number(&out, "tensors_done", p->last.tensors_done);
  cli_json_number(&out, "tensors_total", p->last.tensors_total);
  cli_json_text(&out, "tensor", p->last.tensor);
  cli_json_real(&out, "seconds", time - p->started);
  cli_json_real(&out, "bytes_per_second", rate(p, time));
  cli_json_text(&out, "status", status);
  nabla_json_out_object_end(&out);
  /* progress that cannot be shown must not stop the work */
  nabla_status ignored = nabla_json_out_finish(&out);
  (void)ignored;
  fputc('\n', stderr);
}

int cli_progress_report(void *self, const nabla_progress *progress) {
  cli *c = self;
  cli_progress *p = &c->progress;
  double wait = p->mode == CLI_PROGRESS_JSON ? JSON_INTERVAL : BAR_INTERVAL;
  if (cli_signals_received()) return 1;
  double time = now();
  /* counted anew: another phase, or the next of several files; waiting for the
     disk goes on with what was reached */
  if (!p->last.phase || progress->bytes_done < p->last.bytes_done)
    p->started = time;
  p->last = *progress;
  if (p->mode != CLI_PROGRESS_NONE &&
      (p->shown < 0 || time - p->shown >= wait)) {
    p->shown = time;
    if (p->mode == CLI_PROGRESS_BAR)
      draw_bar(p, time);
    else
      write_json(p, time, "continue", NULL);
  }
  p->last.tensor = NULL; /* it lives only during this call */
  return 0;
}

void cli_progress_clear(cli *c) {
  if (!c->progress.on_screen) return;
  fputs("\r\033[K", stderr);
  fflush(stderr);
  c->progress.on_screen = 0;
}

void cli_progress_end(cli *c, nabla_status status) {
  cli_progress_clear(c);
  if (c->progress.mode == CLI_PROGRESS_JSON && c->progress.verb)
    write_json(&c->progress, now(), "end", nabla_status_name(status));
}
