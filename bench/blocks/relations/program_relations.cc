#include "bench/blocks/relations/program_relations.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "src/analysis/block_equality.h"
#include "src/ptx/parser.h"
#include "src/ptx/signature.h"

namespace pergola::bench::blocks {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t kMostComparisons = std::uint64_t{1} << 18;  // of a pair, so that large ones take no minutes

// Of a launch each access with the place of each block.
struct Placed {
  const analysis::AccessFootprint* access;
  std::vector<analysis::AccessFootprint::Place> places;
};
std::vector<Placed> placed(const analysis::LaunchFootprint& launch) {
  std::vector<Placed> result;
  for (const analysis::AccessFootprint& access : launch.accesses) result.push_back({&access, access.places.expanded()});
  return result;
}

bool depends(const std::vector<Placed>& parent, std::uint32_t p, const std::vector<Placed>& child, std::uint32_t c) {
  for (const auto& [a, places_of_a] : parent) {
    for (const auto& [b, places_of_b] : child) {
      if (a->allocation != b->allocation || !(a->writes || b->writes)) continue;
      const auto &of_a = places_of_a[p], &of_b = places_of_b[c];
      if (of_a.shape == a->kNoShape || of_b.shape == b->kNoShape) continue;
      if (analysis::overlaps({of_a.first, a->shapes[of_a.shape]}, {of_b.first, b->shapes[of_b.shape]})) return true;
    }
  }
  return false;
}

}  // namespace

bool agrees_with_bytes(const analysis::BlockRelation& relation, const analysis::LaunchFootprint& parent,
                       const analysis::LaunchFootprint& child) {
  const bool is_anything =
      parent.reads_anything || parent.writes_anything || child.reads_anything || child.writes_anything;
  if (is_anything || !relation.full_reason.empty()) return relation.pattern == analysis::BlockPattern::kFull;
  const std::uint64_t pairs = std::uint64_t{relation.parents} * relation.children;
  const std::vector<Placed> of_parent = placed(parent), of_child = placed(child);
  const auto step = static_cast<std::uint32_t>(std::max<std::uint64_t>(1, pairs / kMostComparisons));
  for (std::uint32_t c = 0; c < relation.children; c += step) {
    std::vector<std::uint32_t> found;
    for (std::uint32_t p = 0; p < relation.parents; ++p) {
      if (depends(of_parent, p, of_child, c)) found.push_back(p);
    }
    if (relation.pattern == analysis::BlockPattern::kFull ? found.size() != relation.parents
                                                          : !std::ranges::equal(found, relation.parents_of(c))) {
      return false;
    }
  }
  return true;
}

Result<ProgramRelations> ProgramRelations::of(const Program& program, source::Compiler compiler) {
  PERGOLA_ASSIGN(source::SourceRequest request, source::load_file(source_path(program)));
  request.compiler = compiler;
  PERGOLA_ASSIGN(source::CompiledSource compiled, source::compile(request));
  return of(program, std::move(compiled));
}

Result<ProgramRelations> ProgramRelations::of(const Program& program, source::CompiledSource compiled) {
  ProgramRelations result;
  result.program_ = &program;
  result.compiled_ = std::move(compiled);
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(result.compiled_.ptx, program.source_file));
  result.module_ = std::make_unique<ptx::Module>(std::move(module));
  for (const ptx::Function* entry : result.module_->entries()) {
    PERGOLA_ASSIGN(analysis::KernelFootprints kernel, analysis::KernelFootprints::of(*result.module_, *entry));
    result.kernels_.emplace(entry->name, std::make_shared<const analysis::KernelFootprints>(std::move(kernel)));
  }
  return result;
}

Result<analysis::LaunchFootprint> ProgramRelations::footprint(std::size_t number) const {
  PERGOLA_ASSIGN(const Call its, call(number));
  return its.kernel->at(its.values);
}

Result<ProgramRelations::Call> ProgramRelations::call(std::size_t number) const {
  const Launch& launch = program_->launches[number];
  const auto kernel = kernels_.find(launch.kernel);
  if (kernel == kernels_.end()) {
    return PERGOLA_ERROR(kNotFound, "{}: there is no kernel '{}' in {}", program_->name, launch.kernel,
                         program_->source_file);
  }
  PERGOLA_ASSIGN(const ptx::KernelSignature signature,
                 ptx::signature(*module_, *module_->find_function(launch.kernel)));
  if (signature.parameters.size() != launch.arguments.size()) {
    return PERGOLA_ERROR(kInvalidArgument, "{}: '{}' has {} parameters and {} arguments", program_->name, launch.kernel,
                         signature.parameters.size(), launch.arguments.size());
  }
  analysis::LaunchValues values;
  const Dim3 *grid = &launch.grid, *block = &launch.block;
  for (int axis = 0; axis < 3; ++axis) {
    values.grid[axis] = axis == 0 ? grid->x : axis == 1 ? grid->y : grid->z;
    values.block[axis] = axis == 0 ? block->x : axis == 1 ? block->y : block->z;
  }
  values.parameters.resize(signature.parameter_bytes);
  for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
    const std::uint32_t offset = signature.parameters[i].offset_bytes;
    if (const auto* buffer = std::get_if<BufferArgument>(&launch.arguments[i])) {
      values.pointers.push_back({offset, buffer->buffer, static_cast<std::int64_t>(buffer->offset_bytes),
                                 program_->buffers[buffer->buffer].bytes()});
      continue;
    }
    std::visit(
        [&](const auto& number_given) {
          if constexpr (!std::is_same_v<std::decay_t<decltype(number_given)>, BufferArgument>) {
            std::memcpy(values.parameters.data() + offset, &number_given, sizeof number_given);
          }
        },
        launch.arguments[i]);
  }
  // What the module has of its own, behind the program's buffers.
  values.add_variables(*module_, static_cast<analysis::AllocationId>(program_->buffers.size()));
  return Call{kernel->second, std::move(values)};
}

Result<std::vector<ProgramRelations::Pair>> ProgramRelations::pairs() const {
  std::vector<Pair> result;
  std::shared_ptr<const analysis::LaunchFootprint> before;
  std::chrono::duration<double, std::milli> time_before{};
  for (std::size_t i = 0; i < program_->launches.size(); ++i) {
    Pair pair;
    PERGOLA_ASSIGN(const Call its, call(i));
    // Nothing is kept from one time to the next; the middle one is taken, as others may run on the machine.
    constexpr std::size_t kTimes = 3;
    std::array<std::chrono::duration<double, std::milli>, kTimes> footprint_times, relation_times;
    std::optional<analysis::RelationCache> cache;
    std::shared_ptr<const analysis::LaunchFootprint> now;
    for (std::size_t time = 0; time < kTimes; ++time) {
      cache.emplace();
      auto begin = Clock::now();
      PERGOLA_ASSIGN(now, cache->footprint(its.kernel, its.values, true));
      footprint_times[time] = Clock::now() - begin;
      begin = Clock::now();
      if (before != nullptr) pair.relation = *cache->relation(before, now, {});
      relation_times[time] = Clock::now() - begin;
    }
    std::ranges::sort(footprint_times);
    std::ranges::sort(relation_times);
    pair.footprint_time = footprint_times[kTimes / 2];
    if (before != nullptr) {
      pair.relation_time = relation_times[kTimes / 2];
      pair.first_time = time_before + pair.footprint_time + pair.relation_time;
      auto begin = Clock::now();
      PERGOLA_ASSIGN(const auto again, cache->footprint(its.kernel, its.values, true));
      const auto same = cache->relation(before, again, {});
      pair.cached_time = Clock::now() - begin;
      const auto reads = analysis::block_dependencies(*before, *now, {.raw_only = true});
      pair.read_pattern = reads.pattern;
      pair.agrees = agrees_with_bytes(*same, *before, *now) &&
                    analysis::are_equal(*same, analysis::block_dependencies(*before, *now, {.by_boxes = false})) &&
                    analysis::are_equal(
                        reads, analysis::block_dependencies(*before, *now, {.raw_only = true, .by_boxes = false}));
    }
    PERGOLA_ASSIGN(const analysis::LaunchFootprint each_block, its.kernel->at_each_block(its.values));
    pair.agrees &= analysis::are_equal(*now, each_block);
    if (before != nullptr) result.push_back(std::move(pair));
    time_before = pair.footprint_time;
    before = std::move(now);
  }
  return result;
}

int table_one(analysis::BlockPattern pattern) {
  switch (pattern) {
    case analysis::BlockPattern::kFull: return 1;
    case analysis::BlockPattern::kGroups: return 2;
    case analysis::BlockPattern::kOneToOne: return 3;
    case analysis::BlockPattern::kOneToN: return 4;
    case analysis::BlockPattern::kNToOne: return 5;
    case analysis::BlockPattern::kOverlapped: return 6;
    case analysis::BlockPattern::kIndependent: return 7;
  }
  return 0;
}

}  // namespace pergola::bench::blocks
