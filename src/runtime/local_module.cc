#include "src/runtime/local_module.h"

#include "src/analysis/pointer_modes.h"
#include "src/runtime/argument_text.h"
#include "src/runtime/loaded_block_form.h"
#include "src/runtime/local_array.h"
#include "src/runtime/local_texture.h"
#include "src/runtime/modes.h"
#include "src/session/arguments.h"
#include "src/session/signature.h"

namespace pergola::runtime {
namespace {

// Numbers that are not addresses, and structs that hold none.
scheduler::ByteRanges scalars(const session::KernelInfo& info, std::span<const scheduler::Mode> modes,
                              std::span<const session::Argument> arguments) {
  scheduler::ByteRanges found;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const session::ParameterInfo& parameter = info.parameters[i];
    const bool number = std::holds_alternative<session::Number>(arguments[i]);
    if (!number && !std::holds_alternative<session::BytesArgument>(arguments[i])) continue;
    if (modes[i] != scheduler::Mode::kNone && may_be_address(info, arguments, i)) continue;
    if (parameter.size_bytes != 0)
      found.push_back({parameter.offset_bytes, parameter.offset_bytes + parameter.size_bytes});
  }
  return found;
}

}  // namespace

bool may_be_address(const session::KernelInfo& info, std::span<const session::Argument> arguments, std::size_t index,
                    std::span<const session::TaskColumn> columns) {
  const auto is_column = [&](std::size_t i) {
    return std::ranges::find(columns, i, &session::TaskColumn::argument) != columns.end();
  };
  const auto is_number = [&](std::size_t i) {
    const auto* number = std::get_if<session::Number>(&arguments[i]);
    return is_column(i) || (number != nullptr && number->bits != 0);
  };
  if (!is_column(index)) {
    if (const auto* address = std::get_if<session::AddressArgument>(&arguments[index])) return address->address != 0;
    if (std::holds_alternative<session::BytesArgument>(arguments[index])) return true;
  }
  const session::ParameterInfo& parameter = info.parameters[index];
  if (parameter.size_bytes != 8 || !is_number(index)) return false;
  if (parameter.is_sole_base) return true;
  return std::ranges::any_of(info.sums, [&](const session::SummedParameters& sum) {
    if (std::ranges::find(sum.parameters, index) == sum.parameters.end()) return false;
    const auto arrays = std::ranges::count_if(sum.parameters, [&](std::uint32_t i) {
      return !is_column(i) && std::holds_alternative<session::ArrayArgument>(arguments[i]);
    });
    return analysis::others_may_be_address(sum.parameters.size(), static_cast<std::size_t>(arrays), sum.has_other_base);
  });
}

LocalModule::LocalModule(std::shared_ptr<LocalSession> session, device::ModulePtr module, std::string name,
                         const std::string& ptx_name, std::string ptx, std::vector<session::KernelName> names,
                         std::vector<session::KernelInfo> infos, std::vector<Result<const device::Kernel*>> kernels)
    : session_(std::move(session)),
      module_(std::move(module)),
      name_(std::move(name)),
      ptx_(std::make_shared<const std::string>(std::move(ptx))),
      names_(std::move(names)),
      infos_(std::move(infos)),
      kernels_(std::move(kernels)) {
  for (const session::KernelName& kernel : names_) ptx_names_.push_back(kernel.ptx);
  for (const auto& kernel : kernels_) refusals_.push_back(kernel.ok() ? "" : kernel.message());
  scheduler::Scheduler& scheduler = session_->scheduler();
  for (const session::KernelInfo& info : infos_)
    for (const session::VariableInfo& variable : info.variables)
      if (auto& resource = variables_[variable.name]; resource == nullptr && writes(mode_of(variable.access)))
        resource = scheduler.create_resource(1, scheduler::ResourceKind::kVariable);
  for (std::size_t i = 0; i < infos_.size(); ++i) {
    std::string written;
    for (const session::VariableInfo& variable : infos_[i].variables)
      if (variables_.at(variable.name) != nullptr) written = variable.name;
    launch_states_.push_back(launch_state(infos_[i], scheduler.site(ptx_names_[i]),
                                          std::make_shared<LoadedBlockForm>(session_->device_pointer(), ptx_, ptx_name,
                                                                            ptx_names_[i], std::move(written))));
    part_accesses_.push_back(std::make_unique<PartAccesses>());
    if (SmallTasks* const small = session_->small_tasks(); small != nullptr && kernels_[i].ok())
      small_forms_.push_back(std::make_unique<SmallForms>(*small, ptx_, infos_[i], module_, **kernels_[i]));
    else
      small_forms_.emplace_back();
  }
}

LocalModule::LaunchState LocalModule::launch_state(const session::KernelInfo& info, scheduler::WorkSite* site,
                                                   std::shared_ptr<scheduler::BlockForm> block_form) const {
  LaunchState state;
  state.site = site;
  state.block_form = std::move(block_form);
  state.universal = mode_of(info.universal_access);
  for (const session::ParameterInfo& parameter : info.parameters) state.modes.push_back(mode_of(parameter.access));
  for (const session::VariableInfo& variable : info.variables)
    if (const auto& resource = variables_.at(variable.name); resource != nullptr)
      state.variables.push_back({resource.get(), {0, 1}, mode_of(variable.access)});
  return state;
}

LocalModule::~LocalModule() {
  for (auto& [name, resource] : variables_)
    if (resource != nullptr) session_->scheduler().retire(std::move(resource), nullptr);
  small_forms_.clear();
  module_.reset();  // beside a resident kernel a device unloads it later
}

Result<session::KernelPtr> LocalModule::kernel(std::string_view name, std::optional<std::string_view> signature) {
  PERGOLA_ASSIGN(const std::size_t index, session::find_kernel(names_, name, name_));
  if (!kernels_[index])
    return PERGOLA_ERROR(kUnsupported, "{} Kernel '{}' is refused therefore; others of '{}' can be used.",
                         refusals_[index], ptx_names_[index], name_);
  if (!signature) return session::KernelPtr(std::make_shared<LocalKernel>(shared_from_this(), index));
  PERGOLA_ASSIGN(const session::Signature declared, session::parse_signature(*signature));
  if (!declared.kernel.empty() && !session::may_mean(names_[index], declared.kernel))
    return PERGOLA_ERROR(
        kInvalidArgument,
        "The signature is of kernel '{}', and the kernel is '{}': name the same, or leave the name out.",
        declared.kernel, name);
  PERGOLA_ASSIGN(const session::KernelInfo info, session::apply_signature(infos_[index], declared));
  const std::lock_guard lock(declared_mutex_);
  std::weak_ptr<LocalKernel>& known = declared_[{index, std::string(*signature)}];
  if (std::shared_ptr<LocalKernel> kernel = known.lock()) return session::KernelPtr(std::move(kernel));
  auto kernel = std::make_shared<LocalKernel>(shared_from_this(), index, info);
  known = kernel;
  constexpr std::size_t kMany = 256;
  if (declared_.size() > kMany) std::erase_if(declared_, [](const auto& each) { return each.second.expired(); });
  return session::KernelPtr(std::move(kernel));
}

// None where all arrays are given whole, and whole they count, too, where nobody can tell what the launch touches.
std::optional<ArrayParts> LocalKernel::parts_given(const session::LaunchShape& shape, Arguments arguments,
                                                   std::span<const std::byte> parameters, Arrays& arrays) const {
  bool any = false;
  for (const session::Argument& argument : arguments) {
    const auto* const given = std::get_if<session::ArrayArgument>(&argument);
    if (given == nullptr) continue;
    const auto& array = static_cast<const LocalArray&>(*given->array);
    if (given->offset_bytes != 0 || (given->size_bytes != 0 && given->size_bytes < array.size_bytes()))
      array.note_part();
    any = any || array.is_in_parts();
  }
  auto* const form = any ? dynamic_cast<LoadedBlockForm*>(state_.block_form.get()) : nullptr;
  if (form == nullptr) return std::nullopt;
  boost::container::small_vector<GivenArray, 8> given_arrays;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto* const given = std::get_if<session::ArrayArgument>(&arguments[i]);
    if (given == nullptr) continue;
    const auto* const array = static_cast<const LocalArray*>(given->array.get());
    const auto known = std::ranges::find(arrays, array);
    const auto number = static_cast<std::uint32_t>(known - arrays.begin());
    if (known == arrays.end()) arrays.push_back(array);
    given_arrays.push_back({info().parameters[i].offset_bytes, number, given->offset_bytes, array->size_bytes()});
  }
  auto parts = module_->part_accesses_[index_]->of(*form->block_kernel(), shape, parameters, given_arrays);
  if (parts && !has_all_declared(*parts, arguments, given_arrays)) return std::nullopt;
  return parts;
}

// A signature may say more of an array than the text does: then its word counts.
bool LocalKernel::has_all_declared(const ArrayParts& parts, Arguments arguments,
                                   std::span<const GivenArray> given) const {
  for (std::size_t i = 0, at = 0; i < arguments.size(); ++i) {
    if (!std::holds_alternative<session::ArrayArgument>(arguments[i])) continue;
    const std::uint32_t array = given[at++].array;
    if (info().parameters[i].direction == session::Direction::kNone) continue;
    scheduler::Mode found = scheduler::Mode::kNone;
    for (const ArrayPart& part : parts)
      if (part.array == array) found = found | part.mode;
    if ((found | state_.modes[i]) != found) return false;
  }
  return true;
}

namespace {

// By which argument a kernel comes to that part of the array, as Access::argument: of those that are used so, the one
// whose pointer is the last before it, or else the first behind it; 0 of a part that begins several of them, and is one
// as they lie side by side.
std::uint16_t number_of(std::span<const session::Argument> arguments, std::span<const scheduler::Mode> modes,
                        const LocalArray* array, const ArrayPart& part) {
  const auto distance = [&](std::uint64_t pointer) {
    return pointer <= part.range.begin ? part.range.begin - pointer : array->size_bytes() + pointer - part.range.begin;
  };
  std::uint16_t number = 0;
  std::uint64_t least = 0;
  std::optional<std::uint64_t> inside;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto* const given = std::get_if<session::ArrayArgument>(&arguments[i]);
    if (given == nullptr || given->array.get() != array || (modes[i] | part.mode) != modes[i]) continue;
    if (given->offset_bytes >= part.range.begin && given->offset_bytes < part.range.end) {
      if (inside.value_or(given->offset_bytes) != given->offset_bytes) return 0;
      inside = given->offset_bytes;
    }
    if (number != 0 && distance(given->offset_bytes) >= least) continue;
    number = static_cast<std::uint16_t>(i + 1);
    least = distance(given->offset_bytes);
  }
  return number;
}

}  // namespace

Status LocalKernel::launch(const session::LaunchShape& shape, std::span<const session::Argument> arguments,
                           session::EventPtr* event, std::uint64_t* ticket, const CallText* text) {
  LocalSession& session = *module_->session_;
  boost::container::small_vector<std::byte, 256> parameters(info().parameter_bytes);
  PERGOLA_TRY(session::bind_arguments(info(), session.id(), arguments, parameters));
  boost::container::small_vector<scheduler::Access, 8> accesses;
  for (const scheduler::Access& variable : state_.variables) accesses.push_back(variable);
  scheduler::Mode universal = state_.universal;
  const bool plain = !shape.cooperative && !shape.programmatic && shape.cluster == device::Dim3{0, 0, 0};
  TaskTurn turn(session, plain && !session.managed().any());
  Arrays arrays;
  const auto parts =
      plain && !session.managed().any_restricted() ? parts_given(shape, arguments, parameters, arrays) : std::nullopt;
  bool points_behind = false;  // an array, where another one may begin: graphs know arrays by what lies where
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (const auto* given = std::get_if<session::TextureArgument>(&arguments[i])) {  // of this session too
      accesses.push_back(
          {&static_cast<const LocalTexture&>(*given->texture).resource(), {0, 1}, scheduler::Mode::kRead});
      continue;
    }
    const scheduler::Mode mode = state_.modes[i];
    if (mode == scheduler::Mode::kNone) continue;
    if (const auto* given = std::get_if<session::ArrayArgument>(&arguments[i])) {
      // bind_arguments() has seen that it is of this session, whose arrays are all LocalArrays. A pointer into the
      // array may be followed in both directions, so where nothing else is known it stands for all of it.
      const auto& array = static_cast<const LocalArray&>(*given->array);
      PERGOLA_TRY(array.settle_behind(turn));
      points_behind = points_behind || given->offset_bytes >= array.size_bytes();
      if (!parts) {
        accesses.push_back(array.access(0, array.size_bytes(), mode));
        accesses.back().argument = static_cast<std::uint16_t>(i + 1);
      }
    } else if (may_be_address(info(), arguments, i)) {
      universal = universal | mode;
    }
  }
  if (parts)
    for (const ArrayPart& part : *parts) {
      accesses.push_back(arrays[part.array]->access(part.range.begin, part.range.end - part.range.begin, part.mode));
      accesses.back().argument = number_of(arguments, state_.modes, arrays[part.array], part);
    }
  if (universal != scheduler::Mode::kNone) {
    PERGOLA_TRY(turn.comes_after_all());
    PERGOLA_TRY(session.mirrors().settle_all());
  }
  const device::Kernel& kernel = **module_->kernels_[index_];
  const auto find_scalars = [&] { return scalars(info(), state_.modes, arguments); };
  const FunctionRef<scheduler::ByteRanges()> ask_scalars = find_scalars;
  // Where more than the arrays given is to be seen to, it is each time.
  const bool is_told = universal == scheduler::Mode::kNone && event == nullptr;
  const scheduler::KernelCall call{module_->module_,        kernel, shape, parameters, &ask_scalars, &state_.block_form,
                                   is_told ? text : nullptr};
  const auto detail = [&] {
    return scheduler::WorkDetail{shape.grid, shape.block, shape.dynamic_shared_bytes, argument_text(arguments)};
  };
  const FunctionRef<scheduler::WorkDetail()> describe = detail;
  const auto take_all = [&](device::Queue& queue) -> Status {
    for (std::size_t i = 0; i < arguments.size(); ++i)
      if (const auto* given = std::get_if<session::ArrayArgument>(&arguments[i]);
          given && (state_.modes[i] | universal) != scheduler::Mode::kNone)
        PERGOLA_TRY(static_cast<const LocalArray&>(*given->array).take(queue));
    return universal == scheduler::Mode::kNone ? Status() : session.managed().take_restricted(queue);
  };
  const FunctionRef<Status(device::Queue&)> prepare = take_all;
  scheduler::Work work{scheduler::WorkKind::kKernel, state_.site, accesses, universal};
  work.detail = &describe;
  if (session.managed().any()) work.prepare = &prepare;
  if (plain && !points_behind && !session.managed().any_restricted()) work.call = &call;
  device::EventPtr ended;
  bool is_task = false;
  Status left;  // told last: the launch has been queued by then
  if (scheduler::TaskForms* const small = module_->small_forms_[index_].get(); small != nullptr && !turn.follows()) {
    PERGOLA_ASSIGN(is_task, session.scheduler().offer_task(work, event != nullptr, *small, ticket));
  }
  if (!is_task) {
    if (session.scheduler().takes_tasks() && session.scheduler().comes_after_tasks(work)) turn.comes_after_launches();
    PERGOLA_TRY(turn.take());
    work.held_from_tasks = &turn;
    work.behind = turn.behind();
    PERGOLA_TRY(session.scheduler().submit(
        work, [&](device::Queue& queue) { return queue.launch(module_->module_, kernel, shape, parameters); },
        event == nullptr ? nullptr : &ended, ticket));
    left = turn.submitted();
  }
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (const auto* given = std::get_if<session::ArrayArgument>(&arguments[i]); given && writes(state_.modes[i]))
      static_cast<const LocalArray&>(*given->array).changed_on_device();
  if (writes(universal)) session.mirrors().all_changed_on_device();
  if (event != nullptr) *event = session.wrap(std::move(ended), module_->module_, kernel.signature().name);
  return left;
}

// What launch() does besides is nothing then, as there are no tasks, or is done there: arrays that the host is ahead of
// are launch()'s, and those that the launch changes are noted (Resource::changed_on_device).
std::optional<Status> LocalKernel::launch_again(const CallText& text, std::uint64_t* ticket) {
  LocalSession& session = *module_->session_;
  if (session.has_tasks()) return std::nullopt;
  return session.scheduler().submit_again(text, ticket);
}

Result<session::EventPtr> LocalKernel::event_of(std::uint64_t ticket) {
  LocalSession& session = *module_->session_;
  if (ticket == 0) return session.record();
  Status failed;
  PERGOLA_ASSIGN(auto event, session.scheduler().event_of(ticket, &failed));
  return session.wrap(std::move(event), module_->module_, (*module_->kernels_[index_])->signature().name,
                      std::move(failed));
}

Status LocalKernel::launch_nothing(std::span<const session::Argument> arguments, session::EventPtr* event) {
  std::vector<std::byte> parameters(info().parameter_bytes);
  PERGOLA_TRY(session::bind_arguments(info(), module_->session_->id(), arguments, parameters));
  if (event == nullptr) return {};
  PERGOLA_ASSIGN(*event, module_->session_->record());
  return {};
}

}  // namespace pergola::runtime
