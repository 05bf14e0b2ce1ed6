// The CPU device beside PoCL and beside C++ loops, on the same seven problems, in one run on all cores.
//
//   cpu_device_bench [--small] [--only PROBLEM] [--form FORM] [--report PATH]
//
// Forms: `native` (native.cc: the loop with OpenMP), `pocl` (kernels.cl, the best of several work-group shapes, found
// here before the runs), `pergola` (kernels.cu, as users get it), `pergola-jit` (the same, a thread at a time). The
// forms' runs are interleaved; every form's result is compared with the reference after its last run.
// params.first_jit_ms is what the first launch of a kernel, of one block, costs beyond a later one, with nothing cached;
// params.cached_jit_ms the same where another module of the same source has left the object in the cache on disk.
// `launch-cost` and `round-trip` are an empty kernel of one block: one launch of many in a row, and one that is waited for.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include <unistd.h>

#include "../support/main.h"
#include "native.h"
#include "opencl.h"
#include "pergola/pergola.hpp"

namespace {

using namespace cpu_device;
using Clock = std::chrono::steady_clock;

double ms_of(const std::function<void()>& body) {
  const auto start = Clock::now();
  body();
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("cannot read " + path);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

struct Form {
  std::string name;
  nlohmann::json params;
  std::function<void()> run;
  std::function<bool()> right;
  std::vector<double> times;
};

// Near enough: compilers may contract and sum in other orders.
bool close(const std::vector<float>& a, const std::vector<float>& b, float tolerance) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!(std::fabs(a[i] - b[i]) <= tolerance * (1 + std::fabs(b[i])))) return false;
  }
  return true;
}
// Escape counts: a point on the edge may go the other way when a product is contracted.
bool mostly_equal(const std::vector<unsigned>& a, const std::vector<unsigned>& b) {
  std::size_t different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) different += a[i] != b[i] ? 1 : 0;
  return different <= a.size() / 200;
}

std::vector<float> randoms(std::size_t n, float low, float high, unsigned seed) {
  std::vector<float> out(n);
  std::uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
  for (float& v : out) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = low + (high - low) * static_cast<float>(state >> 40) / static_cast<float>(1 << 24);
  }
  return out;
}

struct Shape {
  std::vector<std::size_t> global, local;
};

class Bench {
 public:
  Bench(bool small, std::string only, std::string form, int argc, char** argv)
      : small_(small), runs_(small ? 2 : 15), only_(std::move(only)), form_(std::move(form)) {
    std::filesystem::create_directories(cache_);
    ::setenv("PERGOLA_CACHE_DIR", cache_.c_str(), 1);
    session_ = std::make_unique<pergola::Session>("cpu");
    ::setenv("PERGOLA_CPU_ENGINE", "jit", 1);
    scalar_ = std::make_unique<pergola::Session>("cpu");
    ::unsetenv("PERGOLA_CPU_ENGINE");
    module_.push_back(session_->load(source()));
    module_.push_back(scalar_->load(source()));
    std::string why;
    opencl_ = OpenCl::open(why);
    if (opencl_ != nullptr) opencl_->build(text_of(CPU_DEVICE_BENCH_FOLDER "/kernels.cl"), "-cl-std=CL1.2 -cl-mad-enable");
    report_ = std::make_unique<bench::Report>("cpu-device", bench::Machine{"cpu", opencl_ != nullptr ? opencl_->name() : ""}, argc, argv);
    report_->note(opencl_ != nullptr ? "pocl is " + opencl_->name() + "." : "pocl: " + why + ".");
    report_->note(native::has_threads() ? "" : " native runs on one core: built without OpenMP.");
  }
  ~Bench() {
    std::error_code error;
    std::filesystem::remove_all(cache_, error);
  }

  bench::Report& run() {
    saxpy();
    matmul();
    stencil();
    reduction();
    mandelbrot();
    black_scholes();
    histogram();
    launches();
    return *report_;
  }

 private:
  static std::string source() { return CPU_DEVICE_BENCH_FOLDER "/kernels.cu"; }
  bool wanted(const char* problem) const { return only_.empty() || only_ == problem; }

  // `form` 0: as users get it; 1: a thread at a time. `launch` queues one launch, whole or of one block, `right` checks a kernel's result.
  template <typename Launch, typename Right>
  void add_one(std::vector<Form>& forms, std::size_t form, const char* kernel, nlohmann::json params, Launch launch, Right right) {
    if (!form_.empty() && form_ != (form == 0 ? "pergola" : "pergola-jit")) return;
    pergola::Session* session = form == 0 ? session_.get() : scalar_.get();
    session->synchronize();
    std::shared_ptr<pergola::Kernel> compiled;
    const auto one_block = [&] {
      launch(*compiled, false);
      session->synchronize();
    };
    const auto first_of = [&](const pergola::Module& module) {
      const double first = ms_of([&] { compiled = std::make_shared<pergola::Kernel>(module.kernel(kernel)), one_block(); });
      const double more = first - std::min(ms_of(one_block), ms_of(one_block));
      return std::round(more * 100) / 100;
    };
    params["first_jit_ms"] = first_of(module_[form]);
    module_.push_back(session->load(source()));
    params["cached_jit_ms"] = first_of(module_.back());
    const auto again = [=] {
      launch(*compiled, true);
      session->synchronize();
    };
    forms.push_back({form == 0 ? "pergola" : "pergola-jit", params, again, [=] { return right(*compiled); }, {}});
  }
  template <typename T>
  static std::vector<T> read(const pergola::Array<T>& from) {
    const std::span<const T> all = from.read();
    return {all.begin(), all.end()};
  }

  // The fastest of the shapes; `arguments` stay alive in the closure.
  void add_pocl(std::vector<Form>& forms, const char* kernel, nlohmann::json params, std::vector<OpenCl::Argument> arguments,
                const std::vector<Shape>& shapes, std::function<bool()> right) {
    if (opencl_ == nullptr || (!form_.empty() && form_ != "pocl")) return;
    OpenCl::Kernel function = opencl_->kernel(kernel);
    Shape best;
    double best_ms = 1e30;
    for (const Shape& shape : shapes) {
      const auto once = [&] { opencl_->run(function, arguments, shape.global, shape.local); };
      once();
      const double ms = std::min(ms_of(once), ms_of(once));
      if (ms < best_ms) best_ms = ms, best = shape;
    }
    params["local"] = best.local;
    forms.push_back({"pocl", params, [=, this] { opencl_->run(function, arguments, best.global, best.local); }, std::move(right), {}});
  }

  void measure(const char* problem, std::vector<Form>& forms) {
    std::erase_if(forms, [&](const Form& form) { return !form_.empty() && form.name != form_; });
    std::vector<bool> slow;  // gets a run where others get five
    for (Form& form : forms) slow.push_back(ms_of(form.run) > 500);
    for (int run = 0; run < runs_; ++run) {
      for (std::size_t n = 0; n < forms.size(); ++n) {
        if (!slow[n] || run % 5 == 0) forms[n].times.push_back(ms_of(forms[n].run));
      }
    }
    for (Form& form : forms) report_->add(problem, form.name, form.params, form.times, form.right());
  }

  template <typename T>
  static OpenCl::Argument value(const std::shared_ptr<T>& v) { return {v.get(), sizeof(T)}; }
  template <typename T>
  auto keep(T v) {
    auto kept = std::make_shared<T>(v);
    kept_.push_back(kept);
    return kept;
  }
  template <typename T>
  OpenCl::Argument constant(T v) { return value(keep(v)); }
  template <typename T>
  OpenCl::Argument array(const std::vector<T>& v, OpenCl::Buffer* out = nullptr) {
    OpenCl::Buffer made = opencl_ == nullptr ? nullptr : opencl_->buffer(v.size() * sizeof(T), v.data());
    if (out != nullptr) *out = made;
    return constant(made);
  }
  template <typename T>
  std::vector<T> contents(OpenCl::Buffer from, std::size_t count) {
    std::vector<T> v(count);
    opencl_->read(from, v.data(), count * sizeof(T));
    return v;
  }
  static std::vector<Shape> lines(std::size_t n) {
    std::vector<Shape> out;
    for (const std::size_t local : {64u, 128u, 256u, 1024u, 4096u}) {
      if (n % local == 0) out.push_back({{n}, {local}});
    }
    return out;
  }
  static std::vector<Shape> tiles(std::size_t w, std::size_t h) {
    std::vector<Shape> out;
    for (const auto& [x, y] : {std::pair<std::size_t, std::size_t>{32, 8}, {64, 4}, {16, 16}, {128, 1}, {256, 1}, {512, 1}}) {
      if (w % x == 0) out.push_back({{w, h}, {x, y}});
    }
    return out;
  }

  void saxpy();
  void matmul();
  void stencil();
  void reduction();
  void mandelbrot();
  void black_scholes();
  void histogram();
  void launches();

  const bool small_;
  const int runs_;
  const std::string only_, form_;
  const std::filesystem::path cache_ = std::filesystem::temp_directory_path() / ("pergola-bench-" + std::to_string(::getpid()));
  std::unique_ptr<pergola::Session> session_, scalar_;
  std::vector<pergola::Module> module_;
  std::unique_ptr<OpenCl> opencl_;
  std::unique_ptr<bench::Report> report_;
  std::vector<std::shared_ptr<void>> kept_;
};

void Bench::saxpy() {
  if (!wanted("saxpy")) return;
  const unsigned n = small_ ? 1 << 18 : 1 << 24;
  const auto x = randoms(n, -1, 1, 1), y = randoms(n, -1, 1, 2);
  const float a = 1.5f;
  std::vector<float> expected(n);
  for (unsigned i = 0; i < n; ++i) expected[i] = a * x[i] + y[i];
  const nlohmann::json params = {{"n", n}};
  std::vector<Form> forms;
  auto own = keep(y);
  forms.push_back({"native", params, [&, own] { native::saxpy(a, x.data(), own->data(), n); },
                   [&, own] { return *own = y, native::saxpy(a, x.data(), own->data(), n), close(*own, expected, 1e-5f); }, {}});
  if (opencl_ != nullptr) {
    OpenCl::Buffer out = nullptr;
    const OpenCl::Argument first = array(x), second = array(y, &out);
    const std::vector<OpenCl::Argument> arguments{constant(a), first, second, constant(n)};
    OpenCl::Kernel again = opencl_->kernel("saxpy");
    add_pocl(forms, "saxpy", params, arguments, lines(n), [=, this] {
      opencl_->write(out, y.data(), y.size() * sizeof(float));
      opencl_->run(again, arguments, {n}, {256});
      return close(contents<float>(out, n), expected, 1e-5f);
    });
  }
  for (std::size_t form = 0; form < 2; ++form) {
    pergola::Session& session = form == 0 ? *session_ : *scalar_;
    auto dx = std::make_shared<pergola::Array<float>>(session.array(x)), dy = std::make_shared<pergola::Array<float>>(session.array(y));
    add_one(forms, form, "saxpy", params, [=](const pergola::Kernel& k, bool whole) { k(pergola::grid(whole ? n / 1024 : 1, 1024), a, *dx, *dy, n); },
            [=, this, &session](const pergola::Kernel& k) {
              dy->write(y);
              k(pergola::grid(n / 1024, 1024), a, *dx, *dy, n);
              session.synchronize();
              return close(read(*dy), expected, 1e-5f);
            });
  }
  measure("saxpy", forms);
}

void Bench::matmul() {
  if (!wanted("matmul")) return;
  const unsigned n = small_ ? 64 : 512;
  const auto a = randoms(n * n, -1, 1, 3), b = randoms(n * n, -1, 1, 4);
  std::vector<float> expected(n * n);
  for (unsigned i = 0; i < n; ++i) {
    for (unsigned j = 0; j < n; ++j) {
      double sum = 0;
      for (unsigned k = 0; k < n; ++k) sum += static_cast<double>(a[i * n + k]) * b[k * n + j];
      expected[i * n + j] = static_cast<float>(sum);
    }
  }
  const nlohmann::json params = {{"n", n}, {"tile", 16}};
  std::vector<Form> forms;
  auto own = keep(std::vector<float>(n * n));
  forms.push_back({"native", params, [&, own] { native::matmul(a.data(), b.data(), own->data(), n); },
                   [&, own] { return close(*own, expected, 1e-3f); }, {}});
  if (opencl_ != nullptr) {
    OpenCl::Buffer out = nullptr;
    const OpenCl::Argument first = array(a), second = array(b), third = array(*own, &out);
    add_pocl(forms, "matmul", params, {first, second, third, constant(n)}, {{{n, n}, {16, 16}}},
             [=, this] { return close(contents<float>(out, n * n), expected, 1e-3f); });
  }
  for (std::size_t form = 0; form < 2; ++form) {
    pergola::Session& session = form == 0 ? *session_ : *scalar_;
    auto da = std::make_shared<pergola::Array<float>>(session.array(a)), db = std::make_shared<pergola::Array<float>>(session.array(b));
    auto dc = std::make_shared<pergola::Array<float>>(session.array<float>(n * n));
    add_one(forms, form, "matmul", params,
            [=](const pergola::Kernel& k, bool whole) { k(whole ? pergola::grid({n / 16, n / 16}, {16, 16}) : pergola::grid({1, 1}, {16, 16}), *da, *db, *dc, n); },
            [=, this](const pergola::Kernel&) { return close(read(*dc), expected, 1e-3f); });
  }
  measure("matmul", forms);
}

void Bench::stencil() {
  if (!wanted("stencil")) return;
  const unsigned w = small_ ? 256 : 4096, h = w;
  const auto in = randoms(std::size_t{w} * h, -1, 1, 5);
  std::vector<float> expected = in;
  for (unsigned y = 1; y + 1 < h; ++y) {
    for (unsigned x = 1; x + 1 < w; ++x) {
      const std::size_t i = std::size_t{y} * w + x;
      expected[i] = 0.5f * in[i] + 0.125f * (in[i - 1] + in[i + 1] + in[i - w] + in[i + w]);
    }
  }
  const nlohmann::json params = {{"w", w}, {"h", h}};
  std::vector<Form> forms;
  auto own = keep(std::vector<float>(in.size()));
  forms.push_back({"native", params, [&, own] { native::stencil(in.data(), own->data(), w, h); },
                   [&, own] { return close(*own, expected, 1e-5f); }, {}});
  if (opencl_ != nullptr) {
    OpenCl::Buffer out = nullptr;
    const OpenCl::Argument first = array(in), second = array(*own, &out);
    add_pocl(forms, "stencil", params, {first, second, constant(w), constant(h)}, tiles(w, h),
             [=, this] { return close(contents<float>(out, expected.size()), expected, 1e-5f); });
  }
  for (std::size_t form = 0; form < 2; ++form) {
    pergola::Session& session = form == 0 ? *session_ : *scalar_;
    auto from = std::make_shared<pergola::Array<float>>(session.array(in));
    auto to = std::make_shared<pergola::Array<float>>(session.array<float>(in.size()));
    add_one(forms, form, "stencil", params,
            [=](const pergola::Kernel& k, bool whole) { k(whole ? pergola::grid({w / 256, h / 4}, {256, 4}) : pergola::grid({1, 1}, {256, 4}), *from, *to, w, h); },
            [=, this](const pergola::Kernel&) { return close(read(*to), expected, 1e-5f); });
  }
  measure("stencil", forms);
}

void Bench::reduction() {
  if (!wanted("reduction")) return;
  const unsigned blocks = small_ ? 64 : 1 << 14;
  const auto in = randoms(std::size_t{blocks} * 512, 0, 1, 6);
  std::vector<float> expected(blocks);
  for (unsigned block = 0; block < blocks; ++block) {
    double sum = 0;
    for (unsigned i = 0; i < 512; ++i) sum += in[std::size_t{block} * 512 + i];
    expected[block] = static_cast<float>(sum);
  }
  const nlohmann::json params = {{"blocks", blocks}, {"per_block", 512}};
  std::vector<Form> forms;
  auto own = keep(std::vector<float>(blocks));
  forms.push_back({"native", params, [&, own] { native::reduction(in.data(), own->data(), blocks); },
                   [&, own] { return close(*own, expected, 1e-4f); }, {}});
  if (opencl_ != nullptr) {
    OpenCl::Buffer out = nullptr;
    const OpenCl::Argument first = array(in), second = array(*own, &out);
    add_pocl(forms, "reduction", params, {first, second}, {{{std::size_t{blocks} * 256}, {256}}},
             [=, this] { return close(contents<float>(out, blocks), expected, 1e-4f); });
  }
  for (std::size_t form = 0; form < 2; ++form) {
    pergola::Session& session = form == 0 ? *session_ : *scalar_;
    auto from = std::make_shared<pergola::Array<float>>(session.array(in));
    auto to = std::make_shared<pergola::Array<float>>(session.array<float>(blocks));
    add_one(forms, form, "reduction", params, [=](const pergola::Kernel& k, bool whole) { k(pergola::grid(whole ? blocks : 1, 256), *from, *to); },
            [=, this](const pergola::Kernel&) { return close(read(*to), expected, 1e-4f); });
  }
  measure("reduction", forms);
}

void Bench::mandelbrot() {
  if (!wanted("mandelbrot")) return;
  const unsigned w = small_ ? 64 : 1024, h = w, limit = 256;
  std::vector<unsigned> expected(w * h);
  native::mandelbrot(expected.data(), w, h, limit);
  const nlohmann::json params = {{"w", w}, {"h", h}, {"limit", limit}};
  std::vector<Form> forms;
  auto own = keep(std::vector<unsigned>(w * h));
  forms.push_back({"native", params, [=] { native::mandelbrot(own->data(), w, h, limit); },
                   [=] { return mostly_equal(*own, expected); }, {}});
  if (opencl_ != nullptr) {
    OpenCl::Buffer out = nullptr;
    const OpenCl::Argument first = array(*own, &out);
    add_pocl(forms, "mandelbrot", params, {first, constant(w), constant(h), constant(limit)}, tiles(w, h),
             [=, this] { return mostly_equal(contents<unsigned>(out, expected.size()), expected); });
  }
  for (std::size_t form = 0; form < 2; ++form) {
    pergola::Session& session = form == 0 ? *session_ : *scalar_;
    auto to = std::make_shared<pergola::Array<unsigned>>(session.array<unsigned>(w * h));
    add_one(forms, form, "mandelbrot", params,
            [=](const pergola::Kernel& k, bool whole) { k(whole ? pergola::grid({w / 64, h / 16}, {64, 16}) : pergola::grid({1, 1}, {64, 16}), *to, w, h, limit); },
            [=, this](const pergola::Kernel&) { return mostly_equal(read(*to), expected); });
  }
  measure("mandelbrot", forms);
}

void Bench::black_scholes() {
  if (!wanted("black-scholes")) return;
  const unsigned n = small_ ? 1 << 14 : 1 << 21;
  const auto spot = randoms(n, 5, 30, 7), strike = randoms(n, 1, 100, 8), years = randoms(n, 0.25f, 10, 9);
  const float rate = 0.02f, volatility = 0.3f;
  std::vector<float> expected(n), other(n);
  native::black_scholes(spot.data(), strike.data(), years.data(), expected.data(), other.data(), rate, volatility, n);
  const nlohmann::json params = {{"n", n}};
  std::vector<Form> forms;
  auto call = keep(std::vector<float>(n)), put = keep(std::vector<float>(n));
  forms.push_back({"native", params,
                   [&, call, put] { native::black_scholes(spot.data(), strike.data(), years.data(), call->data(), put->data(), rate, volatility, n); },
                   [&, call] { return close(*call, expected, 1e-4f); }, {}});
  if (opencl_ != nullptr) {
    OpenCl::Buffer out = nullptr;
    const OpenCl::Argument a = array(spot), b = array(strike), c = array(years), d = array(*call, &out), e = array(*put);
    add_pocl(forms, "black_scholes", params, {a, b, c, d, e, constant(rate), constant(volatility), constant(n)}, lines(n),
             [=, this] { return close(contents<float>(out, n), expected, 1e-4f); });
  }
  for (std::size_t form = 0; form < 2; ++form) {
    pergola::Session& session = form == 0 ? *session_ : *scalar_;
    const auto on = [&](const std::vector<float>& v) { return std::make_shared<pergola::Array<float>>(session.array(v)); };
    const auto a = on(spot), b = on(strike), c = on(years), d = on(*call), e = on(*put);
    add_one(forms, form, "black_scholes", params,
            [=](const pergola::Kernel& k, bool whole) { k(pergola::grid(whole ? n / 1024 : 1, 1024), *a, *b, *c, *d, *e, rate, volatility, n); },
            [=, this](const pergola::Kernel&) { return close(read(*d), expected, 1e-4f); });
  }
  measure("black-scholes", forms);
}

void Bench::histogram() {
  if (!wanted("histogram")) return;
  const unsigned n = small_ ? 1 << 14 : 1 << 22, blocks = small_ ? 16 : 1024;
  std::vector<unsigned> words(n), expected(256);
  std::uint64_t state = 10;
  for (unsigned& v : words) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    v = static_cast<unsigned>(state >> 32);
    for (int byte = 0; byte < 4; ++byte) ++expected[v >> (8 * byte) & 255];
  }
  const std::vector<unsigned> zeros(256);
  const nlohmann::json params = {{"words", n}, {"blocks", blocks}};
  std::vector<Form> forms;
  auto own = keep(zeros);
  forms.push_back({"native", params, [&, own] { native::histogram(words.data(), own->data(), n); }, [&, own] { return *own == expected; }, {}});
  if (opencl_ != nullptr) {
    OpenCl::Buffer out = nullptr;
    const OpenCl::Argument first = array(words), second = array(zeros, &out);
    const std::vector<OpenCl::Argument> arguments{first, second, constant(n)};
    OpenCl::Kernel again = opencl_->kernel("histogram");
    add_pocl(forms, "histogram", params, arguments, {{{std::size_t{blocks} * 256}, {256}}, {{std::size_t{blocks} * 16}, {256}}}, [=, this] {
      opencl_->write(out, zeros.data(), 1024);
      opencl_->run(again, arguments, {std::size_t{blocks} * 256}, {256});
      return contents<unsigned>(out, 256) == expected;
    });
  }
  for (std::size_t form = 0; form < 2; ++form) {
    pergola::Session& session = form == 0 ? *session_ : *scalar_;
    auto from = std::make_shared<pergola::Array<unsigned>>(session.array(words));
    auto to = std::make_shared<pergola::Array<unsigned>>(session.array(zeros));
    add_one(forms, form, "histogram", params, [=](const pergola::Kernel& k, bool whole) { k(pergola::grid(whole ? blocks : 1, 256), *from, *to, n); },
            [=, this, &session](const pergola::Kernel& k) {
              to->write(zeros);
              k(pergola::grid(blocks, 256), *from, *to, n);
              session.synchronize();
              return read(*to) == expected;
            });
  }
  measure("histogram", forms);
}

void Bench::launches() {
  if (!wanted("launch-cost") && !wanted("round-trip")) return;
  const std::vector<unsigned> untouched(64, 7);
  const unsigned many = small_ ? 100 : 10000;
  pergola::Array<unsigned> out = session_->array(untouched);
  const pergola::Kernel kernel = module_[0].kernel("empty");
  const auto per_launch = [&](const std::function<void()>& body) {
    std::vector<double> times;
    body();
    for (int run = 0; run < runs_; ++run) times.push_back(ms_of([&] { for (unsigned n = 0; n < many; ++n) body(); session_->synchronize(); }) / many);
    return times;
  };
  const auto launch = [&] { kernel(pergola::grid(1, 1), out); };
  const nlohmann::json params = {{"blocks", 1}, {"threads", 1}};
  if (wanted("launch-cost")) report_->add("launch-cost", "pergola", params, per_launch(launch), read(out) == untouched);
  if (!wanted("round-trip")) return;
  report_->add("round-trip", "pergola", params, per_launch([&] { launch(), session_->synchronize(); }), read(out) == untouched);
  if (opencl_ == nullptr) return;
  OpenCl::Buffer buffer = nullptr;
  const std::vector<OpenCl::Argument> arguments{array(untouched, &buffer)};
  OpenCl::Kernel other = opencl_->kernel("empty");
  const std::vector<double> times = per_launch([&] { opencl_->run(other, arguments, {1}, {1}); });
  report_->add("round-trip", "pocl", params, times, contents<unsigned>(buffer, untouched.size()) == untouched);
}

}  // namespace

int main(int argc, char** argv) {
  std::string only, form;
  CLI::App app("Kernels on the CPU device, in PoCL and as C++ loops.", "cpu_device_bench");
  app.add_option("--only", only, "This problem alone");
  app.add_option("--form", form, "This form alone");
  return bench::run_main(app, argc, argv, [&](const bench::Options& options) {
    return Bench(options.small, only, form, argc, argv).run();
  });
}
