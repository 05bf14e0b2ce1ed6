#include "src/runtime/loaded_block_form.h"

#include "src/ptx/parser.h"
#include "src/ptx/printer.h"
#include "src/ptx/verifier.h"
#include "src/transform/parameter_block.h"

namespace pergola::runtime {

Result<scheduler::BlockForm::Kernel> LoadedBlockForm::make() {
  if (!made_) made_ = compile();
  return *made_;
}

Result<scheduler::BlockForm::Kernel> LoadedBlockForm::compile() const {
  if (!written_variable_.empty())
    return PERGOLA_ERROR(kUnsupported,
                         "Kernel '{}' uses variable '{}', which kernels of its module write: with its parameters in "
                         "memory it would be another module's, with a variable of its own.",
                         kernel_, written_variable_);
  PERGOLA_ASSIGN(ptx::Module module, ptx::parse(*ptx_, source_name_));
  PERGOLA_TRY(transform::to_parameter_block(module, kernel_));
  PERGOLA_TRY(ptx::verify(module));
  const std::string text = ptx::print(module);
  PERGOLA_ASSIGN(device::ModulePtr loaded, device_->load({&module, text, source_name_}));
  PERGOLA_ASSIGN(const device::Kernel* kernel, loaded->kernel(kernel_));
  return Kernel{std::move(loaded), kernel};
}

}  // namespace pergola::runtime
