#include "tests/blocks/recorded_program.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "src/device/cpu/interpreter/access_recorder.h"
#include "src/ptx/parser.h"
#include "src/ptx/signature.h"
#include "src/source/source.h"

namespace pergola::blocks_test {
namespace {

using bench::blocks::Program;

void make_canonical(std::vector<ByteRange>& ranges) {
  std::sort(ranges.begin(), ranges.end());
  std::vector<ByteRange> merged;
  for (const ByteRange& range : ranges) {
    if (!merged.empty() && merged.back().buffer == range.buffer && range.begin <= merged.back().end)
      merged.back().end = std::max(merged.back().end, range.end);
    else
      merged.push_back(range);
  }
  ranges = std::move(merged);
}

// Collects the accesses of one launch for as long as it lives. Blocks of several virtual SMs report at once.
class Recording {
 public:
  Recording(const std::vector<device::BufferPtr>& buffers, const device::Dim3& grid)
      : grid_(grid), blocks_(grid.count()) {
    for (std::uint32_t i = 0; i < buffers.size(); ++i)
      by_address_[buffers[i]->address()] = {i, buffers[i]->size_bytes()};
    device::cpu::set_access_recorder(&recorder_);
  }
  ~Recording() { device::cpu::set_access_recorder(nullptr); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  std::vector<BlockAccesses> take() {
    for (BlockAccesses& block : blocks_) make_canonical(block.reads), make_canonical(block.writes);
    return std::move(blocks_);
  }

 private:
  struct Memory {
    std::uint32_t buffer = 0;
    std::uint64_t size_bytes = 0;
  };
  struct Seen {
    std::size_t block = 0;
    bool write = false;
    ByteRange range;
    bool operator==(const Seen&) const = default;
  };

  void note(const device::cpu::MemoryAccess& access) {
    auto after = by_address_.upper_bound(access.address);
    if (after == by_address_.begin()) return;
    const auto& [address, memory] = *--after;
    if (access.address >= address + memory.size_bytes) return;  // shared or local memory
    const std::uint64_t begin = access.address - address;
    const std::size_t block =
        access.block.x + std::size_t{grid_.x} * (access.block.y + std::size_t{grid_.y} * access.block.z);
    const ByteRange range{memory.buffer, begin, begin + access.size_bytes};
    const std::lock_guard lock(mutex_);
    // Threads of a block read the same again and again.
    Seen& seen = seen_[(begin / 4 * 31 + block * 7919 + memory.buffer * 2 + access.write) % seen_.size()];
    if (seen == Seen{block, access.write, range}) return;
    seen = {block, access.write, range};
    auto& ranges = access.write ? blocks_[block].writes : blocks_[block].reads;
    ranges.push_back(range);
    if (ranges.size() >= 1 << 16) make_canonical(ranges);
  }

  const device::Dim3 grid_;
  std::map<std::uint64_t, Memory> by_address_;
  std::mutex mutex_;
  std::vector<BlockAccesses> blocks_;                    // under mutex_
  std::vector<Seen> seen_ = std::vector<Seen>(1 << 16);  // likewise: what was noted of late, to be left out
  device::cpu::AccessRecorder recorder_ = [this](const device::cpu::MemoryAccess& access) { note(access); };
};

Result<std::vector<std::byte>> packed(const ptx::KernelSignature& signature,
                                      const std::vector<bench::blocks::Argument>& arguments,
                                      const std::vector<device::BufferPtr>& buffers) {
  if (signature.parameters.size() != arguments.size())
    return PERGOLA_ERROR(kInvalidArgument, "The kernel has {} parameters, the launch {} arguments.",
                         signature.parameters.size(), arguments.size());
  std::vector<std::byte> bytes(signature.parameter_bytes);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto put = [&](auto value) {
      std::memcpy(bytes.data() + signature.parameters[i].offset_bytes, &value, sizeof value);
      return sizeof value;
    };
    const std::size_t size = std::visit(
        [&]<typename T>(const T& value) {
          if constexpr (std::is_same_v<T, bench::blocks::BufferArgument>)
            return put(std::uint64_t{buffers[value.buffer]->address() + value.offset_bytes});
          else
            return put(value);
        },
        arguments[i]);
    if (size != signature.parameters[i].size_bytes)
      return PERGOLA_ERROR(kInvalidArgument, "Argument {} has {} bytes, the kernel's parameter {}.", i, size,
                           signature.parameters[i].size_bytes);
  }
  return bytes;
}

// Blocks by the bytes that they read, or wrote: to be asked which have one of a range.
class Accessors {
 public:
  void add(const std::vector<ByteRange>& ranges, std::uint32_t block) {
    for (const ByteRange& range : ranges) entries_.push_back({range, block, 0});
  }
  void sort() {
    std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.range < b.range; });
    for (std::size_t i = 0; i < entries_.size(); ++i) {
      entries_[i].furthest_end = entries_[i].range.end;
      if (i > 0 && entries_[i - 1].range.buffer == entries_[i].range.buffer)
        entries_[i].furthest_end = std::max(entries_[i].furthest_end, entries_[i - 1].furthest_end);
    }
  }
  void find(const ByteRange& range, std::set<std::uint32_t>& blocks) const {
    auto entry = std::partition_point(entries_.begin(), entries_.end(), [&](const Entry& e) {
      return e.range.buffer < range.buffer || (e.range.buffer == range.buffer && e.range.begin < range.end);
    });
    while (entry != entries_.begin()) {
      --entry;
      if (entry->range.buffer != range.buffer || entry->furthest_end <= range.begin) return;
      if (entry->range.end > range.begin) blocks.insert(entry->block);
    }
  }

 private:
  struct Entry {
    ByteRange range;
    std::uint32_t block;
    std::uint64_t furthest_end;  // of this and all before it in its buffer
  };
  std::vector<Entry> entries_;
};

}  // namespace

Result<std::vector<RecordedLaunch>> record(device::Device& device, const Program& program) {
  PERGOLA_ASSIGN(source::SourceRequest request, source::load_file(bench::blocks::source_path(program)));
  PERGOLA_ASSIGN(source::CompiledSource compiled, source::compile(request));
  PERGOLA_ASSIGN(ptx::Module parsed, ptx::parse(compiled.ptx, program.source_file));
  PERGOLA_ASSIGN(device::ModulePtr module, device.load({&parsed, compiled.ptx, program.source_file}));
  PERGOLA_ASSIGN(auto queue, device.create_queue());
  std::vector<device::BufferPtr> buffers;
  for (const bench::blocks::Buffer& of : program.buffers) {
    std::vector<std::byte> contents(of.bytes());
    if (of.fill) of.fill(contents);
    PERGOLA_ASSIGN(device::BufferPtr buffer, device.allocate(contents.size(), device::MemoryKind::kDevice));
    PERGOLA_TRY(queue->copy_to_device(buffer, 0, contents));
    PERGOLA_TRY(queue->synchronize());
    buffers.push_back(buffer);
  }
  std::vector<RecordedLaunch> launches;
  for (const bench::blocks::Launch& launch : program.launches) {
    PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel(launch.kernel));
    PERGOLA_ASSIGN(const std::vector<std::byte> parameters, packed(kernel->signature(), launch.arguments, buffers));
    device::LaunchConfig config;
    config.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
    config.block = {launch.block.x, launch.block.y, launch.block.z};
    config.dynamic_shared_bytes = launch.shared_bytes;
    Recording recording(buffers, config.grid);
    PERGOLA_TRY(queue->launch(module, *kernel, config, parameters));
    PERGOLA_TRY(queue->synchronize());
    launches.push_back({launch.kernel, recording.take()});
  }
  return launches;
}

Relation dependencies(const RecordedLaunch& parent, const RecordedLaunch& child, Hazards hazards) {
  Accessors written, read;
  for (std::uint32_t p = 0; p < parent.blocks.size(); ++p) {
    written.add(parent.blocks[p].writes, p);
    if (hazards == Hazards::kAll) read.add(parent.blocks[p].reads, p);
  }
  written.sort();
  read.sort();
  Relation relation;
  for (const BlockAccesses& block : child.blocks) {
    std::set<std::uint32_t> parents;
    for (const ByteRange& range : block.reads) written.find(range, parents);
    if (hazards == Hazards::kAll)
      for (const ByteRange& range : block.writes) written.find(range, parents), read.find(range, parents);
    relation.emplace_back(parents.begin(), parents.end());
  }
  return relation;
}

int pattern_of(const Relation& relation, std::size_t parents) {
  std::vector<std::size_t> children(parents, 0);
  std::size_t edges = 0, most_parents = 0;
  for (const auto& of_child : relation) {
    for (const std::uint32_t p : of_child) ++children[p];
    edges += of_child.size();
    most_parents = std::max(most_parents, of_child.size());
  }
  const std::size_t most_children = parents == 0 ? 0 : *std::max_element(children.begin(), children.end());
  if (edges == 0) return 7;
  const bool is_one_to_n = most_parents == 1, is_n_to_one = most_children == 1;
  if (is_one_to_n && is_n_to_one && edges == parents && edges == relation.size()) return 3;
  if (is_one_to_n && is_n_to_one) return relation.size() >= parents ? 4 : 5;
  if (is_one_to_n) return 4;
  if (is_n_to_one) return 5;
  if (edges == parents * relation.size()) return 1;
  // Groups: whoever shares one parent shares all.
  std::map<std::uint32_t, const std::vector<std::uint32_t>*> group_of;
  for (const auto& of_child : relation)
    for (const std::uint32_t p : of_child)
      if (const auto& group = group_of.try_emplace(p, &of_child).first->second; *group != of_child) return 6;
  return 2;
}

}  // namespace pergola::blocks_test
