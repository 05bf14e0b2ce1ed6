// The corpus on the CPU device: which kernels load in each tier, and that the interpreter, the JIT and each compiler's
// PTX agree on what the run lines (run_line.h) ask for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "src/base/file.h"
#include "src/device/cpu/cpu_device.h"
#include "src/device/cpu/interpreter/interpreter.h"
#include "src/device/cpu/jit_loader.h"
#include "src/ptx/parser.h"
#include "tests/corpus/corpus_files.h"
#include "tests/corpus/run_line.h"
#include "tests/support/source_dir.h"

namespace pergola::corpus {
namespace {
namespace fs = std::filesystem;
using testing::IsEmpty;
using Memory = std::vector<std::vector<std::byte>>;  // the arrays of a run line, in order

constexpr auto kLimit = std::chrono::seconds(60);  // of one launch; a kernel that hangs fails by name

device::DevicePtr open_device(const std::shared_ptr<device::cpu::Engine>& engine) {
  device::cpu::CpuOptions options;
  options.sms = 2;
  options.print_sink = [](std::string_view) {};
  auto opened = device::cpu::create_cpu_device(options, engine);
  return opened ? *opened : nullptr;
}

// "interpreter", and "jit" and "vector" where their library is there.
std::map<std::string, device::DevicePtr>& devices() {
  static std::map<std::string, device::DevicePtr> opened = [] {
    std::map<std::string, device::DevicePtr> list;
    list["interpreter"] = open_device(device::cpu::create_interpreter());
    if (const auto jit = device::cpu::load_jit_engine()) list["jit"] = open_device(*jit);
    if (const auto vector = device::cpu::load_jit_engine(device::cpu::VectorUse::kAlways)) list["vector"] = open_device(*vector);
    return list;
  }();
  return opened;
}

Result<device::ModulePtr> load(device::Device& on, const CorpusFile& file) {
  PERGOLA_ASSIGN(const ptx::Module module, ptx::parse(file.text, file.label()));
  return on.load({&module, file.text, file.label()});
}

Status launch(device::Queue& queue, const device::ModulePtr& module, const RunLine& line,
              const std::vector<device::BufferPtr>& buffers) {
  PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel(line.kernel));
  const ptx::KernelSignature& signature = kernel->signature();
  if (signature.parameters.size() != line.arguments.size())
    return PERGOLA_ERROR(kInvalidArgument, "'{}' has {} parameters, its run line {}.", line.kernel,
                         signature.parameters.size(), line.arguments.size());
  std::vector<std::byte> parameters(signature.parameter_bytes);
  std::size_t array = 0;
  for (std::size_t i = 0; i < line.arguments.size(); ++i) {
    const ptx::Parameter& parameter = signature.parameters[i];
    const RunArgument& argument = line.arguments[i];
    const device::DeviceAddress address = argument.is_array ? buffers[array++]->address() : 0;
    const std::size_t size = argument.is_array ? sizeof address : argument.bytes.size();
    if (size != parameter.size_bytes)
      return PERGOLA_ERROR(kInvalidArgument, "'{}' takes {} bytes as parameter {}, its run line gives {}.", line.kernel,
                           parameter.size_bytes, i, size);
    std::memcpy(parameters.data() + parameter.offset_bytes,
                argument.is_array ? static_cast<const void*>(&address) : argument.bytes.data(), size);
  }
  PERGOLA_TRY(queue.launch(module, *kernel, line.config, parameters));
  PERGOLA_ASSIGN(const device::EventPtr done, queue.record());
  PERGOLA_TRY(done->wait(kLimit));
  return queue.synchronize();
}

Result<Memory> run(device::Device& on, const device::ModulePtr& module, const RunLine& line) {
  PERGOLA_ASSIGN(auto queue, on.create_queue());
  std::vector<device::BufferPtr> buffers;
  for (const RunArgument& argument : line.arguments) {
    if (!argument.is_array) continue;
    PERGOLA_ASSIGN(auto buffer, on.allocate(argument.bytes.size(), device::MemoryKind::kDevice));
    PERGOLA_TRY(queue->copy_to_device(buffer, 0, argument.bytes));
    buffers.push_back(std::move(buffer));
  }
  PERGOLA_TRY(launch(*queue, module, line, buffers));
  Memory memory;
  for (const device::BufferPtr& buffer : buffers) {
    memory.emplace_back(buffer->size_bytes());
    PERGOLA_TRY(queue->copy_to_host(memory.back(), buffer, 0));
    PERGOLA_TRY(queue->synchronize());
  }
  return memory;
}

std::vector<std::string> array_types(const RunLine& line) {
  std::vector<std::string> types;
  for (const RunArgument& argument : line.arguments)
    if (argument.is_array) types.push_back(argument.type);
  return types;
}

// Empty where the two agree; else the array and the element.
std::string compare(const RunLine& line, const Memory& a, const Memory& b, double tolerance) {
  const std::vector<std::string> types = array_types(line);
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::string why = difference(types[i], a[i], b[i], tolerance); !why.empty())
      return fmt::format("array {}, {}", i, why);
  return "";
}

std::vector<RunLine> run_lines(const std::string& source) {
  const fs::path path = pergola::test_support::source_path("tests/corpus/cuda") / (source + ".cu");
  const auto text = read_file(path);
  if (!text) return {};
  auto lines = parse_run_lines(*text, path.filename().string());
  EXPECT_TRUE(lines) << lines.message();
  return lines ? std::move(*lines) : std::vector<RunLine>{};
}

// Kernels that a tier refuses, "jit clang-75/x.ptx kernel: why". What may stand here is listed with its reason.
TEST(CorpusLoad, EveryKernel_LoadsOrIsRefusedByName) {
  std::vector<std::string> unexpected;
  std::map<std::string, int> loaded, refused;
  // The other variants hold the same kernels in nearly the same instructions, or (-G) in ten times as many.
  const std::set<std::string> loads = {"nvrtc-75", "clang-75", "nvcc-90-lineinfo", "triton-80", "hand"};
  for (auto& [tier, device] : devices()) {
    ASSERT_NE(device, nullptr) << tier;
    // Where the vector tier refuses a kernel the scalar one runs it; and to compile all takes minutes.
    if (tier == "vector" && std::getenv("PERGOLA_CORPUS_VECTOR") == nullptr) continue;
    for (const CorpusFile& file : corpus_files()) {
      if (!loads.contains(file.variant)) continue;
      const auto module = load(*device, file);
      if (!module) {
        if (module.code() != Code::kUnsupported)
          unexpected.push_back(tier + " " + file.label() + ": " + module.message());
        ++refused[tier];
        std::printf("refused: %s %s: %s\n", tier.c_str(), file.label().c_str(), module.message().c_str());
        continue;
      }
      for (const std::string& name : (*module)->kernel_names()) {
        const auto kernel = (*module)->kernel(name);
        ++(kernel ? loaded : refused)[tier];
        if (kernel) continue;
        std::printf("refused: %s %s %s: %s\n", tier.c_str(), file.label().c_str(), name.c_str(),
                    kernel.message().c_str());
        if (kernel.code() != Code::kUnsupported)
          unexpected.push_back(tier + " " + file.label() + " " + name + ": " + kernel.message());
      }
    }
    std::printf("%s: %d kernels load, %d are refused\n", tier.c_str(), loaded[tier], refused[tier]);
  }
  EXPECT_THAT(unexpected, IsEmpty()) << "a refusal is kUnsupported and names what it is";
  EXPECT_GE(loaded["interpreter"], 300);
  if (devices().contains("jit")) {
    EXPECT_GE(loaded["jit"], 300);
  }
}

// One variant's PTX of every source with run lines.
class CorpusRun : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Variants, CorpusRun, testing::Values("nvrtc-75", "clang-75", "nvcc-90-lineinfo"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

void expect_agreement(const char* variant, const std::string& tier, int at_least) {
  if (!devices().contains(tier)) GTEST_SKIP() << "the JIT's library is not there";
  std::vector<std::string> wrong;
  int agreed = 0, refused = 0;
  for (const CorpusFile* file : corpus_files(variant)) {
    const auto first = load(*devices()["interpreter"], *file), second = load(*devices()[tier], *file);
    if (!first || !second) continue;  // CorpusLoad reports it
    for (const RunLine& line : run_lines(file->source)) {
      const auto kernel = (*second)->kernel(line.kernel);
      refused += kernel.code() == Code::kUnsupported ? 1 : 0;
      if (!kernel || !(*first)->kernel(line.kernel)) continue;
      const auto a = run(*devices()["interpreter"], *first, line), b = run(*devices()[tier], *second, line);
      const std::string label = file->label() + " " + line.kernel + ": ";
      if (!a || !b) {
        wrong.push_back(label + (a ? tier + ": " + b.message() : "interpreter: " + a.message()));
      } else if (const std::string why = compare(line, *a, *b, line.tolerance); !why.empty()) {
        wrong.push_back(label + why);
      } else {
        ++agreed;
      }
    }
  }
  std::printf("%s: %d kernels agree, %d are refused\n", variant, agreed, refused);
  EXPECT_THAT(wrong, IsEmpty());
  if (!corpus_files(variant).empty()) {
    EXPECT_GE(agreed, at_least);
  }
}

TEST_P(CorpusRun, InterpreterAndJit_AgreeBitForBit) {
  expect_agreement(GetParam(), "jit", std::string_view(GetParam()) == "nvcc-90-lineinfo" ? 10 : 60);
}

TEST_P(CorpusRun, InterpreterAndVector_AgreeBitForBit) {
  expect_agreement(GetParam(), "vector", std::string_view(GetParam()) == "nvcc-90-lineinfo" ? 8 : 40);
}

// Integer kernels have one right answer, whoever compiled them; floats may be contracted in another order.
TEST(CorpusCompilers, NvrtcAndClang_AgreeOnTheInterpreter) {
  std::vector<std::string> wrong;
  int agreed = 0;
  for (const CorpusFile* file : corpus_files("nvrtc-75")) {
    const auto others = corpus_files("clang-75");
    const auto other =
        std::find_if(others.begin(), others.end(), [&](const auto* o) { return o->source == file->source; });
    if (other == others.end()) continue;
    const auto first = load(*devices()["interpreter"], *file), second = load(*devices()["interpreter"], **other);
    if (!first || !second) continue;
    for (const RunLine& line : run_lines(file->source)) {
      if (!(*first)->kernel(line.kernel) || !(*second)->kernel(line.kernel)) continue;
      const auto a = run(*devices()["interpreter"], *first, line), b = run(*devices()["interpreter"], *second, line);
      if (!a || !b) {
        wrong.push_back(line.kernel + ": " + (a ? b.message() : a.message()));
        continue;
      }
      const auto types = array_types(line);
      const bool floats =
          std::any_of(types.begin(), types.end(), [](const std::string& type) { return type[0] == 'f'; });
      const double tolerance = floats ? std::max(line.tolerance, 1e-3) : 0;
      const std::string why = compare(line, *a, *b, tolerance);
      if (why.empty())
        ++agreed;
      else
        wrong.push_back(file->source + ".cu " + line.kernel + ": " + why);
    }
  }
  std::printf("%d kernels agree\n", agreed);
  EXPECT_THAT(wrong, IsEmpty());
  EXPECT_GE(agreed, 60);
}

template <typename T>
std::vector<T> as(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

// What C++ says the arrays of a run line hold afterwards: the array's index in the line, and its contents.
struct Reference {
  const char *source, *kernel;
  std::size_t array;
  std::function<std::vector<std::uint32_t>(const std::vector<std::vector<std::uint32_t>>& in)> expected;
};

std::vector<Reference> references() {
  using Words = std::vector<std::uint32_t>;
  using In = std::vector<Words>;
  const auto f = [](std::uint32_t bits) { return std::bit_cast<float>(bits); };
  const auto u = [](float value) { return std::bit_cast<std::uint32_t>(value); };
  const auto each = [](auto map) {
    return [map](const In& in) {
      Words out(in[0].size());
      for (std::size_t i = 0; i < out.size(); ++i) out[i] = map(in, i);
      return out;
    };
  };
  return {
      {"arithmetic", "saxpy", 1,
       each([=](const In& in, std::size_t i) { return u(std::fma(2.5f, f(in[0][i]), f(in[1][i]))); })},
      {"arithmetic", "vector_scale4", 0, each([=](const In& in, std::size_t i) { return u(f(in[0][i]) * 1.25f); })},
      {"control", "collatz", 1, each([](const In& in, std::size_t i) {
         std::uint64_t x = in[0][i] + 1u;
         std::uint32_t n = 0;
         for (; x != 1; ++n) x = (x & 1) != 0 ? 3 * x + 1 : x / 2;
         return n;
       })},
      {"control", "gcd", 2, each([](const In& in, std::size_t i) {
         std::uint32_t x = in[0][i], y = in[1][i];
         while (y != 0) x = std::exchange(y, x % y);
         return x;
       })},
      {"shared_memory", "scan_hillis", 1, each([](const In& in, std::size_t i) {
         std::uint32_t sum = 0;
         for (std::size_t k = i / 64 * 64; k <= i; ++k) sum += in[0][k];
         return sum;
       })},
      {"shared_memory", "transpose_tiled", 1,
       each([](const In& in, std::size_t i) { return in[0][i % 32 * 32 + i / 32]; })},
      {"warps", "warp_scan", 1, each([](const In& in, std::size_t i) {
         std::uint32_t sum = 0;
         for (std::size_t k = i / 32 * 32; k <= i; ++k) sum += in[0][k];
         return sum;
       })},
      {"algorithms", "bitonic_sort", 0,
       [](const In& in) {
         Words sorted = in[0];
         std::sort(sorted.begin(), sorted.end(), [](std::uint32_t a, std::uint32_t b) {
           return static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b);
         });
         return sorted;
       }},
      {"linear_algebra", "gemm_naive", 2, each([=](const In& in, std::size_t i) {
         float sum = 0;
         for (std::size_t k = 0; k < 32; ++k) sum = std::fma(f(in[0][i / 32 * 32 + k]), f(in[1][k * 32 + i % 32]), sum);
         return u(sum);
       })},
      {"bits", "gray_code", 1,
       [](const In& in) {
         Words out;
         for (const std::uint32_t x : in[0]) {
           out.push_back(x ^ (x >> 1));
           out.push_back(x);  // decoding gives the number back
         }
         return out;
       }},
      {"algorithms", "big_integer_add", 2, each([](const In& in, std::size_t i) {
         std::uint64_t carry = 0;
         for (std::size_t k = i / 8 * 8; k <= i; ++k) carry = (carry >> 32) + in[0][k] + in[1][k];
         return static_cast<std::uint32_t>(carry);
       })},
      {"science", "monte_carlo_pi", 0,
       [](const In&) {
         std::uint32_t hits = 0;
         for (std::uint32_t t = 0; t < 128; ++t) {
           std::uint32_t s = t * 2654435761u + 1;
           const auto draw = [&s] {
             s ^= s << 13, s ^= s >> 17, s ^= s << 5;
             return static_cast<float>(s >> 8) * (1.0f / 16777216.0f);
           };
           for (int i = 0; i < 50; ++i) {
             const float x = draw(), y = draw();
             hits += std::fma(x, x, y * y) < 1.0f ? 1 : 0;
           }
         }
         return Words{hits};
       }},
  };
}

TEST(CorpusReference, SimpleKernels_GiveWhatCppGives) {
  std::map<std::string, int> checked;
  for (auto& [tier, device] : devices()) {
    for (const Reference& reference : references()) {
      const auto files = corpus_files("nvrtc-75");
      const auto file =
          std::find_if(files.begin(), files.end(), [&](const auto* o) { return o->source == reference.source; });
      ASSERT_NE(file, files.end()) << reference.source;
      SCOPED_TRACE(tier + " " + reference.kernel);
      const auto lines = run_lines(reference.source);
      const auto line =
          std::find_if(lines.begin(), lines.end(), [&](const RunLine& l) { return l.kernel == reference.kernel; });
      ASSERT_NE(line, lines.end());
      const auto module = load(*device, **file);
      if (module.code() == Code::kUnsupported) continue;  // CorpusLoad lists it
      ASSERT_TRUE(module) << module.message();
      ++checked[tier];
      const auto memory = run(*device, *module, *line);
      ASSERT_TRUE(memory) << memory.message();
      std::vector<std::vector<std::uint32_t>> in;
      for (const RunArgument& argument : line->arguments)
        if (argument.is_array) in.push_back(as<std::uint32_t>(argument.bytes));
      EXPECT_EQ(as<std::uint32_t>((*memory)[reference.array]), reference.expected(in));
    }
    EXPECT_GE(checked[tier], 10) << tier;
  }
}

TEST(RunLines, AreRefusedWithTheirLine) {
  for (const char* wrong :
       {"k grid=a : 1", "k block=1 what=3 : 1", "k grid=1 block=1 : f99[3]", "k grid=1 : i32[0]", "k grid=1,1,1,1 : 1",
        "k grid=1 : i32[4]<0", "k grid=1 : struct{}", "k grid=1 : struct{i32}"}) {
    const auto lines = parse_run_lines("\n//! run " + std::string(wrong) + "\n", "x.cu");
    ASSERT_FALSE(lines) << wrong;
    EXPECT_THAT(lines.message(), testing::HasSubstr("x.cu:2:1"));
  }
}

TEST(RunLines, EachNamesAKernelOfItsSource) {
  for (const CorpusFile* file : corpus_files("nvrtc-75")) {
    const auto module = ptx::parse(file->text, file->label());
    ASSERT_TRUE(module) << module.message();
    std::set<std::string> seen;
    for (const RunLine& line : run_lines(file->source)) {
      EXPECT_NE(module->find_function(line.kernel), nullptr) << file->label() << " " << line.kernel;
      EXPECT_TRUE(seen.insert(line.kernel).second) << line.kernel;
    }
  }
}

}  // namespace
}  // namespace pergola::corpus
