# Row names of a .def file; editing the file re-runs CMake, so that a new row
# needs no change in any build file.
function(nabla_rows file macro out)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(STRINGS ${file} lines REGEX "^${macro}\\(")
  list(TRANSFORM lines REPLACE "^${macro}\\(([a-z0-9_]+),.*" "\\1")
  set(${out} ${lines} PARENT_SCOPE)
endfunction()
