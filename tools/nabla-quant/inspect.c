/* nabla-quant inspect: what a checkpoint holds. */
#include <math.h>
#include <string.h>

#include "lib/base/edit_distance.h"
#include "nabla/measure.h"
#include "tools/nabla-quant/cli.h"

static void tensor_json(cli *c, const nabla_checkpoint *checkpoint,
                        const nabla_tensor *t) {
  nabla_json_out *json = &c->json;
  cli_json_name(json, "name", t->name, t->name_length);
  cli_json_shape(json, t);
  cli_json_text(json, "dtype", nabla_dtype_name(t->dtype));
  cli_json_text(json, "layout", nabla_layout_name(t->layout));
  cli_json_format(json, &t->format);
  cli_json_number(json, "elements", t->elements);
  cli_json_number(json, "stored_bytes", t->stored_bytes);
  cli_json_text(json, "file",
                nabla_checkpoint_shard_name(checkpoint, t->data.shard));
  cli_json_text(json, "unsupported", t->unsupported);
}

static void files_json(cli *c, const nabla_checkpoint *checkpoint) {
  nabla_json_out *json = &c->json;
  nabla_json_out_key(json, "files");
  nabla_json_out_array(json);
  for (uint32_t i = 0; i < nabla_checkpoint_shard_count(checkpoint); i++) {
    const nabla_tensor_file *file =
        nabla_checkpoint_borrow_shard(checkpoint, i);
    nabla_json_out_object(json);
    cli_json_text(json, "name", nabla_checkpoint_shard_name(checkpoint, i));
    cli_json_number(json, "bytes", nabla_tensor_file_size(file));
    cli_json_number(json, "stored_tensors", nabla_tensor_file_count(file));
    nabla_json_out_key(json, "metadata");
    nabla_json_out_object(json);
    for (size_t k = 0; k < nabla_tensor_file_metadata_count(file); k++) {
      const char *key, *value;
      nabla_tensor_file_metadata(file, k, &key, &value);
      cli_json_text(json, key, value);
    }
    nabla_json_out_object_end(json);
    nabla_json_out_object_end(json);
  }
  nabla_json_out_array_end(json);
}

static void all_json(cli *c, const nabla_checkpoint *checkpoint) {
  cli_json_begin(c);
  files_json(c, checkpoint);
  nabla_json_out_key(&c->json, "tensors");
  nabla_json_out_array(&c->json);
  for (size_t i = 0; i < nabla_checkpoint_count(checkpoint); i++) {
    nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    nabla_json_out_object(&c->json);
    tensor_json(c, checkpoint, &tensor);
    nabla_json_out_object_end(&c->json);
  }
  nabla_json_out_array_end(&c->json);
}

static void print_files(const nabla_checkpoint *checkpoint) {
  char size[CLI_SIZE_TEXT];
  for (uint32_t i = 0; i < nabla_checkpoint_shard_count(checkpoint); i++) {
    const nabla_tensor_file *file =
        nabla_checkpoint_borrow_shard(checkpoint, i);
    const char *name = nabla_checkpoint_shard_name(checkpoint, i);
    cli_size_text(nabla_tensor_file_size(file), size);
    cli_print_text(stdout, name);
    printf(": %s, %zu stored tensor%s\n", size, nabla_tensor_file_count(file),
           cli_plural(nabla_tensor_file_count(file)));
    for (size_t k = 0; k < nabla_tensor_file_metadata_count(file); k++) {
      const char *key, *value;
      nabla_tensor_file_metadata(file, k, &key, &value);
      fputs("  ", stdout);
      cli_print_text(stdout, key);
      fputs(" = ", stdout);
      cli_print_text(stdout, value);
      putchar('\n');
    }
  }
  putchar('\n');
}

static void add_row(cli_table *table, const nabla_checkpoint *checkpoint,
                    const nabla_tensor *t, int verbose) {
  char shape[CLI_SHAPE_TEXT], format[64], size[CLI_SIZE_TEXT];
  cli_shape_text(t, shape);
  cli_format_text(&t->format, format);
  cli_size_text(t->stored_bytes, size);
  cli_table_name(table, t->name, t->name_length);
  cli_table_text(table, nabla_dtype_name(t->dtype));
  cli_table_text(table, shape);
  cli_table_text(table, t->format.encoding ? format : "-");
  cli_table_text(table, nabla_layout_name(t->layout));
  cli_table_text(table, size);
  if (verbose) {
    const char *name = nabla_checkpoint_shard_name(checkpoint, t->data.shard);
    cli_table_name(table, name, strlen(name));
  }
}

static void note_unsupported(cli *c, const nabla_tensor *t, size_t before) {
  if (before >= CLI_MOST_SHOWN && !cli_given(&c->options, CLI_OPTION_verbose))
    return;
  cli_note(c, "tensor '%s' cannot be decoded: %s; " CLI_DECODE_ELSEWHERE,
           t->name, t->unsupported);
}

static nabla_status print_all(cli *c, const nabla_checkpoint *checkpoint,
                              nabla_diag *diag) {
  static const char *const heads[] = {"tensor", "dtype",  "shape", "encoding",
                                      "layout", ">bytes", "file"};
  int verbose = cli_given(&c->options, CLI_OPTION_verbose) != 0;
  size_t count = nabla_checkpoint_count(checkpoint), packed = 0;
  size_t unsupported = 0;
  cli_table table;
  uint64_t bytes = 0; /* of data that lies in files: cannot overflow */
  char size[CLI_SIZE_TEXT];
  print_files(checkpoint);
  cli_table_init(&table, heads, verbose ? 7 : 6, diag);
  for (size_t i = 0; i < count; i++) {
    nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    add_row(&table, checkpoint, &tensor, verbose);
    packed += tensor.layout != NABLA_LAYOUT_DENSE;
    bytes += tensor.stored_bytes;
    if (tensor.unsupported) note_unsupported(c, &tensor, unsupported++);
  }
  if (unsupported > CLI_MOST_SHOWN && !verbose)
    cli_note(c, "and %zu more tensor%s that cannot be decoded (-v shows all)",
             unsupported - CLI_MOST_SHOWN,
             cli_plural(unsupported - CLI_MOST_SHOWN));
  NABLA_TRY(cli_table_print(&table, c->colored_out));
  cli_size_text(bytes, size);
  printf("\n%zu tensor%s (%zu packed), %s of data\n", count, cli_plural(count),
         packed, size);
  return NABLA_OK;
}

/* Bits per code that an ideal coder would need. */
static double entropy(const nabla_statistics *s) {
  double total = 0, bits = 0;
  for (int i = 0; i < 256; i++) total += (double)s->codes[i];
  for (int i = 0; i < 256; i++) {
    double share = total > 0 ? (double)s->codes[i] / total : 0;
    if (share > 0) bits -= share * log2(share);
  }
  return bits;
}

static void statistics_json(cli *c, const nabla_tensor *t,
                            const nabla_statistics *s) {
  nabla_json_out *json = &c->json;
  nabla_json_out_key(json, "statistics");
  if (!s) {
    nabla_json_out_null(json);
    return;
  }
  nabla_json_out_object(json);
  cli_json_number(json, "zeros", s->zeros);
  cli_json_number(json, "nan", s->nan);
  cli_json_number(json, "infinite", s->infinite);
  cli_json_real(json, "min", s->min);
  cli_json_real(json, "max", s->max);
  cli_json_real(json, "mean", s->mean);
  cli_json_real(json, "std", s->std);
  cli_json_real(json, "absmax", s->absmax);
  nabla_json_out_key(json, "packed");
  if (t->layout == NABLA_LAYOUT_DENSE) {
    nabla_json_out_null(json);
  } else {
    nabla_json_out_object(json);
    cli_json_number(json, "scales", s->scales);
    cli_json_real(json, "scale_min", s->scale_min);
    cli_json_real(json, "scale_max", s->scale_max);
    cli_json_real(json, "entropy_bits", entropy(s));
    nabla_json_out_key(json, "codes");
    nabla_json_out_array(json);
    int codes = 1 << (t->format.encoding ? t->format.encoding->bits : 8);
    for (int i = 0; i < codes; i++) nabla_json_out_u64(json, s->codes[i]);
    nabla_json_out_array_end(json);
    nabla_json_out_object_end(json);
  }
  nabla_json_out_object_end(json);
}

static void print_statistics(const nabla_tensor *t, const nabla_statistics *s) {
  printf("zeros     %llu\n", (unsigned long long)s->zeros);
  printf("nan       %llu\n", (unsigned long long)s->nan);
  printf("infinite  %llu\n", (unsigned long long)s->infinite);
  printf("min       %.9g\nmax       %.9g\n", s->min, s->max);
  printf("mean      %.9g\nstd       %.9g\n", s->mean, s->std);
  printf("absmax    %.9g\n", s->absmax);
  if (t->layout == NABLA_LAYOUT_DENSE) return;
  printf("scales    %llu, from %.9g to %.9g\n", (unsigned long long)s->scales,
         s->scale_min, s->scale_max);
  printf("entropy   %.4f of %u bits per code\n", entropy(s),
         t->format.encoding->bits);
}

static void print_tensor(const nabla_checkpoint *checkpoint,
                         const nabla_tensor *t) {
  char shape[CLI_SHAPE_TEXT], format[64], size[CLI_SIZE_TEXT];
  const char *file = nabla_checkpoint_shard_name(checkpoint, t->data.shard);
  cli_shape_text(t, shape);
  cli_format_text(&t->format, format);
  cli_size_text(t->stored_bytes, size);
  fputs("tensor    ", stdout);
  cli_print_name(stdout, t->name, t->name_length);
  fputs("\nfile      ", stdout);
  cli_print_text(stdout, file);
  printf("\ndtype     %s\nshape     %s, %llu elements\n",
         nabla_dtype_name(t->dtype), shape, (unsigned long long)t->elements);
  printf("stored    %s, %s layout, %s\n",
         t->format.encoding ? format : "as it is", nabla_layout_name(t->layout),
         size);
}

static nabla_status fail_not_found(const nabla_checkpoint *checkpoint,
                                   const char *name, nabla_diag *diag) {
  nabla_nearest near = nabla_nearest_begin(name, strlen(name));
  for (size_t i = 0; i < nabla_checkpoint_count(checkpoint); i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    nabla_nearest_offer(&near, tensor.name, tensor.name_length);
  }
  nabla_status status =
      nabla_fail(diag, NABLA_INVALID_ARGUMENT, "there is no tensor '%s'", name);
  nabla_diag_set_file(diag, nabla_checkpoint_borrow_path(checkpoint));
  if (near.best)
    nabla_diag_set_next(diag, "did you mean '%s'?", near.best);
  else
    nabla_diag_set_next(diag, "inspect without --tensor lists all names");
  return status;
}

static nabla_status inspect_tensor(cli *c, const nabla_checkpoint *checkpoint,
                                   nabla_diag *diag) {
  const char *name = c->options.tensor;
  nabla_statistics statistics;
  size_t index = nabla_checkpoint_find(checkpoint, name, strlen(name));
  if (index == SIZE_MAX) return fail_not_found(checkpoint, name, diag);
  nabla_tensor t = nabla_checkpoint_tensor(checkpoint, index);
  int measured = nabla_dtype_is_float(t.dtype) && !t.unsupported;
  if (measured) {
    NABLA_TRY(cli_start_pool(c, diag));
    NABLA_TRY(nabla_tensor_statistics(checkpoint, index, &c->environment,
                                      &statistics, diag));
  }
  cli_progress_clear(c);
  if (cli_given(&c->options, CLI_OPTION_json)) {
    cli_json_begin(c);
    nabla_json_out_key(&c->json, "tensor");
    nabla_json_out_object(&c->json);
    tensor_json(c, checkpoint, &t);
    statistics_json(c, &t, measured ? &statistics : NULL);
    nabla_json_out_object_end(&c->json);
    return NABLA_OK;
  }
  print_tensor(checkpoint, &t);
  if (measured)
    print_statistics(&t, &statistics);
  else if (t.unsupported)
    note_unsupported(c, &t, 0);
  else
    cli_note(c, "no statistics: not a float tensor");
  return NABLA_OK;
}

nabla_status cli_run_inspect(cli *c, nabla_diag *diag) {
  nabla_checkpoint *checkpoint = NULL;
  NABLA_TRY(cli_open(c, 0, &checkpoint, diag));
  nabla_status status = NABLA_OK;
  cli_progress_clear(c);
  if (c->options.tensor)
    status = inspect_tensor(c, checkpoint, diag);
  else if (cli_given(&c->options, CLI_OPTION_json))
    all_json(c, checkpoint);
  else
    status = print_all(c, checkpoint, diag);
  nabla_checkpoint_close(checkpoint);
  return status;
}
