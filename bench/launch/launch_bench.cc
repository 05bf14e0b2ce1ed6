// What a session's single steps cost: launches, round trips, copies, loading. One process, one device.
//
//   launch_bench [--small] [--report PATH]      PERGOLA_DEVICE chooses the device
//
// Problems (median_ms is the cost of one, in milliseconds):
//   launch-cost   the host's side of one launch of an empty 1-block kernel, in batches
//   empty-rate    the same until the batch has run, per launch
//   round-trip    one launch and the wait for it
//   copy-in, copy-out   whole arrays of params.bytes
//   load          the same PTX text loaded again (after the first, from the device's cache where it has one)
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../support/main.h"
#include "pergola/pergola.h"

namespace {

constexpr const char* kPtx = R"(
.version 7.0
.target sm_70
.address_size 64
// *counter += 1, by one thread.
.visible .entry count(.param .u64 count_param_0)
{
  .reg .b64 %rd<2>;
  .reg .b32 %r<3>;
  .reg .pred %p<2>;
  ld.param.u64 %rd1, [count_param_0];
  mov.u32 %r1, %tid.x;
  setp.ne.s32 %p1, %r1, 0;
  @%p1 bra done;
  red.global.add.u32 [%rd1], 1;
done:
  ret;
}
)";

void check(pergola_code code) {
  if (code != PERGOLA_OK) throw std::runtime_error(pergola_last_error());
}

class LaunchBench {
 public:
  LaunchBench(bool small, int argc, char** argv) : runs_(small ? 3 : 20), batch_(small ? 200 : 10000), small_(small) {
    check(pergola_session_create(nullptr, &session_));
    pergola_device_info info{};
    info.struct_size = sizeof info;
    check(pergola_session_device(session_, &info));
    report_ = std::make_unique<bench::Report>("launch", bench::Machine{info.name, info.driver}, argc, argv);
    module_ = load();
    check(pergola_module_kernel(module_, "count", &kernel_));
    counter_ = make_array(PERGOLA_TYPE_U32, 1);
  }
  ~LaunchBench() {
    pergola_array_destroy(counter_);
    pergola_kernel_destroy(kernel_);
    pergola_module_destroy(module_);
    pergola_session_destroy(session_);
  }
  LaunchBench(const LaunchBench&) = delete;
  LaunchBench& operator=(const LaunchBench&) = delete;

  bench::Report& run() {
    launches();
    round_trips();
    for (const std::uint64_t bytes : {std::uint64_t{4} << 10, std::uint64_t{4} << 20, std::uint64_t{256} << 20}) {
      if (!small_ || bytes <= (4u << 20)) copies(bytes);
    }
    loads();
    return *report_;
  }

 private:
  pergola_module load() {
    pergola_module module = nullptr;
    check(pergola_session_load_text(session_, kPtx, std::strlen(kPtx), nullptr, &module));
    return module;
  }
  pergola_array make_array(pergola_type type, std::uint64_t count) {
    pergola_array_options options{};
    options.struct_size = sizeof options;
    options.type = type;
    options.count = count;
    pergola_array array = nullptr;
    check(pergola_array_create(session_, &options, &array));
    return array;
  }
  void launch() {
    pergola_launch_config config{};
    config.struct_size = sizeof config;
    config.grid[0] = 1;
    config.block[0] = 32;
    const pergola_argument argument = pergola_arg_array(counter_);
    check(pergola_kernel_launch(kernel_, &config, &argument, 1, nullptr));
  }
  void reset() {
    const std::uint32_t zero = 0;
    check(pergola_array_write(counter_, 0, &zero, sizeof zero));
    check(pergola_session_synchronize(session_));
  }
  bool counted(std::uint32_t expected) {
    std::uint32_t value = 0;
    check(pergola_array_read(counter_, 0, &value, sizeof value));
    return value == expected;
  }

  void launches() {
    std::vector<double> queued, done;
    bool right = true;
    using Clock = std::chrono::steady_clock;
    for (int run = 0; run <= runs_; ++run) {
      reset();
      const auto start = Clock::now();
      for (int i = 0; i < batch_; ++i) launch();
      const auto end_of_launches = Clock::now();
      check(pergola_session_synchronize(session_));
      const auto end = Clock::now();
      right = right && counted(static_cast<std::uint32_t>(batch_));
      if (run == 0) continue;  // warm-up
      queued.push_back(std::chrono::duration<double, std::milli>(end_of_launches - start).count() / batch_);
      done.push_back(std::chrono::duration<double, std::milli>(end - start).count() / batch_);
    }
    report_->add("launch-cost", "pergola", {{"batch", batch_}}, queued, right);
    report_->add("empty-rate", "pergola", {{"batch", batch_}}, done, right);
  }

  void round_trips() {
    const int trips = small_ ? 50 : 2000;
    reset();
    const auto times = bench::time_ms(trips, [&] {
      launch();
      check(pergola_session_synchronize(session_));
    });
    report_->add("round-trip", "pergola", nlohmann::json::object(), times,
                 counted(static_cast<std::uint32_t>(trips) + 1));
  }

  void copies(std::uint64_t bytes) {
    pergola_array array = make_array(PERGOLA_TYPE_U8, bytes);
    std::vector<unsigned char> in(bytes), out(bytes);
    for (std::uint64_t i = 0; i < bytes; ++i) in[i] = static_cast<unsigned char>(i * 2654435761u >> 13);
    const auto in_times = bench::time_ms(runs_, [&] {
      check(pergola_array_write(array, 0, in.data(), bytes));
      check(pergola_session_synchronize(session_));
    });
    const auto out_times = bench::time_ms(runs_, [&] { check(pergola_array_read(array, 0, out.data(), bytes)); });
    const bool right = in == out;
    report_->add("copy-in", "pergola", {{"bytes", bytes}}, in_times, right);
    report_->add("copy-out", "pergola", {{"bytes", bytes}}, out_times, right);
    check(pergola_array_destroy(array));
  }

  void loads() {
    bool right = true;
    const auto times = bench::time_ms(runs_, [&] {
      pergola_module module = load();
      pergola_kernel kernel = nullptr;
      right = right && pergola_module_kernel(module, "count", &kernel) == PERGOLA_OK;
      pergola_kernel_destroy(kernel);
      pergola_module_destroy(module);
    });
    report_->add("load", "pergola", {{"ptx_bytes", std::strlen(kPtx)}}, times, right);
  }

  const int runs_, batch_;
  const bool small_;
  std::unique_ptr<bench::Report> report_;
  pergola_session session_ = nullptr;
  pergola_module module_ = nullptr;
  pergola_kernel kernel_ = nullptr;
  pergola_array counter_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("The cost of a launch, and of waiting for one.", "launch_bench");
  return bench::run_main(app, argc, argv,
                         [&](const bench::Options& options) { return LaunchBench(options.small, argc, argv).run(); });
}
