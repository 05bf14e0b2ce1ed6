#include "src/device/cpu/blocks/block_meter.h"

#include <algorithm>

#include "src/ptx/semantics.h"

namespace pergola::device::cpu::blocks {
namespace {

void keep_distinct(std::vector<std::uint64_t>& numbers) {
  if (!std::ranges::is_sorted(numbers)) std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

constexpr std::uint32_t bit(MemorySpace space) {
  return 1u << static_cast<std::uint32_t>(space);
}

// Where control leaves, or all must have issued: nothing is moved past it.
bool is_boundary(const ptx::Instruction& instruction, const ptx::MemoryEffect& effect) {
  switch (instruction.op) {
    case ptx::Op::kCall:
    case ptx::Op::kBar:
    case ptx::Op::kBarrier:
    case ptx::Op::kMembar:
    case ptx::Op::kFence:
    case ptx::Op::kGriddepcontrol:
    case ptx::Op::kOpaque: return true;
    default: return effect.is_atomic || effect.is_strong || ptx::is_terminator(instruction);
  }
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
    for (WarpClock& clock : warp.clocks) clock.reset();
    warp.place = 0;
    warp.barriers = warp.waiting = 0;
  }
  barrier_clocks_.clear();
  current_ = {};
  sectors_.clear();
  words_.clear();
  spaces_ = 0;
}

BlockWork BlockMeter::end() {
  complete();
  for (const Warp& warp : warps_) {
    for (std::size_t order = 0; order < kIssueOrders; ++order) {
      work_.chain_cycles[order] = std::max(work_.chain_cycles[order], warp.clocks[order].ended());
    }
  }
  return work_;
}

const BlockMeter::Function& BlockMeter::function_of(const interp::FunctionCode& code) {
  if (&code == last_code_) return *last_function_;
  const auto [found, is_new] = functions_.try_emplace(&code);
  if (is_new) {
    found->second.number = static_cast<std::uint32_t>(functions_.size() - 1);
    found->second.registers = static_cast<std::uint32_t>(code.source->registers.size());
    fill_sites(code, found->second);
  }
  last_code_ = &code;
  last_function_ = &found->second;
  return found->second;
}

void BlockMeter::fill_sites(const interp::FunctionCode& code, Function& function) {
  function.sites.resize(code.code.size());
  const ptx::Instruction* before = nullptr;
  // Places of functions are apart, so that what is called never follows its caller.
  std::uint64_t place = (std::uint64_t{function.number} + 1) << 32;
  bool is_behind_boundary = true;
  for (std::size_t pc = 0; pc < code.code.size(); ++pc) {
    const ptx::Instruction* source = code.code[pc].source;
    Site& site = function.sites[pc];
    site.is_continued = source == nullptr || source == before;
    before = source;
    if (site.is_continued) continue;
    site.place = ++place;
    site.kind = class_of(*source);
    const ptx::MemoryEffect effect = ptx::memory_effect(*source);
    site.loads = effect.reads, site.stores = effect.writes;
    site.is_unordered = source->op == ptx::Op::kLdu || source->has(ptx::Mod::kNc);
    const bool ends_run = is_boundary(*source, effect);
    site.begins_run = ends_run || is_behind_boundary;
    is_behind_boundary = ends_run;
    ptx::for_each_register(
        *source, [&](ptx::RegisterId id, bool is_written) { (is_written ? site.writes : site.reads).push_back(id); });
  }
  const auto arrive_at = [&](std::uint64_t pc) {
    if (pc < function.sites.size()) function.sites[pc].begins_run = true;
  };
  for (const interp::Inst& inst : code.code) {
    if (inst.source == nullptr) continue;
    if (inst.source->op == ptx::Op::kBra) arrive_at(inst.imm);
    if (inst.source->op != ptx::Op::kBrx) continue;
    for (std::uint64_t i = 0; i < inst.imm; ++i) arrive_at(static_cast<std::uint64_t>(code.extra[inst.extra + i]));
  }
}

void BlockMeter::issued(std::uint32_t warp, const interp::FunctionCode& code, std::uint32_t pc, std::uint32_t lanes) {
  const Function& function = function_of(code);
  const Site& site = function.sites[pc];
  if (site.is_continued) return;  // what it accesses is the instruction's that began it
  complete();
  current_ = {&site, &function, warp, lanes};
}

void BlockMeter::accessed(std::uintptr_t address, std::uint32_t size_bytes, MemorySpace space) {
  spaces_ |= bit(space);
  switch (space) {
    case MemorySpace::kParameter: return;
    case MemorySpace::kShared:
      for (std::uint64_t word = address / kBankBytes; word <= (address + size_bytes - 1) / kBankBytes; ++word) {
        words_.push_back(word);
      }
      return;
    case MemorySpace::kLocal:
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
  std::uint32_t latency = (spaces_ & bit(MemorySpace::kParameter)) != 0 ? kParameterLatency : 0;
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
    const bool is_local = (spaces_ & bit(MemorySpace::kLocal)) != 0;
    latency = std::max(latency, (is_local ? kLocalLatency : kGlobalLatency) + cycles - 1);
  }
  sectors_.clear();
  words_.clear();
  return latency;
}

void BlockMeter::complete() {
  if (current_.site == nullptr) return;
  const Site& site = *current_.site;
  Warp& warp = warps_[current_.warp];
  if ((warp.waiting & current_.lanes) != 0) {  // past the barrier
    for (std::size_t order = 0; order < kIssueOrders; ++order) {
      warp.clocks[order].wait_until(barrier_clocks_[warp.barriers - 1][order]);
    }
    warp.waiting = 0;
  }
  const InstructionWeight weight = weight_of(site.kind);
  ++work_.instructions;
  work_.issue_cycles[current_.warp % kSchedulers] += weight.issue_cycles;
  const IssuedInstruction instruction{.function = current_.function->number,
                                      .reads = site.reads,
                                      .writes = site.writes,
                                      .registers = current_.function->registers,
                                      .issue_cycles = weight.issue_cycles,
                                      .latency_cycles = std::max(weight.latency_cycles, memory_latency()),
                                      .begins_run = site.begins_run || site.place != warp.place + 1,
                                      .loads = site.loads,
                                      .stores = site.stores,
                                      .is_unordered = site.is_unordered,
                                      .spaces = spaces_};
  for (WarpClock& clock : warp.clocks) clock.issue(instruction);
  warp.place = site.place;
  spaces_ = 0;
  if (site.kind == InstructionClass::kBarrier && current_.lanes != 0) {
    if (warp.waiting == 0) ++warp.barriers;
    warp.waiting |= current_.lanes;
    if (barrier_clocks_.size() < warp.barriers) barrier_clocks_.resize(warp.barriers);
    for (std::size_t order = 0; order < kIssueOrders; ++order) {
      std::uint64_t& latest = barrier_clocks_[warp.barriers - 1][order];
      latest = std::max(latest, warp.clocks[order].issued());
    }
  }
  current_.site = nullptr;
}

}  // namespace pergola::device::cpu::blocks
