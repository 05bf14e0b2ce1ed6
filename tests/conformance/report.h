// A conformance run as a report: one row per test and device, as JSON and as a table in Markdown.
//
// The form is that of every report under bench/reports/: suite, devices, driver, host, commit, date, command, rows of
// {problem, form, params, median_ms, min_ms, max_ms, runs, checked}. Here `problem` is "Suite.Case", `form` "pergola",
// `params` {"device"}; `checked` is true where the test passed; `outcome` and `why` tell the rest.
// The commit is $PERGOLA_COMMIT, set by whoever runs a built program away from its checkout; else "unknown".
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "src/base/result.h"

namespace pergola::conformance {

class Report {
 public:
  explicit Report(std::string command);
  // Collects the results of the run; owned by GoogleTest, must not outlive the report.
  ::testing::TestEventListener* make_listener();
  // Writes `path`.json and `path`.md.
  Status write(const std::string& path) const;

  void add(const ::testing::TestInfo& test);

 private:
  std::string markdown() const;
  nlohmann::ordered_json head_;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

}  // namespace pergola::conformance
