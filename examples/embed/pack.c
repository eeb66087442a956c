/* Writes a small model and packs it:
 *
 *   pack DENSE.safetensors PACKED.safetensors
 *
 *   cc pack.c $(pkg-config --cflags --libs nabla-quant)
 *
 * The weight `layer.weight` is 64 x 64; row n has the values -(n + 1), 0 and
 * n + 1 by turns, which nf4 holds without an error. */
#include <stdio.h>

#include "nabla/quantize.h"
#include "nabla/safetensors.h"

enum { ROWS = 64, COLUMNS = 64 };

static nabla_status write_dense(const char *path, nabla_diag *diag) {
  static float w[ROWS][COLUMNS];
  const uint64_t shape[2] = {ROWS, COLUMNS};
  nabla_safetensors_writer *writer;
  size_t id;
  for (int n = 0; n < ROWS; n++)
    for (int k = 0; k < COLUMNS; k++)
      w[n][k] = (float)(((n + k) % 3 - 1) * (n + 1));
  NABLA_TRY(nabla_safetensors_writer_create(NULL, NULL, &writer, diag));
  nabla_status status = nabla_safetensors_writer_add(
      writer, "layer.weight", 12, NABLA_DTYPE_F32, shape, 2, &id, diag);
  if (!status) status = nabla_safetensors_writer_begin(writer, path, 1, diag);
  if (!status)
    status = nabla_safetensors_writer_write(writer, id, 0, w, sizeof w, diag);
  if (!status) status = nabla_safetensors_writer_commit(writer, diag);
  nabla_safetensors_writer_destroy(writer);
  return status;
}

static nabla_status pack(const char *from, const char *to, nabla_diag *diag) {
  const nabla_quantize_options options = {
      .struct_size = sizeof options, .encoding = nabla_encoding_find("nf4")};
  const nabla_write_options where = {
      .struct_size = sizeof where, .path = to, .force = 1};
  nabla_checkpoint *model;
  nabla_plan *plan;
  nabla_write_summary summary;
  NABLA_TRY(nabla_checkpoint_open(from, NULL, &model, diag));
  nabla_status status = nabla_plan_create(model, &options, NULL, &plan, diag);
  if (!status) {
    status = nabla_plan_write(plan, &where, NULL, &summary, diag);
    nabla_plan_destroy(plan);
  }
  nabla_checkpoint_close(model);
  if (!status)
    printf("%s: %llu bytes, %s: %llu bytes\n", from,
           (unsigned long long)summary.bytes_in, to,
           (unsigned long long)summary.bytes_out);
  return status;
}

int main(int argc, char **argv) {
  nabla_diag diag = NABLA_DIAG_INIT;
  if (argc != 3) {
    fprintf(stderr, "usage: pack DENSE.safetensors PACKED.safetensors\n");
    return 2;
  }
  nabla_status status = write_dense(argv[1], &diag);
  if (!status) status = pack(argv[1], argv[2], &diag);
  if (status) {
    char text[1024];
    nabla_diag_format(&diag, text, sizeof text);
    fprintf(stderr, "pack: %s\n", text);
  }
  return status != NABLA_OK;
}
