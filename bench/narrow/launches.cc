// What a program without tasks does: an ordinary launch of Pergola for each, of the session's one stream.
#include <array>

#include "../support/report.h"
#include "pergola_data.h"

namespace narrow {
namespace {

class Launches : public Form {
 public:
  explicit Launches(std::shared_ptr<PergolaData> data) : data_(std::move(data)) { name = "pergola-launches"; }

  double run(Measure measure) override {
    const auto start = std::chrono::steady_clock::now();
    if (measure == Measure::kCopies) data_->start_in();
    for (std::size_t range = 0; range < data_->ranges.size(); ++range) {
      if (measure == Measure::kCopies) data_->wait_in(range);
      for (std::size_t i = data_->ranges[range].first; i < data_->ranges[range].last; ++i) launch(i);
      if (measure == Measure::kCopies) {
        data_->session.synchronize();
        data_->start_out(range);
      }
    }
    data_->session.synchronize();
    if (measure == Measure::kCopies) data_->wait_out();
    return bench::ms_since(start);
  }
  void load() override { data_->load(); }
  void fetch(Measure measure) override {
    if (measure == Measure::kCompute)
      for (std::size_t range = 0; range < data_->ranges.size(); ++range) data_->start_out(range);
    data_->fetch();
  }
  void clobber() override { data_->clobber(); }

 private:
  void launch(std::size_t i) const {
    const Task& task = data_->problem.tasks()[i];
    const pergola::Kernel& kernel = data_->kernels[task.kind];
    std::array<pergola_argument, 8> arguments;
    std::size_t count = 0;
    for (const pergola::Parameter& parameter : kernel.parameters()) {
      const std::byte* at = data_->parameters[i].bytes.data() + parameter.offset_bytes;
      std::uint64_t value = 0;
      std::memcpy(&value, at, parameter.size_bytes);
      if (parameter.size_bytes == 8) {
        arguments[count++] = pergola_arg_address(value);
      } else if (parameter.kind == pergola::ParameterKind::kFloat) {
        float number = 0;
        std::memcpy(&number, at, 4);
        arguments[count++] = pergola_arg_f32(number);
      } else {
        arguments[count++] = pergola_arg_u32(static_cast<std::uint32_t>(value));
      }
    }
    pergola_launch_config config{};
    config.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
    config.grid[0] = task.blocks;
    config.grid[1] = config.grid[2] = config.block[1] = config.block[2] = 1;
    config.block[0] = task.threads;
    std::uint64_t ticket = 0;
    if (pergola_kernel_submit(kernel.handle(), &config, arguments.data(), count, &ticket) != PERGOLA_OK)
      throw std::runtime_error(pergola_last_error());
  }
  const std::shared_ptr<PergolaData> data_;
};

}  // namespace

std::unique_ptr<Form> make_launches(std::shared_ptr<PergolaData> data) {
  return std::make_unique<Launches>(std::move(data));
}

}  // namespace narrow
