#include "src/device/cpu/jit/fault_signals.h"

#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <mutex>

#include "src/base/plural.h"
#include "src/device/cpu/jit/block_run.h"
#include "src/device/cpu/memory_map.h"
#include "src/device/cpu/place.h"
#include "src/device/cpu/stack_limit.h"

namespace pergola::device::cpu::jit {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
constexpr std::size_t kAlternateStackBytes = 64 * 1024;

struct sigaction previous_actions[NSIG];  // written once, before the handlers that read them are installed

// What the handler needs of its thread. volatile: read by a handler that interrupts the same thread.
struct Running {
  BlockRun* volatile run = nullptr;
  void* volatile stack_top = nullptr;
  volatile int signal = 0;
  volatile std::uintptr_t address = 0, code = 0;  // what it accessed, and the instruction that did
  volatile bool write = false, pending = false;
  volatile bool call = false;  // it went there: `code` is behind the call
  volatile int sections = 0;  // RuntimeSections that live
};
thread_local Running running;

[[noreturn]] PERGOLA_SWITCHES_STACK void land_after_fault();

const char* what_happened(int signal) {
  switch (signal) {
    case SIGFPE: return "makes an arithmetic fault";
    case SIGILL: return "meets an illegal instruction";
    default: return running.write ? "writes" : "reads";
  }
}

// "4 bytes past the end of buffer 7 (4096 bytes)"; a block's shared memory has no place in the map.
std::string neighbour(const BlockRun& run, std::uintptr_t address) {
  std::string shared = beside_shared(run.block(), address);
  if (!shared.empty()) return shared;
  const MemoryMap* memory = run.launch().memory;
  if (memory == nullptr) return "and no buffer is known";
  const auto range = memory->find(address, 1);
  return (range && !range->writable ? "which is read-only: " : "") + memory->describe_nearest(address);
}

void raise_signal_fault(BlockRun& run) {
  const std::uintptr_t address = running.address;
  const PtxPlace place = run.place_of(running.code);
  if (in_guard(run.running_stack(), reinterpret_cast<const void*>(address))) {
    return run.raise(PERGOLA_ERROR(kDeviceFault, "{} overflows its stack, of which recursion, calls through registers and alloca have {} "
                                   "bytes (PERGOLA_CPU_STACK_BYTES).", run.where(nullptr, place), open_stack_bytes()));
  }
  if (running.call)
    return run.raise(PERGOLA_ERROR(kDeviceFault, "{} calls {:#x}, which is not the address of a function.",
                                   run.where(nullptr, place), address));
  std::string what = fmt::format("{} {}", run.where(nullptr, place), what_happened(running.signal));
  if (running.signal == SIGFPE || running.signal == SIGILL) return run.raise(PERGOLA_ERROR(kDeviceFault, "{}.", what));
  const ptx::Instruction* in = run.module() == nullptr ? nullptr : instruction_at(*run.module(), place);
  if (in != nullptr) what += " " + plural(access_bytes(*in), "byte");
  run.raise(PERGOLA_ERROR(kDeviceFault, "{} at {:#x}, {}.{}", what, address, neighbour(run, address),
                          in != nullptr ? "" : " The interpreter names the instruction (pergola run --check)."));
}

void land_after_fault() {
  running.pending = true;
  running.run->leave_after_fault();
}

void chain(int signal, siginfo_t* info, void* context) {
  const struct sigaction& before = previous_actions[signal];
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    return before.sa_sigaction(signal, info, context);
  }
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  if (before.sa_handler == SIG_IGN && info->si_code <= 0) return;  // a fault cannot be ignored, one that is sent can
  // The default: put it back and return, so that the same instruction ends the process as it would have. One that was
  // sent (kill, raise) comes from no instruction: it is sent once more, and is there when this returns.
  sigaction(signal, &before, nullptr);
  if (info->si_code <= 0) ::raise(signal);
}

void handle(int signal, siginfo_t* info, void* context) {
  if (running.run != nullptr && running.sections != 0) {
    static constexpr char kText[] = "pergola: the CPU device's own memory is damaged, most likely by a kernel's earlier access through a "
                                    "wild pointer; PERGOLA_CPU_CHECK=1 finds it.\n";
    [[maybe_unused]] const auto written = write(STDERR_FILENO, kText, sizeof kText - 1);
    return chain(signal, info, context);
  }
  if (running.run == nullptr) return chain(signal, info, context);
  running.signal = signal;
  running.address = reinterpret_cast<std::uintptr_t>(info->si_addr);
  auto* machine = static_cast<ucontext_t*>(context);
#if defined(__x86_64__)
  running.write = (machine->uc_mcontext.gregs[REG_ERR] & 2) != 0;  // of a page fault's error code
  running.code = static_cast<std::uintptr_t>(machine->uc_mcontext.gregs[REG_RIP]);
#elif defined(__aarch64__)
  running.code = machine->uc_mcontext.pc;
#endif
  running.call = signal != SIGFPE && signal != SIGILL && running.code == running.address;
#if defined(__x86_64__)
  if (running.call) running.code = *reinterpret_cast<const std::uintptr_t*>(machine->uc_mcontext.gregs[REG_RSP]) - 1;
#elif defined(__aarch64__)
  if (running.call) running.code = machine->uc_mcontext.regs[30] - 1;
#endif
  const auto top = reinterpret_cast<std::uintptr_t>(running.stack_top) & ~std::uintptr_t{15};
#if defined(__x86_64__)
  machine->uc_mcontext.gregs[REG_RIP] = static_cast<greg_t>(reinterpret_cast<std::uintptr_t>(&land_after_fault));
  machine->uc_mcontext.gregs[REG_RSP] = static_cast<greg_t>(top - 128 - 8);  // as after a call: 8 below alignment
#elif defined(__aarch64__)
  machine->uc_mcontext.pc = reinterpret_cast<std::uintptr_t>(&land_after_fault);
  machine->uc_mcontext.sp = top - 128;
#else
#error "Fault signals know x86-64 and AArch64."
#endif
}

// An alternate signal stack for a thread that has none, taken down with the thread.
class AlternateStack {
 public:
  AlternateStack() {
    stack_t now{};
    if (sigaltstack(nullptr, &now) == 0 && (now.ss_flags & SS_DISABLE) == 0) return;
    memory_ = mmap(nullptr, kAlternateStackBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory_ == MAP_FAILED) {
      memory_ = nullptr;
      return;
    }
    stack_t mine{};
    mine.ss_sp = memory_;
    mine.ss_size = kAlternateStackBytes;
    sigaltstack(&mine, nullptr);
  }
  ~AlternateStack() {
    if (memory_ == nullptr) return;
    stack_t off{};
    off.ss_flags = SS_DISABLE;
    sigaltstack(&off, nullptr);
    munmap(memory_, kAlternateStackBytes);
  }
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  void* memory_ = nullptr;
};

}  // namespace

void prepare_fault_signals() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const int signal : kSignals) {
      sigaction(signal, nullptr, &previous_actions[signal]);
      struct sigaction ours{};
      ours.sa_sigaction = handle;
      ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
      sigemptyset(&ours.sa_mask);
      sigaction(signal, &ours, nullptr);
    }
  });
  thread_local AlternateStack stack;
  (void)stack;
}

void raise_pending_fault(BlockRun& run) {
  if (!running.pending) return;
  running.pending = false;
  raise_signal_fault(run);
}

RuntimeSection::RuntimeSection() { running.sections = running.sections + 1; }
RuntimeSection::~RuntimeSection() { running.sections = running.sections - 1; }

void set_running_block(BlockRun* run, void* stack_top) {
  running.stack_top = stack_top;
  running.run = run;
}

}  // namespace pergola::device::cpu::jit
