// Holds our declarations of the driver's interface against <cuda.h>, on machines that have a CUDA toolkit. Everything
// is checked when this file is compiled; the one test says so, or that there was no toolkit.
#include <gtest/gtest.h>

#include "src/device/cuda/cuda_driver_types.h"

#if __has_include(PERGOLA_CUDA_HEADER)
#define PERGOLA_HAVE_CUDA_HEADER 1
#include PERGOLA_CUDA_HEADER
#endif

#ifdef PERGOLA_HAVE_CUDA_HEADER
#include <type_traits>

// A function type with the classes of its arguments kept and the nominal types dropped: what the binary interface sees.
template <typename T>
using Abi = std::conditional_t<std::is_pointer_v<T>, void*,
                               std::conditional_t<std::is_enum_v<T> || (std::is_integral_v<T> && sizeof(T) == 4), int,
                                                  std::conditional_t<std::is_integral_v<T> && sizeof(T) == 8, long, T>>>;
template <typename F>
struct AbiOf;
template <typename R, typename... A>
struct AbiOf<R (*)(A...)> {
  using type = Abi<R> (*)(Abi<A>...);
};
template <typename F, typename G>
inline constexpr bool kSameAbi = std::is_same_v<typename AbiOf<F>::type, typename AbiOf<G>::type>;

namespace ours = pergola::device::cuda;

namespace pergola::device::cuda::declared {
#define PERGOLA_CUDA_SYMBOL(member, name, parameters) using member##_type = CUresult(*) parameters;
#define PERGOLA_CUDA_OPTIONAL PERGOLA_CUDA_SYMBOL
#include "src/device/cuda/driver_symbols.def"
#undef PERGOLA_CUDA_SYMBOL
}  // namespace pergola::device::cuda::declared

// <cuda.h> maps each plain name to its newest version; where that is a later one than ours, the arguments agree.
#define PERGOLA_CUDA_SYMBOL(member, name, parameters) \
  static_assert(kSameAbi<ours::declared::member##_type, decltype(&::member)>, name " has other parameters");
#include "src/device/cuda/driver_symbols.def"
#undef PERGOLA_CUDA_SYMBOL
#undef PERGOLA_CUDA_OPTIONAL

#define SAME_VALUE(name) static_assert(static_cast<long>(ours::name) == static_cast<long>(::name), #name)
#define SAME_SIZE(name) static_assert(sizeof(ours::name) == sizeof(::name), #name)
#define SAME_MEMBER(type, member) \
  static_assert(offsetof(ours::type, member) == offsetof(::type, member), #type "." #member)

SAME_VALUE(CUDA_ERROR_INVALID_VALUE);
SAME_VALUE(CUDA_ERROR_OUT_OF_MEMORY);
SAME_VALUE(CUDA_ERROR_NOT_INITIALIZED);
SAME_VALUE(CUDA_ERROR_DEINITIALIZED);
SAME_VALUE(CUDA_ERROR_STUB_LIBRARY);
SAME_VALUE(CUDA_ERROR_DEVICE_UNAVAILABLE);
SAME_VALUE(CUDA_ERROR_NO_DEVICE);
SAME_VALUE(CUDA_ERROR_INVALID_DEVICE);
SAME_VALUE(CUDA_ERROR_INVALID_IMAGE);
SAME_VALUE(CUDA_ERROR_INVALID_CONTEXT);
SAME_VALUE(CUDA_ERROR_NO_BINARY_FOR_GPU);
SAME_VALUE(CUDA_ERROR_ECC_UNCORRECTABLE);
SAME_VALUE(CUDA_ERROR_INVALID_PTX);
SAME_VALUE(CUDA_ERROR_NVLINK_UNCORRECTABLE);
SAME_VALUE(CUDA_ERROR_JIT_COMPILER_NOT_FOUND);
SAME_VALUE(CUDA_ERROR_UNSUPPORTED_PTX_VERSION);
SAME_VALUE(CUDA_ERROR_JIT_COMPILATION_DISABLED);
SAME_VALUE(CUDA_ERROR_CONTAINED);
SAME_VALUE(CUDA_ERROR_OPERATING_SYSTEM);
SAME_VALUE(CUDA_ERROR_INVALID_HANDLE);
SAME_VALUE(CUDA_ERROR_NOT_FOUND);
SAME_VALUE(CUDA_ERROR_NOT_READY);
SAME_VALUE(CUDA_ERROR_ILLEGAL_ADDRESS);
SAME_VALUE(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES);
SAME_VALUE(CUDA_ERROR_LAUNCH_TIMEOUT);
SAME_VALUE(CUDA_ERROR_CONTEXT_IS_DESTROYED);
SAME_VALUE(CUDA_ERROR_ASSERT);
SAME_VALUE(CUDA_ERROR_HARDWARE_STACK_ERROR);
SAME_VALUE(CUDA_ERROR_ILLEGAL_INSTRUCTION);
SAME_VALUE(CUDA_ERROR_MISALIGNED_ADDRESS);
SAME_VALUE(CUDA_ERROR_INVALID_ADDRESS_SPACE);
SAME_VALUE(CUDA_ERROR_INVALID_PC);
SAME_VALUE(CUDA_ERROR_LAUNCH_FAILED);
SAME_VALUE(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
SAME_VALUE(CUDA_ERROR_NOT_SUPPORTED);
SAME_VALUE(CUDA_ERROR_SYSTEM_DRIVER_MISMATCH);
SAME_VALUE(CUDA_ERROR_MPS_CLIENT_TERMINATED);
SAME_VALUE(CUDA_ERROR_EXTERNAL_DEVICE);
SAME_VALUE(CUDA_ERROR_UNKNOWN);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
SAME_VALUE(CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH);
SAME_VALUE(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
SAME_VALUE(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES);
SAME_VALUE(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES);
SAME_VALUE(CU_FUNC_ATTRIBUTE_NUM_REGS);
SAME_VALUE(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES);
SAME_VALUE(CU_JIT_ERROR_LOG_BUFFER);
SAME_VALUE(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
SAME_VALUE(CU_JIT_INPUT_PTX);
SAME_VALUE(CU_MEMORYTYPE_HOST);
SAME_VALUE(CU_MEMORYTYPE_DEVICE);
SAME_VALUE(CU_STREAM_NON_BLOCKING);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
SAME_VALUE(CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
SAME_SIZE(CUlaunchAttributeValue);
SAME_SIZE(CUlaunchAttribute);
SAME_MEMBER(CUlaunchAttribute, value);
SAME_SIZE(CUlaunchConfig);
SAME_MEMBER(CUlaunchConfig, sharedMemBytes);
SAME_MEMBER(CUlaunchConfig, hStream);
SAME_MEMBER(CUlaunchConfig, attrs);
SAME_MEMBER(CUlaunchConfig, numAttrs);
SAME_SIZE(CUDA_KERNEL_NODE_PARAMS);
SAME_MEMBER(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes);
SAME_MEMBER(CUDA_KERNEL_NODE_PARAMS, extra);
SAME_MEMBER(CUDA_KERNEL_NODE_PARAMS, kern);
SAME_SIZE(CUDA_MEMSET_NODE_PARAMS);
SAME_MEMBER(CUDA_MEMSET_NODE_PARAMS, elementSize);
SAME_MEMBER(CUDA_MEMSET_NODE_PARAMS, width);
SAME_SIZE(CUDA_MEMCPY3D);
SAME_MEMBER(CUDA_MEMCPY3D, srcHost);
SAME_MEMBER(CUDA_MEMCPY3D, srcPitch);
SAME_MEMBER(CUDA_MEMCPY3D, dstMemoryType);
SAME_MEMBER(CUDA_MEMCPY3D, dstDevice);
SAME_MEMBER(CUDA_MEMCPY3D, WidthInBytes);
#endif

TEST(DriverAbi, Declarations_AreThoseOfTheToolkit) {
#ifdef PERGOLA_HAVE_CUDA_HEADER
  EXPECT_EQ(sizeof(pergola::device::cuda::CUlaunchConfig), 56u);  // and the static assertions above
#else
  GTEST_SKIP() << "No CUDA toolkit on this machine: cuda.h is not there to compare with.";
#endif
}
