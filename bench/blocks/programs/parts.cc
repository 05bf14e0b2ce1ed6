// Contents, comparing, and the list of all programs.
#include "parts.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>

namespace pergola::bench::blocks {
namespace {

double element_at(Element element, const std::byte* bytes, std::size_t index) {
  const auto read = [&]<typename T>(T value) {
    std::memcpy(&value, bytes + index * sizeof(T), sizeof(T));
    return static_cast<double>(value);
  };
  switch (element) {
    case Element::kByte: return read(std::uint8_t{});
    case Element::kInt: return read(std::int32_t{});
    case Element::kFloat: return read(float{});
    case Element::kDouble: return read(double{});
  }
  return 0;
}

bool is_right(double got, double expected, double tolerance, double scale) {
  if (tolerance == 0) return got == expected;
  return std::fabs(got - expected) <= tolerance * (scale + std::fabs(expected));  // no NaN is
}

// Of a buffer's elements: where they come from sums whose terms cancel, small ones are no more exact than large ones.
double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value * value;
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

// What of a buffer was found wrong, or "".
std::string difference(const std::string& program, const Buffer& buffer, std::span<const std::byte> got,
                       const Expected& expected) {
  if (got.size() != buffer.bytes() || expected.values.size() != buffer.count)
    return program + ": '" + buffer.name + "' has " + std::to_string(got.size()) + " bytes, its reference " +
           std::to_string(expected.values.size()) + " elements, where there should be " + std::to_string(buffer.count) +
           " elements.";
  std::size_t wrong = 0, first = 0;
  const double scale = std::max(1.0, root_mean_square(expected.values));
  for (std::size_t i = 0; i < buffer.count; ++i)
    if (!is_right(element_at(buffer.element, got.data(), i), expected.values[i], expected.tolerance, scale) &&
        wrong++ == 0)
      first = i;
  if (wrong == 0) return "";
  std::array<char, 160> values{};
  std::snprintf(values.data(), values.size(), "%.9g instead of %.9g (tolerance %g)",
                element_at(buffer.element, got.data(), first), expected.values[first], expected.tolerance);
  return program + ": " + std::to_string(wrong) + " of " + std::to_string(buffer.count) + " elements of '" +
         buffer.name + "' are wrong; the first is element " + std::to_string(first) + ", " + values.data() + ".";
}

}  // namespace

// ── program.h ───────────────────────────────────────────────────────────────────────────────────────────────────────

std::size_t size_bytes(Element element) {
  switch (element) {
    case Element::kByte: return 1;
    case Element::kInt:
    case Element::kFloat: return 4;
    case Element::kDouble: return 8;
  }
  return 0;
}

std::uint64_t Program::most_blocks() const {
  std::uint64_t most = 0;
  for (const Launch& launch : launches) most = std::max(most, launch.grid.count());
  return most;
}

std::uint64_t Program::total_bytes() const {
  std::uint64_t bytes = 0;
  for (const Buffer& buffer : buffers) bytes += buffer.bytes();
  return bytes;
}

std::uint64_t Size::blocks() const {
  return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(std::ceil(waves * concurrent_blocks)));
}

const std::vector<ProgramFactory>& all() {
  static const std::vector<ProgramFactory> kAll = {
      {"3MM", 3, "2,7", make_3mm},
      {"AlexNet", 22, "1,3,4", make_alexnet},
      {"BICG", 2, "7", make_bicg},
      {"FDTD-2D", 24, "5,7", make_fdtd2d},
      {"FFT", 60, "3,5,7", make_fft},
      {"GAUSSIAN", 510, "4,5", make_gaussian},
      {"GRAMSCHM", 192, "1,4,5", make_gramschm},
      {"HS", 10, "6", make_hotspot},
      {"LUD", 46, "3,4,5", make_lud},
      {"MVT", 2, "7", make_mvt},
      {"NW", 255, "4,5", make_nw},
      {"PATH", 5, "6", make_pathfinder},
      {"HEAT", 127, "6", make_heat},
      {"IHIST", 127, "6", make_integral_histogram},
      {"IIMG", 127, "6", make_integral_image},
      {"SOR", 127, "6", make_sor},
      {"DTW", 127, "6", make_dtw},
      {"SW", 127, "6", make_smith_waterman},
  };
  return kAll;
}

std::string_view kernels_folder() {
  static const char* const given = std::getenv("PERGOLA_BLOCKS_KERNELS");
  return given != nullptr ? given : BLOCKS_KERNELS_FOLDER;
}

std::string source_path(const Program& program) {
  return std::string(kernels_folder()) + "/" + program.source_file;
}

// ── parts.h ─────────────────────────────────────────────────────────────────────────────────────────────────────────

std::uint64_t hash(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t x = (seed << 40) + index + 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

double uniform(std::uint64_t seed, std::uint64_t index) {
  return static_cast<double>(hash(seed, index) >> 11) * 0x1p-53;
}

Value<float> uniform_floats(std::uint64_t seed, double low, double high) {
  return [=](std::size_t i) { return static_cast<float>(low + (high - low) * uniform(seed, i)); };
}

Value<std::int32_t> uniform_ints(std::uint64_t seed, std::int32_t low, std::int32_t high) {
  return [=](std::size_t i) { return low + static_cast<std::int32_t>(uniform(seed, i) * (high - low)); };
}

Value<std::uint8_t> uniform_bytes(std::uint64_t seed, std::uint32_t count) {
  return [=](std::size_t i) { return static_cast<std::uint8_t>(uniform(seed, i) * count); };
}

std::uint32_t add_zeros(Program& program, std::string name, Element element, std::size_t count, Role role) {
  program.buffers.push_back({std::move(name), element, count, nullptr, role == Role::kResult});
  return static_cast<std::uint32_t>(program.buffers.size() - 1);
}

std::size_t root_up(std::size_t value) {
  auto root = static_cast<std::size_t>(std::sqrt(static_cast<double>(value)));
  while (root * root < value) ++root;
  while (root > 0 && (root - 1) * (root - 1) >= value) --root;
  return root;
}

std::function<std::string(const Results&)> compared_with(const Program& program,
                                                         std::function<std::vector<Expected>()> reference) {
  auto kept = std::make_shared<std::vector<Expected>>();
  return
      [name = program.name, buffers = program.buffers, reference = std::move(reference), kept](const Results& results) {
        if (kept->empty()) *kept = reference();
        for (const Expected& expected : *kept) {
          if (expected.buffer >= results.size()) return name + ": results of fewer buffers than the program has.";
          std::string wrong = difference(name, buffers[expected.buffer], results[expected.buffer], expected);
          if (!wrong.empty()) return wrong;
        }
        return std::string();
      };
}

}  // namespace pergola::bench::blocks
