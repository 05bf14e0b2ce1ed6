// Programs of dependent kernels as BlockMaestro's paper has them (Table II, section IV-D, Figure 12): what memory a
// program has, what it launches in what order, and what must come out. Nothing here knows a device: an analysis, the
// CPU device, streams, graphs and sessions all run the same description.
//
//   Program ─┬─ buffers    contents before the first launch, made when asked for
//            ├─ launches   kernel, grid, block, arguments: the order of one stream
//            └─ check      results against a reference in double precision (integers: exactly)
//
// A Program is plain data, copied freely; its functions may be called from any thread, `check` from one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace pergola::bench::blocks {

struct Dim3 {
  std::uint32_t x = 1, y = 1, z = 1;
  std::uint64_t count() const { return std::uint64_t{x} * y * z; }
};

enum class Element : std::uint8_t { kByte, kInt, kFloat, kDouble };
std::size_t size_bytes(Element element);

struct Buffer {
  std::string name;
  Element element = Element::kFloat;
  std::size_t count = 0;  // elements
  // Writes the contents before the first launch, `bytes()` of them; empty: all bytes are zero.
  std::function<void(std::span<std::byte>)> fill;
  bool is_result = false;  // what `check` looks at

  std::size_t bytes() const { return count * size_bytes(element); }
};

// A pointer to `offset_bytes` of Program::buffers[buffer].
struct BufferArgument {
  std::uint32_t buffer = 0;
  std::size_t offset_bytes = 0;
};
using Argument = std::variant<BufferArgument, std::int32_t, std::int64_t, float, double>;

struct Launch {
  std::string kernel;  // as in the PTX
  Dim3 grid, block;
  std::uint32_t shared_bytes = 0;  // dynamic
  std::vector<Argument> arguments;
};

// The bytes of each result buffer, by buffer; what is no result may be empty.
using Results = std::vector<std::span<const std::byte>>;

struct Program {
  std::string name;         // as in Table II
  std::string source_file;  // in kernels_folder()
  std::vector<Buffer> buffers;
  std::vector<Launch> launches;
  // "" when right, else what differs, where and by how much. The first call computes the reference and keeps it.
  std::function<std::string(const Results&)> check;

  // Of the launch with the most.
  std::uint64_t most_blocks() const;
  std::uint64_t total_bytes() const;
};

struct Size {
  enum class Kind : std::uint8_t {
    kPaper,  // as many launches as Table II has, 64 x 64 tiles for the six of section IV-D
    kSmall,  // for tests: a second or less, each kernel and each edge of a grid met
    kWaves,  // the largest launch has `waves` times `concurrent_blocks` blocks, or the next number its shape allows
  };
  Kind kind = Kind::kPaper;
  double waves = 0;
  std::uint32_t concurrent_blocks = 0;

  static Size paper() { return {}; }
  static Size small() { return {Kind::kSmall}; }
  // `concurrent_blocks`: how many blocks of the program's shape the device runs at once. The kernels' indices are ints,
  // which all programs keep to up to 32767 blocks of the largest launch.
  static Size by_waves(double waves, std::uint32_t concurrent_blocks) {
    return {Kind::kWaves, waves, concurrent_blocks};
  }
  // Blocks wanted of the largest launch, at least 1. kWaves alone.
  std::uint64_t blocks() const;
};

struct ProgramFactory {
  std::string name;
  std::uint32_t paper_launches = 0;
  // Table II's column: numbers of Table I's patterns, as "2,7"; "6" for the six of section IV-D. It is what the paper
  // found in its versions of the programs; README.md says where these here differ.
  std::string paper_patterns;
  std::function<Program(const Size&)> make;
};

// The eighteen, Table II's first, in its order.
const std::vector<ProgramFactory>& all();

// Figure 12: two additions of vectors of `blocks` blocks each; each block of the second needs those of its group of
// `degree` blocks of the first. Both at least 1.
Program make_vector_add(std::uint32_t blocks, std::uint32_t degree);

// Where the kernels' sources are: $PERGOLA_BLOCKS_KERNELS, else where they were when this was built.
std::string_view kernels_folder();
// kernels_folder() / source_file
std::string source_path(const Program& program);

}  // namespace pergola::bench::blocks
