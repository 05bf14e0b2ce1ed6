#include "src/device/cpu/jit/line_tables.h"

#include <llvm/BinaryFormat/Dwarf.h>
#include <llvm/DebugInfo/DWARF/DWARFContext.h>
#include <llvm/IR/DIBuilder.h>
#include <llvm/IR/Module.h>
#include <llvm/Object/ObjectFile.h>

namespace pergola::device::cpu::jit {
namespace {

using llvm::object::ObjectFile;
using llvm::object::SymbolRef;

// What `take` makes of the object's symbols; nothing where the object cannot be read.
template <typename Take>
void for_each_function(const ObjectFile& file, Take take) {
  for (const SymbolRef& symbol : file.symbols()) {
    llvm::Expected<SymbolRef::Type> type = symbol.getType();
    llvm::Expected<llvm::StringRef> name = symbol.getName();
    llvm::Expected<std::uint32_t> flags = symbol.getFlags();
    const bool read = static_cast<bool>(type) && static_cast<bool>(name) && static_cast<bool>(flags);
    if (read && *type == SymbolRef::ST_Function && (*flags & SymbolRef::SF_Undefined) == 0 && (*flags & SymbolRef::SF_Global) != 0) {
      take(symbol, *name);
    }
    llvm::consumeError(type.takeError());
    llvm::consumeError(name.takeError());
    llvm::consumeError(flags.takeError());
  }
}

std::unique_ptr<ObjectFile> open(std::string_view object) {
  llvm::Expected<std::unique_ptr<ObjectFile>> file =
      ObjectFile::createObjectFile(llvm::MemoryBufferRef(llvm::StringRef(object.data(), object.size()), "kernel"));
  if (file) return std::move(*file);
  llvm::consumeError(file.takeError());
  return nullptr;
}

}  // namespace

void add_line_scope(llvm::Function& function, unsigned first_line) {
  llvm::Module& module = *function.getParent();
  llvm::DICompileUnit* unit = module.debug_compile_units().empty() ? nullptr : *module.debug_compile_units_begin();
  llvm::DIBuilder builder(module, true, unit);
  if (unit == nullptr) {
    unit = builder.createCompileUnit(llvm::dwarf::DW_LANG_C, builder.createFile("ptx", ""), "", true, "", 0, "",
                                     llvm::DICompileUnit::LineTablesOnly);
    module.addModuleFlag(llvm::Module::Warning, "Debug Info Version", llvm::DEBUG_METADATA_VERSION);
  }
  auto* type = builder.createSubroutineType(builder.getOrCreateTypeArray({}));
  function.setSubprogram(builder.createFunction(unit->getFile(), function.getName(), "", unit->getFile(), 0, type, first_line,
                                                llvm::DINode::FlagZero, llvm::DISubprogram::SPFlagDefinition));
  builder.finalize();
}

llvm::DebugLoc line_place(const llvm::Function& function, unsigned line, unsigned column) {
  llvm::DISubprogram* scope = function.getSubprogram();
  return scope == nullptr ? llvm::DebugLoc() : llvm::DebugLoc(llvm::DILocation::get(function.getContext(), line, column, scope));
}

PtxPlace find_line(std::string_view object, std::string_view symbol, std::uint64_t offset) {
  const std::unique_ptr<ObjectFile> file = open(object);
  if (file == nullptr) return {};
  PtxPlace found;
  for_each_function(*file, [&](const SymbolRef& candidate, llvm::StringRef name) {
    if (name != llvm::StringRef(symbol.data(), symbol.size())) return;
    llvm::Expected<std::uint64_t> at = candidate.getAddress();
    llvm::Expected<llvm::object::section_iterator> section = candidate.getSection();
    if (at && section && *section != file->section_end()) {
      const std::unique_ptr<llvm::DWARFContext> tables = llvm::DWARFContext::create(*file);
      const llvm::DILineInfo row = tables->getLineInfoForAddress({*at + offset, (*section)->getIndex()});
      found = {row.Line, row.Column};
    }
    llvm::consumeError(at.takeError());
    llvm::consumeError(section.takeError());
  });
  return found;
}

std::string lookup_symbol(std::string_view object) {
  const std::unique_ptr<ObjectFile> file = open(object);
  std::string first;
  if (file == nullptr) return first;
  for_each_function(*file, [&](const SymbolRef&, llvm::StringRef name) {
    if (first.empty() || name == "kernel") first = name.str();
  });
  return first;
}

}  // namespace pergola::device::cpu::jit
