// Every program of bench/blocks, at its small size, through a session on the CPU device and against its reference; and
// that the descriptions are what they say at the other sizes: Table II's counts, the blocks that were asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pergola/pergola.hpp>

#include <cstring>
#include <map>
#include <set>

#include "bench/blocks/program.h"

namespace pergola::bench::blocks {
namespace {

using testing::HasSubstr;

// A program's memory in a session, and what is in it after all launches.
class Execution {
 public:
  Execution(const Session& session, const Program& program) : program_(program) {
    for (const Buffer& buffer : program.buffers) {
      std::vector<std::byte> contents(buffer.bytes());
      if (buffer.fill) buffer.fill(contents);
      arrays_.push_back(session.array<std::byte>(buffer.bytes()));
      arrays_.back().write(contents);
    }
    const Module module = session.load(source_path(program));
    for (const Launch& launch : program.launches) {
      auto& kernel = kernels_[launch.kernel];
      if (!kernel) kernel.emplace(module.kernel(launch.kernel));
      submit(*kernel, launch);
    }
    for (std::size_t i = 0; i < arrays_.size(); ++i)
      results.push_back(program.buffers[i].is_result ? copy_of(arrays_[i].read()) : std::vector<std::byte>());
  }

  std::string check() const { return program_.check(Results(results.begin(), results.end())); }

  std::vector<std::vector<std::byte>> results;

 private:
  static std::vector<std::byte> copy_of(std::span<const std::byte> bytes) { return {bytes.begin(), bytes.end()}; }

  pergola_argument argument(const Argument& value) const {
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

  void submit(const Kernel& kernel, const Launch& launch) const {
    pergola_launch_config config{};
    config.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
    config.grid[0] = launch.grid.x, config.grid[1] = launch.grid.y, config.grid[2] = launch.grid.z;
    config.block[0] = launch.block.x, config.block[1] = launch.block.y, config.block[2] = launch.block.z;
    config.dynamic_shared_bytes = launch.shared_bytes;
    std::vector<pergola_argument> arguments;
    for (const Argument& value : launch.arguments) arguments.push_back(argument(value));
    std::uint64_t ticket = 0;
    if (pergola_kernel_submit(kernel.handle(), &config, arguments.data(), arguments.size(), &ticket) != PERGOLA_OK)
      throw std::runtime_error(program_.name + ", " + launch.kernel + ": " + pergola_last_error());
  }

  const Program& program_;
  std::vector<Array<std::byte>> arrays_;
  std::map<std::string, std::optional<Kernel>> kernels_;
};

class EachProgram : public testing::TestWithParam<std::size_t> {
 protected:
  const ProgramFactory& factory() const { return all()[GetParam()]; }
};

INSTANTIATE_TEST_SUITE_P(All, EachProgram, testing::Range(std::size_t{0}, all().size()), [](const auto& each) {
  std::string name = all()[each.param].name;
  std::erase(name, '-');
  return name;
});

TEST_P(EachProgram, RunsRight_AndWrongResultsAreFound) {
  const Session session("cpu");
  const Program program = factory().make(Size::small());
  Execution run(session, program);
  EXPECT_EQ(run.check(), "");
  for (std::size_t i = 0; i < run.results.size(); ++i) {
    if (run.results[i].empty()) continue;
    // An element in the middle becomes one that no program makes.
    const std::size_t bytes = size_bytes(program.buffers[i].element);
    std::byte* const middle = run.results[i].data() + run.results[i].size() / bytes / 2 * bytes;
    std::vector<std::byte> kept(middle, middle + bytes);
    std::memset(middle, 0x7e, bytes);
    EXPECT_THAT(run.check(), HasSubstr("1 of " + std::to_string(program.buffers[i].count) + " elements of '" +
                                       program.buffers[i].name + "'"));
    std::memcpy(middle, kept.data(), bytes);
  }
  EXPECT_EQ(run.check(), "");
}

TEST_P(EachProgram, SaysWhatItLaunches) {
  for (const Size& size : {Size::paper(), Size::small(), Size::by_waves(2, 300)}) {
    const Program program = factory().make(size);
    EXPECT_EQ(program.name, factory().name);
    EXPECT_EQ(program.launches.size() > 0, true);
    std::set<std::uint32_t> used;
    for (const Launch& launch : program.launches) {
      EXPECT_GE(launch.grid.count(), 1u);
      EXPECT_LE(launch.block.count(), 1024u);
      for (const Argument& argument : launch.arguments)
        if (const auto* buffer = std::get_if<BufferArgument>(&argument)) {
          ASSERT_LT(buffer->buffer, program.buffers.size());
          EXPECT_LT(buffer->offset_bytes, program.buffers[buffer->buffer].bytes());
          used.insert(buffer->buffer);
        }
    }
    EXPECT_EQ(used.size(), program.buffers.size()) << "a buffer that no launch uses";
  }
}

TEST_P(EachProgram, HasTheLaunchesOfThePaper) {
  EXPECT_EQ(factory().make(Size::paper()).launches.size(), factory().paper_launches);
}

TEST_P(EachProgram, HasAsManyBlocksAsWereAskedFor) {
  for (const double waves : {0.5, 2.0, 8.0}) {
    const Size size = Size::by_waves(waves, 250);
    const std::uint64_t blocks = factory().make(size).most_blocks();
    EXPECT_GE(blocks, size.blocks());
    EXPECT_LE(blocks, size.blocks() * 5 / 4 + 96) << "waves: " << waves;
  }
}

TEST_P(EachProgram, KeepsToIntsUpToTheLimit) {
  const Program program = factory().make(Size::by_waves(1, 32767));
  for (const Buffer& buffer : program.buffers) EXPECT_LT(buffer.count, std::size_t{1} << 31) << buffer.name;
  for (const Launch& launch : program.launches) EXPECT_LE(launch.grid.y, 65535u);
}

TEST(Programs, AreTableTwoAndTheWavefronts) {
  std::vector<std::uint32_t> launches;
  for (const ProgramFactory& factory : all()) launches.push_back(factory.paper_launches);
  EXPECT_THAT(launches,
              testing::ElementsAre(3, 22, 2, 24, 60, 510, 192, 10, 46, 2, 255, 5, 127, 127, 127, 127, 127, 127));
}

TEST(Programs, WavefrontsHaveFourThousandTasks) {
  for (std::size_t i = 12; i < all().size(); ++i) {
    std::uint64_t tasks = 0;
    for (const Launch& launch : all()[i].make(Size::paper()).launches) tasks += launch.grid.count();
    EXPECT_EQ(tasks, 4096u) << all()[i].name;
  }
}

TEST(VectorAdd, RunsRight_WhateverTheDegree) {
  const Session session("cpu");
  struct Case {
    std::uint32_t blocks, degree;
  };
  for (const auto& [blocks, degree] :
       {Case{1, 1}, Case{10, 1}, Case{10, 4}, Case{8, 8}, Case{5, 100}, Case{310, 300}}) {
    const Program program = make_vector_add(blocks, degree);
    EXPECT_EQ(program.most_blocks(), blocks);
    EXPECT_EQ(Execution(session, program).check(), "") << blocks << " blocks, degree " << degree;
  }
}

TEST(Check, RefusesResultsOfAnotherSize) {
  const Program program = make_vector_add(1, 1);
  EXPECT_THAT(program.check({}), HasSubstr("fewer buffers"));
  EXPECT_THAT(program.check(Results(program.buffers.size())), HasSubstr("has 0 bytes"));
}

}  // namespace
}  // namespace pergola::bench::blocks
