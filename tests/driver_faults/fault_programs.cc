#include "tests/driver_faults/fault_programs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "src/session/session.h"
#include "tests/driver_faults/fault_trial.h"

namespace pergola::driver_faults {
namespace {

using session::Location;

// Nothing but what every program does first and last.
void only_open(Trial&) {}

// Launches that depend on each other and that do not, on several streams at once.
void launch_on_streams(Trial& t) {
  std::array<Trial::Index, 6> x;
  for (std::uint32_t i = 0; i < x.size(); ++i) {
    x[i] = t.array();
    i % 2 == 0 ? t.write(x[i], i + 1) : t.set(x[i], i + 1);
  }
  for (int round = 0; round < 2; ++round) {
    t.hold();
    t.add_one(x[0]);
    t.add_one(x[1]);
    t.add_one(x[4]);
    t.add(x[0], x[2]);
    t.add(x[1], x[2]);
    t.add(x[1], x[3]);
    t.add(x[4], x[5]);
    t.add(x[2], x[3]);
    t.fill(x[4], 0x01020304);
    t.add(x[5], x[3]);
    t.copy(x[1], x[5]);
    t.write(x[2], 20);  // while what uses them is under way, after which it has to come
    t.fill(x[1], 30);
    t.add(x[1], x[2]);
    t.add(x[2], x[0]);
    t.go();
    t.read(x[3]);
    t.read_host(x[2]);
    t.view(x[5]);
    t.write(x[3], 40);
    t.add(x[2], x[3]);
    t.read(x[3]);
    t.add_one_with_event(x[0]);
    t.hold();
    t.add_one(x[0]);
    t.drop(x[0]);
    t.go();
    x[0] = t.array();
    t.write(x[0], 7);
    t.await(x[1]);
    t.read(x[1]);
    t.read(x[4]);
  }
  t.synchronize();
  for (const Trial::Index each : x) t.read(each);
}

// So many launches of one stream that what they use is looked after while they go on.
void launch_many(Trial& t) {
  const Trial::Index x = t.array(), y = t.array();
  t.write(x, 1);
  t.write(y, 0);
  for (int i = 0; i < 150; ++i) i % 3 == 0 ? t.add(x, y) : t.add_one(i % 3 == 1 ? x : y);
  t.read(y);
  t.read(x);
}

// z = x + 2 y and one more in so many words, with the arrays written and read by the host; a few words or many.
void cold_turns(Trial& t, std::uint32_t words, int turns) {
  const Trial::Index x = t.array(words), y = t.array(words), z = t.array(words);
  for (int i = 0; i < turns; ++i) {
    const auto value = static_cast<std::uint32_t>(i);
    t.set(x, value);
    t.set(z, 0);
    t.add(x, z);
    t.set(y, value + 1);
    t.add(y, z);
    t.add_one(z, 1 + value % 5);
    t.add(y, z);
    t.read_host(z);
    t.settle_graphs();
  }
  t.synchronize();
}

void turns_with_copies(Trial& t) {
  cold_turns(t, Trial::kWords, 40);
}
void turns_with_large_copies(Trial& t) {
  cold_turns(t, 32'768, 20);
}

// Launches alone, which recur until a graph stands for them, with scalars that vary; others come in between.
void turns_of_launches(Trial& t) {
  const Trial::Index x = t.array(), y = t.array(), z = t.array();
  for (const Trial::Index each : {x, y, z}) t.write(each, 1);
  for (std::uint32_t i = 0; i < 60; ++i) {
    t.add_one(x, 1 + i % 7);
    t.add(x, y);
    t.add_one(y, 2 + i % 3);
    t.add_one(z);
    t.add(z, y);
    t.settle_graphs();
    if (i < 40 || i % 6 != 0) continue;
    t.read(y);
    if (i == 42) t.write(x, 5);
    if (i == 48) t.copy(z, x);
  }
  for (const Trial::Index each : {x, y, z}) t.read(each);
}

// Arrays that are on the host and on the device by turns.
void mirror(Trial& t) {
  const Trial::Index x = t.array(), y = t.array(), z = t.array();
  t.set(x, 2);
  t.prefetch(x, Location::kDevice);
  t.fill(y, 0x01010101);
  t.fill(z, 0x00020002);
  t.prefetch(y, Location::kHost);
  t.read_host(y);
  t.change(z, 3);
  t.add(x, z);
  t.add(y, z);
  t.change(z, 1);
  t.change(x, 4);
  t.copy(y, x);
  t.read_host(y);
  t.add(z, y);
  t.prefetch(y, Location::kHost);
  t.set(x, 1);
  t.read_host(y);
  t.view(z);
  t.change(z, 1);
  t.read(z);
  t.set(y, 6);
  t.drop(y);
  t.read(x);
  t.synchronize();
}

// More bytes from the host than are on their way at once.
void upload_much(Trial& t) {
  constexpr std::uint32_t kLarge = 700 << 10;
  const Trial::Index x = t.array(kLarge), y = t.array(kLarge / 4);
  t.write(x, 5);
  t.write(y, 1);
  t.write(x, 6, 100, kLarge / 2);
  t.write(y, 2);
  t.read(x);
  t.read(y);
}

void manage(Trial& t) {
  const Trial::Index x = t.array(), y = t.array(20 << 10), z = t.array(20 << 10), w = t.array();
  t.set(x, 2);
  t.set(y, 3);
  t.write(z, 4);
  t.set(w, 1);
  t.hold();
  t.add_one(y);
  t.add(x, w);
  t.add(y, z);
  t.go();
  t.read_host(z);
  t.change(w, 2);
  t.prefetch(z, Location::kDevice);
  t.add_one(z);
  t.prefetch(z, Location::kHost);
  t.read_host(z);
  t.add(x, w);
  t.copy(x, w);
  t.fill(y, 9);
  t.read(y);
  t.view(x);
  t.read(w);
  t.drop(z);
  t.synchronize();
}

void manage_turns(Trial& t) {
  const Trial::Index x = t.array(), y = t.array();
  for (std::uint32_t i = 0; i < 50; ++i) {
    if (i % 5 == 0) t.set(x, i);
    if (i == 0) t.set(y, 1);
    t.add(x, y);
    t.add_one(y);
    t.add_one(x);
    t.settle_graphs();
    if (i % 5 == 4) t.read_host(y);
  }
  t.read(y);
}

void load_and_unload(Trial& t) {
  const Trial::Index x = t.array();
  t.write(x, 3);
  for (int i = 0; i < 2 && t.session() != nullptr; ++i) {
    if (!t.begin("load another module")) return;
    auto module = t.session()->load_text(kFaultPtx, {.name = "other.ptx"});
    if (!t.heard(module.status())) continue;
    auto kernel = (*module)->kernel("add_one");
    if (!t.heard(kernel.status()) || t.at(x) == nullptr) continue;
    t.begin("launch of another module");
    if (!t.heard((*kernel)->launch({.grid = {1, 1, 1}, .block = {32, 1, 1}},
                                   std::vector<session::Argument>{session::ArrayArgument{t.at(x), 0},
                                                                  session::Number{session::ElementType::kU32, 0}})))
      continue;
    t.add_one(x);
    t.begin("unload");
  }
  t.read(x);
}

void sample_textures(Trial& t) {
  const Trial::Index x = t.array();
  t.write(x, 3);
  for (const bool fetched : {false, true}) {
    if (t.at(x) == nullptr || !t.begin(fetched ? "make a texture to fetch from" : "make a texture")) return;
    const auto texture = t.at(x)->create_texture({.dimensions = fetched ? 1u : 2u,
                                                  .width = 16,
                                                  .height = fetched ? 1u : 4u,
                                                  .type = device::ChannelType::kU32,
                                                  .fetched = fetched});
    t.heard(texture.status());
    t.add_one(x);
    t.begin("drop the texture");
  }
  t.read(x);
}

// Streams of other libraries, calls of them, and events.
void meet_others(Trial& t) {
  const Trial::Index x = t.array(), y = t.array();
  t.write(x, 3);
  t.write(y, 4);
  if (t.at(x) == nullptr || t.at(y) == nullptr) return;
  t.add_one(x);
  for (int round = 0; round < 2; ++round) {
    for (const bool synchronous : {false, true}) {
      t.begin("call a library");
      const session::CallAccess accesses[] = {{t.at(x), 0, 0, session::Access::kRead},
                                              {t.at(y), 0, 0, session::Access::kReadWrite}};
      bool was_called = false;
      const bool well =
          t.heard(t.session()->call("nothing", accesses, synchronous, [&](void*) { return was_called = true, 0; }));
      if (well && !was_called) t.problem("a library call went well, and was not made");
      t.add(x, y);
    }
    t.begin("wait for another library's stream");
    t.heard(t.session()->wait_stream(1));
    t.add_one(y);
    t.begin("make another library's stream wait");
    t.heard(t.session()->make_stream_wait(2));
    t.begin("record");
    const auto event = t.session()->record();
    if (t.heard(event.status())) t.heard((*event)->wait());
    t.begin("adopt");
    const auto owner = std::make_shared<std::vector<std::uint32_t>>(Trial::kWords, 5);
    const auto adopted =
        t.session()->adopt(session::ElementType::kU32, 4, Trial::kWords,
                           {.address = reinterpret_cast<std::uintptr_t>(owner->data()), .stream = 1, .owner = owner});
    if (t.heard(adopted.status())) {
      std::vector<std::uint32_t> words(Trial::kWords);
      t.begin("read what was adopted");
      if (t.heard((*adopted)->read(0, std::as_writable_bytes(std::span(words)))) && words != *owner)
        t.problem("another library's memory is read wrong, and nobody was told");
    }
  }
  t.read(y);
}

// Recorded, with the events that this takes.
void trace(Trial& t) {
  const std::string file =
      fmt::format("{}/pergola-faults-{}.json", std::filesystem::temp_directory_path().string(), getpid());
  if (!t.begin("begin a trace")) return;
  t.heard(t.session()->trace(file));
  const Trial::Index x = t.array(), y = t.array();
  t.set(x, 1);
  t.write(y, 2);
  for (int i = 0; i < 6; ++i) {
    t.add(x, y);
    t.add_one(x);
  }
  t.read_host(y);
  if (!t.begin("end the trace")) return;
  t.heard(t.session()->trace(std::nullopt));
  t.read(x);
  std::filesystem::remove(file);
}

constexpr Program kPrograms[] = {
    {"Opening", "graphs=off,blocks=off", only_open},
    {"LaunchesOnStreams", "graphs=off,blocks=off", launch_on_streams},
    {"LaunchesOnTwoStreams", "graphs=off,blocks=off,max-streams=2,fork-cost=0", launch_on_streams},
    {"LaunchesInSync", "graphs=off,blocks=off,execution=sync", launch_many},
    {"ManyLaunches", "graphs=off,blocks=off", launch_many},
    {"TurnsOfLaunches", "graphs=always,blocks=off", turns_of_launches},
    {"TurnsThatLead", "graphs=always,blocks=off,turns=leads", turns_with_copies},
    {"TurnsAsAWhole", "graphs=always,blocks=off,turns=whole", turns_with_copies},
    {"LargeTurnsThatLead", "graphs=always,blocks=off,turns=leads", turns_with_large_copies},
    {"Mirrors", "graphs=off,blocks=off", mirror},
    {"Uploads", "graphs=off,blocks=off", upload_much},
    {"ManagedConcurrent", "memory=managed,graphs=off,blocks=off", manage},
    {"ManagedRestricted", "memory=managed,graphs=off,blocks=off", manage, false},
    {"ManagedTurns", "memory=managed,graphs=always,blocks=off", manage_turns},
    {"Trace", "graphs=always,blocks=off", trace},
    {"Modules", "graphs=off,blocks=off", load_and_unload},
    {"Textures", "graphs=off,blocks=off", sample_textures},
    {"OtherLibraries", "graphs=off,blocks=off", meet_others},
    {"DeviceAlone", nullptr, use_device},
    {"DeviceGraphs", nullptr, use_device_graphs},
    {"DeviceGraphsInTwoCalls", nullptr, use_device_graphs, true, false},
};

}  // namespace

std::span<const Program> programs() {
  return kPrograms;
}

}  // namespace pergola::driver_faults
