# NABLA_COMPILER says whether the parts that need LLVM and MLIR are built. This
# version has none of them: it builds on a machine without LLVM.
set(NABLA_COMPILER AUTO CACHE STRING "build what needs MLIR 22: AUTO, ON, OFF")
set_property(CACHE NABLA_COMPILER PROPERTY STRINGS AUTO ON OFF)

if(NABLA_COMPILER STREQUAL "AUTO" OR NOT NABLA_COMPILER)
  message(STATUS "compiler: not part of this version's build")
else()
  message(FATAL_ERROR "NABLA_COMPILER=${NABLA_COMPILER}: the compiler is not "
    "part of this version's build; use AUTO or OFF")
endif()
