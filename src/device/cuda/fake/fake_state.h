// The fake driver's state: what may fail, and streams that run host functions in order, each on a thread.
//
// Memory is the host's. Nothing here is kind: freed memory is really freed while work is in flight, a copy to the
// device must come from page-locked memory, a stream's work runs late. So a mistake in the CUDA device is seen by the
// sanitizers.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "src/device/cuda/cuda_driver_types.h"

#define FAKE extern "C" __attribute__((visibility("default"))) CUresult
#define ENTER(name) \
  if (const CUresult entered = fake().enter(name); entered != CUDA_SUCCESS) return entered

namespace pergola::device::cuda {

inline void* host(CUdeviceptr address) {
  return reinterpret_cast<void*>(address);
}

// One recording of an event: done once the stream has come to it.
struct Mark {
  int stream = -1;
  bool done = false;
  std::chrono::steady_clock::time_point when;
};

// Managed memory, and who sees it where access is not concurrent: the host, or one stream.
struct Managed {
  std::size_t bytes = 0;
  char name = 'a';
  CUstream seen_by = nullptr;  // null: the host
};

struct FakeState {
  struct Failure {
    int skip = 0;  // calls to let through
    int result = 0;
    bool is_last = false;  // every call after it fails with it, too
    int times = 1;         // calls, one after the other
  };
  std::mutex mutex;  // guards all below but `sticky`
  std::condition_variable changed;
  std::map<std::string, Failure> failures;  // by function
  std::map<std::string, int> calls;
  int strays = 0;  // calls refused as their thread had no context
  std::map<const void*, std::size_t> pinned;
  bool held = false;
  std::set<const CUstream_st*> streams;  // that live
  int busy_streams = 0;
  std::int64_t version = 13000, devices = 1, memory_bytes = std::int64_t{1} << 30, used_bytes = 0;
  std::int64_t has_managed = 1, is_concurrent = 1;
  std::map<CUdeviceptr, Managed> managed;
  int managed_made = 0, streams_made = 0;
  std::string log;
  std::map<CUdeviceptr, std::size_t> allocations;
  std::int64_t has_virtual = 0;                               // memory management (fake_pages.cc)
  std::map<CUdeviceptr, std::size_t> reserved, mapped;        // bytes, by address
  std::map<CUmemGenericAllocationHandle, std::size_t> pages;  // bytes, of handles that are not released
  std::map<std::string, int> alive;  // of what is counted alone, by its kind
  std::atomic<int> sticky{0};        // written by streams, read by every call

  // Counts a call; its result where it is to fail, or the sticky error.
  CUresult enter(const char* function);
  // The same of what tells of errors, and so works after one.
  CUresult enter_always(const char* function);
  // One more of that kind is there, or one less.
  void count(const char* kind, int change);
  // Adds a line to the log.
  void note(const std::string& line);
  // On `stream`, as it comes to it: uses what is at `address`. Managed memory that the stream does not see is an
  // illegal address (false).
  bool use(CUdeviceptr address, CUstream stream);
  // After a sticky error queued work is dropped; what runs already is let end before memory goes.
  void settle_if_lost();
};
FakeState& fake();
// Whether the calling thread has a context.
void set_has_context(bool has);

// The driver's opaque handles.
struct CUevent_st {
  std::shared_ptr<Mark> mark;  // of the last recording; null: never recorded
  bool has_time = false;
};
struct CUstream_st {
  // As many pieces may wait in a stream as on an H200 with driver 580; who queues the next is held back until one has
  // begun. Records of events without times, and waits for events, take no place there.
  static constexpr int kMostWaiting = 1021;
  enum class Kind {
    kWork,
    kWait,  // for an event
    kMark,  // an event's; made on a lost device too
    kTimedMark,
  };
  static bool takes_place(Kind kind) { return kind == Kind::kWork || kind == Kind::kTimedMark; }
  static bool is_mark(Kind kind) { return kind == Kind::kMark || kind == Kind::kTimedMark; }

  CUstream_st();
  ~CUstream_st();  // after all its work
  void push(std::function<void()> work, Kind kind = Kind::kWork);
  void drain();

  struct Piece {
    std::function<void()> run;
    Kind kind = Kind::kWork;
  };
  std::deque<Piece> work;  // guarded by fake().mutex, as the three below
  int waiting = 0;         // of those, the ones that take a place
  bool busy = false, ending = false;
  int number = 0;
  std::thread thread;
};
struct CUfunc_st {
  std::string name;
  const std::string* text = nullptr;  // of its module
  int dynamic_shared_bytes = 48 << 10;
};
struct CUmod_st {
  std::string text;
  std::map<std::string, CUfunc_st> functions;
  std::map<std::string, std::vector<std::byte>> globals;
};

}  // namespace pergola::device::cuda
