# How lit runs these tests; lit.site.cfg.py, made by CMake, has said where
# things are.
import os

import lit.formats

config.name = "nabla"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = config.nabla_work
# Tools by their plain names: ours, then LLVM's (not, count, FileCheck).
config.environment["PATH"] = os.pathsep.join(
    [config.nabla_tools, config.llvm_tools, os.environ["PATH"]])
config.substitutions.append((r"\bFileCheck\b", config.nabla_filecheck))
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
