// Keeps the driver's compiler from moving a vote into a branch.
//
// `vote.sync.all.pred p, q, -1;` asks all lanes (ISA 9.7.9.10). Where p is only used inside a branch or a loop, the
// compiler of driver 580 (and ptxas 13.0) computes it there, with the lanes that are there: a wrong answer, or a loop
// that never ends. It leaves `vote.sync.ballot` in place, from which the same answers follow with one comparison more.
#pragma once

#include <string>
#include <string_view>

namespace pergola::device::cuda {

// The text with `vote.sync.{all,any,uni}.pred` written as ballots, guards kept. Every other byte, line numbers
// included, stays.
std::string with_votes_in_place(std::string_view ptx);

}  // namespace pergola::device::cuda
