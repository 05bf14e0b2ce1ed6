// One run of a program in a process of its own, over the fake driver, of which one call fails.
//
//   test ── fork ─▶ child: the fake is told which call fails ─▶ program ─▶ what is left alive? ─▶ _exit
//     ◀── how it ended, and its report ── memory that both share ──┘
//
// A process for each run: a crash, a failed check or a hang is then one run's result, and a device that is lost is lost
// for that run alone. The parent has no threads and no session, so that its children may have both.
#pragma once

#include <map>
#include <optional>
#include <string>

namespace pergola::driver_faults {

// The call of `function` after the next `skip` ones returns `result`; where it is lost, all calls after it do, too.
struct Fault {
  std::string function;
  int result = 0;
  int skip = 0;
  bool is_lost = false;
  bool also_describing = false;  // and the driver cannot name its errors
};
std::string to_string(const Fault& fault);

// What the child writes and the parent reads, once the child has ended. Texts are cut where they do not fit.
struct Report {
  char step[256];       // begun last
  char problems[8192];  // what should not have happened, a line each
  char told[2048];      // the first error that the program was told
  char opening[4096];   // the driver's calls by the end of the device's opening, as FakeControl::all_calls() has them
  char calls[4096];     // at the end
  unsigned errors_told;
};

class Trial;
struct Program {
  const char* name;
  const char* policy;  // of its session; null: it works on the device alone
  void (*run)(Trial&);
  bool is_concurrent = true;   // the device's managed memory
  bool uploads_graphs = true;  // the driver instantiates graphs and brings them to the device in one call
};

struct Outcome {
  std::string problems;  // with how the process ended, where not by itself; empty where nothing is wrong
  std::string told;
  unsigned errors_told = 0;
  double seconds = 0;
  std::map<std::string, int> opening, calls;
  bool reached(const Fault& fault) const {
    const auto found = calls.find(fault.function);
    return found != calls.end() && found->second > fault.skip;
  }
};

Outcome run_alone(const Program& program, const std::optional<Fault>& fault);

}  // namespace pergola::driver_faults
