#include "sparse_lu.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <thread>

#include "../support/report.h"

namespace narrow {
namespace {

constexpr std::size_t B = kBlockSide;

// The pattern of sparselu's genmat().
bool is_there(std::size_t row, std::size_t column) {
  const std::size_t apart = row > column ? row - column : column - row;
  if (apart <= 1) return true;
  if (row < column && row % 3 != 0) return false;
  if (row > column && column % 3 != 0) return false;
  return row % 2 == 0 && column % 2 == 0;
}

template <typename Number>
void lu0(Number* d) {
  for (std::size_t k = 0; k < B; ++k)
    for (std::size_t i = k + 1; i < B; ++i) {
      d[i * B + k] /= d[k * B + k];
      for (std::size_t j = k + 1; j < B; ++j) d[i * B + j] -= d[i * B + k] * d[k * B + j];
    }
}
template <typename Number>
void fwd(const Number* d, Number* right) {
  for (std::size_t k = 0; k < B; ++k)
    for (std::size_t i = k + 1; i < B; ++i)
      for (std::size_t j = 0; j < B; ++j) right[i * B + j] -= d[i * B + k] * right[k * B + j];
}
template <typename Number>
void bdiv(const Number* d, Number* below) {
  for (std::size_t i = 0; i < B; ++i)
    for (std::size_t k = 0; k < B; ++k) {
      below[i * B + k] /= d[k * B + k];
      for (std::size_t j = k + 1; j < B; ++j) below[i * B + j] -= below[i * B + k] * d[k * B + j];
    }
}
template <typename Number>
void bmod(const Number* below, const Number* right, Number* inner) {
  for (std::size_t i = 0; i < B; ++i)
    for (std::size_t k = 0; k < B; ++k)
      for (std::size_t j = 0; j < B; ++j) inner[i * B + j] -= below[i * B + k] * right[k * B + j];
}

class LuCpu : public Form {
 public:
  LuCpu(const SparseLu& lu, unsigned threads) : lu_(lu), threads_(threads) { name = threads == 1 ? "cpu1" : "cpu"; }
  double run(Measure) override {
    std::memcpy(lu_.out(), lu_.in(), lu_.bytes());
    const auto start = std::chrono::steady_clock::now();
    lu_.factorize(reinterpret_cast<float*>(lu_.out()), threads_);
    return bench::ms_since(start);
  }
  void load() override {}
  void fetch(Measure) override {}
  void clobber() override {}
  bool can(Measure measure) const override { return measure == Measure::kCompute; }

 private:
  const SparseLu& lu_;
  const unsigned threads_;
};

}  // namespace

SparseLu::SparseLu(std::size_t tasks) {
  for (std::size_t side = 4; tasks_.size() < tasks; ++side) lay_out(side);
}

void SparseLu::lay_out(std::size_t side) {
  constexpr std::uint32_t kNone = ~0u;
  side_ = side;
  rows_.clear(), tasks_.clear(), phases_.clear();
  std::vector<std::uint32_t> number(side * side, kNone);
  const auto add = [&](std::size_t row, std::size_t column) {
    std::uint32_t& own = number[row * side + column];
    if (own != kNone) return;
    own = static_cast<std::uint32_t>(rows_.size());
    rows_.push_back({static_cast<std::uint32_t>(row), static_cast<std::uint32_t>(column)});
  };
  for (std::size_t row = 0; row < side; ++row)
    for (std::size_t column = 0; column < side; ++column)
      if (is_there(row, column)) add(row, column);
  const auto end_phase = [&](std::size_t first) {
    if (first != tasks_.size()) phases_.push_back({first, tasks_.size()});
  };
  for (std::size_t k = 0; k < side; ++k) {
    const std::uint32_t diagonal = number[k * side + k];
    std::size_t first = tasks_.size();
    tasks_.push_back({LuStep::kLu0, 1, {diagonal}});
    end_phase(first);
    first = tasks_.size();
    std::vector<std::size_t> right, below;
    for (std::size_t j = k + 1; j < side; ++j)
      if (number[k * side + j] != kNone) right.push_back(j);
    for (std::size_t i = k + 1; i < side; ++i)
      if (number[i * side + k] != kNone) below.push_back(i);
    for (const std::size_t j : right) tasks_.push_back({LuStep::kFwd, 2, {diagonal, number[k * side + j]}});
    for (const std::size_t i : below) tasks_.push_back({LuStep::kBdiv, 2, {diagonal, number[i * side + k]}});
    end_phase(first);
    first = tasks_.size();
    // What step k + 1 begins with comes first.
    for (const bool is_next : {true, false})
      for (const std::size_t i : below)
        for (const std::size_t j : right) {
          if ((i == k + 1 || j == k + 1) != is_next) continue;
          add(i, j);
          tasks_.push_back({LuStep::kBmod, 3, {number[i * side + k], number[k * side + j], number[i * side + j]}});
        }
    end_phase(first);
  }
}

void SparseLu::prepare(const bench::Gpu* gpu) {
  memory_ = std::make_unique<bench::HostMemory>(gpu);
  in_ = memory_->take<float>(rows_.size() * kBlockFloats);
  out_ = memory_->take<float>(in_.size());
  std::fill(in_.begin(), in_.end(), 0.f);
  for (std::size_t block = 0; block < rows_.size(); ++block) {
    const auto [row, column] = rows_[block];
    if (!is_there(row, column)) continue;
    float* values = in_.data() + block * kBlockFloats;
    fill_uniform(reinterpret_cast<std::byte*>(values), kBlockBytes, 40, row * side_ + column);
    if (row == column)
      for (std::size_t i = 0; i < B; ++i) values[i * B + i] += static_cast<float>(B * side_);
  }
  expected_.assign(in_.begin(), in_.end());
  factorize(expected_.data(), std::max(1u, std::thread::hardware_concurrency()));
}

bool SparseLu::is_right() const {
  for (std::size_t block = 0; block < rows_.size(); ++block) {
    // What is below the diagonal was divided by it.
    const double scale = rows_[block][0] > rows_[block][1] ? 1.0 / static_cast<double>(B * side_) : 1;
    for (std::size_t i = block * kBlockFloats; i < (block + 1) * kBlockFloats; ++i)
      if (!(std::fabs(out_[i] - expected_[i]) <= 1e-4 * (scale + std::fabs(expected_[i])))) return false;
  }
  return true;
}

void SparseLu::clobber() const {
  std::memset(out_.data(), 0xff, out_.size_bytes());
}

std::vector<std::vector<std::uint32_t>> SparseLu::dependencies() const {
  constexpr std::uint32_t kNobody = ~0u;
  std::vector<std::vector<std::uint32_t>> result(tasks_.size());
  std::vector<std::uint32_t> writer(rows_.size(), kNobody);
  for (std::size_t t = 0; t < tasks_.size(); ++t) {
    const LuTask& task = tasks_[t];
    for (std::size_t i = 0; i < task.count; ++i)
      if (writer[task.blocks[i]] != kNobody) result[t].push_back(writer[task.blocks[i]]);
    writer[task.blocks[task.count - 1u]] = static_cast<std::uint32_t>(t);
  }
  return result;
}

template <typename Number>
void SparseLu::compute(const LuTask& task, Number* matrix) {
  const auto block = [&](std::size_t i) { return matrix + task.blocks[i] * kBlockFloats; };
  switch (task.step) {
    case LuStep::kLu0: return lu0(block(0));
    case LuStep::kFwd: return fwd<Number>(block(0), block(1));
    case LuStep::kBdiv: return bdiv<Number>(block(0), block(1));
    case LuStep::kBmod: return bmod<Number>(block(0), block(1), block(2));
  }
}

template <typename Number>
void SparseLu::factorize(Number* matrix, unsigned threads) const {
  if (threads == 1) {
    for (const LuTask& task : tasks_) compute(task, matrix);
    return;
  }
  std::vector<std::atomic<std::size_t>> next(phases_.size());
  std::barrier together(static_cast<std::ptrdiff_t>(threads));
  const auto work = [&] {
    for (std::size_t phase = 0; phase < phases_.size(); ++phase) {
      const Range& range = phases_[phase];
      for (std::size_t i; (i = range.first + next[phase].fetch_add(1, std::memory_order_relaxed)) < range.last;)
        compute(tasks_[i], matrix);
      together.arrive_and_wait();
    }
  };
  std::vector<std::jthread> others;
  for (unsigned t = 1; t < threads; ++t) others.emplace_back(work);
  work();
}

void run_sparse_lu(Bench& bench, const bench::Gpu* gpu, std::size_t tasks) {
  SparseLu lu(tasks);
  if (gpu != nullptr) gpu->enter();
  lu.prepare(gpu);
  const Bench::Subject subject{"SLUD",
                               {{"tasks", lu.tasks().size()}, {"blocks_of_side", lu.side()}},
                               false,
                               false,
                               [&] { lu.clobber(); },
                               [&] { return lu.is_right(); }};
  if (bench.wants("cpu1")) bench.measure(subject, *std::make_unique<LuCpu>(lu, 1));
  if (bench.wants("cpu")) {
    const unsigned threads = std::max(2u, std::thread::hardware_concurrency());
    bench.measure(subject, *std::make_unique<LuCpu>(lu, threads));
  }
  if (gpu != nullptr && bench.wants("streams")) bench.measure(subject, *make_lu_streams(*gpu, lu));
  if (gpu != nullptr && bench.wants("graph")) bench.measure(subject, *make_lu_graph(*gpu, lu));
  if (bench.wants("pergola-launches"))
    bench.measure(subject, *make_lu_launches(bench.in_order(), bench.in_order_module(), lu));
  if (bench.wants("pergola")) {
    const pergola::Session session;
    bench.measure(subject, *make_lu_tasks(session, session.load(bench.kernels_path()), lu));
  }
  if (bench.wants("pergola")) {
    const pergola::Session session;
    const std::filesystem::path kernels = bench.kernels_path();
    const pergola::Module module = session.load(kernels);
    const pergola::Module spawning = session.load(kernels.parent_path() / "sparse_lu_spawning.cu");
    bench.measure(subject, *make_lu_spawning(session, module, spawning, lu));
  }
  if (gpu != nullptr) gpu->enter();
}

}  // namespace narrow
