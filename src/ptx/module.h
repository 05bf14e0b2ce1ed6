// A PTX module: what the parser makes, analyses read, passes change and the printer writes.
//
//   Module ── directives: .version .target .address_size, .file, .section, ...
//          ── items in textual order ─┬─ Variable   (.global .const .shared .tex ... at module scope)
//                                     ├─ Function   (.entry or .func, declared or defined)
//                                     └─ Verbatim   (kept as it was)
//
// Invariants: every RegisterId in a body indexes its Function's `registers`; scopes in a body nest; names that
// operands hold are those of the text. The verifier (verifier.h) checks what the ISA asks beyond that.
// Ownership: a Module owns everything by value; copying copies. Thread-compatible.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "src/ptx/instruction.h"

namespace pergola::ptx {

struct Register {
  std::string name;  // "%r1"
  Type type = Type::kNone;
  std::uint8_t vector = 1;  // .reg .v4 .f32 %v
  bool operator==(const Register&) const = default;
};

enum class Linkage : std::uint8_t { kNone, kExtern, kVisible, kWeak, kCommon };

// One value of an initialiser: a number of the variable's element type, or an address, perhaps only a byte of it.
struct Initializer {
  enum class Kind : std::uint8_t { kBits, kSymbol, kGenericSymbol };  // kGenericSymbol: generic(name)
  Kind kind = Kind::kBits;
  std::uint64_t bits = 0;    // already in the element type's format
  std::string symbol;
  std::int64_t offset = 0;
  std::uint64_t mask = ~std::uint64_t{0};  // 0xFF00(symbol): one byte of the address
  bool operator==(const Initializer&) const = default;
};

// A variable of any space, a kernel or function parameter, or a call's .param.
struct Variable {
  Space space = Space::kNone;
  Linkage linkage = Linkage::kNone;
  Type type = Type::kNone;
  std::uint8_t vector = 1;
  std::uint32_t align_bytes = 0;          // 0: natural
  std::string name;
  // Array extents in order; 0 is an unsized `[]` (dynamic shared memory, extern arrays). Empty: a scalar.
  std::vector<std::uint64_t> extents;
  std::vector<Initializer> initializers;  // row-major; the rest is zero
  bool is_pointer = false;                // .ptr on a kernel parameter
  Space pointer_space = Space::kNone;
  std::uint32_t pointer_align_bytes = 0;
  std::vector<std::string> attributes;    // .attribute(.managed) ... verbatim, without the dot
  Location location;

  std::uint64_t size_bytes() const;       // 0 where unsized
  std::uint32_t alignment_bytes() const;  // explicit or natural
  bool operator==(const Variable&) const = default;
};

struct RegisterDecl {  // .reg .b32 %r<10>; or .reg .pred %p, %q;
  RegisterId first = 0;
  std::uint32_t count = 1;
  bool parameterized = false;  // %r<count>; else the single name of registers[first]
  std::string prefix;          // "%r" where parameterized
  bool operator==(const RegisterDecl&) const = default;
};
struct Label {
  std::string name;
  bool operator==(const Label&) const = default;
};
struct ScopeBegin {
  bool operator==(const ScopeBegin&) const = default;
};
struct ScopeEnd {
  bool operator==(const ScopeEnd&) const = default;
};
struct LocDirective {  // .loc file line column [, function_name label[+n], inlined_at file line column]
  std::uint32_t file = 0, line = 0, column = 0;
  std::string rest;    // verbatim, from the comma on
  bool operator==(const LocDirective&) const = default;
};
struct BranchTargets {  // name: .branchtargets a, b, c;
  std::string name;
  std::vector<std::string> labels;
  bool operator==(const BranchTargets&) const = default;
};
struct CallTargets {  // name: .calltargets f, g;
  std::string name;
  std::vector<std::string> functions;
  bool operator==(const CallTargets&) const = default;
};
struct CallPrototype {  // name: .callprototype (results) _ (parameters);
  std::string name;
  std::vector<Variable> results, parameters;
  bool noreturn = false;
  std::vector<std::string> directives;  // others, verbatim, with the dot
  bool operator==(const CallPrototype&) const = default;
};
struct Verbatim {  // a directive kept as it was: .pragma "nounroll"; .section ... { } ...
  std::string text;
  bool operator==(const Verbatim&) const = default;
};

struct Statement {
  std::variant<Instruction, Label, RegisterDecl, Variable, ScopeBegin, ScopeEnd, LocDirective, BranchTargets,
               CallTargets, CallPrototype, Verbatim>
      node;
  Location location;
  bool operator==(const Statement&) const = default;

  const Instruction* instruction() const { return std::get_if<Instruction>(&node); }
  Instruction* instruction() { return std::get_if<Instruction>(&node); }
};

struct Function {
  bool is_entry = false;
  Linkage linkage = Linkage::kNone;
  std::string name;
  std::vector<Variable> results;     // .func only
  std::vector<Variable> parameters;  // .param, or .reg for old .func forms
  std::vector<Register> registers;   // every register of the body and of .reg parameters
  std::vector<Statement> body;
  bool has_body = false;
  // Performance directives (ISA 11.4), absent where not written.
  std::optional<std::array<std::uint32_t, 3>> max_threads, required_threads, required_cluster;
  std::optional<std::uint32_t> min_blocks_per_sm, max_registers, max_cluster_rank;
  bool noreturn = false;
  std::vector<std::string> directives;  // others, verbatim: ".pragma \"...\";", ".explicitcluster", ".abi_preserve 4"
  Location location;

  bool operator==(const Function&) const = default;
};

struct Item {
  std::variant<Variable, Function, Verbatim> node;
  bool operator==(const Item&) const = default;
};

struct Module {
  std::uint32_t version_major = 0, version_minor = 0;
  std::vector<std::string> targets;  // "sm_90", "texmode_independent", "debug"
  std::uint32_t address_size = 64;
  std::vector<Item> items;
  std::string source_name;  // for messages: the file, or "<string>"
  std::vector<std::pair<std::uint32_t, std::string>> files;  // .file index -> path (printed from items' Verbatim)

  Function* find_function(std::string_view name);  // the definition where there is one, else the declaration
  const Function* find_function(std::string_view name) const;
  const Variable* find_variable(std::string_view name) const;
  std::vector<const Function*> entries() const;
  std::vector<const Function*> functions() const;  // declared and defined

  bool operator==(const Module& other) const;  // all but source_name
};

}  // namespace pergola::ptx
