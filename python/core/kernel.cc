// Modules, kernels, and what k[grid, block] gives.
#include <cstring>

#include "core.h"

#include <structmember.h>  // after Python.h

namespace pergola::python {
namespace {

// ── Modules ─────────────────────────────────────────────────────────────────────────────────────────────────────────

// Module(session, source, is_path, language, name, flags)
PyObject* module_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *session = nullptr, *flags = nullptr;
  PyObject* given_name = nullptr;
  const char *source = nullptr, *name = nullptr;
  Py_ssize_t size = 0;
  int is_path = 0, language = 0;
  if (PyArg_ParseTuple(args, "O!s#piOO:Module", types.session, &session, &source, &size, &is_path, &language,
                       &given_name, &flags) == 0) {
    const bool is_ours = PyTuple_Size(args) != 0 && is_instance(PyTuple_GetItem(args, 0), types.session);
    if (is_ours) return nullptr;
    return refuse_direct("A Module",
                         "pergola.module(source), pergola.load(path), or a session's functions of these names");
  }
  if (!read_text(given_name, "A source's name", &name, true)) return nullptr;
  std::vector<std::string> texts;
  for (Py_ssize_t i = 0, n = PySequence_Size(flags); i < n; ++i) {
    const Ref flag(PySequence_GetItem(flags, i));
    if (flag && PyUnicode_Check(flag.get()) == 0)
      PyErr_Format(PyExc_TypeError, "Flags are strings, as flags=[\"-DN=4\"]; flag %zd is %R.", i, flag.get());
    if (PyErr_Occurred() != nullptr) return nullptr;
    const char* text = nullptr;
    if (!read_text(flag.get(), "A flag", &text)) return nullptr;
    texts.emplace_back(text);
  }
  if (PyErr_Occurred() != nullptr || (is_path != 0 && !is_without_zero(source, size, "A path"))) return nullptr;
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());

  Ref self(allocate(type));
  if (!self) return nullptr;
  auto* module = reinterpret_cast<ModuleObject*>(self.get());
  Py_INCREF(session);
  module->session = reinterpret_cast<SessionObject*>(session);
  pergola_load_options options{};
  options.struct_size = PERGOLA_STRUCT_SIZE(pergola_load_options);
  options.language = language;
  options.name = name;
  options.compiler_flags = pointers.data();
  options.compiler_flag_count = pointers.size();
  const pergola_session handle = module->session->state->handle;
  return without_gil([&] {
    return is_path != 0
               ? pergola_session_load_file(handle, source, &options, &module->handle)
               : pergola_session_load_text(handle, source, static_cast<std::size_t>(size), &options, &module->handle);
  })
             ? self.release()
             : nullptr;
}

void module_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* module = reinterpret_cast<ModuleObject*>(self);
  if (module->handle != nullptr && !is_ending()) {
    const WithoutGil free;
    pergola_module_destroy(module->handle);
  }
  Py_XDECREF(reinterpret_cast<PyObject*>(module->session));
  deallocate(self);
}

PyObject* module_names(PyObject* self, PyObject*) {
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (std::size_t i = 0;; ++i) {
    const char* name = nullptr;
    if (!check(pergola_module_kernel_name(reinterpret_cast<ModuleObject*>(self)->handle, i, &name))) return nullptr;
    if (name == nullptr) return list.release();
    const Ref text(PyUnicode_FromString(name));
    if (!text || PyList_Append(list.get(), text.get()) < 0) return nullptr;
  }
}

PyMethodDef module_methods[] = {
    {"_names", module_names, METH_NOARGS, nullptr}, kCopy, kDeepCopy, kReduce, {nullptr, nullptr, 0, nullptr}};
PyType_Slot module_slots[] = {{Py_tp_new, reinterpret_cast<void*>(module_new)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(module_dealloc)},
                              traversed<ModuleObject, &ModuleObject::session>(),
                              {Py_tp_methods, module_methods},
                              {0, nullptr}};

// ── Kernels ─────────────────────────────────────────────────────────────────────────────────────────────────────────

bool read_signature(KernelState* state) {
  pergola_kernel_info info{};
  info.struct_size = PERGOLA_STRUCT_SIZE(pergola_kernel_info);
  if (!check(pergola_kernel_get_info(state->handle, &info))) return false;
  state->name = info.name;
  state->universal_access = info.universal_access;
  for (std::size_t i = 0; i < info.parameter_count; ++i) {
    pergola_parameter_info parameter{};
    parameter.struct_size = PERGOLA_STRUCT_SIZE(pergola_parameter_info);
    if (!check(pergola_kernel_parameter(state->handle, i, &parameter))) return false;
    state->parameters.push_back({parameter.name, parameter.kind, parameter.size_bytes, parameter.access});
  }
  return true;
}

// Kernel(module, name, signature)
PyObject* kernel_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject *module_object = nullptr, *given_name = nullptr, *given_signature = Py_None;
  const char *name = nullptr, *signature = nullptr;
  if (PyArg_ParseTuple(args, "O!O|O:Kernel", types.module, &module_object, &given_name, &given_signature) == 0)
    return refuse_direct("A Kernel", "pergola.kernel(source), or module[name] and module.kernel(name, signature)");
  if (!read_text(given_name, "A kernel's name", &name) || !read_text(given_signature, "A signature", &signature, true))
    return nullptr;
  auto* module = reinterpret_cast<ModuleObject*>(module_object);
  Ref self(allocate(type));
  if (!self) return nullptr;
  auto* kernel = reinterpret_cast<KernelObject*>(self.get());
  kernel->state = new KernelState;
  Py_INCREF(reinterpret_cast<PyObject*>(module->session));
  kernel->session = module->session;
  if (!check(pergola_module_kernel_as(module->handle, name, signature, &kernel->state->handle))) return nullptr;
  return read_signature(kernel->state) ? self.release() : nullptr;
}

void kernel_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  auto* kernel = reinterpret_cast<KernelObject*>(self);
  if (kernel->state != nullptr) {
    if (kernel->state->handle != nullptr && !is_ending()) {
      const WithoutGil free;
      pergola_kernel_destroy(kernel->state->handle);
    }
    Py_XDECREF(kernel->state->last_key);
    delete kernel->state;
  }
  Py_XDECREF(reinterpret_cast<PyObject*>(kernel->session));
  deallocate(self);
}

PyObject* kernel_info(PyObject* self, PyObject*) {
  pergola_kernel_info info{};
  info.struct_size = PERGOLA_STRUCT_SIZE(pergola_kernel_info);
  if (!check(pergola_kernel_get_info(reinterpret_cast<KernelObject*>(self)->state->handle, &info))) return nullptr;
  return Py_BuildValue("{s:s,s:I,s:I,s:I,s:I,s:I,s:(III),s:i,s:s}", "name", info.name, "parameter_bytes",
                       info.parameter_bytes, "static_shared_bytes", info.static_shared_bytes, "registers_per_thread",
                       info.registers_per_thread, "local_bytes_per_thread", info.local_bytes_per_thread,
                       "max_threads_per_block", info.max_threads_per_block, "required_block", info.required_block[0],
                       info.required_block[1], info.required_block[2], "universal_access", info.universal_access,
                       "universal_reason", info.universal_reason);
}

PyObject* kernel_parameters(PyObject* self, PyObject*) {
  const KernelState* state = reinterpret_cast<KernelObject*>(self)->state;
  Ref list(PyList_New(0));
  if (!list) return nullptr;
  for (std::size_t i = 0; i < state->parameters.size(); ++i) {
    pergola_parameter_info info{};
    info.struct_size = PERGOLA_STRUCT_SIZE(pergola_parameter_info);
    if (!check(pergola_kernel_parameter(state->handle, i, &info))) return nullptr;
    const Ref one(Py_BuildValue("(ssiIIIisis)", info.name, info.type_name, info.kind, info.offset_bytes,
                                info.size_bytes, info.align_bytes, info.access, info.reason, info.direction,
                                info.declaration));
    if (!one || PyList_Append(list.get(), one.get()) < 0) return nullptr;
  }
  return list.release();
}

bool are_exact_ints(PyObject* tuple) {
  for (Py_ssize_t i = 0; i < PyTuple_Size(tuple); ++i)
    if (PyLong_CheckExact(PyTuple_GetItem(tuple, i)) == 0) return false;
  return true;
}

// That it is the same object again means that it is the same shape.
bool is_constant(PyObject* key) {
  if (PyLong_CheckExact(key) != 0) return true;
  if (PyTuple_CheckExact(key) == 0) return false;
  for (Py_ssize_t i = 0; i < PyTuple_Size(key); ++i) {
    PyObject* const extents = PyTuple_GetItem(key, i);
    if (PyLong_CheckExact(extents) == 0 && (PyTuple_CheckExact(extents) == 0 || !are_exact_ints(extents))) return false;
  }
  return true;
}

void remember(KernelState& kernel, PyObject* key, const pergola_launch_config& shape) {
  if (!is_constant(key)) return;
  PyObject* const before = std::exchange(kernel.last_key, Py_NewRef(key));
  kernel.last_shape = shape;
  Py_XDECREF(before);
}

PyObject* launcher_vectorcall(PyObject* self, PyObject* const* arguments, std::size_t count, PyObject* names);

PyObject* kernel_subscript(PyObject* self, PyObject* key) {
  auto* kernel = reinterpret_cast<KernelObject*>(self);
  Ref made(allocate(types.launcher));
  if (!made) return nullptr;
  auto* launcher = reinterpret_cast<LauncherObject*>(made.get());
  Py_INCREF(self);
  launcher->kernel = kernel;
  launcher->vectorcall = launcher_vectorcall;
  if (kernel->state->last_key == key) {
    launcher->config = kernel->state->last_shape;
    return made.release();
  }
  launcher->config.struct_size = PERGOLA_STRUCT_SIZE(pergola_launch_config);
  if (PyTuple_Check(key) != 0) {
    if (PyTuple_Size(key) != 2) {
      PyErr_Format(PyExc_TypeError,
                   "kernel[...] takes [threads] or [grid, block]; %zd value%s given. Shared memory is a keyword of "
                   "the call, kernel[grid, block](..., shared_bytes=1024), and streams are chosen by the session.",
                   PyTuple_Size(key), PyTuple_Size(key) == 1 ? " is" : "s are");
      return nullptr;
    }
    if (!read_shape(PyTuple_GetItem(key, 0), PyTuple_GetItem(key, 1), &launcher->config)) return nullptr;
    remember(*kernel->state, key, launcher->config);
    return made.release();
  }
  const Ref number(PyNumber_Index(key));
  const unsigned long long count = number ? PyLong_AsUnsignedLongLong(number.get()) : 0;
  if (PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) != 0)
      PyErr_Format(PyExc_OverflowError, "kernel[threads] takes 0 threads or more, less than 2**64; it is %R.", key);
    else if (PyErr_ExceptionMatches(PyExc_TypeError) != 0)
      PyErr_Format(PyExc_TypeError, "kernel[...] takes [threads], an int, or [grid, block]; %R is given.", key);
    return nullptr;
  }
  if (!check(pergola_kernel_for_each(kernel->state->handle, count, &launcher->config))) return nullptr;
  remember(*kernel->state, key, launcher->config);
  return made.release();
}

PyMethodDef kernel_methods[] = {{"_info", kernel_info, METH_NOARGS, nullptr},
                                {"_parameters", kernel_parameters, METH_NOARGS, nullptr},
                                kCopy,
                                kDeepCopy,
                                kReduce,
                                {nullptr, nullptr, 0, nullptr}};
PyType_Slot kernel_slots[] = {{Py_tp_new, reinterpret_cast<void*>(kernel_new)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(kernel_dealloc)},
                              traversed<KernelObject, &KernelObject::session>(),
                              {Py_tp_methods, kernel_methods},
                              {Py_mp_subscript, reinterpret_cast<void*>(kernel_subscript)},
                              {0, nullptr}};

// ── Launchers ───────────────────────────────────────────────────────────────────────────────────────────────────────

void launcher_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  Py_XDECREF(reinterpret_cast<PyObject*>(reinterpret_cast<LauncherObject*>(self)->kernel));
  deallocate(self);
}

bool read_options(PyObject* options, pergola_launch_config* config) {
  static const char* names[] = {"shared_bytes", "cooperative", nullptr};
  const Ref none(PyTuple_New(0));
  int cooperative = 0;
  PyObject* shared_bytes = nullptr;
  if (!none ||
      PyArg_ParseTupleAndKeywords(none.get(), options, "|$Op:kernel[...]", const_cast<char**>(names), &shared_bytes,
                                  &cooperative) == 0 ||
      (shared_bytes != nullptr && !set_shared_bytes(shared_bytes, config)))
    return false;
  if (cooperative != 0) config->flags |= PERGOLA_LAUNCH_COOPERATIVE;
  return true;
}

PyObject* launch_with(LauncherObject* launcher, PyObject* options, PyObject* const* arguments, std::size_t count) {
  if (options == nullptr) {
    if (!launch(launcher->kernel, launcher->config, arguments, count)) return nullptr;
    Py_RETURN_NONE;
  }
  pergola_launch_config config = launcher->config;
  if (!read_options(options, &config) || !launch(launcher->kernel, config, arguments, count)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* launcher_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  const Items list(args);
  return launch_with(reinterpret_cast<LauncherObject*>(self), kwargs, list.data(), list.size());
}

// The same without a tuple. The values of keywords come behind the arguments.
PyObject* launcher_vectorcall(PyObject* self, PyObject* const* arguments, std::size_t count, PyObject* names) {
  constexpr std::size_t kMayWriteBefore = std::size_t{1} << (8 * sizeof(std::size_t) - 1);  // a flag in the count
  count &= ~kMayWriteBefore;
  Ref options;
  if (names != nullptr && PyTuple_Size(names) != 0) {
    options = Ref(PyDict_New());
    if (!options) return nullptr;
    for (Py_ssize_t i = 0; i < PyTuple_Size(names); ++i)
      if (PyDict_SetItem(options.get(), PyTuple_GetItem(names, i), arguments[count + static_cast<std::size_t>(i)]) < 0)
        return nullptr;
  }
  return launch_with(reinterpret_cast<LauncherObject*>(self), options.get(), arguments, count);
}

PyObject* launcher_repr(PyObject* self) {
  const auto* launcher = reinterpret_cast<LauncherObject*>(self);
  const std::uint32_t *grid = launcher->config.grid, *block = launcher->config.block;
  return PyUnicode_FromFormat("<pergola.Launcher of %R, grid (%u, %u, %u), block (%u, %u, %u)>", launcher->kernel,
                              grid[0], grid[1], grid[2], block[0], block[1], block[2]);
}

PyMemberDef launcher_members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(LauncherObject, vectorcall), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};
PyMethodDef launcher_methods[] = {kCopy, kDeepCopy, kReduce, {nullptr, nullptr, 0, nullptr}};
PyType_Slot launcher_slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(launcher_dealloc)},
    traversed<LauncherObject, &LauncherObject::kernel>(),
    {Py_tp_call, reinterpret_cast<void*>(launcher_call)},
    {Py_tp_repr, reinterpret_cast<void*>(launcher_repr)},
    {Py_tp_methods, launcher_methods},
    {Py_tp_members, launcher_members},
    {Py_tp_doc, const_cast<char*>("kernel[grid, block]: call it with the kernel's arguments to launch it.\n\n"
                                  "Keywords: shared_bytes=0, cooperative=False.")},
    {0, nullptr}};

}  // namespace

bool is_without_zero(const char* text, Py_ssize_t size, const char* what) {
  if (std::strlen(text) == static_cast<std::size_t>(size)) return true;
  PyErr_Format(error_class(PERGOLA_INVALID_ARGUMENT), "%s has no zero character in it; there is one at byte %zu.", what,
               std::strlen(text));
  return false;
}

bool read_text(PyObject* given, const char* what, const char** out, bool optional) {
  *out = nullptr;
  if (optional && given == Py_None) return true;
  if (PyUnicode_Check(given) == 0) {
    PyErr_Format(PyExc_TypeError, "%s is a str%s; %R is given.", what, optional ? " or None" : "", given);
    return false;
  }
  Py_ssize_t size = 0;
  *out = PyUnicode_AsUTF8AndSize(given, &size);
  return *out != nullptr && is_without_zero(*out, size, what);
}

PyObject* refuse_direct(const char* what, const char* instead) {
  if (PyErr_ExceptionMatches(PyExc_TypeError) != 0)
    PyErr_Format(PyExc_TypeError, "%s is not made by calling its class, but by %s.", what, instead);
  return nullptr;
}

// Py_TPFLAGS_HAVE_VECTORCALL, which is of the stable ABI since 3.12.
void use_vectorcall_where_there_is() {
  constexpr unsigned long k312 = 0x030C0000, kHasVectorcall = 1UL << 11;
  if (Py_Version >= k312) launcher_spec.flags |= kHasVectorcall;
}

PyType_Spec module_spec = {"pergola._core.Module", sizeof(ModuleObject), 0, kCollected | Py_TPFLAGS_BASETYPE,
                           module_slots};
PyType_Spec kernel_spec = {"pergola._core.Kernel", sizeof(KernelObject), 0, kCollected | Py_TPFLAGS_BASETYPE,
                           kernel_slots};
PyType_Spec launcher_spec = {"pergola.Launcher", sizeof(LauncherObject), 0,
                             kCollected | Py_TPFLAGS_DISALLOW_INSTANTIATION, launcher_slots};

}  // namespace pergola::python
