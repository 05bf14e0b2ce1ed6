// A program's session in one run (fault_run.h), with what its arrays should have: results that the program takes for
// right must be.
//
//   known ── a call that writes or reads it returns an error ─▶ in doubt ── all of it is written, without ─▶ known
//
// Work that reads an array in doubt leaves what it writes in doubt, and so does an error of synchronize() with all:
// what has failed is told by whoever reads it until then. A read that says it is well, of an array that is known, has
// exactly what is known.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/result.h"
#include "src/runtime/local_session.h"
#include "tests/driver_faults/fault_run.h"

namespace pergola::driver_faults {

void write_text(std::span<char> place, std::string_view text);
void add_line(std::span<char> place, std::string_view line);

// Owned and used by the child's first thread.
class Trial {
 public:
  Trial(const Program& program, const std::optional<Fault>& fault, Report& report);
  ~Trial();
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;
  void run();  // opens, runs the program, and looks what can be done after it

  // ── What programs are made of; without a session, or an array that was to be made, a call does nothing ──
  using Index = std::size_t;  // of an array
  static constexpr std::uint32_t kWords = 64;
  Index array(std::uint32_t words = kWords);
  void drop(Index x);
  void write(Index x, std::uint32_t value, std::uint32_t first = 0, std::uint32_t words = 0);  // 0: to the end
  void set(Index x, std::uint32_t value);                                                      // by the host's side
  void change(Index x, std::uint32_t difference);  // the same, of what is there
  void fill(Index x, std::uint32_t value);
  void copy(Index to, Index from);
  void add(Index x, Index y);                      // y += x
  void add_one(Index x, std::uint32_t words = 0);  // to so many; 0: all
  void add_one_with_event(Index x);
  void read(Index x);
  void read_host(Index x);
  void view(Index x);
  void prefetch(Index x, session::Location to);
  void await(Index x);
  void synchronize();
  void settle_graphs();
  // Streams stop, so that what is queued is under way, and go on.
  void hold();
  void go();

  // For what else programs do: whether it went well; the message of an error is looked at. It puts `doubted` in doubt,
  // or all.
  bool begin(std::string_view step);
  bool heard(const Status& status);
  bool heard(const Status& status, Index doubted);
  void problem(std::string_view what);
  runtime::LocalSession* session() { return session_.get(); }
  const session::ModulePtr& module() const { return module_; }
  session::ArrayPtr at(Index x) const { return arrays_[x].array; }
  // Known now to have these words, or in doubt.
  void know(Index x, std::uint32_t value);
  void doubt(Index x) { arrays_[x].in_doubt = true; }
  void compare(Index x, std::span<const std::uint32_t> words);
  device::DevicePtr device() const { return device_; }

 private:
  struct Known {
    session::ArrayPtr array;
    std::vector<std::uint32_t> words;
    bool in_doubt = true;
  };
  bool open();
  bool open_device();
  void close();
  void look_after();
  bool works_again(unsigned attempt);
  bool is_well(const Status& status);
  bool has(Index x) const { return session_ != nullptr && arrays_[x].array != nullptr; }
  Status launch(std::string_view kernel, const std::vector<session::Argument>& arguments,
                session::EventPtr* event = nullptr);
  bool is_lost() const;
  void check_message(const Status& status);

  const Program& program_;
  const std::optional<Fault> fault_;
  Report& report_;
  device::DevicePtr device_;
  std::shared_ptr<runtime::LocalSession> session_;
  session::ModulePtr module_;
  std::vector<Known> arrays_;
};

// The fake runs kernels by name and not these bodies, which are for the analysis.
extern const std::string kFaultPtx;

}  // namespace pergola::driver_faults
