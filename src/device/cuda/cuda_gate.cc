#include "src/device/cuda/cuda_gate.h"

namespace pergola::device::cuda {

// Tried on a stream of its own with a value that is there: the attributes of devices tell of older forms of the call.
Result<GatePtr> CudaGate::create(const ContextPtr& context) {
  PERGOLA_TRY(context->enter());
  const Driver& driver = context->driver();
  if (driver.cuStreamWaitValue32 == nullptr)
    return PERGOLA_ERROR(kUnsupported, "Streams of {} cannot wait for a value: the driver {} has no {}.", context->id(),
                         driver.path(), "cuStreamWaitValue32_v2");
  PERGOLA_ASSIGN(const HostWord word, context->take_word());
  GatePtr gate(new CudaGate(context, word));
  if (context->has_waited_for_value()) return gate;
  CUstream stream = nullptr;
  PERGOLA_TRY(context->check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "creating a stream"));
  const CUresult tried = driver.cuStreamWaitValue32(stream, word.address, word.value(), CU_STREAM_WAIT_VALUE_GEQ);
  driver.cuStreamDestroy(stream);
  if (tried == CUDA_ERROR_NOT_SUPPORTED)
    return PERGOLA_ERROR(kUnsupported, "Streams of {} cannot wait for a value: {}.", context->id(),
                         driver.describe(tried));
  PERGOLA_TRY(context->check(tried, "making a stream wait for a value"));
  context->note_wait_for_value();
  return gate;
}

}  // namespace pergola::device::cuda
