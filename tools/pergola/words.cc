#include "tools/pergola/words.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace pergola::tool {
namespace {

// How many letters must be changed, put in or left out to make one word of the other.
std::size_t letters_apart(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t changed = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view word, std::span<const std::string> names) {
  const auto letters = [&](const std::string& name) {
    return word.size() >= 2 && word.size() < name.size() && name.starts_with(word) ? 1 : letters_apart(word, name);
  };
  const auto nearest = std::min_element(
      names.begin(), names.end(), [&](const std::string& a, const std::string& b) { return letters(a) < letters(b); });
  if (nearest == names.end() || 3 * letters(*nearest) > word.size() + 2) return std::nullopt;
  return *nearest;
}

}  // namespace pergola::tool
