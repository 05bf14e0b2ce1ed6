// From an address in a kernel to a host pointer, with every check that an access needs.
#include <mutex>

#include "src/base/plural.h"
#include "src/device/cpu/interpreter/decoder.h"
#include "src/device/cpu/interpreter/exec.h"
#include "src/device/cpu/memory_map.h"

namespace pergola::device::cpu {
namespace {
std::atomic<AccessRecorder*> recorder_hook{nullptr};  // written by tests before a launch, read when a block starts
thread_local const ExecutionHook* thread_hook = nullptr;
}

void set_access_recorder(AccessRecorder* recorder) { recorder_hook.store(recorder, std::memory_order_release); }
AccessRecorder* access_recorder() { return recorder_hook.load(std::memory_order_acquire); }

void set_execution_hook(const ExecutionHook* hook) { thread_hook = hook; }
const ExecutionHook* execution_hook() { return thread_hook; }

namespace interp {

std::byte* Machine::resolve(Thread& t, const Inst& inst, Region region, std::uint64_t address, std::uint32_t size,
                            bool write) {
  if (region == Region::kFrame) return t.stack + t.frame + address;
  const std::uint32_t align = size & (~size + 1);  // vectors have powers of two; a copy of 12 bytes wants 4
  if ((address & (align - 1)) != 0) {
    fault(t, inst,
          fmt::format(
              "{} {} at {:#x}, which is not aligned to {} bytes, {}", write ? "writes" : "reads", plural(size, "byte"),
              address, align,
              misaligned_place(block_, address, inst.source == nullptr ? ptx::Space::kNone : inst.source->space())));
    return nullptr;
  }
  const auto offset_in = [&](const std::byte* base) { return address - reinterpret_cast<std::uintptr_t>(base); };
  auto fits = [size](std::uint64_t offset, std::uint64_t bytes) { return offset < bytes && bytes - offset >= size; };
  std::byte* found = nullptr;
  switch (region) {
    case Region::kShared:
      if (fits(address & 0xffffffffu, block_.shared_bytes)) found = block_.shared_base + (address & 0xffffffffu);
      break;
    case Region::kLocal:
      if (fits(address & 0xffffffffu, kernel_->stack_bytes)) found = t.stack + (address & 0xffffffffu);
      break;
    case Region::kEntryParam: {
      const auto parameters = launch().parameters;
      if (!write && fits(offset_in(parameters.data()), parameters.size()))
        found = reinterpret_cast<std::byte*>(address);
      break;
    }
    case Region::kGeneric:
      if (fits(offset_in(block_.shared_base), block_.shared_bytes)) {
        found = block_.shared_base + offset_in(block_.shared_base);
        break;
      }
      if (fits(offset_in(t.stack), kernel_->stack_bytes)) {
        found = t.stack + offset_in(t.stack);
        break;
      }
      if (!write && fits(offset_in(launch().parameters.data()), launch().parameters.size())) {
        found = reinterpret_cast<std::byte*>(address);
        break;
      }
      found = resolve_mapped(t, inst, region, address, size, write);
      break;
    default: found = resolve_mapped(t, inst, region, address, size, write); break;
  }
  if (found == nullptr && !stop_) return out_of_bounds(t, inst, region, address, size, write);
  if (shared_check_ && found != nullptr && region != Region::kLocal && !check_shared(t, inst, found, size, write)) return nullptr;
  if (recorder_ != nullptr && found != nullptr)
    (*recorder_)({block_.index, t.tid, reinterpret_cast<std::uintptr_t>(found), size, write});
  if (hook_ != nullptr && found != nullptr)
    hook_->accessed(reinterpret_cast<std::uintptr_t>(found), size, space_of(t, found));
  return found;
}

MemorySpace Machine::space_of(const Thread& t, const std::byte* at) const {
  if (in_shared(at)) return MemorySpace::kShared;
  if (at >= t.stack && at < t.stack + kernel_->stack_bytes) return MemorySpace::kLocal;
  const auto parameters = launch().parameters;
  const bool is_parameter = at >= parameters.data() && at < parameters.data() + parameters.size();
  return is_parameter ? MemorySpace::kParameter : MemorySpace::kGlobal;
}

// "offset 68 of the block's shared memory ('tile' + 4)".
std::string Machine::shared_place(std::uint32_t offset) const {
  const SharedLayout::Slot* best = nullptr;
  for (const SharedLayout::Slot& slot : kernel_->shared.slots)
    if (slot.offset_bytes <= offset && (best == nullptr || slot.offset_bytes >= best->offset_bytes)) best = &slot;
  std::string place = fmt::format("offset {} of the block's shared memory", offset);
  if (best == nullptr) return place;
  const std::string name = best->name.substr(best->name.rfind('/') + 1);
  return fmt::format("{} ('{}' + {})", place, name, offset - best->offset_bytes);
}

bool Machine::check_shared(Thread& t, const Inst& inst, const std::byte* at, std::uint32_t size, bool write) {
  using Found = SharedCheck::Finding::Kind;
  const SharedCheck::Finding found = shared_check_->access(number_of(t), t, inst, at, size, write);
  if (found.kind == Found::kNone) return true;
  const char* verb = write ? "writes" : "reads";
  if (found.kind == Found::kUninitialized) {
    fault(t, inst, fmt::format("reads {}, which no thread has written", shared_place(found.offset)));
    return false;
  }
  const Dim3 other = threads_[found.thread].tid;
  const std::string place = found.inst->source == nullptr
                                ? std::string()
                                : fmt::format(" at {} ({})", where(*module().module, *found.inst->source), spell(*found.inst->source));
  fault(t, inst, fmt::format("races with thread ({},{},{}): it {} {}, which that thread has {}{}, and nothing orders the two "
                             "accesses (a barrier is missing)",
                             other.x, other.y, other.z, verb, shared_place(found.offset), found.wrote ? "written" : "read", place));
  return false;
}

const std::byte* Machine::readable(const Thread& t, std::uint64_t address, std::uint32_t size) const {
  const auto inside = [&](const std::byte* base, std::uint64_t bytes) {
    const std::uint64_t offset = address - reinterpret_cast<std::uintptr_t>(base);
    return offset < bytes && bytes - offset >= size;
  };
  const bool found = inside(block_.shared_base, block_.shared_bytes) || inside(t.stack, kernel_->stack_bytes) ||
                     inside(launch().parameters.data(), launch().parameters.size()) ||
                     launch().memory->find(address, size).has_value();
  return found ? reinterpret_cast<const std::byte*>(address) : nullptr;
}

std::byte* Machine::resolve_mapped(Thread& t, const Inst& inst, Region region, std::uint64_t address,
                                   std::uint32_t size, bool write) {
  static_cast<void>(region);
  const std::uint64_t generation = launch().memory->generation();
  if (t.cached_generation != generation || address < t.cached_begin || address >= t.cached_end ||
      t.cached_end - address < size) {
    const auto range = launch().memory->find(address, size);
    if (!range) return nullptr;
    t.cached_begin = range->begin;
    t.cached_end = range->begin + range->size_bytes;
    t.cached_writable = range->writable;
    t.cached_generation = generation;
  }
  if (write && !t.cached_writable) {
    fault(t, inst, fmt::format("writes {} at {:#x}, which is read-only: {}", plural(size, "byte"), address,
                               launch().memory->describe_nearest(address)));
    return nullptr;
  }
  return reinterpret_cast<std::byte*>(address);
}

std::byte* Machine::out_of_bounds(Thread& t, const Inst& inst, Region region, std::uint64_t address,
                                  std::uint32_t size, bool write) {
  const std::string what = fmt::format("{} {}", write ? "writes" : "reads", plural(size, "byte"));
  switch (region) {
    case Region::kShared:
      fault(t, inst, fmt::format("{} at {}, which has {}", what, shared_place(static_cast<std::uint32_t>(address)),
                                 plural(block_.shared_bytes, "byte")));
      break;
    case Region::kLocal:
      fault(t, inst, fmt::format("{} at offset {} of its local memory, which has {}", what,
                                 static_cast<std::int32_t>(address & 0xffffffffu),
                                 plural(kernel_->stack_bytes, "byte")));
      break;
    case Region::kEntryParam:
      fault(t, inst, fmt::format("{} at {:#x}, outside the kernel's parameters of {}", what, address,
                                 plural(launch().parameters.size(), "byte")));
      break;
    default:
      if (const std::string beside = beside_shared(block_, address); !beside.empty()) {
        fault(t, inst, fmt::format("{} at {:#x}, {}", what, address, beside));
        break;
      }
      fault(t, inst, fmt::format("{} at {:#x}, {}", what, address, launch().memory->describe_nearest(address)));
  }
  return nullptr;
}

}  // namespace interp
}  // namespace pergola::device::cpu
