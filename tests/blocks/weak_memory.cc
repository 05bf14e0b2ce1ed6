#include "tests/blocks/weak_memory.h"

#include <bit>
#include <ranges>

namespace pergola::early_test {

using ptx::Mod;
using ptx::Op;

namespace {

constexpr std::uint16_t kStoresNow = 0xffff;  // no lane

// Not 0.
std::uint16_t lane_of(std::uint32_t warp, std::uint32_t lane) {
  return static_cast<std::uint16_t>(1 + warp * 32 + lane);
}
std::uint16_t any_of(std::uint32_t warp) {
  return static_cast<std::uint16_t>(0x8000 + warp);
}
bool is_of(std::uint16_t storer, std::uint32_t warp, std::uint32_t lanes) {
  const std::uint32_t thread = storer - 1u;
  return storer < 0x8000 && thread / 32 == warp && (lanes >> thread % 32 & 1) != 0;
}

}  // namespace

SharedMemory::SharedMemory(const std::vector<device::BufferPtr>& buffers) {
  for (const device::BufferPtr& buffer : buffers) {
    parts_.emplace_back(static_cast<std::byte*>(buffer->host_pointer()), buffer->size_bytes());
    size_ += buffer->size_bytes();
  }
}

std::vector<std::byte> SharedMemory::contents() const {
  std::vector<std::byte> all;
  for (const std::span<std::byte> part : parts_) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::size_t SharedMemory::place_of(std::uintptr_t address) const {
  std::size_t before = 0;
  for (const std::span<std::byte> part : parts_) {
    const auto begin = reinterpret_cast<std::uintptr_t>(part.data());
    if (address >= begin && address - begin < part.size()) return before + (address - begin);
    before += part.size();
  }
  return kOutside;
}

std::byte* SharedMemory::at(std::size_t place) const {
  for (const std::span<std::byte> part : parts_) {
    if (place < part.size()) return part.data() + place;
    place -= part.size();
  }
  return nullptr;
}

BlockMemory::BlockMemory(const SharedMemory& memory, bool is_weak) : memory_(&memory), is_weak_(is_weak) {
  if (!is_weak) return;
  begun_ = view_ = memory.contents();
  storer_.resize(begun_.size());
}

void BlockMemory::issued(std::uint32_t warp, std::uint32_t lanes, const ptx::Instruction* instruction) {
  settle();
  told_ = false;
  warp_ = warp, lanes_left_ = lanes;
  kind_ = Kind::kNone;
  if (instruction == nullptr) return;
  if (!is_weak_) {
    told_ = instruction->op == Op::kSt || instruction->op == Op::kAtom || instruction->op == Op::kRed;
    return;
  }
  const bool is_strong = instruction->has(Mod::kVolatile) || instruction->has(Mod::kRelaxed) ||
                         instruction->has(Mod::kAcquire) || instruction->has(Mod::kRelease);
  switch (instruction->op) {
    case Op::kLd:
      kind_ = is_strong ? Kind::kStrongLoad : instruction->has(Mod::kNc) ? Kind::kConstantLoad : Kind::kWeakLoad;
      acquires_ = instruction->has(Mod::kAcquire);
      break;
    case Op::kSt: kind_ = is_strong ? Kind::kDirect : Kind::kWeakStore; break;
    case Op::kFence:
    case Op::kMembar:
      publish_of(warp, lanes);
      acquire();
      break;
    case Op::kBar:
    case Op::kBarrier: order(warp, lanes); break;
    default: kind_ = Kind::kDirect;
  }
  if (instruction->has(Mod::kRelease) || instruction->has(Mod::kAcqRel)) publish_of(warp, lanes);
}

void BlockMemory::accessed(std::uintptr_t address, std::uint32_t size_bytes) {
  if (!is_weak_) return;
  const auto lane = static_cast<std::uint32_t>(std::countr_zero(lanes_left_));
  lanes_left_ &= lanes_left_ - 1;
  const std::size_t first = memory_->place_of(address);
  if (first == SharedMemory::kOutside) return;
  for (std::size_t place = first; place < first + size_bytes; ++place) {
    std::byte* const byte = memory_->at(place);
    if (kind_ == Kind::kDirect) {
      publish(place);
      touched_.push_back(place);
      continue;
    }
    if (kind_ == Kind::kStrongLoad && storer_[place] == 0) continue;
    aside_.push_back({place, *byte, lane_of(warp_, lane)});
    if (kind_ != Kind::kWeakStore) *byte = kind_ == Kind::kConstantLoad ? begun_[place] : view_[place];
  }
}

void BlockMemory::settle() {
  for (const Aside& aside : std::views::reverse(aside_)) {
    std::byte* const byte = memory_->at(aside.place);
    if (kind_ == Kind::kWeakStore && storer_[aside.place] != kStoresNow) {  // of several to a place the last one
      view_[aside.place] = *byte;
      if (storer_[aside.place] == 0) stored_.push_back(aside.place);
      storer_[aside.place] = kStoresNow;
    }
    *byte = aside.value;
  }
  for (const Aside& aside : aside_)
    if (kind_ == Kind::kWeakStore) storer_[aside.place] = aside.storer;
  aside_.clear();
  for (const std::size_t place : touched_) {
    view_[place] = *memory_->at(place);
    told_ = true;
  }
  touched_.clear();
  if (acquires_) acquire();
  acquires_ = false;
}

void BlockMemory::acquire() {
  if (!is_weak_) return;
  std::vector<std::byte> seen = memory_->contents();
  for (const std::size_t place : stored_)
    if (storer_[place] != 0) seen[place] = view_[place];
  view_ = std::move(seen);
}

void BlockMemory::publish() {
  for (const std::size_t place : stored_) publish(place);
  stored_.clear();
}

void BlockMemory::publish_of(std::uint32_t warp, std::uint32_t lanes) {
  std::erase_if(stored_, [&](std::size_t place) {
    if (storer_[place] == any_of(warp) || is_of(storer_[place], warp, lanes)) publish(place);
    return storer_[place] == 0;
  });
}

// A barrier: whoever of the warp fences behind it does so for all that were there.
void BlockMemory::order(std::uint32_t warp, std::uint32_t lanes) {
  for (const std::size_t place : stored_)
    if (is_of(storer_[place], warp, lanes)) storer_[place] = any_of(warp);
}

void BlockMemory::publish(std::size_t place) {
  if (storer_[place] == 0) return;
  *memory_->at(place) = view_[place];
  storer_[place] = 0;
}

}  // namespace pergola::early_test
