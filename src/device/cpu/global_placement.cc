#include "src/device/cpu/global_placement.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "src/base/log.h"
#include "src/base/pages.h"
#include "src/base/plural.h"

namespace pergola::device::cpu {
namespace {

constexpr std::size_t kGuardBytes = 64;

bool is_placed_space(const ptx::Variable& variable) {
  return variable.space == ptx::Space::kGlobal || variable.space == ptx::Space::kConst;
}

std::string where(const ptx::Module& module, const ptx::Location& location) {
  return fmt::format("{}:{}:{}", module.source_name, location.line, location.column);
}

// Calls visit(variable) for every module-scope variable, in textual order.
template <typename F>
void for_each_variable(const ptx::Module& module, F&& visit) {
  for (const ptx::Item& item : module.items) {
    if (const auto* variable = std::get_if<ptx::Variable>(&item.node)) visit(*variable);
  }
}

// Where the variables of one state space go, one behind the other.
struct Region {
  std::uint64_t end = 0, alignment = GlobalStorage::kMinAlignBytes;
};

Result<GuardedBytes> zeros(const Region& region, const ptx::Module& module) {
  GuardedBytes bytes = GuardedBytes::make(region.end, region.alignment);
  if (bytes.data() == nullptr) {
    return PERGOLA_ERROR(kResourceExhausted, "The host has no {} bytes for the variables of module '{}'.", region.end,
                         module.source_name);
  }
  if (!bytes.guarded()) std::memset(bytes.data(), 0, region.end);  // else it is zero
  return bytes;
}

}  // namespace

std::uint64_t variable_bytes(const ptx::Variable& variable) {
  if (variable.extents.empty() || variable.extents.front() != 0) return variable.size_bytes();
  // `[]` or `[][3]`: as many rows as the initialiser begins. size_bytes() saturates, so no product wraps.
  ptx::Variable counted = variable;
  counted.extents.front() = 1;
  const std::uint64_t row_elements = counted.size_bytes() / std::max(1u, ptx::size_bytes(variable.type));
  if (row_elements == 0) return 0;
  const std::uint64_t values = variable.initializers.size();
  counted.extents.front() = values / row_elements + (values % row_elements != 0 ? 1 : 0);
  return counted.extents.front() == 0 ? 0 : counted.size_bytes();
}

Result<GlobalStorage> GlobalStorage::place(const ptx::Module& module, DeviceMemory& memory) {
  GlobalStorage storage(memory);
  Region globals{.end = kGuardBytes}, constants;
  struct Slot {
    const ptx::Variable* variable;
    const Region* region;
    std::uint64_t offset, size;
  };
  std::vector<Slot> slots;
  Status refusal;
  const auto defined = [&](const std::string& name) {
    bool found = false;
    for_each_variable(module, [&](const ptx::Variable& v) {
      found = found || (v.name == name && v.linkage != ptx::Linkage::kExtern && is_placed_space(v));
    });
    return found;
  };
  for_each_variable(module, [&](const ptx::Variable& variable) {
    if (!refusal.ok() || !is_placed_space(variable)) return;
    if (ptx::class_of(variable.type) == ptx::TypeClass::kOpaque) {
      refusal = PERGOLA_ERROR(kUnsupported, "{}: the CPU device has no texture, sampler or surface references, and '{}' is one.",
                              where(module, variable.location), variable.name);
      return;
    }
    if (variable.linkage == ptx::Linkage::kExtern) {
      if (!defined(variable.name)) {
        refusal = PERGOLA_ERROR(kNotFound, "{}: the .extern variable '{}' is not defined in this module; define it there.",
                                where(module, variable.location), variable.name);
      }
      return;
    }
    const std::uint64_t own = std::max<std::uint64_t>(GlobalStorage::kMinAlignBytes, variable.alignment_bytes());
    const std::uint64_t size = variable_bytes(variable);
    Region& region = variable.space == ptx::Space::kConst ? constants : globals;
    region.alignment = std::max(region.alignment, own);
    const std::uint64_t offset = round_up(region.end, own);
    if (size > memory.total_bytes || offset > memory.total_bytes - size) {
      refusal = PERGOLA_ERROR(kResourceExhausted, "{}: variable '{}' of {} bytes makes more than the device's {} bytes.",
                              where(module, variable.location), variable.name, size, memory.total_bytes);
      return;
    }
    slots.push_back({&variable, &region, offset, size});
    region.end = offset + size + kGuardBytes;
  });
  PERGOLA_TRY(refusal);
  if (constants.end != 0) {
    constants.alignment = std::max<std::uint64_t>(constants.alignment, page_bytes());
    constants.end = round_up(constants.end, page_bytes());
    PERGOLA_ASSIGN(storage.constants_, zeros(constants, module));
  }
  PERGOLA_ASSIGN(storage.bytes_, zeros(globals, module));
  for (const Slot& slot : slots) {
    const GuardedBytes& bytes = slot.region == &constants ? storage.constants_ : storage.bytes_;
    storage.put(*slot.variable, bytes.data() + slot.offset, slot.size);
  }
  return storage;
}

void GlobalStorage::put(const ptx::Variable& variable, std::byte* address, std::size_t size_bytes) {
  const bool writable = variable.space != ptx::Space::kConst;
  const auto begin = reinterpret_cast<std::uintptr_t>(address);
  std::string what = fmt::format("variable '{}' ({})", variable.name, plural(size_bytes, "byte"));
  placements_.push_back({variable.name, address, size_bytes});
  memory_->map.add({begin, size_bytes, what, writable});
  if (writable) memory_->margins.add({begin, size_bytes, 0, kGuardBytes, std::move(what)});
}

// The constants' pages: read-only, or as they were.
void GlobalStorage::close_constants(bool closed) const {
  if (constants_.data() == nullptr) return;
  if (mprotect(constants_.data(), constants_.size_bytes(), closed ? PROT_READ : PROT_READ | PROT_WRITE) == 0) return;
  PERGOLA_WARN("The host does not protect {} bytes of .const variables: compiled code that writes there is not stopped.",
               constants_.size_bytes());
}

GlobalStorage::~GlobalStorage() {
  for (const GlobalPlacement& placement : placements_) {
    memory_->map.remove(reinterpret_cast<std::uintptr_t>(placement.address));
    memory_->margins.remove(reinterpret_cast<std::uintptr_t>(placement.address));
  }
  close_constants(false);
}

const GlobalPlacement* GlobalStorage::find(std::string_view name) const {
  const auto found = std::find_if(placements_.begin(), placements_.end(),
                                  [&](const GlobalPlacement& placement) { return placement.name == name; });
  return found == placements_.end() ? nullptr : &*found;
}

Status GlobalStorage::initialize(const ptx::Module& module, const FunctionAddress& function_address) {
  Status refusal;
  const auto value_of = [&](const ptx::Variable& variable, const ptx::Initializer& initializer) -> Result<std::uint64_t> {
    if (initializer.kind == ptx::Initializer::Kind::kBits) return initializer.bits;
    std::uint64_t address = 0;
    if (const GlobalPlacement* placement = find(initializer.symbol)) {
      address = reinterpret_cast<std::uintptr_t>(placement->address);
    } else if (module.find_function(initializer.symbol) != nullptr) {
      Result<std::uint64_t> found = function_address(initializer.symbol);
      if (!found.ok())
        return PERGOLA_ERROR(kUnsupported, "{}: the initialiser of '{}' takes the address of '{}': {}",
                             where(module, variable.location), variable.name, initializer.symbol, found.message());
      address = *found;
    } else {
      return PERGOLA_ERROR(kUnsupported,
                           "{}: the initialiser of '{}' takes the address of '{}', which is no .global or .const "
                           "variable and no function of the module.",
                           where(module, variable.location), variable.name, initializer.symbol);
    }
    address += static_cast<std::uint64_t>(initializer.offset);
    // 0xFF00(symbol): the masked byte, moved down to bit 0.
    if (initializer.mask == 0) return std::uint64_t{0};
    return (address & initializer.mask) >> std::countr_zero(initializer.mask);
  };
  for_each_variable(module, [&](const ptx::Variable& variable) {
    const GlobalPlacement* placement = find(variable.name);
    if (!refusal.ok() || placement == nullptr || variable.linkage == ptx::Linkage::kExtern) return;
    const std::size_t element = ptx::size_bytes(variable.type);
    if (variable.initializers.size() * element > placement->size_bytes) {
      refusal = PERGOLA_ERROR(kInvalidArgument, "{}: '{}' has {} initial values of {} bytes and room for {} bytes.",
                              where(module, variable.location), variable.name, variable.initializers.size(), element,
                              placement->size_bytes);
      return;
    }
    std::byte* out = placement->address;
    for (const ptx::Initializer& initializer : variable.initializers) {
      const Result<std::uint64_t> value = value_of(variable, initializer);
      if (!value.ok()) {
        refusal = value.status();
        return;
      }
      const bool is_address = initializer.kind != ptx::Initializer::Kind::kBits;
      if (is_address && element < 8 && (*value >> (8 * element)) != 0) {
        refusal = PERGOLA_ERROR(kInvalidArgument, "{}: an element of '{}' has {} bytes, too few for the address of '{}'.",
                                where(module, variable.location), variable.name, element, initializer.symbol);
        return;
      }
      std::memcpy(out, &*value, std::min<std::size_t>(element, sizeof *value));
      out += element;
    }
  });
  close_constants(true);
  return refusal;
}

}  // namespace pergola::device::cpu
