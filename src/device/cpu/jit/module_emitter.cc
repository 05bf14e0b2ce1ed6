// The llvm::Module of one kernel: its functions, the run time's declarations, and the loop over a block's threads.
#include <llvm/IR/Attributes.h>

#include "src/device/cpu/global_placement.h"
#include "src/device/cpu/jit/compile.h"
#include "src/device/cpu/jit/emitter.h"
#include "src/device/cpu/jit/line_tables.h"
#include "src/device/cpu/jit/thread_context.h"

namespace pergola::device::cpu::jit {

ModuleEmitter::ModuleEmitter(llvm::LLVMContext& context, const ptx::Module& source,
                             std::span<const GlobalPlacement> globals, const KernelTraits& traits,
                             const std::vector<std::string>& address_taken)
    : context_(context), source_(source), traits_(traits), address_taken_(address_taken.begin(), address_taken.end()) {
  for (const GlobalPlacement& placement : globals) globals_.emplace(placement.name, &placement);
}

const GlobalPlacement* ModuleEmitter::global(const std::string& name) const {
  const auto it = globals_.find(name);
  return it == globals_.end() ? nullptr : it->second;
}

llvm::Constant* ModuleEmitter::address_of(const GlobalPlacement& variable) {
  const std::string symbol = variable_symbol(variable.name);
  llvm::GlobalVariable* declared = llvm_->getNamedGlobal(symbol);
  if (declared == nullptr) {
    auto* bytes = llvm::ArrayType::get(llvm::Type::getInt8Ty(context_), variable.size_bytes);
    declared = new llvm::GlobalVariable(*llvm_, bytes, false, llvm::GlobalValue::ExternalLinkage, nullptr, symbol);
    declared->setAlignment(llvm::Align(GlobalStorage::kMinAlignBytes));
  }
  return llvm::ConstantExpr::getPtrToInt(declared, llvm::Type::getInt64Ty(context_));
}

llvm::FunctionCallee ModuleEmitter::runtime(const std::string& name, llvm::Type* result,
                                            llvm::ArrayRef<llvm::Type*> arguments, bool pure) {
  auto* type = llvm::FunctionType::get(result, arguments, false);
  llvm::FunctionCallee callee = llvm_->getOrInsertFunction(name, type);
  auto* function = llvm::cast<llvm::Function>(callee.getCallee());
  function->addFnAttr(llvm::Attribute::NoUnwind);
  if (pure) {
    function->setDoesNotAccessMemory();
    function->addFnAttr(llvm::Attribute::WillReturn);
  }
  return callee;
}

llvm::Function* ModuleEmitter::function_for(const ptx::Function& function) {
  const auto known = functions_.find(function.name);
  if (known != functions_.end()) return known->second;
  std::vector<llvm::Type*> types(function.is_entry ? 1 : 1 + function.results.size() + function.parameters.size(),
                                 llvm::PointerType::getUnqual(context_));
  auto* type = llvm::FunctionType::get(llvm::Type::getVoidTy(context_), types, false);
  // Where its address is taken, a function lives in the module's unit of functions, and kernels refer to it.
  const bool external = !function.is_entry && is_address_taken(function.name);
  // Of other functions LLVM may drop those that nobody calls, but not parameters: add_loop_polls() needs the thread, and
  // of an internal function that does not use it (a recursive one, which is never inlined whole) LLVM takes it away.
  const auto own = function.is_entry ? llvm::GlobalValue::InternalLinkage : llvm::GlobalValue::LinkOnceODRLinkage;
  auto* made = llvm::Function::Create(
      type, external ? llvm::GlobalValue::ExternalLinkage : own,
      (function.is_entry ? "thread." : "func.") + function.name, *llvm_);
  made->addFnAttr(llvm::Attribute::NoUnwind);
  // A frame larger than a page touches each page on its way down, so it cannot step over the stack's guard.
  made->addFnAttr("probe-stack", "inline-asm");
  functions_.emplace(function.name, made);
  if (!external || emitting_functions_) pending_.push_back(&function);
  return made;
}

void ModuleEmitter::emit_pending() {
  while (!pending_.empty()) {
    const ptx::Function* next = pending_.back();
    pending_.pop_back();
    FunctionEmitter(*this, *next, functions_.at(next->name)).run();
  }
}

std::unique_ptr<llvm::Module> ModuleEmitter::emit_kernel(const ptx::Function& entry, const SharedLayout& shared) {
  llvm_ = std::make_unique<llvm::Module>(entry.name, context_);
  shared_ = &shared;
  llvm::Function* thread_function = function_for(entry);
  thread_function->addFnAttr(llvm::Attribute::AlwaysInline);
  emit_pending();
  emit_loop(thread_function);
  return std::move(llvm_);
}

std::unique_ptr<llvm::Module> ModuleEmitter::emit_thread(const ptx::Function& entry, const SharedLayout& shared) {
  llvm_ = std::make_unique<llvm::Module>(entry.name, context_);
  shared_ = &shared;
  llvm::Function* thread_function = function_for(entry);
  thread_function->setLinkage(llvm::GlobalValue::ExternalLinkage);
  emit_pending();
  for (llvm::Function& function : *llvm_) {
    if (!function.isDeclaration() && &function != thread_function) function.addFnAttr(llvm::Attribute::AlwaysInline);
  }
  return std::move(llvm_);
}

std::unique_ptr<llvm::Module> ModuleEmitter::emit_functions(const SharedLayout& shared) {
  llvm_ = std::make_unique<llvm::Module>("functions", context_);
  shared_ = &shared;
  emitting_functions_ = true;
  for (const ptx::Function* function : source_.functions()) {
    if (function->has_body && is_address_taken(function->name)) function_for(*function);
  }
  emit_pending();
  return std::move(llvm_);
}

// kernel(block, thread): for a fiber, one call with the fiber's own context; else a context on the stack is stepped
// through every thread of the block in order of the linear index, x fastest.
void ModuleEmitter::emit_loop(llvm::Function* thread_function) {
  llvm::IRBuilder<> b(context_);
  auto* pointer = b.getPtrTy();
  auto* i32 = b.getInt32Ty();
  auto* type = llvm::FunctionType::get(b.getVoidTy(), {pointer, pointer}, false);
  auto* kernel = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, "kernel", *llvm_);
  kernel->addFnAttr(llvm::Attribute::NoUnwind);
  kernel->addFnAttr("probe-stack", "inline-asm");
  auto* entry = llvm::BasicBlock::Create(context_, "entry", kernel);
  b.SetInsertPoint(entry);
  add_line_scope(*kernel);
  b.SetCurrentDebugLocation(line_place(*kernel, 0, 0));
  if (traits_.needs_fibers) {
    b.CreateCall(thread_function, {kernel->getArg(1)});
    b.CreateRetVoid();
    return;
  }
  llvm::Value* block = kernel->getArg(0);
  auto* thread = b.CreateAlloca(llvm::ArrayType::get(b.getInt8Ty(), sizeof(ThreadContext)), nullptr, "thread");
  thread->setAlignment(llvm::Align(alignof(ThreadContext)));
  const auto at = [&](llvm::Value* base, std::size_t offset) {
    return b.CreateConstInBoundsGEP1_64(b.getInt8Ty(), base, offset);
  };
  b.CreateStore(block, at(thread, offsetof(ThreadContext, block)));
  b.CreateStore(b.CreateLoad(pointer, at(kernel->getArg(1), offsetof(ThreadContext, local_base))),
                at(thread, offsetof(ThreadContext, local_base)));
  b.CreateStore(b.CreateLoad(i32, at(kernel->getArg(1), offsetof(ThreadContext, local_bytes))),
                at(thread, offsetof(ThreadContext, local_bytes)));
  llvm::Value* extent[3];
  for (int d = 0; d < 3; ++d) extent[d] = b.CreateLoad(i32, at(block, offsetof(BlockContext, ntid) + 4 * d), "ntid");
  auto* done = llvm::BasicBlock::Create(context_, "done");
  llvm::BasicBlock* before = entry;
  llvm::PHINode* index[3];
  llvm::BasicBlock* head[3];
  for (int d = 2; d >= 0; --d) {  // do-while loops: a block has at least one thread in each dimension
    head[d] = llvm::BasicBlock::Create(context_, "loop", kernel);
    b.CreateBr(head[d]);
    b.SetInsertPoint(head[d]);
    index[d] = b.CreatePHI(i32, 2, "tid");
    index[d]->addIncoming(b.getInt32(0), before);
    b.CreateStore(index[d], at(thread, offsetof(ThreadContext, tid) + 4 * d));
    before = head[d];
  }
  llvm::Value* flat = b.CreateAdd(b.CreateMul(index[2], extent[1]), index[1]);
  flat = b.CreateAdd(b.CreateMul(flat, extent[0]), index[0]);
  b.CreateStore(flat, at(thread, offsetof(ThreadContext, linear)));
  // For messages: which thread it was, should it fault. volatile, as nothing here reads it.
  b.CreateStore(flat, at(kernel->getArg(1), offsetof(ThreadContext, linear)))->setVolatile(true);
  b.CreateCall(thread_function, {thread});
  for (int d = 0; d < 3; ++d) {
    auto* next = d == 2 ? done : llvm::BasicBlock::Create(context_, "next", kernel);
    llvm::Value* more = b.CreateAdd(index[d], b.getInt32(1), "", true, false);
    index[d]->addIncoming(more, b.GetInsertBlock());
    b.CreateCondBr(b.CreateICmpULT(more, extent[d]), head[d], next);
    if (d == 2) done->insertInto(kernel);
    b.SetInsertPoint(next);
  }
  b.CreateRetVoid();
}

}  // namespace pergola::device::cpu::jit
