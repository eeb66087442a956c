# Debian packages, one for each component of cmake/NablaInstall.cmake:
#
#   cmake --preset package && cmake --build --preset package
#   cpack --preset package        makes build/package/packages/*.deb
#
# The preset installs below /usr, into the folder of libraries that Debian has for
# the machine. cmake/package.cmake.in adds what Debian asks of each package.
set(NABLA_PACKAGE_CONTACT "Nabla's developers <nabla@lists.example.org>" CACHE STRING
  "who maintains the Debian packages that cpack makes")
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL quant runtime dev tools)
if(NABLA_HAS_COMPILER)
  list(APPEND CPACK_COMPONENTS_ALL nabla compiler-dev)
endif()
set(CPACK_PACKAGE_NAME nabla)
# CPack's own default, which it leaves out: summaries are those of the packages
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${CMAKE_PROJECT_NAME} built using CMake")
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "${NABLA_PACKAGE_CONTACT}")
set(CPACK_PACKAGE_DIRECTORY "${CMAKE_BINARY_DIR}/packages")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(same "(= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")

# After the package's files the loader's cache is made anew.
file(WRITE "${CMAKE_BINARY_DIR}/triggers" "activate-noawait ldconfig\n")
# nabla_package(COMPONENT PACKAGE SECTION SUMMARY DESCRIPTION [DEPENDS])
macro(nabla_package component package section summary description)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${package})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}\n${description}")
  set(CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS "${ARGN}")
  if("${section}" STREQUAL "libs")
    set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA "${CMAKE_BINARY_DIR}/triggers")
  endif()
endmacro()

nabla_package(quant libnabla-quant${NABLA_ABI} libs
  "library that quantizes the weights of neural networks"
  "Encodes and decodes arrays in formats of 1 to 8 bits, plans and writes
whole models, checks and compares them. It needs libc alone.")
nabla_package(runtime libnabla-runtime${NABLA_ABI} libs
  "library that computes with packed weights of neural networks"
  "Maps models into memory, multiplies by packed weights, and runs compiled
programs without a compiler. It needs libc alone.")
nabla_package(nabla libnabla${NABLA_ABI} libs
  "compiler of programs with packed weights of neural networks"
  "Compiles programs of the MLIR dialect nabla, in which a packed weight is
a value like any other, into this process or into objects. It needs LLVM
and MLIR 22.")
nabla_package(dev libnabla-dev libdevel
  "headers, archives and documentation of Nabla"
  "For building programs with libnabla-quant or libnabla-runtime, which quantize
the weights of neural networks and compute with them."
  "libnabla-quant${NABLA_ABI} ${same}, libnabla-runtime${NABLA_ABI} ${same}")
nabla_package(compiler-dev libnabla-compiler-dev libdevel
  "headers of Nabla's compiler"
  "For building programs with libnabla, which compiles programs with packed
weights."
  "libnabla${NABLA_ABI} ${same}, libnabla-dev ${same}")
set(CPACK_DEBIAN_COMPILER-DEV_PACKAGE_SUGGESTS libmlir-22-dev)
nabla_package(tools nabla-tools science
  "tools that quantize the weights of neural networks and run them"
  "nabla-quant quantizes models; nabla-compile, nabla-run and nabla-opt
compile and run programs that use them. With manual pages and completion
for bash, zsh and fish.")
set(CPACK_DEBIAN_TOOLS_PACKAGE_RECOMMENDS "lld-22 | gcc")

# Libraries of the packages that others link.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${CMAKE_BINARY_DIR}")
configure_file("${CMAKE_SOURCE_DIR}/cmake/package.cmake.in" package.cmake @ONLY)
set(CPACK_PRE_BUILD_SCRIPTS "${CMAKE_BINARY_DIR}/package.cmake")
include(CPack)
