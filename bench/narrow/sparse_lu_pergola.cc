// SLUD by Pergola.
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
    pergola_array_info info{};
    info.struct_size = PERGOLA_STRUCT_SIZE(pergola_array_info);
    if (pergola_array_get_info(matrix_.handle(), &info) != PERGOLA_OK) throw std::runtime_error(pergola_last_error());
    address_ = info.address;
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
  std::uint64_t address_ = 0;
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

}  // namespace

std::unique_ptr<Form> make_lu_launches(const pergola::Session& session, const pergola::Module& module,
                                       const SparseLu& lu) {
  return std::make_unique<LuLaunches>(session, module, lu);
}

}  // namespace narrow
