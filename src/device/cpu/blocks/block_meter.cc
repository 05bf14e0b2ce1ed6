#include "src/device/cpu/blocks/block_meter.h"

#include <algorithm>

#include "src/ptx/semantics.h"

namespace pergola::device::cpu::blocks {
namespace {

void keep_distinct(std::vector<std::uint64_t>& numbers) {
  if (!std::ranges::is_sorted(numbers)) std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

}  // namespace

BlockMeter::BlockMeter() {
  hook_.issued = [this](std::uint32_t warp, const interp::FunctionCode& code, std::uint32_t pc, std::uint32_t lanes) {
    issued(warp, code, pc, lanes);
  };
  hook_.accessed = [this](std::uintptr_t address, std::uint32_t size_bytes, MemorySpace space) {
    accessed(address, size_bytes, space);
  };
}

void BlockMeter::begin(std::uint32_t threads) {
  work_ = {};
  warps_.resize((threads + 31) / 32);
  for (Warp& warp : warps_) {
    warp.clock = warp.last = 0;
    warp.barriers = warp.waiting = 0;
    for (auto& registers : warp.ready) std::ranges::fill(registers, 0);
  }
  barrier_clocks_.clear();
  current_ = {};
  sectors_.clear();
  words_.clear();
  is_local_ = is_parameter_ = false;
}

BlockWork BlockMeter::end() {
  complete();
  for (const Warp& warp : warps_) work_.chain_cycles = std::max({work_.chain_cycles, warp.clock, warp.last});
  return work_;
}

const BlockMeter::Function& BlockMeter::function_of(const interp::FunctionCode& code) {
  if (&code == last_code_) return *last_function_;
  const auto [found, is_new] = functions_.try_emplace(&code);
  if (is_new) {
    found->second.number = static_cast<std::uint32_t>(functions_.size() - 1);
    const ptx::Instruction* before = nullptr;
    for (const interp::Inst& inst : code.code) {
      Site& site = found->second.sites.emplace_back();
      site.is_continued = inst.source == nullptr || inst.source == before;
      before = inst.source;
      if (inst.source == nullptr) continue;
      site.kind = class_of(*inst.source);
      ptx::for_each_register(*inst.source, [&](ptx::RegisterId id, bool is_written) {
        (is_written ? site.writes : site.reads).push_back(id);
      });
    }
  }
  last_code_ = &code;
  last_function_ = &found->second;
  return found->second;
}

void BlockMeter::issued(std::uint32_t warp, const interp::FunctionCode& code, std::uint32_t pc, std::uint32_t lanes) {
  const Function& function = function_of(code);
  const Site& site = function.sites[pc];
  if (site.is_continued) return;  // what it accesses is the instruction's that began it
  complete();
  current_ = {&site, function.number, warp, lanes};
  Warp& now = warps_[warp];
  if (now.ready.size() <= function.number) now.ready.resize(function.number + 1);
  auto& ready = now.ready[function.number];
  if (ready.empty()) ready.resize(code.source->registers.size());
}

void BlockMeter::accessed(std::uintptr_t address, std::uint32_t size_bytes, MemorySpace space) {
  switch (space) {
    case MemorySpace::kParameter: is_parameter_ = true; return;
    case MemorySpace::kShared:
      for (std::uint64_t word = address / kBankBytes; word <= (address + size_bytes - 1) / kBankBytes; ++word) {
        words_.push_back(word);
      }
      return;
    case MemorySpace::kLocal: is_local_ = true; [[fallthrough]];
    case MemorySpace::kGlobal:
      for (std::uint64_t s = address / kSectorBytes; s <= (address + size_bytes - 1) / kSectorBytes; ++s) {
        if (sectors_.empty() || sectors_.back() != s) sectors_.push_back(s);
      }
      return;
  }
}

// The most words that one bank is asked for.
std::uint32_t BlockMeter::shared_conflicts() {
  keep_distinct(words_);
  std::uint32_t of_bank[kBanks] = {}, most = 0;
  for (const std::uint64_t word : words_) most = std::max(most, ++of_bank[word % kBanks]);
  return most;
}

// How long the instruction's accesses take, which are counted and forgotten.
std::uint32_t BlockMeter::memory_latency() {
  std::uint32_t latency = is_parameter_ ? kParameterLatency : 0;
  if (!words_.empty()) {
    const std::uint32_t turns = shared_conflicts();
    work_.issue_cycles[current_.warp % kSchedulers] += turns - 1;
    latency = std::max(latency, kSharedLatency + turns - 1);
  }
  if (!sectors_.empty()) {
    keep_distinct(sectors_);
    std::uint64_t before = ~std::uint64_t{0};
    for (const std::uint64_t sector : sectors_) {
      const std::uint64_t request = sector / (kRequestBytes / kSectorBytes);
      work_.requests += request != before;
      before = request;
    }
    const auto cycles = static_cast<std::uint32_t>((sectors_.size() + kSectorsACycle - 1) / kSectorsACycle);
    work_.port_cycles += cycles;
    latency = std::max(latency, (is_local_ ? kLocalLatency : kGlobalLatency) + cycles - 1);
  }
  sectors_.clear();
  words_.clear();
  is_local_ = is_parameter_ = false;
  return latency;
}

void BlockMeter::complete() {
  if (current_.site == nullptr) return;
  const Site& site = *current_.site;
  Warp& warp = warps_[current_.warp];
  if ((warp.waiting & current_.lanes) != 0) {  // past the barrier
    warp.clock = std::max(warp.clock, barrier_clocks_[warp.barriers - 1]);
    warp.waiting = 0;
  }
  auto& ready = warp.ready[current_.function];
  std::uint64_t start = warp.clock;
  for (const std::uint32_t r : site.reads) start = std::max(start, ready[r]);
  const InstructionWeight weight = weight_of(site.kind);
  ++work_.instructions;
  work_.issue_cycles[current_.warp % kSchedulers] += weight.issue_cycles;
  warp.clock = start + weight.issue_cycles;
  const std::uint64_t end = start + std::max(weight.latency_cycles, memory_latency());
  for (const std::uint32_t r : site.writes) ready[r] = end;
  const bool has_result = !site.writes.empty() || site.kind == InstructionClass::kMemory;
  if (has_result) warp.last = std::max(warp.last, end);
  if (site.kind == InstructionClass::kBarrier && current_.lanes != 0) {
    if (warp.waiting == 0) ++warp.barriers;
    warp.waiting |= current_.lanes;
    if (barrier_clocks_.size() < warp.barriers) barrier_clocks_.resize(warp.barriers, 0);
    barrier_clocks_[warp.barriers - 1] = std::max(barrier_clocks_[warp.barriers - 1], warp.clock);
  }
  current_.site = nullptr;
}

}  // namespace pergola::device::cpu::blocks
