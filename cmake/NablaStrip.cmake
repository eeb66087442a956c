# Release installs hold no debug information. What is taken out of programs and
# shared libraries is a file of its own, found by debuggers through the link
# that stays: FOLDER/.debug/NAME.debug, installed with
#   cmake --install BUILD --component debug
# Archives lose it. `uninstall` removes what the last installations have made.
# Rows: file, folder, component.
set(files)
set(components dev tools)
foreach(name quant runtime nabla)
  set(target nabla-${name}-shared)
  if(name STREQUAL "nabla")
    set(target nabla-shared)
  endif()
  if(TARGET ${target})
    list(APPEND files "$<TARGET_FILE:${target}>|${CMAKE_INSTALL_LIBDIR}|${name}")
    list(APPEND components ${name})
  endif()
endforeach()
foreach(target nabla-quant nabla-opt nabla-compile nabla-run)
  if(TARGET ${target})
    list(APPEND files "$<TARGET_FILE:${target}>|${CMAKE_INSTALL_BINDIR}|tools")
  endif()
endforeach()
if(TARGET nabla-run-compiler)
  list(APPEND files
    "$<TARGET_FILE:nabla-run-compiler>|${CMAKE_INSTALL_LIBEXECDIR}/nabla|tools")
endif()
set(archives)
foreach(target nabla-quant-static nabla-runtime-static)
  list(APPEND archives "$<TARGET_FILE:${target}>|${CMAKE_INSTALL_LIBDIR}|dev")
endforeach()

if(CMAKE_STRIP AND CMAKE_OBJCOPY AND NOT NABLA_SANITIZE)
  set(NABLA_STRIP_FOLDER "${CMAKE_BINARY_DIR}/debug-files")
  configure_file("${CMAKE_SOURCE_DIR}/cmake/strip.cmake.in"
    "${CMAKE_BINARY_DIR}/strip.cmake" @ONLY)
  file(GENERATE OUTPUT "${CMAKE_BINARY_DIR}/strip-files-$<CONFIG>.cmake" CONTENT
    "set(files \"${files}\")\nset(archives \"${archives}\")\n")
  set(start "set(NABLA_BINARY_DIR \"${CMAKE_BINARY_DIR}\")")
  foreach(component IN LISTS components)
    install(CODE "${start}
      set(NABLA_STRIP_STEP strip)
      set(NABLA_STRIP_COMPONENT ${component})
      include(\"${CMAKE_BINARY_DIR}/strip.cmake\")"
      COMPONENT ${component})
  endforeach()
  install(CODE "${start}
    set(NABLA_STRIP_STEP debug)
    include(\"${CMAKE_BINARY_DIR}/strip.cmake\")"
    COMPONENT debug EXCLUDE_FROM_ALL)
endif()

if(NOT TARGET uninstall)
  add_custom_target(uninstall COMMAND "${CMAKE_COMMAND}"
    "-DBUILD=${CMAKE_BINARY_DIR}" -P "${CMAKE_SOURCE_DIR}/cmake/uninstall.cmake"
    VERBATIM)
endif()
