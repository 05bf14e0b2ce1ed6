#include "src/transform/merged_launches.h"

#include <algorithm>
#include <bit>
#include <set>
#include <string>

#include "src/analysis/call_graph.h"
#include "src/analysis/resources.h"
#include "src/base/check.h"
#include "src/ptx/printer.h"
#include "src/ptx/semantics.h"
#include "src/transform/body_editor.h"
#include "src/transform/kernel_boundary.h"
#include "src/transform/parameter_names.h"

namespace pergola::transform {
namespace {

using ptx::Function;
using ptx::Instruction;
using ptx::Mod;
using ptx::Op;
using ptx::Operand;
using ptx::Space;
using ptx::Special;
using ptx::Statement;
using ptx::Type;

// The launch's own %ctaid and %nctaid, where they are not the merged one's, and where its parameters are.
constexpr const char* kBlock[] = {"%pergola_launch_block_x", "%pergola_launch_block_y", "%pergola_launch_block_z"};
constexpr const char* kGrid[] = {"%pergola_launch_grid_x", "%pergola_launch_grid_y", "%pergola_launch_grid_z"};
constexpr const char* kParameters = "%pergola_launch_parameters";

// Numbers of the merged launch that a block would not find where it is launched alone.
std::string_view why_not_read(const Operand& operand) {
  for (const Operand& element : operand.elements)
    if (const std::string_view why = why_not_read(element); !why.empty()) return why;
  if (operand.kind != Operand::Kind::kSpecial) return {};
  if (ptx::tells_of_cluster(operand.special)) return "asks for its cluster";
  switch (operand.special) {
    case Special::kGridid: return "asks for the number of its launch";
    case Special::kEnvreg: return "may be part of a grid-wide barrier";
    default: return {};
  }
}

std::string_view why_not_merged(const Instruction& in) {
  if (in.op == Op::kGriddepcontrol) return "orders whole launches";
  if (in.op == Op::kClusterlaunchcontrol) return "takes over other blocks of its grid";
  if (in.op == Op::kOpaque) {
    for (const std::string_view word : {"ctaid", "gridid", "envreg", "cluster", "griddep"})
      if (in.text.find(word) != std::string::npos) return "is not understood, and mentions its grid";
    return {};
  }
  if (in.op == Op::kCall)
    for (const Operand& operand : in.operands)
      if (operand.kind == Operand::Kind::kSymbol && operand.name.starts_with("cudaCG"))
        return "may be part of a grid-wide barrier";
  for (const Operand& operand : in.operands)
    if (const std::string_view why = why_not_read(operand); !why.empty()) return why;
  return {};
}

bool is_index(const Operand& operand) {
  return operand.kind == Operand::Kind::kSpecial &&
         (operand.special == Special::kCtaid || operand.special == Special::kNctaid);
}

// Rewrites one function: the kernel, or one that it calls.
class LaunchMerger {
 public:
  LaunchMerger(const ptx::Module& module, Function& function, const ptx::KernelSignature& signature,
               const MergedShape& shape)
      : module_(module),
        function_(function),
        kernel_(signature.name),
        shape_(shape),
        layout_(merged_layout(signature, shape)),
        parameters_(signature),
        editor_(function) {}

  Status run() {
    Statements body;
    for (Statement& statement : function_.body) {
      if (function_.is_entry) parameters_.pass(statement);
      if (const Instruction* const in = statement.instruction(); in == nullptr)
        body.push_back(std::move(statement));
      else
        PERGOLA_TRY(rewrite(*in, statement.location, body));
    }
    const std::string begin = function_.is_entry ? begin_of_kernel() : constants();
    PERGOLA_ASSIGN(const Statements head, editor_.statements(begin, {}, function_.location));
    function_.body = editor_.declarations();
    function_.body.insert(function_.body.end(), head.begin(), head.end());
    function_.body.insert(function_.body.end(), std::make_move_iterator(body.begin()),
                          std::make_move_iterator(body.end()));
    if (function_.is_entry) function_.parameters.assign(1, array());
    return {};
  }

 private:
  Error refuse(const Instruction& in, const ptx::Location& location, std::string_view why) const {
    const std::string text = in.op == Op::kOpaque ? in.text : ptx::print(in, function_);
    return PERGOLA_ERROR(kUnsupported, "{}:{}: launches of kernel '{}' cannot be merged: `{}` {}.", module_.source_name,
                         location.line, kernel_, text, why);
  }

  Status rewrite(const Instruction& in, const ptx::Location& location, Statements& out) {
    if (const std::string_view why = why_not_merged(in); !why.empty()) return refuse(in, location, why);
    if (in.op == Op::kOpaque) {
      if (function_.is_entry && parameters_.is_in_text(in.text))
        return refuse(in, location, "is not understood, and mentions a parameter");
      out.push_back({in, location});
      return {};
    }
    if (function_.is_entry && parameters_.is_in(in)) return rewrite_parameter(in, location, out);
    return rewrite_index(in, location, out);
  }

  // ---- Parameters

  // ld.param d, [name+imm]; mov.b64 d, name+imm; cvta.param.u64 d, name+imm.
  Status rewrite_parameter(const Instruction& in, const ptx::Location& location, Statements& out) {
    constexpr std::string_view kWhy = "uses a parameter otherwise than by loading it or taking its address";
    const Operand& last = in.operands.back();
    const auto others = std::count_if(in.operands.begin(), in.operands.end() - 1,
                                      [&](const Operand& operand) { return parameters_.is_in(operand); });
    if (others != 0) return refuse(in, location, kWhy);
    if (last.kind == Operand::Kind::kAddress) {
      const bool is_read = (in.op == Op::kLd || in.op == Op::kPrefetch) && in.space() == Space::kParam;
      if (!is_read || last.elements.size() != 1) return refuse(in, location, kWhy);
      Instruction made = in;
      Operand& address = made.operands.back();
      address.offset += place_of(address.elements[0]);
      address.elements[0] = Operand::make_register(editor_.declare(kParameters, Type::kB64));
      out.push_back({std::move(made), location});
      return {};
    }
    const bool takes = in.op == Op::kMov || (in.op == Op::kCvta && in.space() == Space::kParam && !in.has(Mod::kTo));
    if (!takes || last.kind != Operand::Kind::kSymbol || in.operands.size() != 2 ||
        in.operands[0].kind != Operand::Kind::kRegister || ptx::size_bytes(in.type()) != 8)
      return refuse(in, location, kWhy);
    Instruction sum = in;
    sum.op = Op::kAdd;
    sum.mods.assign(1, Mod::kS64);
    sum.operands.assign({in.operands[0], Operand::make_register(editor_.declare(kParameters, Type::kB64)),
                         Operand::make_integer(place_of(last))});
    out.push_back({std::move(sum), location});
    if (in.op == Op::kMov) return {};
    Instruction cvta = in;
    cvta.operands[1] = in.operands[0];
    out.push_back({std::move(cvta), location});
    return {};
  }

  // Of a parameter with what the text adds, from the launch's first one on.
  std::int64_t place_of(const Operand& symbol) const { return *parameters_.offset(symbol.name) + symbol.offset; }

  // ---- Indices

  Status rewrite_index(const Instruction& in, const ptx::Location& location, Statements& out) {
    const auto reads = std::count_if(in.operands.begin(), in.operands.end(), is_index);
    if (reads == 0) {
      const bool within = std::any_of(in.operands.begin(), in.operands.end(), [](const Operand& operand) {
        return std::any_of(operand.elements.begin(), operand.elements.end(), is_index);
      });
      if (within) return refuse(in, location, "reads the index of its block as a part of an operand");
      out.push_back({in, location});
      return {};
    }
    if (in.op == Op::kMov && in.operands.size() == 2) return rewrite_move(in, location, out);
    Instruction made = in;
    for (Operand& operand : made.operands) {
      if (!is_index(operand)) continue;
      if (operand.component < 0) return refuse(in, location, "reads the index of its block as a vector");
      PERGOLA_ASSIGN(operand, own(operand, in, location));
    }
    out.push_back({std::move(made), location});
    return {};
  }

  // A move of a vector becomes one of each component.
  Status rewrite_move(const Instruction& in, const ptx::Location& location, Statements& out) {
    const Operand& from = in.operands[1];
    const std::vector<Operand> to = ptx::elements(in.operands[0], function_);
    if (to.size() > 4 || (from.component >= 0 && to.size() != 1) ||
        (from.component < 0 && to.size() != static_cast<std::size_t>(in.vector_width())))
      return refuse(in, location, "moves the index of its block in another form");
    const std::uint32_t bytes = ptx::size_bytes(in.type());
    if (bytes != 2 && bytes != 4 && bytes != 8)
      return refuse(in, location, "moves the index of its block as a number of another size");
    for (std::size_t n = 0; n < to.size(); ++n) {
      if (to[n].kind == Operand::Kind::kSink) continue;
      Operand component = from;
      if (component.component < 0) component.component = static_cast<std::int8_t>(n);
      PERGOLA_ASSIGN(const Operand value, own(component, in, location));
      Instruction made = in;
      if (bytes == 4) {
        made.mods.assign(1, Mod::kU32);
      } else {
        made.op = Op::kCvt;
        made.mods.assign({bytes == 2 ? Mod::kU16 : Mod::kU64, Mod::kU32});
      }
      made.operands.assign({to[n], value});
      out.push_back({std::move(made), location});
    }
    return {};
  }

  enum class Source : std::uint8_t { kHardware, kConstant, kHeader };
  // Where a component of the launch's own %ctaid or %nctaid comes from.
  Source source_of(bool is_grid, int axis) const {
    if (axis > 2 || shape_.is_alone()) return Source::kHardware;
    if (shape_.flat) return axis == 0 || shape_.deep ? Source::kHeader : Source::kConstant;
    if (axis == 2) return shape_.deep ? Source::kHeader : Source::kConstant;
    return is_grid && shape_.bounded ? Source::kHeader : Source::kHardware;
  }

  // What stands for a component of %ctaid or %nctaid.
  Result<Operand> own(const Operand& index, const Instruction& in, const ptx::Location& location) {
    const bool is_grid = index.special == Special::kNctaid;
    const Source source = source_of(is_grid, index.component);
    if (source == Source::kHardware) return index;
    if (source == Source::kHeader && !function_.is_entry)
      return refuse(in, location, "asks in a function for what only the kernel knows; have it inlined");
    return Operand::make_register(editor_.declare((is_grid ? kGrid : kBlock)[index.component], Type::kB32));
  }

  // ---- The begin

  bool is_declared(std::string_view name) const {
    return std::any_of(function_.registers.begin(), function_.registers.end(),
                       [&](const ptx::Register& known) { return known.name == name; });
  }

  // Of what the body reads.
  std::string constants() const {
    std::string text;
    for (int axis = 0; axis < 3; ++axis) {
      if (source_of(false, axis) == Source::kConstant && is_declared(kBlock[axis]))
        text += fmt::format("mov.u32 {}, 0;\n", kBlock[axis]);
      if (source_of(true, axis) == Source::kConstant && is_declared(kGrid[axis]))
        text += fmt::format("mov.u32 {}, 1;\n", kGrid[axis]);
    }
    return text;
  }

  std::string begin_of_kernel() {
    for (int axis = 0; axis < 3; ++axis) {
      if (source_of(false, axis) == Source::kHeader) editor_.declare(kBlock[axis], Type::kB32);
      if (source_of(true, axis) == Source::kHeader) editor_.declare(kGrid[axis], Type::kB32);
    }
    editor_.declare(kParameters, Type::kB64);
    std::string text = constants() + ".reg .b32 %launch, %place, %x, %y; .reg .b64 %element; .reg .pred %p;\n";
    text += shape_.flat ? find_in_row() : find_by_layer();
    return text + fmt::format("add.s64 {}, %element, {};\n", kParameters, layout_.parameters_offset);
  }

  // Headers of %element.
  std::string load_grid(int axis) const {
    return fmt::format("ld.param.u32 {}, [%element+{}];\n", kGrid[axis], 4 * axis);
  }

  std::string find_by_layer() const {
    if (shape_.is_alone()) return fmt::format("mov.b64 %element, {};\n", array_name());
    std::string text = "mov.u32 %launch, %ctaid.z;\n";
    if (shape_.deep) {
      text += fmt::format("ld.param.u32 %place, [{}+12];\n", array_name());
      text += "div.u32 %launch, %launch, %place;\nmul.lo.u32 %y, %launch, %place;\nmov.u32 %x, %ctaid.z;\n";
      text += fmt::format("sub.u32 {}, %x, %y;\n", kBlock[2]);
      if (!shape_.bounded) text += fmt::format("mov.u32 {}, %place;\n", kGrid[2]);
    }
    text += fmt::format("mov.b64 %element, {};\nmad.wide.u32 %element, %launch, {}, %element;\n", array_name(),
                        layout_.stride_bytes);
    if (shape_.bounded) text += leaves_outside();
    return text;
  }

  std::string leaves_outside() const {
    std::string text;
    for (int axis = 0; axis < (shape_.deep ? 3 : 2); ++axis) {
      text += load_grid(axis);
      if (axis < 2) text += fmt::format("mov.u32 %x, %ctaid.{};\n", "xy"[axis]);
      text += fmt::format("setp.ge.u32 %p, {}, {};\n@%p ret;\n", axis < 2 ? "%x" : kBlock[2], kGrid[axis]);
    }
    return text;
  }

  // The last element whose first block is not behind this one.
  std::string find_in_row() const {
    std::string text = fmt::format("mov.u32 %x, %ctaid.x;\nmov.b64 %element, {};\n", array_name());
    for (std::uint32_t step = shape_.launches / 2; step != 0; step /= 2)
      text += fmt::format(
          "ld.param.u32 %place, [%element+{}];\nsetp.ge.u32 %p, %x, %place;\n@%p add.s64 %element, %element, {};\n",
          step * layout_.stride_bytes + 12, step * layout_.stride_bytes);
    text += "ld.param.u32 %place, [%element+12];\nsub.u32 %x, %x, %place;\n" + load_grid(0);
    if (!shape_.deep) return text + fmt::format("mov.u32 {}, %x;\n", kBlock[0]);
    text += load_grid(1) + load_grid(2);
    const auto split = [&](int axis) {  // %x becomes what is left for the axes behind
      return fmt::format(
          "div.u32 %y, %x, {1};\nmul.lo.u32 %launch, %y, {1};\nsub.u32 {0}, %x, %launch;\nmov.u32 %x, %y;\n",
          kBlock[axis], kGrid[axis]);
    };
    return text + split(0) + split(1) + fmt::format("mov.u32 {}, %x;\n", kBlock[2]);
  }

  std::string array_name() const { return kernel_ + "_launches"; }
  ptx::Variable array() const {
    ptx::Variable made;
    made.space = Space::kParam;
    made.type = Type::kB8;
    made.align_bytes = layout_.align_bytes;
    made.name = array_name();
    made.extents = {std::uint64_t{shape_.launches} * layout_.stride_bytes};
    return made;
  }

  const ptx::Module& module_;
  Function& function_;
  const std::string kernel_;
  const MergedShape shape_;
  const MergedLayout layout_;
  ParameterNames parameters_;
  BodyEditor editor_;
};

Status check_entry(const ptx::Module& module, const Function& entry) {
  std::string_view why;
  if (module.address_size != 64) why = "its addresses have 32 bits";
  if (analysis::is_launched_in_clusters(entry)) why = "it is launched in clusters";
  if (why.empty()) return {};
  return PERGOLA_ERROR(kUnsupported, "{}:{}: launches of kernel '{}' cannot be merged: {}.", module.source_name,
                       entry.location.line, entry.name, why);
}

constexpr std::uint32_t rounded_up(std::uint32_t bytes, std::uint32_t to) {
  return (bytes + to - 1) / to * to;
}

}  // namespace

MergedLayout merged_layout(const ptx::KernelSignature& signature, const MergedShape& shape) {
  MergedLayout layout;
  for (const ptx::Parameter& parameter : signature.parameters)
    layout.align_bytes = std::max(layout.align_bytes, parameter.align_bytes);
  if (shape.has_header()) {
    layout.align_bytes = std::max<std::uint32_t>(layout.align_bytes, alignof(MergedHeader));
    layout.parameters_offset = rounded_up(sizeof(MergedHeader), layout.align_bytes);
  }
  layout.stride_bytes = std::max(rounded_up(layout.parameters_offset + signature.parameter_bytes, layout.align_bytes),
                                 layout.align_bytes);
  return layout;
}

Status merge_launches(ptx::Module& module, std::string_view kernel, const MergedShape& shape) {
  PERGOLA_CHECK(!shape.flat || (std::has_single_bit(shape.launches) && !shape.bounded));
  PERGOLA_TRY(leave_only_kernel(module, kernel));
  const Function& entry = *module.find_function(kernel);
  PERGOLA_TRY(check_entry(module, entry));
  PERGOLA_ASSIGN(const ptx::KernelSignature signature, ptx::signature(module, entry));
  std::set<std::string> reached;
  const analysis::CallGraph calls = analysis::call_graph(module, entry);
  for (const analysis::CallGraph::Node& node : calls.nodes) reached.insert(node.function->name);
  for (ptx::Item& item : module.items) {
    auto* const function = std::get_if<Function>(&item.node);
    if (function != nullptr && function->has_body && reached.contains(function->name))
      PERGOLA_TRY(LaunchMerger(module, *function, signature, shape).run());
  }
  module.find_function(kernel)->name = merged_kernel(kernel);
  return {};
}

}  // namespace pergola::transform
