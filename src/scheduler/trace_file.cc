#include "src/scheduler/trace_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "src/scheduler/json_fields.h"
#include "src/scheduler/task_timeline.h"

namespace pergola::scheduler {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr int kProcess = 1, kTaskProcess = 2;
constexpr char kTaskCategory[] = "task";
constexpr std::uint32_t kFirstHostTrack = 1u << 20, kFirstCopyTrack = 1u << 24;
constexpr std::size_t kMostEvents = 4'000'000;

constexpr std::array kKinds = {WorkKind::kKernel, WorkKind::kCopyToDevice, WorkKind::kCopyToHost,
                               WorkKind::kCopy,   WorkKind::kFill,         WorkKind::kLibrary,
                               WorkKind::kGraph,  WorkKind::kStreamWait};
constexpr std::array kReasons = {StreamReason::kNew,        StreamReason::kAlwaysNew,    StreamReason::kIdle,
                                 StreamReason::kFirstChild, StreamReason::kSameAsParent, StreamReason::kFreeByThen,
                                 StreamReason::kCopies,     StreamReason::kBound,        StreamReason::kExhausted,
                                 StreamReason::kSoonFree,   StreamReason::kGraph};
constexpr std::array kOrders = {Order::kSameStream, Order::kEvent, Order::kLateEvent, Order::kImplied, Order::kEnded};
constexpr std::array kHazards = {Hazard::kReadAfterWrite, Hazard::kWriteAfterRead, Hazard::kWriteAfterWrite,
                                 Hazard::kUniversal};
constexpr std::array kHostKinds = {HostKind::kWait, HostKind::kRead, HostKind::kWrite, HostKind::kSynchronize,
                                   HostKind::kTasks};

// ── Writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────

struct Track {
  std::uint32_t number = 0;
  std::string name;
};

// Of each slice, in their order. A GPU has a copy engine for each way. Copies of several streams that wait for one
// overlap, as a slice begins when its stream has come to it: of one track none do, so there are more of them then.
std::vector<Track> tracks_of(const std::vector<Slice>& slices) {
  std::vector<Track> tracks(slices.size());
  std::vector<std::size_t> copies;
  for (std::size_t n = 0; n < slices.size(); ++n) {
    if (is_transfer(slices[n].kind)) copies.push_back(n);
    tracks[n] = {slices[n].stream + 1, fmt::format("stream {}", slices[n].stream)};
  }
  std::ranges::sort(copies, {}, [&](std::size_t n) { return std::pair(slices[n].start_ns, n); });
  std::array<std::vector<double>, 2> free_at;  // by way, then row
  for (const std::size_t n : copies) {
    const bool to_host = slices[n].kind == WorkKind::kCopyToHost;
    const std::uint32_t number = take_row(free_at[to_host ? 1 : 0], slices[n].start_ns, slices[n].end_ns);
    tracks[n] = {kFirstCopyTrack + 2 * number + (to_host ? 1 : 0),
                 fmt::format("copies to the {}{}", to_host ? "host" : "device",
                             number == 0 ? "" : fmt::format(" ({})", number + 1))};
  }
  return tracks;
}

Json parents_json(const std::vector<DagVertex::Edge>& edges) {
  Json parents = Json::array();
  for (const DagVertex::Edge& edge : edges) {
    parents.push_back({{"id", edge.parent},
                       {"array", edge.resource},
                       {"hazard", to_string(edge.hazard)},
                       {"order", to_string(edge.order)}});
    if (edge.argument != 0) parents.back()["argument"] = edge.argument - 1;
  }
  return parents;
}

Json dim3_json(const device::Dim3& dim) {
  return Json::array({dim.x, dim.y, dim.z});
}

std::string host_name(const HostSlice& slice) {
  switch (slice.kind) {
    case HostKind::kWait: return "wait for " + resource_name(slice.array);
    case HostKind::kRead: return "read " + resource_name(slice.array);
    case HostKind::kWrite: return "write " + resource_name(slice.array);
    case HostKind::kSynchronize: return "synchronize";
    case HostKind::kTasks: return "wait for tasks";
  }
  return "?";
}

class Writer {
 public:
  void add(const Json& event) {
    text_ += text_.empty() ? "\n" : ",\n";
    // Names of kernels come from PTX, which may be no UTF-8.
    text_ += event.dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  void process(int number, const std::string& name) {
    add({{"ph", "M"}, {"pid", number}, {"name", "process_name"}, {"args", {{"name", name}}}});
  }
  void track(std::uint32_t number, const std::string& name) {
    if (tracks_.insert(number).second) name_track(kProcess, number, name, number);
  }
  void name_track(int process, std::uint32_t number, const std::string& name, std::uint64_t sort_index) {
    add({{"ph", "M"}, {"pid", process}, {"tid", number}, {"name", "thread_name"}, {"args", {{"name", name}}}});
    add({{"ph", "M"},
         {"pid", process},
         {"tid", number},
         {"name", "thread_sort_index"},
         {"args", {{"sort_index", sort_index}}}});
  }
  void slice(std::uint32_t track, const std::string& name, std::string_view category, double start_ns, double end_ns,
             Json args, int process = kProcess) {
    add({{"ph", "X"},
         {"pid", process},
         {"tid", track},
         {"ts", start_ns * 1e-3},
         {"dur", (end_ns - start_ns) * 1e-3},
         {"name", name},
         {"cat", category},
         {"args", std::move(args)}});
  }
  static double inside_end_of(double start_ns, double end_ns) { return end_ns - std::min(1.0, end_ns - start_ns) / 2; }
  void arrow(const Slice& from, std::uint32_t from_track, std::uint32_t to_track, double to_ns, std::string_view name) {
    ++arrows_;
    // An arrow begins in the slice that is open at its time, so a little before the parent's end.
    const double from_ns = inside_end_of(from.start_ns, from.end_ns);
    const Json common = {{"pid", kProcess}, {"name", name}, {"cat", "dependency"}, {"id", arrows_}};
    Json begin = common, end = common;
    begin.update({{"ph", "s"}, {"tid", from_track}, {"ts", from_ns * 1e-3}});
    end.update({{"ph", "f"}, {"bp", "e"}, {"tid", to_track}, {"ts", to_ns * 1e-3}});
    add(begin);
    add(end);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  std::set<std::uint32_t> tracks_;
  std::uint64_t arrows_ = 0;
};

void write_slice(const Slice& slice, const Track& track, Writer& writer) {
  writer.track(track.number, track.name);
  Json args = {{"id", slice.id},
               {"stream", slice.stream},
               {"thread", slice.thread},
               {"bytes", slice.bytes},
               {"reason", to_string(slice.reason)},
               {"parents", parents_json(slice.parents)}};
  if (slice.more_parents != 0) args["more_parents"] = slice.more_parents;
  if (slice.detail.threads() != 0) {
    args["grid"] = dim3_json(slice.detail.grid);
    args["block"] = dim3_json(slice.detail.block);
    args["shared_bytes"] = slice.detail.shared_bytes;
  }
  if (!slice.detail.arguments.empty()) args["arguments"] = slice.detail.arguments;
  if (const GraphDetail& graph = slice.detail.graph; !graph.kernels.empty()) {
    args["region"] = graph.region;
    args["way"] = graph.way;
    args["kernels"] = Json::array();
    for (const KernelCount& kernel : graph.kernels)
      args["kernels"].push_back({{"name", kernel.name}, {"count", kernel.count}});
  }
  writer.slice(track.number, slice.name, to_string(slice.kind), slice.start_ns, slice.end_ns, std::move(args));
}

void write_host(const HostSlice& slice, Writer& writer) {
  const std::uint32_t track = kFirstHostTrack + slice.thread;
  writer.track(track, fmt::format("host thread {}", slice.thread));
  Json args = {{"thread", slice.thread}, {"array", slice.array}, {"bytes", slice.bytes}, {"last_id", slice.last_id}};
  if (slice.kind == HostKind::kTasks) args["tasks"] = slice.tasks;
  if (!slice.parents.empty()) args["parents"] = parents_json(slice.parents);
  writer.slice(track, host_name(slice), fmt::format("host {}", to_string(slice.kind)), slice.start_ns, slice.end_ns,
               std::move(args));
}

// Tasks of one place that ran beside each other are on tracks of their own.
void write_tasks(const Timeline& timeline, Writer& writer) {
  if (timeline.tasks.empty()) return;
  writer.process(kTaskProcess, "Narrow tasks on " + timeline.device);
  const char* const place = timeline.tasks_are_resident ? "resident block" : "thread";
  const std::vector<std::uint32_t> rows = task_rows(timeline);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> tracks;  // by place and row
  for (std::size_t n = 0; n < rows.size(); ++n) {
    const TaskSlice& task = timeline.tasks[n];
    const auto track = tracks.try_emplace({task.place, rows[n]}, static_cast<std::uint32_t>(tracks.size() + 1));
    const std::uint32_t number = track.first->second;
    if (track.second)
      writer.name_track(kTaskProcess, number,
                        rows[n] == 0 ? fmt::format("{} {}", place, task.place)
                                     : fmt::format("{} {} ({})", place, task.place, rows[n] + 1),
                        (std::uint64_t{task.place} << 16) + rows[n]);
    Json args = {{"place", task.place}};
    if (task.id != 0) args["task"] = fmt::format("{:#x}", task.id);  // as messages have it
    writer.slice(number, task.name, kTaskCategory, task.start_ns, task.end_ns, std::move(args), kTaskProcess);
  }
}

// ── Reading ─────────────────────────────────────────────────────────────────────────────────────────────────────────

// Every parent comes before `before`.
Result<std::vector<DagVertex::Edge>> parse_parents(Fields& fields, std::uint64_t before) {
  std::vector<DagVertex::Edge> edges;
  if (!fields.has("parents")) return edges;
  const Json& list = fields.at("parents");
  if (!list.is_array()) return PERGOLA_ERROR(kParseError, "{} has 'parents' that are no list.", fields.where());
  for (const Json& item : list) {
    Fields parent(item, fmt::format("{}, parent {}", fields.where(), edges.size()));
    DagVertex::Edge& edge = edges.emplace_back();
    edge.parent = parent.count("id");
    edge.resource = parent.count("array");
    edge.hazard = parent.word("hazard", kHazards);
    edge.order = parent.word("order", kOrders);
    if (parent.has("argument")) {
      constexpr std::uint64_t kMost = 4096;
      const std::uint64_t argument = parent.count("argument");
      if (argument >= kMost) parent.fail("has an 'argument' that no kernel has");
      edge.argument = static_cast<std::uint16_t>(argument % kMost + 1);
    }
    if (edge.parent == 0 || edge.parent >= before) parent.fail("does not come before its child");
    PERGOLA_TRY(parent.status());
  }
  return edges;
}

Result<GraphDetail> parse_graph_detail(Fields& args) {
  GraphDetail graph;
  graph.region = args.count("region");
  graph.way = args.text("way");
  const Json& list = args.at("kernels");
  if (!list.is_array() || list.empty()) args.fail("has 'kernels' that are no list of kernels");
  PERGOLA_TRY(args.status());
  for (const Json& item : list) {
    Fields kernel(item, fmt::format("{}, kernel {}", args.where(), graph.kernels.size()));
    graph.kernels.push_back({kernel.text("name"), kernel.count("count", 1u << 30)});
    PERGOLA_TRY(kernel.status());
  }
  return graph;
}

Result<Slice> parse_slice(Fields& event, Fields& args, WorkKind kind) {
  Slice slice;
  slice.kind = kind;
  slice.name = event.text("name");
  slice.start_ns = event.time_ns("ts");
  slice.end_ns = slice.start_ns + event.time_ns("dur");
  slice.id = args.count("id", ~std::uint64_t{0} - 1);
  slice.stream = static_cast<std::uint32_t>(args.count("stream", kFirstHostTrack / 2 - 2));
  slice.thread = static_cast<std::uint32_t>(args.count("thread", 0xffffffffu - kFirstHostTrack));
  slice.bytes = args.count("bytes");
  slice.reason = args.word("reason", kReasons);
  if (args.has("more_parents"))
    slice.more_parents = static_cast<std::uint32_t>(args.count("more_parents", 0xffffffffu));
  if (args.has("grid")) {
    slice.detail.grid = args.dim3("grid");
    slice.detail.block = args.dim3("block");
    slice.detail.shared_bytes = static_cast<std::uint32_t>(args.count("shared_bytes", 0xffffffffu));
  }
  if (args.has("arguments")) slice.detail.arguments = args.text("arguments");
  if (args.has("kernels")) {
    PERGOLA_ASSIGN(slice.detail.graph, parse_graph_detail(args));
  }
  if (slice.id == 0) args.fail("has the 'id' 0");
  if (slice.end_ns < slice.start_ns) event.fail("has a negative 'dur'");
  PERGOLA_TRY(args.status());
  PERGOLA_ASSIGN(slice.parents, parse_parents(args, slice.id));
  PERGOLA_TRY(args.status());
  PERGOLA_TRY(event.status());
  return slice;
}

Result<HostSlice> parse_host(Fields& event, Fields& args, HostKind kind) {
  HostSlice slice;
  slice.kind = kind;
  slice.start_ns = event.time_ns("ts");
  slice.end_ns = slice.start_ns + event.time_ns("dur");
  slice.thread = static_cast<std::uint32_t>(args.count("thread", 0xffffffffu - kFirstHostTrack));
  slice.array = args.count("array");
  slice.bytes = args.count("bytes");
  slice.last_id = args.count("last_id", ~std::uint64_t{0} - 1);
  if (kind == HostKind::kTasks) slice.tasks = args.count("tasks");
  if (slice.end_ns < slice.start_ns) event.fail("has a negative 'dur'");
  PERGOLA_ASSIGN(slice.parents, parse_parents(args, slice.last_id + 1));
  PERGOLA_TRY(args.status());
  PERGOLA_TRY(event.status());
  return slice;
}

Result<TaskSlice> parse_task(Fields& event, Fields& args) {
  TaskSlice task;
  task.name = event.text("name");
  task.start_ns = event.time_ns("ts");
  task.end_ns = task.start_ns + event.time_ns("dur");
  task.place = static_cast<std::uint32_t>(args.count("place", 0xffffffffu));
  if (args.has("task")) {
    const std::string id = args.text("task");
    const char* const end = id.data() + id.size();
    const bool is_hex = id.starts_with("0x");
    const auto read = std::from_chars(id.data() + (is_hex ? 2 : 0), end, task.id, 16);
    if (!is_hex || read.ec != std::errc() || read.ptr != end || task.id == 0)
      args.fail(fmt::format("has a 'task' that is no id: '{}'", id));
  }
  if (task.end_ns < task.start_ns) event.fail("has a negative 'dur'");
  PERGOLA_TRY(args.status());
  PERGOLA_TRY(event.status());
  return task;
}

template <typename Enum, std::size_t n>
std::optional<Enum> known_word(const std::string& text, std::string_view prefix, const std::array<Enum, n>& known) {
  for (const Enum each : known)
    if (text == fmt::format("{}{}", prefix, to_string(each))) return each;
  return std::nullopt;
}

Status parse_event(const Json& json, const std::string& where, Timeline& timeline) {
  Fields event(json, where);
  const std::string phase = event.text("ph");
  PERGOLA_TRY(event.status());
  if (phase != "X") return {};
  const std::string category = event.text("cat");
  const std::optional<WorkKind> work = known_word(category, "", kKinds);
  const std::optional<HostKind> host = known_word(category, "host ", kHostKinds);
  PERGOLA_TRY(event.status());
  const bool is_task = category == kTaskCategory;
  if (!work && !host && !is_task) return {};
  const Json& object = event.at("args");
  PERGOLA_TRY(event.status());
  Fields args(object, where + ", args");
  PERGOLA_TRY(args.status());
  if (work) {
    PERGOLA_ASSIGN(Slice slice, parse_slice(event, args, *work));
    timeline.slices.push_back(std::move(slice));
  } else if (is_task) {
    PERGOLA_ASSIGN(TaskSlice task, parse_task(event, args));
    timeline.tasks.push_back(std::move(task));
  } else {
    PERGOLA_ASSIGN(HostSlice slice, parse_host(event, args, *host));
    timeline.host.push_back(std::move(slice));
  }
  return {};
}

}  // namespace

std::string_view to_string(HostKind kind) {
  switch (kind) {
    case HostKind::kWait: return "wait";
    case HostKind::kRead: return "read";
    case HostKind::kWrite: return "write";
    case HostKind::kSynchronize: return "synchronize";
    case HostKind::kTasks: return "tasks";
  }
  return "?";
}

std::string print_trace(const Timeline& timeline) {
  Writer writer;
  writer.process(kProcess, "Pergola on " + timeline.device);
  const std::vector<Track> tracks = tracks_of(timeline.slices);
  std::map<std::uint64_t, std::size_t> by_id;
  const auto arrows = [&](const std::vector<DagVertex::Edge>& edges, std::uint32_t track, double at_ns) {
    std::set<std::uint64_t> drawn;  // one arrow a parent, however many arrays are between them
    for (const DagVertex::Edge& edge : edges)
      if (const auto parent = by_id.find(edge.parent); parent != by_id.end() && drawn.insert(edge.parent).second)
        writer.arrow(timeline.slices[parent->second], tracks[parent->second].number, track, at_ns,
                     to_string(edge.hazard));
  };
  for (std::size_t n = 0; n < timeline.slices.size(); ++n) {
    const Slice& slice = timeline.slices[n];
    by_id[slice.id] = n;
    write_slice(slice, tracks[n], writer);
    arrows(slice.parents, tracks[n].number, slice.start_ns);
  }
  for (const HostSlice& slice : timeline.host) {
    write_host(slice, writer);
    arrows(slice.parents, kFirstHostTrack + slice.thread, Writer::inside_end_of(slice.start_ns, slice.end_ns));
  }
  write_tasks(timeline, writer);
  const Json about = {{"pergola_trace", kVersion},
                      {"device", timeline.device},
                      {"policy", timeline.policy},
                      {"host_error_ns", timeline.host_error_ns},
                      {"dropped", timeline.dropped},
                      {"without_time", timeline.without_time},
                      {"tasks_are_resident", timeline.tasks_are_resident},
                      {"dropped_tasks", timeline.dropped_tasks},
                      {"graphs", Json::parse(print_graphs(timeline.graphs))}};
  return fmt::format("{{\"displayTimeUnit\":\"ns\",\"otherData\":{},\"traceEvents\":[{}\n]}}\n",
                     about.dump(-1, ' ', false, Json::error_handler_t::replace), writer.text());
}

Result<Timeline> parse_trace(std::string_view text, std::string_view name) {
  PERGOLA_ASSIGN(const Json json, parse_json(text, fmt::format("'{}'", name)));
  Fields file(json, fmt::format("'{}'", name));
  if (!file.has("otherData") || !json["otherData"].is_object() || !json["otherData"].contains("pergola_trace"))
    return PERGOLA_ERROR(kParseError, "'{}' is no trace of Pergola: it has no 'otherData' with 'pergola_trace'.", name);
  Fields about(json["otherData"], fmt::format("'{}', otherData", name));
  if (const std::uint64_t version = about.count("pergola_trace"); about.status().ok() && version != kVersion)
    return PERGOLA_ERROR(kParseError, "'{}' is a trace of version {}; this program reads version {}.", name, version,
                         kVersion);
  Timeline timeline;
  timeline.device = about.text("device");
  timeline.policy = about.text("policy");
  if (about.has("host_error_ns")) timeline.host_error_ns = about.number("host_error_ns");
  timeline.dropped = about.count("dropped");
  timeline.without_time = about.count("without_time");
  if (about.has("tasks_are_resident")) timeline.tasks_are_resident = about.flag("tasks_are_resident");
  if (about.has("dropped_tasks")) timeline.dropped_tasks = about.count("dropped_tasks");
  PERGOLA_TRY(about.status());
  if (about.has("graphs")) {
    PERGOLA_ASSIGN(timeline.graphs, parse_graphs(about.at("graphs").dump(), fmt::format("'{}', graphs", name)));
  }
  const Json& events = file.at("traceEvents");
  if (!events.is_array()) file.fail("has 'traceEvents' that are no list");
  if (events.size() > kMostEvents) file.fail(fmt::format("has more than {} events", kMostEvents));
  PERGOLA_TRY(file.status());
  std::size_t index = 0;
  for (const Json& event : events)
    PERGOLA_TRY(parse_event(event, fmt::format("'{}', event {}", name, index++), timeline));
  std::sort(timeline.slices.begin(), timeline.slices.end(), [](const Slice& a, const Slice& b) { return a.id < b.id; });
  std::sort(timeline.tasks.begin(), timeline.tasks.end(), [](const TaskSlice& a, const TaskSlice& b) {
    return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns < b.end_ns;
  });
  const auto twice = std::adjacent_find(timeline.slices.begin(), timeline.slices.end(),
                                        [](const Slice& a, const Slice& b) { return a.id == b.id; });
  if (twice != timeline.slices.end())
    return PERGOLA_ERROR(kParseError, "'{}' has two computations of 'id' {}.", name, twice->id);
  return timeline;
}

}  // namespace pergola::scheduler
