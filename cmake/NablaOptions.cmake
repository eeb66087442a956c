# Options, warnings, hardening and sanitizers; every target links nabla_flags.
include(CheckCCompilerFlag)
include(CheckPIESupported)

option(NABLA_TESTS "build the tests (those of units need Criterion)" ON)
option(NABLA_FUZZ "build the fuzzers with libFuzzer (needs clang)" OFF)
option(NABLA_WERROR "treat warnings as errors" ON)
option(NABLA_COVERAGE "count executed lines and branches (gcc: gcov)" OFF)
set(NABLA_SANITIZE "" CACHE STRING "value of -fsanitize=, for every target")
set(NABLA_TEST_PYTHON "/usr/bin/python3" CACHE FILEPATH
  "Python with numpy (and safetensors) for the tests' independent oracles")

get_property(multi GLOBAL PROPERTY GENERATOR_IS_MULTI_CONFIG)
if(NOT CMAKE_BUILD_TYPE AND NOT multi)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O3 -g")

add_library(nabla_flags INTERFACE)
target_compile_definitions(nabla_flags INTERFACE _GNU_SOURCE)
# The bytes of a build do not depend on where the checkout lies. Products of
# floats are not fused: codecs give the same bytes from every compiler.
target_compile_options(nabla_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wvla
  "$<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes;-Wmissing-prototypes>"
  $<$<BOOL:${NABLA_WERROR}>:-Werror> -fno-math-errno -ffp-contract=off
  "-ffile-prefix-map=${CMAKE_SOURCE_DIR}=.")
target_link_options(nabla_flags INTERFACE -Wl,--as-needed)

if(NABLA_SANITIZE)
  target_compile_options(nabla_flags INTERFACE -fsanitize=${NABLA_SANITIZE}
    -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(nabla_flags INTERFACE -fsanitize=${NABLA_SANITIZE})
  # Generated code has no signature before its entry, where clang looks for one.
  if(CMAKE_C_COMPILER_ID MATCHES "Clang")
    target_compile_options(nabla_flags INTERFACE -fno-sanitize=function)
  endif()
else()
  # Hardening. Sanitizers bring their own, stricter, checks; -Og and above are
  # needed by _FORTIFY_SOURCE, which Debug builds therefore leave out.
  target_compile_options(nabla_flags INTERFACE -fstack-protector-strong
    $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE>
    $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
  foreach(flag -fstack-clash-protection -fcf-protection)
    string(MAKE_C_IDENTIFIER "NABLA_HAS${flag}" known)
    check_c_compiler_flag(${flag} ${known})
    if(${known})
      target_compile_options(nabla_flags INTERFACE ${flag})
    endif()
  endforeach()
  target_link_options(nabla_flags INTERFACE
    -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)
endif()

# Position-independent programs, so that the kernel can load them anywhere.
check_pie_supported(LANGUAGES C)

if(NABLA_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "NABLA_FUZZ needs clang: cmake --preset fuzz")
  endif()
  target_compile_options(nabla_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(NABLA_COVERAGE)
  target_compile_options(nabla_flags INTERFACE --coverage)
  target_link_options(nabla_flags INTERFACE --coverage)
endif()
