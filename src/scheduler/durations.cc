#include "src/scheduler/durations.h"

#include <algorithm>

namespace pergola::scheduler {
namespace {

constexpr std::uint32_t kFirstTimed = 2, kEnoughTimed = 3, kThenEach = 1024;
static_assert((kThenEach & (kThenEach - 1)) == 0);  // wants() counts by its bits
// What takes so many times as long as is expected, and so much longer, is more than a disturbance if the next do, too.
constexpr double kSurprise = 2, kSurpriseNs = 5e3;
constexpr std::size_t kMostSamples = 16;  // under way at a time
constexpr std::size_t kMostSizes = 16;    // of a kernel; a further one takes the place of the first

}  // namespace

double Durations::expected_ns_of(const Work& work, const device::LaunchConfig& config) {
  if (work.site == nullptr) return kUnknownDurationNs;
  const std::vector<KernelDurations>& known = work.site->durations;
  const SizeClass size = size_of(work.accesses, config);
  const auto found = std::find_if(known.begin(), known.end(), [&](const auto& one) { return one.size == size; });
  return expected_ns(found == known.end() ? nullptr : &*found);
}

SizeClass Durations::size_of(std::span<const Access> accesses, const device::LaunchConfig& config) {
  std::uint64_t bytes = 0;
  for (const Access& access : accesses) bytes += access.range.end - access.range.begin;
  const auto volume = [](const device::Dim3& of) { return std::uint64_t{of.x} * of.y * of.z; };
  return SizeClass::of(volume(config.grid) * volume(config.block), bytes);
}

KernelDurations& Durations::find(WorkSite& site, SizeClass size) {
  for (KernelDurations& one : site.durations)
    if (one.size == size) return one;
  if (site.durations.size() == kMostSizes) site.durations.erase(site.durations.begin());
  KernelDurations made{.size = size};
  if (const auto known = known_.estimate(device_, site.name, size);
      known && known->classes_away == 0 && known->times.min_ns != 0)
    made.expected_ns = known->times.min_ns;
  return site.durations.emplace_back(made);
}

double Durations::expected_elsewhere_ns(const Work& work) {
  settle();
  KernelDurations& durations = find(*work.site, size_of(work));
  if (durations.launches % kThenEach != kThenEach - 2) return expected_ns(&durations);
  ++durations.launches;  // said once: with of() it is one that is timed, unless it is held back and may never be
  return kUnknownDurationNs;
}

KernelDurations* Durations::of(const Work& work) {
  if (work.site == nullptr || work.call == nullptr || work.kind != WorkKind::kKernel) return nullptr;
  KernelDurations& durations = find(*work.site, size_of(work));
  ++durations.launches;
  return &durations;
}

bool Durations::wants(const KernelDurations& durations, std::uint32_t launches) const {
  if (launches < kFirstTimed) return false;
  // How long a kernel takes may depend on its numbers, as that of steps: it is looked for soon, and ever more rarely.
  const bool is_one_of_all = (launches & (std::min(launches, kThenEach) - 1)) == 0;
  if (durations.timed + durations.on_their_way >= kEnoughTimed && durations.doubtful == 0 && !is_one_of_all)
    return false;
  return samples_.size() < kMostSamples;
}

void Durations::add(const Work& work, device::EventPtr start, device::EventPtr end, double launch_ns) {
  const SizeClass size = size_of(work);
  KernelDurations& durations = find(*work.site, size);
  if (durations.doubtful != 0) --durations.doubtful;
  ++durations.on_their_way;
  samples_.push_back({work.site, size, std::move(start), std::move(end), launch_ns});
}

void Durations::settle() {
  while (!samples_.empty()) {
    const std::optional<Status> ended = samples_.front().end->poll();
    if (!ended) return;
    const Sample sample = std::move(samples_.front());
    samples_.pop_front();
    KernelDurations& durations = find(*sample.site, sample.size);
    if (durations.on_their_way != 0) --durations.on_their_way;  // else it was forgotten meanwhile
    if (!ended->ok()) continue;
    const Result<double> between = sample.end->elapsed_ns(*sample.start);
    if (!between.ok()) continue;
    const double ns = std::max(0.0, *between - sample.launch_ns), expected = expected_ns(&durations);
    if (expected < kUnknownDurationNs && ns > std::max(kSurprise * expected, expected + kSurpriseNs) &&
        durations.launches >= durations.doubted_from) {
      durations.doubtful = std::size(durations.ns) - 1;  // with which the shortest is one of these
      durations.doubted_from = 2 * durations.launches;
    }
    durations.ns[durations.timed % std::size(durations.ns)] = static_cast<float>(ns);
    if (++durations.timed < kEnoughTimed) continue;
    const std::size_t count = std::min<std::size_t>(durations.timed, std::size(durations.ns));
    durations.expected_ns = *std::min_element(durations.ns, durations.ns + count);
  }
}

}  // namespace pergola::scheduler
