# What `cmake --install` puts where. Objects are compiled once, for all
# libraries; only what NABLA_API marks leaves the shared ones. Components are the
# Debian packages of cmake/NablaPackage.cmake: quant, runtime and nabla with one
# shared library each, dev with headers and all that building on the first two
# takes, compiler-dev with that of libnabla, tools.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# The number of the sonames, and of the packages that hold the libraries. A change
# that is not compatible with a release raises it: cmake/abi.txt says what changes.
set(NABLA_ABI 0)

# nabla_version_script(TARGET LIBRARY): the target exports the functions of the
# library's headers alone, each with the version of the release that brought it
# (cmake/symbols.cmake). Sanitizers export names of their own.
function(nabla_version_script target library)
  if(NABLA_SANITIZE)
    return()
  endif()
  set(map "${CMAKE_BINARY_DIR}/${library}.map")
  file(GLOB inputs CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/include/nabla/*")
  foreach(file headers.def symbols.cmake abi.txt)
    list(APPEND inputs "${CMAKE_SOURCE_DIR}/cmake/${file}")
  endforeach()
  add_custom_command(OUTPUT "${map}" COMMAND "${CMAKE_COMMAND}"
    "-DSOURCE=${CMAKE_SOURCE_DIR}" -DLIBRARY=${library}
    -DVERSION=${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR} "-DOUT=${map}"
    -P "${CMAKE_SOURCE_DIR}/cmake/symbols.cmake" DEPENDS ${inputs} VERBATIM)
  add_custom_target(nabla_map_${library} DEPENDS "${map}")
  add_dependencies(${target} nabla_map_${library})
  target_link_options(${target} PRIVATE "-Wl,--version-script,${map}"
    -Wl,--no-undefined-version)
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${map}")
endfunction()

# nabla_install_config(PACKAGE) installs what find_package(PACKAGE) reads.
function(nabla_install_config package)
  set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/${package})
  configure_package_config_file(
    "${CMAKE_SOURCE_DIR}/cmake/${package}Config.cmake.in"
    ${package}Config.cmake INSTALL_DESTINATION ${folder})
  write_basic_package_version_file(${package}ConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES "${CMAKE_BINARY_DIR}/${package}Config.cmake"
    "${CMAKE_BINARY_DIR}/${package}ConfigVersion.cmake" DESTINATION ${folder}
    COMPONENT dev)
endfunction()

# nabla_install_export(PACKAGE COMPONENT) installs the targets of an export set.
function(nabla_install_export package component)
  install(EXPORT ${package} NAMESPACE nabla::
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/${package}
    FILE ${package}Targets.cmake COMPONENT ${component})
endfunction()

# nabla_install_pc(NAME COMPONENT) installs NAME.pc, with paths relative to it, so
# that the tree can be moved.
function(nabla_install_pc name component)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY
    "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE up)
  configure_file("${CMAKE_SOURCE_DIR}/cmake/${name}.pc.in" ${name}.pc @ONLY)
  install(FILES "${CMAKE_BINARY_DIR}/${name}.pc"
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${component})
endfunction()

# nabla_install_library(NAME PACKAGE OBJECTS...) makes libnabla-NAME.so of the
# object libraries, beside the static one that is there already, and installs
# both with the CMake package PACKAGE (targets nabla::NAME, nabla::NAME-static)
# and nabla-NAME.pc.
function(nabla_install_library name package)
  set(shared nabla-${name}-shared)
  set(static nabla-${name}-static)
  list(TRANSFORM ARGN REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>"
    OUTPUT_VARIABLE objects)
  add_library(${shared} SHARED ${objects})
  target_include_directories(${shared} PUBLIC
    "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>")
  target_link_libraries(${shared}
    PRIVATE $<BUILD_INTERFACE:nabla_flags> Threads::Threads m)
  set_target_properties(${shared} PROPERTIES
    OUTPUT_NAME nabla-${name} EXPORT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${NABLA_ABI})
  if(NOT NABLA_SANITIZE)
    target_link_options(${shared} PRIVATE -Wl,-z,defs)
  endif()
  nabla_version_script(${shared} ${name})
  target_link_libraries(${static} PUBLIC m)
  set_target_properties(${static} PROPERTIES EXPORT_NAME ${name}-static)
  add_library(nabla::${name} ALIAS ${shared})
  add_library(nabla::${name}-static ALIAS ${static})
  install(TARGETS ${shared} ${static} EXPORT ${package}
    LIBRARY COMPONENT ${name} NAMELINK_COMPONENT dev ARCHIVE COMPONENT dev
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  nabla_install_config(${package})
  nabla_install_export(${package} dev)
  nabla_install_pc(nabla-${name} dev)
endfunction()

nabla_install_library(quant NablaQuant nabla_base nabla_quant_objects)
nabla_install_library(runtime NablaRuntime
  nabla_base nabla_quant_objects nabla_runtime_objects ${NABLA_AHEAD})

# The package of which the others are components, with libnabla or without.
nabla_install_config(Nabla)

# libnabla: all of it, with LLVM and MLIR in the process. Shared only; the
# static form would name a hundred of LLVM's archives.
if(NABLA_HAS_COMPILER)
  add_library(nabla-shared SHARED
    $<TARGET_OBJECTS:nabla_base> $<TARGET_OBJECTS:nabla_quant_objects>
    $<TARGET_OBJECTS:nabla_runtime_objects> $<TARGET_OBJECTS:${NABLA_AHEAD}>
    $<TARGET_OBJECTS:nabla_dialect>
    $<TARGET_OBJECTS:nabla_transforms> $<TARGET_OBJECTS:nabla_compiler>
    $<TARGET_OBJECTS:nabla_array>)
  target_include_directories(nabla-shared PUBLIC
    "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>")
  target_link_libraries(nabla-shared PRIVATE $<BUILD_INTERFACE:nabla_flags>
    $<BUILD_INTERFACE:nabla_mlir> Threads::Threads m)
  # The archives of MLIR's C API are ours alone, and templates of libstdc++, which
  # would bind programs to ours.
  target_link_options(nabla-shared PRIVATE -Wl,--exclude-libs,ALL)
  nabla_version_script(nabla-shared nabla)
  set_target_properties(nabla-shared PROPERTIES
    OUTPUT_NAME nabla EXPORT_NAME nabla LINKER_LANGUAGE CXX
    VERSION ${PROJECT_VERSION} SOVERSION ${NABLA_ABI}
    INSTALL_RPATH_USE_LINK_PATH ON)
  add_library(nabla::nabla ALIAS nabla-shared)
  install(TARGETS nabla-shared EXPORT Nabla
    LIBRARY COMPONENT nabla NAMELINK_COMPONENT compiler-dev
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  nabla_install_export(Nabla compiler-dev)
  nabla_install_pc(nabla compiler-dev)
  nabla_install_pc(nabla-mlir compiler-dev)
  set_target_properties(nabla-opt nabla-compile PROPERTIES
    INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS nabla-opt nabla-compile)
endif()

# The kernels that the table names.
if(NABLA_AHEAD STREQUAL "nabla_ahead")
  get_target_property(kernels nabla_ahead NABLA_OBJECTS)
  foreach(library nabla-runtime-static nabla-runtime-shared nabla-shared)
    if(TARGET ${library})
      target_sources(${library} PRIVATE ${kernels})
      add_dependencies(${library} nabla_ahead)
    endif()
  endforeach()
endif()

# Headers, by cmake/headers.def. Those of libnabla are there without it too: an
# engine that may be built with it includes them.
file(STRINGS "${CMAKE_SOURCE_DIR}/cmake/headers.def" rows REGEX "^HEADER")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${CMAKE_SOURCE_DIR}/cmake/headers.def")
foreach(row IN LISTS rows)
  string(REGEX MATCH "^HEADER\\(([a-z0-9_.]+), *([a-z]+)\\)$" row "${row}")
  set(component dev)
  if(CMAKE_MATCH_2 STREQUAL "nabla" AND NABLA_HAS_COMPILER)
    set(component compiler-dev)
  endif()
  install(FILES "${CMAKE_SOURCE_DIR}/include/nabla/${CMAKE_MATCH_1}"
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/nabla COMPONENT ${component})
endforeach()
if(TARGET nabla-quant)
  install(TARGETS nabla-quant)
endif()
# Pages and what they link to.
foreach(page LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md)
  install(FILES "${CMAKE_SOURCE_DIR}/${page}"
    DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)
endforeach()
install(DIRECTORY "${CMAKE_SOURCE_DIR}/docs"
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev
  FILES_MATCHING PATTERN "*.md" PATTERN "*.svg" PATTERN "*.json"
  PATTERN STATUS.md EXCLUDE)
install(DIRECTORY "${CMAKE_SOURCE_DIR}/examples"
  DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev
  FILES_MATCHING PATTERN "*.[ch]" PATTERN "*.py" PATTERN "*.mlir")
install(FILES "${CMAKE_SOURCE_DIR}/examples/embed/CMakeLists.txt"
  "${CMAKE_SOURCE_DIR}/examples/embed/Makefile"
  DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples/embed COMPONENT dev)
include(NablaStrip)
include(NablaPackage)
