#include "bench/blocks/execution/program_execution.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

#include "src/ptx/parser.h"

namespace pergola::bench::blocks {
namespace {

Result<std::vector<std::byte>> packed(const ptx::KernelSignature& signature, const std::vector<Argument>& arguments,
                                      const std::vector<device::BufferPtr>& buffers) {
  if (signature.parameters.size() != arguments.size()) {
    return PERGOLA_ERROR(kInvalidArgument, "'{}' has {} parameters, its launch {} arguments.", signature.name,
                         signature.parameters.size(), arguments.size());
  }
  std::vector<std::byte> bytes(signature.parameter_bytes);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto put = [&](auto value) {
      std::memcpy(bytes.data() + signature.parameters[i].offset_bytes, &value, sizeof value);
    };
    if (const auto* buffer = std::get_if<BufferArgument>(&arguments[i])) {
      put(std::uint64_t{buffers[buffer->buffer]->address() + buffer->offset_bytes});
      continue;
    }
    std::visit(
        [&]<typename T>(const T& value) {
          if constexpr (!std::is_same_v<T, BufferArgument>) put(value);
        },
        arguments[i]);
  }
  return bytes;
}

// Runs body(meter, block) for all blocks, some at a time on each thread; the first error.
Status for_all_blocks(std::uint32_t blocks, unsigned threads, std::vector<vclock::BlockMeter>& meters,
                      const std::function<Status(vclock::BlockMeter&, std::uint32_t)>& body) {
  const std::uint32_t chunk = std::max(1u, std::min(64u, blocks / (threads * 4)));
  std::atomic<std::uint32_t> next{0};  // relaxed: hands out numbers, and the threads are joined
  std::mutex mutex;
  Status first;  // under mutex
  const auto work = [&](vclock::BlockMeter& meter) {
    while (true) {
      const std::uint32_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= blocks) return;
      for (std::uint32_t block = begin; block < std::min(begin + chunk, blocks); ++block) {
        if (Status status = body(meter, block); !status.ok()) {
          next.store(blocks, std::memory_order_relaxed);
          const std::lock_guard lock(mutex);
          if (first.ok()) first = std::move(status);
          return;
        }
      }
    }
  };
  if (blocks < 2 * threads) {
    work(meters.front());
    return first;
  }
  std::vector<std::jthread> helpers;
  for (unsigned t = 1; t < threads; ++t) helpers.emplace_back([&, t] { work(meters[t]); });
  work(meters.front());
  helpers.clear();
  return first;
}

}  // namespace

vclock::LaunchChain chain_of(const std::vector<analysis::LaunchFootprint>& footprints, std::uint32_t window,
                             const analysis::DependencyOptions& options) {
  vclock::LaunchChain chain(footprints.size());
  for (std::size_t i = 0; i < footprints.size(); ++i) {
    chain[i].blocks.assign(footprints[i].blocks(), {1, 0});
    for (std::size_t back = 1; back < window && back <= i; ++back) {
      chain[i].relations.push_back(std::make_shared<const analysis::BlockRelation>(
          analysis::block_dependencies(footprints[i - back], footprints[i], options)));
    }
  }
  return chain;
}

Result<vclock::LaunchChain> chain_of(const Program& program, const ProgramRelations& relations, std::uint32_t window) {
  std::vector<analysis::LaunchFootprint> footprints;
  for (std::size_t i = 0; i < program.launches.size(); ++i) {
    PERGOLA_ASSIGN(analysis::LaunchFootprint footprint, relations.footprint(i));
    footprints.push_back(std::move(footprint));
  }
  return chain_of(footprints, window);
}

Result<ProgramExecution> ProgramExecution::on(device::DevicePtr device, const Program& program,
                                              const ProgramRelations& relations) {
  ProgramExecution made;
  made.program_ = &program;
  made.device_ = device;
  PERGOLA_ASSIGN(const vclock::BlockRunner runner, vclock::BlockRunner::on(device));
  PERGOLA_ASSIGN(ptx::Module parsed, ptx::parse(relations.ptx(), program.source_file));
  PERGOLA_ASSIGN(const device::ModulePtr module, device->load({&parsed, relations.ptx(), program.source_file}));
  for (const Buffer& buffer : program.buffers) {
    PERGOLA_ASSIGN(device::BufferPtr memory, device->allocate(buffer.bytes(), device::MemoryKind::kDevice));
    made.buffers_.push_back(std::move(memory));
  }
  made.reset();
  for (const Launch& launch : program.launches) {
    PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel(launch.kernel));
    PERGOLA_ASSIGN(const std::vector<std::byte> parameters,
                   packed(kernel->signature(), launch.arguments, made.buffers_));
    device::LaunchConfig config;
    config.grid = {launch.grid.x, launch.grid.y, launch.grid.z};
    config.block = {launch.block.x, launch.block.y, launch.block.z};
    config.dynamic_shared_bytes = launch.shared_bytes;
    PERGOLA_ASSIGN(vclock::BlockLaunch prepared, runner.prepare(module, *kernel, config, parameters));
    made.launches_.push_back(std::move(prepared));
  }
  return made;
}

std::span<std::byte> ProgramExecution::bytes_of(std::size_t buffer) const {
  return {buffers_[buffer]->host_pointer(), program_->buffers[buffer].bytes()};
}

void ProgramExecution::reset() {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    std::ranges::fill(bytes_of(i), std::byte{0});
    if (program_->buffers[i].fill) program_->buffers[i].fill(bytes_of(i));
  }
}

Status ProgramExecution::run(std::span<const vclock::BlockName> order) const {
  for (const vclock::BlockName& name : order) PERGOLA_TRY(launches_[name.launch].run(name.block));
  return {};
}

Result<std::vector<std::vector<vclock::BlockWork>>> ProgramExecution::measure(
    unsigned threads, const std::function<void(std::size_t)>& progress) const {
  std::vector<vclock::BlockMeter> meters(threads);
  std::vector<std::vector<vclock::BlockWork>> work;
  for (const vclock::BlockLaunch& launch : launches_) {
    std::vector<vclock::BlockWork>& of_launch = work.emplace_back(launch.blocks());
    PERGOLA_TRY(
        for_all_blocks(launch.blocks(), threads, meters, [&](vclock::BlockMeter& meter, std::uint32_t block) -> Status {
          PERGOLA_ASSIGN(of_launch[block], launch.measure(block, meter));
          return {};
        }));
    if (progress) progress(work.size());
  }
  return work;
}

std::vector<std::byte> ProgramExecution::contents() const {
  std::vector<std::byte> all;
  for (std::size_t i = 0; i < buffers_.size(); ++i) all.insert(all.end(), bytes_of(i).begin(), bytes_of(i).end());
  return all;
}

std::string ProgramExecution::check() const {
  Results results;
  for (std::size_t i = 0; i < buffers_.size(); ++i) results.push_back(bytes_of(i));
  return program_->check(results);
}

}  // namespace pergola::bench::blocks
