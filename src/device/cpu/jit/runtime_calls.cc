// What generated code calls for everything that is not arithmetic. Each function runs on the fiber's own stack; those
// that may switch away hold nothing that needs a destructor while they do.
#include "src/device/cpu/jit/runtime_calls.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "src/base/plural.h"
#include "src/device/cpu/atomic128.h"
#include "src/device/cpu/heap.h"
#include "src/device/cpu/jit/block_run.h"
#include "src/device/cpu/jit/fault_signals.h"
#include "src/device/cpu/jit/mbarrier.h"
#include "src/device/cpu/jit/runtime_math.h"
#include "src/device/cpu/jit/vector_runtime.h"
#include "src/device/cpu/memory_map.h"
#include "src/device/cpu/print.h"

namespace pergola::device::cpu::jit {
namespace {

PERGOLA_SWITCHES_STACK void yield(ThreadContext* thread) { run_of(thread).yield(thread); }

PERGOLA_SWITCHES_STACK void poll(BlockContext* block) {
  block->run->poll(__builtin_return_address(0));
}

PERGOLA_SWITCHES_STACK std::uint32_t barrier(ThreadContext* thread, std::uint32_t id, std::uint32_t expected,
                                             std::uint32_t kind, std::uint32_t predicate) {
  return run_of(thread).barrier(thread, id, expected, kind, predicate != 0);
}

PERGOLA_SWITCHES_STACK std::uint64_t collective(ThreadContext* thread, std::uint32_t kind, std::uint32_t mask,
                                                std::uint64_t value, std::uint32_t b, std::uint32_t c) {
  return run_of(thread).collective(thread, kind, mask, value, b, c);
}

[[noreturn]] PERGOLA_SWITCHES_STACK void exit_thread(ThreadContext* thread) { run_of(thread).exit(thread); }

void raise_trap(ThreadContext* thread, std::uint32_t kind, std::uint32_t line) {
  BlockRun& run = run_of(thread);
  const std::string what = kind == kTrapBranchTable  ? "branches outside its table"
                           : kind == kTrapBreakpoint ? "meets a breakpoint, and no debugger is there"
                           : kind == kTrapStack ? "asks for more stack than a function has, or gives back what it was not given"
                           : kind == kTrapMisaligned ? "accesses 16 bytes at an address that is no multiple of 16"
                           : kind == kTrapTexture    ? "reads a texture that is none of this device"
                                                     : trap_reason(*run.block().launch);
  run.raise(PERGOLA_ERROR(kDeviceFault, "{} {}.", run.where(thread, {line}), what));
}
[[noreturn]] PERGOLA_SWITCHES_STACK void trap(ThreadContext* thread, std::uint32_t kind, std::uint32_t line) {
  raise_trap(thread, kind, line);
  run_of(thread).leave_after_fault();
}

PERGOLA_SWITCHES_STACK void atomic_b128(ThreadContext* thread, unsigned __int128* at, unsigned __int128* words,
                                        std::uint32_t is_cas, std::uint32_t line) {
  if (reinterpret_cast<std::uintptr_t>(at) % 16 != 0) trap(thread, kTrapMisaligned, line);
  words[0] = is_cas != 0 ? compare_exchange_128(at, words[0], words[1]) : exchange_128(at, words[1]);
}

PERGOLA_SWITCHES_STACK const TextureImage& find_texture(ThreadContext* thread, std::uint64_t handle, std::uint32_t line) {
  const TextureImage* image = run_of(thread).block().launch->memory->textures.find(handle);
  if (image == nullptr) trap(thread, kTrapTexture, line);
  return *image;
}
PERGOLA_SWITCHES_STACK void texture(ThreadContext* thread, std::uint64_t handle, std::uint32_t form, const std::uint32_t* coordinates,
                                    std::uint32_t* texel, std::uint32_t line) {
  const TextureImage& image = find_texture(thread, handle, line);
  const TextureRead read{form & 3, (form & kTextureInteger) != 0, static_cast<int>(form >> kTextureGatherShift) - 1};
  const auto values = read_texture(image, read, {coordinates[0], coordinates[1], coordinates[2]});
  std::copy(values.begin(), values.end(), texel);
}
PERGOLA_SWITCHES_STACK std::uint32_t extent_of_texture(ThreadContext* thread, std::uint64_t handle, std::uint32_t which, std::uint32_t line) {
  return texture_extent(find_texture(thread, handle, line), static_cast<int>(which));
}

const char* verb(const BlockRun& run, PtxPlace place) {
  const ptx::Instruction* in = run.module() == nullptr ? nullptr : instruction_at(*run.module(), place);
  if (in == nullptr || in->op == ptx::Op::kCp) return "accesses";  // a copy does both
  return in->op == ptx::Op::kLd || in->op == ptx::Op::kLdu ? "reads" : "writes";
}

void raise_shared(ThreadContext* thread, std::uint32_t offset, std::uint32_t bytes, PtxPlace place) {
  BlockRun& run = run_of(thread);
  run.raise(PERGOLA_ERROR(kDeviceFault, "{} {} {} at offset {} of the block's shared memory, which has {}.",
                          run.where(thread, place), verb(run, place), plural(bytes, "byte"), offset,
                          plural(run.block().shared_bytes, "byte")));
}
[[noreturn]] PERGOLA_SWITCHES_STACK void shared_fault(ThreadContext* thread, std::uint32_t offset, std::uint32_t bytes, std::uint32_t line, std::uint32_t number) {
  raise_shared(thread, offset, bytes, {line, number});
  run_of(thread).leave_after_fault();
}

[[noreturn]] PERGOLA_SWITCHES_STACK void local_fault(ThreadContext* thread, std::uint64_t offset, std::uint32_t bytes,
                                                     std::uint32_t size, std::uint32_t line, std::uint32_t number) {
  {
    BlockRun& run = run_of(thread);
    const PtxPlace place{line, number};
    run.raise(PERGOLA_ERROR(kDeviceFault, "{} {} {} at offset {} of its local memory, which has {}.",
                            run.where(thread, place), verb(run, place), plural(bytes, "byte"),
                            static_cast<std::int64_t>(offset), plural(size, "byte")));
  }
  run_of(thread).leave_after_fault();
}

// Does what each lane of a group accesses lie in shared memory? `first` is lane 0's offset, whether or not it is here.
PERGOLA_SWITCHES_STACK void group_bounds(ThreadContext* thread, std::uint32_t lanes, std::uint32_t first, std::uint32_t stride,
                                         std::uint32_t bytes, std::uint32_t line, std::uint32_t number) {
  for (; lanes != 0; lanes &= lanes - 1) {
    const auto lane = static_cast<std::uint32_t>(std::countr_zero(lanes));
    const std::uint32_t offset = first + stride * lane;
    if (std::uint64_t{offset} + bytes <= thread->block->shared_bytes) continue;
    ThreadContext faulting = run_of(thread).context_of_lane(*thread, lane);
    shared_fault(&faulting, offset, bytes, line, number);
  }
}

void raise_misaligned(ThreadContext* thread, std::uint64_t address, std::uint32_t bytes, PtxPlace place) {
  BlockRun& run = run_of(thread);
  const ptx::Instruction* in = run.module() == nullptr ? nullptr : instruction_at(*run.module(), place);
  run.raise(PERGOLA_ERROR(kDeviceFault, "{} {} {} at {:#x}, which is not aligned to {} bytes, {}.",
                          run.where(thread, place), verb(run, place), plural(bytes, "byte"), address,
                          bytes & (~bytes + 1),
                          misaligned_place(run.block(), address, in == nullptr ? ptx::Space::kNone : in->space())));
}
[[noreturn]] PERGOLA_SWITCHES_STACK void misaligned(ThreadContext* thread, std::uint64_t address, std::uint32_t bytes,
                                                    std::uint32_t line, std::uint32_t number) {
  raise_misaligned(thread, address, bytes, {line, number});
  run_of(thread).leave_after_fault();
}

// Reads a thread's generic address: its stack, the block's shared memory, or what the memory map allows.
MemoryReader reader_of(ThreadContext* thread) {
  return [thread](std::uint64_t address, std::span<std::byte> to) {
    BlockRun& run = run_of(thread);
    const auto inside = [&](const std::byte* base, std::uint64_t size) {
      const std::uint64_t offset = address - reinterpret_cast<std::uintptr_t>(base);
      return offset < size && to.size() <= size - offset;
    };
    const bool own = inside(thread->local_base, thread->local_bytes) ||
                     inside(run.block().shared_base, run.block().shared_bytes);
    const auto mapped = [&] {
      const RuntimeSection section;
      return run.launch().memory != nullptr && run.launch().memory->find(address, to.size()).has_value();
    };
    if (!own && !mapped()) return false;
    std::memcpy(to.data(), reinterpret_cast<const void*>(address), to.size());
    return true;
  };
}

std::uint32_t print(ThreadContext* thread, std::uint64_t format, std::uint64_t arguments) {
  PrintBuffer* buffer = run_of(thread).launch().print;
  if (buffer == nullptr) return 0;
  return static_cast<std::uint32_t>(buffer->vprintf(reader_of(thread), format, arguments));
}

std::uint64_t allocate(ThreadContext* thread, std::uint64_t bytes) {
  DeviceHeap* heap = run_of(thread).launch().heap;
  if (heap == nullptr) return 0;
  const RuntimeSection section;
  return heap->allocate(bytes);
}

bool free_or_raise(ThreadContext* thread, std::uint64_t address, const void* from) {
  BlockRun& run = run_of(thread);
  DeviceHeap* heap = run.launch().heap;
  if (heap == nullptr || address == 0) return true;
  const Status status = [&] {
    const RuntimeSection section;
    return heap->free(address);
  }();
  if (status.ok()) return true;
  const PtxPlace place = run.place_of(reinterpret_cast<std::uintptr_t>(from) - 1);  // the call, not what follows it
  run.raise(PERGOLA_ERROR(kDeviceFault, "{} {}.", run.where(thread, place), status.message()));
  return false;
}
PERGOLA_SWITCHES_STACK void release(ThreadContext* thread, std::uint64_t address) {
  if (!free_or_raise(thread, address, __builtin_return_address(0))) run_of(thread).leave_after_fault();
}

std::uint32_t spawn_or_raise(ThreadContext* thread, std::uint64_t handle, std::uint32_t bytes,
                             std::span<const std::uint64_t, TaskSpawner::kWords> words, const void* from) {
  BlockRun& run = run_of(thread);
  TaskSpawner* const spawner = run.launch().spawner;
  if (spawner == nullptr) return 0;
  const Result<bool> spawned = [&] {
    const RuntimeSection section;
    return spawner->spawn(handle, bytes, words);
  }();
  if (spawned.ok()) return *spawned ? 1 : 0;
  const PtxPlace place = run.place_of(reinterpret_cast<std::uintptr_t>(from) - 1);
  run.raise(PERGOLA_ERROR(kDeviceFault, "{} {}", run.where(thread, place), spawned.message()));
  return 2;
}
PERGOLA_SWITCHES_STACK std::uint32_t spawn_task(ThreadContext* thread, std::uint64_t handle, std::uint32_t bytes,
                                                std::uint64_t word_0, std::uint64_t word_1, std::uint64_t word_2,
                                                std::uint64_t word_3, std::uint64_t word_4, std::uint64_t word_5) {
  const std::uint64_t words[] = {word_0, word_1, word_2, word_3, word_4, word_5};
  const std::uint32_t spawned = spawn_or_raise(thread, handle, bytes, words, __builtin_return_address(0));
  if (spawned == 2) run_of(thread).leave_after_fault();
  return spawned;
}

void raise_assert(ThreadContext* thread, std::uint64_t message, std::uint64_t file, std::uint32_t line,
                  std::uint64_t function) {
  BlockRun& run = run_of(thread);
  const MemoryReader read = reader_of(thread);
  const auto text = [&](std::uint64_t address) { return read_c_string(read, address, 4096).value_or("?"); };
  run.raise(PERGOLA_ERROR(kDeviceFault, "{} fails at {}:{}: {}: assertion '{}'.", run.where(thread), text(file), line,
                          text(function), text(message)));
}
[[noreturn]] PERGOLA_SWITCHES_STACK void assert_fail(ThreadContext* thread, std::uint64_t message, std::uint64_t file,
                                                     std::uint32_t line, std::uint64_t function) {
  raise_assert(thread, message, file, line, function);
  run_of(thread).leave_after_fault();
}

void copy_async(void* to, const void* from, std::uint32_t bytes, std::uint32_t source_bytes) {
  std::memcpy(to, from, source_bytes);
  if (source_bytes < bytes) std::memset(static_cast<std::byte*>(to) + source_bytes, 0, bytes - source_bytes);
}

std::uint64_t clock_ticks() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}
std::uint64_t global_timer() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::system_clock::now().time_since_epoch()).count());
}

std::vector<RuntimeSymbol> all_symbols() {
  std::vector<RuntimeSymbol> symbols = math_symbols();
  const RuntimeSymbol more[] = {
      symbol("pergola_jit_yield", yield),           symbol("pergola_jit_barrier", barrier),
      symbol("pergola_jit_collective", collective), symbol("pergola_jit_exit", exit_thread),
      symbol("pergola_jit_atomic_b128", atomic_b128), symbol("pergola_jit_texture", texture),
      symbol("pergola_jit_texture_extent", extent_of_texture), symbol("pergola_jit_trap", trap),             symbol("pergola_jit_shared_fault", shared_fault),
      symbol("pergola_jit_misaligned", misaligned), symbol("pergola_jit_group_bounds", group_bounds),
      symbol("pergola_jit_local_fault", local_fault),
      symbol("pergola_jit_vprintf", print),         symbol("pergola_jit_malloc", allocate),
      symbol("pergola_jit_free", release),          symbol("pergola_jit_assert_fail", assert_fail),
      symbol("pergola_jit_spawn_task", spawn_task),
      symbol("pergola_jit_copy_async", copy_async), symbol("pergola_jit_clock", clock_ticks),
      symbol("pergola_jit_globaltimer", global_timer), symbol("pergola_jit_mbarrier", mbarrier),
      symbol("pergola_jit_poll", poll),
      // What LLVM's code generation calls by itself.
      symbol("memcpy", static_cast<void* (*)(void*, const void*, std::size_t)>(std::memcpy)),
      symbol("memset", static_cast<void* (*)(void*, int, std::size_t)>(std::memset)),
      symbol("memmove", static_cast<void* (*)(void*, const void*, std::size_t)>(std::memmove)),
  };
  symbols.insert(symbols.end(), std::begin(more), std::end(more));
  const std::vector<RuntimeSymbol> groups = group_symbols();
  symbols.insert(symbols.end(), groups.begin(), groups.end());
  return symbols;
}

}  // namespace

std::span<const RuntimeSymbol> runtime_symbols() {
  static const auto& symbols = *new std::vector<RuntimeSymbol>(all_symbols());  // never destroyed
  return symbols;
}

}  // namespace pergola::device::cpu::jit
