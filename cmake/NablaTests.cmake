# nabla_add_test(NAME name COMMAND command [argument...]): add_test through
# tests/support/timed, which keeps the CPU seconds of each test for
# scripts/test. The command is a program's path or a target. A test with a row in
# tests/costs.def starts before those without, the longest first.
set(NABLA_TEST_COSTS "${CMAKE_CURRENT_LIST_DIR}/../tests/costs.def")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  "${NABLA_TEST_COSTS}")

function(nabla_add_test)
  if(ARGC LESS 4 OR NOT ARGV0 STREQUAL "NAME" OR NOT ARGV2 STREQUAL "COMMAND")
    message(FATAL_ERROR "usage: nabla_add_test(NAME name COMMAND command ...)")
  endif()
  set(command "${ARGV3}")
  if(TARGET "${command}")
    set(command "$<TARGET_FILE:${command}>")
  endif()
  # arguments may be empty or hold semicolons, which ${ARGN} does not keep
  set(arguments "")
  math(EXPR last "${ARGC} - 1")
  if(last GREATER 3)
    foreach(i RANGE 4 ${last})
      string(APPEND arguments " [==[${ARGV${i}}]==]")
    endforeach()
  endif()
  cmake_language(EVAL CODE "add_test(NAME [==[${ARGV1}]==] COMMAND
    [==[${CMAKE_SOURCE_DIR}/tests/support/timed]==] [==[${ARGV1}]==]
    [==[${command}]==]${arguments})")
  string(REPLACE "." "[.]" pattern "${ARGV1}")
  file(STRINGS "${NABLA_TEST_COSTS}" row REGEX "^COST\\(${pattern}, +[0-9]+\\)$")
  if(row)
    string(REGEX REPLACE ".*, +([0-9]+)\\)$" "\\1" cost "${row}")
    set_tests_properties("${ARGV1}" PROPERTIES COST ${cost})
  endif()
endfunction()
