// Runs every form of a problem one after another, checks what each leaves, reports rows, and sums up.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../support/report.h"
#include "form.h"

namespace narrow {

class Bench {
 public:
  // `gpu` null: the forms by hand do not run. `forms`: by name, empty for all. All outlive the bench.
  Bench(const bench::Gpu* gpu, const std::string& kernels_path, bench::Report& report, int runs,
        std::set<std::string> forms);

  void run(Problem& problem);
  std::uint32_t pool_blocks = 0;  // of the resident kernel, where it is not to have the whole device (Figure 7)
  // How many times as fast Pergola is as each other form, and the geometric means, for either measure.
  std::string summary() const;

  // A form of whatever problem: its rows, under each measure that it has. `is_right` compares what it has left.
  struct Subject {
    std::string problem;
    nlohmann::json params;
    bool is_irregular = false, is_variant = false;
    std::function<void()> clobber;  // of the host's outputs
    std::function<bool()> is_right;
  };
  // The median of its runs on data that is there, ms.
  double measure(const Subject& subject, Form& form);
  bool copies = true;  // with them too
  bool wants(const std::string& form) const { return forms_.empty() || forms_.contains(form); }
  const std::string& kernels_path() const { return kernels_path_; }
  const pergola::Session& in_order() const { return in_order_; }  // of one stream
  const pergola::Module& in_order_module() const { return in_order_module_; }

 private:
  struct Result {
    bool is_irregular = false, is_variant = false;
    std::map<std::string, double> best[2];  // by measure: of each form its best variant's median, ms
  };
  void measure_by_hand(const Subject& subject, const Problem& problem);
  void measure_pergola(const Subject& subject, const Problem& problem);
  void add_group(std::string& text, const std::string& title, Measure measure,
                 const std::function<bool(const Result&)>& belongs) const;

  const bench::Gpu* gpu_;
  bench::Report& report_;
  const int runs_;
  const std::set<std::string> forms_;
  const std::string kernels_path_;
  pergola::Session in_order_;
  pergola::Module in_order_module_;
  std::vector<std::pair<std::string, Result>> results_;
};

}  // namespace narrow
