#include "tests/instruction_bits/batch.h"

#include <cstring>

#include "src/ptx/parser.h"

namespace pergola::instruction_bits {
namespace {

constexpr std::uint32_t kThreads = 128;
constexpr std::size_t kCaseBytes = sizeof(Case);

// The register class of a kind: h b16, r b32, d b64, f f32, g f64, p predicate.
char register_class(Kind kind) {
  switch (kind) {
    case Kind::kInt16:
    case Kind::kF16:
    case Kind::kBf16:
    case Kind::kFp8x2: return 'h';
    case Kind::kInt64:
    case Kind::kF32x2: return 'd';
    case Kind::kF32: return 'f';
    case Kind::kF64: return 'g';
    case Kind::kPredicate:
    case Kind::kPredicatePair: return 'p';
    default: return 'r';
  }
}

std::string register_name(Kind kind, std::size_t index) { return fmt::format("%{}{}", register_class(kind), index); }

std::string load(Kind kind, std::size_t source) {
  const std::string reg = register_name(kind, source);
  const std::string at = fmt::format("[%d1+{}];\n", 8 * (source - 10));
  switch (register_class(kind)) {
    case 'h': return "  ld.global.b16 " + reg + ", " + at;
    case 'd': return "  ld.global.b64 " + reg + ", " + at;
    case 'f': return "  ld.global.f32 " + reg + ", " + at;
    case 'g': return "  ld.global.f64 " + reg + ", " + at;
    case 'p': return "  ld.global.b32 %r9, " + at + "  setp.ne.b32 " + reg + ", %r9, 0;\n";
    default: return "  ld.global.b32 " + reg + ", " + at;
  }
}

std::string store(Kind kind, std::size_t index) {
  const std::string reg = register_name(kind, index);
  switch (register_class(kind)) {
    case 'h': return "  cvt.u64.u16 %d3, " + reg + ";\n  st.global.b64 [%d2], %d3;\n";
    case 'd': return "  st.global.b64 [%d2], " + reg + ";\n";
    case 'f': return "  mov.b32 %r9, " + reg + ";\n  cvt.u64.u32 %d3, %r9;\n  st.global.b64 [%d2], %d3;\n";
    case 'g': return "  mov.b64 %d3, " + reg + ";\n  st.global.b64 [%d2], %d3;\n";
    case 'p': {
      std::string text = "  selp.b64 %d3, 1, 0, " + reg + ";\n";
      if (kind == Kind::kPredicatePair) {
        text += fmt::format("  selp.b64 %d4, 2, 0, %p{};\n  or.b64 %d3, %d3, %d4;\n", index + 1);
      }
      return text + "  st.global.b64 [%d2], %d3;\n";
    }
    default: return "  cvt.u64.u32 %d3, " + reg + ";\n  st.global.b64 [%d2], %d3;\n";
  }
}

// Replaces $0 by the destination, $n by the n-th source.
std::string fill(const Instruction& instruction, std::size_t destination) {
  std::string text;
  for (std::size_t at = 0; at < instruction.text.size(); ++at) {
    if (instruction.text[at] != '$') {
      text += instruction.text[at];
      continue;
    }
    const auto n = static_cast<std::size_t>(instruction.text[++at] - '0');
    const auto kind = static_cast<Kind>(instruction.kinds[n]);
    if (n > 0) {
      text += register_name(kind, 9 + n);
    } else {
      text += register_name(kind, destination);
      if (kind == Kind::kPredicatePair) text += fmt::format("|%p{}", destination + 1);
    }
  }
  return text;
}

Result<std::vector<std::uint64_t>> launch(device::Device& device, const std::string& text, std::size_t count,
                                          std::span<const Case> cases) {
  PERGOLA_ASSIGN(ptx::Module parsed, ptx::parse(text, "batch.ptx"));
  PERGOLA_ASSIGN(device::ModulePtr module, device.load({&parsed, text, "batch.ptx"}));
  PERGOLA_ASSIGN(const device::Kernel* kernel, module->kernel("batch"));
  PERGOLA_ASSIGN(auto queue, device.create_queue());
  PERGOLA_ASSIGN(device::BufferPtr in, device.allocate(cases.size_bytes(), device::MemoryKind::kDevice));
  const std::size_t out_bytes = count * cases.size() * 8;
  PERGOLA_ASSIGN(device::BufferPtr out, device.allocate(out_bytes, device::MemoryKind::kDevice));
  PERGOLA_TRY(queue->copy_to_device(in, 0, std::as_bytes(cases)));
  struct Parameters {
    std::uint64_t in, out;
    std::uint32_t cases;
  } parameters{in->address(), out->address(), static_cast<std::uint32_t>(cases.size())};
  std::vector<std::byte> bytes(kernel->signature().parameter_bytes);
  std::memcpy(bytes.data(), &parameters, std::min(bytes.size(), sizeof parameters));
  device::LaunchConfig config;
  config.block.x = kThreads;
  config.grid.x = static_cast<std::uint32_t>((cases.size() + kThreads - 1) / kThreads);
  PERGOLA_TRY(queue->launch(module, *kernel, config, bytes));
  std::vector<std::uint64_t> values(count * cases.size());
  PERGOLA_TRY(queue->copy_to_host(std::as_writable_bytes(std::span(values)), out, 0));
  PERGOLA_TRY(queue->synchronize());
  return values;
}

}  // namespace

std::string batch_text(std::span<const Instruction> batch, int sm) {
  std::string text = fmt::format(
      ".version 8.8\n.target sm_{}\n.address_size 64\n"
      ".visible .entry batch(.param .u64 in, .param .u64 out, .param .u32 cases) {{\n", sm);
  const std::size_t registers = 2 * batch.size() + 32;
  for (const auto& [name, type] : {std::pair{'h', "b16"}, {'r', "b32"}, {'d', "b64"}, {'f', "f32"}, {'g', "f64"}, {'p', "pred"}}) {
    text += fmt::format("  .reg .{} %{}<{}>;\n", type, name, registers);
  }
  text += fmt::format(
      "  ld.param.u64 %d1, [in];\n  ld.param.u64 %d2, [out];\n  ld.param.u32 %r1, [cases];\n"
      "  mov.u32 %r2, %ctaid.x;\n  mov.u32 %r3, %tid.x;\n  mad.lo.u32 %r2, %r2, {}, %r3;\n"
      "  setp.ge.u32 %p1, %r2, %r1;\n  @%p1 ret;\n"
      "  mad.wide.u32 %d1, %r2, {}, %d1;\n  mad.wide.u32 %d2, %r2, 8, %d2;\n  mul.wide.u32 %d5, %r1, 8;\n",
      kThreads, kCaseBytes);
  const std::string& kinds = batch[0].kinds;
  for (std::size_t n = 1; n < kinds.size(); ++n) text += load(static_cast<Kind>(kinds[n]), 9 + n);
  for (std::size_t j = 0; j < batch.size(); ++j) {
    const std::size_t destination = 20 + 2 * j;
    text += "  " + fill(batch[j], destination) + ";\n" + store(static_cast<Kind>(kinds[0]), destination);
    text += "  add.u64 %d2, %d2, %d5;\n";
  }
  return text + "  ret;\n}\n";
}

std::vector<Results> run_batch(device::Device& device, std::span<const Instruction> batch, std::span<const Case> cases) {
  const device::DeviceInfo& info = device.info();
  const int sm = static_cast<int>(std::min(info.compute_major * 10 + info.compute_minor, 100u));
  auto values = launch(device, batch_text(batch, sm), batch.size(), cases);
  std::vector<Results> results(batch.size());
  if (values.ok()) {
    for (std::size_t j = 0; j < batch.size(); ++j) {
      const auto first = values->begin() + static_cast<std::ptrdiff_t>(j * cases.size());
      results[j].values.assign(first, first + static_cast<std::ptrdiff_t>(cases.size()));
    }
    return results;
  }
  if (batch.size() == 1) {
    results[0].status = values.status();
    return results;
  }
  const std::size_t half = batch.size() / 2;
  results = run_batch(device, batch.first(half), cases);
  for (Results& one : run_batch(device, batch.subspan(half), cases)) results.push_back(std::move(one));
  return results;
}

}  // namespace pergola::instruction_bits
