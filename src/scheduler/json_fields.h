// Reading JSON that anybody may have written: every field is checked, and the first that is wrong is named.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "src/base/result.h"
#include "src/device/types.h"

namespace pergola::scheduler {

// `what`: "'run.json'", for messages.
inline Result<nlohmann::ordered_json> parse_json(std::string_view text, std::string_view what) {
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_discarded()) return json;
  std::size_t at = text.size() + 1;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& error) {
    at = error.byte;
  } catch (const Json::out_of_range&) {
    return PERGOLA_ERROR(kParseError, "{} has a number beyond those of double precision.", what);
  } catch (const Json::exception&) {
    return PERGOLA_ERROR(kParseError, "{} is no JSON.", what);
  }
  if (at > text.size()) return PERGOLA_ERROR(kParseError, "{} is no JSON: it ends too early.", what);
  const std::string_view before = text.substr(0, at == 0 ? 0 : at - 1);
  const std::size_t begin = before.rfind('\n') + 1;  // 0 where there is none
  return PERGOLA_ERROR(kParseError, "{} is no JSON: line {}, column {} cannot be read.", what,
                       std::count(before.begin(), before.end(), '\n') + 1, before.size() - begin + 1);
}

// Reads the fields of one object; the first that is missing or of the wrong kind is kept as the error.
class Fields {
 public:
  using Json = nlohmann::ordered_json;

  Fields(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) fail("is no object");
  }
  const Status& status() const { return status_; }
  bool has(const char* name) const { return object_.is_object() && object_.contains(name); }
  const Json& at(const char* name) {
    static const Json none;
    if (has(name)) return object_.at(name);
    fail(fmt::format("has no '{}'", name));
    return none;
  }
  std::string text(const char* name) {
    const Json& value = at(name);
    if (value.is_string()) return value.get<std::string>();
    fail(fmt::format("has a '{}' that is no text", name));
    return {};
  }
  std::uint64_t count(const char* name, std::uint64_t most = ~std::uint64_t{0}) { return count(at(name), name, most); }
  std::uint64_t count(const Json& value, const char* name, std::uint64_t most) {
    if (value.is_number_unsigned() && value.get<std::uint64_t>() <= most) return value.get<std::uint64_t>();
    fail(fmt::format("has a '{}' that is no count from 0 to {}", name, most));
    return 0;
  }
  // Microseconds in the file.
  double time_ns(const char* name) {
    constexpr double kMostUs = 1e15;  // thirty years
    const Json& value = at(name);
    if (value.is_number() && std::abs(value.get<double>()) <= kMostUs) return value.get<double>() * 1e3;
    fail(fmt::format("has a '{}' that is no time in microseconds", name));
    return 0;
  }
  double number(const char* name) {
    const Json& value = at(name);
    if (value.is_number()) return value.get<double>();
    fail(fmt::format("has a '{}' that is no number", name));
    return 0;
  }
  bool flag(const char* name) {
    const Json& value = at(name);
    if (value.is_boolean()) return value.get<bool>();
    fail(fmt::format("has a '{}' that is neither true nor false", name));
    return false;
  }
  device::Dim3 dim3(const char* name) {
    const Json& value = at(name);
    if (!value.is_array() || value.size() != 3) {
      fail(fmt::format("has a '{}' that is not three counts", name));
      return {};
    }
    const auto one = [&](std::size_t i) { return static_cast<std::uint32_t>(count(value[i], name, 0xffffffffu)); };
    return {one(0), one(1), one(2)};
  }
  template <typename Enum, std::size_t n>
  Enum word(const char* name, const std::array<Enum, n>& known) {
    const std::string given = text(name);
    for (const Enum each : known)
      if (to_string(each) == given) return each;
    fail(fmt::format("has a '{}' that is unknown: '{}'", name, given));
    return known[0];
  }
  void fail(const std::string& what) {
    if (status_.ok()) status_ = PERGOLA_ERROR(kParseError, "{} {}.", where_, what);
  }
  const std::string& where() const { return where_; }

 private:
  const Json& object_;
  const std::string where_;
  Status status_;
};

}  // namespace pergola::scheduler
