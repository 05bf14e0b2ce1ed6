// Statement by statement in the order of the text. What a body needs of its slot is loaded once, at its head, and only
// what it needs; a barrier is written out where it stands.
#include "src/transform/task_rewriter.h"

#include <algorithm>

#include "src/ptx/printer.h"
#include "src/ptx/semantics.h"
#include "src/transform/body_editor.h"
#include "src/transform/task_barriers.h"

namespace pergola::transform {
namespace {

using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Special;
using ptx::Type;

// A virtual register: its name, and the text that loads it.
struct Virtual {
  std::string name;
  Type type = Type::kB32;
  std::string text;
};

class TaskRewriter {
 public:
  TaskRewriter(const ptx::Function& function, const TaskPlan& plan, const LaneFlow* flow)
      : plan_(plan), flow_(flow), result_(function), editor_(result_) {
    const auto own = plan.shared_of_function.find(function.name);
    if (own != plan.shared_of_function.end()) own_shared_ = &own->second;
    for (char letter : {'x', 'y', 'z'}) axes_.push_back(letter);
    has_mbarrier_try_wait_ = arch_of(plan.config.target) >= 90;
    takes_parameter_address_ = is_entry() && names_parameter_as_value();
  }

  Result<ptx::Function> run() {
    Statements body = std::move(result_.body);
    result_.body.clear();
    if (is_entry()) PERGOLA_TRY(begin_entry());
    Statements out;
    for (std::uint32_t s = 0; s < body.size(); ++s) PERGOLA_TRY(statement(body[s], s, out));
    Statements head;
    for (const std::string& text : first_) PERGOLA_TRY(append(head, text));
    for (const std::string& text : head_) PERGOLA_TRY(append(head, text));
    if (is_entry() && plan_.config.fences) head.push_back({ptx::Label{kBeginLabel}, {}});
    if (is_entry()) PERGOLA_TRY(end_entry(out));
    result_.body = editor_.declarations();
    for (Statements* part : {&head, &out})
      for (ptx::Statement& added : *part) result_.body.push_back(std::move(added));
    return std::move(result_);
  }

 private:
  static int arch_of(std::string_view target) {
    int arch = 0;
    for (const char c : target)
      if (c >= '0' && c <= '9') arch = arch * 10 + (c - '0');
    return arch;
  }

  bool is_entry() const { return flow_ != nullptr; }

  Error refuse(const ptx::Statement& at, std::string_view why) const {
    return PERGOLA_ERROR(kUnsupported,
                         "{}:{}:{}: Kernel '{}' cannot be a task: {}: `{}`. Launch it as an ordinary kernel.",
                         plan_.module->source_name, at.location.line, at.location.column, plan_.entry->name, why,
                         ptx::print(*at.instruction(), result_));
  }

  Status append(Statements& to, std::string_view text, std::span<const BodyEditor::Argument> arguments = {},
                ptx::Location location = {}) {
    PERGOLA_ASSIGN(Statements added, editor_.statements(text, arguments, location));
    for (ptx::Statement& statement : added) to.push_back(std::move(statement));
    return {};
  }

  // ---- Values from the slot

  ptx::RegisterId slot() {
    if (std::find(known_.begin(), known_.end(), kSlotName) == known_.end()) {
      known_.push_back(kSlotName);
      editor_.declare(kSlotName, Type::kB32);
      first_.insert(first_.begin(), fmt::format(".reg .b32 %pg_slots;\nmov.u32 {0}, %tid.x;\nshr.u32 {0}, {0}, 5;\n"
                                                "mov.u32 %pg_slots, {1};\nmad.lo.u32 {0}, {0}, {2}, %pg_slots;\n",
                                                kSlotName, kTaskSlotsName, sizeof(abi::TaskSlot)));
    }
    return editor_.declare(kSlotName, Type::kB32);
  }

  // The register of that name, loaded at the head by `text` where it is new.
  Operand value(const std::string& name, Type type, const std::string& text) {
    slot();
    const ptx::RegisterId id = editor_.declare(name, type);
    if (std::find(known_.begin(), known_.end(), name) == known_.end()) {
      known_.push_back(name);
      head_.push_back(text);
    }
    return Operand::make_register(id);
  }

  Operand field(const std::string& name, std::size_t offset, Type type = Type::kB32) {
    const char* load = type == Type::kB64 ? "ld.shared.u64" : "ld.shared.u32";
    return value(name, type, fmt::format("{} {}, [{}+{}];\n", load, name, kSlotName, offset));
  }

  // The thread's number in its block, x fastest.
  void need_linear() {
    value("%pergola_linear", Type::kB32,
          fmt::format(".reg .b32 %pg_lane;\nld.shared.u32 %pergola_linear, [{}+{}];\nmov.u32 %pg_lane, %laneid;\n"
                      "mad.lo.u32 %pergola_linear, %pergola_linear, 32, %pg_lane;\n",
                      kSlotName, offsetof(abi::TaskSlot, warp)));
  }

  Operand thread_index(int axis) {
    need_linear();
    field(kThreadsName, offsetof(abi::TaskSlot, threads));
    for (const char letter : axes_) editor_.declare(fmt::format("%pergola_tid_{}", letter), Type::kB32);
    value(
        "%pergola_tid_x", Type::kB32,
        fmt::format(R"(
        .reg .b32 %pg_x, %pg_y, %pg_row; .reg .pred %pg_flat;
        mov.u32 %pergola_tid_x, %pergola_linear;
        mov.u32 %pergola_tid_y, 0;
        mov.u32 %pergola_tid_z, 0;
        ld.shared.u32 %pg_x, [{slot}+{x}];
        setp.eq.u32 %pg_flat, %pg_x, {threads};
        @%pg_flat bra $pergola_flat_#;
        ld.shared.u32 %pg_y, [{slot}+{y}];
        div.u32 %pg_row, %pergola_linear, %pg_x;
        mul.lo.u32 %pg_x, %pg_row, %pg_x;
        sub.u32 %pergola_tid_x, %pergola_linear, %pg_x;
        div.u32 %pergola_tid_z, %pg_row, %pg_y;
        mul.lo.u32 %pg_y, %pergola_tid_z, %pg_y;
        sub.u32 %pergola_tid_y, %pg_row, %pg_y;
      $pergola_flat_#:
)",
                    fmt::arg("slot", kSlotName), fmt::arg("threads", kThreadsName),
                    fmt::arg("x", offsetof(abi::TaskSlot, block_x)), fmt::arg("y", offsetof(abi::TaskSlot, block_y))));
    return Operand::make_register(editor_.declare(fmt::format("%pergola_tid_{}", axes_[axis]), Type::kB32));
  }

  // What stands for a special register; none where the warp's own will do.
  std::optional<Operand> special(const Operand& operand) {
    const auto axis = static_cast<std::size_t>(std::max<int>(operand.component, 0));
    const auto of_axis = [&](const char* name, std::size_t offset) {
      return field(fmt::format("%pergola_{}_{}", name, axes_[axis]), offset + 4 * axis);
    };
    switch (operand.special) {
      case Special::kTid: return thread_index(static_cast<int>(axis));
      case Special::kNtid: return of_axis("ntid", offsetof(abi::TaskSlot, block_x));
      case Special::kCtaid: return of_axis("ctaid", offsetof(abi::TaskSlot, index_x));
      case Special::kNctaid: return of_axis("nctaid", offsetof(abi::TaskSlot, grid_x));
      case Special::kWarpid: return field("%pergola_warpid", offsetof(abi::TaskSlot, warp));
      case Special::kGridid: return field("%pergola_gridid", offsetof(abi::TaskSlot, task_id), Type::kB64);
      case Special::kNwarpid:
        field(kThreadsName, offsetof(abi::TaskSlot, threads));
        return value("%pergola_nwarpid", Type::kB32,
                     fmt::format("add.u32 %pergola_nwarpid, {}, 31;\nshr.u32 %pergola_nwarpid, %pergola_nwarpid, 5;\n",
                                 kThreadsName));
      case Special::kDynamicSmemSize:
        return field("%pergola_dynamic_smem", offsetof(abi::TaskSlot, dynamic_shared_bytes));
      case Special::kTotalSmemSize:
        field("%pergola_dynamic_smem", offsetof(abi::TaskSlot, dynamic_shared_bytes));
        return value(
            "%pergola_total_smem", Type::kB32,
            fmt::format("add.u32 %pergola_total_smem, %pergola_dynamic_smem, {};\n", plan_.static_shared_bytes));
      default: return std::nullopt;
    }
  }

  Operand shared_base() { return field("%pergola_shared", offsetof(abi::TaskSlot, shared_base)); }
  Operand shared_base_64() {
    shared_base();
    return value("%pergola_shared_64", Type::kB64, "cvt.u64.u32 %pergola_shared_64, %pergola_shared;\n");
  }
  Operand parameters() { return field(kParametersName, offsetof(abi::TaskSlot, parameters), Type::kB64); }

  // Whether a variable of the scopes around the statement has that name.
  bool is_hidden(const std::string& name) const {
    for (const auto& scope : hidden_)
      if (std::find(scope.begin(), scope.end(), name) != scope.end()) return true;
    return false;
  }

  std::optional<std::uint32_t> shared_offset(const Operand& operand) const {
    if (operand.kind != Operand::Kind::kSymbol || is_hidden(operand.name)) return std::nullopt;
    if (own_shared_ != nullptr)
      if (const auto it = own_shared_->find(operand.name); it != own_shared_->end()) return it->second;
    if (const auto it = plan_.shared.find(operand.name); it != plan_.shared.end()) return it->second;
    return std::nullopt;
  }

  std::optional<std::uint32_t> parameter_offset(const Operand& operand) const {
    if (!is_entry() || operand.kind != Operand::Kind::kSymbol || is_hidden(operand.name)) return std::nullopt;
    for (const ptx::Parameter& parameter : plan_.signature.parameters)
      if (parameter.name == operand.name) return parameter.offset_bytes;
    return std::nullopt;
  }

  bool names_parameter_as_value() const {
    for (const ptx::Statement& statement : result_.body)
      if (const Instruction* in = statement.instruction())
        for (const Operand& operand : in->operands)
          if (parameter_offset(operand)) return true;
    return false;
  }

  // ---- Statements

  Status statement(ptx::Statement& at, std::uint32_t index, Statements& out) {
    if (const auto* variable = std::get_if<ptx::Variable>(&at.node)) {
      if (variable->space == ptx::Space::kShared) return {};
      hidden_.back().push_back(variable->name);
    }
    if (std::holds_alternative<ptx::ScopeBegin>(at.node)) hidden_.emplace_back();
    if (std::holds_alternative<ptx::ScopeEnd>(at.node)) hidden_.pop_back();
    Instruction* in = at.instruction();
    if (in == nullptr) {
      // The rest of a .loc names labels of debug sections, which a task's module has not.
      if (auto* line = std::get_if<ptx::LocDirective>(&at.node)) line->rest.clear();
      out.push_back(std::move(at));
      return {};
    }
    if (is_entry() && !plan_.is_ragged) PERGOLA_TRY(note_leaving(*in, index, out));
    if (is_block_barrier(*in)) return barrier(at, out);
    PERGOLA_TRY(member_mask(at, out));
    PERGOLA_TRY(operands(at, out));
    out.push_back(std::move(at));
    return {};
  }

  // The lanes that stay say so before the branch.
  Status note_leaving(const Instruction& branch, std::uint32_t index, Statements& out) {
    const auto leaving = flow_->leaving.find(index);
    if (leaving == flow_->leaving.end()) return {};
    Operand stays = Operand::make_register(branch.guard.predicate);
    stays.negated = branch.guard.negated == leaving->second;
    editor_.declare(kLiveName, Type::kB32);
    const BodyEditor::Argument arguments[] = {{"%stays", Type::kPred, stays}};
    PERGOLA_TRY(
        append(out, fmt::format("vote.sync.ballot.b32 {0}, %stays, {0};\n", kLiveName), arguments, branch.location));
    if (plan_.callees_meet)
      PERGOLA_TRY(append(
          out, fmt::format("st.shared.u32 [{}+{}], {};\n", kSlotName, offsetof(abi::TaskSlot, live), kLiveName)));
    return {};
  }

  // Text that sets %pergola_live to the lanes that meet: those left of `mask`.
  std::string gather() {
    slot();
    editor_.declare(kLiveName, Type::kB32);
    if (!plan_.is_ragged)
      return is_entry()
                 ? ""
                 : fmt::format("ld.shared.u32 {}, [{}+{}];\n", kLiveName, kSlotName, offsetof(abi::TaskSlot, live));
    // Nobody goes on before all lanes that have not returned are here; then none of them can return.
    return fmt::format(R"(
    .reg .b32 %pg_bit, %pg_here; .reg .pred %pg_missing;
    mov.u32 %pg_bit, %lanemask_eq;
    atom.shared.or.b32 %pg_here, [{slot}+{here}], %pg_bit;
  $pergola_gather_#:
    ld.volatile.shared.u32 {live}, [{slot}+{left}];
    ld.volatile.shared.u32 %pg_here, [{slot}+{here}];
    not.b32 %pg_here, %pg_here;
    and.b32 %pg_here, %pg_here, {live};
    setp.ne.u32 %pg_missing, %pg_here, 0;
    @%pg_missing bra $pergola_gather_#;
    bar.warp.sync {live};
    not.b32 %pg_bit, %pg_bit;
    atom.shared.and.b32 %pg_here, [{slot}+{here}], %pg_bit;
    bar.warp.sync {live};
)",
                       fmt::arg("slot", kSlotName), fmt::arg("live", kLiveName),
                       fmt::arg("here", offsetof(abi::TaskSlot, here)),
                       fmt::arg("left", offsetof(abi::TaskSlot, live)));
  }

  Status barrier(const ptx::Statement& at, Statements& out) {
    const Instruction& in = *at.instruction();
    BarrierUse use = take_apart(in);
    BarrierText text;
    text.form = use.form;
    text.is_aligned = use.is_aligned;
    text.has_count = use.count.has_value();
    text.has_guard = in.guard.present();
    text.kind = plan_.kinds.empty() ? TaskBarrierKind::kWord : plan_.kinds[0];
    std::vector<BodyEditor::Argument> arguments;
    if (use.id.kind == Operand::Kind::kInteger) {
      text.index = plan_.barriers.at(static_cast<std::uint32_t>(use.id.bits));
      text.kind = plan_.kinds[*text.index];
    } else {
      PERGOLA_TRY(operand(at, use.id, Type::kU32, out));
      arguments.push_back({"%id", Type::kU32, use.id});
    }
    if (use.count) {
      PERGOLA_TRY(operand(at, *use.count, Type::kU32, out));
      arguments.push_back({"%count", Type::kU32, *use.count});
    }
    const bool counts = use.form == BarrierUse::Form::kPopc;
    if (counts || use.form == BarrierUse::Form::kAnd || use.form == BarrierUse::Form::kOr) {
      arguments.push_back({"%pred", Type::kPred, use.predicate});
      arguments.push_back({"%out", counts ? Type::kU32 : Type::kPred, use.result});
    }
    if (text.has_guard) {
      Operand guard = Operand::make_register(in.guard.predicate);
      guard.negated = in.guard.negated;
      arguments.push_back({"%guard", Type::kPred, guard});
    }
    text.is_one_warp = plan_.config.is_one_warp;
    text.may_be_named = is_entry() && plan_.named_barriers != 0;
    if (text.may_be_named) field(kThreadsName, offsetof(abi::TaskSlot, threads));
    text.has_try_wait = has_mbarrier_try_wait_;
    text.gather = gather();
    return append(out, barrier_text(text), arguments, at.location);
  }

  static bool has_member_mask(const Instruction& in) {
    switch (in.op) {
      case Op::kShfl:
      case Op::kVote:
      case Op::kMatch:
      case Op::kRedux:
      case Op::kElect: return true;
      case Op::kBar:
      case Op::kBarrier: return in.has(Mod::kWarp);
      default: return false;
    }
  }

  Status member_mask(ptx::Statement& at, Statements& out) {
    Instruction& in = *at.instruction();
    if (!has_member_mask(in)) return {};
    Operand& mask = in.operands.back();
    const bool full = mask.kind == Operand::Kind::kInteger && static_cast<std::uint32_t>(mask.bits) == 0xffffffffu;
    if (plan_.is_ragged && (!full || in.guard.present()))
      return refuse(at,
                    "some of its lanes may return while others are inside a branch, and then only warp operations of "
                    "all lanes can "
                    "be told who is left");
    PERGOLA_TRY(append(out, gather(), {}, at.location));
    const Operand live = Operand::make_register(editor_.declare(kLiveName, Type::kB32));
    if (full) {
      mask = live;
      return {};
    }
    PERGOLA_TRY(operand(at, mask, Type::kB32, out));
    const Operand members = Operand::make_register(editor_.declare("%pergola_members", Type::kB32));
    const BodyEditor::Argument arguments[] = {{"%mask", Type::kB32, mask}};
    PERGOLA_TRY(append(out, fmt::format("and.b32 %pergola_members, %mask, {};\n", kLiveName), arguments, at.location));
    mask = members;
    return {};
  }

  // ---- Operands

  Status operands(ptx::Statement& at, Statements& out) {
    Instruction& in = *at.instruction();
    for (std::size_t i = 0; i < in.operands.size(); ++i) {
      if (in.op == Op::kMov && i == 1 && in.operands.size() == 2 && mov_source(in)) continue;
      if (in.op == Op::kCall && in.operands[i].kind != Operand::Kind::kTuple) continue;
      if (in.operands[i].kind == Operand::Kind::kAddress)
        PERGOLA_TRY(address(at, in.operands[i], out));
      else
        PERGOLA_TRY(operand(at, in.operands[i], ptx::operand_type(in, i), out));
    }
    if (in.op == Op::kCvta && takes_parameter_address_) replace_param_space(in);
    return {};
  }

  // `mov d, x` becomes the one instruction that gives d; false where it is an ordinary mov.
  bool mov_source(Instruction& in) {
    Operand& source = in.operands[1];
    const bool wide = ptx::size_bytes(in.type()) == 8;
    std::optional<Operand> base;
    std::uint32_t offset = 0;
    if (const auto shared = shared_offset(source)) {
      base = wide ? shared_base_64() : shared_base();
      offset = *shared;
    } else if (const auto parameter = parameter_offset(source)) {
      base = parameters();
      offset = *parameter;
    } else if (source.kind == Operand::Kind::kSpecial) {
      const std::optional<Operand> found = special(source);
      if (!found) return false;
      const std::uint32_t have = ptx::size_bytes(result_.registers[found->reg].type), want = ptx::size_bytes(in.type());
      source = *found;
      if (have != want) {
        in.op = Op::kCvt;
        in.mods.clear();
        in.mods.push_back(want == 2 ? Mod::kU16 : want == 8 ? Mod::kU64 : Mod::kU32);
        in.mods.push_back(have == 8 ? Mod::kU64 : Mod::kU32);
      }
      return true;
    }
    if (!base) return false;
    const std::int64_t more = source.offset + offset;
    in.op = Op::kAdd;
    in.mods.clear();
    in.mods.push_back(wide ? Mod::kS64 : Mod::kS32);
    in.operands[1] = *base;
    in.operands.push_back(Operand::make_integer(more));
    return true;
  }

  Status address(const ptx::Statement& at, Operand& operand_, Statements& out) {
    Instruction& in = const_cast<Instruction&>(*at.instruction());
    Operand& base = operand_.elements.at(0);
    if (const auto shared = shared_offset(base)) {
      if (in.space() == ptx::Space::kNone && in.op != Op::kCp)
        return refuse(at, fmt::format("it addresses shared array '{}' without .shared", base.name));
      operand_.offset += *shared + base.offset;
      base = shared_base();
    } else if (const auto parameter = parameter_offset(base)) {
      operand_.offset += *parameter + base.offset;
      base = parameters();
      replace_param_space(in);
    } else if (base.kind == Operand::Kind::kRegister && takes_parameter_address_ && in.space() == ptx::Space::kParam) {
      replace_param_space(in);
    } else if (base.kind == Operand::Kind::kSpecial) {
      PERGOLA_TRY(operand(at, base, Type::kU32, out));
    }
    for (std::size_t i = 1; i < operand_.elements.size(); ++i)
      PERGOLA_TRY(operand(at, operand_.elements[i], Type::kU32, out));
    return {};
  }

  void replace_param_space(Instruction& in) const {
    for (Mod& mod : in.mods)
      if (ptx::space_of(mod) == ptx::Space::kParam)
        mod = plan_.config.parameters == ptx::Space::kShared ? Mod::kShared : Mod::kGlobal;
  }

  // A value operand anywhere else: its special registers and symbols become registers.
  Status operand(const ptx::Statement& at, Operand& value_, Type type, Statements& out) {
    for (Operand& element : value_.elements) PERGOLA_TRY(operand(at, element, type, out));
    if (value_.kind == Operand::Kind::kSpecial) {
      if (std::optional<Operand> found = special(value_)) value_ = *found;
      return {};
    }
    const auto shared = shared_offset(value_);
    const auto parameter = parameter_offset(value_);
    if (!shared && !parameter) return {};
    const bool wide = parameter || ptx::size_bytes(type) != 4;
    const std::string name = wide ? "%pergola_address_64" : "%pergola_address";
    const Operand found = Operand::make_register(editor_.declare(name, wide ? Type::kB64 : Type::kB32));
    const Operand base = parameter ? parameters() : wide ? shared_base_64() : shared_base();
    const BodyEditor::Argument arguments[] = {
        {"%base", wide ? Type::kB64 : Type::kB32, base},
        {"%more", wide ? Type::kB64 : Type::kB32,
         Operand::make_integer(value_.offset + (parameter ? *parameter : *shared))}};
    PERGOLA_TRY(
        append(out, fmt::format("add.{} {}, %base, %more;\n", wide ? "s64" : "s32", name), arguments, at.location));
    value_ = found;
    return {};
  }

  // ---- The kernel's ends

  bool meets() const { return plan_.together.at(plan_.entry->name) != Together::kNo; }

  // Lanes that the block does not have go to the end at once; the others are the first who are live.
  Status begin_entry() {
    field(kThreadsName, offsetof(abi::TaskSlot, threads));
    need_linear();
    std::string text = fmt::format(".reg .pred %pg_none;\nsetp.ge.u32 %pg_none, %pergola_linear, {};\n", kThreadsName);
    if (meets()) {
      editor_.declare(kLiveName, Type::kB32);
      text += fmt::format(R"(
        .reg .b32 %pg_first, %pg_count;
        ld.shared.u32 %pg_first, [{slot}+{warp}];
        shl.b32 %pg_first, %pg_first, 5;
        sub.u32 %pg_count, {threads}, %pg_first;
        min.u32 %pg_count, %pg_count, 32;
        sub.u32 %pg_count, 32, %pg_count;
        mov.b32 {live}, -1;
        shr.u32 {live}, {live}, %pg_count;
)",
                          fmt::arg("slot", kSlotName), fmt::arg("live", kLiveName), fmt::arg("threads", kThreadsName),
                          fmt::arg("warp", offsetof(abi::TaskSlot, warp)));
      if (plan_.callees_meet || plan_.is_ragged)
        text += fmt::format("st.shared.u32 [{}+{}], {};\n", kSlotName, offsetof(abi::TaskSlot, live), kLiveName);
      if (plan_.is_ragged) text += "bar.warp.sync -1;\n";
    }
    head_.push_back(text + fmt::format("@%pg_none bra {};\n", kEndLabel));
    return {};
  }

  // A block ends with its copies, and its shared memory is another's then: a lane that returns waits for those it
  // began.
  Status end_entry(Statements& out) {
    if (plan_.copies_asynchronously) PERGOLA_TRY(append(out, "cp.async.wait_all;\n"));
    if (plan_.is_ragged) {
      std::string text = fmt::format(
          ".reg .b32 %pg_bit;\nmov.u32 %pg_bit, %lanemask_eq;\nnot.b32 %pg_bit, %pg_bit;\n"
          "red.shared.and.b32 [{}+{}], %pg_bit;\n",
          kSlotName, offsetof(abi::TaskSlot, live));
      PERGOLA_TRY(append(out, text));
    }
    PERGOLA_TRY(append(out, "bar.warp.sync -1;\n"));
    if (plan_.named_barriers == 0 && !plan_.kinds.empty() && !plan_.config.is_one_warp) PERGOLA_TRY(append_drops(out));
    return append(out, "ret;\n");
  }

  Status append_drops(Statements& out) {
    const BodyEditor::Argument follows[] = {
        {"%follows", Type::kPred, Operand::make_register(editor_.declare("%pergola_follows", Type::kPred))}};
    PERGOLA_TRY(append(out,
                       ".reg .b32 %pg_lane;\nmov.u32 %pg_lane, %laneid;\nsetp.ne.u32 %follows, %pg_lane, 0;\n"
                       "@%follows bra $pergola_left;\n",
                       follows));
    for (std::uint32_t index = 0; index < plan_.kinds.size(); ++index)
      if (plan_.without_count[index]) PERGOLA_TRY(append(out, drop_text(index, plan_.kinds[index])));
    return append(out, "$pergola_left:\n");
  }

  const TaskPlan& plan_;
  const LaneFlow* flow_;
  ptx::Function result_;
  BodyEditor editor_;
  const std::map<std::string, std::uint32_t, std::less<>>* own_shared_ = nullptr;
  std::vector<char> axes_;
  std::vector<std::string> known_, first_, head_;    // registers that are loaded; texts of the head, in order
  std::vector<std::vector<std::string>> hidden_{1};  // by open scope: names of variables that are declared there
  bool has_mbarrier_try_wait_ = true;
  bool takes_parameter_address_ = false;
};

}  // namespace

void end_at_label(ptx::Function& function) {
  for (ptx::Statement& statement : function.body) {
    Instruction* in = statement.instruction();
    if (in == nullptr || (in->op != Op::kRet && in->op != Op::kExit)) continue;
    in->op = Op::kBra;
    in->mods.clear();
    in->operands.clear();
    in->operands.push_back(Operand::make_label(kEndLabel));
  }
  function.body.push_back({ptx::Label{kEndLabel}, function.location});
}

Result<ptx::Function> rewrite_for_task(const ptx::Function& function, const TaskPlan& plan, const LaneFlow* flow) {
  return TaskRewriter(function, plan, flow).run();
}

}  // namespace pergola::transform
