// The spelling tables of opcodes, modifiers and special registers, and what an instruction says of itself.
#include "src/ptx/instruction.h"

#include <unordered_map>

namespace pergola::ptx {
namespace {

constexpr std::string_view kOpSpellings[] = {
    "",
#define PERGOLA_PTX_OP(name, spelling) spelling,
#include "src/ptx/ops.def"
#undef PERGOLA_PTX_OP
};

enum class ModClass : std::uint8_t { kPlain, kType, kSpace };

struct ModRow {
  std::string_view spelling;
  ModClass mod_class = ModClass::kPlain;
  Space space = Space::kNone;
};

constexpr ModRow kMods[] = {
#define PERGOLA_PTX_MOD(name, spelling) {spelling, ModClass::kPlain, Space::kNone},
#define PERGOLA_PTX_TYPE_MOD(name, spelling) {spelling, ModClass::kType, Space::kNone},
#define PERGOLA_PTX_SPACE_MOD(name, spelling, space) {spelling, ModClass::kSpace, Space::space},
#include "src/ptx/mods.def"
#undef PERGOLA_PTX_MOD
#undef PERGOLA_PTX_TYPE_MOD
#undef PERGOLA_PTX_SPACE_MOD
};

// Each type modifier's type, by name: Mod::kF32 is Type::kF32. A row without a type of its name does not compile.
constexpr Type kModTypes[] = {
#define PERGOLA_PTX_MOD(name, spelling) Type::kNone,
#define PERGOLA_PTX_TYPE_MOD(name, spelling) Type::k##name,
#define PERGOLA_PTX_SPACE_MOD(name, spelling, space) Type::kNone,
#include "src/ptx/mods.def"
#undef PERGOLA_PTX_MOD
#undef PERGOLA_PTX_TYPE_MOD
#undef PERGOLA_PTX_SPACE_MOD
};

// In the order of enum Special.
constexpr std::string_view kSpecialSpellings[] = {
    "%tid",          "%ntid",           "%laneid",        "%warpid",           "%nwarpid",
    "%ctaid",        "%nctaid",         "%smid",          "%nsmid",            "%gridid",
    "%is_explicit_cluster", "%clusterid", "%nclusterid",  "%cluster_ctaid",    "%cluster_nctaid",
    "%cluster_ctarank", "%cluster_nctarank", "%lanemask_eq", "%lanemask_le",   "%lanemask_lt",
    "%lanemask_ge",  "%lanemask_gt",    "%clock",         "%clock_hi",         "%clock64",
    "%pm",           "%envreg",         "%globaltimer",   "%globaltimer_lo",   "%globaltimer_hi",
    "%reserved_smem_offset_begin", "%total_smem_size", "%aggr_smem_size", "%dynamic_smem_size",
    "%current_graph_exec", "",
};
static_assert(std::size(kSpecialSpellings) == static_cast<std::size_t>(Special::kOther) + 1);

using Table = std::unordered_map<std::string_view, std::uint32_t>;

std::optional<std::uint32_t> look_up(const Table& table, std::string_view key) {
  const auto it = table.find(key);
  if (it == table.end()) return std::nullopt;
  return it->second;
}

}  // namespace

std::string_view spelling(Op op) { return kOpSpellings[static_cast<std::size_t>(op)]; }
std::string_view spelling(Mod mod) { return kMods[static_cast<std::size_t>(mod)].spelling; }
std::string_view spelling(Special special) { return kSpecialSpellings[static_cast<std::size_t>(special)]; }

std::uint32_t video_lanes(Op op) {
  const std::string_view name = spelling(op);
  if (!name.starts_with('v')) return 0;
  return name.ends_with('2') ? 2 : name.ends_with('4') ? 4 : 0;
}

// Tables here are never destroyed: a program's static objects may load modules when they go.
std::optional<Op> parse_op(std::string_view root) {
  static const Table& kTable = *[] {
    auto* const table = new Table;
    for (std::uint32_t i = 1; i < std::size(kOpSpellings); ++i) table->emplace(kOpSpellings[i], i);
    return table;
  }();
  if (const auto found = look_up(kTable, root)) return static_cast<Op>(*found);
  return std::nullopt;
}

std::optional<Mod> parse_mod(std::string_view text) {
  static const Table& kTable = *[] {
    auto* const table = new Table;
    for (std::uint32_t i = 0; i < std::size(kMods); ++i) table->emplace(kMods[i].spelling, i);
    return table;
  }();
  if (const auto found = look_up(kTable, text)) return static_cast<Mod>(*found);
  return std::nullopt;
}

std::optional<Special> parse_special(std::string_view text) {
  static const Table& kTable = *[] {
    auto* const table = new Table;
    for (std::uint32_t i = 0; i + 1 < std::size(kSpecialSpellings); ++i) table->emplace(kSpecialSpellings[i], i);
    return table;
  }();
  if (const auto found = look_up(kTable, text)) return static_cast<Special>(*found);
  return std::nullopt;
}

Type type_of(Mod mod) { return kModTypes[static_cast<std::size_t>(mod)]; }

std::optional<Space> space_of(Mod mod) {
  const ModRow& row = kMods[static_cast<std::size_t>(mod)];
  if (row.mod_class != ModClass::kSpace) return std::nullopt;
  return row.space;
}

Operand Operand::make_register(RegisterId id) {
  Operand operand;
  operand.kind = Kind::kRegister;
  operand.reg = id;
  return operand;
}

Operand Operand::make_integer(std::int64_t value) {
  Operand operand;
  operand.kind = Kind::kInteger;
  operand.bits = static_cast<std::uint64_t>(value);
  return operand;
}

Operand Operand::make_symbol(std::string name, std::int64_t offset) {
  Operand operand;
  operand.kind = Kind::kSymbol;
  operand.name = std::move(name);
  operand.offset = offset;
  return operand;
}

Operand Operand::make_label(std::string name) {
  Operand operand;
  operand.kind = Kind::kLabel;
  operand.name = std::move(name);
  return operand;
}

Operand Operand::make_address(Operand base, std::int64_t offset) {
  Operand operand;
  operand.kind = Kind::kAddress;
  operand.offset = offset;
  operand.elements.push_back(std::move(base));
  return operand;
}

bool Instruction::has(Mod mod) const {
  for (const Mod each : mods) {
    if (each == mod) return true;
  }
  return false;
}

Type Instruction::type(int n) const {
  for (const Mod mod : mods) {
    const Type type = type_of(mod);
    if (type != Type::kNone && n-- == 0) return type;
  }
  return Type::kNone;
}

Space Instruction::space() const {
  for (const Mod mod : mods) {
    if (const auto space = space_of(mod)) return *space;
  }
  return Space::kNone;
}

int Instruction::vector_width() const {
  for (const Mod mod : mods) {
    if (mod == Mod::kV2) return 2;
    if (mod == Mod::kV4) return 4;
    if (mod == Mod::kV8) return 8;
  }
  return 1;
}

bool Instruction::operator==(const Instruction& other) const {
  return op == other.op && guard == other.guard && mods == other.mods && operands == other.operands &&
         text == other.text && text_registers == other.text_registers;
}

}  // namespace pergola::ptx
