# nabla_embed(TARGET FILE NAME): for the sources of TARGET, "NAME.inc" defines
# the text of FILE as a string, `static const char NAME[]`. The file is read
# again when it has changed.
function(nabla_embed target file name)
  file(READ "${file}" text)
  string(REPLACE "\\" "\\\\" text "${text}")
  string(REPLACE "\"" "\\\"" text "${text}")
  string(REPLACE "\n" "\\n\"\n\"" text "${text}")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/embedded")
  file(CONFIGURE OUTPUT "${folder}/${name}.inc" @ONLY CONTENT
    "/* Made of ${file}. */\nstatic const char ${name}[] = \"@text@\";\n")
  target_include_directories(${target} PRIVATE "${folder}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
endfunction()
