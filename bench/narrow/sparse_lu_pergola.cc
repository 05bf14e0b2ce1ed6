// SLUD by Pergola.
#include <algorithm>
#include <cstring>
#include <optional>
#include <stdexcept>

#include "../support/report.h"
#include "sparse_lu.h"

namespace narrow {
namespace {

// The matrix in one array.
class LuPergola : public Form {
 public:
  LuPergola(const pergola::Session& session, const pergola::Module& module, const SparseLu& lu)
      : session_(session), lu_(lu), matrix_(session.array<std::byte>(lu.bytes())) {
    for (const char* kernel : kLuKernels) kernels_.push_back(module.kernel(kernel));
  }
  double run(Measure measure) override {
    const auto host = matrix_.host_write();
    std::memcpy(host.data(), lu_.in(), host.size_bytes());  // it is overwritten
    if (measure == Measure::kCompute) load();
    const auto start = std::chrono::steady_clock::now();
    matrix_.prefetch();
    session_.synchronize();
    factorize();
    // The kernels wrote by address, which the session does not see.
    session_.call("tasks", {pergola::out(matrix_)}, [](void*) {});
    if (measure == Measure::kCopies) matrix_.host_read();
    return bench::ms_since(start);
  }
  void load() override {
    matrix_.prefetch();
    session_.synchronize();
  }
  void fetch(Measure) override {
    const auto host = matrix_.host_read();
    std::memcpy(lu_.out(), host.data(), host.size_bytes());
  }
  void clobber() override {}  // the matrix is copied in before each run

 protected:
  virtual void factorize() = 0;  // to the end of the last task
  std::uint64_t address_of(std::uint32_t block) const { return address_ + block * kBlockBytes; }

  const pergola::Session& session_;
  const SparseLu& lu_;
  std::vector<pergola::Kernel> kernels_;

 private:
  pergola::Array<std::byte> matrix_;
  const std::uint64_t address_ = matrix_.address();
};

class LuLaunches : public LuPergola {
 public:
  LuLaunches(const pergola::Session& session, const pergola::Module& module, const SparseLu& lu)
      : LuPergola(session, module, lu) {
    name = "pergola-launches";
  }

 private:
  void factorize() override {
    const auto shape = pergola::grid(1, 128);
    for (const LuTask& task : lu_.tasks()) {
      const pergola::Kernel& kernel = kernels_[static_cast<std::size_t>(task.step)];
      const auto at = [&](std::size_t i) { return pergola::Address{address_of(task.blocks[i])}; };
      switch (task.count) {
        case 1: kernel(shape, at(0)); break;
        case 2: kernel(shape, at(0), at(1)); break;
        default: kernel(shape, at(0), at(1), at(2)); break;
      }
    }
    session_.synchronize();
  }
};

// The host spawns in the order of the tasks and, before each, waits for those that it depends on: what the next step
// needs comes first in each phase, so that the rest of the phase runs meanwhile.
class LuTasks : public LuPergola {
 public:
  LuTasks(const pergola::Session& session, const pergola::Module& module, const SparseLu& lu)
      : LuPergola(session, module, lu),
        pool_(session.task_pool()),
        dependencies_(lu.dependencies()),
        ids_(lu.tasks().size()),
        has_ended_(lu.tasks().size()) {
    name = "pergola";
    params["host_threads"] = 1;
    for (const pergola::Kernel& kernel : kernels_) kinds_.push_back(pool_.prepare(kernel, pergola::grid(1, 128)));
  }

 private:
  void factorize() override {
    std::fill(has_ended_.begin(), has_ended_.end(), 0);
    for (std::size_t i = 0; i < ids_.size(); ++i) {
      for (const std::uint32_t before : dependencies_[i]) {
        if (has_ended_[before] != 0) continue;
        pool_.wait(ids_[before]);
        has_ended_[before] = 1;
      }
      const LuTask& task = lu_.tasks()[i];
      std::array<std::uint64_t, 3> pointers{};
      for (std::size_t b = 0; b < task.count; ++b) pointers[b] = address_of(task.blocks[b]);
      const auto bytes = std::as_bytes(std::span(pointers)).first(task.count * 8u);
      ids_[i] = kinds_[static_cast<std::size_t>(task.step)].spawn_packed(bytes);
    }
    pool_.wait_all();
  }

  const pergola::TaskPool pool_;
  const std::vector<std::vector<std::uint32_t>> dependencies_;
  std::vector<pergola::TaskKind> kinds_;
  std::vector<pergola::TaskId> ids_;
  std::vector<std::uint8_t> has_ended_;
};

// The host spawns what depends on nothing; each task the ones that it was the last to be waited for by.
class LuSpawning : public LuPergola {
 public:
  LuSpawning(const pergola::Session& session, const pergola::Module& module, const pergola::Module& spawning,
             const SparseLu& lu)
      : LuPergola(session, module, lu),
        pool_(session.task_pool()),
        kind_(pool_.prepare(spawning.kernel("slud_task"), pergola::grid(1, 128))),
        lost_(session.array<std::uint32_t>(1, 0u)) {
    name = "pergola";
    params["spawned_by"] = "tasks";
    const auto start = std::chrono::steady_clock::now();
    const auto dependencies = lu.dependencies();
    std::vector<std::uint32_t> tasks, first(lu.tasks().size() + 1, 0), successors;
    for (std::size_t t = 0; t < lu.tasks().size(); ++t) {
      const LuTask& task = lu.tasks()[t];
      tasks.insert(tasks.end(),
                   {static_cast<std::uint32_t>(task.step), task.blocks[0], task.blocks[1], task.blocks[2]});
      counts_.push_back(static_cast<std::uint32_t>(dependencies[t].size()));
      for (const std::uint32_t before : dependencies[t]) ++first[before + 1];
    }
    for (std::size_t t = 1; t < first.size(); ++t) first[t] += first[t - 1];
    std::vector<std::uint32_t> next(first.begin(), first.end() - 1);
    successors.resize(first.back());
    for (std::size_t t = 0; t < dependencies.size(); ++t)
      for (const std::uint32_t before : dependencies[t]) successors[next[before]++] = static_cast<std::uint32_t>(t);
    for (const auto* table : {&tasks, &first, &successors, &counts_}) {
      tables_.push_back(session.array<std::uint32_t>(table->size()));
      tables_.back().write(*table);
    }
    const Lu made{address_of(0),        tables_[0].address(), tables_[1].address(), tables_[2].address(),
                  tables_[3].address(), kind_.on_device(),    lost_.address()};
    lu_on_device_ = session.array<std::uint64_t>(sizeof(Lu) / 8);
    std::vector<std::uint64_t> words(sizeof(Lu) / 8);
    std::memcpy(words.data(), &made, sizeof made);
    lu_on_device_->write(words);
    session.synchronize();
    instantiate_ms = bench::ms_since(start);
  }
  void fetch(Measure measure) override {
    if (lost_.read()[0] != 0) throw std::runtime_error("tasks of SLUD found no room: raise kTries");
    LuPergola::fetch(measure);
  }

 private:
  struct Lu {  // the kernel's
    std::uint64_t matrix, tasks, first_successor, successors, waiting_for, self, lost;
  };
  void factorize() override {
    tables_[3].write(counts_);
    session_.synchronize();
    for (std::uint32_t t = 0; t < counts_.size(); ++t)
      if (counts_[t] == 0) kind_.spawn_packed(Node{lu_on_device_->address(), t, 0});
    pool_.wait_all();
  }
  struct Node {
    std::uint64_t lu;
    std::uint32_t task, unused;
  };

  const pergola::TaskPool pool_;
  const pergola::TaskKind kind_;
  pergola::Array<std::uint32_t> lost_;
  std::vector<std::uint32_t> counts_;
  std::vector<pergola::Array<std::uint32_t>> tables_;
  std::optional<pergola::Array<std::uint64_t>> lu_on_device_;
};

}  // namespace

std::unique_ptr<Form> make_lu_spawning(const pergola::Session& session, const pergola::Module& module,
                                       const pergola::Module& spawning, const SparseLu& lu) {
  return std::make_unique<LuSpawning>(session, module, spawning, lu);
}

std::unique_ptr<Form> make_lu_launches(const pergola::Session& session, const pergola::Module& module,
                                       const SparseLu& lu) {
  return std::make_unique<LuLaunches>(session, module, lu);
}

std::unique_ptr<Form> make_lu_tasks(const pergola::Session& session, const pergola::Module& module,
                                    const SparseLu& lu) {
  return std::make_unique<LuTasks>(session, module, lu);
}

}  // namespace narrow
