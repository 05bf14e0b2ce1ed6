#include "src/scheduler/tuning.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "src/scheduler/json_fields.h"
#include "src/scheduler/kept_file.h"

namespace pergola::scheduler {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kTuningVersion = 1;
constexpr double kMostWayNs = 1e15;  // eleven days
constexpr std::uint64_t kMostSessions = ~std::uint64_t{0} - 1;

// What is known of the two together; `later` knew `earlier`, or was found beside it.
void join(TunedGraph& earlier, const TunedGraph& later) {
  earlier.graph = later.graph;
  for (const auto& [way, ns] : later.ways_ns) earlier.ways_ns[way] = ns;
  if (later.is_finished || !earlier.is_finished) {
    if (!later.kept.empty()) earlier.kept = later.kept;
    earlier.is_finished = later.is_finished;
  } else if (later.kept != earlier.kept && later.ways_ns.contains(earlier.kept)) {  // which does not hold any more
    earlier.kept = later.kept;
    earlier.is_finished = false;
  }
  earlier.last_session = std::max(earlier.last_session, later.last_session);
}

Result<TunedGraph> parse_graph(const Json& object, std::string where) {
  Fields fields(object, std::move(where));
  TunedGraph graph;
  graph.graph = fields.text("graph");
  graph.kept = fields.text("kept");
  graph.is_finished = fields.flag("is_finished");
  graph.last_session = fields.count("last_session", kMostSessions);
  const Json& ways = fields.at("ways_ns");
  if (fields.status().ok() && !ways.is_object()) fields.fail("has 'ways_ns' that are no object");
  PERGOLA_TRY(fields.status());
  constexpr std::size_t kMostWays = 200, kLongestName = 64, kLongestText = 1000;
  if (ways.size() > kMostWays || graph.graph.size() > kLongestText)
    return PERGOLA_ERROR(kParseError, "{} has more than {} ways, or a 'graph' of more than {} bytes.", fields.where(),
                         kMostWays, kLongestText);
  for (const auto& [way, ns] : ways.items()) {
    if (way.size() > kLongestName)
      return PERGOLA_ERROR(kParseError, "{} has a way whose name is longer than {} bytes.", fields.where(),
                           kLongestName);
    if (!ns.is_number() || !(ns.get<double>() > 0) || ns.get<double>() > kMostWayNs)
      return PERGOLA_ERROR(kParseError, "{}: way '{}' has no time in nanoseconds.", fields.where(), way);
    graph.ways_ns[way] = ns.get<double>();
  }
  if (!graph.kept.empty() && !graph.ways_ns.contains(graph.kept))
    return PERGOLA_ERROR(kParseError, "{} has '{}' in 'kept', which has no time in 'ways_ns'.", fields.where(),
                         graph.kept);
  return graph;
}

// Those that were met last stay.
void drop_oldest(std::map<std::string, Tuning::Graphs, std::less<>>& devices) {
  std::vector<std::uint64_t> sessions;
  for (const auto& [device, graphs] : devices)
    for (const auto& [key, graph] : graphs) sessions.push_back(graph.last_session);
  if (sessions.size() <= Tuning::kMostGraphs) return;
  const auto first_kept = sessions.end() - static_cast<std::ptrdiff_t>(Tuning::kMostGraphs);
  std::nth_element(sessions.begin(), first_kept, sessions.end());
  const std::uint64_t least = *first_kept;
  std::size_t left = sessions.size() - Tuning::kMostGraphs;  // of those that one session met some
  for (const bool is_older : {true, false})
    for (auto& [device, graphs] : devices)
      std::erase_if(graphs, [&](const auto& each) {
        const std::uint64_t session = each.second.last_session;
        const bool goes = is_older ? session < least : session == least && left != 0;
        left -= goes ? 1 : 0;
        return goes;
      });
  std::erase_if(devices, [](const auto& each) { return each.second.empty(); });
}

}  // namespace

const TunedGraph* Tuning::find(std::string_view device, std::string_view key) const {
  const auto graphs = devices_.find(device);
  if (graphs == devices_.end()) return nullptr;
  const auto graph = graphs->second.find(key);
  return graph == graphs->second.end() ? nullptr : &graph->second;
}

void Tuning::add(std::string_view device, std::string_view key, TunedGraph graph) {
  auto graphs = devices_.find(device);
  if (graphs == devices_.end()) graphs = devices_.emplace(std::string(device), Graphs()).first;
  const auto known = graphs->second.find(key);
  if (known == graphs->second.end())
    graphs->second.emplace(std::string(key), std::move(graph));
  else
    join(known->second, graph);
}

void Tuning::merge(const Tuning& later) {
  sessions_ = std::min(sessions_ + 1, kMostSessions);
  for (const auto& [device, graphs] : later.devices_) {
    for (const auto& [key, graph] : graphs) {
      TunedGraph met = graph;
      met.last_session = sessions_;
      add(device, key, std::move(met));
    }
  }
  drop_oldest(devices_);
}

std::string Tuning::print() const {
  Json devices = Json::object();
  for (const auto& [device, graphs] : devices_) {
    Json& of_device = devices[device] = Json::object();
    for (const auto& [key, graph] : graphs) {
      Json ways = Json::object();
      for (const auto& [way, ns] : graph.ways_ns) ways[way] = ns;
      of_device[key] = {{"graph", graph.graph},
                        {"kept", graph.kept},
                        {"is_finished", graph.is_finished},
                        {"last_session", graph.last_session},
                        {"ways_ns", std::move(ways)}};
    }
  }
  const Json file = {{"pergola_tuning", kTuningVersion}, {"sessions", sessions_}, {"devices", std::move(devices)}};
  // Names of kernels come from PTX, which may be no UTF-8.
  return file.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string Tuning::table() const {
  std::string text;
  for (const auto& [device, graphs] : devices_) {
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", device);
    for (const auto& [key, graph] : graphs) {
      text += fmt::format("  {} ({})\n", graph.graph, graph.is_finished ? "all ways tried" : "not all ways tried yet");
      std::vector<std::pair<double, std::string>> ways;
      for (const auto& [way, ns] : graph.ways_ns) ways.emplace_back(ns, way);
      std::ranges::sort(ways);
      for (const auto& [ns, way] : ways)
        text += fmt::format("    {:<28} {:>14.1f} us{}\n", way, ns * 1e-3, way == graph.kept ? "   kept" : "");
    }
  }
  return text.empty() ? "Nothing is known of any graph yet.\n" : text;
}

Result<Tuning> Tuning::parse(std::string_view text, std::string_view name) {
  if (text.empty()) return Tuning();  // made for it, as by mktemp
  PERGOLA_ASSIGN(const Json json, parse_json(text, fmt::format("'{}'", name)));
  if (!json.is_object() || !json.contains("pergola_tuning") || !json["pergola_tuning"].is_number_integer())
    return PERGOLA_ERROR(kParseError, "'{}' is no tuning of Pergola: it has no 'pergola_tuning'.", name);
  if (json["pergola_tuning"] != kTuningVersion)
    return PERGOLA_ERROR(kParseError, "'{}' is a tuning of version {}; this program reads version {}.", name,
                         json["pergola_tuning"].dump(), kTuningVersion);
  Fields fields(json, fmt::format("'{}'", name));
  Tuning tuning;
  tuning.sessions_ = fields.count("sessions", kMostSessions);
  const Json& devices = fields.at("devices");
  if (fields.status().ok() && !devices.is_object()) fields.fail("has 'devices' that are no object");
  PERGOLA_TRY(fields.status());
  for (const auto& [device, graphs] : devices.items()) {
    if (!graphs.is_object()) return PERGOLA_ERROR(kParseError, "'{}': device '{}' is no object.", name, device);
    for (const auto& [key, object] : graphs.items()) {
      PERGOLA_ASSIGN(TunedGraph graph, parse_graph(object, fmt::format("'{}': graph '{}'", name, key)));
      tuning.devices_[device][key] = std::move(graph);
    }
  }
  return tuning;
}

Result<Tuning> Tuning::load(const std::filesystem::path& path) {
  return load_kept<Tuning>(path);
}

Result<Tuning> Tuning::open(const std::filesystem::path& path) {
  const std::lock_guard lock(kept_files_mutex);
  PERGOLA_ASSIGN(Tuning known, load(path));
  // One that is there is not written without need, as another process may be about to.
  std::error_code ignored;
  if (!is_written_in_place(path) && (!std::filesystem::exists(path, ignored) || ::access(path.c_str(), W_OK) != 0))
    PERGOLA_TRY(write_named_file(path, known.print()));
  return known;
}

Status Tuning::add_to(const std::filesystem::path& path) const {
  return add_to_kept(*this, path);
}

}  // namespace pergola::scheduler
