// When a session's program has come to its steady state: what recurs has been found, its graphs are made, and all ways
// and forms of them have been tried (docs/scheduling.md). What is tried, and what stays, then is the same for a while.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace bench {

class Steady {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kLookEvery{50}, kForSoLong{2000}, kAtMost{8000};

  // `graphs`() is the session's text of its graphs, asked every kLookEvery. True once it has told of the same ways for
  // kForSoLong, or kAtMost is over since it was asked first; to be asked again and again while the program runs.
  template <typename Graphs>
  bool is_reached(const Graphs& graphs) {
    const Clock::time_point now = Clock::now();
    if (begun_ == Clock::time_point()) begun_ = since_ = now;
    if (now - begun_ > kAtMost) return is_given_up_ = true;
    if (now - looked_ < kLookEvery) return false;
    looked_ = now;
    if (std::string ways = ways_in(graphs()); ways != ways_) {
      ways_ = std::move(ways);
      since_ = now;
    }
    return now - since_ > kForSoLong;
  }

  // How long after it was asked first they last changed; none where they went on changing until kAtMost.
  std::optional<double> changed_for_ms() const {
    if (is_given_up_) return std::nullopt;
    return std::chrono::duration<double, std::milli>(since_ - begun_).count();
  }

  // What making the graphs took, each in its first way, on the thread that makes them: of the session's text.
  static double making_ms(const std::string& text) {
    constexpr std::string_view kMade = ", made in ";
    double us = 0;
    for (std::size_t at = text.find(kMade); at != std::string::npos; at = text.find(kMade, at + 1))
      us += std::strtod(text.c_str() + at + kMade.size(), nullptr);  // 0 of what was not timed
    return us * 1e-3;
  }

  // Names of ways, and of forms of turns, with what has become of them, without times and counts.
  static std::string ways_in(const std::string& text) {
    std::string ways;
    for (std::size_t begin = 0; begin < text.size();) {
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      if (!line.starts_with("    ") && !line.starts_with("  turns as ")) continue;
      ways += line.substr(0, line.find(','));
      for (const char* state : {", kept", ", put back", "still being tried"})
        if (line.find(state) != std::string::npos) ways += state;
      ways += '\n';
    }
    return ways;
  }

 private:
  Clock::time_point begun_{}, looked_{}, since_{};
  bool is_given_up_ = false;
  std::string ways_;
};

}  // namespace bench
