#include "tests/blocks/early_launches.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <random>

#include "src/device/cpu/interpreter/code.h"
#include "src/device/cpu/interpreter/execution_hook.h"
#include "tests/blocks/weak_memory.h"

namespace pergola::early_test {
namespace {

using device::cpu::blocks::BlockLaunch;
using device::cpu::blocks::BlockRunner;
using device::cpu::blocks::RunningBlock;
using ptx::Mod;
using ptx::Op;

// Times that all blocks may look at memory in vain before they are taken to wait for ever.
constexpr int kMostRounds = 4000;

struct Running {
  Running(std::size_t of_launch, const SharedMemory& shared, bool is_weak)
      : launch(of_launch), memory(shared, is_weak) {}
  std::size_t launch;
  bool is_last = false;
  BlockMemory memory;
  std::optional<RunningBlock> block;
  std::uint32_t instructions = 0, before_trigger = 0;
  bool triggered = false, ended = false;
  bool waits = false;   // in griddepcontrol.wait
  bool sleeps = false;  // has looked at memory in vain since anything changed
};

struct Launch {
  BlockLaunch launch;
  std::uint32_t begun = 0, triggered = 0, ended = 0;  // blocks; triggered: or ended
  bool has_begun() const { return begun != 0; }
  bool has_triggered() const { return triggered == launch.blocks(); }
  bool has_ended() const { return ended == launch.blocks(); }
};

class Device {
 public:
  Device(const device::GraphSpec& spec, std::vector<Launch> launches, const EarlyOrder& order)
      : spec_(spec), order_(order), launches_(std::move(launches)), memory_(spec.buffers), random_(order.seed) {
    run_.overlaps.resize(launches_.size());
    run_.before_trigger.resize(launches_.size());
    hook_.issued = [this](std::uint32_t warp, const device::cpu::interp::FunctionCode& function, std::uint32_t pc,
                          std::uint32_t lanes) { issued(warp, lanes, function.code[pc].source); };
    hook_.accessed = [this](std::uintptr_t address, std::uint32_t size_bytes, device::cpu::MemorySpace space) {
      if (space == device::cpu::MemorySpace::kGlobal) current_->memory.accessed(address, size_bytes);
    };
  }

  Result<EarlyRun> run() {
    for (int round = 0; !launches_.back().has_ended() || running() != 0;) {
      PERGOLA_TRY(begin_blocks());
      Running* const chosen = choose();
      if (chosen != nullptr) {
        changed_ = false;
        if (const Status status = turn(*chosen); !status.ok()) return stuck(std::string(status.message()));
        if (changed_) round = 0, wake();
        continue;
      }
      if (++round == kMostRounds) return stuck("All blocks wait for others");
      wake();
    }
    return std::move(run_);
  }

 private:
  std::size_t running() const {
    return static_cast<std::size_t>(std::ranges::count_if(blocks_, [](const auto& block) { return !block->ended; }));
  }
  void wake() {
    for (const auto& block : blocks_) block->sleeps = false;
  }
  EarlyRun stuck(std::string why) {
    run_.stuck = std::move(why);
    for (const auto& block : blocks_)
      if (!block->ended)
        run_.stuck += fmt::format("; one of launch {} {}", block->launch, block->waits ? "waits" : "runs");
    return run_;
  }

  bool may_begin(std::size_t launch) const {
    const device::GraphNode& node = spec_.nodes[launch];
    if (!std::ranges::all_of(node.after, [&](device::NodeId before) { return launches_[before].has_ended(); }))
      return false;
    return !node.early_after || launches_[*node.early_after].has_triggered();
  }

  // All that may, while there is room: those of a launch when those of the launches before have.
  Status begin_blocks() {
    for (std::size_t i = 0; i < launches_.size(); ++i) {
      Launch& launch = launches_[i];
      if (launch.begun == launch.launch.blocks()) continue;
      if (!launch.has_begun() && !may_begin(i)) break;
      if (!launch.has_begun()) run_.overlaps[i] = i != 0 && !launches_[i - 1].has_ended();
      while (launch.begun < launch.launch.blocks() && running() < order_.room) {
        auto& block = blocks_.emplace_back(std::make_unique<Running>(i, memory_, order_.is_weak));
        block->is_last = order_.last == std::pair(i, launch.begun);
        PERGOLA_ASSIGN(block->block, launch.launch.start(launch.begun++, &hook_));
      }
      if (launch.begun != launch.launch.blocks()) break;
    }
    const auto under_way = std::ranges::count_if(
        launches_, [](const Launch& launch) { return launch.has_begun() && !launch.has_ended(); });
    run_.most_running = std::max(run_.most_running, static_cast<std::uint32_t>(under_way));
    return {};
  }

  bool can_run(const Running& block) const {
    if (block.ended || block.sleeps) return false;
    const auto before = spec_.nodes[block.launch].early_after;
    return !block.waits || !before || launches_[*before].has_ended();
  }

  // Those that have not let the next launch start come first where the latest launch does: so many launches run at once
  // as may. Null: none can run.
  Running* choose() {
    Running *chosen = nullptr, *last = nullptr;
    std::uint32_t candidates = 0;
    for (const auto& block : blocks_) {  // the latest launch, and the highest number, come last
      if (!can_run(*block)) continue;
      if (block->is_last && block->triggered) {
        last = block.get();
        continue;
      }
      ++candidates;
      bool is_better = chosen == nullptr;
      if (!is_better && order_.preference == Preference::kLatestLaunch)
        is_better = block->triggered == chosen->triggered || chosen->triggered;
      if (!is_better && order_.preference == Preference::kRandom) is_better = random_() % candidates == 0;
      if (is_better) chosen = block.get();
    }
    return chosen == nullptr ? last : chosen;
  }

  // Till it ends, waits, looks at memory in vain or lets the next launch start; in a random order for a while.
  Status turn(Running& block) {
    if (block.waits) block.memory.acquire();
    block.waits = false;
    stops_ = false;
    current_ = &block;
    std::uint64_t left = order_.preference == Preference::kRandom ? 1 + random_() % 60 : ~std::uint64_t{0};
    while (left-- != 0 && !stops_) {
      PERGOLA_ASSIGN(const bool ended, block.block->step(1));
      block.memory.settle();
      changed_ |= block.memory.has_told();
      if (ended) return end(block), Status();
    }
    return {};
  }

  void issued(std::uint32_t warp, std::uint32_t lanes, const ptx::Instruction* instruction) {
    if (lanes == 0) instruction = nullptr;
    Running& block = *current_;
    block.memory.issued(warp, lanes, instruction);
    if (instruction != nullptr && instruction->op == Op::kGriddepcontrol) {
      stops_ = true;
      if (instruction->has(Mod::kWait))
        block.waits = true;
      else
        trigger(block);
    }
    if (instruction != nullptr && instruction->op == Op::kNanosleep) stops_ = block.sleeps = true;
    ++block.instructions;
  }

  void trigger(Running& block) {
    if (block.triggered) return;
    block.triggered = changed_ = true;
    ++launches_[block.launch].triggered;
    std::uint32_t& most = run_.before_trigger[block.launch];
    most = std::max(most, block.instructions);
  }

  void end(Running& block) {
    Launch& launch = launches_[block.launch];
    trigger(block);
    block.ended = changed_ = true;
    block.waits = false;  // whoever waited in its last instruction has not ended before
    block.block.reset();
    ++launch.ended;
    if (!launch.has_ended()) return;
    for (const auto& other : blocks_)
      if (other->launch == block.launch) other->memory.publish();
    if (&launch == &launches_.back()) run_.at_end = memory_.contents();
  }

  const device::GraphSpec& spec_;
  const EarlyOrder& order_;
  std::vector<Launch> launches_;
  const SharedMemory memory_;
  std::vector<std::unique_ptr<Running>> blocks_;  // by launch and number
  std::mt19937_64 random_;
  device::cpu::ExecutionHook hook_;
  Running* current_ = nullptr;
  bool stops_ = false, changed_ = false;
  EarlyRun run_;
};

}  // namespace

Result<EarlyRun> run_early(const device::DevicePtr& device, const device::GraphSpec& spec, const EarlyOrder& order) {
  PERGOLA_ASSIGN(const BlockRunner runner, BlockRunner::on(device));
  std::vector<Launch> launches;
  for (const device::GraphNode& node : spec.nodes) {
    const auto& work = std::get<device::KernelNode>(node.work);
    PERGOLA_ASSIGN(BlockLaunch launch, runner.prepare(work.module, *work.kernel, work.config, work.parameters));
    launches.push_back({std::move(launch)});
  }
  return Device(spec, std::move(launches), order).run();
}

}  // namespace pergola::early_test
