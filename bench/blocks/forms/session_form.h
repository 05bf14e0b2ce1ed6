// A program through a session: its launches one after the other, with nothing said of how they depend on each other.
#pragma once

#include <pergola/pergola.hpp>

#include <map>
#include <optional>

#include "bench/blocks/forms/form.h"
#include "bench/blocks/program.h"
#include "bench/support/steady.h"

namespace pergola::bench::blocks {

// `program` must outlive it. Used by one thread.
class SessionForm final : public Form {
 public:
  // `device`: "cuda", the first GPU, or "cpu"; `policies` as pergola_session_options has them. Throws pergola::Error.
  SessionForm(std::string name, const Program& program, const std::string& device, const std::string& policies);
  void run() override;
  void reset() override;
  std::string check() override;
  std::string graphs() const { return session_.graphs(); }
  bool is_steady() override {
    return steady_.is_reached([&] { return graphs(); });
  }

 private:
  struct Submission {
    pergola_kernel kernel = nullptr;
    pergola_launch_config config{};
    std::vector<pergola_argument> arguments;
  };
  pergola_argument argument(const Argument& value) const;

  const Program& program_;
  const Session session_;
  std::vector<Array<std::byte>> arrays_;
  std::vector<std::optional<Array<std::byte>>> contents_;  // of those that are filled
  std::map<std::string, std::optional<Kernel>> kernels_;
  std::vector<Submission> submissions_;
  ::bench::Steady steady_;
};

}  // namespace pergola::bench::blocks
