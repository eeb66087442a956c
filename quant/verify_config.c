/* Verification of a folder's config.json against what is stored. */
#include "quant/verify_config.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/os_call.h"
#include "lib/base/place.h"
#include "quant/hf_config.h"

/* How the packed tensors are stored, in words. */
static void describe_stored(const nabla_checkpoint *checkpoint, char *out,
                            size_t size) {
  const char *layout = NULL, *encoding = NULL;
  int mixed = 0;
  for (size_t i = 0; i < nabla_checkpoint_count(checkpoint); i++) {
    const nabla_tensor tensor = nabla_checkpoint_tensor(checkpoint, i);
    if (tensor.layout == NABLA_LAYOUT_DENSE) continue;
    const char *own = tensor.format.encoding ? tensor.format.encoding->name
                                             : "an unknown encoding";
    const char *in = nabla_layout_name(tensor.layout);
    mixed |=
        (layout && strcmp(layout, in)) || (encoding && strcmp(encoding, own));
    layout = in;
    encoding = own;
  }
  if (!layout)
    (void)snprintf(out, size, "no packed tensor is stored");
  else if (mixed)
    (void)snprintf(out, size, "tensors are packed in several ways");
  else
    (void)snprintf(out, size, "tensors are packed as %s %s", layout, encoding);
}

/* The same words for what config.json declares. */
static void describe_declared(const nabla_hf_quantization *q, char *out,
                              size_t size) {
  const char *method = *q->method ? q->method : "bitsandbytes";
  if (strcmp(method, "bitsandbytes") != 0)
    (void)snprintf(out, size, "%s", method);
  else if (q->load_in_4bit)
    (void)snprintf(out, size, "bitsandbytes %s", *q->type ? q->type : "fp4");
  else
    (void)snprintf(out, size, "bitsandbytes%s", q->load_in_8bit ? " int8" : "");
}

/* bitsandbytes must find what it is told to load; with another method nothing
 * may be packed in a way that it does not know. */
static int agree(const char *declared, const char *stored) {
  static const char packed_as[] = "tensors are packed as ";
  const size_t head = sizeof packed_as - 1;
  if (strncmp(declared, "bitsandbytes", 12) != 0)
    return !strcmp(stored, "no packed tensor is stored");
  return !strncmp(stored, packed_as, head) && !strcmp(stored + head, declared);
}

static nabla_status compare(const nabla_checkpoint *checkpoint,
                            const nabla_hf_config *config, const char *path,
                            nabla_diag *diag) {
  char declared[96], stored[96];
  if (!config->has_member || config->is_null) return NABLA_OK;
  describe_declared(&config->quantization, declared, sizeof declared);
  describe_stored(checkpoint, stored, sizeof stored);
  if (agree(declared, stored)) return NABLA_OK;
  nabla_status status = nabla_fail(
      diag, NABLA_CORRUPT, "its " NABLA_HF_CONFIG_MEMBER " says %s, but %s",
      declared, stored);
  nabla_diag_set_file(diag, path);
  nabla_diag_set_offset(diag, config->begin);
  nabla_diag_set_next(diag,
                      "quantize the model again from its source, or "
                      "correct " NABLA_HF_CONFIG_NAME);
  return status;
}

nabla_status nabla_verify_config(const nabla_checkpoint *checkpoint,
                                 const nabla_environment *environment,
                                 nabla_diag *diag) {
  const nabla_allocator *allocator =
      environment ? environment->allocator : NULL;
  const nabla_os *os =
      environment && environment->os ? environment->os : nabla_os_default();
  const char *folder = nabla_checkpoint_borrow_path(checkpoint);
  char path[NABLA_PATH_SIZE];
  nabla_os_info info;
  int error;
  NABLA_OS_RETRY(error, os->path_info(os->self, folder, 1, &info));
  if (error < 0)
    return nabla_os_fail(os, NULL, folder, "look at it", error, diag);
  if (!info.is_folder || !nabla_place_join(path, folder, NABLA_HF_CONFIG_NAME))
    return NABLA_OK;
  NABLA_OS_RETRY(error, os->path_info(os->self, path, 1, &info));
  if (error == -ENOENT || (error >= 0 && !info.is_file)) return NABLA_OK;
  nabla_buffer text;
  nabla_hf_config config;
  nabla_buffer_init(&text, allocator, NABLA_HF_CONFIG_NAME,
                    NABLA_HF_CONFIG_MAX);
  nabla_status status = nabla_hf_config_load(os, path, &text, &config, diag);
  nabla_buffer_deinit(&text);
  return status ? status : compare(checkpoint, &config, path, diag);
}
