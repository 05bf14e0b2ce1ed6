// A problem's data in arrays of Pergola: the inputs and outputs of some ranges of tasks each, so that one range's
// copies run beside another's tasks; scratch memory and the kinds' constants. On the host they are in the arrays' host
// sides.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "form.h"
#include "pergola/pergola.hpp"

namespace narrow {

class PergolaData {
 public:
  PergolaData(const pergola::Session& on, const pergola::Module& kernels_of, const Problem& of);

  void load();
  void fetch();
  void clobber();
  std::vector<std::byte> scratch();  // as the tasks have left it

  // The inputs go to the device: all are queued, and wait_in() waits for those of one range.
  void start_in();
  void wait_in(std::size_t range);
  // What tasks have written in a range, by address and therefore unseen by the session, is declared; the way to the
  // host is queued, and wait_out() waits.
  void start_out(std::size_t range);
  void wait_out();

  const pergola::Session& session;
  const Problem& problem;
  const std::vector<Range> ranges;
  std::vector<pergola::Kernel> kernels;  // by kind
  std::vector<Parameters> parameters;    // by task

 private:
  using Bytes = pergola::Array<std::byte>;

  std::vector<std::optional<Bytes>> in_;  // by range; empty where its tasks have no inputs
  std::vector<Bytes> out_;
  std::vector<Bytes> constants_;  // by kind
  Bytes scratch_;
  std::vector<pergola::Event> arrived_;
  std::set<const void*> filled_;
};

}  // namespace narrow
