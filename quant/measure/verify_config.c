/* Verification of a folder's config.json against the stored tensors. */
#include "quant/measure/verify_config.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/file/os_call.h"
#include "lib/base/file/output_temporary.h"
#include "nabla/measure.h"
#include "quant/plan/hf_survey.h"

/* Describes the layout of the packed tensors in words. */
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

/* Describes in the same words the layout that config.json declares. */
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

/* Checks that bitsandbytes finds the tensors that config.json announces, and
 * that with any other method no tensor is packed in a layout unknown to it. */
static int agree(const char *declared, const char *stored) {
  static const char packed_as[] = "tensors are packed as ";
  const size_t head = sizeof packed_as - 1;
  if (strncmp(declared, "bitsandbytes", 12) != 0)
    return !strcmp(stored, "no packed tensor is stored");
  return !strncmp(stored, packed_as, head) && !strcmp(stored + head, declared);
}

/* Describes how transformers reads a folder whose config.json agrees with
 * `stored`. */
static void describe_reader(const nabla_hf_config *config, const char *stored,
                            char *out) {
  const size_t size = NABLA_VERIFY_READER;
  const nabla_hf_quantization *q = &config->quantization;
  char declared[96];
  describe_declared(q, declared, sizeof declared);
  const int has_member = config->has_member && !config->is_null;
  if (has_member && strncmp(declared, "bitsandbytes", 12) != 0)
    (void)snprintf(out, size, "transformers reads it by its method '%s'",
                   q->method);
  else if (has_member && config->architecture)
    (void)snprintf(out, size, "transformers loads it as %s", declared);
  else if (has_member)
    (void)snprintf(
        out, size, "transformers takes it for %.40s; %s was not tried",
        declared, *config->class_name ? config->class_name : "its class");
  else if (!strncmp(stored, "no packed", 9))
    (void)snprintf(out, size, "transformers loads it: nothing is packed");
  else if (!strcmp(stored, "tensors are packed as bitsandbytes int8"))
    (void)snprintf(out, size,
                   "transformers takes its codes for weights: there is "
                   "no " NABLA_HF_CONFIG_MEMBER);
  else
    (void)snprintf(out, size,
                   "transformers cannot load it, an engine with Nabla can: %s",
                   stored);
}

static nabla_status compare(const nabla_checkpoint *checkpoint,
                            const nabla_hf_config *config, char *out_reader,
                            nabla_diag *diag) {
  char declared[96], stored[96], path[NABLA_PATH_SIZE];
  describe_declared(&config->quantization, declared, sizeof declared);
  describe_stored(checkpoint, stored, sizeof stored);
  if (!config->has_member || config->is_null || agree(declared, stored)) {
    describe_reader(config, stored, out_reader);
    return NABLA_OK;
  }
  nabla_status status = nabla_fail(
      diag, NABLA_CORRUPT, "its " NABLA_HF_CONFIG_MEMBER " says %s, but %s",
      declared, stored);
  if (nabla_place_join(path, nabla_checkpoint_borrow_path(checkpoint),
                       NABLA_HF_CONFIG_NAME))
    nabla_diag_set_file(diag, path);
  nabla_diag_set_offset(diag, config->begin);
  nabla_diag_set_next(diag,
                      "quantize the model again from its source, or "
                      "correct " NABLA_HF_CONFIG_NAME);
  return status;
}

nabla_status nabla_verify_config(const nabla_checkpoint *checkpoint,
                                 const nabla_environment *environment,
                                 char *out_reader, nabla_diag *diag) {
  const nabla_os *os =
      environment && environment->os ? environment->os : nabla_os_default();
  nabla_buffer text;
  nabla_hf_config config;
  int found;
  nabla_buffer_init(&text, environment ? environment->allocator : NULL,
                    NABLA_HF_CONFIG_NAME, NABLA_HF_CONFIG_MAX);
  nabla_status status =
      nabla_hf_folder_config(checkpoint, os, &text, &config, &found, diag);
  nabla_buffer_deinit(&text);
  if (status || !found) return status;
  return compare(checkpoint, &config, out_reader, diag);
}
