// 3DES: packets encrypted by FIPS 46-3 with three keys, block by block. The fast code, which the kernel mirrors, is
// held against the standard's own tables bit by bit and against published examples before anything is made of it.
#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>

#include "problem.h"

namespace narrow {
namespace {

using Rounds =
    std::array<std::array<std::uint32_t, 2>, 48>;  // the round keys, six bits a byte: groups 0 2 4 6, 1 3 5 7
constexpr std::size_t kFlows = 64;                 // packets of one flow have one key

// ── The standard: bit 1 is the highest ─────────────────────────────────────────────────────────────────────────────

constexpr std::uint8_t kInitial[64] = {58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4,
                                       62, 54, 46, 38, 30, 22, 14, 6, 64, 56, 48, 40, 32, 24, 16, 8,
                                       57, 49, 41, 33, 25, 17, 9,  1, 59, 51, 43, 35, 27, 19, 11, 3,
                                       61, 53, 45, 37, 29, 21, 13, 5, 63, 55, 47, 39, 31, 23, 15, 7};
constexpr std::uint8_t kFinal[64] = {40, 8, 48, 16, 56, 24, 64, 32, 39, 7, 47, 15, 55, 23, 63, 31,
                                     38, 6, 46, 14, 54, 22, 62, 30, 37, 5, 45, 13, 53, 21, 61, 29,
                                     36, 4, 44, 12, 52, 20, 60, 28, 35, 3, 43, 11, 51, 19, 59, 27,
                                     34, 2, 42, 10, 50, 18, 58, 26, 33, 1, 41, 9,  49, 17, 57, 25};
constexpr std::uint8_t kExpansion[48] = {32, 1,  2,  3,  4,  5,  4,  5,  6,  7,  8,  9,  8,  9,  10, 11,
                                         12, 13, 12, 13, 14, 15, 16, 17, 16, 17, 18, 19, 20, 21, 20, 21,
                                         22, 23, 24, 25, 24, 25, 26, 27, 28, 29, 28, 29, 30, 31, 32, 1};
constexpr std::uint8_t kPermutation[32] = {16, 7, 20, 21, 29, 12, 28, 17, 1,  15, 23, 26, 5,  18, 31, 10,
                                           2,  8, 24, 14, 32, 27, 3,  9,  19, 13, 30, 6,  22, 11, 4,  25};
constexpr std::uint8_t kKeyChoice1[56] = {57, 49, 41, 33, 25, 17, 9,  1,  58, 50, 42, 34, 26, 18, 10, 2,  59, 51, 43,
                                          35, 27, 19, 11, 3,  60, 52, 44, 36, 63, 55, 47, 39, 31, 23, 15, 7,  62, 54,
                                          46, 38, 30, 22, 14, 6,  61, 53, 45, 37, 29, 21, 13, 5,  28, 20, 12, 4};
constexpr std::uint8_t kKeyChoice2[48] = {14, 17, 11, 24, 1,  5,  3,  28, 15, 6,  21, 10, 23, 19, 12, 4,
                                          26, 8,  16, 7,  27, 20, 13, 2,  41, 52, 31, 37, 47, 55, 30, 40,
                                          51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32};
constexpr std::uint8_t kShifts[16] = {1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1};
constexpr std::uint8_t kBoxes[8][64] = {
    {14, 4,  13, 1, 2,  15, 11, 8, 3, 10, 6, 12, 5,  9,  0,  7,  0,  15, 7,  4,  14, 2,
     13, 1,  10, 6, 12, 11, 9,  5, 3, 8,  4, 1,  14, 8,  13, 6,  2,  11, 15, 12, 9,  7,
     3,  10, 5,  0, 15, 12, 8,  2, 4, 9,  1, 7,  5,  11, 3,  14, 10, 0,  6,  13},
    {15, 1,  8, 14, 6,  11, 3,  4, 9, 7, 2,  13, 12, 0, 5, 10, 3,  13, 4,  7, 15, 2,  8, 14, 12, 0, 1, 10, 6, 9, 11, 5,
     0,  14, 7, 11, 10, 4,  13, 1, 5, 8, 12, 6,  9,  3, 2, 15, 13, 8,  10, 1, 3,  15, 4, 2,  11, 6, 7, 12, 0, 5, 14, 9},
    {10, 0,  9,  14, 6, 3,  15, 5,  1,  13, 12, 7, 11, 4,  2,  8,  13, 7, 0,  9, 3, 4,
     6,  10, 2,  8,  5, 14, 12, 11, 15, 1,  13, 6, 4,  9,  8,  15, 3,  0, 11, 1, 2, 12,
     5,  10, 14, 7,  1, 10, 13, 0,  6,  9,  8,  7, 4,  15, 14, 3,  11, 5, 2,  12},
    {7, 13, 14, 3, 0, 6,  9, 10, 1,  2, 8,  5, 11, 12, 4,  15, 13, 8,  11, 5, 6, 15,
     0, 3,  4,  7, 2, 12, 1, 10, 14, 9, 10, 6, 9,  0,  12, 11, 7,  13, 15, 1, 3, 14,
     5, 2,  8,  4, 3, 15, 0, 6,  10, 1, 13, 8, 9,  4,  5,  11, 12, 7,  2,  14},
    {2,  12, 4, 1,  7,  10, 11, 6, 8, 5,  3, 15, 13, 0,  14, 9,  14, 11, 2,  12, 4,  7,
     13, 1,  5, 0,  15, 10, 3,  9, 8, 6,  4, 2,  1,  11, 10, 13, 7,  8,  15, 9,  12, 5,
     6,  3,  0, 14, 11, 8,  12, 7, 1, 14, 2, 13, 6,  15, 0,  9,  10, 4,  5,  3},
    {12, 1,  10, 15, 9,  2,  6, 8,  0, 13, 3,  4,  14, 7,  5, 11, 10, 15, 4, 2, 7, 12,
     9,  5,  6,  1,  13, 14, 0, 11, 3, 8,  9,  14, 15, 5,  2, 8,  12, 3,  7, 0, 4, 10,
     1,  13, 11, 6,  4,  3,  2, 12, 9, 5,  15, 10, 11, 14, 1, 7,  6,  0,  8, 13},
    {4, 11, 2,  14, 15, 0, 8, 13, 3,  12, 9, 7, 5, 10, 6, 1, 13, 0,  11, 7, 4, 9, 1,  10, 14, 3, 5, 12, 2,  15, 8, 6,
     1, 4,  11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5,  9, 2, 6,  11, 13, 8, 1, 4, 10, 7,  9,  5, 0, 15, 14, 2,  3, 12},
    {13, 2, 8, 4, 6,  15, 11, 1, 10, 9,  3,  14, 5, 0, 12, 7, 1, 15, 13, 8, 10, 3, 7,  4,  12, 5, 6, 11, 0, 14, 9, 2, 7,
     11, 4, 1, 9, 12, 14, 2,  0, 6,  10, 13, 15, 3, 5, 8,  2, 1, 14, 7,  4, 10, 8, 13, 15, 12, 9, 0, 3,  5, 6,  11}};

// Bits `table` of `value`, which has `width` of them.
template <std::size_t N>
std::uint64_t chosen(std::uint64_t value, const std::uint8_t (&table)[N], unsigned width) {
  std::uint64_t result = 0;
  for (const unsigned bit : table) result = result << 1 | (value >> (width - bit) & 1);
  return result;
}
std::uint32_t through_box(int box, unsigned six_bits) {
  const unsigned row = (six_bits >> 4 & 2) | (six_bits & 1), column = six_bits >> 1 & 15;
  return kBoxes[box][row * 16 + column];
}
std::array<std::uint64_t, 16> round_keys(std::uint64_t key) {
  std::uint64_t halves = chosen(key, kKeyChoice1, 64);
  std::uint64_t c = halves >> 28, d = halves & 0xfffffff;
  std::array<std::uint64_t, 16> keys{};
  for (std::size_t round = 0; round < 16; ++round) {
    const unsigned by = kShifts[round];
    c = (c << by | c >> (28 - by)) & 0xfffffff;
    d = (d << by | d >> (28 - by)) & 0xfffffff;
    halves = c << 28 | d;
    keys[round] = chosen(halves, kKeyChoice2, 56);
  }
  return keys;
}
std::uint64_t des_by_the_book(std::uint64_t block, std::uint64_t key, bool decrypts) {
  auto keys = round_keys(key);
  if (decrypts) std::reverse(keys.begin(), keys.end());
  const std::uint64_t start = chosen(block, kInitial, 64);
  std::uint64_t left = start >> 32, right = start & 0xffffffff;
  for (const std::uint64_t round_key : keys) {
    const std::uint64_t mixed = chosen(right, kExpansion, 32) ^ round_key;
    std::uint64_t out = 0;
    for (int box = 0; box < 8; ++box)
      out = out << 4 | through_box(box, static_cast<unsigned>(mixed >> (42 - 6 * box) & 63));
    const std::uint64_t next = left ^ chosen(out, kPermutation, 32);
    left = right;
    right = next;
  }
  return chosen(right << 32 | left, kFinal, 64);
}

// ── The same, fast ─────────────────────────────────────────────────────────────────────────────────────────────────

struct Tables {
  std::array<std::array<std::uint32_t, 64>, 8> boxes{};  // permuted
  Tables() {
    for (int box = 0; box < 8; ++box)
      for (unsigned in = 0; in < 64; ++in)
        boxes[static_cast<std::size_t>(box)][in] =
            static_cast<std::uint32_t>(chosen(std::uint64_t{through_box(box, in)} << (28 - 4 * box), kPermutation, 32));
  }
};

void add_rounds(std::span<std::array<std::uint32_t, 2>, 16> out, std::uint64_t key, bool decrypts) {
  auto keys = round_keys(key);
  if (decrypts) std::reverse(keys.begin(), keys.end());
  for (std::size_t round = 0; round < 16; ++round) {
    out[round] = {};
    for (int group = 0; group < 8; ++group) {
      const auto six = static_cast<std::uint32_t>(keys[round] >> (42 - 6 * group) & 63);
      out[round][static_cast<std::size_t>(group % 2)] |= six << (24 - group / 2 * 8);
    }
  }
}
Rounds rounds_of(const std::array<std::uint64_t, 3>& keys) {
  Rounds rounds{};
  const std::span<std::array<std::uint32_t, 2>, 48> all(rounds);
  add_rounds(all.subspan<0, 16>(), keys[0], false);
  add_rounds(all.subspan<16, 16>(), keys[1], true);
  add_rounds(all.subspan<32, 16>(), keys[2], false);
  return rounds;
}

void swap_bits(std::uint32_t& a, std::uint32_t& b, int by, std::uint32_t mask) {
  const std::uint32_t t = (a >> by ^ b) & mask;
  b ^= t;
  a ^= t << by;
}
std::uint64_t encrypt(std::uint64_t block, const Rounds& rounds, const Tables& tables) {
  auto left = static_cast<std::uint32_t>(block >> 32), right = static_cast<std::uint32_t>(block);
  swap_bits(left, right, 4, 0x0f0f0f0f);
  swap_bits(left, right, 16, 0x0000ffff);
  swap_bits(right, left, 2, 0x33333333);
  swap_bits(right, left, 8, 0x00ff00ff);
  swap_bits(left, right, 1, 0x55555555);
  const auto& boxes = tables.boxes;
  for (std::size_t pass = 0; pass < 3; ++pass) {
    for (std::size_t round = 0; round < 16; ++round) {
      const auto& key = rounds[pass * 16 + round];
      const std::uint32_t x = (right >> 3 | right << 29) ^ key[0], y = (right << 1 | right >> 31) ^ key[1];
      const std::uint32_t f = boxes[0][x >> 24 & 63] ^ boxes[2][x >> 16 & 63] ^ boxes[4][x >> 8 & 63] ^
                              boxes[6][x & 63] ^ boxes[1][y >> 24 & 63] ^ boxes[3][y >> 16 & 63] ^
                              boxes[5][y >> 8 & 63] ^ boxes[7][y & 63];
      const std::uint32_t next = left ^ f;
      left = right;
      right = next;
    }
    std::swap(left, right);
  }
  swap_bits(left, right, 1, 0x55555555);
  swap_bits(right, left, 8, 0x00ff00ff);
  swap_bits(right, left, 2, 0x33333333);
  swap_bits(left, right, 16, 0x0000ffff);
  swap_bits(left, right, 4, 0x0f0f0f0f);
  return std::uint64_t{left} << 32 | right;
}

// The example of NIST SP 800-67, appendix B.1: "The qufck brown fox jump"; and of FIPS 46-3, one key thrice.
void check_examples(const Tables& tables) {
  const std::array<std::uint64_t, 3> keys{0x0123456789abcdef, 0x23456789abcdef01, 0x456789abcdef0123};
  const Rounds rounds = rounds_of(keys);
  bool right = encrypt(0x5468652071756663, rounds, tables) == 0xa826fd8ce53b855f &&
               encrypt(0x6b2062726f776e20, rounds, tables) == 0xcce21c8112256fe6 &&
               encrypt(0x666f78206a756d70, rounds, tables) == 0x68d5c05dd9b6b900 &&
               des_by_the_book(0x0123456789abcdef, 0x133457799bbcdff1, false) == 0x85e813540f0ab405;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::array<std::uint64_t, 3> own{hash(20, i), hash(21, i), hash(22, i)};
    const std::uint64_t block = hash(23, i);
    const std::uint64_t expected =
        des_by_the_book(des_by_the_book(des_by_the_book(block, own[0], false), own[1], true), own[2], false);
    right &= encrypt(block, rounds_of(own), tables) == expected;
  }
  if (!right) throw std::runtime_error("3DES does not give the published examples.");
}

class TripleDes : public Kind {
 public:
  TripleDes() {
    kernel = "triple_des";
    check_examples(tables_);
    for (std::size_t flow = 0; flow < kFlows; ++flow)
      flows_.push_back(rounds_of({hash(24, flow), hash(25, flow), hash(26, flow)}));
    constants.resize(kFlows * sizeof(Rounds) + sizeof tables_.boxes);
    std::memcpy(constants.data(), flows_.data(), kFlows * sizeof(Rounds));
    std::memcpy(constants.data() + kFlows * sizeof(Rounds), &tables_.boxes, sizeof tables_.boxes);
  }

  Sizes sizes(int size) const override { return {static_cast<std::size_t>(size), static_cast<std::size_t>(size), 0}; }
  Parameters parameters(const Task& task, const Addresses& at) const override {
    struct {
      std::uint64_t in, out, schedule, boxes;
      std::int32_t blocks, unused;
    } p{at.in,
        at.out,
        at.constants + task.index % kFlows * sizeof(Rounds),
        at.constants + kFlows * sizeof(Rounds),
        task.size / 8,
        0};
    Parameters packed = pack(p);
    packed.size = 36;
    return packed;
  }
  void generate(const Task& task, std::byte* in) const override {
    for (std::size_t i = 0; i < task.bytes.in / 8; ++i) {
      const std::uint64_t draw = hash(27, task.index * std::uint64_t{0x100000} + i);
      std::memcpy(in + 8 * i, &draw, 8);
    }
  }
  void compute(const Task& task, const std::byte* in, std::byte* out) const override {
    const Rounds& rounds = flows_[task.index % kFlows];
    for (std::size_t i = 0; i < task.bytes.in; i += 8) {
      std::uint64_t block = 0;
      std::memcpy(&block, in + i, 8);
      block = __builtin_bswap64(encrypt(__builtin_bswap64(block), rounds, tables_));
      std::memcpy(out + i, &block, 8);
    }
  }

 private:
  const Tables tables_;
  std::vector<Rounds> flows_;
};

}  // namespace

std::unique_ptr<Kind> make_triple_des() {
  return std::make_unique<TripleDes>();
}

}  // namespace narrow
