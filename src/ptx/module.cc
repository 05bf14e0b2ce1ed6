// Sizes of variables and look-ups in a module.
#include "src/ptx/module.h"

#include <limits>

namespace pergola::ptx {

std::uint64_t Variable::size_bytes() const {
  // Saturates: a declaration may say more bytes than 64 bits count.
  std::uint64_t bytes = std::uint64_t{ptx::size_bytes(type)} * vector;
  for (const std::uint64_t extent : extents) {
    if (extent != 0 && bytes > std::numeric_limits<std::uint64_t>::max() / extent) {
      return std::numeric_limits<std::uint64_t>::max();
    }
    bytes *= extent;
  }
  return bytes;
}

std::uint32_t Variable::alignment_bytes() const {
  if (align_bytes != 0) return align_bytes;
  const std::uint32_t natural = ptx::size_bytes(type) * vector;
  return natural == 0 ? 1 : natural;
}

const Function* Module::find_function(std::string_view name) const {
  const Function* declaration = nullptr;
  for (const Item& item : items) {
    const auto* function = std::get_if<Function>(&item.node);
    if (function == nullptr || function->name != name) continue;
    if (function->has_body) return function;
    if (declaration == nullptr) declaration = function;
  }
  return declaration;
}

Function* Module::find_function(std::string_view name) {
  return const_cast<Function*>(static_cast<const Module*>(this)->find_function(name));
}

const Variable* Module::find_variable(std::string_view name) const {
  const Variable* declaration = nullptr;
  for (const Item& item : items) {
    const auto* variable = std::get_if<Variable>(&item.node);
    if (variable == nullptr || variable->name != name) continue;
    if (variable->linkage != Linkage::kExtern) return variable;
    if (declaration == nullptr) declaration = variable;
  }
  return declaration;
}

std::vector<const Function*> Module::entries() const {
  std::vector<const Function*> result;
  for (const Item& item : items) {
    const auto* function = std::get_if<Function>(&item.node);
    if (function != nullptr && function->is_entry) result.push_back(function);
  }
  return result;
}

std::vector<const Function*> Module::functions() const {
  std::vector<const Function*> result;
  for (const Item& item : items) {
    if (const auto* function = std::get_if<Function>(&item.node)) result.push_back(function);
  }
  return result;
}

bool Module::operator==(const Module& other) const {
  return version_major == other.version_major && version_minor == other.version_minor && targets == other.targets &&
         address_size == other.address_size && items == other.items && files == other.files;
}

}  // namespace pergola::ptx
