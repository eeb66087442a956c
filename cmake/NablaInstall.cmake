# What `cmake --install` puts where. Objects are compiled once, for both
# libraries; only what NABLA_API marks leaves the shared one.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Before 1.0 the ABI may change with each minor version, and the soname with it.
set(abi ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})

add_library(nabla-quant-shared SHARED
  $<TARGET_OBJECTS:nabla_base> $<TARGET_OBJECTS:nabla_quant_objects>)
target_include_directories(nabla-quant-shared PUBLIC
  "$<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>")
target_link_libraries(nabla-quant-shared
  PRIVATE $<BUILD_INTERFACE:nabla_flags> Threads::Threads m)
set_target_properties(nabla-quant-shared PROPERTIES
  OUTPUT_NAME nabla-quant EXPORT_NAME quant
  VERSION ${PROJECT_VERSION} SOVERSION ${abi})
if(NOT NABLA_SANITIZE)
  target_link_options(nabla-quant-shared PRIVATE -Wl,-z,defs)
endif()
target_link_libraries(nabla-quant-static PUBLIC m)
set_target_properties(nabla-quant-static PROPERTIES EXPORT_NAME quant-static)
add_library(nabla::quant ALIAS nabla-quant-shared)
add_library(nabla::quant-static ALIAS nabla-quant-static)

install(TARGETS nabla-quant-shared nabla-quant-static EXPORT NablaQuant
  INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY "${CMAKE_SOURCE_DIR}/include/nabla"
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET nabla-quant)
  install(TARGETS nabla-quant)
endif()
install(FILES "${CMAKE_SOURCE_DIR}/LICENSE" "${CMAKE_SOURCE_DIR}/README.md"
  DESTINATION ${CMAKE_INSTALL_DOCDIR})

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/NablaQuant)
install(EXPORT NablaQuant NAMESPACE nabla:: DESTINATION ${package}
  FILE NablaQuantTargets.cmake)
configure_package_config_file(
  "${CMAKE_SOURCE_DIR}/cmake/NablaQuantConfig.cmake.in"
  NablaQuantConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(NablaQuantConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/NablaQuantConfig.cmake"
  "${CMAKE_BINARY_DIR}/NablaQuantConfigVersion.cmake" DESTINATION ${package})

# pkg-config: paths relative to the .pc file, so that the tree can be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY
  "${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig" OUTPUT_VARIABLE up)
configure_file("${CMAKE_SOURCE_DIR}/cmake/nabla-quant.pc.in" nabla-quant.pc
  @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/nabla-quant.pc"
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
