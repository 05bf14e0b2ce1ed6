#include "tests/footprints/recorded_blocks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "src/analysis/affine/affine_relation.h"
#include "src/analysis/block_equality.h"
#include "src/analysis/footprints.h"
#include "src/device/cpu/interpreter/access_recorder.h"
#include "src/ptx/parser.h"
#include "src/ptx/signature.h"

namespace pergola::footprints_test {
namespace {

using pointer_modes_test::Bound;
using pointer_modes_test::Experiment;

// Collects accesses for as long as it lives. Blocks of several virtual SMs report at once: under a lock.
class Recording {
 public:
  Recording(const std::vector<device::BufferPtr>& buffers, const device::Dim3& grid) : buffers_(buffers), grid_(grid) {
    device::cpu::set_access_recorder(&recorder_);
  }
  ~Recording() { device::cpu::set_access_recorder(nullptr); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  std::vector<RecordedAccess> accesses() const { return {seen_.begin(), seen_.end()}; }

 private:
  void note(const device::cpu::MemoryAccess& access) {
    for (std::size_t b = 0; b < buffers_.size(); ++b) {
      const std::uint64_t begin = buffers_[b]->address();
      if (access.address < begin || access.address >= begin + buffers_[b]->size_bytes()) continue;
      const std::lock_guard lock(mutex_);
      seen_.insert({access.block.x + grid_.x * (access.block.y + grid_.y * access.block.z),
                    static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(access.address - begin),
                    access.size_bytes, access.write});
    }
  }

  const std::vector<device::BufferPtr>& buffers_;
  const device::Dim3 grid_;
  std::mutex mutex_;
  std::set<RecordedAccess> seen_;  // under mutex_
  device::cpu::AccessRecorder recorder_ = [this](const device::cpu::MemoryAccess& access) { note(access); };
};

analysis::ByteSet set_of(const analysis::AccessFootprint& access, std::uint32_t block) {
  const auto place = access.places[block];
  return {place.first, access.shapes[place.shape]};
}

bool covers(const analysis::AccessFootprint& access, const RecordedAccess& seen) {
  if (access.allocation != seen.buffer || !(seen.is_write ? access.writes : access.reads)) return false;
  if (access.places[seen.block].shape == analysis::AccessFootprint::kNoShape) return false;
  const analysis::ByteSet set = set_of(access, seen.block);
  for (std::uint32_t i = 0; i < seen.bytes; ++i) {
    if (!set.contains(seen.offset + i)) return false;
  }
  return true;
}

// Marks the bytes of a set, by its dimensions from the outermost in.
void mark(const analysis::ByteShape& shape, std::size_t dimension, std::int64_t first, std::vector<bool>& bytes) {
  if (dimension == shape.dimensions.size()) {
    const std::int64_t end = std::min(first + static_cast<std::int64_t>(shape.width), std::int64_t(bytes.size()));
    for (std::int64_t at = std::max<std::int64_t>(0, first); at < end; ++at) bytes[static_cast<std::size_t>(at)] = true;
    return;
  }
  for (std::uint64_t k = 0; k < shape.dimensions[dimension].count; ++k) {
    mark(shape, dimension + 1, first + static_cast<std::int64_t>(k * shape.dimensions[dimension].stride), bytes);
  }
}

// Dimensions may overlap, and then have more places than there are bytes.
void mark(const analysis::ByteSet& set, std::vector<bool>& bytes) {
  std::uint64_t places = 1;
  for (const auto& dimension : set.shape.dimensions)
    places = dimension.count > bytes.size() ? bytes.size() + 1 : std::min(places * dimension.count, bytes.size() + 1);
  if (places <= bytes.size()) return mark(set.shape, 0, set.first, bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (set.may_contain(static_cast<std::int64_t>(i))) bytes[i] = true;
}

// A byte that is anything counts in no footprint: such launches have no meaningful share. Gives the bytes of footprints
// that their blocks do not touch.
std::vector<analysis::AffineByte> count_bytes(BlockOutcome& outcome, const std::vector<RecordedAccess>& seen,
                                              const Experiment& experiment) {
  std::map<std::tuple<std::uint32_t, std::uint32_t, bool>, std::vector<bool>> truth, predicted;
  const auto bytes_of = [&](auto& map, std::uint32_t block, std::uint32_t buffer, bool is_write) -> std::vector<bool>& {
    auto& bytes = map[{block, buffer, is_write}];
    bytes.resize(experiment.buffers[buffer].size());
    return bytes;
  };
  for (const RecordedAccess& access : seen) {
    auto& bytes = bytes_of(truth, access.block, access.buffer, access.is_write);
    for (std::uint32_t i = 0; i < access.bytes && access.offset + i < bytes.size(); ++i)
      bytes[access.offset + i] = true;
  }
  for (const analysis::AccessFootprint& access : outcome.footprint.accesses) {
    for (std::uint32_t block = 0; block < access.places.size(); ++block) {
      if (access.places[block].shape == analysis::AccessFootprint::kNoShape) continue;
      const analysis::ByteSet set = set_of(access, block);
      for (const bool is_write : {false, true}) {
        if (!(is_write ? access.writes : access.reads)) continue;
        mark(set, bytes_of(predicted, block, access.allocation, is_write));
      }
    }
  }
  for (const auto& [key, bytes] : truth)
    outcome.true_bytes += static_cast<std::uint64_t>(std::ranges::count(bytes, true));
  std::vector<analysis::AffineByte> excess;
  for (const auto& [key, bytes] : predicted) {
    outcome.footprint_bytes += static_cast<std::uint64_t>(std::ranges::count(bytes, true));
    const auto [block, buffer, is_write] = key;
    const auto& true_bytes = truth[key];
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] && (true_bytes.empty() || !true_bytes[i]))
        excess.push_back({block, buffer, static_cast<std::int64_t>(i), is_write});
    }
  }
  return excess;
}

// Of some bytes that a footprint has and its block does not touch, how many the affine sets leave out.
void ask_of_excess(BlockOutcome& outcome, const std::vector<analysis::AffineByte>& excess,
                   const analysis::KernelFootprints& kernel, const analysis::LaunchValues& values) {
  constexpr std::size_t kMost = 4;
  for (std::size_t i = 0; i < excess.size(); i += std::max<std::size_t>(1, excess.size() / kMost)) {
    ++outcome.excess_asked;
    outcome.excess_excluded +=
        analysis::find_excluded({&kernel, &values}, {&excess[i], 1}, {.operations = 300'000}).has_value();
  }
}

}  // namespace

std::string violations(const analysis::LaunchFootprint& footprint, const std::vector<RecordedAccess>& accesses) {
  std::string found;
  int count = 0;
  for (const RecordedAccess& seen : accesses) {
    if (seen.is_write ? footprint.writes_anything : footprint.reads_anything) continue;
    if (std::ranges::any_of(footprint.accesses, [&](const auto& access) { return covers(access, seen); })) continue;
    if (++count > 5) return found + "\n  ...";
    found += fmt::format("\n  block {} {} {} bytes at byte {} of buffer {}", seen.block,
                         seen.is_write ? "writes" : "reads", seen.bytes, seen.offset, seen.buffer);
  }
  return found;
}

// Of some accesses the first that the affine sets leave out; "" where there is none.
std::string excluded_by_affine_sets(const analysis::KernelFootprints& kernel, const analysis::LaunchValues& values,
                                    const std::vector<RecordedAccess>& accesses) {
  constexpr std::size_t kMost = 24;
  std::vector<analysis::AffineByte> bytes;
  const std::size_t step = std::max<std::size_t>(1, accesses.size() / kMost);
  for (std::size_t i = 0; i < accesses.size(); i += step) {
    const RecordedAccess& seen = accesses[i];
    bytes.push_back({seen.block, seen.buffer, std::int64_t{seen.offset} + seen.bytes - 1, seen.is_write});
  }
  const auto excluded = analysis::find_excluded({&kernel, &values}, bytes, {.operations = 300'000});
  if (!excluded) return "";
  const analysis::AffineByte& byte = bytes[*excluded];
  return fmt::format("\n  by affine sets block {} does not {} byte {} of buffer {}, and it does", byte.block,
                     byte.is_write ? "write" : "read", byte.byte, byte.allocation);
}

Result<BlockOutcome> run_blocks(device::Device& device, const Experiment& experiment, bool with_affine_sets) {
  PERGOLA_ASSIGN(ptx::Module parsed, ptx::parse(experiment.text, experiment.name));
  PERGOLA_ASSIGN(device::ModulePtr module, device.load({&parsed, experiment.text, experiment.name}));
  const std::string name = experiment.kernel.empty() ? module->kernel_names().at(0) : experiment.kernel;
  PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel(name));
  PERGOLA_ASSIGN(auto queue, device.create_queue());
  std::vector<device::BufferPtr> buffers;
  for (const auto& initial : experiment.buffers) {
    PERGOLA_ASSIGN(device::BufferPtr buffer, device.allocate(initial.size(), device::MemoryKind::kDevice));
    PERGOLA_TRY(queue->copy_to_device(buffer, 0, initial));
    buffers.push_back(buffer);
  }
  const ptx::KernelSignature& signature = kernel->signature();
  analysis::LaunchValues values;
  values.parameters.resize(signature.parameter_bytes);
  for (std::size_t n = 0; n < experiment.parameters.size() && n < signature.parameters.size(); ++n) {
    const auto& value = experiment.parameters[n];
    const std::size_t size = std::min<std::size_t>(value.size(), signature.parameters[n].size_bytes);
    if (size != 0) std::memcpy(values.parameters.data() + signature.parameters[n].offset_bytes, value.data(), size);
  }
  for (const Bound& bound : experiment.bound) {
    const std::uint32_t offset = signature.parameters[bound.parameter].offset_bytes + bound.offset_bytes;
    const std::uint64_t address = buffers[bound.buffer]->address() + bound.position;
    std::memcpy(values.parameters.data() + offset, &address, 8);
    values.pointers.push_back({offset, static_cast<analysis::AllocationId>(bound.buffer),
                               static_cast<std::int64_t>(bound.position), buffers[bound.buffer]->size_bytes()});
  }
  const device::LaunchConfig& config = experiment.config;
  const std::uint32_t grid[3] = {config.grid.x, config.grid.y, config.grid.z};
  const std::uint32_t block[3] = {config.block.x, config.block.y, config.block.z};
  std::copy_n(grid, 3, values.grid);
  std::copy_n(block, 3, values.block);

  BlockOutcome outcome;
  PERGOLA_ASSIGN(const auto footprints, analysis::KernelFootprints::of(parsed, *parsed.find_function(name)));
  PERGOLA_ASSIGN(outcome.footprint, footprints.at(values));
  PERGOLA_TRY(queue->synchronize());
  std::vector<RecordedAccess> seen;
  {
    Recording recording(buffers, config.grid);
    PERGOLA_TRY(queue->launch(module, *kernel, config, values.parameters));
    PERGOLA_TRY(queue->synchronize());
    seen = recording.accesses();
  }
  outcome.violations = violations(outcome.footprint, seen);
  PERGOLA_ASSIGN(const analysis::LaunchFootprint each_block, footprints.at_each_block(values));
  if (with_affine_sets) outcome.violations += excluded_by_affine_sets(footprints, values, seen);
  if (!analysis::are_equal(outcome.footprint, each_block))
    outcome.violations += "\n  boxes of blocks have another footprint than each block by itself";
  outcome.accesses = outcome.footprint.accesses.size();
  outcome.whole_accesses = static_cast<std::size_t>(std::ranges::count_if(
      outcome.footprint.accesses, [](const auto& access) { return !access.whole_reason.empty(); }));
  outcome.small_accesses =
      static_cast<std::size_t>(std::ranges::count_if(outcome.footprint.accesses, [&](const auto& access) {
        return std::ranges::all_of(access.shapes, [&](const analysis::ByteShape& shape) {
          return shape.extent() <= experiment.buffers[access.allocation].size() / 4;
        });
      }));
  const std::vector<analysis::AffineByte> excess = count_bytes(outcome, seen, experiment);
  if (with_affine_sets) ask_of_excess(outcome, excess, footprints, values);
  return outcome;
}

}  // namespace pergola::footprints_test
