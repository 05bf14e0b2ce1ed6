#include "src/base/result.h"

namespace pergola {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::kOk: return "ok";
    case Code::kInvalidArgument: return "invalid argument";
    case Code::kNotFound: return "not found";
    case Code::kUnsupported: return "unsupported";
    case Code::kUnavailable: return "unavailable";
    case Code::kFailedPrecondition: return "failed precondition";
    case Code::kResourceExhausted: return "resource exhausted";
    case Code::kParseError: return "parse error";
    case Code::kCompileError: return "compile error";
    case Code::kDeviceFault: return "device fault";
    case Code::kDeviceLost: return "device lost";
    case Code::kIo: return "input/output error";
    case Code::kSkipped: return "skipped";
    case Code::kTimeout: return "timeout";
    case Code::kInternal: return "internal error";
    case Code::kCallFailed: return "call failed";
  }
  return "unknown error";
}

const std::string& Status::message() const {
  static const std::string kEmpty;
  return ok() ? kEmpty : error_->message;
}

}  // namespace pergola
