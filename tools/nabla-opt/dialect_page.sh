#!/bin/sh
# dialect_page.sh PAGE: docs/DIALECT.md, of what mlir-tblgen -gen-dialect-doc
# wrote, without what is only for MLIR's own site.
set -eu
sed -e '1d' -e '2d' -e 's/ (::nabla::[A-Za-z]*)$//' \
  -e "s/^# 'nabla' Dialect$/# The nabla dialect\\n\\nMade by \`mlir-tblgen -gen-dialect-doc\` from dialect\\/Nabla.td;\\n\`cmake --build BUILD --target update-docs\` writes it again./" \
  -e '/^\[TOC\]$/d' -e 's/[ ]*$//' "$1" | cat -s
