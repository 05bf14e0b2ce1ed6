#include <algorithm>

#include "form.h"

namespace narrow {

using bench::check;
using namespace bench::cuda;

std::vector<Range> split(std::size_t tasks, std::size_t count) {
  std::vector<Range> ranges;
  for (std::size_t i = 0; i < count; ++i) {
    const Range range{tasks * i / count, tasks * (i + 1) / count};
    if (range.first != range.last) ranges.push_back(range);
  }
  return ranges;
}

DeviceData::DeviceData(const bench::Gpu& on, const Problem& of) : gpu(on), problem(of) {
  gpu.enter();  // a session that went took the context from its thread
  const auto allocate = [&](std::size_t bytes) {
    CUdeviceptr address = 0;
    check(gpu->cuMemAlloc(&address, std::max<std::size_t>(bytes, 256)), "allocating device memory");
    return address;
  };
  in_ = allocate(of.bytes().in), out_ = allocate(of.bytes().out), scratch_ = allocate(of.bytes().scratch);
  for (const auto& kind : of.kinds()) {
    kernels.push_back(gpu.function(kind->kernel));
    constants_.push_back(allocate(kind->constants.size()));
    if (!kind->constants.empty())
      check(gpu->cuMemcpyHtoDAsync(constants_.back(), kind->constants.data(), kind->constants.size(), nullptr),
            "copying constants");
  }
  for (const Task& task : of.tasks())
    parameters.push_back(of.kind_of(task).parameters(
        task, {in_ + task.in, out_ + task.out, scratch_ + task.scratch, constants_[task.kind]}));
  const std::vector<Record> table = records_of(*this);
  records = allocate(table.size() * sizeof(Record));
  check(gpu->cuMemcpyHtoDAsync(records, table.data(), table.size() * sizeof(Record), nullptr), "copying the table");
  check(gpu->cuStreamSynchronize(nullptr), "copying the table");
}

DeviceData::~DeviceData() {
  for (const CUdeviceptr address : {in_, out_, scratch_, records}) gpu->cuMemFree(address);
  for (const CUdeviceptr address : constants_) gpu->cuMemFree(address);
}

std::vector<Record> records_of(const DeviceData& data) {
  std::vector<Record> table;
  for (const Task& task : data.problem.tasks())
    table.push_back({data.parameters[task.index].bytes,
                     static_cast<std::int32_t>(task.kind),
                     static_cast<std::int32_t>(task.threads),
                     {}});
  return table;
}

Range DeviceData::bytes_in(const Range& tasks) const {
  const auto& all = problem.tasks();
  return {all[tasks.first].in, tasks.last == all.size() ? problem.bytes().in : all[tasks.last].in};
}
Range DeviceData::bytes_out(const Range& tasks) const {
  const auto& all = problem.tasks();
  return {all[tasks.first].out, tasks.last == all.size() ? problem.bytes().out : all[tasks.last].out};
}
void DeviceData::copy_in(const Range& tasks, CUstream stream) const {
  const Range bytes = bytes_in(tasks);
  if (bytes.first == bytes.last) return;
  check(gpu->cuMemcpyHtoDAsync(in_ + bytes.first, problem.in() + bytes.first, bytes.last - bytes.first, stream),
        "copying inputs");
}
void DeviceData::copy_out(const Range& tasks, CUstream stream) const {
  const Range bytes = bytes_out(tasks);
  check(gpu->cuMemcpyDtoHAsync(problem.out() + bytes.first, out_ + bytes.first, bytes.last - bytes.first, stream),
        "copying outputs");
}
void DeviceData::load() const {
  copy_in({0, problem.tasks().size()}, nullptr);
  check(gpu->cuStreamSynchronize(nullptr), "copying inputs");
}
void DeviceData::fetch() const {
  copy_out({0, problem.tasks().size()}, nullptr);
  check(gpu->cuStreamSynchronize(nullptr), "copying outputs");
}
std::vector<std::byte> DeviceData::scratch() const {
  std::vector<std::byte> bytes(problem.bytes().scratch);
  check(gpu->cuMemcpyDtoHAsync(bytes.data(), scratch_, bytes.size(), nullptr), "copying what tasks have noted");
  check(gpu->cuStreamSynchronize(nullptr), "copying what tasks have noted");
  return bytes;
}
void DeviceData::clobber() const {
  check(gpu->cuMemsetD8Async(out_, 0xff, problem.bytes().out, nullptr), "filling the outputs");
  check(gpu->cuStreamSynchronize(nullptr), "filling the outputs");
}

Streams::Streams(const bench::Gpu& gpu, std::size_t count) : gpu_(gpu), streams_(count) {
  for (CUstream& stream : streams_) check(gpu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "making a stream");
}
Streams::~Streams() {
  for (CUstream stream : streams_) gpu_->cuStreamDestroy(stream);
}
void Streams::synchronize() const {
  for (CUstream stream : streams_) check(gpu_->cuStreamSynchronize(stream), "waiting for a stream");
}

void launch(const bench::Gpu& gpu, CUfunction kernel, unsigned threads, const Parameters& parameters, CUstream stream,
            unsigned blocks) {
  std::size_t size = parameters.size;
  void* extra[] = {bench::kParameterBuffer, const_cast<std::byte*>(parameters.bytes.data()),
                   bench::kParameterBufferSize, &size, nullptr};
  check(gpu.launch_kernel(kernel, blocks, 1, 1, threads, 1, 1, 0, stream, nullptr, extra), "launching a task");
}

}  // namespace narrow
