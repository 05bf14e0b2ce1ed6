#include "src/runtime/describe.h"

#include "src/analysis/pointer_modes.h"

namespace pergola::runtime {
namespace {

using session::Access;
using session::ParameterKind;

ParameterKind kind_of(const ptx::Parameter& parameter) {
  if (parameter.is_aggregate) return ParameterKind::kStruct;
  if (parameter.is_pointer) return ParameterKind::kPointer;
  switch (ptx::class_of(parameter.type)) {
    case ptx::TypeClass::kUnsigned:
    case ptx::TypeClass::kSigned: return ParameterKind::kInteger;
    case ptx::TypeClass::kFloat: return ParameterKind::kFloat;
    case ptx::TypeClass::kBits:
    case ptx::TypeClass::kPredicate:
    case ptx::TypeClass::kOpaque:
    case ptx::TypeClass::kNone: return ParameterKind::kBits;
  }
  return ParameterKind::kBits;
}

// AccessMode's values are Access's (pointer_modes.h).
static_assert(static_cast<int>(analysis::AccessMode::kReadWrite) == static_cast<int>(Access::kReadWrite));
Access access_of(analysis::AccessMode mode) {
  return static_cast<Access>(mode);
}

void add_modes(const analysis::PointerModes& modes, session::KernelInfo& info) {
  for (session::ParameterInfo& parameter : info.parameters) parameter.access = Access::kNone;
  for (const analysis::PointerParameter& pointer : modes.parameters) {
    if (pointer.parameter >= info.parameters.size()) continue;
    session::ParameterInfo& parameter = info.parameters[pointer.parameter];
    parameter.access =
        static_cast<Access>(static_cast<int>(parameter.access) | static_cast<int>(access_of(pointer.mode)));
    parameter.is_sole_base |= pointer.is_sole;
    if (parameter.kind != ParameterKind::kStruct) {
      parameter.surely_read = pointer.surely_read;
      parameter.surely_written = pointer.surely_written;
      parameter.surely_f32 = pointer.surely_f32;
      parameter.surely_f64 = pointer.surely_f64;
      parameter.is_all_f32 = pointer.is_all_f32;
      parameter.is_all_f64 = pointer.is_all_f64;
    }
    if (pointer.reason.empty()) continue;
    if (!parameter.reason.empty()) parameter.reason += "; ";
    parameter.reason += parameter.kind == ParameterKind::kStruct
                            ? fmt::format("at byte {}: {}", pointer.offset_bytes, pointer.reason)
                            : pointer.reason;
  }
  for (const analysis::SummedParameters& sum : modes.sums)
    info.sums.push_back({sum.parameters, sum.has_other_base, access_of(sum.mode), sum.surely_read, sum.surely_written});
  for (const analysis::VariableAccess& variable : modes.variables)
    info.variables.push_back({variable.name, access_of(variable.mode), variable.reason});
  info.universal_access = access_of(modes.universal);
  info.universal_reason = modes.universal_reason;
  info.absolute_access = access_of(modes.absolute);
  info.absolute_reason = modes.absolute_reason;
}

}  // namespace

session::KernelInfo describe(const ptx::Module& module, const ptx::Function& entry,
                             const ptx::KernelSignature& signature, const device::KernelResources& resources) {
  session::KernelInfo info;
  info.name = signature.name;
  info.parameter_bytes = signature.parameter_bytes;
  info.static_shared_bytes = signature.static_shared_bytes;
  info.uses_dynamic_shared = signature.uses_dynamic_shared;
  info.registers_per_thread = resources.registers_per_thread;
  info.local_bytes_per_thread = resources.local_bytes_per_thread;
  info.max_threads_per_block = resources.max_threads_per_block;
  if (signature.max_threads) {
    const auto& most = *signature.max_threads;
    const std::uint64_t threads = std::uint64_t{most[0]} * std::max(1u, most[1]) * std::max(1u, most[2]);
    if (info.max_threads_per_block == 0 || threads < info.max_threads_per_block)
      info.max_threads_per_block = static_cast<std::uint32_t>(threads);
  }
  info.required_threads = signature.required_threads;
  for (std::size_t i = 0; i < signature.parameters.size(); ++i) {
    const ptx::Parameter& from = signature.parameters[i];
    session::ParameterInfo parameter;
    parameter.name = from.name;
    parameter.type = from.type;
    parameter.type_name = ptx::spelling(from.type);
    parameter.kind = kind_of(from);
    parameter.offset_bytes = from.offset_bytes;
    parameter.size_bytes = from.size_bytes;
    parameter.align_bytes = from.align_bytes;
    if (i < entry.parameters.size() && entry.parameters[i].pointer_align_bytes > 1)
      parameter.pointer_align_bytes = entry.parameters[i].pointer_align_bytes;
    info.parameters.push_back(std::move(parameter));
  }

  if (const Result<analysis::PointerModes> modes = analysis::pointer_modes(module, entry); modes.ok()) {
    add_modes(*modes, info);
  } else {
    info.universal_reason = fmt::format("not analysed: {}", modes.message());
  }
  return info;
}

}  // namespace pergola::runtime
