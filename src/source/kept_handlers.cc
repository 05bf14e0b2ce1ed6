#include "src/source/kept_handlers.h"

#include <dlfcn.h>

#include <chrono>
#include <system_error>

namespace pergola::source {
namespace {

constexpr std::chrono::microseconds kEach{500};

const void* library_of(const void* address) {
  Dl_info found{};
  return dladdr(address, &found) == 0 ? nullptr : found.dli_fbase;
}

}  // namespace

KeptHandlers::KeptHandlers(const void* in_library) : library_(library_of(in_library)) {
  if (library_ == nullptr) return;
  constexpr std::array kSignals = {SIGINT, SIGTERM};
  for (std::size_t n = 0; n < kSignals.size(); ++n) {
    kept_[n].signal = kSignals[n];
    kept_[n].is_known = sigaction(kSignals[n], nullptr, &kept_[n].action) == 0 && !is_of_library(kept_[n].action);
  }
  // Signals are for the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    watcher_ = std::thread([this] { watch(); });
  } catch (const std::system_error&) {  // there are too many; it compiles all the same
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

KeptHandlers::~KeptHandlers() {
  if (!watcher_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  watcher_.join();
  look();  // of two that compile beside each other one may have set back the other's
}

bool KeptHandlers::is_of_library(const struct sigaction& action) const {
  if ((action.sa_flags & SA_SIGINFO) == 0 && (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN))
    return false;
  const void* const handler = (action.sa_flags & SA_SIGINFO) != 0 ? reinterpret_cast<const void*>(action.sa_sigaction)
                                                                  : reinterpret_cast<const void*>(action.sa_handler);
  return library_of(handler) == library_;
}

void KeptHandlers::look() {
  for (const Kept& kept : kept_) {
    struct sigaction now{};
    if (kept.is_known && sigaction(kept.signal, nullptr, &now) == 0 && is_of_library(now))
      sigaction(kept.signal, &kept.action, nullptr);
  }
}

void KeptHandlers::watch() {
  std::unique_lock lock(mutex_);
  while (!over_.wait_for(lock, kEach, [this] { return is_over_; })) look();
}

}  // namespace pergola::source
