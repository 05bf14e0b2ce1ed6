// Module -> PTX text: one statement a line, in the order of the module.
#include "src/ptx/printer.h"

#include <fmt/format.h>

#include <iterator>

#include "src/ptx/printer_impl.h"

namespace pergola::ptx {
namespace {

std::string_view spelling_of(Linkage linkage) {
  switch (linkage) {
    case Linkage::kNone: return "";
    case Linkage::kExtern: return ".extern ";
    case Linkage::kVisible: return ".visible ";
    case Linkage::kWeak: return ".weak ";
    case Linkage::kCommon: return ".common ";
  }
  return "";
}

template <typename... Args>
void append(std::string& out, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(out), format, std::forward<Args>(args)...);
}

// ---- Variables

void append_initializer(std::string& out, const Initializer& value, Type type) {
  if (value.kind != Initializer::Kind::kBits) {
    const bool masked = value.mask != ~std::uint64_t{0};
    if (masked) append(out, "0x{:X}(", value.mask);
    if (value.kind == Initializer::Kind::kGenericSymbol) {
      append(out, "generic({})", value.symbol);
    } else {
      out += value.symbol;
    }
    append_offset(out, value.offset);
    if (masked) out += ')';
  } else if (type == Type::kF32) {
    append(out, "0f{:08X}", static_cast<std::uint32_t>(value.bits));
  } else if (type == Type::kF64) {
    append(out, "0d{:016X}", value.bits);
  } else if (is_signed(type)) {
    const unsigned unused_bits = 64 - 8 * size_bytes(type);
    append(out, "{}", static_cast<std::int64_t>(value.bits << unused_bits) >> unused_bits);
  } else {
    append(out, "{}", value.bits);
  }
}

// Elements [begin, end) of dimension `level`, in nested braces as the extents have them.
void append_initializers(std::string& out, const Variable& variable, std::size_t level, std::size_t begin,
                         std::size_t end) {
  std::size_t stride = variable.vector;
  for (std::size_t i = level + 1; i < variable.extents.size(); ++i) stride *= variable.extents[i];
  const bool innermost = level + 1 >= variable.extents.size() && (variable.vector == 1 || variable.extents.empty());
  out += '{';
  if (innermost || level >= variable.extents.size() || stride == 0) {
    for (std::size_t i = begin; i < end; ++i) {
      if (i != begin) out += ", ";
      append_initializer(out, variable.initializers[i], variable.type);
    }
  } else {
    for (std::size_t i = begin; i < end; i += stride) {
      if (i != begin) out += ", ";
      append_initializers(out, variable, level + 1, i, std::min(end, i + stride));
    }
  }
  out += '}';
}

void append_variable(std::string& out, const Variable& variable) {
  out += spelling_of(variable.linkage);
  append(out, ".{}", spelling(variable.space));
  for (const std::string& attribute : variable.attributes) append(out, " .{}", attribute);
  if (variable.align_bytes != 0) append(out, " .align {}", variable.align_bytes);
  if (variable.vector > 1) append(out, " .v{}", variable.vector);
  append(out, " .{}", spelling(variable.type));
  if (variable.is_pointer) {
    out += " .ptr";
    if (variable.pointer_space != Space::kNone) append(out, " .{}", spelling(variable.pointer_space));
    if (variable.pointer_align_bytes != 0) append(out, " .align {}", variable.pointer_align_bytes);
  }
  append(out, " {}", variable.name);
  for (const std::uint64_t extent : variable.extents) {
    if (extent == 0) {
      out += "[]";
    } else {
      append(out, "[{}]", extent);
    }
  }
  if (variable.initializers.empty()) return;
  out += " = ";
  if (variable.extents.empty() && variable.vector == 1) {
    append_initializer(out, variable.initializers[0], variable.type);
  } else {
    append_initializers(out, variable, 0, 0, variable.initializers.size());
  }
}

void append_parameters(std::string& out, const std::vector<Variable>& parameters) {
  out += '(';
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (i != 0) out += ", ";
    append_variable(out, parameters[i]);
  }
  out += ')';
}

// ---- Statements

struct StatementPrinter {
  std::string& out;
  const Function& function;
  std::size_t depth;

  void indent() { out.append(2 * depth, ' '); }

  void operator()(const Instruction& instruction) {
    indent();
    append_instruction(out, instruction, function);
  }
  void operator()(const Label& label) { append(out, "{}:", label.name); }
  void operator()(const ScopeBegin&) {
    indent();
    out += '{';
    ++depth;
  }
  void operator()(const ScopeEnd&) {
    if (depth > 1) --depth;
    indent();
    out += '}';
  }
  void operator()(const RegisterDecl& declaration) {
    indent();
    const Register none;
    const bool known = declaration.first < function.registers.size();
    const Register& first = known ? function.registers[declaration.first] : none;
    out += ".reg ";
    if (first.vector > 1) append(out, ".v{} ", first.vector);
    append(out, ".{} ", spelling(first.type));
    if (declaration.parameterized) {
      append(out, "{}<{}>;", declaration.prefix, declaration.count);
    } else {
      append(out, "{};", first.name);
    }
  }
  void operator()(const Variable& variable) {
    indent();
    append_variable(out, variable);
    out += ';';
  }
  void operator()(const LocDirective& loc) {
    indent();
    append(out, ".loc {} {} {}{}", loc.file, loc.line, loc.column, loc.rest);
  }
  void operator()(const BranchTargets& targets) {
    append(out, "{}: .branchtargets {};", targets.name, fmt::join(targets.labels, ", "));
  }
  void operator()(const CallTargets& targets) {
    append(out, "{}: .calltargets {};", targets.name, fmt::join(targets.functions, ", "));
  }
  void operator()(const CallPrototype& prototype) {
    append(out, "{}: .callprototype ", prototype.name);
    if (!prototype.results.empty()) {
      append_parameters(out, prototype.results);
      out += ' ';
    }
    out += "_ ";
    append_parameters(out, prototype.parameters);
    if (prototype.noreturn) out += " .noreturn";
    for (const std::string& directive : prototype.directives) append(out, " {}", directive);
    out += ';';
  }
  void operator()(const Verbatim& verbatim) {
    indent();
    out += verbatim.text;
  }
};

void append_three(std::string& out, std::string_view name,
                  const std::optional<std::array<std::uint32_t, 3>>& value) {
  if (value) append(out, ".{} {}, {}, {}\n", name, (*value)[0], (*value)[1], (*value)[2]);
}

void append_one(std::string& out, std::string_view name, const std::optional<std::uint32_t>& value) {
  if (value) append(out, ".{} {}\n", name, *value);
}

void append_function(std::string& out, const Function& function) {
  out += spelling_of(function.linkage);
  out += function.is_entry ? ".entry " : ".func ";
  for (const std::string& directive : function.directives) {
    if (directive.starts_with(".attribute")) append(out, "{} ", directive);
  }
  if (!function.results.empty()) {
    append_parameters(out, function.results);
    out += ' ';
  }
  out += function.name;
  append_parameters(out, function.parameters);
  out += '\n';
  append_three(out, "maxntid", function.max_threads);
  append_three(out, "reqntid", function.required_threads);
  append_three(out, "reqnctapercluster", function.required_cluster);
  append_one(out, "minnctapersm", function.min_blocks_per_sm);
  append_one(out, "maxnreg", function.max_registers);
  append_one(out, "maxclusterrank", function.max_cluster_rank);
  if (function.noreturn) out += ".noreturn\n";
  for (const std::string& directive : function.directives) {
    if (!directive.starts_with(".attribute")) append(out, "{}\n", directive);
  }
  if (!function.has_body) {
    out += ";\n";
    return;
  }
  out += "{\n";
  StatementPrinter printer{out, function, 1};
  for (const Statement& statement : function.body) {
    std::visit(printer, statement.node);
    out += '\n';
  }
  out += "}\n";
}

struct ItemPrinter {
  std::string& out;
  void operator()(const Variable& variable) {
    append_variable(out, variable);
    out += ";\n";
  }
  void operator()(const Function& function) {
    out += '\n';
    append_function(out, function);
  }
  void operator()(const Verbatim& verbatim) {
    out += verbatim.text;
    out += '\n';
  }
};

}  // namespace

std::string print(const Module& module) {
  std::string out;
  append(out, ".version {}.{}\n.target {}\n.address_size {}\n\n", module.version_major, module.version_minor,
         fmt::join(module.targets, ", "), module.address_size);
  ItemPrinter printer{out};
  for (const Item& item : module.items) std::visit(printer, item.node);
  return out;
}

std::string print(const Function& function) {
  std::string out;
  append_function(out, function);
  return out;
}

}  // namespace pergola::ptx
