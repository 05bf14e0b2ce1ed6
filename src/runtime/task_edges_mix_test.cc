// Launches, copies, fills, accesses of the host and tasks mixed at random, on the CPU device or on $PERGOLA_DEVICE: the
// results are those of one after the other.
#include <mutex>
#include <random>
#include <thread>

#include "src/runtime/task_edges_fixture.h"

namespace pergola::runtime::task_edges_testing {
namespace {

// Launches, fills, copies, accesses of the host and tasks over few arrays, submitted one after the other by several
// threads: the contents are those of running each at once. Tasks have no order among each other, so whoever spawns one
// that conflicts with another waits for that, unless ordinary work that overwrites came in between.
class Mix {
 public:
  static constexpr std::uint32_t kArrays = 4, kWords = 16;
  struct Kinds {
    session::TaskKindPtr step, slow, add;
  };
  Mix(session::SessionPtr session, session::ModulePtr module, session::TaskPoolPtr pool, Kinds kinds)
      : session_(std::move(session)), module_(std::move(module)), pool_(std::move(pool)), kinds_(std::move(kinds)) {
    for (Array& array : arrays_) {
      array.words = *session_->allocate(session::ElementType::kU32, 0, kWords);
      fill(array, 1);
    }
  }
  void run(std::uint32_t seed, std::uint32_t threads, std::uint32_t operations) {
    std::vector<std::thread> all;
    for (std::uint32_t t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        std::mt19937 random(seed + t * 1000003);
        for (std::uint32_t n = 0; n < operations && !testing::Test::HasFailure(); ++n) {
          const std::lock_guard lock(mutex_);
          one(random);
        }
      });
    for (std::thread& thread : all) thread.join();
    for (Array& array : arrays_) compare(array);
    EXPECT_TRUE(session_->synchronize().ok());
  }

 private:
  struct Array {
    session::ArrayPtr words;
    Words wanted = Words(kWords, 0);
    std::vector<session::TaskId> readers, writers;
  };
  static Argument number(std::uint32_t value) { return Number{session::ElementType::kU32, value}; }
  static session::LaunchShape shape() { return {.grid = {1, 1, 1}, .block = {32, 1, 1}}; }
  void expect_ok(const Status& status) { EXPECT_TRUE(status.ok()) << status.message(); }
  void launch(const char* name, const std::vector<Argument>& arguments) {
    expect_ok((*module_->kernel(name))->launch(shape(), arguments, nullptr, nullptr));
  }
  void wait(std::vector<session::TaskId>& ids) {
    for (const session::TaskId id : ids) expect_ok(pool_->wait(id, 120s));
    ids.clear();
  }
  void overwritten(Array& array) {
    array.readers.clear();
    array.writers.clear();
  }
  session::TaskId spawn(session::TaskKindPtr kind, const std::vector<Argument>& arguments, bool high) {
    if (high) kind = *kind->with_priority(session::TaskPriority::kHigh);
    const auto id = kind->spawn(arguments);
    EXPECT_TRUE(id.ok()) << id.message();
    return id.ok() ? *id : 0;
  }
  void fill(Array& array, std::uint32_t value) {
    expect_ok(array.words->fill(std::as_bytes(std::span(&value, 1))));
    array.wanted.assign(kWords, value);
    overwritten(array);
  }
  void compare(Array& array) {
    Words values(kWords);
    expect_ok(array.words->read(0, std::as_writable_bytes(std::span(values))));
    EXPECT_EQ(values, array.wanted);
    array.writers.clear();
  }
  void one(std::mt19937& random) {
    Array& x = arrays_[random() % kArrays];
    Array& y = arrays_[random() % kArrays];
    const auto by = static_cast<std::uint32_t>(random() % 5), plus = static_cast<std::uint32_t>(random() % 9);
    const auto steps = static_cast<std::uint32_t>(random() % (kSanitized ? 20 : 300));
    const bool is_task = random() % 2 == 0, high = random() % 4 == 0;
    const std::vector<Argument> step{ArrayArgument{x.words}, number(kWords), number(by), number(plus)};
    switch (random() % 12) {
      case 0: return fill(x, plus);
      case 1:
        if (&x == &y) return;
        expect_ok(y.words->copy_from(0, x.words, 0, kWords * 4));
        y.wanted = x.wanted;
        return overwritten(y);
      case 2: return compare(x);
      case 3: {
        const Words values(kWords, by);
        expect_ok(x.words->write(0, std::as_bytes(std::span(values))));
        x.wanted = values;
        return overwritten(x);
      }
      case 4: return random() % 8 == 0 ? expect_ok(session_->synchronize()) : expect_ok(pool_->wait_all(120s));
      case 5:
      case 6:
      case 7:
        if (&x == &y) return;
        if (is_task) {
          wait(x.writers), wait(y.writers), wait(y.readers);
          const auto id = spawn(kinds_.add, {ArrayArgument{y.words}, ArrayArgument{x.words}, number(kWords)}, high);
          x.readers.push_back(id);
          y.writers.push_back(id);
        } else {
          launch("add_to", {ArrayArgument{y.words}, ArrayArgument{x.words}, number(kWords)});
          overwritten(y);
        }
        for (std::uint32_t i = 0; i < kWords; ++i) y.wanted[i] = y.wanted[i] * 3 + x.wanted[i];
        return;
      default:
        if (is_task) {
          wait(x.writers), wait(x.readers);
          std::vector<Argument> slow = step;
          slow.push_back(number(steps));
          x.writers.push_back(steps % 2 == 0 ? spawn(kinds_.step, step, high) : spawn(kinds_.slow, slow, high));
        } else {
          launch("step", step);
          overwritten(x);
        }
        for (std::uint32_t& word : x.wanted) word = word * by + plus;
    }
  }

  const session::SessionPtr session_;
  const session::ModulePtr module_;
  const session::TaskPoolPtr pool_;
  const Kinds kinds_;
  std::mutex mutex_;  // over each operation, so that there is one order
  Array arrays_[kArrays];
};

class TaskEdgesMixTest : public TaskEdgesTest {
 protected:
  void SetUp() override {
    if (device() == "cpu") return TaskEdgesTest::SetUp();
    if (!is_resident()) GTEST_SKIP() << "threads run the CPU device's tasks alone";
  }
};
INSTANTIATE_TEST_SUITE_P(Executors, TaskEdgesMixTest, testing::Values(TaskExecutor::kResident, TaskExecutor::kThreads),
                         [](const auto& tested) {
                           return std::string(tested.param == TaskExecutor::kResident ? "resident" : "threads");
                         });

// PERGOLA_SEED repeats one, PERGOLA_MIXES says how many.
TEST_P(TaskEdgesMixTest, RandomMixes_AreAsOneAfterTheOther) {
  const char *given = std::getenv("PERGOLA_SEED"), *many = std::getenv("PERGOLA_MIXES");
  const auto first = given == nullptr ? static_cast<std::uint32_t>(std::random_device()())
                                      : static_cast<std::uint32_t>(std::strtoul(given, nullptr, 0));
  const std::uint32_t usual = kSanitized ? 4 : 12;
  const std::uint32_t mixes = many == nullptr ? usual : static_cast<std::uint32_t>(std::atoi(many));
  for (std::uint32_t mix = 0; mix < mixes && !HasFailure(); ++mix) {
    SCOPED_TRACE(testing::Message() << "PERGOLA_SEED=" << first + mix);
    open(mix % 3 == 2 ? "tasks=small" : mix % 3 == 1 ? "graphs=off" : "");
    const Mix::Kinds kinds{kind("step"), kind("slow_step"), kind("add_to")};
    Mix(session_, module_, pool_, kinds).run(first + mix, 1 + mix % 4, is_resident() ? 40 : 150);
  }
}

}  // namespace
}  // namespace pergola::runtime::task_edges_testing
