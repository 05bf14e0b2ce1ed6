// Turns the body of one function into FunctionCode.
//
// Each family of instructions has a decode function beside its handlers (exec_*.cc). It takes the modifiers it knows
// from a ModReader; a modifier that is left over is refused, so nothing that changes a meaning is passed over in
// silence. Every refusal is kUnsupported and names file, line and instruction.
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "src/device/cpu/interpreter/code.h"
#include "src/device/cpu/numeric.h"
#include "src/device/cpu/place.h"
#include "src/ptx/module.h"

namespace pergola::device::cpu::interp {

// The modifiers of an instruction, each taken once by whoever understands it.
class ModReader {
 public:
  explicit ModReader(const ptx::Instruction& instruction);
  bool take(ptx::Mod mod);
  // The next type modifier, in order; kNone where there is none left.
  ptx::Type take_type();
  std::optional<ptx::Space> take_space();
  Rounding take_rounding(Rounding otherwise, bool* found = nullptr);
  bool empty() const { return mods_.empty(); }

 private:
  std::vector<ptx::Mod> mods_;
};

class Decoder {
 public:
  Decoder(ModuleImage& image, FunctionCode& code) : image_(image), code_(code), function_(*code.source) {}
  Status run();

  // What a name means at this point of the body.
  struct Symbol {
    enum class Kind { kNone, kFrame, kEntryParam, kShared, kAbsolute, kLocalAbsolute, kFunction, kRegister };
    Kind kind = Kind::kNone;
    std::uint64_t value = 0;    // offset, address or index
    std::uint64_t size = 0;
    bool is_local = false;      // kFrame: a .local variable or a parameter, not a call's .param
    std::string slot;           // kShared
  };
  Symbol lookup(const std::string& name) const;

  // The index to read operand `o` as `type` from; emits what it takes to compute it.
  std::int32_t read(const ptx::Operand& o, ptx::Type type);
  std::int32_t read_predicate(const ptx::Operand& o) { return read(o, ptx::Type::kPred); }
  // The cell to write operand `o` to; a cell nobody reads for `_`.
  std::int32_t write_cell(const ptx::Operand& o);
  std::int32_t constant(std::uint64_t value);
  std::int32_t shared_constant(const std::string& slot, std::uint64_t offset);
  std::int32_t temporary(std::uint32_t cells = 1);
  std::int32_t register_cell(ptx::RegisterId id, int component = 0) const;
  ptx::Type register_type(ptx::RegisterId id) const { return function_.registers[id].type; }

  // Appends an instruction for the one being decoded; the guard is the source instruction's.
  Inst& emit(LaneFn fn, Kind kind = Kind::kLane);
  Inst& emit_group(GroupFn fn);
  // An instruction before it, not guarded.
  Inst& emit_unguarded(LaneFn fn);

  // Sets base (src[0]), imm and region of `inst`-to-be from an address operand; emits what it takes first.
  struct Address {
    std::int32_t base = kNoCell;
    std::uint64_t offset = 0;
    Region region = Region::kGeneric;
  };
  Result<Address> address(const ptx::Instruction& i, const ptx::Operand& o, ptx::Space space);

  std::optional<std::string> label_of(const std::string& name) const;
  void branch_fixup(std::size_t inst, const std::string& label);          // Inst::imm
  void branch_table_fixup(std::size_t extra, const std::string& label);   // FunctionCode::extra
  const ptx::BranchTargets* branch_targets(const std::string& name) const;

  Error unsupported(const ptx::Instruction& i, const std::string& why = "") const;
  ModuleImage& image() { return image_; }
  FunctionCode& code() { return code_; }
  const ptx::Function& function() const { return function_; }

 private:
  struct Scope {
    std::unordered_map<std::string, Symbol> names;
    std::unordered_map<std::string, std::uint32_t> labels;  // pc
    int parent = -1;
  };
  struct Fixup {
    bool table = false;
    std::size_t index = 0;
    std::string label;
    int scope = 0;
    ptx::Location location;
  };
  Status declare_parameters();
  Status declare(const ptx::Variable& variable);
  Status decode_statement(const ptx::Statement& statement);
  Status decode_instruction(const ptx::Instruction& i);
  Status apply_fixups();
  std::uint32_t allocate(std::uint64_t size, std::uint32_t align);
  Inst& append(const ptx::Instruction* source);

  ModuleImage& image_;
  FunctionCode& code_;
  const ptx::Function& function_;
  const ptx::Instruction* current_ = nullptr;
  std::vector<std::int32_t> cells_;       // by RegisterId
  std::vector<Scope> scopes_;
  int scope_ = 0;
  std::vector<Fixup> fixups_;
  std::unordered_map<std::string, const ptx::BranchTargets*> targets_;
  std::unordered_map<std::uint64_t, std::int32_t> constant_index_;
  std::int32_t sink_ = kNoCell;
  bool bad_operand_ = false;  // read() met an operand it does not know: the instruction is refused
};

// A family decodes what it knows of the op and returns true, false where the op is another family's.
// Where the op is its own but this form is not supported it returns the error.
using Decoded = Result<bool>;
Decoded decode_integer(Decoder& d, const ptx::Instruction& i);
Decoded decode_bits(Decoder& d, const ptx::Instruction& i);
Decoded decode_float(Decoder& d, const ptx::Instruction& i);
Decoded decode_half(Decoder& d, const ptx::Instruction& i);
Decoded decode_approx(Decoder& d, const ptx::Instruction& i);
Decoded decode_compare(Decoder& d, const ptx::Instruction& i);
Decoded decode_convert(Decoder& d, const ptx::Instruction& i);
Decoded decode_move(Decoder& d, const ptx::Instruction& i);
Decoded decode_memory(Decoder& d, const ptx::Instruction& i);
Decoded decode_atomic(Decoder& d, const ptx::Instruction& i);
Decoded decode_async(Decoder& d, const ptx::Instruction& i);
Decoded decode_sync(Decoder& d, const ptx::Instruction& i);
Decoded decode_warp(Decoder& d, const ptx::Instruction& i);
Decoded decode_control(Decoder& d, const ptx::Instruction& i);
Decoded decode_call(Decoder& d, const ptx::Instruction& i);
Decoded decode_texture(Decoder& d, const ptx::Instruction& i);

// The builtin a module may call without defining it; empty where there is none of this name.
struct BuiltinFunction {
  Builtin run = nullptr;
  void* native = nullptr;
  std::string signature;
};
std::optional<BuiltinFunction> find_builtin(const std::string& name);

// Reads a special register into dst; kUnsupported ones give an empty result.
LaneFn special_reader(ptx::Special special, int component);

Result<std::shared_ptr<const ModuleImage>> decode_module(std::shared_ptr<const ptx::Module> module,
                                                         std::span<const GlobalPlacement> globals);

}  // namespace pergola::device::cpu::interp
