// Loading: CUDA C++ or PTX -> compile -> parse -> verify -> analyse -> the device.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "src/runtime/local_session.h"
#include "src/source/source.h"

namespace pergola::runtime {

struct LoadRequest {
  source::SourceRequest source;
  session::Language language = session::Language::kAuto;
};

// The file's text; its folder serves #include "...".
Result<LoadRequest> read_source(const std::string& path, const session::LoadOptions& options);
LoadRequest text_source(std::string_view text, const session::LoadOptions& options);

// What messages call the PTX that was made of it: "kernels/saxpy.cu" -> "<PTX of saxpy.cu>"; PTX keeps its name.
std::string ptx_name(const source::CompiledSource& compiled);

// kCompileError with the compiler's log, kParseError with file:line:column. Every kernel is made ready here; one that
// the device cannot run is refused when it is asked for, kUnsupported with file:line and instruction, so that the
// others of its file can be used. Where the device can run none, load() gives the first one's refusal.
Result<session::ModulePtr> load(std::shared_ptr<LocalSession> session, const LoadRequest& request);

}  // namespace pergola::runtime
