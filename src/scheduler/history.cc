#include "src/scheduler/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "src/scheduler/json_fields.h"
#include "src/scheduler/kept_file.h"

namespace pergola::scheduler {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::uint32_t kMostBits = 64;

std::uint32_t distance(const SizeClass& a, const SizeClass& b) {
  const auto apart = [](std::uint32_t x, std::uint32_t y) { return x < y ? y - x : x - y; };
  return apart(a.threads, b.threads) + apart(a.bytes, b.bytes);
}

// "512" "64 Ki" "2 Mi": the least number of a class.
std::string least_of(std::uint32_t bits) {
  if (bits == 0) return "0";
  constexpr std::string_view kPrefixes[] = {"", " Ki", " Mi", " Gi", " Ti", " Pi", " Ei"};
  return fmt::format("{}{}", std::uint64_t{1} << ((bits - 1) % 10), kPrefixes[(bits - 1) / 10]);
}

Result<std::pair<SizeClass, KernelTimes>> parse_row(const Json& row, std::string_view where) {
  const auto bad = [&](std::string_view what) { return PERGOLA_ERROR(kParseError, "{} has {}.", where, what); };
  if (!row.is_object()) return PERGOLA_ERROR(kParseError, "{} has a row that is no object.", where);
  const auto count = [&](const char* name, std::uint64_t& out) {
    if (!row.contains(name) || !row[name].is_number_unsigned()) return false;
    out = row[name].get<std::uint64_t>();
    return true;
  };
  const auto time = [&](const char* name, double& out) {
    if (!row.contains(name) || !row[name].is_number()) return false;
    out = row[name].get<double>();
    return out >= 0 && out <= 1e18;
  };
  std::uint64_t threads = 0, bytes = 0;
  KernelTimes times;
  if (!count("threads_class", threads) || threads > kMostBits) return bad("a row without 'threads_class' from 0 to 64");
  if (!count("bytes_class", bytes) || bytes > kMostBits) return bad("a row without 'bytes_class' from 0 to 64");
  if (!count("count", times.count) || times.count == 0) return bad("a row without a 'count' of 1 or more");
  if (!time("mean_ns", times.mean_ns)) return bad("a row without a 'mean_ns' that is a time");
  if (!time("min_ns", times.min_ns) || times.min_ns > times.mean_ns * (1 + 1e-9))
    return bad("a row without a 'min_ns' up to 'mean_ns'");
  return std::pair{SizeClass{static_cast<std::uint32_t>(threads), static_cast<std::uint32_t>(bytes)}, times};
}

}  // namespace

void KernelTimes::add(const KernelTimes& more) {
  if (more.count == 0) return;
  min_ns = count == 0 ? more.min_ns : std::min(min_ns, more.min_ns);
  const double weight =
      static_cast<double>(more.count) / (static_cast<double>(count) + static_cast<double>(more.count));
  mean_ns += (more.mean_ns - mean_ns) * weight;
  if (__builtin_add_overflow(count, more.count, &count)) count = ~std::uint64_t{0};
}

void History::add(std::string_view device, std::string_view kernel, SizeClass size, double ns) {
  auto kernels = devices_.find(device);
  if (kernels == devices_.end()) kernels = devices_.emplace(std::string(device), Kernels()).first;
  auto sizes = kernels->second.find(kernel);
  if (sizes == kernels->second.end())
    sizes = kernels->second.emplace(std::string(kernel), std::map<SizeClass, KernelTimes>()).first;
  sizes->second[size].add({1, ns, ns});
}

std::optional<Estimate> History::estimate(std::string_view device, std::string_view kernel, SizeClass size) const {
  const auto kernels = devices_.find(device);
  if (kernels == devices_.end()) return std::nullopt;
  const auto sizes = kernels->second.find(kernel);
  if (sizes == kernels->second.end()) return std::nullopt;
  std::optional<Estimate> best;
  for (const auto& [known, times] : sizes->second)
    if (!best || distance(known, size) < best->classes_away) best = Estimate{times, distance(known, size)};
  return best;
}

void History::merge(const History& other) {
  for (const auto& [device, kernels] : other.devices_)
    for (const auto& [kernel, sizes] : kernels)
      for (const auto& [size, times] : sizes) devices_[device][kernel][size].add(times);
}

std::string History::print() const {
  Json devices = Json::object();
  for (const auto& [device, kernels] : devices_) {
    Json& of_device = devices[device] = Json::object();
    for (const auto& [kernel, sizes] : kernels) {
      Json& rows = of_device[kernel] = Json::array();
      for (const auto& [size, times] : sizes)
        rows.push_back({{"threads_class", size.threads},
                        {"bytes_class", size.bytes},
                        {"count", times.count},
                        {"mean_ns", times.mean_ns},
                        {"min_ns", times.min_ns}});
    }
  }
  const Json file = {{"pergola_history", kVersion}, {"devices", std::move(devices)}};
  // Names of kernels come from PTX, which may be no UTF-8.
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string History::table() const {
  std::string text;
  for (const auto& [device, kernels] : devices_) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", device);
    text += fmt::format("  {:<32} {:>12} {:>14} {:>10} {:>14} {:>14}\n", "kernel", "threads from", "bytes from",
                        "count", "mean us", "min us");
    for (const auto& [kernel, sizes] : kernels)
      for (const auto& [size, times] : sizes)
        text += fmt::format("  {:<32} {:>12} {:>14} {:>10} {:>14.3f} {:>14.3f}\n", kernel, least_of(size.threads),
                            least_of(size.bytes), times.count, times.mean_ns * 1e-3, times.min_ns * 1e-3);
  }
  return text.empty() ? "The history is empty.\n" : text;
}

Result<History> History::parse(std::string_view text, std::string_view name) {
  if (text.empty()) return History();  // made for it, as by mktemp
  PERGOLA_ASSIGN(const Json json, parse_json(text, fmt::format("'{}'", name)));
  if (!json.is_object() || !json.contains("pergola_history") || !json["pergola_history"].is_number_integer())
    return PERGOLA_ERROR(kParseError, "'{}' is no history of Pergola: it has no 'pergola_history'.", name);
  if (json["pergola_history"] != kVersion)
    return PERGOLA_ERROR(kParseError, "'{}' is a history of version {}; this program reads version {}.", name,
                         json["pergola_history"].dump(), kVersion);
  if (!json.contains("devices") || !json["devices"].is_object())
    return PERGOLA_ERROR(kParseError, "'{}' has no object 'devices'.", name);
  History history;
  for (const auto& [device, kernels] : json["devices"].items()) {
    if (!kernels.is_object()) return PERGOLA_ERROR(kParseError, "'{}': device '{}' is no object.", name, device);
    for (const auto& [kernel, rows] : kernels.items()) {
      const std::string where = fmt::format("'{}': kernel '{}' of '{}'", name, kernel, device);
      if (!rows.is_array()) return PERGOLA_ERROR(kParseError, "{} is no list.", where);
      for (const Json& row : rows) {
        PERGOLA_ASSIGN(const auto parsed, parse_row(row, where));
        history.devices_[device][kernel][parsed.first].add(parsed.second);
      }
    }
  }
  return history;
}

Result<History> History::load(const std::filesystem::path& path) {
  return load_kept<History>(path);
}

Status History::add_to(const std::filesystem::path& path) const {
  return add_to_kept(*this, path);
}

}  // namespace pergola::scheduler
