// The programs of bench/blocks with their launches as a chain in which blocks wait for blocks (runtime/block_lowering):
// run again and again, in order and all launches at once, results are those of the stream.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "bench/blocks/forms/megakernel_form.h"
#include "bench/blocks/forms/program_on_device.h"
#include "bench/blocks/forms/programmatic.h"
#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/runtime/devices.h"
#include "src/source/source.h"
#include "tests/support/sanitized.h"

namespace pergola::bench::blocks {
namespace {

std::string ptx_of(const Program& program, const std::string& arch = "") {
  auto request = source::load_file(source_path(program));
  EXPECT_TRUE(request.ok()) << request.message();
  if (!arch.empty()) request->arch = arch;
  const auto compiled = source::compile(*request);
  EXPECT_TRUE(compiled.ok()) << compiled.message();
  return compiled->ptx;
}

class EachProgram : public testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(All, EachProgram, testing::Range(std::size_t{0}, all().size()), [](const auto& each) {
  std::string name = all()[each.param].name;
  std::erase(name, '-');
  return name;
});

// The program's launches as this graph, so many times.
void expect_right(device::Device& device, const device::GraphSpec& spec, ProgramOnDevice& loaded, int rounds) {
  const auto graph = device.instantiate(spec);
  ASSERT_TRUE(graph.ok()) << graph.message();
  for (int round = 0; round < rounds; ++round) {
    ASSERT_TRUE(loaded.reset().ok());
    ASSERT_TRUE((*graph)->launch(loaded.queue()).ok());
    const Status status = loaded.queue().synchronize();
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(loaded.check().value(), "") << "round " << round;
  }
}

TEST_P(EachProgram, IsRightAsAChain_AgainAndAgain) {
  const Program program = all()[GetParam()].make(Size::small());
  const auto device = runtime::open_device("cpu");
  ASSERT_TRUE(device.ok()) << device.message();
  auto loaded = ProgramOnDevice::make(*device, program, ptx_of(program));
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  const auto lowered = loaded->lowered({});
  ASSERT_TRUE(lowered.ok()) << lowered.message();
  for (const std::string& reason : lowered->plain_reasons) EXPECT_EQ(reason, "");
  expect_right(**device, lowered->spec, *loaded, 3);
}

// The form that a hand would write for a wavefront (bench/blocks/forms/wavefront.h), which the six of section IV-D are.
TEST_P(EachProgram, IsRightAsAMegakernel_AgainAndAgain) {
  const Program program = all()[GetParam()].make(Size::small());
  const auto wavefront = wavefront_of(program);
  EXPECT_EQ(wavefront.has_value(), all()[GetParam()].paper_patterns == "6" && all()[GetParam()].paper_launches == 127)
      << program.name;
  if (!wavefront) return;
  const auto device = runtime::open_device("cpu");
  auto loaded = ProgramOnDevice::make(*device, program, ptx_of(program));
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  const auto form = megakernel_form(**device, program, *wavefront, *loaded);
  for (int round = 0; round < 3; ++round) {
    form->reset();
    form->run();
    EXPECT_EQ(form->check(), "") << "round " << round;
  }
}

// Kernels for launches that start early by hand: the two instructions stand before all others, and harm nothing.
TEST_P(EachProgram, HasProgrammaticKernels) {
  const Program program = all()[GetParam()].make(Size::small());
  const std::string ptx = programmatic_kernels(ptx_of(program, "sm_90"));
  const auto module = ptx::parse(ptx, program.source_file);
  ASSERT_TRUE(module.ok()) << module.message();
  std::size_t kernels = 0;
  for (const ptx::Item& item : module->items) {
    const auto* const function = std::get_if<ptx::Function>(&item.node);
    if (function == nullptr || !function->is_entry) continue;
    ++kernels;
    std::vector<std::string> first;
    for (const ptx::Statement& statement : function->body)
      if (const auto* const one = std::get_if<ptx::Instruction>(&statement.node); one != nullptr && first.size() < 3)
        first.push_back(one->op == ptx::Op::kGriddepcontrol ? ptx::print(*one, *function) : "other");
    EXPECT_THAT(first, testing::ElementsAre("griddepcontrol.launch_dependents;", "griddepcontrol.wait;", "other"))
        << function->name;
  }
  EXPECT_GT(kernels, 0u);
  const auto device = runtime::open_device("cpu");
  auto loaded = ProgramOnDevice::make(*device, program, ptx);
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  expect_right(**device, loaded->chain(), *loaded, 2);
}

// Runs of tiny launches as one, of one block.
TEST_P(EachProgram, IsRightFused_AgainAndAgain) {
  const Program program = all()[GetParam()].make(Size::small());
  const auto device = runtime::open_device("cpu");
  auto loaded = ProgramOnDevice::make(*device, program, ptx_of(program));
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  runtime::FusedOptions options;
  options.blocks = 1;
  options.most_warps = 32;
  options.most_waves = 1000;
  options.shortest = 1;
  const auto fused = loaded->fused(options);
  ASSERT_TRUE(fused.ok()) << fused.message();
  for (const std::string& reason : fused->plain_reasons) EXPECT_EQ(reason, "");
  EXPECT_EQ(fused->spec.nodes.size(), fused->segments.size());
  EXPECT_LE(fused->segments.size(), (program.launches.size() + 63) / 64) << "tables are full sooner";
  expect_right(**device, fused->spec, *loaded, 2);
}

// Runs of launches as one launch, whose blocks run a column each.
TEST_P(EachProgram, IsRightInColumns_AgainAndAgain) {
  const Program program = all()[GetParam()].make(Size::small());
  const auto device = runtime::open_device("cpu");
  auto loaded = ProgramOnDevice::make(*device, program, ptx_of(program));
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  const auto columns = loaded->fused(runtime::FusedOptions::in_columns());
  ASSERT_TRUE(columns.ok()) << columns.message();
  if (program.name == "FFT") {  // passes in float, and as many in double, which need nothing of each other
    ASSERT_EQ(columns->segments.size(), 2u);
    ASSERT_EQ(columns->spec.nodes.size(), 2u);
    EXPECT_TRUE(columns->spec.nodes[1].after.empty());
    EXPECT_EQ(columns->segments[0].shape.columns, transform::FusedColumns::kStrided);
  }
  expect_right(**device, columns->spec, *loaded, 2);
}

// Without blocks that write nothing, as they are and as launches that start early.
TEST_P(EachProgram, IsRightTrimmed_AgainAndAgain) {
  const Program program = all()[GetParam()].make(Size::small());
  const auto device = runtime::open_device("cpu");
  auto loaded = ProgramOnDevice::make(*device, program, ptx_of(program));
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  const runtime::TrimmedGrids trimmed = loaded->trimmed();
  for (const std::string& reason : trimmed.reasons) EXPECT_EQ(reason, "");
  if (program.name == "GAUSSIAN") {  // grids are those of the whole matrix
    EXPECT_GT(trimmed.launches, program.launches.size() / 4);
    EXPECT_LT(trimmed.after, trimmed.before / 2);
  }
  expect_right(**device, trimmed.spec, *loaded, 2);
  if (HasFatalFailure()) return;
  const auto early = loaded->lowered({}, loaded->trimmed_chain());
  ASSERT_TRUE(early.ok()) << early.message();
  expect_right(**device, early->spec, *loaded, 2);
}

// Whole numbers of launches as constants of their code; or why not, as its last bits might be others.
TEST_P(EachProgram, IsRightWithConstants_AgainAndAgain) {
  const Program program = all()[GetParam()].make(Size::small());
  const auto device = runtime::open_device("cpu");
  auto loaded = ProgramOnDevice::make(*device, program, ptx_of(program));
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  const runtime::ConstantNodes constants = loaded->constants();
  std::size_t without = 0;
  for (const std::string& reason : constants.reasons) {
    if (reason.empty()) continue;
    ++without;
    EXPECT_TRUE(reason.find(" cannot be constants: ") != std::string::npos ||
                reason.find("has no whole number that all of its launches have") != std::string::npos)
        << reason;
  }
  EXPECT_EQ(constants.launches + without, program.launches.size());
  if (program.name == "3MM" || program.name == "NW") {
    EXPECT_EQ(without, 0u) << "fma.rn, and no floating point";
  }
  // A kernel has a step of its own in each launch, and the matrix' size in all; the other has a plain product.
  if (program.name == "GAUSSIAN") {
    EXPECT_EQ(constants.launches, program.launches.size() / 2);
  }
  expect_right(**device, constants.spec, *loaded, 2);
}

// Other ways on top of constants, which they find in the same places as without: what can be made is as right. Under
// sanitizers each program has one of the ways.
TEST_P(EachProgram, IsRightInOtherWays_OnTopOfConstants) {
  const Program program = all()[GetParam()].make(Size::small());
  const auto device = runtime::open_device("cpu");
  auto loaded = ProgramOnDevice::make(*device, program, ptx_of(program));
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  const auto plain_stacks = loaded->stacked();
  ASSERT_TRUE(plain_stacks.ok()) << plain_stacks.message();
  loaded->use_constants();
  const auto spec_of = [](auto made) -> Result<device::GraphSpec> {
    if (!made.ok()) return made.status();
    return std::move(made->spec);
  };
  runtime::FusedOptions block;
  block.blocks = 1;
  block.most_warps = 32;
  const std::vector<std::pair<const char*, std::function<Result<device::GraphSpec>()>>> ways = {
      {"stacked", [&] { return spec_of(loaded->stacked()); }},
      {"merged", [&] { return spec_of(loaded->merged({})); }},
      {"merged-early", [&] { return spec_of(loaded->merged_early(loaded->merged({}).value())); }},
      {"merged-kernels", [&] { return spec_of(loaded->merged({.different_kernels = true})); }},
      {"trimmed", [&] { return Result(loaded->trimmed().spec); }},
      {"packed", [&] { return Result(loaded->packed(loaded->trimmed()).spec); }},
      {"by-block", [&] { return spec_of(loaded->lowered({})); }},
      {"columns", [&] { return spec_of(loaded->fused(runtime::FusedOptions::in_columns())); }},
      {"fused-block", [&] { return spec_of(loaded->fused(block)); }}};
  const std::size_t one_of = test_support::kSanitized ? ways.size() : 1;
  for (std::size_t w = 0; w < ways.size(); ++w) {
    if ((GetParam() + w) % one_of != 0) continue;
    SCOPED_TRACE(ways[w].first);
    const Result<device::GraphSpec> spec = ways[w].second();
    ASSERT_TRUE(spec.ok()) << spec.message();
    expect_right(**device, *spec, *loaded, 1);
    if (HasFatalFailure()) return;
  }
  if (program.name != "3MM" && program.name != "NW") return;
  const auto stacked = loaded->stacked();
  ASSERT_TRUE(stacked.ok()) << stacked.message();
  EXPECT_EQ(stacked->members, plain_stacks->members) << "few sets of numbers, and footprints are the same";
}

// Launches side by side as one: of one kernel, of different ones, and of one kernel in launches that start early.
TEST_P(EachProgram, IsRightMerged_AgainAndAgain) {
  const Program program = all()[GetParam()].make(Size::small());
  const auto device = runtime::open_device("cpu");
  auto loaded = ProgramOnDevice::make(*device, program, ptx_of(program));
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  std::vector<std::pair<const char*, device::GraphSpec>> specs;
  auto merged = loaded->merged({});
  ASSERT_TRUE(merged.ok()) << merged.message();
  auto early = loaded->merged_early(*merged);
  ASSERT_TRUE(early.ok()) << early.message();
  auto of_kernels = loaded->merged({.different_kernels = true});
  ASSERT_TRUE(of_kernels.ok()) << of_kernels.message();
  // BICG's two launches, and MVT's, need nothing of each other.
  if (program.name == "MVT" || program.name == "BICG") {
    EXPECT_EQ(of_kernels->spec.nodes.size(), 1u);
  }
  specs.emplace_back("merged", std::move(merged->spec));
  specs.emplace_back("merged-early", std::move(early->spec));
  specs.emplace_back("merged-kernels", std::move(of_kernels->spec));
  for (const auto& [way, spec] : specs) {
    SCOPED_TRACE(way);
    expect_right(**device, spec, *loaded, 2);
    if (HasFatalFailure()) return;
  }
}

// Launches that follow each other block by block as one.
TEST_P(EachProgram, IsRightStacked_AgainAndAgain) {
  const Program program = all()[GetParam()].make(Size::small());
  const auto device = runtime::open_device("cpu");
  auto loaded = ProgramOnDevice::make(*device, program, ptx_of(program));
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  const auto stacked = loaded->stacked();
  ASSERT_TRUE(stacked.ok()) << stacked.message();
  if (program.name == "FFT") {
    EXPECT_NE(stacked->stacks, 0u);
  }
  expect_right(**device, stacked->spec, *loaded, 2);
}

// All launches at once, each on a queue of its own and the last one first: only what blocks wait for keeps the order.
TEST_P(EachProgram, IsRight_WhereAllLaunchesStartAtOnce) {
  const Program program = all()[GetParam()].make(Size::small());
  const auto device = runtime::open_device("cpu");
  auto loaded = ProgramOnDevice::make(*device, program, ptx_of(program));
  ASSERT_TRUE(loaded.ok()) << loaded.message();
  runtime::BlockLoweringOptions options;
  options.chain.most_running = 1u << 20;  // nothing has ended by itself
  const auto lowered = loaded->lowered(options);
  ASSERT_TRUE(lowered.ok()) << lowered.message();
  constexpr std::size_t kAtOnce = 8;
  std::vector<std::unique_ptr<device::Queue>> queues;
  for (std::size_t i = 0; i < kAtOnce; ++i) queues.push_back((*device)->create_queue().value());
  const auto& nodes = lowered->spec.nodes;
  const auto start = [&](std::size_t i) {
    const auto& work = std::get<device::KernelNode>(nodes[i].work);
    const Status status = queues[i % kAtOnce]->launch(work.module, *work.kernel, work.config, work.parameters);
    ASSERT_TRUE(status.ok()) << status.message();
  };
  const auto wait = [&] {
    for (const auto& queue : queues) {
      const Status status = queue->synchronize();
      ASSERT_TRUE(status.ok()) << status.message();
    }
  };
  // Again in one form: from the second run on blocks wait only as far as they know which run it is.
  for (int run = 0; run < 3; ++run) {
    ASSERT_TRUE(loaded->reset().ok());
    // A launch that waits for all has griddepcontrol.wait for it, which is nothing here.
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= nodes.size(); ++i) {
      if (i < nodes.size() && !lowered->steps[i].waits_for_all && i - begin < kAtOnce) continue;
      for (std::size_t k = i; k-- > begin;) start(k);
      wait();
      begin = i;
    }
    ASSERT_EQ(loaded->check().value(), "") << "run " << run;
  }
}

}  // namespace
}  // namespace pergola::bench::blocks
