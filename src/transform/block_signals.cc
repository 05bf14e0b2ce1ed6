#include "src/transform/block_signals.h"

#include <algorithm>

#include "src/abi/block_links.h"
#include "src/transform/body_editor.h"
#include "src/transform/kernel_boundary.h"

namespace pergola::transform {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Op;
using ptx::Operand;
using ptx::Statement;

constexpr std::string_view kEnd = "$pergola_blocks_end";

// %tid, %ctaid as numbers from 0.
constexpr std::string_view kIndices = R"(
  .reg .b32 %x, %y, %z, %nx, %ny, %thread, %block;
  .reg .pred %first_thread, %p;
  mov.u32 %x, %tid.x; mov.u32 %y, %tid.y; mov.u32 %z, %tid.z;
  mov.u32 %nx, %ntid.x; mov.u32 %ny, %ntid.y;
  mad.lo.u32 %z, %z, %ny, %y; mad.lo.u32 %thread, %z, %nx, %x;
  mov.u32 %x, %ctaid.x; mov.u32 %y, %ctaid.y; mov.u32 %z, %ctaid.z;
  mov.u32 %nx, %nctaid.x; mov.u32 %ny, %nctaid.y;
  mad.lo.u32 %z, %z, %ny, %y; mad.lo.u32 %block, %z, %nx, %x;
  or.b32 %x, %block, %thread; setp.eq.u32 %first_thread, %x, 0;
)";

constexpr std::string_view kTrigger = "griddepcontrol.launch_dependents;\n";
constexpr std::string_view kWaitForAll = "griddepcontrol.wait;\n";

// All blocks but one let the next launch start at once; one thread of that one waits first.
constexpr std::string_view kLimit = R"(
  setp.ne.u32 %p, %block, 0;
  @%p bra $pergola_trigger_#;
  @!%first_thread bra $pergola_triggered_#;
  griddepcontrol.wait;
$pergola_trigger_#:
  griddepcontrol.launch_dependents;
$pergola_triggered_#:
)";

// Thread t polls the counters of parents t, t + threads, ...; what it acquires, the barrier gives to the block. Polls
// are relaxed: each acquire empties the L1 cache that the blocks waited for may be using.
constexpr std::string_view kWaits = R"(
  .reg .b32 %i, %end, %first, %epoch, %counter, %threads, %target, %value, %count;
  .reg .b64 %base, %at;
  ld.param.u64 %base, [LINKS+16]; mad.wide.u32 %at, %block, 4, %base;
  ld.global.u32 %epoch, [%at];
  add.u32 %epoch, %epoch, 1;
  mov.u32 %x, %ntid.x; mov.u32 %y, %ntid.y; mov.u32 %z, %ntid.z;
  mul.lo.u32 %count, %x, %y; mul.lo.u32 %count, %count, %z;
  ld.param.u32 %end, [LINKS+28]; mul.lo.u32 %first, %end, %block;
  mov.u32 %i, %thread;
$pergola_next_#:
  setp.ge.u32 %p, %i, %end;
  @%p bra $pergola_all_there_#;
  add.u32 %x, %first, %i; add.u32 %i, %i, %count;
  ld.param.u64 %base, [LINKS]; mad.wide.u32 %at, %x, 8, %base;
  ld.global.v2.u32 {%counter, %threads}, [%at];
  setp.eq.u32 %p, %counter, 0xffffffff;
  @%p bra $pergola_next_#;
  ld.param.u64 %base, [LINKS+8]; mad.wide.u32 %at, %counter, 4, %base;
  mul.lo.u32 %target, %threads, %epoch;
$pergola_acquire_#:
  ld.acquire.gpu.global.u32 %value, [%at];
  sub.u32 %value, %value, %target;
  setp.ge.s32 %p, %value, 0;
  @%p bra $pergola_next_#;
$pergola_poll_#:
  nanosleep.u32 20;
  ld.relaxed.gpu.global.u32 %value, [%at];
  sub.u32 %value, %value, %target;
  setp.ge.s32 %p, %value, 0;
  @%p bra $pergola_acquire_#;
  bra $pergola_poll_#;
$pergola_all_there_#:
  barrier.sync 0;
  setp.ne.u32 %p, %thread, 0;
  @%p bra $pergola_ready_#;
  ld.param.u64 %base, [LINKS+16]; mad.wide.u32 %at, %block, 4, %base;
  st.global.u32 [%at], %epoch;
$pergola_ready_#:
)";

// Threads of a warp may come here at different times: each group that comes together counts for itself.
constexpr std::string_view kSignal = R"(
  .reg .b32 %mask, %lower, %ending, %own;
  .reg .b64 %counters, %counter_at;
  activemask.b32 %mask;
  bar.warp.sync %mask;
  mov.u32 %lower, %lanemask_lt; and.b32 %lower, %lower, %mask; setp.ne.u32 %p, %lower, 0;
  @%p bra $pergola_told_#;
  popc.b32 %ending, %mask;
  ld.param.u32 %own, [LINKS+24]; add.u32 %own, %own, %block;
  ld.param.u64 %counters, [LINKS+8]; mad.wide.u32 %counter_at, %own, 4, %counters;
  fence.acq_rel.gpu;
  red.relaxed.gpu.global.add.u32 [%counter_at], %ending;
$pergola_told_#:
)";
constexpr std::string_view kEndAfterTheOneBefore = R"(
  @!%first_thread bra $pergola_ended_#;
  griddepcontrol.wait;
$pergola_ended_#:
)";

std::string replaced(std::string text, std::string_view word, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += by.size())
    text.replace(at, word.size(), by);
  return text;
}

std::string begin_of(const BlockSignalOptions& options, std::string_view links) {
  const bool limits = options.triggers && options.limits;
  std::string text(options.triggers && !limits ? kTrigger : "");
  if (limits || options.has_parents) text += kIndices;
  if (limits) text += kLimit;
  if (options.waits_for_all) text += kWaitForAll;
  if (options.has_parents) text += replaced(std::string(kWaits), "LINKS", links);
  return text;
}

// Empty where the kernel may end as it does.
std::string end_of(const BlockSignalOptions& options, std::string_view links) {
  const bool waits = options.starts_early && !options.waits_for_all;
  if (!options.signals && !waits) return {};
  std::string text(kIndices);
  if (options.signals) text += replaced(std::string(kSignal), "LINKS", links);
  if (waits) text += kEndAfterTheOneBefore;
  return text + "  ret;\n";
}

Error refuse(const ptx::Module& module, const Function& kernel, const Statement& statement, std::string_view why) {
  return PERGOLA_ERROR(kUnsupported, "{}:{}: kernel '{}' cannot wait for blocks of other launches: {}.",
                       module.source_name, statement.location.line, kernel.name, why);
}

// griddepcontrol asks for PTX ISA 7.8 and sm_90.
void raise_target(ptx::Module& module) {
  constexpr std::string_view kTarget = "sm_90";
  if (module.version_major < 7 || (module.version_major == 7 && module.version_minor < 8)) {
    module.version_major = 7;
    module.version_minor = 8;
  }
  for (std::string& target : module.targets)
    if (target.starts_with("sm_") && target.size() < 6 && target < kTarget) target = kTarget;
}

// What the code added relies on.
Status check(const ptx::Module& module, const Function& kernel) {
  if (kernel.required_cluster || kernel.max_cluster_rank)
    return PERGOLA_ERROR(kUnsupported,
                         "{}:{}: kernel '{}' cannot wait for blocks of other launches: it is launched in "
                         "clusters.",
                         module.source_name, kernel.location.line, kernel.name);
  for (const Function* function : module.functions()) {
    for (const Statement& statement : function->body) {
      const Instruction* in = statement.instruction();
      if (in == nullptr) continue;
      if (in->op == Op::kGriddepcontrol)
        return refuse(module, kernel, statement, "it, or a function of its module, has griddepcontrol of its own");
      if (in->op == Op::kExit && function != &kernel)
        return refuse(module, kernel, statement, "`exit` in a function ends threads behind its back");
    }
  }
  return {};
}

// ret and exit of the kernel become branches to its end.
void join_ends(Function& kernel) {
  for (Statement& statement : kernel.body) {
    Instruction* in = statement.instruction();
    if (in == nullptr || (in->op != Op::kRet && in->op != Op::kExit)) continue;
    in->op = Op::kBra;
    in->mods.clear();
    in->operands.assign(1, Operand::make_label(std::string(kEnd)));
  }
}

}  // namespace

Status add_block_signals(ptx::Module& module, std::string_view kernel, const BlockSignalOptions& options) {
  PERGOLA_TRY(leave_only_kernel(module, kernel));
  Function& entry = *module.find_function(kernel);
  PERGOLA_TRY(check(module, entry));
  PERGOLA_TRY(make_kernel_loads_coherent(module, kernel, options.constant_lines));
  raise_target(module);

  ptx::Variable links;
  links.space = ptx::Space::kParam;
  links.type = ptx::Type::kB8;
  links.align_bytes = 8;
  links.name = entry.name + "_links";
  links.extents = {abi::kBlockLinksBytes};
  if (options.has_links()) entry.parameters.push_back(links);

  BodyEditor editor(entry);
  Statements body;
  if (const std::string begin = begin_of(options, links.name); !begin.empty()) {
    PERGOLA_ASSIGN(body, editor.statements(begin, {}, entry.location));
  }
  const std::string end_text = end_of(options, links.name);
  if (!end_text.empty()) join_ends(entry);
  body.insert(body.end(), std::make_move_iterator(entry.body.begin()), std::make_move_iterator(entry.body.end()));
  if (!end_text.empty()) {
    PERGOLA_ASSIGN(const Statements end, editor.statements(end_text, {}, entry.location));
    body.push_back({ptx::Label{std::string(kEnd)}, entry.location});
    body.insert(body.end(), end.begin(), end.end());
  }
  entry.body = std::move(body);
  return {};
}

}  // namespace pergola::transform
