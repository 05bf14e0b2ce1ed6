#include "tests/driver_faults/fault_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "src/device/cuda/cuda_device.h"
#include "src/runtime/fake_driver.h"

namespace pergola::driver_faults {

using runtime::control;
using session::Access;
using session::ArrayArgument;

const std::string kFaultPtx = runtime::kAddPtx + R"(.global .u32 counter;
.visible .entry add_one(.param .u64 data, .param .u32 count) {
  .reg .b64 %a;
  .reg .b32 %r<2>;
  .reg .pred %p;
  ld.param.u64 %a, [data];
  ld.param.u32 %r1, [count];
  setp.eq.u32 %p, %r1, 0;
  @%p ret;
  ld.global.u32 %r0, [%a];
  st.global.u32 [%a], %r0;
  ret;
}
)";

void write_text(std::span<char> place, std::string_view text) {
  const std::size_t size = std::min(text.size(), place.size() - 1);
  std::memcpy(place.data(), text.data(), size);
  place[size] = '\0';
}

void add_line(std::span<char> place, std::string_view line) {
  const std::size_t used = std::strlen(place.data());
  write_text(place.subspan(used), fmt::format("{}\n", line));
}

namespace {

session::Argument number(std::uint32_t value) {
  return session::Number{session::ElementType::kU32, value};
}

std::span<std::uint32_t> words_of(std::span<std::byte> bytes) {
  return {reinterpret_cast<std::uint32_t*>(bytes.data()), bytes.size() / 4};
}

}  // namespace

Trial::Trial(const Program& program, const std::optional<Fault>& fault, Report& report)
    : program_(program), fault_(fault), report_(report) {}

Trial::~Trial() {
  control().go();
  close();
}

void Trial::close() {
  begin("close");
  arrays_.clear();
  module_ = nullptr;
  session_ = nullptr;
  device_ = nullptr;
}

bool Trial::begin(std::string_view step) {
  write_text(report_.step, step);
  return device_ != nullptr && (session_ != nullptr || program_.policy == nullptr);
}

void Trial::problem(std::string_view what) {
  add_line(report_.problems, fmt::format("in step '{}': {}", report_.step, what));
}

bool Trial::is_lost() const {
  return fault_ && fault_->is_lost && control().calls(fault_->function.c_str()) > fault_->skip;
}

bool Trial::heard(const Status& status) {
  if (is_well(status)) return true;
  for (Known& each : arrays_) each.in_doubt = true;
  return false;
}

bool Trial::heard(const Status& status, Index doubted) {
  if (is_well(status)) return true;
  doubt(doubted);
  return false;
}

bool Trial::is_well(const Status& status) {
  if (status.ok()) return true;
  check_message(status);
  if (report_.errors_told++ == 0) write_text(report_.told, fmt::format("{}: {}", report_.step, status.message()));
  return false;
}

// What the driver said, by its name for it, and after what was being done.
void Trial::check_message(const Status& status) {
  const std::string& message = status.message();
  if (!fault_ || control().calls(fault_->function.c_str()) <= fault_->skip)
    problem(fmt::format("an error where no call has failed: {}", message));
  const std::size_t said = message.find(fault_ && fault_->also_describing ? "unknown CUDA error (" : "FAKE_ERROR (");
  if (said == std::string::npos || said < 10)
    problem(fmt::format("an error that does not say what was done, or what the driver said: '{}'", message));
}

bool Trial::open_device() {
  begin("open the device");
  auto device =
      device::create_cuda_device(0, {.driver_library = PERGOLA_FAKE_CUDA, .end_grace = std::chrono::milliseconds(100)});
  if (!heard(device.status())) return false;
  device_ = std::move(device).value();
  return true;
}

bool Trial::open() {
  if (device_ == nullptr && !open_device()) return false;
  if (program_.policy == nullptr) return true;
  if (session_ == nullptr) {
    begin("open a session");
    auto session = runtime::LocalSession::create(device_, program_.policy);
    if (!heard(session.status())) return false;
    session_ = std::move(session).value();
    session_->scheduler().set_graph_patience(std::chrono::hours(1));
  }
  if (module_ == nullptr) {
    begin("load");
    auto module = session_->load_text(kFaultPtx, {.name = "fault.ptx"});
    if (!heard(module.status())) return false;
    module_ = std::move(module).value();
  }
  return true;
}

void Trial::run() {
  const bool opened = open();
  write_text(report_.opening, control().all_calls());
  if (opened) program_.run(*this);
  control().go();
  look_after();
}

// One call has failed: of three attempts one may meet it, and one may be told of it. On a device that is lost each
// must be told.
void Trial::look_after() {
  constexpr unsigned kAttempts = 3;
  for (unsigned attempt = 0; attempt < kAttempts; ++attempt) {
    const bool was_lost = is_lost();
    const unsigned told = report_.errors_told;
    const bool works = works_again(attempt);
    if (was_lost && report_.errors_told == told) problem("the device is lost, and nothing tells so");
    if (was_lost || works) return;
  }
  problem(
      fmt::format("nothing works any more, {} attempts after one call has failed; told: {}", kAttempts, report_.told));
}

bool Trial::works_again(unsigned attempt) {
  const unsigned told = report_.errors_told;
  if (!open()) return false;
  if (session_ == nullptr) {
    begin("allocate again");
    heard(device_->allocate(256, device::MemoryKind::kDevice).status());
    begin("make a queue again");
    heard(device_->create_queue().status());
    return report_.errors_told == told;
  }
  if (attempt != 0) synchronize();
  const unsigned told_before = report_.errors_told;
  const Index x = array(), y = array();
  write(x, 3 + attempt);
  set(y, 4);
  add(x, y);
  add_one(y);
  read(y);
  read_host(x);
  synchronize();
  return report_.errors_told == told_before;
}

// ── Arrays ──────────────────────────────────────────────────────────────────────────────────────────────────────────

Trial::Index Trial::array(std::uint32_t words) {
  arrays_.push_back({nullptr, std::vector<std::uint32_t>(words), true});
  const Index made = arrays_.size() - 1;
  if (!begin(fmt::format("array {} of {} words", made, words))) return made;
  auto array = session_->allocate(session::ElementType::kU32, 4, words);
  if (heard(array.status(), made)) arrays_[made].array = std::move(array).value();
  return made;
}

void Trial::drop(Index x) {
  begin(fmt::format("drop {}", x));
  arrays_[x].array = nullptr;
}

void Trial::know(Index x, std::uint32_t value) {
  std::fill(arrays_[x].words.begin(), arrays_[x].words.end(), value);
  arrays_[x].in_doubt = false;
}

void Trial::compare(Index x, std::span<const std::uint32_t> words) {
  const Known& known = arrays_[x];
  if (known.in_doubt) return;
  const auto [word, wanted] = std::mismatch(words.begin(), words.end(), known.words.begin(), known.words.end());
  if (word == words.end() && wanted == known.words.end()) return;
  problem(fmt::format("array {} is wrong and nobody was told: word {} is {} and not {}", x, word - words.begin(), *word,
                      *wanted));
}

void Trial::write(Index x, std::uint32_t value, std::uint32_t first, std::uint32_t words) {
  if (!has(x) || !begin(fmt::format("write {} to {}", value, x))) return;
  Known& known = arrays_[x];
  if (words == 0) words = static_cast<std::uint32_t>(known.words.size()) - first;
  const std::vector<std::uint32_t> values(words, value);
  if (!heard(known.array->write(std::uint64_t{first} * 4, std::as_bytes(std::span(values))), x)) return;
  if (words == known.words.size()) known.in_doubt = false;
  std::fill_n(known.words.begin() + first, words, value);
}

void Trial::set(Index x, std::uint32_t value) {
  if (!has(x) || !begin(fmt::format("set {} to {}", x, value))) return;
  const auto bytes = arrays_[x].array->host(Access::kWrite);
  if (!heard(bytes.status(), x)) return;
  std::ranges::fill(words_of(*bytes), value);
  know(x, value);
}

void Trial::change(Index x, std::uint32_t difference) {
  if (!has(x) || !begin(fmt::format("change {} by {}", x, difference))) return;
  const auto bytes = arrays_[x].array->host(Access::kReadWrite);
  if (!heard(bytes.status(), x)) return;
  compare(x, words_of(*bytes));
  for (std::uint32_t& word : words_of(*bytes)) word += difference;
  for (std::uint32_t& word : arrays_[x].words) word += difference;
}

void Trial::fill(Index x, std::uint32_t value) {
  if (!has(x) || !begin(fmt::format("fill {} with {}", x, value))) return;
  if (heard(arrays_[x].array->fill(std::as_bytes(std::span(&value, 1))), x)) know(x, value);
}

void Trial::copy(Index to, Index from) {
  if (!has(to) || !has(from) || !begin(fmt::format("copy {} to {}", from, to))) return;
  if (!heard(arrays_[to].array->copy_from(0, arrays_[from].array, 0, arrays_[to].array->size_bytes()), to)) return;
  arrays_[to].words = arrays_[from].words;
  arrays_[to].in_doubt = arrays_[from].in_doubt;
}

Status Trial::launch(std::string_view name, const std::vector<session::Argument>& arguments, session::EventPtr* event) {
  PERGOLA_ASSIGN(const session::KernelPtr kernel, module_->kernel(name));
  return kernel->launch({.grid = {1, 1, 1}, .block = {32, 1, 1}}, arguments, event);
}

void Trial::add(Index x, Index y) {
  if (!has(x) || !has(y) || !begin(fmt::format("add {} to {}", x, y))) return;
  const auto count = static_cast<std::uint32_t>(arrays_[y].words.size());
  if (!heard(launch("add", {ArrayArgument{at(x), 0}, ArrayArgument{at(y), 0}, number(count)}), y)) return;
  for (std::size_t i = 0; i < count; ++i) arrays_[y].words[i] += arrays_[x].words[i];
  arrays_[y].in_doubt = arrays_[y].in_doubt || arrays_[x].in_doubt;
}

void Trial::add_one(Index x, std::uint32_t words) {
  if (!has(x) || !begin(fmt::format("add one to {} words of {}", words, x))) return;
  if (words == 0) words = static_cast<std::uint32_t>(arrays_[x].words.size());
  if (!heard(launch("add_one", {ArrayArgument{at(x), 0}, number(words)}), x)) return;
  for (std::size_t i = 0; i < words; ++i) ++arrays_[x].words[i];
}

void Trial::add_one_with_event(Index x) {
  if (!has(x) || !begin(fmt::format("add one to {} and wait for its event", x))) return;
  const auto words = static_cast<std::uint32_t>(arrays_[x].words.size());
  session::EventPtr event;
  if (!heard(launch("add_one", {ArrayArgument{at(x), 0}, number(words)}, &event), x)) return;
  for (std::uint32_t& word : arrays_[x].words) ++word;
  if (event == nullptr) return problem("a launch that went well has no event");
  (void)event->poll();
  if (!heard(event->wait(), x)) return;
  const auto elapsed = event->elapsed_ns(*event);
  if (!elapsed.ok()) heard(elapsed.status(), x);
}

void Trial::read(Index x) {
  if (!has(x) || !begin(fmt::format("read {}", x))) return;
  std::vector<std::uint32_t> words(arrays_[x].words.size(), 0xdeadbeef);
  if (heard(at(x)->read(0, std::as_writable_bytes(std::span(words))), x)) compare(x, words);
}

void Trial::read_host(Index x) {
  if (!has(x) || !begin(fmt::format("read the host's side of {}", x))) return;
  const auto bytes = at(x)->host(Access::kRead);
  if (heard(bytes.status(), x)) compare(x, words_of(*bytes));
}

void Trial::view(Index x) {
  if (!has(x) || !begin(fmt::format("view {}", x))) return;
  const auto bytes = at(x)->view();
  if (!heard(bytes.status(), x)) return;
  compare(x, {reinterpret_cast<const std::uint32_t*>(bytes->data()), bytes->size() / 4});
}

void Trial::prefetch(Index x, session::Location to) {
  if (has(x) && begin(fmt::format("prefetch {} to side {}", x, static_cast<int>(to)))) heard(at(x)->prefetch(to), x);
}

void Trial::await(Index x) {
  if (has(x) && begin(fmt::format("wait for {}", x))) heard(at(x)->wait(0, at(x)->size_bytes()), x);
}

void Trial::synchronize() {
  if (begin("synchronize") && session_ != nullptr) heard(session_->synchronize());
}

void Trial::settle_graphs() {
  if (begin("settle graphs") && session_ != nullptr) session_->scheduler().settle_graphs();
}

void Trial::hold() {
  if (begin("hold")) control().hold();
}

void Trial::go() {
  begin("go");
  control().go();
}

}  // namespace pergola::driver_faults
