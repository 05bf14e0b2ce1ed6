// A kind whose warps say when they began and ended, in their task's scratch memory.
#include "problem.h"

namespace narrow {
namespace {

class Stamped : public Kind {
 public:
  Stamped(std::unique_ptr<Kind> kind, unsigned threads) : kind_(std::move(kind)), warps_((threads + 31) / 32) {
    kernel = kind_->kernel + "_stamped";
    constants = kind_->constants;
  }

  Sizes sizes(int size) const override {
    Sizes sizes = kind_->sizes(size);
    sizes.scratch = 2 * sizeof(std::uint64_t) * warps_;
    return sizes;
  }
  // The stamps' address is one parameter more.
  Parameters parameters(const Task& task, const Addresses& at) const override {
    Parameters parameters = kind_->parameters(task, at);
    const std::uint32_t offset = (parameters.size + 7) / 8 * 8;
    std::memcpy(parameters.bytes.data() + offset, &at.scratch, sizeof at.scratch);
    parameters.size = offset + sizeof at.scratch;
    return parameters;
  }
  void generate(const Task& task, std::byte* in) const override { kind_->generate(task, in); }
  void compute(const Task& task, const std::byte* in, std::byte* out) const override { kind_->compute(task, in, out); }
  void reference(const Task& task, const std::byte* in, std::byte* out) const override {
    kind_->reference(task, in, out);
  }
  bool is_right(const Task& task, const std::byte* out, const std::byte* expected) const override {
    return kind_->is_right(task, out, expected);
  }

 private:
  const std::unique_ptr<Kind> kind_;
  const std::size_t warps_;
};

}  // namespace

std::unique_ptr<Kind> make_stamped(std::unique_ptr<Kind> kind, unsigned threads) {
  return std::make_unique<Stamped>(std::move(kind), threads);
}

}  // namespace narrow
