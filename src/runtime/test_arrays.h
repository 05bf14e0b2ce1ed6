// For tests of sessions: arrays of 32-bit words, as fixtures that derive from this read and write them. What goes wrong
// is the test's failure.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "src/session/session.h"

namespace pergola::runtime {

struct TestArrays {
  using Words = std::vector<std::uint32_t>;

  static Words read(const session::ArrayPtr& array) {
    Words values(array->count());
    const Status status = array->read(0, std::as_writable_bytes(std::span(values)));
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }
  // The array's host side.
  static std::span<std::uint32_t> host(const session::ArrayPtr& array, session::Access access) {
    auto bytes = array->host(access);
    EXPECT_TRUE(bytes) << bytes.message();
    if (!bytes) return {};
    return {reinterpret_cast<std::uint32_t*>(bytes->data()), bytes->size() / 4};
  }
  static void set(const session::ArrayPtr& array, std::uint32_t value) {
    const auto on_host = host(array, session::Access::kWrite);
    std::fill(on_host.begin(), on_host.end(), value);
  }
  static void fill(const session::ArrayPtr& array, std::uint64_t first, std::uint64_t count, std::uint32_t value) {
    const Status status = array->fill(4 * first, 4 * count, std::as_bytes(std::span(&value, 1)));
    EXPECT_TRUE(status.ok()) << status.message();
  }
  static session::Argument number(std::uint32_t value) { return session::Number{session::ElementType::kU32, value}; }
};

}  // namespace pergola::runtime
