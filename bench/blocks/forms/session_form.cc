#include "bench/blocks/forms/session_form.h"

namespace pergola::bench::blocks {

SessionForm::SessionForm(std::string its_name, const Program& program, const std::string& device,
                         const std::string& policies)
    : program_(program), session_(device, policies) {
  name = std::move(its_name);
  for (const Buffer& buffer : program.buffers) {
    arrays_.push_back(session_.array<std::byte>(buffer.bytes()));
    contents_.emplace_back();
    if (!buffer.fill) continue;
    std::vector<std::byte> contents(buffer.bytes());
    buffer.fill(contents);
    contents_.back() = session_.array<std::byte>(buffer.bytes());
    contents_.back()->write(contents);
  }
  const Module module = session_.load(source_path(program));
  for (const Launch& launch : program.launches) {
    auto& kernel = kernels_[launch.kernel];
    if (!kernel) kernel.emplace(module.kernel(launch.kernel));
    Submission submission;
    submission.kernel = kernel->handle();
    pergola_launch_config& config = submission.config;
    config.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
    config.grid[0] = launch.grid.x, config.grid[1] = launch.grid.y, config.grid[2] = launch.grid.z;
    config.block[0] = launch.block.x, config.block[1] = launch.block.y, config.block[2] = launch.block.z;
    config.dynamic_shared_bytes = launch.shared_bytes;
    for (const Argument& value : launch.arguments) submission.arguments.push_back(argument(value));
    submissions_.push_back(std::move(submission));
  }
}

pergola_argument SessionForm::argument(const Argument& value) const {
  if (const auto* buffer = std::get_if<BufferArgument>(&value)) {
    pergola_argument result = pergola_arg_array(arrays_[buffer->buffer].handle());
    result.offset_bytes = buffer->offset_bytes;
    return result;
  }
  if (const auto* number = std::get_if<std::int32_t>(&value)) return pergola_arg_i32(*number);
  if (const auto* number = std::get_if<std::int64_t>(&value)) return pergola_arg_i64(*number);
  if (const auto* number = std::get_if<float>(&value)) return pergola_arg_f32(*number);
  return pergola_arg_f64(std::get<double>(value));
}

void SessionForm::run() {
  for (const Submission& submission : submissions_) {
    std::uint64_t ticket = 0;
    if (pergola_kernel_submit(submission.kernel, &submission.config, submission.arguments.data(),
                              submission.arguments.size(), &ticket) != PERGOLA_OK)
      throw std::runtime_error(program_.name + ": " + pergola_last_error());
  }
  session_.synchronize();
}

void SessionForm::reset() {
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (contents_[i])
      arrays_[i].copy_from(*contents_[i]);
    else
      arrays_[i].fill(std::byte{0});
  }
  session_.synchronize();
}

std::string SessionForm::check() {
  std::vector<std::vector<std::byte>> results(arrays_.size());
  for (std::size_t i = 0; i < arrays_.size(); ++i) {
    if (!program_.buffers[i].is_result) continue;
    results[i].resize(arrays_[i].size());
    arrays_[i].read(std::span(results[i]));
  }
  return program_.check(Results(results.begin(), results.end()));
}

}  // namespace pergola::bench::blocks
