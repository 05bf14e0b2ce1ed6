// Memory as badly as PTX allows blocks to see it (PTX ISA 8, memory consistency model), for blocks that the interpreter
// runs one instruction at a time on one thread.
//
//   weak store    stays with its block, unseen by others, until a fence of the lane that made it, or of another of its
//                 warp behind a barrier of both, or the launch's end
//   weak load     sees memory as it was when its block last acquired (ld.acquire, fence, griddepcontrol.wait) or began,
//                 and what its own block has stored since
//   ld.global.nc  sees memory as it was when its block began
//   other loads, stores, atomics: memory itself, at once
//
//   issued()     what kind of instruction follows
//   accessed()   before an access: memory's bytes are put aside, the block's view is put there
//   settle()     after the instruction: what it stored goes to the view, and memory's bytes go back
//
// It is too kind in two ways: threads of a block see each other's stores at once, and an acquiring load acquires for
// the whole block. Both are what barriers of the block give.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/device/device.h"
#include "src/ptx/instruction.h"

namespace pergola::early_test {

// What all blocks share. The buffers must outlive it.
class SharedMemory {
 public:
  explicit SharedMemory(const std::vector<device::BufferPtr>& buffers);
  static constexpr std::size_t kOutside = ~std::size_t{0};

  std::size_t size() const { return size_; }
  // Of all buffers, one behind the other.
  std::vector<std::byte> contents() const;
  // Where an address is in that; kOutside where it is in no buffer.
  std::size_t place_of(std::uintptr_t address) const;
  std::byte* at(std::size_t place) const;

 private:
  std::vector<std::span<std::byte>> parts_;
  std::size_t size_ = 0;
};

class BlockMemory {
 public:
  // A block begins now. `memory` must outlive it. Not weak: all is memory itself, at once, which shows what is
  // overwritten too soon, where a weak block goes on seeing what was there.
  BlockMemory(const SharedMemory& memory, bool is_weak);

  // `lanes` of a warp, that access memory in this order, each at most once; null: it is nothing that matters here.
  void issued(std::uint32_t warp, std::uint32_t lanes, const ptx::Instruction* instruction);
  void accessed(std::uintptr_t address, std::uint32_t size_bytes);
  void settle();
  void acquire();  // from now on it sees what is in memory
  void publish();  // all that it stored is in memory
  // An instruction, settled, has changed what others may see.
  bool has_told() const { return told_; }

 private:
  enum class Kind : std::uint8_t { kNone, kWeakLoad, kConstantLoad, kStrongLoad, kWeakStore, kDirect };
  struct Aside {
    std::size_t place = 0;
    std::byte value{};
    std::uint16_t storer = 0;
  };
  void publish(std::size_t place);
  void publish_of(std::uint32_t warp, std::uint32_t lanes);
  void order(std::uint32_t warp, std::uint32_t lanes);

  const SharedMemory* memory_;
  bool is_weak_;
  std::vector<std::byte> begun_, view_;
  // By place: whose store is not in memory yet: a lane's, or any of its warp's behind a barrier; 0: nobody's.
  std::vector<std::uint16_t> storer_;
  std::vector<std::size_t> stored_;   // places where that was set
  std::vector<Aside> aside_;          // of the current instruction, in the order of its accesses
  std::vector<std::size_t> touched_;  // by it, where memory keeps what it did
  Kind kind_ = Kind::kNone;
  std::uint32_t warp_ = 0, lanes_left_ = 0;
  bool acquires_ = false, told_ = false;
};

}  // namespace pergola::early_test
