# What `cmake --install` puts where. Objects are compiled once, for all
# libraries; only what NABLA_API marks leaves the shared ones.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Before 1.0 the ABI may change with each minor version, and the soname with it.
set(abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

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
    VERSION ${PROJECT_VERSION} SOVERSION ${abi})
  if(NOT NABLA_SANITIZE)
    target_link_options(${shared} PRIVATE -Wl,-z,defs)
  endif()
  target_link_libraries(${static} PUBLIC m)
  set_target_properties(${static} PROPERTIES EXPORT_NAME ${name}-static)
  add_library(nabla::${name} ALIAS ${shared})
  add_library(nabla::${name}-static ALIAS ${static})
  install(TARGETS ${shared} ${static} EXPORT ${package}
    INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

  set(folder ${CMAKE_INSTALL_LIBDIR}/cmake/${package})
  install(EXPORT ${package} NAMESPACE nabla:: DESTINATION ${folder}
    FILE ${package}Targets.cmake)
  configure_package_config_file(
    "${CMAKE_SOURCE_DIR}/cmake/${package}Config.cmake.in"
    ${package}Config.cmake INSTALL_DESTINATION ${folder})
  write_basic_package_version_file(${package}ConfigVersion.cmake
    COMPATIBILITY SameMinorVersion)
  install(FILES "${CMAKE_BINARY_DIR}/${package}Config.cmake"
    "${CMAKE_BINARY_DIR}/${package}ConfigVersion.cmake" DESTINATION ${folder})

  # pkg-config: paths relative to the .pc file, so that the tree can be moved.
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY
    "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE up)
  configure_file("${CMAKE_SOURCE_DIR}/cmake/nabla-${name}.pc.in"
    nabla-${name}.pc @ONLY)
  install(FILES "${CMAKE_BINARY_DIR}/nabla-${name}.pc"
    DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

nabla_install_library(quant NablaQuant nabla_base nabla_quant_objects)
nabla_install_library(runtime NablaRuntime
  nabla_base nabla_quant_objects nabla_runtime_objects)

install(DIRECTORY "${CMAKE_SOURCE_DIR}/include/nabla"
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET nabla-quant)
  install(TARGETS nabla-quant)
endif()
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" "${CMAKE_SOURCE_DIR}/README.md"
  DESTINATION ${CMAKE_INSTALL_DOCDIR})
