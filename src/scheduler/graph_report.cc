#include "src/scheduler/graph_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "src/base/plural.h"
#include "src/scheduler/json_fields.h"

namespace pergola::scheduler {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array kWayStates = {WayReport::State::kOnly, WayReport::State::kTried, WayReport::State::kKept,
                                   WayReport::State::kPutBack, WayReport::State::kRefused};
constexpr std::array kGraphStates = {GraphReport::State::kWaiting,  GraphReport::State::kMaking,
                                     GraphReport::State::kReady,    GraphReport::State::kRefused,
                                     GraphReport::State::kReplaced, GraphReport::State::kPutBack};

// ── In words ────────────────────────────────────────────────────────────────────────────────────────────────────────

std::string microseconds(double ns) {
  return ns == 0 ? "not timed" : fmt::format("{:.1f} us", ns * 1e-3);
}

std::string way_text(const WayReport& way, const std::vector<WayReport>& all) {
  switch (way.state) {
    case WayReport::State::kOnly: return fmt::format("{}, the only way: {}", way.name, way.why);
    case WayReport::State::kRefused: return fmt::format("not {}: {}", way.name, way.why);
    case WayReport::State::kTried:
      return fmt::format("{}, {}, still being tried by turns: {}", way.name, microseconds(way.best_ns), way.why);
    case WayReport::State::kKept: return fmt::format("{}, {}, kept: {}", way.name, microseconds(way.best_ns), way.why);
    case WayReport::State::kPutBack: break;
  }
  const auto kept =
      std::find_if(all.begin(), all.end(), [](const WayReport& one) { return one.state == WayReport::State::kKept; });
  std::string reason = "it was not timed";
  if (way.best_ns != 0 && kept != all.end() && kept->best_ns != 0)
    reason =
        way.best_ns >= kept->best_ns
            ? fmt::format("it takes {:.2f} times as long as {}", way.best_ns / kept->best_ns, kept->name)
            : fmt::format("it is faster than {} by {:.1f} %, which is too little, not so each time it was tried, or "
                          "costs the host more than it is worth",
                          kept->name, 100 * (1 - way.best_ns / kept->best_ns));
  return fmt::format("{}, {}, put back as {}: {}", way.name, microseconds(way.best_ns), reason, way.why);
}

std::string graph_text(const GraphReport& graph) {
  const std::string ahead =
      graph.ahead.empty() ? "" : fmt::format(" but {}, which go when they come", fmt::join(graph.ahead, ", "));
  std::string text = graph.launches == 1
                         ? fmt::format("  launch {}: ", graph.first)
                         : fmt::format("  launches {} to {}{}: ", graph.first, graph.first + graph.launches - 1, ahead);
  const std::string elsewhere =
      graph.elsewhere == 0
          ? ""
          : fmt::format(" ({} since its way was chosen, not on the stream on which that is the fastest)",
                        plural(graph.elsewhere, "time"));
  const std::string was = graph.made_after == 0
                              ? ""
                              : fmt::format("a graph since #{}, made in {}, launched {}{}", graph.made_after,
                                            microseconds(graph.making_ns), plural(graph.launched, "time"), elsewhere);
  switch (graph.state) {
    case GraphReport::State::kWaiting: text += "no graph: there has not been enough queued to make one"; break;
    case GraphReport::State::kMaking: text += "its graph is being made"; break;
    case GraphReport::State::kReady: text += was; break;
    case GraphReport::State::kRefused: text += fmt::format("no graph: {}", graph.refusal); break;
    case GraphReport::State::kReplaced:
      text += fmt::format("{}; cut otherwise since, or with other scalars or arrays that change",
                          was.empty() ? "never a graph" : was);
      break;
    case GraphReport::State::kPutBack: text += fmt::format("{}; of a form of turns that was put back", was); break;
  }
  text += "\n";
  for (const WayReport& way : graph.ways) text += fmt::format("    {}\n", way_text(way, graph.ways));
  return text;
}

void add_counts(const RegionReport& region, std::string& text) {
  if (region.met_again != 0) text += fmt::format("  left and met again {}\n", plural(region.met_again, "time"));
  if (!region.varying.empty())
    text +=
        fmt::format("  scalars change from turn to turn, and are in memory, of {}\n", fmt::join(region.varying, ", "));
  if (!region.rebinding.empty())
    text += fmt::format("  arrays change from turn to turn, and their addresses are in memory, of {}\n",
                        fmt::join(region.rebinding, ", "));
  if (region.too_little != 0)
    text += fmt::format(
        "  launches were not held back {}: the device had too little to do ({:.1f} us queued at most; graphs=always "
        "asks for none)\n",
        plural(region.too_little, "time"), region.most_queued_ns * 1e-3);
  if (region.paced != 0) {
    const std::string took =
        fmt::format("turns took {:.1f} us as launches", region.paced_launches_ns * 1e-3) +
        (region.paced_graphs_ns != 0 ? fmt::format(" and {:.1f} us as graphs", region.paced_graphs_ns * 1e-3) : "");
    text += fmt::format("  launches were held back on an idle device {}, as the host was behind it: {}{}\n",
                        plural(region.paced, "time"), took, region.holds_pace ? "; they are now" : "");
  }
  if (region.flushed != 0)
    text += fmt::format(
        "  {} held back and then launched one by one, {} because something else came and {} as they had been held for "
        "too long\n",
        plural(region.flushed, "launch"), plural(region.interrupted, "time"), plural(region.overdue, "time"));
  if (region.mismatched != 0)
    text += fmt::format("  another launch came than was expected {}, the last time: {}\n",
                        plural(region.mismatched, "time"), region.mismatch);
  for (const WayReport& form : region.forms) text += fmt::format("  turns as {}\n", way_text(form, region.forms));
}

}  // namespace

std::string to_string(const std::vector<KernelCount>& kernels) {
  std::vector<std::string> words;
  for (const KernelCount& kernel : kernels) words.push_back(fmt::format("{} {}", kernel.name, kernel.count));
  return fmt::format("{}", fmt::join(words, ", "));
}

std::string_view to_string(WayReport::State state) {
  switch (state) {
    case WayReport::State::kOnly: return "only";
    case WayReport::State::kTried: return "tried";
    case WayReport::State::kKept: return "kept";
    case WayReport::State::kPutBack: return "put-back";
    case WayReport::State::kRefused: return "refused";
  }
  return "?";
}

std::string_view to_string(GraphReport::State state) {
  switch (state) {
    case GraphReport::State::kWaiting: return "waiting";
    case GraphReport::State::kMaking: return "making";
    case GraphReport::State::kReady: return "ready";
    case GraphReport::State::kRefused: return "refused";
    case GraphReport::State::kReplaced: return "replaced";
    case GraphReport::State::kPutBack: return "put-back";
  }
  return "?";
}

std::string explain(const GraphsReport& report) {
  if (!report.off.empty()) return fmt::format("no launches become graphs: {}\n", report.off) + explain(report.tasks);
  std::string text;
  if (report.regions.empty())
    text = fmt::format("no launches became graphs: of {} none recurred for long enough\n",
                       plural(report.launches, "launch"));
  if (report.apart != 0)
    text += fmt::format("{} could not be part of a graph: cooperative, in clusters, or with early start\n",
                        plural(report.apart, "launch"));
  if (report.forgotten != 0) text += fmt::format("{} older regions are not told of\n", report.forgotten);
  for (const RegionReport& region : report.regions) {
    text += fmt::format("region {}: {} recur{} ({}), found after #{}; graphs stood for {} of them\n", region.number,
                        plural(region.period, "launch"), region.period == 1 ? "s" : "", to_string(region.kernels),
                        region.found_after, region.replaced);
    add_counts(region, text);
    if (region.forgotten_graphs != 0)
      text += fmt::format("  {} older runs of launches are not told of\n", region.forgotten_graphs);
    for (const GraphReport& graph : region.graphs) text += graph_text(graph);
  }
  return text + explain(report.tasks);
}

// ── As JSON ─────────────────────────────────────────────────────────────────────────────────────────────────────────

namespace {

Json json_of(const WayReport& way) {
  return {{"name", way.name},
          {"state", to_string(way.state)},
          {"best_us", way.best_ns * 1e-3},
          {"tries", way.tries},
          {"why", way.why}};
}

Json json_of(const GraphReport& graph) {
  Json ways = Json::array();
  for (const WayReport& way : graph.ways) ways.push_back(json_of(way));
  return {{"first", graph.first},
          {"launches", graph.launches},
          {"ahead", graph.ahead},
          {"state", to_string(graph.state)},
          {"refusal", graph.refusal},
          {"made_after", graph.made_after},
          {"launched", graph.launched},
          {"elsewhere", graph.elsewhere},
          {"making_us", graph.making_ns * 1e-3},
          {"ways", std::move(ways)}};
}

Json json_of(const RegionReport& region) {
  Json kernels = Json::array(), forms = Json::array(), graphs = Json::array();
  for (const WayReport& form : region.forms) forms.push_back(json_of(form));
  for (const KernelCount& kernel : region.kernels) kernels.push_back({{"name", kernel.name}, {"count", kernel.count}});
  for (const GraphReport& graph : region.graphs) graphs.push_back(json_of(graph));
  return {{"number", region.number},
          {"period", region.period},
          {"kernels", std::move(kernels)},
          {"found_after", region.found_after},
          {"met_again", region.met_again},
          {"varying", region.varying},
          {"rebinding", region.rebinding},
          {"replaced", region.replaced},
          {"flushed", region.flushed},
          {"interrupted", region.interrupted},
          {"overdue", region.overdue},
          {"mismatched", region.mismatched},
          {"mismatch", region.mismatch},
          {"too_little", region.too_little},
          {"most_queued_us", region.most_queued_ns * 1e-3},
          {"forgotten_graphs", region.forgotten_graphs},
          {"paced", region.paced},
          {"holds_pace", region.holds_pace},
          {"paced_launches_us", region.paced_launches_ns * 1e-3},
          {"paced_graphs_us", region.paced_graphs_ns * 1e-3},
          {"forms", std::move(forms)},
          {"graphs", std::move(graphs)}};
}

Json json_of(const TasksReport& tasks) {
  Json kernels = Json::array();
  for (const TasksReport::Kernel& kernel : tasks.kernels) {
    Json apart = Json::object();
    for (std::size_t i = 0; i < kNoTaskReasons; ++i)
      if (kernel.tally.apart[i] != 0) apart[std::string(to_string(static_cast<NoTask>(i)))] = kernel.tally.apart[i];
    kernels.push_back({{"name", kernel.name},
                       {"tasks", kernel.tally.tasks},
                       {"apart", std::move(apart)},
                       {"refusal", kernel.tally.refusal}});
  }
  return {{"off", tasks.off}, {"kernels", std::move(kernels)}};
}

// One by one, each by its place.
template <typename Read>
Status each(Fields& fields, const char* name, std::string_view what, Read read) {
  const Json& list = fields.at(name);
  if (!list.is_array()) fields.fail(fmt::format("has '{}' that are no list", name));
  PERGOLA_TRY(fields.status());
  std::size_t index = 0;
  for (const Json& item : list) {
    Fields inner(item, fmt::format("{}, {} {}", fields.where(), what, index++));
    PERGOLA_TRY(read(inner));
    PERGOLA_TRY(inner.status());
  }
  return {};
}

Status read_kernels(Fields& fields, std::vector<KernelCount>& kernels) {
  return each(fields, "kernels", "kernel", [&](Fields& kernel) -> Status {
    kernels.push_back({kernel.text("name"), kernel.count("count")});
    return {};
  });
}

Status read_ways(Fields& fields, const char* name, std::string_view what, std::vector<WayReport>& ways) {
  return each(fields, name, what, [&](Fields& way) -> Status {
    WayReport& one = ways.emplace_back();
    one.name = way.text("name");
    one.state = way.word("state", kWayStates);
    one.best_ns = way.time_ns("best_us");
    one.tries = way.count("tries");
    one.why = way.text("why");
    return {};
  });
}

// Launches of a graph.
Status read_launches(Fields& fields, const char* key, std::vector<std::uint64_t>& launches) {
  if (!fields.has(key)) return {};  // older traces have none
  const Json& list = fields.at(key);
  if (!list.is_array()) fields.fail(fmt::format("has '{}' that are no list", key));
  PERGOLA_TRY(fields.status());
  for (const Json& launch : list) {
    if (!launch.is_number_unsigned()) fields.fail(fmt::format("has a launch in '{}' that is no whole number", key));
    PERGOLA_TRY(fields.status());
    launches.push_back(launch.get<std::uint64_t>());
  }
  return {};
}

Status read_graph(Fields& fields, GraphReport& graph) {
  graph.first = fields.count("first", 1u << 30);
  graph.launches = fields.count("launches", 1u << 30);
  PERGOLA_TRY(read_launches(fields, "ahead", graph.ahead));
  graph.state = fields.word("state", kGraphStates);
  graph.refusal = fields.text("refusal");
  graph.made_after = fields.count("made_after");
  graph.launched = fields.count("launched");
  if (fields.has("elsewhere")) graph.elsewhere = fields.count("elsewhere");  // older traces have none
  if (fields.has("making_us")) graph.making_ns = fields.time_ns("making_us");  // older traces have none
  return read_ways(fields, "ways", "way", graph.ways);
}

// Of kernels.
Status read_names(Fields& fields, const char* key, std::vector<std::string>& names) {
  const Json& list = fields.at(key);
  if (!list.is_array()) fields.fail(fmt::format("has '{}' that are no list", key));
  PERGOLA_TRY(fields.status());
  for (const Json& name : list) {
    if (!name.is_string()) fields.fail(fmt::format("has a name in '{}' that is no text", key));
    PERGOLA_TRY(fields.status());
    names.push_back(name.get<std::string>());
  }
  return {};
}

Status read_region(Fields& fields, RegionReport& region) {
  region.number = fields.count("number");
  region.period = fields.count("period", 1u << 30);
  PERGOLA_TRY(read_kernels(fields, region.kernels));
  region.found_after = fields.count("found_after");
  region.met_again = fields.count("met_again");
  PERGOLA_TRY(read_names(fields, "varying", region.varying));
  if (fields.has("rebinding")) PERGOLA_TRY(read_names(fields, "rebinding", region.rebinding));  // older traces have none
  region.replaced = fields.count("replaced");
  region.flushed = fields.count("flushed");
  region.interrupted = fields.count("interrupted");
  region.overdue = fields.count("overdue");
  region.mismatched = fields.count("mismatched");
  region.mismatch = fields.text("mismatch");
  region.too_little = fields.count("too_little");
  region.most_queued_ns = fields.time_ns("most_queued_us");
  region.forgotten_graphs = fields.count("forgotten_graphs");
  if (fields.has("paced")) {  // older traces have none
    region.paced = fields.count("paced");
    region.holds_pace = fields.flag("holds_pace");
    region.paced_launches_ns = fields.time_ns("paced_launches_us");
    region.paced_graphs_ns = fields.time_ns("paced_graphs_us");
  }
  if (fields.has("forms")) PERGOLA_TRY(read_ways(fields, "forms", "form", region.forms));  // older traces have none
  return each(fields, "graphs", "graph",
              [&](Fields& graph) { return read_graph(graph, region.graphs.emplace_back()); });
}

Status read_tasks(Fields& fields, TasksReport& tasks) {
  tasks.off = fields.text("off");
  return each(fields, "kernels", "kernel", [&](Fields& kernel) -> Status {
    TasksReport::Kernel& one = tasks.kernels.emplace_back();
    one.name = kernel.text("name");
    one.tally.tasks = kernel.count("tasks");
    one.tally.refusal = kernel.text("refusal");
    Fields apart(kernel.at("apart"), kernel.where() + ", apart");
    for (std::size_t i = 0; i < kNoTaskReasons; ++i) {
      const std::string word(to_string(static_cast<NoTask>(i)));
      if (apart.has(word.c_str())) one.tally.apart[i] = apart.count(word.c_str());
    }
    return apart.status();
  });
}

}  // namespace

std::string print_graphs(const GraphsReport& report) {
  Json regions = Json::array();
  for (const RegionReport& region : report.regions) regions.push_back(json_of(region));
  Json json = {{"off", report.off},
               {"launches", report.launches},
               {"apart", report.apart},
               {"forgotten", report.forgotten},
               {"regions", std::move(regions)}};
  if (report.tasks != TasksReport()) json["tasks"] = json_of(report.tasks);
  // Names of kernels come from PTX, which may be no UTF-8.
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Result<GraphsReport> parse_graphs(std::string_view text, const std::string& where) {
  PERGOLA_ASSIGN(const Json json, parse_json(text, where));
  Fields fields(json, where);
  GraphsReport report;
  report.off = fields.text("off");
  report.launches = fields.count("launches");
  report.apart = fields.count("apart");
  report.forgotten = fields.count("forgotten");
  PERGOLA_TRY(each(fields, "regions", "region",
                   [&](Fields& region) { return read_region(region, report.regions.emplace_back()); }));
  if (fields.has("tasks")) {  // where the policy has tasks
    Fields tasks(fields.at("tasks"), fields.where() + ", tasks");
    PERGOLA_TRY(read_tasks(tasks, report.tasks));
    PERGOLA_TRY(tasks.status());
  }
  PERGOLA_TRY(fields.status());
  return report;
}

}  // namespace pergola::scheduler
