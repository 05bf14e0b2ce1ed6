#include "problem.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <new>
#include <thread>
#include <utility>

namespace narrow {
namespace {

constexpr std::size_t kAlignment = 256;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace

Problem::Problem(std::string name, std::string by_hand, std::vector<std::unique_ptr<Kind>> kinds, std::size_t tasks,
                 const std::function<Shape(std::size_t)>& shape)
    : name_(std::move(name)), by_hand_(std::move(by_hand)), kinds_(std::move(kinds)) {
  for (std::size_t i = 0; i < tasks; ++i) {
    const Shape own = shape(i);
    Task task{own.kind, static_cast<std::uint32_t>(i), own.size, own.threads, 1, kinds_[own.kind]->sizes(own.size)};
    task.in = bytes_.in, task.out = bytes_.out, task.scratch = bytes_.scratch;
    bytes_.in += aligned(task.bytes.in);
    bytes_.out += aligned(task.bytes.out);
    bytes_.scratch += aligned(task.bytes.scratch);
    most_threads_ = std::max(most_threads_, task.threads);
    tasks_.push_back(task);
  }
}

void Problem::prepare(const bench::Gpu* gpu) {
  memory_ = std::make_unique<bench::HostMemory>(gpu);
  in_ = memory_->take<std::byte>(std::max<std::size_t>(bytes_.in, 1));
  out_ = memory_->take<std::byte>(bytes_.out);
  expected_.resize(bytes_.out);
  parallel_for(tasks_.size(), [&](std::size_t i) {
    const Task& task = tasks_[i];
    kind_of(task).generate(task, in_.data() + task.in);
    kind_of(task).reference(task, in_.data() + task.in, expected_.data() + task.out);
  });
}

void Problem::release() {
  in_ = out_ = {};
  memory_.reset();
  expected_ = {};
}

void Problem::reshape(unsigned blocks, unsigned threads) {
  for (Task& task : tasks_) task.blocks = blocks, task.threads = threads;
  most_threads_ = threads;
}

void Problem::clobber() const {
  parallel_for(tasks_.size(),
               [&](std::size_t i) { std::memset(out_.data() + tasks_[i].out, 0xff, tasks_[i].bytes.out); });
}

bool Problem::is_right(std::size_t stride) const {
  std::atomic<bool> right{true};
  parallel_for(tasks_.size() / stride, [&](std::size_t i) {
    const Task& task = tasks_[i * stride];
    if (!kind_of(task).is_right(task, out_.data() + task.out, expected_.data() + task.out)) right = false;
  });
  return right;
}

void parallel_for(std::size_t n, const std::function<void(std::size_t)>& body) {
  constexpr std::size_t kAtOnce = 4;
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i; (i = next.fetch_add(kAtOnce, std::memory_order_relaxed)) < n;)
      for (std::size_t k = i; k < std::min(i + kAtOnce, n); ++k) body(k);
  };
  std::vector<std::jthread> workers;
  for (unsigned t = 1; t < std::thread::hardware_concurrency(); ++t) workers.emplace_back(work);
  work();
}

void fill_uniform(std::byte* out, std::size_t bytes, std::uint64_t seed, std::uint64_t index) {
  auto* values = reinterpret_cast<float*>(out);
  const auto unit = [](std::uint64_t bits) {
    return static_cast<float>(static_cast<int>(bits & 0xffffff) - 0x800000) * 0x1p-23f;
  };
  for (std::size_t i = 0; i < bytes / 8; ++i) {
    const std::uint64_t draw = hash(seed, index * 0x100000 + i);
    values[2 * i] = unit(draw);
    values[2 * i + 1] = unit(draw >> 32);
  }
}

bool all_close(const std::byte* got, const std::byte* expected, std::size_t bytes, float tolerance) {
  const auto *a = reinterpret_cast<const float*>(got), *b = reinterpret_cast<const float*>(expected);
  for (std::size_t i = 0; i < bytes / 4; ++i)
    if (!(std::fabs(a[i] - b[i]) <= tolerance * (1 + std::fabs(b[i])))) return false;
  return true;
}

}  // namespace narrow
