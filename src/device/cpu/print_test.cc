#include "src/device/cpu/print.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <thread>
#include <vector>

namespace pergola::device::cpu {
namespace {

// A packed argument buffer as a kernel makes it, and memory that holds it and the format.
class Call {
 public:
  explicit Call(std::string format) : format_(std::move(format)) {}
  Call& with(std::int32_t value) { return pack(&value, sizeof value); }
  Call& with(std::int64_t value) { return pack(&value, sizeof value); }
  Call& with(double value) { return pack(&value, sizeof value); }
  Call& with(const char* value) {
    const auto address = std::bit_cast<std::uint64_t>(value);
    return pack(&address, sizeof address);
  }

  FormattedPrint run() {
    MemoryMap map;
    map.add({reinterpret_cast<std::uintptr_t>(format_.c_str()), format_.size() + 1, "format"});
    map.add({reinterpret_cast<std::uintptr_t>(bytes_.data()), used_, "arguments"});
    map.add({reinterpret_cast<std::uintptr_t>(kText), sizeof kText, "text"});
    return format_print(memory_map_reader(map), reinterpret_cast<std::uintptr_t>(format_.c_str()),
                        reinterpret_cast<std::uintptr_t>(bytes_.data()));
  }
  std::string text() { return run().text; }

  static constexpr char kText[] = "text";

 private:
  Call& pack(const void* value, std::size_t size) {
    used_ = (used_ + size - 1) / size * size;
    std::memcpy(bytes_.data() + used_, value, size);
    used_ += size;
    return *this;
  }
  std::string format_;
  alignas(8) std::array<std::byte, 256> bytes_{};
  std::size_t used_ = 0;
};

TEST(Print, Integers) {
  EXPECT_EQ(Call("%d|%i|%u|%x|%X|%o").with(-1).with(7).with(-1).with(255).with(255).with(8).text(),
            "-1|7|4294967295|ff|FF|10");
  EXPECT_EQ(Call("%ld|%llu|%zx").with(std::int64_t{-5}).with(std::int64_t{-1}).with(std::int64_t{1} << 40).text(),
            "-5|18446744073709551615|10000000000");
  EXPECT_EQ(Call("%hd|%hhd|%hu|%hhx").with(0x18000).with(0x1ff).with(-1).with(0x1fe).text(), "-32768|-1|65535|fe");
}

TEST(Print, MixedSizes_AreAlignedAsPacked) {
  EXPECT_EQ(Call("%d %f %d %ld %d").with(1).with(2.5).with(3).with(std::int64_t{4}).with(5).text(), "1 2.500000 3 4 5");
}

TEST(Print, FlagsWidthAndPrecision) {
  EXPECT_EQ(Call("[%5d][%-5d][%05d][%+d][% d][%#x][%.3d]").with(42).with(42).with(42).with(42).with(42).with(42).with(4)
                .text(),
            "[   42][42   ][00042][+42][ 42][0x2a][004]");
  EXPECT_EQ(Call("[%8.3f][%-8.2e][%g][%G][%.0f]").with(3.14159).with(31415.9).with(1e-7).with(1e-7).with(2.5).text(),
            "[   3.142][3.14e+04][1e-07][1E-07][2]");
  EXPECT_EQ(Call("[%*d][%-*d][%.*f]").with(5).with(1).with(-4).with(2).with(1).with(0.25).text(),
            "[    1][2   ][0.2]");
  EXPECT_EQ(Call("%f %F %e %a").with(1.0 / 0.0).with(-1.0 / 0.0).with(0.0).with(1.0).text(),
            "inf -INF 0.000000e+00 0x1p+0");
}

TEST(Print, CharactersStringsAndPointers) {
  EXPECT_EQ(Call("%c%c|%3c|%-3c|").with('o').with('k').with('x').with('y').text(), "ok|  x|y  |");
  EXPECT_EQ(Call("%s|%6s|%-6s|%.2s|").with(Call::kText).with(Call::kText).with(Call::kText).with(Call::kText).text(),
            "text|  text|text  |te|");
  EXPECT_EQ(Call("%p").with(std::int64_t{0x1234}).text(), "0x1234");
  EXPECT_EQ(Call("%s").with(static_cast<const char*>(nullptr)).text(), "(null)");
}

TEST(Print, PercentAndWhatIsNoConversion_AreWrittenAsTheyStand) {
  EXPECT_EQ(Call("100%% %y %").text(), "100% %y %");
  EXPECT_EQ(Call("%n%d").with(3).text(), "%n3");
  EXPECT_EQ(Call("").text(), "");
}

TEST(Print, Result_CountsArguments) {
  EXPECT_EQ(Call("plain").run().result, 0);
  EXPECT_EQ(Call("%d %*d").with(1).with(2).with(3).run().result, 3);
  MemoryMap map;
  EXPECT_EQ(format_print(memory_map_reader(map), 0, 0).result, -1);
  EXPECT_EQ(format_print(memory_map_reader(map), 4096, 0).result, -1);
}

TEST(Print, WildPointers_AreNamedNotRead) {
  EXPECT_EQ(Call("<%s>").with(std::int64_t{0x10}).text(), "<(unreadable string at 0x10)>");
  EXPECT_EQ(Call("<%d %d>").with(1).text(), "<1 (unreadable argument)");
}

TEST(Print, HugeWidths_AreCut) {
  EXPECT_EQ(Call("%999999999d").with(1).text().size(), 65536u);
  EXPECT_EQ(Call("%*d").with(INT32_MIN).with(1).text().size(), 65536u);
  EXPECT_EQ(Call("%.999999999d").with(1).text().size(), 4096u);
}

TEST(PrintBuffer, CallsStayWhole_AndNothingIsLost) {
  std::string out;
  auto output = std::make_shared<PrintOutput>([&](std::string_view text) { out += text; });
  PrintBuffer buffer(output);
  const std::string line(99, 'x');
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) buffer.append(line + "\n");
    });
  }
  for (std::thread& thread : threads) thread.join();
  buffer.flush();
  ASSERT_EQ(out.size(), 400000u);
  for (std::size_t i = 99; i < out.size(); i += 100) ASSERT_EQ(out[i], '\n');
}

}  // namespace
}  // namespace pergola::device::cpu
