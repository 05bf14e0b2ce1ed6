// What margins around buffers and heap blocks hold: a NaN at every aligned address, as f16, bf16, f32 and f64, and a
// negative number as a signed integer, so that a kernel that reads it computes visible nonsense, the same each time.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace pergola::device::cpu {

// A margin has at most 256 bytes.
void paint_margin(std::span<std::byte> margin);
bool is_whole_margin(std::span<const std::byte> margin);
// "bytes 4 to 7": which of a changed margin are no longer the pattern.
std::string describe_change(std::span<const std::byte> margin);
// "buffer 7 (100 bytes), 0 to 3 bytes past its end", of the margins around `what`; empty where both are whole.
std::string describe_margin_damage(const std::string& what, std::span<const std::byte> before,
                                   std::span<const std::byte> after);

}  // namespace pergola::device::cpu
