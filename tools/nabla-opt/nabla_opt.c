/* nabla-opt: mlir-opt with the nabla dialect, its passes and pipelines. */
#include "dialect/bridge.h"
#include "dialect/dialect.h"

int main(int argc, char **argv) {
  MlirDialectRegistry registry = mlirDialectRegistryCreate();
  nablaRegisterEverything(registry);
  int status = nablaOptMain(argc, argv, "Nabla optimizer\n", registry);
  mlirDialectRegistryDestroy(registry);
  return status;
}
