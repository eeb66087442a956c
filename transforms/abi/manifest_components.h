/* What nabla-manifest says of packed arguments. */
#ifndef NABLA_TRANSFORMS_ABI_MANIFEST_COMPONENTS_H
#define NABLA_TRANSFORMS_ABI_MANIFEST_COMPONENTS_H

#include "dialect/encoding/encoding_nested.h"
#include "lib/base/json/json.h"

/* Are scales in bitsandbytes' 8 bits, which files hold? */
bool nabla_manifest_is_dynamic8(const nabla_encoding_info *info);

/* Is there a file layout of an implicit type, or nothing to be stored? */
bool nabla_manifest_can_bind(MlirType type);

/* The leaves of `type`, named with those that they are in: "scales.codes". */
void nabla_manifest_components(nabla_json_out *out, MlirType type,
                               const char *prefix);

#endif
