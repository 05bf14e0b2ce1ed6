// What a problem is to the bench, and how it is measured: each problem is one file that says it three times, as a table
// of streams for the hand-written forms, as plain sequential code for Pergola, and as loops in double precision for the
// check.
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "../support/gpu.h"
#include "../support/report.h"
#include "form.h"
#include "pergola/pergola.hpp"
#include "plan.h"

namespace dag {

using bench::Gpu;
using bench::HostMemory;

// Blocks of one dimension, a thread an element.
inline pergola::Grid covering(std::size_t threads, unsigned block) {
  return pergola::grid((threads + block - 1) / block, block);
}

// Of tiled problems: what repeats tiles on the device (kernels.cu).
struct RepeatKernels {
  explicit RepeatKernels(const pergola::Module& module)
      : of_ints(module.kernel("repeat_int")), of_longs(module.kernel("repeat_long")) {}
  pergola::Kernel of_ints, of_longs;  // elements of 4 and 8 bytes
};

// The problem as a user of Pergola writes it: as if sequential. Device arrays live as long as it does.
class Sequential {
 public:
  // Where the program has its inputs and outputs on the host. Staged: in memory of its own, as it comes, out of which
  // and into which the library copies. Not: in the host's sides of its arrays, which are page-locked as the
  // hand-written forms' memory is.
  bool is_staged = true;
  // Not staged: whether inputs start up before the first launch, which is faster where launches go one by one, as the
  // link has work meanwhile. Launches that become graphs bring their arrays with them.
  bool prefetches = true;
  // Whether what is sent and received is noted, for on_host() and collect(). A program would not do that: not in runs
  // that are timed.
  bool notes = true;
  // In tiled problems, which are staged; there read() brings this piece of the outputs.
  std::optional<RepeatKernels> repeat;
  std::size_t piece = 0;

  virtual ~Sequential() = default;
  virtual void write() = 0;   // the inputs
  virtual void launch() = 0;  // the kernels of one iteration
  virtual void read() = 0;    // the outputs
  // All three, in the order in which a program would have them.
  virtual void run() {
    write();
    launch();
    read();
  }
  virtual std::vector<pergola_array> outputs() const = 0;  // of at most 8 bytes an element
  // What read() brought, into the problem's host memory, where it is checked; not timed.
  void collect() {
    for (const Received& one : received_) std::memcpy(one.to, one.from, one.bytes);
    received_.clear();
  }
  // Where it has its inputs and outputs.
  std::vector<std::span<std::byte>> on_host() const {
    std::vector<std::span<std::byte>> all;
    for (const auto& [at, bytes] : on_host_) all.emplace_back(at, bytes);
    return all;
  }

 protected:
  // An input. Not staged, it is put into the array's host side when this is first called, and stays there. The first
  // run of all is noted.
  template <typename T>
  void send(pergola::Array<T>& array, std::type_identity_t<std::span<const T>> contents) {
    if (is_staged) {
      note(const_cast<T*>(contents.data()), contents.size_bytes());
      return array.write(contents);
    }
    const auto host = array.host_write();
    if (note(host.data(), host.size_bytes())) std::copy(contents.begin(), contents.end(), host.begin());
    if (prefetches) array.prefetch();
  }
  // The same where the host may have a tile alone.
  template <typename T>
  void send(pergola::Array<T>& array, std::type_identity_t<std::span<const T>> contents, const Tiling& tiling) {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8);
    if (!tiling.is_tiled()) return send(array, contents);
    const pergola::Kernel& kernel = sizeof(T) == 4 ? repeat.value().of_ints : repeat.value().of_longs;
    const std::size_t tile = tiling.tile(contents.size()), all = tiling.on_device(contents.size());
    for (std::size_t part = 0; part < tiling.parts; ++part) {
      array.write(contents.subspan(part * tile, tile), part * all);
      kernel(covering(all, 256), array.part(part * all, all), tile, all, tiling.shift);
    }
  }
  // That receive() will follow, so that one output comes while another is waited for.
  template <typename T>
  void announce(const pergola::Array<T>& array) {
    if (!is_staged) array.prefetch_to_host();
  }
  template <typename T>
  void receive(const pergola::Array<T>& array, std::type_identity_t<std::span<T>> to) {
    if (is_staged) {
      note(to.data(), to.size_bytes());
      return array.read(to, piece * to.size());
    }
    const auto host = array.host_read();
    if (!notes) return;
    note(const_cast<T*>(host.data()), host.size_bytes());
    received_.push_back({to.data(), host.data(), host.size_bytes()});
  }

 private:
  struct Received {
    void* to;
    const void* from;
    std::size_t bytes;
  };
  // Whether it is new.
  bool note(void* at, std::size_t bytes) {
    return notes && on_host_.try_emplace(static_cast<std::byte*>(at), bytes).second;
  }

  std::map<std::byte*, std::size_t> on_host_;
  std::vector<Received> received_;
};

// What a problem is made for.
struct Setup {
  HostMemory& memory;     // for inputs and outputs
  std::size_t bytes = 0;  // about what its arrays shall take on the device
  unsigned block = 256;   // threads of blocks of one dimension, a multiple of 32
  std::size_t tiles = 1;  // what the host has of the arrays is on the device so often; of more than 1 elements are
                          // counted by 64 bits
  std::string matrix;     // HITS: a Matrix Market file; empty: a graph is generated
  std::string notes;      // for the report; the problem may add to it
};

// Inputs, outputs and what they should be. It outlives its plan and its sequential form.
class Problem {
 public:
  virtual ~Problem() = default;
  virtual Plan plan() const = 0;
  virtual std::unique_ptr<Sequential> sequential(const pergola::Session& session, const pergola::Module& module) = 0;
  virtual void reference() = 0;  // computes the results in double precision
  // This piece of the outputs, which is on the host, against the reference's.
  virtual bool is_right(std::size_t piece) const = 0;

  std::string name;
  nlohmann::json params = nlohmann::json::object();  // beside size, block and measure
};

// A file each.
std::unique_ptr<Problem> make_vec(Setup& setup);
std::unique_ptr<Problem> make_black_scholes(Setup& setup);
std::unique_ptr<Problem> make_img(Setup& setup);
std::unique_ptr<Problem> make_ml(Setup& setup);
std::unique_ptr<Problem> make_hits(Setup& setup);
std::unique_ptr<Problem> make_dl(Setup& setup);

// ── For problems ────────────────────────────────────────────────────────────────────────────────────────────────────

// Blocks of a reduction, which loop.
pergola::Grid reducing(std::size_t elements, unsigned block);

// The device side of a reduction's scratch memory, in a table.
struct Scratch {
  ArrayId partial, counter;
};
Scratch reduction_scratch(Plan& plan, const std::string& name, const pergola::Grid& shape);

// body(begin, end) over parts of 0 ... n on all cores.
void parallel_for(std::size_t n, const std::function<void(std::size_t begin, std::size_t end)>& body);

// The sequential form with arguments of the type by which the kernels count elements: exactly it, as a number of
// another type would be converted in each launch.
template <template <typename Index> typename Code, typename P>
std::unique_ptr<Sequential> by_index(const pergola::Session& session, const pergola::Module& module, const P& problem) {
  if (problem.tiling.is_tiled()) return std::make_unique<Code<long long>>(session, module, problem);
  return std::make_unique<Code<int>>(session, module, problem);
}

// Of what a tile needs at least. Throws std::runtime_error.
void check_tile(const std::string& problem, const Setup& setup, std::size_t size, std::size_t least);

// Uniform in [0, 1), the same for the same seed and index on every machine.
inline double uniform(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = (seed << 48) + index + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}
template <typename T>
void fill_uniform(std::span<T> out, double low, double high, std::uint64_t seed) {
  parallel_for(out.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) out[i] = static_cast<T>(low + (high - low) * uniform(seed, i));
  });
}
// Each within tolerance * (scale + |expected|); NaN is not.
template <typename T>
bool all_close(std::span<const T> got, std::span<const double> expected, double tolerance, double scale = 0) {
  std::atomic<bool> all = true;
  parallel_for(expected.size(), [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i)
      if (!(std::fabs(got[i] - expected[i]) <= tolerance * (scale + std::fabs(expected[i])))) all = false;
  });
  return all;
}

// ── Measuring ───────────────────────────────────────────────────────────────────────────────────────────────────────

struct BenchOptions {
  int runs = 30;               // of each form that are timed; 1 shows that it works
  std::optional<int> untimed;  // before each of these, of the same form; else 1, and resident 0 where `alone`, as what
                               // runs before is the same form's in any case
  bool is_staged = false;      // Sequential's
  bool alone = false;          // each form has the device to itself, one after the other
  bool explain = false;        // prints which of Pergola's launches became graphs
  bool after_others = false;   // cold runs come right after those of other forms, whose code and data the host's caches
                               // hold then
  std::vector<Measure> measures{Measure::kCold, Measure::kResident};
  std::vector<std::string> policies;  // of the scheduler, a form more for each
  std::vector<std::string> forms;     // of kForms, these alone; empty: all
};

// Of Pergola's, one takes part without a GPU: `pergola`.
inline const std::vector<std::string> kForms{"serial", "streams", "capture", "graph", "pergola", "pergola-graphs"};

class Bench {
 public:
  Bench(bench::Report& report, BenchOptions options) : report_(report), options_(std::move(options)) {}

  // The kernels of what runs next. Without a GPU `gpu` is null, and Pergola the only form. Both outlive the bench.
  void use(const Gpu* gpu, const std::string* ptx) {
    gpu_ = gpu;
    ptx_ = ptx;
  }
  // All forms of the problem, in turns, Pergola in sessions of its own. `params` says size and block.
  void run(Problem& problem, const nlohmann::json& params);
  // For profilers: one iteration of one form, and nothing else that launches kernels; cold where that alone is
  // measured, else resident. By Form::name. With a path Pergola's is recorded there, behind some that are not.
  void run_once(Problem& problem, const std::string& form, const std::string& trace);
  // For each problem, the best hand-written form's time and the serial form's over Pergola's, and their geometric
  // means; of other policies the former.
  std::string summary() const;

 private:
  struct Ratio {
    std::string problem, params;
    Measure measure = Measure::kResident;
    double best_hand = 0, serial = 0, pergola = 0, pergola_graphs = 0;  // medians, ms
    double best_mib = 0, pergola_mib = 0;                               // of the device
    std::string best_name;
    std::vector<double> by_policy;  // medians, as `policies` has them
  };
  struct PergolaSession {
    std::string form;
    std::string policy;  // empty: the default
    pergola::Session session;
    pergola::Module module;
  };
  using MakeForm = std::function<std::unique_ptr<Form>()>;
  bool has(const std::string& form) const;  // whether it takes part
  double free_mib() const;                  // of the device; 0 without a GPU
  // What the device has less of while as much host memory as the plan's is page-locked once more. It depends on what
  // the host has free, as the driver maps large pages where it finds them: so it is asked when Pergola's memory is to
  // come, and stands for what the hand-written forms' took, which was there before.
  double page_locked_mib(const Plan& plan) const;
  std::vector<MakeForm> makers_of(Problem& problem, std::span<const PergolaSession> sessions);
  // As the options have it.
  std::unique_ptr<Sequential> sequential(Problem& problem, const pergola::Session& session,
                                         const pergola::Module& module) const;
  std::unique_ptr<Form> made(const MakeForm& make, Measure measure) const;
  void warm_up(Form& form, Measure measure) const;
  bool is_right(const Problem& problem, Form& form, Measure measure) const;
  void measure(Problem& problem, std::span<const std::unique_ptr<Form>> forms, Measure measure,
               const nlohmann::json& params, Ratio& ratio);

  const Gpu* gpu_ = nullptr;
  const std::string* ptx_ = nullptr;
  bench::Report& report_;
  const BenchOptions options_;
  std::vector<Ratio> ratios_;
};

}  // namespace dag
