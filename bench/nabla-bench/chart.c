/* SVG; see chart.h. Sizes are in pixels; M has a logarithmic axis. */
#include "bench/nabla-bench/chart.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define WIDTH       860
#define HEIGHT      460
#define LEFT        50
#define TOP         40
#define PLOT_WIDTH  590
#define PLOT_HEIGHT 360
#define LAST_M      512

/* Distinct for most eyes: Okabe and Ito's, then the same with dashes. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73",
                                      "#cc79a7", "#e69f00", "#56b4e9",
                                      "#000000"};
enum { COLOURS = sizeof colours / sizeof *colours };

static double x_of(unsigned m) {
  return LEFT + PLOT_WIDTH * log2(m) / log2(LAST_M);
}

static double y_of(double share) {
  return TOP + PLOT_HEIGHT * (1 - (share > 1.1 ? 1.1 : share) / 1.1);
}

static void draw_axes(FILE *out) {
  fprintf(out,
          "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
          "font-family=\"sans-serif\" font-size=\"12\">\n"
          "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n"
          "<text x=\"%d\" y=\"22\" font-size=\"15\">Share of the limit by M, "
          "one thread</text>\n",
          WIDTH, HEIGHT, LEFT);
  for (int i = 0; i <= 10; i += 2)
    fprintf(out,
            "<path d=\"M%d %.1fH%d\" stroke=\"#dddddd\"/>"
            "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.1f</text>\n",
            LEFT, y_of(i / 10.0), LEFT + PLOT_WIDTH, LEFT - 6,
            y_of(i / 10.0) + 4, i / 10.0);
  for (unsigned m = 1; m <= LAST_M; m *= 2)
    fprintf(out,
            "<path d=\"M%.1f %dV%d\" stroke=\"#eeeeee\"/>"
            "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%u</text>\n",
            x_of(m), TOP, TOP + PLOT_HEIGHT, x_of(m), TOP + PLOT_HEIGHT + 18,
            m);
  fprintf(out, "<text x=\"%d\" y=\"%d\">M, rows of x</text>\n",
          LEFT + PLOT_WIDTH / 2 - 30, TOP + PLOT_HEIGHT + 40);
}

static void draw_line(FILE *out, const chart_line *line, unsigned number) {
  const char *colour = colours[number % COLOURS];
  const char *dashes = number >= COLOURS ? " stroke-dasharray=\"6 3\"" : "";
  const int y = TOP + 12 + (int)number * 20;
  fprintf(out,
          "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\"%s "
          "points=\"",
          colour, dashes);
  for (unsigned i = 0; i < line->count; i++)
    fprintf(out, "%s%.1f,%.1f", i ? " " : "", x_of(line->m[i]),
            y_of(line->share[i]));
  fprintf(out,
          "\"/>\n<path d=\"M%d %dh24\" stroke=\"%s\" stroke-width=\"2\"%s/>"
          "<text x=\"%d\" y=\"%d\">%s</text>\n",
          LEFT + PLOT_WIDTH + 14, y, colour, dashes, LEFT + PLOT_WIDTH + 44,
          y + 4, line->name);
}

nabla_status chart_write(const char *path, const chart_line *lines,
                         unsigned count, nabla_diag *diag) {
  FILE *out = fopen(path, "w");
  int failed = !out;
  if (out) {
    draw_axes(out);
    for (unsigned i = 0; i < count; i++) draw_line(out, &lines[i], i);
    fputs("</svg>\n", out);
    failed = ferror(out);
    if (fclose(out)) failed = 1;
  }
  if (!failed) return NABLA_OK;
  nabla_status status =
      nabla_fail(diag, NABLA_IO, "cannot write: %s", strerror(errno));
  nabla_diag_set_file(diag, path);
  return status;
}
