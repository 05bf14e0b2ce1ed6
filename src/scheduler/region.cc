#include "src/scheduler/region.h"

#include <algorithm>
#include <boost/container_hash/hash.hpp>
#include <cstring>
#include <utility>

#include <fmt/ranges.h>

#include "src/base/plural.h"
#include "src/device/graph_order.h"

namespace pergola::scheduler {
namespace {

constexpr std::size_t kSlotAlignment = 16;  // at least; as the kernel's parameters ask
// Of uploads that go when they come (graph_copies.cc), at some 50 GB/s on the link to the device:
constexpr std::size_t kLeadBytes = 400'000;  // it is busy for about as long as the host needs for the rest of a turn,
constexpr std::size_t kMostLeadBytes = 800'000;  // and as long as the device then needs to begin with a graph
constexpr std::size_t kCallBytes = 131'072;      // the same for the upload's own call

// None where the kernel has no other form to take them in.
ByteRanges scalars_of(const KernelCall& call) {
  if (call.scalars == nullptr || call.block_form == nullptr || (*call.block_form)->refused) return {};
  return (*call.scalars)();
}

}  // namespace

Launch::Launch(const Work& work, std::uint64_t its_hash)
    : hash(its_hash),
      kind(work.kind),
      accesses(work.accesses.begin(), work.accesses.end()),
      universal(work.universal),
      site(work.site) {
  for (const Access& access : accesses) {
    resource_ids.push_back(access.resource->id());
    memory.push_back({access.resource->address(), access.resource->size_bytes()});
  }
  if (work.copy != nullptr) {
    copy = KeptCopy{work.copy->to, work.copy->from, work.copy->size_bytes};
    return;
  }
  module = work.call->module;
  kernel = &work.call->kernel;
  config = work.call->config;
  parameters.assign(work.call->parameters.begin(), work.call->parameters.end());
  scalars = scalars_of(*work.call);
  if (work.call->block_form != nullptr) form = *work.call->block_form;
}

Work Launch::work() const {
  return {.kind = kind, .site = site, .accesses = now_accesses(), .universal = universal};
}

void Launch::meet_again() {
  if (varies()) parameters.assign(latest.begin(), latest.end());
  if (!rebinds()) return;
  accesses.assign(latest_accesses.begin(), latest_accesses.end());
  resource_ids.assign(latest_ids.begin(), latest_ids.end());
}

Status Launch::enqueue(device::Queue& queue) const {
  if (!copy) return queue.launch(module, *kernel, config, latest_parameters());
  return queue.copy(copy->to.lock(), 0, copy->from.lock(), 0, copy->size_bytes);
}

namespace {

// Of the accesses alone: the memory on both sides is theirs.
Hashes hashes_of_copy(const Work& work) {
  std::size_t hash = static_cast<std::size_t>(work.kind);
  for (const Access& access : work.accesses) {
    boost::hash_combine(hash, access.resource->id());
    boost::hash_combine(hash, access.range.begin);
    boost::hash_combine(hash, access.range.end);
  }
  return {.whole = hash, .shape = hash};
}

// Words of eight bytes; of what is left it is as if zeros came behind it.
void hash_bytes(std::size_t& hash, const std::byte* from, const std::byte* to) {
  for (; from != to; from += std::min<std::ptrdiff_t>(sizeof(std::uint64_t), to - from)) {
    std::uint64_t word = 0;
    std::memcpy(&word, from, std::min<std::size_t>(sizeof word, static_cast<std::size_t>(to - from)));
    boost::hash_combine(hash, word);
  }
}

}  // namespace

Hashes hashes_of(const Work& work) {
  if (work.copy != nullptr) return hashes_of_copy(work);
  const KernelCall& call = *work.call;
  const std::byte* const bytes = call.parameters.data();
  const ByteRanges scalars = scalars_of(call);
  std::size_t hash = 0, at = 0, scalar_hash = 0;
  for (const ByteRange& range : scalars) {
    hash_bytes(hash, bytes + at, bytes + range.begin);
    hash_bytes(scalar_hash, bytes + range.begin, bytes + range.end);
    at = range.end;
  }
  hash_bytes(hash, bytes + at, bytes + call.parameters.size());
  boost::hash_combine(hash, &call.kernel);
  for (const device::Dim3& dim : {call.config.grid, call.config.block}) {
    boost::hash_combine(hash, std::uint64_t{dim.x} << 32 | dim.y);
    boost::hash_combine(hash, dim.z);
  }
  boost::hash_combine(hash, call.config.dynamic_shared_bytes);
  for (const Access& access : work.accesses) {
    boost::hash_combine(hash, access.resource->id());
    if (access.range.begin == 0 && access.range.end == access.resource->size_bytes()) continue;
    boost::hash_combine(hash, access.range.begin);
    boost::hash_combine(hash, access.range.end);
  }
  Hashes hashes{.whole = hash, .shape = hash};
  if (!scalars.empty()) {
    boost::hash_combine(hash, scalar_hash);
    hashes.whole = hash;
  }
  return hashes;
}

namespace {

bool is_same(const Access& a, const Access& b) {
  return a.resource == b.resource && a.range == b.range && a.mode == b.mode;
}

bool equal_but_for(std::span<const ByteRange> scalars, std::span<const std::byte> a, std::span<const std::byte> b) {
  const auto same = [&](std::size_t begin, std::size_t end) {
    return std::equal(a.data() + begin, a.data() + end, b.data() + begin);
  };
  if (a.size() != b.size()) return false;
  std::size_t at = 0;
  for (const ByteRange& range : scalars) {
    if (!same(at, range.begin)) return false;
    at = range.end;
  }
  return same(at, a.size());
}

Match match_parameters(const Launch& launch, std::span<const std::byte> given) {
  if (std::equal(launch.parameters.begin(), launch.parameters.end(), given.begin(), given.end())) return Match::kWhole;
  if (launch.scalars.empty() || launch.form->refused) return Match::kNone;
  return equal_but_for(launch.scalars, launch.parameters, given) ? Match::kShape : Match::kNone;
}

}  // namespace

void KnownCall::note_looks(std::span<const Access> accesses) {
  constexpr std::ptrdiff_t kLine = 64;
  const auto add = [&](const void* at, std::ptrdiff_t bytes = 0) {
    if (looks_at.size() < looks_at.capacity()) looks_at.push_back(static_cast<const char*>(at) + bytes);
  };
  looks_at.clear();
  for (const Access& access : accesses) {
    add(access.resource);
    add(access.resource, kLine);
    if (const void* const state = access.resource->host_state_at(); state != nullptr) {
      add(state, -kLine / 2);  // of the host's side, whose state it is
      add(state, kLine / 2);
    }
  }
}

namespace {

bool are_same_arrays(const Launch& launch, const Work& work) {
  for (std::size_t i = 0; i < work.accesses.size(); ++i)
    if (!is_same(launch.accesses[i], work.accesses[i]) || launch.resource_ids[i] != work.accesses[i].resource->id())
      return false;
  return true;
}

bool are_same_modes(std::span<const Access> a, std::span<const Access> b) {
  return std::ranges::equal(a, b, {}, &Access::mode, &Access::mode);
}

// Its arrays are others, or may be.
Match match_rebound(const Launch& launch, const Work& work) {
  const bool may =
      are_same_modes(launch.accesses, work.accesses) && launch.parameters.size() == work.call->parameters.size();
  return may ? Match::kArrays : Match::kNone;
}

}  // namespace

Match match(const Launch& launch, const Work& work, bool may_rebind) {
  if (launch.copy.has_value() != (work.copy != nullptr) || launch.kind != work.kind ||
      launch.universal != work.universal || launch.accesses.size() != work.accesses.size())
    return Match::kNone;
  if (!launch.copy && (launch.kernel != &work.call->kernel || launch.module != work.call->module ||
                       !(launch.config == work.call->config)))
    return Match::kNone;
  may_rebind = may_rebind && !launch.copy;
  if (launch.rebinds()) return match_rebound(launch, work);
  if (!are_same_arrays(launch, work)) return may_rebind ? match_rebound(launch, work) : Match::kNone;
  if (!launch.copy) {
    const Match found = match_parameters(launch, work.call->parameters);
    return found == Match::kNone && may_rebind ? match_rebound(launch, work) : found;
  }
  const bool is_same_memory = launch.copy->to.lock() == work.copy->to && launch.copy->from.lock() == work.copy->from &&
                              launch.copy->size_bytes == work.copy->size_bytes;
  return is_same_memory ? Match::kWhole : Match::kNone;
}

namespace {

std::string_view name_of(const WorkSite* site) {
  return site == nullptr ? std::string_view("?") : std::string_view(site->name);
}

}  // namespace

std::string mismatch_text(std::size_t phase, const Launch& expected, const Work& work) {
  const std::string_view name = name_of(expected.site);
  if (expected.copy || work.copy != nullptr)
    return fmt::format("'{}' instead of '{}', launch {}", name_of(work.site), name, phase);
  const KernelCall& call = *work.call;
  if (expected.kernel != &call.kernel || expected.module != call.module)
    return fmt::format("'{}' instead of '{}', launch {}", name_of(work.site), name, phase);
  const char* difference = "other scalars, which are part of its graph";
  if (!(expected.config == call.config))
    difference = "another grid, block or shared size";
  else if (expected.universal != work.universal || expected.accesses.size() != work.accesses.size())
    difference = "arguments of other kinds";
  else
    for (std::size_t i = 0; i < work.accesses.size(); ++i)
      if (!is_same(expected.accesses[i], work.accesses[i]) ||
          expected.resource_ids[i] != work.accesses[i].resource->id())
        difference = "other arrays";
  return fmt::format("'{}', launch {}, with {}", name, phase, difference);
}

std::vector<KernelCount> count_kernels(std::span<const Launch* const> launches) {
  std::vector<KernelCount> counts;
  for (const Launch* const launch : launches) {
    const std::string_view name = name_of(launch->site);
    const auto known =
        std::find_if(counts.begin(), counts.end(), [&](const KernelCount& one) { return one.name == name; });
    if (known == counts.end())
      counts.push_back({std::string(name), 1});
    else
      ++known->count;
  }
  return counts;
}

bool stands_for(const Launch& known, const Launch& found) {
  if (known.kind != found.kind || known.copy.has_value() != found.copy.has_value() || known.kernel != found.kernel ||
      known.module != found.module || known.universal != found.universal || !(known.config == found.config))
    return false;
  if (known.rebinds())
    return known.accesses.size() == found.accesses.size() && are_same_modes(known.accesses, found.accesses);
  if (found.rebinds() || known.resource_ids != found.resource_ids ||
      !std::equal(known.accesses.begin(), known.accesses.end(), found.accesses.begin(), found.accesses.end(), is_same))
    return false;
  const Match match = match_parameters(known, found.parameters);
  return match == Match::kWhole ? known.varies() || !found.varies() : match == Match::kShape && known.varies();
}

namespace {

// Of one array.
bool conflict(const Access& access, const Range& range, Mode mode, bool readers_conflict) {
  return access.range.overlaps(range) && (readers_conflict || writes(access.mode) || writes(mode));
}

}  // namespace

bool conflict(const Launch& a, const Launch& b) {
  if (writes(a.universal) || writes(b.universal)) return true;
  if ((reads(a.universal) && any_writes(b.accesses)) || (reads(b.universal) && any_writes(a.accesses))) return true;
  for (std::size_t i = 0; i < a.accesses.size(); ++i)
    for (std::size_t j = 0; j < b.accesses.size(); ++j)
      if (a.resource_ids[i] == b.resource_ids[j] &&
          conflict(a.accesses[i], b.accesses[j].range, b.accesses[j].mode, false))
        return true;
  return false;
}

// By numbers: of resources that a launch to come uses, some may have gone.
bool conflict(std::span<const Access> accesses, const Launch& launch, bool readers_conflict) {
  if (writes(launch.universal) || (reads(launch.universal) && (readers_conflict || any_writes(accesses)))) return true;
  const std::span<const Access> its = launch.now_accesses();
  const std::span<const std::uint64_t> ids = launch.now_ids();
  for (const Access& access : accesses)
    for (std::size_t i = 0; i < its.size(); ++i)
      if (ids[i] == access.resource->id() && conflict(access, its[i].range, its[i].mode, readers_conflict)) return true;
  return false;
}

std::size_t Region::first_in_conflict(std::span<const Access> accesses, std::size_t begin, std::size_t end,
                                      bool readers_conflict, bool have_come) const {
  if (uses.empty() && universals.empty() && rebound.empty()) {
    for (std::size_t i = 0; i < launches.size(); ++i) {
      const Launch& launch = launches[i];
      if (launch.universal != Mode::kNone) universals.push_back(i);
      if (launch.rebinds()) {
        rebound.push_back(i);
        continue;
      }
      for (std::size_t a = 0; a < launch.accesses.size(); ++a)
        uses.push_back({launch.resource_ids[a], i, launch.accesses[a].range, launch.accesses[a].mode});
    }
    std::ranges::sort(uses, {}, [](const Use& use) { return std::pair(use.resource, use.launch); });
  }
  for (const std::size_t i : universals)
    if (i >= begin && i < end && conflict(accesses, launches[i], readers_conflict)) end = i;
  for (const std::size_t i : rebound)
    if (have_come && i >= begin && i < end && conflict(accesses, launches[i], readers_conflict)) end = i;
  for (const Access& access : accesses) {
    const auto of_array = std::ranges::equal_range(uses, access.resource->id(), {}, &Use::resource);
    for (const Use& use : of_array)
      if (use.launch >= begin && use.launch < end && conflict(access, use.range, use.mode, readers_conflict))
        end = use.launch;
  }
  return end;
}

std::shared_ptr<Region> Region::with(std::vector<Launch> others, std::vector<KnownCall> their_calls) const {
  auto region = std::make_shared<Region>();
  region->launches = std::move(others);
  region->calls = std::move(their_calls);
  region->cut_before.assign(region->launches.size(), false);
  region->turn = turn;
  region->most_launches = most_launches;
  region->grows = grows;
  region->most_grown = most_grown;
  region->shortened = std::min(shortened, 1u);  // as the cuts are
  region->whole_in = whole_in;
  region->times_shortened = times_shortened;
  region->form = form;
  region->found_without_copies = found_without_copies;
  region->rebinds = rebinds;
  region->unbound = unbound;
  region->pace = pace;
  region->story = story;
  return region;
}

bool Region::is_bound_by_copies(const Chunk& chunk) const {
  const bool is_turn = has_leads && chunk.is_first && (chunk.end == launches.size() || cut_before[chunk.end]);
  const auto pieces = std::span(launches).subspan(chunk.begin, chunk.end - chunk.begin);
  return is_turn && 2 * std::ranges::count_if(pieces, [](const Launch& piece) { return piece.copy.has_value(); }) >
                        std::ssize(pieces);
}

const std::shared_ptr<Chunk>& Region::chunk_of(std::size_t launch) const {
  return *std::partition_point(chunks.begin(), chunks.end(),
                               [&](const std::shared_ptr<Chunk>& chunk) { return chunk->end <= launch; });
}

namespace {

std::string name_of(const Chunk& chunk, std::size_t launches) {
  constexpr std::size_t kMost = 3;
  std::vector<std::string_view> names;
  for (const KernelCount& kernel : chunk.kernels) names.push_back(kernel.name);
  const bool more = names.size() > kMost;
  if (more) names.resize(kMost);
  return fmt::format("graph of {}: {}{}", plural(launches, "launch"), fmt::join(names, ", "), more ? ", ..." : "");
}

void add_slot(Chunk& chunk, std::size_t index, const Launch& launch) {
  if (chunk.block == nullptr) chunk.block = std::make_unique<ParameterBlock>();
  std::size_t alignment = kSlotAlignment;
  for (const ptx::Parameter& parameter : launch.kernel->signature().parameters)
    alignment = std::max<std::size_t>(alignment, parameter.align_bytes);
  ParameterBlock& block = *chunk.block;
  const std::size_t offset = (block.staged.size() + alignment - 1) / alignment * alignment;
  block.slots.push_back({index, offset});
  block.staged.resize(offset + launch.parameters.size());
}

}  // namespace

std::vector<const Launch*> Region::in_graph(const Chunk& chunk) const {
  std::vector<const Launch*> all;
  for (const std::size_t i : chunk.in_graph()) all.push_back(&launches[i]);
  return all;
}

std::shared_ptr<Chunk> Region::make_chunk(std::size_t begin, std::size_t end, std::vector<std::size_t> ahead) const {
  auto chunk = std::make_shared<Chunk>();
  chunk->begin = begin;
  chunk->end = end;
  chunk->ahead = std::move(ahead);
  for (const std::size_t k : chunk->in_graph()) {
    chunk->universal = chunk->universal | launches[k].universal;
    for (const Access& access : launches[k].accesses) {
      const auto same = std::find_if(chunk->accesses.begin(), chunk->accesses.end(), [&](const Access& known) {
        return known.resource == access.resource && known.range == access.range;
      });
      if (same == chunk->accesses.end())
        chunk->accesses.push_back(access);
      else
        same->mode = same->mode | access.mode;
    }
    if (launches[k].copy) {
      const auto of_chunk = std::span(launches).subspan(begin, k - begin);
      if (std::none_of(of_chunk.begin(), of_chunk.end(), [&](const Launch& one) { return conflict(one, launches[k]); }))
        chunk->free_copies.emplace_back(launches[k].accesses.begin(), launches[k].accesses.end());
    }
    if (launches[k].varies()) add_slot(*chunk, k, launches[k]);
  }
  const std::vector<const Launch*> its = in_graph(*chunk);
  if (std::ranges::any_of(its, &Launch::rebinds)) {
    chunk->slots = std::make_unique<ArraySlots>();
    for (const Launch* launch : its) chunk->slots->add(launch->accesses, launch->resource_ids, launch->rebinds());
  }
  chunk->kernels = count_kernels(its);
  chunk->name = name_of(*chunk, its.size());
  return chunk;
}

namespace {

bool is_upload(const Launch& launch) {
  return launch.copy && launch.kind == WorkKind::kCopyToDevice;
}

bool writes_to(const Launch& launch, std::uint64_t resource) {
  for (std::size_t i = 0; i < launch.accesses.size(); ++i)
    if (launch.resource_ids[i] == resource && writes(launch.accesses[i].mode)) return true;
  return false;
}

}  // namespace

// Where pieces of [begin, stop) end: of the same size, or each twice the one before, so that the device has the first
// soon, and the others are held while it has more to do than they take to come.
std::vector<std::size_t> Region::pieces_of(std::size_t begin, std::size_t stop) const {
  std::vector<std::size_t> ends;
  // A block is written when the last graph that reads it has ended: there are two, where one would do, for the device
  // to have the other meanwhile.
  const std::size_t most = varies() ? std::max(kFewestLaunches, most_launches / 2) : most_launches;
  if (!grows) {
    // No small rest: a second graph costs the host a launch, and the device a moment between the two. What the host was
    // too slow for is cut shorter all the same.
    const bool is_one = !varies() && shortened == 0 && stop - begin <= most + most / 4;
    const std::size_t pieces = is_one ? 1 : (stop - begin + most - 1) / most;
    for (std::size_t i = 1; i <= pieces; ++i) ends.push_back(begin + (stop - begin) * i / pieces);
    return ends;
  }
  for (std::size_t at = begin, size = most; at < stop; size = std::min(2 * size, most_grown)) {
    at = stop - at <= size + size / 2 ? stop : at + size;  // no small rest
    ends.push_back(at);
  }
  return ends;
}

void Region::cut() {
  ++cuts;
  has_leads = false;
  for (std::size_t begin = 0; begin < launches.size(); begin = next_cut(begin))
    has_leads = has_leads || (cut_before[begin] && most_leads(begin, next_cut(begin)) != 0);
  chunks = cut_with(chunks);
}

void Region::take(TurnForm next) {
  aside[static_cast<std::size_t>(form)] = std::exchange(chunks, {});
  form = next;
  chunks = std::exchange(aside[static_cast<std::size_t>(form)], {});
  if (chunks.empty()) chunks = cut_with({});
}

bool Region::has(const std::shared_ptr<Chunk>& chunk) const {
  const auto is_among = [&](const auto& some) { return std::find(some.begin(), some.end(), chunk) != some.end(); };
  return is_among(chunks) || std::any_of(aside.begin(), aside.end(), is_among);
}

// Takes over those of `before` that are the same.
std::vector<std::shared_ptr<Chunk>> Region::cut_with(std::span<const std::shared_ptr<Chunk>> before) const {
  std::vector<std::shared_ptr<Chunk>> cut;
  const auto add = [&](std::size_t first, std::size_t last, bool leads, std::vector<std::size_t> ahead) -> Chunk& {
    const auto kept = std::find_if(before.begin(), before.end(), [&](const std::shared_ptr<Chunk>& one) {
      return one->begin == first && one->end == last && one->leads == leads && one->ahead == ahead;
    });
    cut.push_back(kept != before.end() ? *kept : make_chunk(first, last, std::move(ahead)));  // its graph may be there
    return *cut.back();
  };
  for (std::size_t begin = 0; begin < launches.size();) {
    const std::size_t stop = next_cut(begin);
    const std::size_t lead_end = begin + (cut_before[begin] ? lead_of(begin, stop) : 0);
    if (lead_end != begin) add(begin, lead_end, true, {}).leads = true;
    std::size_t first = lead_end;
    for (const std::size_t last : pieces_of(lead_end, stop)) {
      const bool is_led = first == lead_end && lead_end != begin;
      Chunk& chunk = add(first, last, false, is_led ? ahead_in(begin, first, last) : std::vector<std::size_t>());
      chunk.is_first = first == lead_end;
      first = last;
    }
    begin = stop;
  }
  return cut;
}

// That the host made, or a launch that goes alone.
std::size_t Region::next_cut(std::size_t launch) const {
  do ++launch;
  while (launch < launches.size() && !cut_before[launch] && !launches[launch].goes_alone &&
         !launches[launch - 1].goes_alone);
  return launch;
}

// Whether the link is what the piece up to `stop` waits for when so much has been uploaded before launch `at`: twice as
// much is to come. A graph that has more to compute would begin later, and end so, for each upload more before it.
bool Region::is_bound_by_link(std::size_t bytes, std::size_t at, std::size_t stop) const {
  std::size_t left = 0;
  for (std::size_t i = at; i < stop; ++i)
    if (is_upload(launches[i])) left += launches[i].copy->size_bytes;
  return left >= 2 * bytes;
}

// How many uploads of [begin, stop) go when they come: those before the first launch until the link has enough to do,
// as long as it has for all of them what their calls take the host, and something is left to be a graph.
std::size_t Region::most_leads(std::size_t begin, std::size_t stop) const {
  std::size_t lead = 0, bytes = 0;
  for (std::size_t i = begin; i + kFewestLaunches < stop && is_upload(launches[i]) && bytes < kMostLeadBytes; ++i) {
    const bool is_enough = bytes >= kLeadBytes;
    bytes += launches[i].copy->size_bytes;
    if (is_enough && !is_bound_by_link(bytes, i + 1, stop)) break;
    if (bytes >= (i + 1 - begin) * kCallBytes) lead = i + 1 - begin;
  }
  return lead;
}

// The uploads of the piece [begin, end), behind those that lead it from `lead` on, that go ahead of it: as long as the
// link has not enough to do until the graph may begin, and is what that waits for. They change places with what comes
// before them in the piece.
std::vector<std::size_t> Region::ahead_in(std::size_t lead, std::size_t begin, std::size_t end) const {
  std::vector<std::size_t> ahead;
  std::size_t bytes = 0;
  for (std::size_t i = lead; i < begin; ++i) bytes += launches[i].copy->size_bytes;
  for (std::size_t i = begin + 1; i + 1 < end && bytes < kMostLeadBytes && !rebinds; ++i) {
    const auto before = std::span(launches).subspan(begin, i - begin);
    if (!is_upload(launches[i]) || launches[i].copy->size_bytes < kCallBytes) continue;
    if (std::ranges::any_of(before, [&](const Launch& one) { return conflict(one, launches[i]); })) continue;
    if (!is_bound_by_link(bytes + launches[i].copy->size_bytes, i + 1, end)) break;
    bytes += launches[i].copy->size_bytes;
    ahead.push_back(i);
  }
  return ahead;
}

// In the form 'launches' chunks are as in the first one, so that the host's steps mean the same.
std::size_t Region::lead_of(std::size_t begin, std::size_t stop) const {
  return form == TurnForm::kWhole ? 0 : most_leads(begin, stop);
}

bool Region::would_lead(std::size_t launch) const {
  const bool follows_others = launch != 0 && chunk_of(launch - 1)->leads;
  return !chunk_of(launch)->leads && !follows_others && lead_of(launch, next_cut(launch)) != 0;
}

// What has gone when it came is there when the graph begins, or soon. But its last upload may be a large one, for which
// launches that do not use it need not wait. Uploads of the graph come behind it on the link in any case.
std::size_t Region::first_delayed_by(const Chunk& chunk, std::uint64_t resource) const {
  for (const std::shared_ptr<Chunk>& lead : chunks) {
    std::size_t bytes = 0;
    for (std::size_t i = lead->begin; lead->leads && i < lead->end; ++i) {
      bytes += launches[i].copy->size_bytes;
      if (!writes_to(launches[i], resource)) continue;
      std::size_t first = bytes <= kSoonBytes ? chunk.end : chunk.begin;
      while (first < chunk.end && is_upload(launches[first])) ++first;
      return first;
    }
  }
  return chunk.begin;
}

const device::Queue* Region::queue_behind(const Chunk& leads) const {
  if (leads.end == launches.size()) return nullptr;
  const std::shared_ptr<Chunk>& graph = chunk_of(leads.end);
  return graph->ways.empty() ? nullptr : graph->ways.choose();
}

bool Region::varies() const {
  return std::ranges::any_of(launches, [](const Launch& launch) { return launch.varies(); });
}

void Region::vary(std::size_t launch, bool is_rebound) {
  if (is_rebound) {
    launches[launch].rebind();
    uses.clear();
    universals.clear();
    rebound.clear();
  } else {
    launches[launch].vary();
  }
  call_of(launch).change();
  std::shared_ptr<Chunk>& chunk = *std::partition_point(
      chunks.begin(), chunks.end(), [&](const std::shared_ptr<Chunk>& before) { return before->end <= launch; });
  const std::shared_ptr<Chunk> before = std::exchange(chunk, make_chunk(chunk->begin, chunk->end, chunk->ahead));
  chunk->device_ns = before->device_ns;
  chunk->times_seen = before->times_seen;
  chunk->is_first = before->is_first;
  if (before->state != Chunk::State::kRefused) return;
  chunk->state = before->state;
  chunk->refusal = before->refusal;
}

void Region::stage(Chunk& chunk) const {
  if (chunk.block == nullptr) return;
  for (const ParameterBlock::Slot& slot : chunk.block->slots) {
    const std::vector<std::byte>& latest = launches[slot.launch].latest;
    std::copy(latest.begin(), latest.end(),
              chunk.block->staged.begin() + static_cast<std::ptrdiff_t>(slot.offset_bytes));
  }
  if (chunk.slots == nullptr) return;
  chunk.accesses.resize(1);  // the block's
  chunk.slots->collect(chunk.accesses);
}

bool Region::has_pattern_of(const Region& other, std::size_t start) const {
  if (launches.size() != other.launches.size()) return false;
  ArraySlots mine, its;
  for (std::size_t i = 0; i < launches.size(); ++i) {
    const Launch& launch = launches[(start + i) % launches.size()];
    mine.add(launch.accesses, launch.resource_ids, launch.rebinds());
    its.add(other.launches[i].accesses, other.launches[i].resource_ids, launch.rebinds());
  }
  return mine.is_like(its);
}

Result<std::vector<device::BufferPtr>> Region::copied_by(const Chunk& chunk) const {
  std::vector<device::BufferPtr> memory;
  for (const std::size_t i : chunk.in_graph()) {
    if (!launches[i].copy) continue;
    memory.push_back(launches[i].copy->to.lock());
    memory.push_back(launches[i].copy->from.lock());
    if (memory.back() == nullptr || memory[memory.size() - 2] == nullptr)
      return PERGOLA_ERROR(kFailedPrecondition, "An array that launch {} of the region copies has gone.", i);
  }
  return memory;
}

namespace {

// Side by side on the link they would all be as late as the last (Scheduler::stream_of_copies()).
bool is_large_upload(const Launch& launch) {
  constexpr std::size_t kLargeBytes = 4'000'000;
  return is_upload(launch) && launch.copy->size_bytes >= kLargeBytes;
}

// Of memory that lives meanwhile and that the node does not keep.
device::CopyNode node_of(const KeptCopy& copy) {
  const auto unowned = [](const std::weak_ptr<device::Buffer>& buffer) {
    return device::BufferPtr(std::shared_ptr<void>(), buffer.lock().get());
  };
  return {unowned(copy.to), 0, unowned(copy.from), 0, copy.size_bytes};
}

}  // namespace

device::GraphSpec Region::spec_of(const Chunk& chunk, std::span<const BlockForm::Kernel> forms,
                                  const device::BufferPtr& block) const {
  device::GraphSpec spec;
  if (block != nullptr) spec.buffers.push_back(block);
  device::FewestEdges edges;
  std::size_t next_slot = 0;
  const std::vector<std::size_t> its = chunk.in_graph();
  for (const std::size_t i : its) {
    const Launch& launch = launches[i];
    device::GraphNode node;
    if (launch.copy)
      node.work = node_of(*launch.copy);
    else
      node.work = device::KernelNode{
          launch.module, launch.kernel, launch.config, {launch.parameters.begin(), launch.parameters.end()}};
    if (next_slot < forms.size() && chunk.block->slots[next_slot].launch == i) {
      const device::DeviceAddress address = block->address() + chunk.block->slots[next_slot].offset_bytes;
      const auto bytes = std::as_bytes(std::span(&address, 1));
      node.work = device::KernelNode{
          forms[next_slot].module, forms[next_slot].kernel, launch.config, {bytes.begin(), bytes.end()}};
      ++next_slot;
    }
    node.after = edges.of_next([&](std::size_t j) {
      const Launch& earlier = launches[its[j]];
      return conflict(earlier, launch) || (is_large_upload(earlier) && is_large_upload(launch));
    });
    spec.nodes.push_back(std::move(node));
  }
  return spec;
}

}  // namespace pergola::scheduler
