# NABLA_COMPILER says whether the parts that need LLVM and MLIR 22 are built;
# NABLA_HAS_COMPILER whether they are. Everything else builds without.
set(NABLA_COMPILER AUTO CACHE STRING "build what needs MLIR 22: AUTO, ON, OFF")
set_property(CACHE NABLA_COMPILER PROPERTY STRINGS AUTO ON OFF)

set(NABLA_HAS_COMPILER OFF)
if(NOT NABLA_COMPILER STREQUAL "AUTO" AND NOT NABLA_COMPILER)
  message(STATUS "compiler: off (NABLA_COMPILER=${NABLA_COMPILER})")
  return()
endif()
# LLVM's package looks for libraries that the shared LLVM needs no more.
foreach(package ZLIB zstd LibXml2 LibEdit CURL FFI Terminfo)
  set(CMAKE_DISABLE_FIND_PACKAGE_${package} ON)
endforeach()
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  find_package(MLIR QUIET CONFIG HINTS /usr/lib/llvm-22/lib/cmake/mlir)
endif()
if(NOT MLIR_FOUND OR NOT LLVM_VERSION_MAJOR EQUAL 22)
  set(reason "MLIR 22 or a C++ compiler was not found")
  if(NOT NABLA_COMPILER STREQUAL "AUTO")
    message(FATAL_ERROR "NABLA_COMPILER=${NABLA_COMPILER}: ${reason}: "
      "apt-get install g++ libmlir-22-dev mlir-22-tools llvm-22-dev")
  endif()
  message(STATUS "compiler: not built, ${reason}")
  return()
endif()
message(STATUS "compiler: with LLVM and MLIR ${LLVM_PACKAGE_VERSION}")
set(NABLA_HAS_COMPILER ON)
set(CMAKE_CXX_STANDARD 17)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
list(APPEND CMAKE_MODULE_PATH "${MLIR_CMAKE_DIR}" "${LLVM_CMAKE_DIR}")
include(TableGen)
include(AddLLVM)
include(AddMLIR)

# The C API is in static archives only, everything else in two shared
# libraries. The exported targets MLIRCAPI* would bring all of MLIR in static
# form: the archives are linked as files. Users first, IR last.
add_library(nabla_mlir INTERFACE)
target_include_directories(nabla_mlir SYSTEM INTERFACE
  ${MLIR_INCLUDE_DIRS} ${LLVM_INCLUDE_DIRS})
set(archives RegisterEverything Target LLVM PDL Transforms IR)
# as programs name them that include nabla/mlir.h
list(TRANSFORM archives PREPEND MLIRCAPI OUTPUT_VARIABLE mlir_capi_names)
list(TRANSFORM mlir_capi_names PREPEND -l OUTPUT_VARIABLE mlir_capi_options)
string(JOIN " " mlir_capi_options ${mlir_capi_options})
string(JOIN " " mlir_capi_names ${mlir_capi_names})
list(TRANSFORM archives REPLACE "(.+)" "$<TARGET_FILE:MLIRCAPI\\1>")
target_link_libraries(nabla_mlir INTERFACE ${archives} MLIR LLVM)
