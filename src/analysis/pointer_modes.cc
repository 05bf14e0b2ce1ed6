// Judges every access of a kernel by what pointer_flow found its address may be, and writes down why.
#include "src/analysis/pointer_modes.h"

#include <algorithm>
#include <map>

#include "src/analysis/float_access.h"
#include "src/analysis/memory_operands.h"
#include "src/analysis/pointer_exposure.h"
#include "src/analysis/pointer_flow.h"
#include "src/ptx/printer.h"

namespace pergola::analysis {
namespace {

using Kind = Base::Kind;
using ptx::Space;
using Site = PointerFlow::Site;

// What was found about one place: its mode, and the first read and the first write.
struct Finding {
  AccessMode mode = AccessMode::kNeither;
  std::string read, written;
  AccessMode sure = AccessMode::kNeither;
  std::string surely_read, surely_written, surely_f32, surely_f64;
  bool is_sole = false;
  bool has_not_f32 = false, has_not_f64 = false;  // accesses of another type, or that may be

  bool is_new(AccessMode access) const { return (mode | access) != mode; }
  void add(AccessMode access, const std::string& how) {
    if ((access | AccessMode::kWrite) == access && written.empty()) written = how;
    if ((access | AccessMode::kRead) == access && read.empty()) read = how;
    mode = mode | access;
  }
  bool is_sure_new(AccessMode access) const { return (sure | access) != sure; }
  void add_sure(AccessMode access, const std::string& how) {
    if ((access | AccessMode::kWrite) == access && surely_written.empty()) surely_written = how;
    if ((access | AccessMode::kRead) == access && surely_read.empty()) surely_read = how;
    sure = sure | access;
  }
  std::string reason() const {
    if (mode == AccessMode::kNeither) return "never dereferenced";
    if (read == written) return "read and written by " + read;
    std::string text = read.empty() ? "" : "read by " + read;
    if (!written.empty()) text += (text.empty() ? "written by " : "; written by ") + written;
    return text;
  }
};

class Judge {
 public:
  Judge(const ptx::Module& module, const ptx::Function& entry, const PointerFlow& flow)
      : module_(module), entry_(entry), flow_(flow) {}

  PointerModes run() {
    for_each_site([&](Site site) {
      if (exposure_.instance == PointerFlow::kNowhere && exposes_bits(flow_, site)) exposure_ = site;
    });
    find_sure_instances();
    for_each_site([&](Site site) { judge(site); });
    return result();
  }

 private:
  template <typename Visit>
  void for_each_site(Visit visit) const {
    for (std::uint32_t id = 0; id < flow_.instance_count(); ++id) {
      for (const std::uint32_t statement : flow_.facts(id).statements) visit(Site{id, statement});
    }
  }

  const ptx::Instruction& instruction(Site site) const {
    return flow_.facts(site.instance).instruction(site.statement);
  }

  // The kernel, and what is called from there by calls that can go nowhere else.
  void find_sure_instances() {
    is_sure_instance_.assign(flow_.instance_count(), false);
    is_sure_instance_[0] = true;
    std::vector<PointerFlow::InstanceId> work{0};
    while (!work.empty()) {
      const PointerFlow::InstanceId caller = work.back();
      work.pop_back();
      for (const std::uint32_t statement : flow_.facts(caller).statements) {
        const Site site{caller, statement};
        if (instruction(site).op != ptx::Op::kCall) continue;
        const PointerFlow::Call call = flow_.call(site);
        if (call.targets.size() != 1 || !call.externs.empty() || !call.unknown.empty()) continue;
        const PointerFlow::InstanceId callee = flow_.callee(site, *call.targets[0]);
        if (callee == PointerFlow::kNowhere || is_sure_instance_[callee]) continue;
        is_sure_instance_[callee] = true;
        work.push_back(callee);
      }
    }
  }

  void judge(Site site) {
    const ptx::Instruction& i = instruction(site);
    if (i.op == ptx::Op::kCall) return judge_call(site);
    for (const MemoryOperand& access : memory_operands(i)) {
      const AccessMode mode = mode_of(access.reads, access.writes);
      if (access.operand == MemoryOperand::kNowhere) {
        add_universal(site, mode,
                      i.op == ptx::Op::kOpaque      ? ", which is not understood"
                      : access.space == Space::kTex ? ", through a texture or surface"
                                                    : ", through a tensor map");
      } else {
        judge_address(site, flow_.value(site, i.operands[access.operand]), access.space, mode,
                      access.is_sure ? mode : AccessMode::kNeither);
      }
    }
  }

  static AccessMode mode_of(bool reads, bool writes) {
    return (reads ? AccessMode::kRead : AccessMode::kNeither) | (writes ? AccessMode::kWrite : AccessMode::kNeither);
  }

  // `sure` is the part of `mode` that the instruction does whatever happens.
  void judge_address(Site site, const Value& address, Space space, AccessMode mode, AccessMode sure) {
    if (space == Space::kShared || space == Space::kLocal || space == Space::kParam) return;
    const auto targets = address.targets();
    if (absolute_.is_new(mode) && is_absolute(address)) {
      absolute_.add(mode, describe(site) + ", whose address is a number");
    }
    if (targets.empty()) return add_universal(site, mode, ", whose address is a number");
    bool elsewhere = false, somewhere = false;
    for (const Contribution& target : targets) {
      switch (target.base.kind) {
        case Kind::kParameter:
        case Kind::kVariable: somewhere = true; break;
        case Kind::kUnknown: add_universal(site, mode, origin(site, target)); break;
        case Kind::kFunction: add_universal(site, mode, ", whose address is a function's"); break;
        case Kind::kShared:
        case Kind::kObject: elsewhere = true; break;
        case Kind::kFresh: somewhere = true; break;
      }
    }
    if (address.may_be_number()) add_universal(site, mode, ", whose address may be a number");
    if (address.may_be_composed() && exposure_.instance != PointerFlow::kNowhere) {
      add_universal(site, mode, ", whose address may be made of bits that were seen by " + describe(exposure_));
    }
    if (elsewhere && !somewhere && space != Space::kNone) {
      return add_universal(site, mode, ", whose address is another space's");
    }
    const bool has_exact = std::any_of(targets.begin(), targets.end(), [](const Contribution& target) {
      return (target.how & Contribution::kExact) != 0;
    });
    if (!has_exact && targets.size() > 1) {
      add_universal(site, mode, ", whose address is mixed" + among(targets, " from "));
    }
    for (const Contribution& target : targets) {
      if (target.base.kind != Kind::kParameter && target.base.kind != Kind::kVariable) continue;
      Finding& finding = findings_[target.base];
      finding.is_sole |= targets.size() == 1 || (target.how & Contribution::kLone) != 0;
      const ptx::Type type = instruction(site).type();
      finding.has_not_f32 |= type != ptx::Type::kF32 && type != ptx::Type::kB32;
      finding.has_not_f64 |= type != ptx::Type::kF64 && type != ptx::Type::kB64;
      if (is_surely(target, site, address)) note_sure(site, sure, finding);
      if (finding.is_new(mode)) finding.add(mode, describe(site) + among(targets, ", based on one of "));
    }
    note_sum(site, address, targets, mode, sure);
  }

  void note_sure(Site site, AccessMode sure, Finding& finding) {
    if (finding.is_sure_new(sure)) finding.add_sure(sure, describe(site));
    if (sure == AccessMode::kNeither || (!finding.surely_f32.empty() && !finding.surely_f64.empty())) return;
    const FunctionFacts& facts = flow_.facts(site.instance);
    auto [floats, is_new] = floats_.try_emplace(site.instance);
    if (is_new) floats->second = FloatAccesses(*facts.function, *facts.definitions);
    const ptx::Type type = floats->second.type_of(instruction(site));
    if (type == ptx::Type::kF32 && finding.surely_f32.empty()) finding.surely_f32 = describe(site);
    if (type == ptx::Type::kF64 && finding.surely_f64.empty()) finding.surely_f64 = describe(site);
  }

  void note_sum(Site site, const Value& address, std::span<const Contribution> targets, AccessMode mode,
                AccessMode sure) {
    std::vector<std::uint32_t> parameters;
    bool has_other = false, all_exact = true;
    for (const Contribution& target : targets) {
      all_exact &= target.is_only_exact();
      if ((target.how & Contribution::kExact) == 0) continue;
      if (target.base.kind == Kind::kParameter) {
        const auto& place = flow_.parameter_place(target.base.index);
        if (place.offset != 0 || entry_.parameters[place.parameter].size_bytes() != 8) return;  // of a struct
        parameters.push_back(place.parameter);
      } else {
        has_other = true;
      }
    }
    if (parameters.size() < 2) return;
    std::sort(parameters.begin(), parameters.end());
    Finding& finding = sums_[{parameters, has_other}];
    finding.add(mode, "");
    const bool is_sure = all_exact && !has_other && !address.may_be_number() && !address.may_be_composed() &&
                         is_sure_instance_[site.instance];
    if (is_sure && finding.is_sure_new(sure)) finding.add_sure(sure, describe(site));
  }

  // What may be based on one thing only is based on it.
  bool is_surely(const Contribution& target, Site site, const Value& address) const {
    return target.base.kind == Kind::kParameter && target.is_only_exact() && address.targets().size() == 1 &&
           !address.may_be_number() && !address.may_be_composed() && is_sure_instance_[site.instance] &&
           flow_.parameter_place(target.base.index).offset != kAnyOffset;
  }

  // Made of numbers in the text and of nothing else.
  bool is_absolute(const Value& address) const {
    const auto targets = address.targets();
    return std::all_of(targets.begin(), targets.end(), [&](const Contribution& target) {
      if (target.base.kind != Kind::kUnknown || !target.is_only_exact()) return false;
      const Site from = flow_.origin(target.origin);
      if (from.instance == PointerFlow::kNowhere) return false;
      const ptx::Instruction& made = instruction(from);
      return made.op == ptx::Op::kMov && made.operands.size() == 2 &&
             made.operands[1].kind == ptx::Operand::Kind::kInteger;
    });
  }

  // ", based on one of a, b": where an address has several candidates; the first few of them.
  std::string among(std::span<const Contribution> targets, std::string_view intro) const {
    constexpr std::size_t kMaxNames = 4;
    std::vector<std::pair<PointerFlow::ParameterPlace, std::string>> names;
    for (const Contribution& target : targets) {
      if (target.base.kind == Kind::kVariable) names.push_back({{kNoStatement, 0}, name_of(target.base)});
      if (target.base.kind == Kind::kParameter) {
        names.push_back({flow_.parameter_place(target.base.index), name_of(target.base)});
      }
    }
    if (names.size() < 2) return "";
    std::sort(names.begin(), names.end());
    std::string text(intro);
    for (std::size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) text += (i > 0 ? ", " : "") + names[i].second;
    return names.size() > kMaxNames ? fmt::format("{} and {} more", text, names.size() - kMaxNames) : text;
  }

  std::string name_of(Base base) const {
    if (base.kind == Kind::kVariable) return flow_.variable(base.index).name;
    const auto& place = flow_.parameter_place(base.index);
    const ptx::Variable& parameter = entry_.parameters[place.parameter];
    if (place.offset == kAnyOffset) return parameter.name + "+?";
    return place.offset == 0 ? parameter.name : fmt::format("{}+{}", parameter.name, place.offset);
  }

  std::string origin(Site site, const Contribution& unknown) const {
    const Site from = flow_.origin(unknown.origin);
    if (from.instance == PointerFlow::kNowhere) return ", whose address is based on too many things";
    if (from == site) return ", whose address is a number";
    return ", whose address depends on " + describe(from);
  }

  // "`ld.global.f32 %f1, [%rd4];` at saxpy.ptx:42:3"
  std::string describe(Site site) const {
    const ptx::Function& function = *flow_.facts(site.instance).function;
    const ptx::Location& at = function.body[site.statement].location;
    std::string text = fmt::format("`{}` at {}:{}:{}", ptx::print(instruction(site), function), module_.source_name,
                                   at.line, at.column);
    if (&function != &entry_) text += " in " + function.name;
    return text;
  }

  void add_universal(Site site, AccessMode mode, const std::string& why) {
    if (mode != AccessMode::kNeither && universal_.is_new(mode)) universal_.add(mode, describe(site) + why);
  }

  void judge_call(Site site) {
    const PointerFlow::Call call = flow_.call(site);
    if (!call.unknown.empty()) add_universal(site, AccessMode::kReadWrite, ", because " + call.unknown);
    if (call.targets.empty() && call.externs.empty() && call.unknown.empty()) {
      add_universal(site, AccessMode::kReadWrite, ", whose target is never assigned");
    }
    for (const ptx::Function* target : call.externs) judge_extern(site, call, *target);
  }

  void judge_extern(Site site, const PointerFlow::Call& call, const ptx::Function& target) {
    using Extern = PointerFlow::Extern::Kind;
    const PointerFlow::Extern known = PointerFlow::classify(target);
    switch (known.kind) {
      case Extern::kUnknown:
        return add_universal(site, AccessMode::kReadWrite, ", because the body of '" + target.name + "' is not here");
      case Extern::kPure:
      case Extern::kAllocates: return;
      case Extern::kPrintf: return judge_printf(site, call);
      case Extern::kReads:
      case Extern::kWrites: break;
    }
    if (call.arguments == nullptr) return;
    const AccessMode mode = known.kind == Extern::kReads ? AccessMode::kRead : AccessMode::kReadWrite;
    for (std::size_t i = known.first_pointer; i < call.arguments->elements.size(); ++i) {
      // Results are written through a pointer whatever happens, and are not read there, for all that is known.
      judge_argument(site, flow_.argument(site, call.arguments->elements[i]), mode,
                     known.kind == Extern::kWrites ? AccessMode::kWrite : AccessMode::kNeither);
    }
  }

  void judge_argument(Site site, const Value& value, AccessMode mode, AccessMode sure = AccessMode::kNeither) {
    if (!value.is_bottom() && !value.targets().empty()) judge_address(site, value, Space::kNone, mode, sure);
  }

  // vprintf(format, arguments): reads both, and what %s arguments point at.
  void judge_printf(Site site, const PointerFlow::Call& call) {
    if (call.arguments == nullptr || call.arguments->elements.empty()) return;
    const Value format = flow_.argument(site, call.arguments->elements[0]);
    judge_argument(site, format, AccessMode::kRead);
    if (call.arguments->elements.size() < 2) return;
    const Value arguments = flow_.argument(site, call.arguments->elements[1]);
    judge_argument(site, arguments, AccessMode::kRead);
    if (arguments.is_bottom() || !may_print_string(format)) return;
    for (const Contribution& target : arguments.targets()) {
      if (target.base.kind != Kind::kObject) continue;
      for (const Value& word : flow_.memory().words(target.base.index)) {
        const auto parts = word.parts();
        const bool is_address = std::any_of(parts.begin(), parts.end(), [](const Contribution& part) {
          return (part.how & Contribution::kAddress) != 0;
        });
        if (is_address) judge_argument(site, word, AccessMode::kRead);  // else a number that is printed
      }
    }
  }

  bool may_print_string(const Value& format) const {
    if (format.is_bottom()) return true;
    for (const Contribution& target : format.targets()) {
      if (target.base.kind != Kind::kVariable) return true;
      bool in_conversion = false;
      for (const ptx::Initializer& byte : flow_.variable(target.base.index).initializers) {
        if (byte.kind != ptx::Initializer::Kind::kBits) return true;
        const char c = static_cast<char>(byte.bits);
        if (in_conversion && c == 's') return true;
        const bool continues = std::string_view("-+ #0123456789.*lhjztL").find(c) != std::string_view::npos;
        in_conversion = c == '%' ? !in_conversion : in_conversion && continues;
      }
    }
    return format.targets().empty();
  }

  PointerModes result() {
    std::map<std::pair<std::uint32_t, std::uint32_t>, Finding> parameters;
    for (std::uint32_t i = 0; i < entry_.parameters.size(); ++i) {
      const ptx::Variable& parameter = entry_.parameters[i];
      if (parameter.extents.empty() && parameter.vector == 1 && parameter.size_bytes() == 8) parameters[{i, 0}];
    }
    PointerModes modes;
    const auto merge = [&](std::uint32_t parameter, std::uint64_t offset, const Finding& finding) {
      Finding& to = parameters[{parameter, static_cast<std::uint32_t>(offset)}];
      if (!finding.read.empty()) to.add(AccessMode::kRead, finding.read);
      if (!finding.written.empty()) to.add(AccessMode::kWrite, finding.written);
      to.is_sole |= finding.is_sole;
      to.has_not_f32 |= finding.has_not_f32;
      to.has_not_f64 |= finding.has_not_f64;
      if (!finding.surely_read.empty()) to.add_sure(AccessMode::kRead, finding.surely_read);
      if (!finding.surely_written.empty()) to.add_sure(AccessMode::kWrite, finding.surely_written);
      if (to.surely_f32.empty()) to.surely_f32 = finding.surely_f32;
      if (to.surely_f64.empty()) to.surely_f64 = finding.surely_f64;
    };
    for (const auto& [base, finding] : findings_) {
      if (base.kind == Kind::kVariable) {
        modes.variables.push_back({flow_.variable(base.index).name, finding.mode, finding.reason()});
        continue;
      }
      const auto& place = flow_.parameter_place(base.index);
      if (place.offset != kAnyOffset) {
        merge(place.parameter, static_cast<std::uint64_t>(place.offset), finding);
        continue;
      }
      const std::uint64_t size = entry_.parameters[place.parameter].size_bytes();
      for (std::uint64_t offset = 0; offset + 8 <= size; offset += 8) merge(place.parameter, offset, finding);
    }
    const auto is_all = [&](bool has_others) { return !has_others && universal_.mode == AccessMode::kNeither; };
    for (const auto& [key, finding] : parameters) {
      modes.parameters.push_back({key.first, key.second, finding.mode, finding.is_sole, finding.reason(),
                                  finding.surely_read, finding.surely_written, finding.surely_f32, finding.surely_f64,
                                  is_all(finding.has_not_f32), is_all(finding.has_not_f64)});
    }
    for (const auto& [key, finding] : sums_)
      modes.sums.push_back({key.first, key.second, finding.mode, finding.surely_read, finding.surely_written});
    modes.universal = universal_.mode;
    if (universal_.mode != AccessMode::kNeither) modes.universal_reason = universal_.reason();
    modes.absolute = absolute_.mode;
    if (absolute_.mode != AccessMode::kNeither) modes.absolute_reason = absolute_.reason();
    return modes;
  }

  const ptx::Module& module_;
  const ptx::Function& entry_;
  const PointerFlow& flow_;
  Site exposure_{PointerFlow::kNowhere, PointerFlow::kNowhere};  // the first instruction that looks at pointers' bits
  std::map<Base, Finding> findings_;
  std::map<std::pair<std::vector<std::uint32_t>, bool>, Finding> sums_;
  Finding universal_, absolute_;
  std::vector<bool> is_sure_instance_;
  std::map<PointerFlow::InstanceId, FloatAccesses> floats_;
};

}  // namespace

std::string_view to_string(AccessMode mode) {
  switch (mode) {
    case AccessMode::kNeither: return "neither";
    case AccessMode::kRead: return "read";
    case AccessMode::kWrite: return "write";
    case AccessMode::kReadWrite: return "read+write";
  }
  return "neither";
}

Result<PointerModes> pointer_modes(const ptx::Module& module, const ptx::Function& entry) {
  if (!entry.is_entry || !entry.has_body) {
    return PERGOLA_ERROR(kInvalidArgument, "'{}' in {} is no kernel with a body; name a defined .entry.", entry.name,
                         module.source_name);
  }
  PointerFlow flow(module, entry);
  PERGOLA_TRY(flow.run());
  PointerModes modes = Judge(module, entry, flow).run();
  if (module.address_size != 64) {
    // The rules of pointer_value.h take what has 32 bits for a number.
    modes.universal = AccessMode::kReadWrite;
    modes.universal_reason = "the module has 32-bit addresses, which are not told from numbers";
  }
  return modes;
}

}  // namespace pergola::analysis
