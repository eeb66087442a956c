// What mlir-c 22 lacks; see bridge.h. Glue without logic.
#include "dialect/bridge.h"

#include "llvm/Support/InitLLVM.h"
#include "llvm/TargetParser/X86TargetParser.h"
#include "mlir/CAPI/IR.h"
#include "mlir/CAPI/Rewrite.h"
#include "mlir/CAPI/Support.h"
#include "mlir/CAPI/Utils.h"
#include "mlir/Dialect/Bufferization/IR/BufferizableOpInterface.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Rewrite/PatternApplicator.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

using namespace mlir;

namespace {
// A pass made of a nablaPass; clone() copies the values of its options.
struct TablePass : Pass {
  const nablaPass *row;
  std::vector<std::unique_ptr<Option<std::string>>> options;
  std::shared_ptr<void> prepared;

  explicit TablePass(const nablaPass *from)
      : Pass(TypeID::getFromOpaquePointer(from),
             from->anchor ? std::optional<StringRef>(from->anchor)
                          : std::nullopt),
        row(from) {
    for (intptr_t i = 0; i < row->optionCount; i++)
      options.push_back(std::make_unique<Option<std::string>>(
          *this, row->options[i].name,
          llvm::cl::desc(row->options[i].description),
          llvm::cl::init(std::string(row->options[i].initial))));
  }
  TablePass(const TablePass &other) : TablePass(other.row) {
    prepared = other.prepared;
  }
  StringRef getName() const override { return row->flag; }
  StringRef getArgument() const override { return row->flag; }
  StringRef getDescription() const override { return row->summary; }
  bool canScheduleOn(RegisteredOperationName name) const override {
    return !row->anchor || name.getStringRef() == row->anchor;
  }
  std::unique_ptr<Pass> clonePass() const override {
    return std::make_unique<TablePass>(*this);
  }
  SmallVector<nablaPassValue> read() const {
    SmallVector<nablaPassValue> values(options.size());
    for (size_t i = 0; i < options.size(); i++)
      values[i].string = options[i]->getValue().c_str();
    return values;
  }
  LogicalResult initialize(MLIRContext *context) override {
    if (!prepared)
      prepared = {row->prepare(wrap(context), read().data()), row->release};
    return success(prepared != nullptr);
  }
  void runOnOperation() override {
    if (failed(unwrap(
            row->run(wrap(getOperation()), read().data(), prepared.get()))))
      signalPassFailure();
  }
};

// Tells a nablaWatch of what a rewriter does.
struct Watcher : RewriterBase::Listener {
  const nablaWatch *watch;
  explicit Watcher(const nablaWatch *to) : watch(to) {}
  void notifyOperationInserted(Operation *op,
                               OpBuilder::InsertPoint from) override {
    if (!from.isSet()) watch->inserted(watch->self, wrap(op));
  }
  void notifyOperationErased(Operation *op) override {
    watch->erased(watch->self, wrap(op));
  }
  void notifyOperationReplaced(Operation *op, ValueRange values) override {
    watch->replaced(watch->self, wrap(op),
                    TypeRange(values) == TypeRange(op->getResults()));
  }
};
struct WatchedRewriter {
  Watcher watcher;
  PatternRewriter rewriter;
  WatchedRewriter(MlirOperation op, const nablaWatch *watch)
      : watcher(watch), rewriter(unwrap(op)->getContext()) {
    rewriter.setListener(&watcher);
    rewriter.setInsertionPoint(unwrap(op));
  }
};
}  // namespace

void nablaRewrite(MlirOperation op, const nablaWatch *watch,
                  void (*run)(MlirRewriterBase, void *), void *self) {
  WatchedRewriter watched(op, watch);
  RewriterBase *base = &watched.rewriter;
  run(wrap(base), self);
}
bool nablaRewritePattern(MlirOperation op, const nablaWatch *watch,
                         MlirFrozenRewritePatternSet patterns) {
  WatchedRewriter watched(op, watch);
  PatternApplicator applicator(*unwrap(patterns));
  applicator.applyDefaultCostModel();
  return succeeded(applicator.matchAndRewrite(unwrap(op), watched.rewriter));
}
bool nablaOpHasBuffers(MlirOperation op) {
  return isa<bufferization::BufferizableOpInterface>(unwrap(op));
}
void nablaPassRegister(const nablaPass *pass) {
  registerPass([pass] { return std::make_unique<TablePass>(pass); });
}
void nablaPipelineRegister(const char *flag, const char *summary,
                           const char *text) {
  registerPassPipeline(
      flag, summary,
      [text](OpPassManager &manager, StringRef options,
             function_ref<LogicalResult(const Twine &)> fail) {
        if (!options.empty())
          return fail(
              "this pipeline has no options: write its passes out, as "
              "--dump-pass-pipeline does");
        return parsePassPipeline(text, manager);
      },
      [](function_ref<void(const detail::PassOptions &)>) {});
}
int nablaOptBegin(nablaOpt *opt) {
  static std::pair<std::string, std::string> files;
  DialectRegistry &dialects = *unwrap(opt->registry);
  files =
      registerAndParseCLIOptions(opt->argc, opt->argv, opt->title, dialects);
  const auto &[input, output] = files;
  opt->input = input.c_str();
  opt->output = output.c_str();
  const auto config = MlirOptMainConfig::createFromCLOptions();
  if (!config.shouldShowDialects() && !config.shouldListPasses()) return -1;
  return asMainReturnCode(
      MlirOptMain(opt->argc, opt->argv, input, output, dialects));
}
bool nablaOptRun(nablaOpt *opt, MlirStringRef text, MlirStringCallback write,
                 void *self) {
  llvm::InitLLVM crashes(opt->argc, opt->argv);
  mlir::detail::CallbackOstream stream(write, self);
  return succeeded(MlirOptMain(
      stream, llvm::MemoryBuffer::getMemBuffer(unwrap(text), opt->input),
      *unwrap(opt->registry), MlirOptMainConfig::createFromCLOptions()));
}
void nablaEmitWarning(MlirLocation location, const char *text) {
  emitWarning(unwrap(location)) << text;
}
void nablaOptimizationRemark(MlirLocation location, bool missed,
                             const char *name, const char *category,
                             const char *text) {
  auto options = remark::RemarkOpts::name(name).category(category);
  (missed ? remark::missed(unwrap(location), options)
          : remark::passed(unwrap(location), options))
      << text;
}
bool nablaCpuFeatures(const char *cpu,
                      void (*visit)(void *, const char *, intptr_t),
                      void *self) {
  if (llvm::X86::parseArchX86(cpu) == llvm::X86::CK_None) return false;
  SmallVector<StringRef, 64> features;
  llvm::X86::getFeaturesForCPU(cpu, features);
  for (StringRef f : features) visit(self, f.data(), intptr_t(f.size()));
  return true;
}
