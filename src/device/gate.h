// What queues wait for and the host opens: a number that only grows. Work behind Queue::wait_for_gate(gate, n) starts
// once the gate has been opened to n, or further; until then it takes nothing of the device.
//
//   host      open(1) ─────────── open(2)
//   queue A   wait 1 ▸ work          ┊
//   queue B   wait 2 ················┊▸ work
//
// open() makes no call of a driver and takes no lock that queueing holds: whoever opens may be what a thread that is
// inside a driver waits for.
//
// Ordering: what the opening thread has seen or written before open() is seen by the work behind the wait; open() is a
// release, the queue's wait an acquire. Numbers are compared as distances, so they may wrap round.
#pragma once

#include <cstdint>
#include <memory>

namespace pergola::device {

// Thread-safe; one thread at a time opens. Owned by whoever opens it, and by what is queued behind it. It must be
// opened as far as anybody waits for.
class Gate {
 public:
  virtual ~Gate() = default;
  // Smaller than before: nothing.
  virtual void open(std::uint32_t number) = 0;
};
using GatePtr = std::shared_ptr<Gate>;

}  // namespace pergola::device
