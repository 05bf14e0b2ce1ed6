#include "src/device/cuda/cuda_texture.h"

namespace pergola::device::cuda {
namespace {

CUarray_format format_of(ChannelType type) {
  switch (type) {
    case ChannelType::kU8: return CU_AD_FORMAT_UNSIGNED_INT8;
    case ChannelType::kS8: return CU_AD_FORMAT_SIGNED_INT8;
    case ChannelType::kU16: return CU_AD_FORMAT_UNSIGNED_INT16;
    case ChannelType::kS16: return CU_AD_FORMAT_SIGNED_INT16;
    case ChannelType::kU32: return CU_AD_FORMAT_UNSIGNED_INT32;
    case ChannelType::kS32: return CU_AD_FORMAT_SIGNED_INT32;
    case ChannelType::kF16: return CU_AD_FORMAT_HALF;
    case ChannelType::kF32: return CU_AD_FORMAT_FLOAT;
  }
  return CU_AD_FORMAT_FLOAT;
}

class CudaTexture final : public Texture {
 public:
  explicit CudaTexture(ContextPtr context) : context_(std::move(context)) {}
  ~CudaTexture() override {
    context_->free([driver = context_->shared_driver(), object = object_, array = array_, memory = memory_] {
      if (object != 0) driver->cuTexObjectDestroy(object);
      if (array != nullptr) driver->cuArrayDestroy(array);
      if (memory != 0) driver->cuMemFree(memory);
    });
  }
  CudaTexture(const CudaTexture&) = delete;
  CudaTexture& operator=(const CudaTexture&) = delete;
  std::uint64_t handle() const override { return object_; }

  Status take(const TextureDescription& d) {
    PERGOLA_TRY(context_->enter());
    CUDA_RESOURCE_DESC resource{};
    if (d.fetched) {
      PERGOLA_TRY(take_memory(d, resource));
    } else {
      PERGOLA_TRY(take_array(d, resource));
    }
    CUDA_TEXTURE_DESC texture{};
    for (std::size_t n = 0; n < 3; ++n) texture.addressMode[n] = static_cast<CUaddress_mode>(d.address[n]);
    texture.filterMode = d.filter == FilterMode::kLinear ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT;
    texture.flags = (d.normalized_coordinates ? CU_TRSF_NORMALIZED_COORDINATES_AS_INT : 0) |
                    (d.normalized_read ? 0 : CU_TRSF_READ_AS_INTEGER_AS_INT);
    return context_->check(context_->driver().cuTexObjectCreate(&object_, &resource, &texture, nullptr),
                           "making a texture object");
  }

 private:
  // Texels in a row, for tex1Dfetch: the hardware fetches by integers from memory, not from an array.
  Status take_memory(const TextureDescription& d, CUDA_RESOURCE_DESC& resource) {
    const Driver& driver = context_->driver();
    const std::size_t bytes = d.width * d.texel_bytes();
    PERGOLA_TRY(
        context_->check(context_->allocate([&] { return driver.cuMemAlloc(&memory_, bytes); }), "allocating texels"));
    const CUdeviceptr from = d.buffer->address() + d.offset_bytes;
    PERGOLA_TRY(copy([&](CUstream stream) { return driver.cuMemcpyAsync(memory_, from, bytes, stream); }));
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = memory_;
    resource.res.linear.format = format_of(d.type);
    resource.res.linear.numChannels = d.channels;
    resource.res.linear.sizeInBytes = bytes;
    return {};
  }

  Status take_array(const TextureDescription& d, CUDA_RESOURCE_DESC& resource) {
    const Driver& driver = context_->driver();
    CUDA_ARRAY3D_DESCRIPTOR array{};
    array.Width = d.width;
    array.Height = d.dimensions > 1 ? d.height : 0;
    array.Depth = d.dimensions > 2 ? d.depth : 0;
    array.Format = format_of(d.type);
    array.NumChannels = d.channels;
    const std::string doing = fmt::format("making a texture of {} x {} x {} texels", d.width, d.height, d.depth);
    const auto make = [&] { return driver.cuArray3DCreate(&array_, &array); };
    PERGOLA_TRY(context_->check(context_->allocate(make), doing));
    CUDA_MEMCPY3D work{};
    work.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    work.srcDevice = d.buffer->address() + d.offset_bytes;
    work.srcPitch = d.row_bytes();
    work.srcHeight = d.height;
    work.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    work.dstArray = array_;
    work.WidthInBytes = d.width * d.texel_bytes();
    work.Height = d.height;
    work.Depth = d.depth;
    PERGOLA_TRY(copy([&](CUstream stream) { return driver.cuMemcpy3DAsync(&work, stream); }));
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array_;
    return {};
  }

  // On a stream of its own, waited for: kernels on other streams do not wait for the driver's default one.
  template <typename Start>
  Status copy(const Start& start) {
    const Driver& driver = context_->driver();
    CUstream stream = nullptr;
    PERGOLA_TRY(context_->check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "creating a stream"));
    CUresult result = start(stream);
    if (result == CUDA_SUCCESS) result = driver.cuStreamSynchronize(stream);
    driver.cuStreamDestroy(stream);
    return context_->check(result, "copying texels");
  }

  const ContextPtr context_;
  CUarray array_ = nullptr;
  CUdeviceptr memory_ = 0;
  CUtexObject object_ = 0;
};

}  // namespace

Result<TexturePtr> create_texture(ContextPtr context, const TextureDescription& description) {
  auto made = std::make_shared<CudaTexture>(std::move(context));
  PERGOLA_TRY(made->take(description));
  return TexturePtr(std::move(made));
}

}  // namespace pergola::device::cuda
