// Checks stand before the accesses, cold paths behind the body's last statement; those of a statement in a scope of its
// own, whose labels nothing outside can name, beside it.
#include "src/transform/fence_accesses.h"

#include <algorithm>
#include <map>
#include <set>

#include "src/abi/task_fence.h"
#include "src/analysis/cfg.h"
#include "src/ptx/semantics.h"
#include "src/ptx/source_place.h"
#include "src/transform/body_editor.h"
#include "src/transform/fence_groups.h"
#include "src/transform/fence_hoist.h"
#include "src/transform/fence_roots.h"
#include "src/transform/task_barriers.h"
#include "src/transform/task_rewriter.h"

namespace pergola::transform {
namespace {

using ptx::Instruction;
using ptx::Op;
using ptx::Operand;
using ptx::Type;

constexpr std::uint32_t kMostSites = 1u << 20;
constexpr char kCheckedLabel[] = "$pergola_checked", kKnownSuffix[] = "_known";  // of labels in the other copy
// Roots whose last granule is remembered, two registers each; at first one that no address has.
constexpr std::size_t kMostRemembered = 6;
constexpr std::uint32_t kNoGranuleLow = 0x5a5a0000, kNoGranuleHigh = 0xa5a5a5a5;

// Statements of blocks that can be reached from themselves.
std::vector<bool> statements_in_loops(const analysis::Cfg& cfg, std::size_t statements) {
  std::vector<bool> loops(statements);
  for (std::uint32_t from = 0; from < cfg.blocks.size(); ++from) {
    std::vector<bool> seen(cfg.blocks.size());
    std::vector<std::uint32_t> next(cfg.blocks[from].successors.begin(), cfg.blocks[from].successors.end());
    while (!next.empty() && !seen[from]) {
      const std::uint32_t at = next.back();
      next.pop_back();
      if (seen[at]) continue;
      seen[at] = true;
      next.insert(next.end(), cfg.blocks[at].successors.begin(), cfg.blocks[at].successors.end());
    }
    if (seen[from])
      for (const std::uint32_t s : cfg.blocks[from].statements) loops[s] = true;
  }
  return loops;
}

bool calls_assert(const Instruction& in) {
  return in.op == Op::kCall && std::any_of(in.operands.begin(), in.operands.end(),
                                           [](const Operand& operand) { return operand.name == "__assertfail"; });
}

std::string spell(const Instruction& in) {
  std::string text(ptx::spelling(in.op));
  for (const ptx::Mod mod : in.mods) (text += '.') += ptx::spelling(mod);
  return text;
}

// What an assert says: the strings and the number that its call is given, where they can be found.
class AssertText {
 public:
  AssertText(const ptx::Module& module, const ptx::Function& function) : module_(module), function_(function) {}

  // `call` is the statement; its arguments are stored in the scope it stands in.
  std::string of(std::size_t call) const {
    std::vector<std::string> given;
    for (std::size_t s = call; s-- > 0;) {
      if (std::holds_alternative<ptx::ScopeBegin>(function_.body[s].node)) break;
      const Instruction* in = function_.body[s].instruction();
      if (in != nullptr && in->op == Op::kSt && in->space() == ptx::Space::kParam)
        given.insert(given.begin(), value(in->operands.at(1)));
    }
    if (given.size() < 3 || given[0].empty()) return "";
    return fmt::format("`{}`{}", given[0],
                       given[1].empty() || given[2].empty() ? "" : fmt::format(" at {}:{}", given[1], given[2]));
  }

 private:
  std::string value(const Operand& operand, int depth = 0) const {
    if (operand.kind == Operand::Kind::kInteger) return fmt::format("{}", operand.bits);
    if (operand.kind == Operand::Kind::kSymbol) return string_of(operand.name);
    if (operand.kind != Operand::Kind::kRegister || depth == 4) return "";
    for (const ptx::Statement& statement : function_.body) {
      const Instruction* in = statement.instruction();
      if (in != nullptr && (in->op == Op::kMov || in->op == Op::kCvta) && in->operands.size() == 2 &&
          in->operands[0] == operand)
        return value(in->operands[1], depth + 1);
    }
    return "";
  }
  std::string string_of(const std::string& name) const {
    const ptx::Variable* variable = module_.find_variable(name);
    std::string text;
    if (variable != nullptr)
      for (const ptx::Initializer& byte : variable->initializers) {
        if (byte.kind != ptx::Initializer::Kind::kBits || byte.bits == 0 || byte.bits > 126) break;
        text += static_cast<char>(byte.bits);
      }
    return text;
  }

  const ptx::Module& module_;
  const ptx::Function& function_;
};

class Fencer {
 public:
  Fencer(ptx::Function& function, const FenceTarget& target, std::vector<FenceSite>& sites, FenceCounts& counts)
      : function_(function), target_(target), sites_(sites), counts_(counts), editor_(function) {}

  Status run() {
    PERGOLA_ASSIGN(const analysis::Cfg cfg, analysis::build_cfg(function_));
    groups_ = fence_groups(function_, cfg, target_.config.merges, where_lanes_may_leave(cfg));
    if (sites_.size() + 2 * function_.body.size() > kMostSites)
      return PERGOLA_ERROR(kUnsupported, "Function '{}' has {} statements, too many to fence.", function_.name,
                           function_.body.size());
    for (std::size_t n = 0; n < groups_.size(); ++n) {
      first_.emplace(groups_[n].accesses.front().statement, n);
      for (const FencedAccess& access : groups_[n].accesses) {
        group_of_.emplace(access.statement, n);
        spelled_.emplace(access.statement, site_of(access, *function_.body[access.statement].instruction()));
      }
    }
    PERGOLA_TRY(remember_granules(cfg));
    const std::optional<FenceHoist> hoist = hoist_of(cfg);
    const bool votes = hoist && register_of_name(kLiveName);
    Statements body = std::move(function_.body);
    function_.body.clear();
    find_asserts(body);
    if (hoist)
      PERGOLA_TRY(both_versions(body, *hoist, votes));
    else
      PERGOLA_TRY(statements(body, 0, body.size()));
    if (!cold_.empty()) {
      PERGOLA_TRY(append(out_, "ret;\n"));  // a body's own, or the one that it lacks
      for (ptx::Statement& one : cold_) out_.push_back(std::move(one));
    }
    function_.body = editor_.declarations();
    for (ptx::Statement& one : out_) function_.body.push_back(std::move(one));
    return {};
  }

 private:
  // Blocks from which no collective can be reached; those of the epilogue are of all lanes.
  std::vector<bool> where_lanes_may_leave(const analysis::Cfg& cfg) const {
    std::vector<bool> reaches(cfg.blocks.size(), target_.end == nullptr);
    if (target_.end == nullptr || target_.may_always_leave) {
      reaches.flip();
      if (target_.end == nullptr) reaches.assign(reaches.size(), false);
      return reaches;
    }
    const std::uint32_t end = cfg.block_of_label.at(target_.end);
    for (std::size_t b = 0; b < reaches.size(); ++b)
      for (const std::uint32_t s : cfg.blocks[b].statements)
        if (b < end && target_.together(*function_.body[s].instruction()) != Together::kNo) reaches[b] = true;
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t b = 0; b < end; ++b) {
        if (reaches[b]) continue;
        for (const std::uint32_t next : cfg.blocks[b].successors)
          if (reaches[next]) reaches[b] = changed = true;
      }
    }
    reaches.flip();
    return reaches;
  }

  Status append(Statements& to, std::string_view text, std::span<const BodyEditor::Argument> arguments = {},
                ptx::Location location = {}) {
    PERGOLA_ASSIGN(Statements added, editor_.statements(text, arguments, location));
    for (ptx::Statement& one : added) to.push_back(std::move(one));
    return {};
  }

  // ---- The two versions of a body (fence_hoist.h)

  static std::size_t place_of_label(const Statements& body, std::string_view name) {
    const auto found = std::find_if(body.begin(), body.end(), [&](const ptx::Statement& at) {
      const auto* label = std::get_if<ptx::Label>(&at.node);
      return label != nullptr && label->name == name;
    });
    return static_cast<std::size_t>(found - body.begin());
  }

  std::optional<ptx::RegisterId> register_of_name(std::string_view name) const {
    for (ptx::RegisterId id = 0; id < function_.registers.size(); ++id)
      if (function_.registers[id].name == name) return id;
    return std::nullopt;
  }

  // Lanes that meet others must go the same way: a ragged kernel does not know which there are.
  std::optional<FenceHoist> hoist_of(const analysis::Cfg& cfg) const {
    if (target_.end == nullptr || target_.may_always_leave || !target_.config.hoists) return std::nullopt;
    const std::size_t begin = place_of_label(function_.body, kBeginLabel);
    if (begin == function_.body.size() || (meets() && !register_of_name(kLiveName))) return std::nullopt;
    return hoist_checks(function_, cfg, groups_, target_.config, static_cast<std::uint32_t>(begin));
  }

  bool meets() const {
    const std::size_t end = place_of_label(function_.body, target_.end);
    return std::any_of(function_.body.begin(), function_.body.begin() + static_cast<std::ptrdiff_t>(end),
                       [&](const ptx::Statement& at) {
                         const Instruction* in = at.instruction();
                         return in != nullptr && target_.together(*in) != Together::kNo;
                       });
  }

  // `head; @!known bra checked; body without checks; bra end; checked: body with them; end:`
  Status both_versions(Statements& body, const FenceHoist& hoist, bool votes) {
    const std::size_t begin = place_of_label(body, kBeginLabel), end = place_of_label(body, target_.end);
    Statements copy(begin);  // statements keep their places
    copy.insert(copy.end(), body.begin() + static_cast<std::ptrdiff_t>(begin),
                body.begin() + static_cast<std::ptrdiff_t>(end));
    rename_labels(copy);
    PERGOLA_TRY(statements(body, 0, begin));
    editor_.declare("%pergola_fence_known", Type::kPred);
    std::vector<BodyEditor::Argument> arguments;
    for (const auto& [name, id] : hoist.arguments)
      arguments.push_back({name, function_.registers[id].type, Operand::make_register(id)});
    std::string text = hoist.text;
    if (votes) {
      text += "vote.sync.all.pred %pergola_fence_known, %pergola_fence_known, %live;\n";
      arguments.push_back({"%live", Type::kB32, Operand::make_register(*register_of_name(kLiveName))});
    }
    PERGOLA_TRY(append(out_, text + fmt::format("@!%pergola_fence_known bra {};\n", kCheckedLabel), arguments));
    const FenceCounts before = counts_;
    is_known_ = hoist.is_known;
    PERGOLA_TRY(statements(copy, begin, end));
    PERGOLA_TRY(append(out_, fmt::format("bra {};\n", target_.end)));
    out_.push_back({ptx::Label{kCheckedLabel}, {}});
    is_known_.clear();
    counts_ = before;
    counts_.hoisted = static_cast<std::uint32_t>(std::count(hoist.is_known.begin(), hoist.is_known.end(), true));
    counts_.hoisted_instructions = hoist.instructions;
    declares_ = false;  // the first copy has
    PERGOLA_TRY(statements(body, begin, end));
    declares_ = true;
    return statements(body, end, body.size());
  }

  static void rename_labels(Statements& body) {
    std::set<std::string> labels;
    for (const ptx::Statement& at : body)
      if (const auto* label = std::get_if<ptx::Label>(&at.node)) labels.insert(label->name);
    for (ptx::Statement& at : body) {
      if (auto* label = std::get_if<ptx::Label>(&at.node)) label->name += kKnownSuffix;
      if (Instruction* in = at.instruction())
        for (Operand& operand : in->operands)
          if (operand.kind == Operand::Kind::kLabel && labels.contains(operand.name)) operand.name += kKnownSuffix;
    }
  }

  Status statements(Statements& body, std::size_t from, std::size_t to) {
    int depth = 0;
    for (std::size_t s = from; s < to; ++s) {
      if (std::holds_alternative<ptx::ScopeBegin>(body[s].node)) ++depth;
      if (std::holds_alternative<ptx::ScopeEnd>(body[s].node)) --depth;
      is_nested_ = depth > 0;
      const bool is_declaration = std::holds_alternative<ptx::RegisterDecl>(body[s].node) ||
                                  std::holds_alternative<ptx::Variable>(body[s].node);
      if (!is_nested_ && !declares_ && is_declaration) continue;
      PERGOLA_TRY(statement(static_cast<std::uint32_t>(s), body[s]));
    }
    return {};
  }

  // ---- Asserts and traps

  // A failed assert's call goes, with what it stores for it.
  void find_asserts(Statements& body) {
    if (target_.end == nullptr) return;
    function_.body = body;  // for AssertText
    const AssertText text(target_.module, function_);
    for (std::size_t s = 0; s < body.size(); ++s) {
      Instruction* call = body[s].instruction();
      if (call == nullptr || !calls_assert(*call) || s + 1 == body.size() || body[s + 1].instruction() == nullptr ||
          body[s + 1].instruction()->op != Op::kTrap)
        continue;
      asserts_.emplace(s + 1, text.of(s));
      body[s].node = ptx::LocDirective{};
      gone_.push_back(s);
      for (std::size_t before = s; before-- > 0;) {
        if (std::holds_alternative<ptx::ScopeBegin>(body[before].node)) break;
        const Instruction* in = body[before].instruction();
        const auto* variable = std::get_if<ptx::Variable>(&body[before].node);
        if ((in != nullptr && in->op == Op::kSt && in->space() == ptx::Space::kParam) ||
            (variable != nullptr && variable->space == ptx::Space::kParam))
          gone_.push_back(before);
      }
    }
    function_.body.clear();
    std::sort(gone_.begin(), gone_.end());
  }

  Status statement(std::uint32_t s, ptx::Statement& at) {
    if (std::binary_search(gone_.begin(), gone_.end(), s)) return {};
    const Instruction* in = at.instruction();
    if (in != nullptr && in->op == Op::kTrap && target_.end != nullptr && !in->guard.present()) return trap(s, *in);
    const auto group = group_of_.find(s);
    const bool is_checked = group != group_of_.end() && (is_known_.empty() || !is_known_[group->second]);
    if (const auto first = first_.find(s); is_checked && first != first_.end())
      PERGOLA_TRY(checks(groups_[first->second], at));
    if (!is_checked) {
      out_.push_back(std::move(at));
      return {};
    }
    if (const auto stands_in = stand_ins_.find(group->second); stands_in != stand_ins_.end())
      for (const FencedAccess& access : groups_[group->second].accesses)
        if (access.statement == s)
          at.instruction()->operands[access.operand].elements[0] = Operand::make_register(stands_in->second);
    if (is_predicated(groups_[group->second]))
      at.instruction()->guard = {editor_.declare("%pergola_fence_bad", Type::kPred), true};
    out_.push_back(std::move(at));
    if (!after_.empty()) out_.push_back({ptx::Label{std::exchange(after_, "")}, {}});
    return {};
  }

  Status trap(std::uint32_t s, const Instruction& in) {
    FenceSite site;
    site.kind = FenceSite::Kind::kTrap;
    site.place = ptx::source_place(target_.module, in);
    site.instruction = "trap";
    if (const auto found = asserts_.find(s); found != asserts_.end()) {
      site.kind = FenceSite::Kind::kAssert;
      site.instruction = "assert";
      site.text = found->second;
    }
    declare();
    const BodyEditor::Argument arguments[] = {{"%at", Type::kB64, Operand::make_integer(0)}};
    const std::string told = label("told");
    PERGOLA_TRY(append(out_, note_text(add(std::move(site)), told), arguments, in.location));
    out_.push_back({ptx::Label{told}, {}});
    return append(out_, fmt::format("bra {};\n", target_.end), {}, in.location);
  }

  // ---- Checks

  void declare() {
    for (const char* name : {"%pergola_fence_a", "%pergola_fence_x", "%pergola_fence_t"})
      editor_.declare(name, Type::kB64);
    for (const char* name : {"%pergola_fence_i", "%pergola_fence_g", "%pergola_fence_lo", "%pergola_fence_hi"})
      editor_.declare(name, Type::kB32);
    editor_.declare("%pergola_fence_bad", Type::kPred);
  }

  std::string label(std::string_view what) const { return fmt::format("$pergola_fence_{}_{}", what, labels_); }

  std::size_t add(FenceSite site) {
    sites_.push_back(std::move(site));
    ++labels_;
    return sites_.size() - 1;
  }

  FenceSite site_of(const FencedAccess& access, const Instruction& in) const {
    FenceSite site;
    site.kind = access.kind;
    site.bytes = access.bytes;
    site.place = ptx::source_place(target_.module, in);
    site.instruction = spell(in);
    return site;
  }

  // Which groups ask the granule of their root first: where it is asked more than once.
  Status remember_granules(const analysis::Cfg& cfg) {
    FenceRoots roots(function_);
    std::map<ptx::RegisterId, std::vector<std::size_t>> of_root;
    for (std::size_t n = 0; n < groups_.size(); ++n)
      if (groups_[n].base.kind == Operand::Kind::kRegister) of_root[roots.root(groups_[n].base.reg)].push_back(n);
    const std::vector<bool> loops = statements_in_loops(cfg, function_.body.size());
    std::vector<std::vector<std::size_t>> again;
    for (auto& [root, groups] : of_root)
      if (groups.size() > 1 || loops[groups_[groups[0]].accesses[0].statement]) again.push_back(std::move(groups));
    std::sort(again.begin(), again.end(), [](const auto& a, const auto& b) {
      return a.size() != b.size() ? a.size() > b.size() : a.front() < b.front();
    });
    for (std::size_t n = 0; n < std::min(again.size(), kMostRemembered); ++n) {
      const std::string low = fmt::format("%pergola_fence_low_{}", n), high = fmt::format("%pergola_fence_high_{}", n);
      const Remembered one{Operand::make_register(editor_.declare(low, Type::kB32)),
                           Operand::make_register(editor_.declare(high, Type::kB32))};
      for (const std::size_t group : again[n]) remembered_.emplace(group, one);
      const BodyEditor::Argument arguments[] = {{"%low", Type::kB32, one.low}, {"%high", Type::kB32, one.high}};
      PERGOLA_TRY(append(out_, fmt::format("mov.b32 %low, {};\nmov.b32 %high, {};\n", kNoGranuleLow, kNoGranuleHigh),
                         arguments));
    }
    return {};
  }

  // One end of the group, or both: `offset` from its base, for `access`, which is named where it fails.
  struct Check {
    std::int64_t offset = 0;
    const FencedAccess* access = nullptr;
    bool tests_alignment = false;
  };

  Status checks(const FenceGroup& group, const ptx::Statement& at) {
    declare();
    counts_.accesses += static_cast<std::uint32_t>(group.accesses.size());
    const auto by_offset = [](const FencedAccess& a, const FencedAccess& b) { return a.offset < b.offset; };
    const auto by_end = [](const FencedAccess& a, const FencedAccess& b) {
      return a.offset + a.bytes < b.offset + b.bytes;
    };
    const bool is_one = group.is_one_unit();
    const FencedAccess& first = *std::min_element(group.accesses.begin(), group.accesses.end(), by_offset);
    const FencedAccess& last = *std::max_element(group.accesses.begin(), group.accesses.end(), by_end);
    if (!group.may_leave && group.accesses.size() > 1) {
      const std::size_t n = static_cast<std::size_t>(&group - groups_.data());
      stand_ins_[n] = editor_.declare(fmt::format("%pergola_fenced_{}", n), Type::kB64);
      const BodyEditor::Argument arguments[] = {{"%base", Type::kB64, group.base},
                                                {"%to", Type::kB64, Operand::make_register(stand_ins_[n])}};
      PERGOLA_TRY(append(out_, "mov.b64 %to, %base;\n", arguments, at.location));
      ++counts_.instructions;
    }
    PERGOLA_TRY(check(group, {group.begin, &first, true}, at));
    if (!is_one) PERGOLA_TRY(check(group, {group.end - 1, &last, false}, at));
    return {};
  }

  Status check(const FenceGroup& group, const Check& one, const ptx::Statement& at) {
    ++counts_.checks;
    const std::uint32_t shift = target_.config.granule_shift;
    const bool adds = one.offset != 0 || group.base.kind != Operand::Kind::kRegister;
    std::string text =
        !adds ? ""
        : group.base.kind == Operand::Kind::kRegister
            ? fmt::format("add.s64 %pergola_fence_a, %base, {};\n", one.offset)
            : fmt::format("mov.u64 %pergola_fence_a, {};\n", static_cast<std::int64_t>(group.base.bits) + one.offset);
    const std::int64_t beside = one.tests_alignment ? (group.aligned - one.offset) & (group.align - 1) : 0;
    const std::uint32_t odd_bits = one.tests_alignment && beside == 0 ? group.align - 1 : 0;
    const auto remembered = remembered_.find(static_cast<std::size_t>(&group - groups_.data()));
    const bool remembers = remembered != remembered_.end();
    std::string lookup =
        fmt::format(R"(
    shr.u64 %pergola_fence_x, %at, {index};
    cvt.u32.u64 %pergola_fence_i, %pergola_fence_x;
    and.b32 %pergola_fence_i, %pergola_fence_i, {mask};
    cvt.u64.u32 %pergola_fence_x, %pergola_fence_i;
    ld.shared.u64 %pergola_fence_t, [{table}];
    add.s64 %pergola_fence_x, %pergola_fence_x, %pergola_fence_t;
    ld.global.u16 %pergola_fence_i, [%pergola_fence_x];
    shr.u64 %pergola_fence_x, %at, {tag};
    cvt.u32.u64 %pergola_fence_g, %pergola_fence_x;
    setp.ne.u32 %pergola_fence_bad, %pergola_fence_i, %pergola_fence_g;
)",
                    fmt::arg("index", shift - 1), fmt::arg("mask", ((1u << abi::kFenceIndexBits) - 1) << 1),
                    fmt::arg("table", kFenceTableName), fmt::arg("tag", shift + abi::kFenceIndexBits));
    if (remembers)
      text += fmt::format(R"(
    mov.b64 {{%pergola_fence_lo, %pergola_fence_hi}}, %at;
    xor.b32 %pergola_fence_g, %pergola_fence_lo, %low;
    and.b32 %pergola_fence_g, %pergola_fence_g, {};
    setp.ne.u32 %pergola_fence_bad, %pergola_fence_g, 0;
    setp.ne.or.u32 %pergola_fence_bad, %pergola_fence_hi, %high, %pergola_fence_bad;
)",
                          (~0u << shift) | odd_bits);
    else
      text += lookup;
    std::string misaligned;
    if (one.tests_alignment && group.align > 1)
      misaligned = fmt::format(
          "cvt.u32.u64 %pergola_fence_g, %at;\n{}and.b32 %pergola_fence_g, %pergola_fence_g, {};\n"
          "setp.ne.or.u32 %pergola_fence_bad, %pergola_fence_g, 0, %pergola_fence_bad;\n",
          beside == 0 ? "" : fmt::format("add.u32 %pergola_fence_g, %pergola_fence_g, {};\n", beside), group.align - 1);
    if (!remembers || odd_bits == 0) text += misaligned;
    if (group.guard.present()) text += "and.pred %pergola_fence_bad, %pergola_fence_bad, %guard;\n";
    const std::string cold = label("cold"), back = label("back"), skip = label("skip"), keep = label("keep");
    text += is_nested_ ? fmt::format("@!%pergola_fence_bad bra {};\n", back)
                       : fmt::format("@%pergola_fence_bad bra {};\n", cold);
    counts_.instructions += static_cast<std::uint32_t>(std::count(text.begin(), text.end(), ';'));
    std::vector<BodyEditor::Argument> arguments = arguments_of(group, adds);
    if (remembers) {
      arguments.push_back({"%low", Type::kB32, remembered->second.low});
      arguments.push_back({"%high", Type::kB32, remembered->second.high});
    }
    if (group.guard.present()) arguments.push_back({"%guard", Type::kPred, guard_operand(group.guard)});
    PERGOLA_TRY(append(out_, text, arguments, at.location));
    Statements& cold_path = is_nested_ ? out_ : cold_;
    if (!is_nested_) cold_path.push_back({ptx::Label{cold}, {}});
    if (remembers)
      PERGOLA_TRY(append(cold_path, fmt::format("{}{}@!%pergola_fence_bad bra {};\n", lookup, misaligned, keep),
                         arguments, at.location));
    const bool keeps = remembers || is_predicated(group);
    PERGOLA_TRY(cold_text(group, one, at, keeps ? keep : back, cold_path));
    if (keeps) {
      cold_path.push_back({ptx::Label{keep}, {}});
      if (is_predicated(group))
        PERGOLA_TRY(append(cold_path, "setp.ne.u32 %pergola_fence_bad, 0, 0;\n", {}, at.location));
      if (!remembers) PERGOLA_TRY(append(cold_path, fmt::format("bra {};\n", back), {}, at.location));
    }
    if (remembers) {
      PERGOLA_TRY(append(cold_path,
                         fmt::format("and.b32 %low, %pergola_fence_lo, {};\nmov.b32 %high, %pergola_fence_hi;\n"
                                     "bra {};\n",
                                     ~0u << shift, back),
                         arguments, at.location));
    }
    out_.push_back({ptx::Label{back}, {}});
    if (is_skipped(group) && !is_predicated(group)) after_ = skip;
    return {};
  }

  static Operand guard_operand(const ptx::Guard& guard) {
    Operand operand = Operand::make_register(guard.predicate);
    operand.negated = guard.negated;
    return operand;
  }

  std::vector<BodyEditor::Argument> arguments_of(const FenceGroup& group, bool adds) {
    const Operand sum = Operand::make_register(editor_.declare("%pergola_fence_a", Type::kB64));
    std::vector<BodyEditor::Argument> arguments{{"%at", Type::kB64, adds ? sum : group.base}};
    if (group.base.kind == Operand::Kind::kRegister) arguments.push_back({"%base", Type::kB64, group.base});
    return arguments;
  }

  // A lane that goes on leaves one access out: under a guard of its own, or, where the access has one, by a branch.
  static bool is_skipped(const FenceGroup& group) { return !group.may_leave && group.accesses.size() == 1; }
  static bool is_predicated(const FenceGroup& group) { return is_skipped(group) && !group.guard.present(); }

  // ---- Cold paths

  // The first fault of the warp: which, and where; %at is what is told.
  std::string note_text(std::size_t site, const std::string& told) const {
    return fmt::format(R"(
    mov.u32 %pergola_fence_i, %tid.x;
    shr.u32 %pergola_fence_i, %pergola_fence_i, 5;
    mov.u32 %pergola_fence_g, {slots};
    mad.lo.u32 %pergola_fence_i, %pergola_fence_i, {bytes}, %pergola_fence_g;
    mov.u32 %pergola_fence_g, %laneid;
    or.b32 %pergola_fence_g, %pergola_fence_g, {word};
    atom.shared.cas.b32 %pergola_fence_g, [%pergola_fence_i+{fault}], 0, %pergola_fence_g;
    setp.ne.u32 %pergola_fence_bad, %pergola_fence_g, 0;
    @%pergola_fence_bad bra {told};
    st.shared.u64 [%pergola_fence_i+{address}], %at;
)",
                       fmt::arg("slots", kTaskSlotsName), fmt::arg("bytes", sizeof(abi::TaskSlot)),
                       fmt::arg("word", (site + 1) << abi::kFaultSiteShift), fmt::arg("told", told),
                       fmt::arg("fault", offsetof(abi::TaskSlot, fault)),
                       fmt::arg("address", offsetof(abi::TaskSlot, fault_address)));
  }

  // Who passes goes to `passes`.
  Status cold_text(const FenceGroup& group, const Check& one, const ptx::Statement& at, const std::string& passes,
                   Statements& to) {
    const std::string back = label("back"), told = label("told"), skip = label("skip");
    // An address of .shared or .local is let pass, and where memories share an entry of the table.
    std::string text;
    if (group.is_generic)
      text += fmt::format("isspacep.global %pergola_fence_bad, %at;\n@!%pergola_fence_bad bra {};\n", passes);
    text += fmt::format("setp.eq.u32 %pergola_fence_bad, %pergola_fence_i, {};\n@%pergola_fence_bad bra {};\n",
                        abi::kFenceSeveral, passes);
    const bool adds = one.offset != 0 || group.base.kind != Operand::Kind::kRegister;
    PERGOLA_TRY(append(to, text, arguments_of(group, adds), at.location));
    if (adds && one.offset != one.access->offset)
      PERGOLA_TRY(append(to, fmt::format("add.s64 %pergola_fence_a, %base, {};\n", one.access->offset),
                         arguments_of(group, true), at.location));
    const Instruction& in = *at.instruction();
    const std::size_t site = add(spelled_.at(one.access->statement));
    PERGOLA_TRY(append(to, note_text(site, told), arguments_of(group, adds), at.location));
    to.push_back({ptx::Label{told}, {}});
    if (group.may_leave) return append(to, fmt::format("bra {};\n", target_.end), {}, at.location);
    return is_skipped(group) ? skip_text(group, in, back, skip, to) : stand_in_text(group, back, to);
  }

  // What is loaded is zero. Who may wait for others that way is given other numbers some day, and gives up later.
  Status skip_text(const FenceGroup& group, const Instruction& in, const std::string& back, const std::string& skip,
                   Statements& to) {
    std::string text;
    std::vector<BodyEditor::Argument> arguments;
    std::vector<std::string> names;
    if (in.op == Op::kLd || in.op == Op::kLdu || in.op == Op::kAtom) {
      const std::vector<Operand> written = ptx::elements(in.operands.at(0), function_);
      for (std::size_t n = 0; n < written.size(); ++n) names.push_back(fmt::format("%zero_{}", n));
      for (std::size_t n = 0; n < written.size(); ++n) {
        if (written[n].kind != Operand::Kind::kRegister) continue;
        const Type type = function_.registers[written[n].reg].type;
        const std::uint32_t bytes = ptx::size_bytes(type);
        arguments.push_back({names[n], type, written[n]});
        const bool counts = !group.accesses[0].is_weak;
        text += bytes == 16            ? fmt::format("mov.b128 {}, {{0, 0}};\n", names[n])
                : counts && bytes == 4 ? fmt::format("mov.b32 {}, %pergola_fence_g;\n", names[n])
                : counts && bytes == 8 ? fmt::format("mov.b64 {}, {{%pergola_fence_g, %pergola_fence_g}};\n", names[n])
                                       : fmt::format("mov.b{} {}, 0;\n", 8 * bytes, names[n]);
      }
    }
    if (!group.accesses[0].is_weak)
      text = fmt::format(
                 "atom.shared.add.u32 %pergola_fence_g, [%pergola_fence_i+{}], 1;\n"
                 "setp.gt.u32 %pergola_fence_bad, %pergola_fence_g, {};\n@%pergola_fence_bad trap;\n"
                 "max.u32 %pergola_fence_g, %pergola_fence_g, {};\n"
                 "sub.u32 %pergola_fence_g, %pergola_fence_g, {};\n",
                 offsetof(abi::TaskSlot, left_out), abi::kMostLeftOut, abi::kLeftOutZeros, abi::kLeftOutZeros) +
             text;
    if (is_predicated(group)) text += "setp.eq.u32 %pergola_fence_bad, 0, 0;\n";
    return append(to, text + fmt::format("bra {};\n", is_predicated(group) ? back : skip), arguments, in.location);
  }

  // The group's accesses go to the scratch behind the table.
  Status stand_in_text(const FenceGroup& group, const std::string& back, Statements& to) {
    const std::size_t n = static_cast<std::size_t>(&group - groups_.data());
    const std::uint64_t scratch =
        abi::kFenceTableBytes + (group.writes() ? abi::kFenceScratchBytes : 0) + abi::kFenceScratchBytes / 2;
    const BodyEditor::Argument arguments[] = {{"%to", Type::kB64, Operand::make_register(stand_ins_.at(n))}};
    return append(to,
                  fmt::format("ld.shared.u64 %to, [{}];\nadd.s64 %to, %to, {};\nbra {};\n", kFenceTableName,
                              static_cast<std::int64_t>(scratch) - group.aligned, back),
                  arguments);
  }

  ptx::Function& function_;
  const FenceTarget& target_;
  std::vector<FenceSite>& sites_;
  FenceCounts& counts_;
  BodyEditor editor_;
  std::vector<FenceGroup> groups_;
  std::map<std::uint32_t, std::size_t> first_, group_of_;  // statements: the group that they are the first, or one, of
  struct Remembered {
    Operand low, high;
  };
  std::map<std::size_t, Remembered> remembered_;      // by group
  std::map<std::size_t, ptx::RegisterId> stand_ins_;  // by group: the register that its accesses go by
  std::map<std::uint32_t, FenceSite> spelled_;        // by statement
  std::map<std::size_t, std::string> asserts_;        // by the trap behind the call
  std::vector<std::size_t> gone_;
  Statements out_, cold_;
  std::string after_;  // label that comes behind the statement
  std::size_t labels_ = 0;
  bool is_nested_ = false;
  std::vector<bool> is_known_;  // by group, while the copy without checks is written: those that need none
  bool declares_ = true;
};

}  // namespace

void part_traps(ptx::Function& kernel, bool asserts) {
  Statements body;
  std::size_t parted = 0;
  for (ptx::Statement& at : kernel.body) {
    Instruction* in = at.instruction();
    const bool fails = asserts && in != nullptr && calls_assert(*in) && !in->guard.present();
    if (in == nullptr || in->op != Op::kTrap || !in->guard.present()) {
      body.push_back(std::move(at));
      if (!fails) continue;
      Instruction trap = *body.back().instruction();
      trap.op = Op::kTrap;
      trap.mods.clear();
      trap.operands.clear();
      body.push_back({std::move(trap), body.back().location});
      continue;
    }
    Instruction over = *in;
    over.op = Op::kBra;
    over.guard.negated = !over.guard.negated;
    const std::string label = fmt::format("$pergola_no_trap_{}", parted++);
    over.operands.push_back(Operand::make_label(label));
    in->guard = {};
    body.push_back({std::move(over), at.location});
    body.push_back(std::move(at));
    body.push_back({ptx::Label{label}, {}});
  }
  kernel.body = std::move(body);
}

Status fence_accesses(ptx::Function& function, const FenceTarget& target, std::vector<FenceSite>& sites,
                      FenceCounts& counts) {
  return Fencer(function, target, sites, counts).run();
}

}  // namespace pergola::transform
