// Modules: what they tell of their kernels and variables, and what is refused when they are loaded.
#include <algorithm>

#include "tests/conformance/harness.h"

namespace pergola::conformance {
namespace {

CONFORMANCE_SUITE(Modules);
CONFORMANCE_SUITE(Globals);

TEST_P(Modules, KernelNames_AreAllThere) {
  const ModulePtr module = load("faults");
  std::vector<std::string> names = module->kernel_names();
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"asserts", "load_from", "shared_far", "store_to", "traps"}));
}

TEST_P(Modules, MissingKernel_IsNotFoundAndNamesWhatIsThere) {
  const ModulePtr module = load("faults");
  EXPECT_CODE(kNotFound, "'nothing'", module->kernel("nothing"));
  EXPECT_CODE(kNotFound, "store_to", module->kernel("nothing"));
}

TEST_P(Modules, Signature_IsThatOfThePtx) {
  const ModulePtr module = load("launch");
  const ptx::KernelSignature& signature = need(module->kernel("every_parameter"))->signature();
  ASSERT_EQ(signature.parameters.size(), 13u);
  const std::uint32_t sizes[] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 24, 8, 1};
  const std::uint32_t offsets[] = {0, 1, 2, 4, 8, 12, 16, 24, 32, 40, 48, 72, 80};
  for (std::size_t i = 0; i < 13; ++i) {
    EXPECT_EQ(signature.parameters[i].size_bytes, sizes[i]) << i;
    EXPECT_EQ(signature.parameters[i].offset_bytes, offsets[i]) << i;
  }
  EXPECT_EQ(signature.parameter_bytes, 81u);
  EXPECT_EQ(need(module->kernel("no_parameters"))->signature().parameter_bytes, 0u);
}

TEST_P(Modules, Resources_CountStaticSharedMemory) {
  const ModulePtr module = load("shared");
  const device::Kernel* kernel = need(module->kernel("static_shared"));
  EXPECT_EQ(kernel->signature().static_shared_bytes, 1024u);
  EXPECT_GE(kernel->resources().static_shared_bytes, 1024u);
  EXPECT_GE(kernel->resources().max_threads_per_block, 256u);
  EXPECT_TRUE(need(module->kernel("dynamic_shared"))->signature().uses_dynamic_shared);
}

TEST_P(Modules, Occupancy_IsAtLeastOneBlock) {
  const ModulePtr module = load("shared");
  const device::Kernel* kernel = need(module->kernel("static_shared"));
  const std::uint32_t blocks = need(kernel->max_resident_blocks_per_sm(256, 0));
  EXPECT_GE(blocks, 1u);
  EXPECT_LE(blocks, device().info().max_blocks_per_sm);
}

TEST_P(Modules, Bounds_AreInTheSignature) {
  const ModulePtr module = load("bounds");
  const auto& exact = need(module->kernel("exactly_64_2"))->signature();
  ASSERT_TRUE(exact.required_threads.has_value());
  EXPECT_EQ((*exact.required_threads)[1], 2u);
  const auto& most = need(module->kernel("at_most_96"))->signature();
  ASSERT_TRUE(most.max_threads.has_value());
  EXPECT_EQ((*most.max_threads)[0], 96u);
}

TEST_P(Modules, LaterArchitecture_IsRefused) { EXPECT_CODE(kUnsupported, "sm_999", try_load("later")); }

TEST_P(Modules, MissingVariable_IsNotFound) { EXPECT_CODE(kNotFound, "'nothing'", load("globals")->global("nothing")); }

TEST_P(Modules, VariableSizes_AreThoseOfThePtx) {
  const ModulePtr module = load("globals");
  EXPECT_EQ(need(module->global("counter")).size_bytes, 4u);
  EXPECT_EQ(need(module->global("zeroed")).size_bytes, 400u);
  EXPECT_EQ(need(module->global("items")).size_bytes, 24u);
  EXPECT_EQ(need(module->global("table")).size_bytes, 32u);
  EXPECT_NE(need(module->global("table")).address, 0u);
  EXPECT_EQ(need(module->global("message")).size_bytes, 14u);
}

TEST_P(Globals, InitialValues_AreSeenByKernels) {
  const ModulePtr module = load("globals");
  const BufferPtr out = zeros<std::int64_t>(7);
  run(module, "use_globals", {}, Arguments(out));
  const std::vector<std::int64_t> got = download<std::int64_t>(out);
  EXPECT_EQ(got[0], 42);
  EXPECT_EQ(got[1], 42) << "a pointer to another variable";
  EXPECT_EQ(got[2], 8);
  EXPECT_EQ(got[3], 1 << 30);
  double last = 0;
  std::memcpy(&last, &got[4], 8);
  EXPECT_EQ(last, 1e300);
  EXPECT_EQ(got[5], 'b');
  float sum = 0;
  std::memcpy(&sum, &got[6], 4);
  EXPECT_EQ(sum, 1.5f);
}

TEST_P(Globals, Values_LastFromLaunchToLaunch) {
  const ModulePtr module = load("globals");
  const BufferPtr out = zeros<std::int64_t>(7);
  for (int i = 0; i < 3; ++i) run(module, "use_globals", {}, Arguments(out));
  EXPECT_EQ(download<std::int64_t>(out)[0], 44);
}

TEST_P(Globals, EachLoadedModule_HasItsOwn) {
  const ModulePtr one = load("globals"), other = load("globals");
  EXPECT_NE(need(one->global("counter")).address, need(other->global("counter")).address);
  const BufferPtr out = zeros<std::int64_t>(7);
  run(one, "use_globals", {}, Arguments(out));
  run(one, "use_globals", {}, Arguments(out));
  run(other, "use_globals", {}, Arguments(out));
  EXPECT_EQ(download<std::int64_t>(out)[0], 42);
}

TEST_P(Globals, Address_IsWhereKernelsReadAndWrite) {
  const ModulePtr module = load("globals"), launches = load("launch");
  const auto counter = need(module->global("counter"));
  run(launches, "add_one", {}, Arguments(counter.address, 1));
  const BufferPtr out = zeros<std::int64_t>(7);
  run(module, "use_globals", {}, Arguments(out));
  EXPECT_EQ(download<std::int64_t>(out)[0], 43);
}

TEST_P(Globals, ConstantTable_IndexedByThread) {
  const ModulePtr module = load("globals");
  const BufferPtr index = upload(std::vector<int>{3, 1, 0, 2}), out = zeros<double>(4);
  run(module, "read_table", {.block = {4, 1, 1}}, Arguments(index, out));
  EXPECT_EQ(download<double>(out), (std::vector<double>{1e300, -1.25, 0.5, 3.0}));
}

}  // namespace
}  // namespace pergola::conformance
