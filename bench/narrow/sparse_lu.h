// SLUD: the factors L U of a sparse matrix of 32 x 32 blocks, without pivots, as in the Barcelona OpenMP task suite
// (sparselu). The blocks that there are follow its pattern, what fills in is known before; a diagonal that is large
// keeps the factors tame. Step k is three phases, each of which needs the whole of the one before it:
//
//   lu0(k,k) ─▶ fwd(k,j) for the blocks right of it, bdiv(i,k) for those below ─▶ bmod(i,j) for all pairs of these
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "form.h"
#include "harness.h"

namespace narrow {

inline constexpr std::size_t kBlockSide = 32, kBlockFloats = kBlockSide * kBlockSide, kBlockBytes = kBlockFloats * 4;

enum class LuStep : std::uint8_t { kLu0, kFwd, kBdiv, kBmod };
inline constexpr std::array<const char*, 4> kLuKernels{"slud_lu0", "slud_fwd", "slud_bdiv", "slud_bmod"};

// Numbers of blocks: of those that are read, and last of the one that is written.
struct LuTask {
  LuStep step = LuStep::kLu0;
  std::uint8_t count = 0;
  std::array<std::uint32_t, 3> blocks{};
};

class SparseLu {
 public:
  // The smallest matrix that has `tasks` tasks or more.
  explicit SparseLu(std::size_t tasks);

  void prepare(const bench::Gpu* gpu);  // takes the memory, makes the matrix and the reference
  bool is_right() const;                // of out()
  void clobber() const;

  std::size_t side() const { return side_; }  // in blocks
  const std::vector<LuTask>& tasks() const { return tasks_; }
  const std::vector<Range>& phases() const { return phases_; }
  std::size_t bytes() const { return rows_.size() * kBlockBytes; }
  const std::byte* in() const { return reinterpret_cast<const std::byte*>(in_.data()); }
  std::byte* out() const { return reinterpret_cast<std::byte*>(out_.data()); }
  // By task: those that must have ended before it.
  std::vector<std::vector<std::uint32_t>> dependencies() const;

  // A task by the host, on blocks of a matrix of floats or doubles.
  template <typename Number>
  static void compute(const LuTask& task, Number* matrix);
  // All of them on so many threads, phase by phase.
  template <typename Number>
  void factorize(Number* matrix, unsigned threads) const;

 private:
  void lay_out(std::size_t side);

  std::size_t side_ = 0;
  std::vector<std::array<std::uint32_t, 2>> rows_;  // by block: its row and column
  std::vector<LuTask> tasks_;
  std::vector<Range> phases_;
  std::unique_ptr<bench::HostMemory> memory_;
  std::span<float> in_, out_;
  std::vector<double> expected_;
};

// All its forms, as Bench::run().
void run_sparse_lu(Bench& bench, const bench::Gpu* gpu, std::size_t tasks);

// By the driver: 32 streams, joined after each phase; and a graph with each task's own dependencies.
std::unique_ptr<Form> make_lu_streams(const bench::Gpu& gpu, const SparseLu& lu);
std::unique_ptr<Form> make_lu_graph(const bench::Gpu& gpu, const SparseLu& lu);
// An ordinary launch of Pergola for each task, in their order.
std::unique_ptr<Form> make_lu_launches(const pergola::Session& session, const pergola::Module& module,
                                       const SparseLu& lu);
// Tasks of the pool, each spawned when those that it depends on have ended.
std::unique_ptr<Form> make_lu_tasks(const pergola::Session& session, const pergola::Module& module, const SparseLu& lu);
// The same by tasks that spawn what waits for them; `spawning` is of sparse_lu_spawning.cu.
std::unique_ptr<Form> make_lu_spawning(const pergola::Session& session, const pergola::Module& module,
                                       const pergola::Module& spawning, const SparseLu& lu);

}  // namespace narrow
