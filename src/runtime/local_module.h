// A loaded module of the in-process session, and its kernels.
#pragma once

#include <map>
#include <mutex>

#include "src/runtime/local_session.h"
#include "src/runtime/part_accesses.h"
#include "src/runtime/small_tasks.h"
#include "src/session/kernel_names.h"
#include "src/session/task_pool.h"

namespace pergola::runtime {

class LocalKernel;

// Memory comes in through argument `index`, though it is no array: then it may be that of any. Those of `columns` stand
// for numbers, whatever `arguments` has.
bool may_be_address(const session::KernelInfo& info, std::span<const session::Argument> arguments, std::size_t index,
                    std::span<const session::TaskColumn> columns = {});

// Immutable but for the scheduler's own state. kernels[i], infos[i] and names[i] are of the same kernel; where the
// device refuses it, kernels[i] says why and infos[i] is empty. A LocalKernel is of one that is not refused.
class LocalModule final : public session::Module, public std::enable_shared_from_this<LocalModule> {
 public:
  // `name` is its source's, `ptx_name` what messages call its PTX.
  LocalModule(std::shared_ptr<LocalSession> session, device::ModulePtr module, std::string name,
              const std::string& ptx_name, std::string ptx, std::vector<session::KernelName> names,
              std::vector<session::KernelInfo> infos, std::vector<Result<const device::Kernel*>> kernels);

  const std::vector<std::string>& kernel_names() const override { return ptx_names_; }
  const std::shared_ptr<LocalSession>& session() const { return session_; }
  const std::string& refusal(std::size_t index) const override { return refusals_[index]; }
  const std::string& ptx() const override { return *ptx_; }
  ~LocalModule() override;
  Result<session::KernelPtr> kernel(std::string_view name, std::optional<std::string_view> signature) override;

 private:
  friend class LocalKernel;
  friend class LocalTaskKind;
  friend class LocalTaskPool;
  // What launches of one kernel need at once.
  struct LaunchState {
    scheduler::WorkSite* site = nullptr;
    std::vector<scheduler::Mode> modes;  // of the memory that each parameter points at
    scheduler::Mode universal = scheduler::Mode::kNone;
    std::vector<scheduler::Access> variables;
    std::shared_ptr<scheduler::BlockForm> block_form;
  };

  LaunchState launch_state(const session::KernelInfo& info, scheduler::WorkSite* site,
                           std::shared_ptr<scheduler::BlockForm> block_form) const;

  const std::shared_ptr<LocalSession> session_;
  device::ModulePtr module_;
  const std::string name_;
  const std::shared_ptr<const std::string> ptx_;
  const std::vector<session::KernelName> names_;
  const std::vector<session::KernelInfo> infos_;
  const std::vector<Result<const device::Kernel*>> kernels_;  // the kernels are owned by module_
  std::vector<std::string> ptx_names_, refusals_;
  std::map<std::string, std::unique_ptr<scheduler::Resource>> variables_;  // those that some kernel writes
  std::vector<LaunchState> launch_states_;                                 // as kernels_
  std::vector<std::unique_ptr<PartAccesses>> part_accesses_;               // as kernels_
  std::vector<std::unique_ptr<SmallForms>> small_forms_;                   // as kernels_, where the policy has tasks
  // With a signature: the same object while anybody has it, as what is made of a kernel is found by its information.
  mutable std::mutex declared_mutex_;
  mutable std::map<std::pair<std::size_t, std::string>, std::weak_ptr<LocalKernel>> declared_;  // guarded by it
};

class LocalArray;

class LocalKernel final : public session::Kernel {
 public:
  LocalKernel(std::shared_ptr<const LocalModule> module, std::size_t index)
      : module_(std::move(module)),
        index_(index),
        info_(module_->infos_[index]),
        state_(module_->launch_states_[index]) {}
  // With what is known of it by a signature.
  LocalKernel(std::shared_ptr<const LocalModule> module, std::size_t index, const session::KernelInfo& info)
      : module_(std::move(module)),
        index_(index),
        declared_(std::make_unique<const Declared>(
            Declared{info, module_->launch_state(info, module_->launch_states_[index].site,
                                                 module_->launch_states_[index].block_form)})),
        info_(declared_->info),
        state_(declared_->state) {}

  // For tasks: which kernel of which module, and what its parameters point at.
  const std::shared_ptr<const LocalModule>& module() const { return module_; }
  std::size_t index() const { return index_; }

  const session::KernelInfo& info() const override { return info_; }
  Status launch(const session::LaunchShape& shape, std::span<const session::Argument> arguments,
                session::EventPtr* event, std::uint64_t* ticket, const CallText* text) override;
  std::optional<Status> launch_again(const CallText& text, std::uint64_t* ticket) override;
  Result<session::EventPtr> event_of(std::uint64_t ticket) override;
  Status launch_nothing(std::span<const session::Argument> arguments, session::EventPtr* event) override;

 private:
  friend class LocalTaskKind;
  using Arguments = std::span<const session::Argument>;
  using Arrays = boost::container::small_vector<const LocalArray*, 8>;  // as ArrayParts numbers them
  std::optional<ArrayParts> parts_given(const session::LaunchShape& shape, Arguments arguments,
                                                std::span<const std::byte> parameters, Arrays& arrays) const;
  bool has_all_declared(const ArrayParts& parts, Arguments arguments, std::span<const GivenArray> given) const;
  struct Declared {
    session::KernelInfo info;
    LocalModule::LaunchState state;
  };

  const std::shared_ptr<const LocalModule> module_;
  const std::size_t index_;
  const std::unique_ptr<const Declared> declared_;  // null: the two below are the module's
  const session::KernelInfo& info_;
  const LocalModule::LaunchState& state_;
};

}  // namespace pergola::runtime
