// A gate of a GPU: a word of page-locked memory that the host writes and streams wait for (cuStreamWaitValue32, at
// least as far round). A stream that waits takes no multiprocessor, but may keep back what other streams have in the
// same queue of the hardware: nothing that opens the gate may come behind it (docs/decisions/0028).
//
// Its word has been others' before, so numbers count from where it stood. Thread-safe.
#pragma once

#include "src/device/cuda/context.h"
#include "src/device/gate.h"

namespace pergola::device::cuda {

class CudaGate final : public Gate {
 public:
  // kUnsupported where streams cannot wait for a word: the driver lacks the call, or says so when it is tried.
  static Result<GatePtr> create(const ContextPtr& context);
  ~CudaGate() override { context_->give_word(word_); }
  CudaGate(const CudaGate&) = delete;
  CudaGate& operator=(const CudaGate&) = delete;

  void open(std::uint32_t number) override {
    if (!word_.has_come_to(value_of(number))) word_.write(value_of(number));
  }
  const Context* context() const { return context_.get(); }
  CUdeviceptr address() const { return word_.address; }
  std::uint32_t value_of(std::uint32_t number) const { return from_ + number; }

 private:
  CudaGate(ContextPtr context, HostWord word) : context_(std::move(context)), word_(word), from_(word.value()) {}

  const ContextPtr context_;
  const HostWord word_;
  const std::uint32_t from_;
};

}  // namespace pergola::device::cuda
