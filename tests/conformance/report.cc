#include "tests/conformance/report.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <fstream>
#include <map>
#include <thread>

#include "src/base/file.h"
#include "tests/conformance/registry.h"
#include "tests/support/stamp.h"

namespace pergola::conformance {
namespace {

std::string host() {
  std::string model = "unknown processor";
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0) {
      model = line.substr(line.find(':') + 2);
      break;
    }
  utsname system{};
  uname(&system);
  return fmt::format("{} cores, {}, {} {}", std::thread::hardware_concurrency(), model, system.sysname,
                     system.release);
}

class Listener final : public ::testing::EmptyTestEventListener {
 public:
  explicit Listener(Report& report) : report_(report) {}
  void OnTestEnd(const ::testing::TestInfo& test) override { report_.add(test); }

 private:
  Report& report_;
};

std::string first_line(const char* text) {
  const std::string all = text == nullptr ? "" : text;
  return all.substr(0, all.find('\n'));
}

std::string escape(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

}  // namespace

Report::Report(std::string command) {
  std::string names, drivers;
  for (const DeviceCase& each : devices()) {
    const device::DeviceInfo& info = each.device->info();
    names += fmt::format("{}{}: {}", names.empty() ? "" : "; ", each.name, info.name);
    if (info.kind == device::DeviceKind::kCuda) drivers = info.driver;
  }
  head_ = {{"suite", "conformance"}, {"device", names},
           {"driver", drivers.empty() ? "none" : drivers}, {"host", host()},
           {"commit", test_support::commit()}, {"date", test_support::now_utc()},
           {"command", std::move(command)}};
}

::testing::TestEventListener* Report::make_listener() { return new Listener(*this); }

void Report::add(const ::testing::TestInfo& test) {
  std::string suite = test.test_suite_name(), name = test.name();
  suite.erase(0, suite.find('/') + 1);
  const std::size_t slash = name.rfind('/');
  const std::string device = slash == std::string::npos ? "" : name.substr(slash + 1);
  const ::testing::TestResult& result = *test.result();
  std::string outcome = result.Skipped() ? "unsupported" : result.Passed() ? "passed" : "failed";
  std::string why;
  for (int i = 0; i < result.test_property_count(); ++i)
    if (std::string(result.GetTestProperty(i).key()) == "expected_failure" && result.Passed()) {
      outcome = "expected failure";
      why = result.GetTestProperty(i).value();
    }
  for (int i = 0; i < result.total_part_count() && why.empty(); ++i)
    if (result.GetTestPartResult(i).failed() || result.GetTestPartResult(i).skipped())
      why = first_line(result.GetTestPartResult(i).message());
  const auto ms = static_cast<double>(result.elapsed_time());
  rows_.push_back({{"problem", suite + "." + name.substr(0, slash)}, {"form", "pergola"},
                   {"params", {{"device", device}}}, {"median_ms", ms}, {"min_ms", ms}, {"max_ms", ms}, {"runs", 1},
                   {"checked", outcome == "passed"}, {"outcome", outcome}, {"why", why}});
}

std::string Report::markdown() const {
  std::string text = "# Conformance\n\n";
  for (const auto& [key, value] : head_.items())
    if (key != "suite") text += fmt::format("- {}: {}\n", key, value.get<std::string>());
  std::map<std::string, std::map<std::string, int>> counts;
  for (const auto& row : rows_)
    ++counts[row["params"]["device"].get<std::string>()][row["outcome"].get<std::string>()];
  text += "\n| device | passed | failed | expected failure | unsupported |\n|---|---|---|---|---|\n";
  for (auto& [device, by] : counts)
    text += fmt::format("| {} | {} | {} | {} | {} |\n", device, by["passed"], by["failed"], by["expected failure"],
                        by["unsupported"]);
  text += "\n| test | device | outcome | ms | why |\n|---|---|---|---|---|\n";
  for (const auto& row : rows_)
    text += fmt::format("| {} | {} | {} | {:.0f} | {} |\n", row["problem"].get<std::string>(),
                        row["params"]["device"].get<std::string>(), row["outcome"].get<std::string>(),
                        row["median_ms"].get<double>(), escape(row["why"].get<std::string>()));
  return text;
}

Status Report::write(const std::string& path) const {
  nlohmann::ordered_json all = head_;
  all["rows"] = rows_;
  std::string notes;
  for (const std::string& line : missing_devices()) notes += (notes.empty() ? "" : " ") + line;
  all["notes"] = notes;
  PERGOLA_TRY(write_file_atomically(path + ".json", all.dump(1) + "\n"));
  return write_file_atomically(path + ".md", markdown());
}

}  // namespace pergola::conformance
