#include "tools/pergola/run.h"

#include <algorithm>
#include <chrono>

#include "src/base/file.h"
#include "src/runtime/runtime.h"
#include "tools/pergola/console.h"

namespace pergola::tool {
namespace {

using Json = nlohmann::ordered_json;

// The arguments on the device.
struct Placed {
  std::vector<session::Argument> arguments;
  std::vector<session::ArrayPtr> arrays;  // of each argument; null where it is no array
};

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

Result<Placed> place(session::Session& session, const std::vector<ArgumentSpec>& specs) {
  Placed placed;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    session::ArrayPtr array;
    if (const auto* number = std::get_if<session::Number>(&specs[i])) {
      placed.arguments.emplace_back(*number);
    } else if (const auto* by_value = std::get_if<StructSpec>(&specs[i])) {
      placed.arguments.emplace_back(session::BytesArgument{bytes_of(by_value->bytes)});
    } else if (std::holds_alternative<NullSpec>(specs[i])) {
      placed.arguments.emplace_back(session::AddressArgument{0});
    } else {
      if (const auto* same = std::get_if<SameSpec>(&specs[i])) {
        if (same->argument >= i || placed.arrays[same->argument] == nullptr)
          return PERGOLA_ERROR(kInvalidArgument, "Argument {} is same:{}, which is no array before it.", i,
                               same->argument);
        array = placed.arrays[same->argument];
      } else {
        const NpyArray& contents = std::get<ArraySpec>(specs[i]).contents;
        PERGOLA_ASSIGN(array, session.allocate(contents.type, contents.element_bytes, contents.count()));
        PERGOLA_TRY(array->write(0, bytes_of(contents.data)));
      }
      placed.arguments.emplace_back(session::ArrayArgument{array, 0});
    }
    placed.arrays.push_back(array);
  }
  return placed;
}

Result<session::KernelPtr> choose_kernel(session::Module& module, const RunRequest& request) {
  if (!request.kernel.empty()) return module.kernel(request.kernel);
  const auto& names = module.kernel_names();
  if (names.size() == 1) return module.kernel(names.front());
  if (names.empty())
    return PERGOLA_ERROR(kInvalidArgument, "'{}' has no kernels: these are its __global__ functions, in PTX .entry",
                         request.file);
  std::vector<std::string> listed;
  for (std::size_t i = 0; i < names.size(); ++i)
    listed.push_back(module.refusal(i).empty() ? names[i]
                                               : fmt::format("{} (refused: {})", names[i], module.refusal(i)));
  return PERGOLA_ERROR(kInvalidArgument, "'{}' has {} kernels: {}: name one with --kernel.", request.file, names.size(),
                       fmt::join(listed, ", "));
}

Result<session::LaunchShape> shape_of(const RunRequest& request, const session::KernelInfo& kernel) {
  session::LaunchShape shape;
  if (request.for_each) {
    PERGOLA_ASSIGN(shape, session::for_each_config(kernel, *request.for_each));
  } else {
    PERGOLA_ASSIGN(shape.grid, parse_extents(request.grid, "grid"));
    PERGOLA_ASSIGN(shape.block, parse_extents(request.block, "block"));
  }
  shape.dynamic_shared_bytes = request.shared_bytes;
  shape.cooperative = request.cooperative;
  return shape;
}

// Milliseconds of each launch.
Result<std::vector<double>> launch_all(session::Session& session, session::Kernel& kernel,
                                       const session::LaunchShape& shape, const Placed& placed,
                                       const RunRequest& request) {
  std::optional<std::chrono::nanoseconds> timeout;
  if (request.timeout_seconds > 0)
    timeout = std::chrono::nanoseconds(static_cast<std::int64_t>(request.timeout_seconds * 1e9));
  std::vector<double> times;
  for (std::uint32_t i = 0; i < request.repeat; ++i) {
    PERGOLA_ASSIGN(const session::EventPtr start, session.record());
    session::EventPtr end;
    PERGOLA_TRY(shape.grid.x == 0 ? kernel.launch_nothing(placed.arguments, &end)
                                  : kernel.launch(shape, placed.arguments, &end));
    const Status status = end->wait(timeout);
    if (status.code() == Code::kTimeout)
      return PERGOLA_ERROR(kTimeout, "Kernel '{}' has not ended after {} s.", kernel.info().name,
                           request.timeout_seconds);
    if (!status.ok()) {
      (void)session.synchronize();  // which has the failure told: this reports it, the session's end need not
      return status;
    }
    PERGOLA_ASSIGN(const double elapsed_ns, end->elapsed_ns(*start));
    times.push_back(elapsed_ns * 1e-6);
  }
  return times;
}

// Reads an array back, writes it where it is wanted, and adds what there is to tell.
Status collect(std::size_t index, const session::ArrayPtr& array, const ArraySpec& spec, std::uint32_t show,
               RunReport& report) {
  if (spec.output.empty() && show == 0) return {};
  NpyArray result = spec.contents;
  PERGOLA_TRY(array->read(0, {reinterpret_cast<std::byte*>(result.data.data()), result.data.size()}));
  Json entry = {{"argument", index}, {"type", session::to_string(result.type)}, {"shape", result.shape}};
  report.text +=
      fmt::format("  argument {}: {} x {}", index, session::to_string(result.type), fmt::join(result.shape, "x"));
  if (!spec.output.empty()) {
    PERGOLA_TRY(write_named_file(spec.output, spec.output.ends_with(".npy") ? print_npy(result) : result.data));
    entry["file"] = spec.output;
    report.text += fmt::format(" -> {}", spec.output);
  }
  if (show != 0) {
    std::vector<std::string> values;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(show, result.count()); ++i)
      values.push_back(print_element(
          result.type, std::string_view(result.data).substr(i * result.element_bytes, result.element_bytes)));
    entry["values"] = values;
    report.text += fmt::format(": {}{}", fmt::join(values, " "), result.count() > show ? " ..." : "");
  }
  report.text += "\n";
  report.json["arrays"].push_back(std::move(entry));
  return {};
}

void keep_for_ever(session::SessionPtr session) {
  static auto* const kKept = new std::vector<session::SessionPtr>;
  kKept->push_back(std::move(session));
}

Json extents(const device::Dim3& dim) {
  return {dim.x, dim.y, dim.z};
}

}  // namespace

Result<RunReport> run_kernel(const RunRequest& request) {
  std::string device_name = request.device;
  if (request.check) {
    if (!device_name.empty() && device_name != "cpu")
      return PERGOLA_ERROR(kInvalidArgument,
                           "--check runs on the CPU device, and --device is '{}': leave one of them out.", device_name);
    device_name = "cpu";
    setenv("PERGOLA_CPU_CHECK", "1", 1);
  }
  PERGOLA_ASSIGN(const session::SessionPtr session, runtime::create_session(device_name));
  session::ModulePtr module;
  {
    const Progress progress(fmt::format("loading {}", request.file));
    PERGOLA_ASSIGN(module, session->load_file(request.file, request.load));
  }
  PERGOLA_ASSIGN(const session::KernelPtr kernel, choose_kernel(*module, request));
  PERGOLA_ASSIGN(const session::LaunchShape shape, shape_of(request, kernel->info()));
  PERGOLA_ASSIGN(const Placed placed, place(*session, request.arguments));
  std::vector<double> times;
  {
    const Progress progress(fmt::format("running {}", kernel->info().name));
    Result<std::vector<double>> launched = launch_all(*session, *kernel, shape, placed, request);
    // Ending the session would wait for the kernel; it is kept until the process ends.
    if (launched.code() == Code::kTimeout) keep_for_ever(session);
    PERGOLA_ASSIGN(times, std::move(launched));
  }

  std::vector<double> sorted = times;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted.empty() ? 0 : sorted[sorted.size() / 2];
  const device::DeviceInfo& device = session->device();
  RunReport report;
  report.json = {{"kernel", kernel->info().name},
                 {"device", {{"id", device.id}, {"name", device.name}, {"driver", device.driver}}},
                 {"grid", extents(shape.grid)},
                 {"block", extents(shape.block)},
                 {"dynamic_shared_bytes", shape.dynamic_shared_bytes},
                 {"times_ms", times},
                 {"median_ms", median},
                 {"arrays", Json::array()}};
  report.text =
      fmt::format("{} on {} ({}): grid {},{},{} block {},{},{}: {:.3f} ms", kernel->info().name, device.name, device.id,
                  shape.grid.x, shape.grid.y, shape.grid.z, shape.block.x, shape.block.y, shape.block.z, median);
  report.text += times.size() > 1
                     ? fmt::format(" (median of {}, {:.3f} to {:.3f})\n", times.size(), sorted.front(), sorted.back())
                     : "\n";
  for (std::size_t i = 0; i < request.arguments.size(); ++i)
    if (const auto* spec = std::get_if<ArraySpec>(&request.arguments[i]))
      PERGOLA_TRY(collect(i, placed.arrays[i], *spec, request.show, report));
  return report;
}

}  // namespace pergola::tool
