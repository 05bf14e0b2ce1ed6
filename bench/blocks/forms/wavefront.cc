#include "bench/blocks/forms/wavefront.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <type_traits>

namespace pergola::bench::blocks {
namespace {

// Addresses become whatever pointers the kernel takes.
constexpr char kAddress[] = R"(
struct Address {
  unsigned long long value;
  template <typename T> __device__ operator T*() const { return reinterpret_cast<T*>(value); }
};
)";

std::string replaced(std::string text, std::string_view what, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

const char* type_of(const Argument& argument) {
  struct Names {
    const char* operator()(const BufferArgument&) const { return "Address"; }
    const char* operator()(std::int32_t) const { return "int"; }
    const char* operator()(std::int64_t) const { return "long long"; }
    const char* operator()(float) const { return "float"; }
    const char* operator()(double) const { return "double"; }
  };
  return std::visit(Names(), argument);
}

// "Address a0, int a2, " of those that do not change; and the call's arguments, with `diagonal` and `first_row` for
// the others.
std::string parameters(const Wavefront& wavefront) {
  std::string text;
  for (std::size_t i = 0; i < wavefront.arguments.size(); ++i)
    if (i != wavefront.diagonal && i != wavefront.first_row)
      text += fmt::format("{} a{}, ", type_of(wavefront.arguments[i]), i);
  return text;
}
std::string call_arguments(const Wavefront& wavefront) {
  std::string text;
  for (std::size_t i = 0; i < wavefront.arguments.size(); ++i) {
    if (i != 0) text += ", ";
    text += i == wavefront.diagonal ? "diagonal" : i == wavefront.first_row ? "first_row" : fmt::format("a{}", i);
  }
  return text;
}

}  // namespace

std::uint32_t Wavefront::widest() const {
  return *std::ranges::max_element(widths) * matrices;
}

std::optional<Wavefront> wavefront_of(const Program& program) {
  if (program.launches.size() < 3) return std::nullopt;
  const Launch& first = program.launches.front();
  Wavefront made;
  made.kernel = first.kernel;
  made.arguments = first.arguments;
  made.matrices = first.grid.y;
  made.threads = first.block.x;
  std::vector<bool> changes(first.arguments.size()), is_diagonal(first.arguments.size(), true);
  for (std::size_t d = 0; d < program.launches.size(); ++d) {
    const Launch& launch = program.launches[d];
    if (launch.kernel != first.kernel || launch.block.count() != first.block.x || launch.grid.y != first.grid.y ||
        launch.grid.z != 1 || launch.shared_bytes != 0)
      return std::nullopt;
    for (std::size_t i = 0; i < launch.arguments.size(); ++i) {
      const auto* value = std::get_if<std::int32_t>(&launch.arguments[i]);
      is_diagonal[i] = is_diagonal[i] && value != nullptr && static_cast<std::size_t>(*value) == d;
      if (const auto* buffer = std::get_if<BufferArgument>(&launch.arguments[i])) {
        const auto& of_first = std::get<BufferArgument>(first.arguments[i]);
        if (buffer->buffer != of_first.buffer || buffer->offset_bytes != of_first.offset_bytes) return std::nullopt;
      } else if (value != nullptr && *value != std::get<std::int32_t>(first.arguments[i])) {
        changes[i] = true;
      }
    }
    made.widths.push_back(launch.grid.x);
    made.tiles += launch.grid.x * launch.grid.y;
  }
  if (std::ranges::count(changes, true) != 2) return std::nullopt;
  const auto diagonal = std::ranges::find(is_diagonal, true);
  if (diagonal == is_diagonal.end()) return std::nullopt;
  made.diagonal = static_cast<std::size_t>(diagonal - is_diagonal.begin());
  for (std::size_t i = 0; i < changes.size(); ++i)
    if (changes[i] && i != made.diagonal) made.first_row = i;
  for (const Launch& launch : program.launches)
    made.first_rows.push_back(static_cast<std::uint32_t>(std::get<std::int32_t>(launch.arguments[made.first_row])));
  return made;
}

std::string megakernel_source(const Wavefront& wavefront, const std::string& source) {
  // The kernel as a function of a block whose place is a variable.
  std::string body = replaced(source, "extern \"C\" __global__", "__device__ __forceinline__");
  body = replaced(body, "blockIdx", "place_of_tile");
  std::string text = kAddress;
  text += "__shared__ uint3 place_of_tile;\n" + body + R"(
__device__ int seen(const int* from) {
  int value;
  asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
  return value;
}
__device__ void publish(int* to, int value) {
  asm volatile("st.release.gpu.global.s32 [%0], %1;" :: "l"(to), "r"(value) : "memory");
}
__device__ void add_one(int* to) { asm volatile("red.release.gpu.global.add.s32 [%0], 1;" :: "l"(to) : "memory"); }
)";
  text += fmt::format(R"(
constexpr int kLaunches = {}, kTiles = {}, kMatrices = {}, kRunAhead = 3;
)",
                      wavefront.widths.size(), wavefront.tiles, wavefront.matrices);
  text += "extern \"C\" __global__ void __launch_bounds__(" + std::to_string(wavefront.threads) + ") megakernel(" +
          parameters(wavefront) + R"(const int* table, int* state, int run) {
  int* const next = state;                   // tickets: each run takes one a tile, and one a block that finds no more
  int* const ended = state + 32;             // by launch: tiles, of all runs
  int* const tile_ended = ended + kLaunches; // by tile: the run
  __shared__ int first_row, diagonal, self;
  int d = 0;
  for (;;) {
    if (threadIdx.x == 0) {
      self = atomicAdd(next, 1) - (run - 1) * (kTiles + (int)gridDim.x);
      if (self < kTiles) {
        while (table[3 * (d + 1)] <= self) ++d;
        const int width = table[3 * d + 1], row = table[3 * d + 2];
        const int in_launch = self - table[3 * d], x = in_launch % width, y = in_launch / width;
        diagonal = d, first_row = row;
        place_of_tile = make_uint3(x, y, 0);
        if (d > 0) {  // the tile above is of row - 1, the one to the left of the same row
          const int before = table[3 * (d - 1)], its_width = table[3 * (d - 1) + 1], its_row = table[3 * (d - 1) + 2];
          for (int up = 0; up < 2; ++up) {
            const int its_x = row + x - up - its_row;
            if (its_x < 0 || its_x >= its_width) continue;
            while (seen(tile_ended + before + y * its_width + its_x) != run) {}
          }
        }
        if (d > kRunAhead) {
          const int all = table[3 * (d - kRunAhead - 1) + 1] * kMatrices * run;
          while (seen(ended + d - kRunAhead - 1) < all) {}
        }
      }
    }
    __syncthreads();
    if (self >= kTiles) return;
    )" + wavefront.kernel +
          "(" + call_arguments(wavefront) + R"();
    __syncthreads();
    if (threadIdx.x == 0) {
      publish(tile_ended + self, run);
      add_one(ended + d);
    }
  }
}
)";
  return text;
}

std::string device_launches_source(const Wavefront& wavefront, const std::string& source) {
  return kAddress + source + "\nextern \"C\" __global__ void device_launches(" + parameters(wavefront) +
         fmt::format(R"(const int* table) {{
  for (int diagonal = 0; diagonal < {}; ++diagonal) {{
    const int first_row = table[3 * diagonal + 2];
    {}<<<dim3(table[3 * diagonal + 1], {}), {}>>>({});
  }}
}}
)",
                     wavefront.widths.size(), wavefront.kernel, wavefront.matrices, wavefront.threads,
                     call_arguments(wavefront));
}

std::vector<std::byte> packed_arguments(const Wavefront& wavefront, const std::vector<std::uint64_t>& addresses,
                                        const std::vector<TrailingArgument>& others) {
  std::vector<std::byte> bytes;
  const auto put = [&](const auto& value) {
    bytes.resize((bytes.size() + sizeof value - 1) / sizeof value * sizeof value + sizeof value);
    std::memcpy(bytes.data() + bytes.size() - sizeof value, &value, sizeof value);
  };
  for (std::size_t i = 0; i < wavefront.arguments.size(); ++i) {
    if (i == wavefront.diagonal || i == wavefront.first_row) continue;
    if (const auto* buffer = std::get_if<BufferArgument>(&wavefront.arguments[i]))
      put(addresses.at(buffer->buffer) + buffer->offset_bytes);
    else
      std::visit(
          [&](const auto& value) {
            if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>) put(value);
          },
          wavefront.arguments[i]);
  }
  for (const TrailingArgument& other : others) {
    if (other.is_pointer)
      put(other.value);
    else
      put(static_cast<std::uint32_t>(other.value));
  }
  return bytes;
}

std::vector<std::int32_t> wavefront_table(const Wavefront& wavefront) {
  std::vector<std::int32_t> table;
  std::uint32_t first = 0;
  for (std::size_t d = 0; d < wavefront.widths.size(); ++d) {
    for (const std::uint32_t value : {first, wavefront.widths[d], wavefront.first_rows[d]})
      table.push_back(static_cast<std::int32_t>(value));
    first += wavefront.widths[d] * wavefront.matrices;
  }
  table.insert(table.end(), {static_cast<std::int32_t>(first), 0, 0});
  return table;
}

std::size_t wavefront_state_words(const Wavefront& wavefront) {
  return 32 + wavefront.widths.size() + wavefront.tiles;
}

}  // namespace pergola::bench::blocks
