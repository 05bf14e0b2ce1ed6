#include "src/transform/fused_chain.h"

#include "src/abi/fused_step.h"
#include "src/abi/task_slot.h"
#include "src/base/check.h"
#include "src/ptx/parser.h"
#include "src/transform/body_cases.h"

namespace pergola::transform {
namespace {

static_assert(sizeof(abi::TaskSlot) == 112, "kText has it as a number, and that of 32 of them");

// $Words stand for what the shape says. Steps are walked by all warps; a warp without a block in a step passes on.
constexpr std::string_view kText = R"(.version 8.0
.target sm_80
.address_size 64
.extern .func pergola_run_body ();
.extern .shared .align 256 .b8 pergola_fused_memory[];
.shared .align 16 .b8 pergola_task_slots[3584];
.visible .entry pergola_fused(.param .u64 table, .param .u32 table_bytes, .param .u32 steps)
.reqntid $THREADS, 1, 1
.minnctapersm 1
$CLUSTER
{
  .reg .b32 %pergola_body;
  .reg .pred %p;
  .reg .b64 %from, %at, %wide;
  .reg .b32 %thread, %lane, %warp, %cta, %memory, %bytes, %i, %to, %w0, %w1, %w2, %w3;
  .reg .b32 %step, %end, %own, %slot, %blocks, %groups, %warps, %parameters, %dynamic, %named, %waits;
  .reg .b32 %bx, %by, %bz, %threads, %gx, %gy, %gz, %stride;
  .reg .b32 %group, %inside, %block, %number, %wave, %shared, %name, %all, %x, %y, %z, %t;

  mov.u32 %thread, %tid.x;
  and.b32 %lane, %thread, 31;
  shr.u32 %warp, %thread, 5;
  mov.u32 %cta, $CTA;
  mov.u32 %memory, pergola_fused_memory;
  mov.u32 %slot, pergola_task_slots;
  mad.lo.u32 %slot, %warp, 112, %slot;
  ld.param.u64 %from, [table];
  ld.param.u32 %bytes, [table_bytes];
  ld.param.u32 %end, [steps];
  mad.lo.u32 %end, %end, 64, %memory;
  add.u32 %own, %bytes, 255;
  and.b32 %own, %own, -256;
  add.u32 %own, %own, %memory;
  shl.b32 %i, %thread, 4;
$copy:
  setp.ge.u32 %p, %i, %bytes;
  @%p bra $copied;
  cvt.u64.u32 %wide, %i;
  add.u64 %at, %from, %wide;
  ld.global.v4.u32 {%w0, %w1, %w2, %w3}, [%at];
  add.u32 %to, %memory, %i;
  st.shared.v4.u32 [%to], {%w0, %w1, %w2, %w3};
  add.u32 %i, %i, $COPIED;
  bra $copy;
$copied:
  barrier.sync 0;
  mov.u32 %step, %memory;

$next_step:
  setp.ge.u32 %p, %step, %end;
  @%p bra $all_done;
  ld.shared.v4.u32 {%pergola_body, %blocks, %groups, %warps}, [%step];
  ld.shared.v4.u32 {%bx, %by, %bz, %threads}, [%step+16];
  ld.shared.v4.u32 {%gx, %gy, %gz, %stride}, [%step+32];
  ld.shared.v4.u32 {%parameters, %dynamic, %named, %waits}, [%step+48];
  add.u32 %parameters, %parameters, %memory;
$BARRIER
  mov.u32 %group, %warp;
  mov.u32 %inside, 0;
  setp.eq.u32 %p, %warps, 1;
  @%p bra $single;
  div.u32 %group, %warp, %warps;
  mul.lo.u32 %t, %group, %warps;
  sub.u32 %inside, %warp, %t;
$single:
  setp.ge.u32 %p, %group, %groups;
  @%p bra $step_done;
  mad.lo.u32 %block, %group, $C, %cta;
  mul.lo.u32 %wave, %groups, $C;
  mad.lo.u32 %shared, %group, %stride, %own;
  mul.lo.u32 %name, %group, %named;
  setp.ne.u32 %p, %named, 0;
  @%p add.u32 %name, %name, 1;
  shl.b32 %all, %warps, 5;

$next_block:
  setp.ge.u32 %p, %block, %blocks;
  @%p bra $step_done;
  setp.ne.u32 %p, %lane, 0;
  @%p bra $placed;
$NUMBER
  mov.u32 %x, %number;
  mov.u32 %y, 0;
  mov.u32 %z, 0;
  mul.lo.u32 %t, %gy, %gz;
  setp.eq.u32 %p, %t, 1;
  @%p bra $flat;
  div.u32 %t, %number, %gx;
  mul.lo.u32 %y, %t, %gx;
  sub.u32 %x, %number, %y;
  div.u32 %z, %t, %gy;
  mul.lo.u32 %y, %z, %gy;
  sub.u32 %y, %t, %y;
$flat:
  st.shared.v4.u32 [%slot], {%bx, %by, %bz, %threads};
  st.shared.v4.u32 [%slot+16], {%x, %y, %z, %inside};
  st.shared.v4.u32 [%slot+32], {%gx, %gy, %gz, %shared};
  mov.u32 %t, 0;
  st.shared.v4.u32 [%slot+48], {%parameters, %t, %t, %name};
  sub.u32 %x, %step, %memory;
  shr.u32 %x, %x, 6;
  st.shared.v4.u32 [%slot+64], {%x, %t, %dynamic, %t};
  st.shared.u32 [%slot+80], %t;
$placed:
  bar.warp.sync -1;
  call pergola_run_body;
  bar.warp.sync -1;
  add.u32 %block, %block, %wave;
  setp.eq.u32 %p, %warps, 1;
  @%p bra $next_block;
  setp.ge.u32 %p, %block, %blocks;
  @%p bra $step_done;
  barrier.sync %name, %all;
  bra $next_block;

$step_done:
  add.u32 %step, %step, 64;
  bra $next_step;
$all_done:
  ret;
}
)";

// Warps of one block share its memory and its named barriers from step to step, so they meet in any case.
constexpr std::string_view kOfBlock = "  barrier.sync 0;\n";
constexpr std::string_view kOfCluster = R"(
  setp.eq.u32 %p, %waits, 0;
  @%p bra $alone;
  barrier.cluster.arrive.release;
  barrier.cluster.wait.acquire;
  bra $met;
$alone:
  barrier.sync 0;
$met:
)";

// Of a block of a step its number in the launch's grid, from its number among those that this block runs.
constexpr std::string_view kOfGrid = "  mov.u32 %number, %block;";
constexpr std::string_view kOfAdjacent =
    "  mov.u32 %number, %ctaid.x;\n  mad.lo.u32 %number, %number, %blocks, %block;";
constexpr std::string_view kOfStrided =
    "  mov.u32 %number, %nctaid.x;\n  mov.u32 %t, %ctaid.x;\n  mad.lo.u32 %number, %number, %block, %t;";

std::string with(std::string text, std::string_view word, std::string_view by) {
  for (std::size_t at = 0; (at = text.find(word, at)) != std::string::npos; at += by.size())
    text.replace(at, word.size(), by);
  return text;
}

}  // namespace

TaskConfig fused_config(bool is_one_warp, std::vector<std::uint32_t> constant_lines) {
  TaskConfig config;
  config.most_threads = is_one_warp ? 32 : 1024;
  config.parameters = ptx::Space::kShared;
  config.target = "sm_80";
  config.is_one_warp = is_one_warp;
  config.constant_lines = std::move(constant_lines);
  return config;
}

Status can_be_fused(const TaskBody& body, bool is_one_warp) {
  if (is_one_warp || body.barriers.empty()) return {};
  if (body.named_barriers != 0 && body.named_barriers <= kFusedNamedBarriers) return {};
  return PERGOLA_ERROR(
      kUnsupported,
      "Kernel '{}' cannot be part of a fused kernel in blocks of several warps: its threads may return "
      "before a barrier, or it takes barriers from a register, and its barriers cannot be the "
      "hardware's.",
      body.kernel);
}

Result<ptx::Module> fused_chain(std::span<const TaskBody* const> bodies, const FusedShape& shape) {
  PERGOLA_CHECK(shape.blocks >= 1 && shape.blocks <= 8 && shape.warps >= 1 && shape.warps <= 32);
  PERGOLA_CHECK(!bodies.empty());
  const std::uint32_t threads = 32 * shape.warps;
  const bool in_columns = shape.columns != FusedColumns::kNone;
  PERGOLA_CHECK(!in_columns || shape.blocks == 1);
  const bool is_cluster = shape.blocks > 1;
  std::string text(kText);
  text = with(text, "$THREADS", std::to_string(threads));
  text = with(text, "$COPIED", std::to_string(threads * 16));
  text = with(text, "$CLUSTER",
              is_cluster ? fmt::format(".explicitcluster\n.reqnctapercluster {}, 1, 1", shape.blocks) : std::string());
  text = with(text, "$BARRIER", is_cluster ? kOfCluster : kOfBlock);
  text = with(text, "$CTA", in_columns ? "0" : "%ctaid.x");
  text = with(text, "$NUMBER",
              !in_columns                                ? kOfGrid
              : shape.columns == FusedColumns::kAdjacent ? kOfAdjacent
                                                         : kOfStrided);
  text = with(text, "$C", std::to_string(shape.blocks));
  if (is_cluster) text = with(text, "sm_80", "sm_90");
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(text, "the fused kernel"));
  PERGOLA_TRY(put_bodies(module, kFusedKernel, bodies));
  return module;
}

}  // namespace pergola::transform
