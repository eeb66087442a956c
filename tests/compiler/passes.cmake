# Tests of passes that are no text to compare: plain programs and scripts, so
# that they also run under ThreadSanitizer.
foreach(name passes_rules passes_ops passes_pipelines)
  add_executable(${name} ${name}.c)
  target_link_libraries(${name} PRIVATE nabla-static nabla_flags)
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
endforeach()
nabla_add_test(NAME passes.rules COMMAND passes_rules)
nabla_add_test(NAME passes.pipelines COMMAND passes_pipelines)
nabla_add_test(NAME compiler.example_extend COMMAND extend)
nabla_add_test(NAME passes.ops
  COMMAND "${CMAKE_CURRENT_SOURCE_DIR}/passes_same.sh"
  "${CMAKE_CURRENT_SOURCE_DIR}/passes_ops.txt"
  "write there which columns of dialect/ops.def are empty now"
  $<TARGET_FILE:passes_ops>)
nabla_add_test(NAME passes.rows COMMAND
  "${CMAKE_CURRENT_SOURCE_DIR}/rows_tested.sh" "${CMAKE_SOURCE_DIR}")
nabla_add_test(NAME passes.parallel COMMAND
  "${CMAKE_CURRENT_SOURCE_DIR}/opt_parallel.sh" "$<TARGET_FILE:nabla-opt>")

# Generated pages are what the tables say.
set(again "build the target update-docs")
set(pages PASSES RULES OPS COMPILE_OPTIONS)
foreach(page passes rules ops options)
  list(POP_FRONT pages name)
  nabla_add_test(NAME docs.${page} COMMAND
    "${CMAKE_CURRENT_SOURCE_DIR}/passes_same.sh"
    "${CMAKE_SOURCE_DIR}/docs/${name}.md" "${again}"
    $<TARGET_FILE:nabla-pages> --${page})
endforeach()
add_custom_target(dialect_page ALL DEPENDS NablaDialectPage)
nabla_add_test(NAME docs.dialect COMMAND
  "${CMAKE_CURRENT_SOURCE_DIR}/passes_same.sh"
  "${CMAKE_SOURCE_DIR}/docs/DIALECT.md" "${again}"
  "${CMAKE_SOURCE_DIR}/tools/nabla-opt/dialect_page.sh"
  "${CMAKE_BINARY_DIR}/dialect/NablaDialect.md")

# Examples of the dialect's page, and the assembly that is printed.
nabla_add_test(NAME passes.examples COMMAND "${NABLA_TEST_PYTHON}"
  "${CMAKE_CURRENT_SOURCE_DIR}/dialect_examples.py"
  "$<TARGET_FILE:nabla-opt>" "${CMAKE_SOURCE_DIR}/docs/DIALECT.md")
