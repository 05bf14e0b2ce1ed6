// Bodies are compiled while tasks run: nobody waits for the compiler who does not want its kernel.
#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "src/executor/executor.h"
#include "src/executor/generation.h"
#include "src/ptx/parser.h"
#include "src/runtime/devices.h"

namespace pergola::executor {
namespace {

// Another device whose compiler takes as long as a test likes.
class SlowlyCompilingDevice final : public device::Device {
 public:
  explicit SlowlyCompilingDevice(device::DevicePtr inner) : inner_(std::move(inner)) {}
  const device::DeviceInfo& info() const override { return inner_->info(); }
  Result<device::ModulePtr> load(const device::ModuleSource& source) override {
    if (while_compiling) while_compiling();
    return inner_->load(source);
  }
  Result<device::BufferPtr> allocate(std::size_t size_bytes, device::MemoryKind kind) override {
    return inner_->allocate(size_bytes, kind);
  }
  Result<device::TexturePtr> create_texture(const device::TextureDescription& description) override {
    return inner_->create_texture(description);
  }
  Result<std::unique_ptr<device::Queue>> create_queue() override { return inner_->create_queue(); }
  Result<std::unique_ptr<device::ExecutableGraph>> instantiate(device::GraphSpec spec) override {
    return inner_->instantiate(std::move(spec));
  }
  Status health() const override { return inner_->health(); }

  std::function<void()> while_compiling;

 private:
  const device::DevicePtr inner_;
};

transform::TaskBody body_that_adds(int what) {
  const auto module = ptx::parse(
      fmt::format(".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry kernel(.param .u64 out) {{\n"
                  "  .reg .b64 %to;\n  ld.param.u64 %to, [out];\n  red.global.add.u32 [%to], {};\n  ret;\n}}\n",
                  what),
      "test.ptx");
  EXPECT_TRUE(module.ok()) << module.message();
  auto body = transform::entry_to_task(*module, "kernel", task_config(8, 48 * 1024));
  EXPECT_TRUE(body.ok()) << body.message();
  return *std::move(body);
}

class ExecutorCompile : public testing::Test {
 protected:
  void SetUp() override {
    auto inner = runtime::open_device("cpu");
    ASSERT_TRUE(inner.ok()) << inner.message();
    device = std::make_shared<SlowlyCompilingDevice>(*inner);
    auto made = Executor::create(device, {.blocks = 2});
    ASSERT_TRUE(made.ok()) << made.message();
    executor = *std::move(made);
    auto allocated = device->allocate(4, device::MemoryKind::kHostVisible);
    ASSERT_TRUE(allocated.ok()) << allocated.message();
    out = *std::move(allocated);
    sum = reinterpret_cast<std::uint32_t*>(out->host_pointer());
    *sum = 0;
    address = out->address();
  }

  std::shared_ptr<SlowlyCompilingDevice> device;
  std::shared_ptr<Executor> executor;
  device::BufferPtr out;  // of one number, which tasks add to
  std::uint32_t* sum = nullptr;
  device::DeviceAddress address = 0;
};

TEST_F(ExecutorCompile, SeveralBodies_AreCompiledOnce_AndEachRunsUnderItsNumber) {
  int compiled = 0;
  device->while_compiling = [&] { ++compiled; };
  std::vector<transform::TaskBody> bodies;
  for (const int what : {1, 100, 10'000}) bodies.push_back(body_that_adds(what));
  const auto first = executor->add_bodies(std::move(bodies));
  ASSERT_TRUE(first.ok()) << first.message();
  EXPECT_EQ(compiled, 1);
  const auto none = executor->add_bodies({});
  EXPECT_TRUE(none.ok()) << none.message();
  EXPECT_EQ(compiled, 1) << "nothing is new";
  device->while_compiling = nullptr;
  device::LaunchConfig shape;
  shape.grid = {1, 1, 1};
  shape.block = {1, 1, 1};
  std::vector<Kind> kinds;  // all before the first task: nothing is made beside tasks then
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto kind = executor->add_kind(*first + i, shape);
    ASSERT_TRUE(kind.ok()) << kind.message();
    kinds.push_back(*kind);
  }
  for (std::uint32_t i = 0; i < 3; ++i)
    for (std::uint32_t times = 0; times <= i; ++times) {
      const auto id = executor->spawn(kinds[i], std::as_bytes(std::span(&address, 1)));
      ASSERT_TRUE(id.ok()) << id.message();
      EXPECT_TRUE(executor->wait(*id, std::chrono::seconds(20)).ok());
    }
  ASSERT_TRUE(executor->park().ok());
  EXPECT_EQ(*sum, 1u + 2 * 100 + 3 * 10'000);
}

TEST_F(ExecutorCompile, TasksRun_WhileABodyIsCompiled) {
  device::LaunchConfig shape;
  shape.grid = {1, 1, 1};
  shape.block = {32, 1, 1};
  const auto run = [&](const Kind& kind) {
    const auto id = executor->spawn(kind, std::as_bytes(std::span(&address, 1)));
    return id.ok() ? executor->wait(*id, std::chrono::seconds(20)) : id.status();
  };
  const auto kind_of = [&](std::uint32_t body) {
    const auto kind = executor->add_kind(body, shape);
    EXPECT_TRUE(kind.ok()) << kind.message();
    return *kind;
  };
  const auto first = executor->add_body(body_that_adds(1));
  ASSERT_TRUE(first.ok()) << first.message();
  const Kind one = kind_of(*first);

  std::future<Status> ran;
  int compiled = 0;
  device->while_compiling = [&] {
    ++compiled;
    ran = std::async(std::launch::async, [&] { return run(one); });
    EXPECT_EQ(ran.wait_for(std::chrono::seconds(10)), std::future_status::ready) << "a task waits for the compiler";
  };
  const auto second = executor->add_body(body_that_adds(1000));
  ASSERT_TRUE(second.ok()) << second.message();
  device->while_compiling = nullptr;
  EXPECT_EQ(compiled, 1);
  const Status status = ran.get();
  EXPECT_TRUE(status.ok()) << status.message();
  // What a resident kernel's fences order, a race detector sees once the kernel has left.
  ASSERT_TRUE(executor->park().ok());
  EXPECT_EQ(*sum, 32u);
  EXPECT_TRUE(run(kind_of(*second)).ok());
  EXPECT_TRUE(run(one).ok());
  ASSERT_TRUE(executor->park().ok());
  EXPECT_EQ(*sum, 32u + 32'000u + 32u);
}

}  // namespace
}  // namespace pergola::executor
