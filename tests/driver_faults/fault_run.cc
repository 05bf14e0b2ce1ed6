#include "tests/driver_faults/fault_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "src/runtime/fake_driver.h"
#include "tests/driver_faults/fault_trial.h"

namespace pergola::driver_faults {
namespace {

constexpr unsigned kHangsAfterSeconds = 60;  // a run takes milliseconds

Report& shared_report() {
  static Report* const report = [] {
    void* const memory = mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw std::runtime_error("There is no memory for a report.");
    return static_cast<Report*>(memory);
  }();
  return *report;
}

// Where children's error output goes: read where one has died.
int shared_output() {
  static const int output = memfd_create("errors", 0);
  return output;
}

std::string output_text() {
  std::string text(4096, '\0');
  const ssize_t got = pread(shared_output(), text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

std::map<std::string, int> parse_calls(const char* text) {
  std::map<std::string, int> calls;
  std::istringstream lines(text);
  std::string function;
  for (int count = 0; lines >> function >> count;) calls[function] = count;
  return calls;
}

// An exception ends the process: else the child would go on with the test.
[[noreturn]] void run_in_child(const Program& program, const std::optional<Fault>& fault, Report& report) noexcept {
  alarm(kHangsAfterSeconds);
  dup2(shared_output(), STDERR_FILENO);
  const auto& control = runtime::control();
  control.set("concurrent", program.is_concurrent ? 1 : 0);
  control.set("virtual", 1);
  constexpr int kEachTime = 1000;
  if (!program.uploads_graphs)
    control.fail_times("cuGraphInstantiateWithParams", device::cuda::CUDA_ERROR_NOT_SUPPORTED, kEachTime);
  if (fault) (fault->is_lost ? control.lose : control.fail)(fault->function.c_str(), fault->result, fault->skip);
  if (fault && fault->also_describing) {
    control.fail("cuGetErrorName", fault->result, 0);
    control.fail("cuGetErrorString", fault->result, 0);
  }
  {
    Trial trial(program, fault, report);
    trial.run();
  }
  write_text(report.calls, control.all_calls());
  if (const std::string alive = control.alive(); !alive.empty())
    add_line(report.problems, fmt::format("{} left at the end", alive));
  _exit(0);
}

std::string how_it_ended(int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) return fmt::format("hangs for {} s", kHangsAfterSeconds);
  if (WIFSIGNALED(status)) return fmt::format("ends by signal {} ({})", WTERMSIG(status), strsignal(WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0) return fmt::format("ends with {}", WEXITSTATUS(status));
  return {};
}

}  // namespace

std::string to_string(const Fault& fault) {
  return fmt::format("{} returns {} after {} calls{}{}", fault.function, fault.result, fault.skip,
                     fault.is_lost ? ", and so does all that follows" : "",
                     fault.also_describing ? ", and errors have no names" : "");
}

Outcome run_alone(const Program& program, const std::optional<Fault>& fault) {
  runtime::control();  // the library is loaded once, here
  Report& report = shared_report();
  report = Report{};
  if (ftruncate(shared_output(), 0) != 0 || lseek(shared_output(), 0, SEEK_SET) != 0)
    throw std::runtime_error("The children's output cannot be emptied.");
  const auto begun = std::chrono::steady_clock::now();
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("No process can be made.");
  if (child == 0) run_in_child(program, fault, report);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  Outcome outcome;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  outcome.problems = report.problems;
  if (const std::string ended = how_it_ended(status); !ended.empty())
    outcome.problems += fmt::format("it {} in step '{}': {}\n", ended, report.step, output_text());
  outcome.told = report.told;
  outcome.errors_told = report.errors_told;
  outcome.opening = parse_calls(report.opening);
  outcome.calls = parse_calls(report.calls);
  return outcome;
}

}  // namespace pergola::driver_faults
