// What launches and tasks are given, from the C interface's structs to the session's values.
#pragma once

#include <boost/container/small_vector.hpp>

#include "src/capi/guard.h"

namespace pergola::capi {

using Arguments = boost::container::small_vector<session::Argument, 16>;

// kInvalidArgument where no kernel has so many.
Status check_argument_count(std::size_t count);
// Appends to `out`; the texts and bytes that arguments point at stay the caller's. kInvalidArgument names the argument.
Status read_arguments(const pergola_argument* given, std::size_t count, const HandleTable::Reading& handles,
                      Arguments& out);
// Of types and values, which stand for arguments that have nothing else.
Status read_values(const pergola_type* types, const std::uint64_t* values, std::size_t count,
                   const HandleTable::Reading& handles, Arguments& out);

struct LaunchConfig {
  session::LaunchShape shape;
  bool may_be_empty = false;  // a grid of 0 blocks in x is meant
};
Result<LaunchConfig> read_config(const pergola_launch_config* given);

}  // namespace pergola::capi
