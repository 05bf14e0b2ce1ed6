// The module itself: its types and functions, and what happens when the interpreter ends.
//
// What it has is the process's (types, sessions, what was told), so that there is one module, of the main interpreter,
// which gets it again where it imports it again. Others are refused before anything of theirs is made.
#include <unistd.h>

#include <utility>

#include "core.h"

namespace pergola::python {

Types types;

namespace {

PyMethodDef functions[] = {
    {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launch_function)),
     METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"wait_any", wait_any, METH_VARARGS, nullptr},
    {"timeout_ns", timeout_ns, METH_O, nullptr},
    {"dlpack_export", dlpack_export, METH_VARARGS, nullptr},
    {"dlpack_import", dlpack_import, METH_O, nullptr},
    {"host_view", host_view, METH_VARARGS, nullptr},
    {"end", end, METH_NOARGS, "Called once at the interpreter's end: from now on nothing is destroyed."},
    {nullptr, nullptr, 0, nullptr}};

bool add_type(PyObject* module, PyType_Spec* spec, const char* name, PyTypeObject** out) {
  PyObject* type = PyType_FromSpec(spec);
  *out = reinterpret_cast<PyTypeObject*>(type);
  return type != nullptr && PyModule_AddObjectRef(module, name, type) == 0;
}

// The library's question, on a thread that it has waiting: whether it is to go on.
std::int32_t hear_signals(void*) {
  if (Py_IsInitialized() == 0) return 0;  // of a program that goes on without its interpreter
  try {
    const PyGILState_STATE gil = PyGILState_Ensure();
    const int raised = PyErr_CheckSignals();
    PyGILState_Release(gil);
    return raised;
  } catch (...) {  // as below
    while (true) pause();
  }
}

}  // namespace

WithoutGil::WithoutGil() : state_(PyEval_SaveThread()) {
  static thread_local bool is_heard = false;
  if (!std::exchange(is_heard, true)) pergola_thread_set_check(hear_signals, nullptr);
}

// Once the interpreter has ended, a daemon thread that wants the GIL back is ended by pthread_exit() (before
// Python 3.14, which stops it for ever, as here). That unwinds C++ frames, whose destructors would touch Python without
// the GIL.
WithoutGil::~WithoutGil() {
  try {
    PyEval_RestoreThread(state_);
  } catch (...) {
    while (true) pause();
  }
}

PyObject* allocate(PyTypeObject* type) {
  return PyType_GenericAlloc(type, 0);
}

void deallocate(PyObject* object) {
  PyTypeObject* type = Py_TYPE(object);
  const auto free = reinterpret_cast<freefunc>(PyType_GetSlot(type, Py_tp_free));
  free(object);
  Py_DECREF(reinterpret_cast<PyObject*>(type));
}

namespace {

PyObject* the_module = nullptr;  // the module, once it has all

bool add_all(PyObject* module) {
  use_vectorcall_where_there_is();
  return add_errors(module) == 0 && add_type(module, &session_spec, "Session", &types.session) &&
         add_type(module, &module_spec, "Module", &types.module) &&
         add_type(module, &kernel_spec, "Kernel", &types.kernel) &&
         add_type(module, &launcher_spec, "Launcher", &types.launcher) &&
         add_type(module, &event_spec, "Event", &types.event) &&
         add_type(module, &memory_spec, "Memory", &types.memory) &&
         add_type(module, &host_memory_spec, "HostMemory", &types.host_memory) &&
         add_type(module, &task_pool_spec, "TaskPool", &types.task_pool) &&
         add_type(module, &task_kind_spec, "TaskKind", &types.task_kind) &&
         add_type(module, &task_spec, "Task", &types.task) &&
         PyModule_AddStringConstant(module, "version", pergola_version()) == 0;
}

PyObject* create_module(PyObject* spec, PyModuleDef*) {
  if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
    PyErr_SetString(PyExc_ImportError,
                    "pergola cannot be imported in a subinterpreter: its sessions are the process's, and the main "
                    "interpreter has them. Import it there, or in a process of its own (multiprocessing).");
    return nullptr;
  }
  if (the_module != nullptr) return Py_NewRef(the_module);
  const Ref name(PyObject_GetAttrString(spec, "name"));
  return name ? PyModule_NewObject(name.get()) : nullptr;
}

int execute_module(PyObject* module) {
  if (module == the_module) return 0;
  if (!add_all(module)) return -1;
  the_module = Py_NewRef(module);
  return 0;
}

PyModuleDef_Slot module_steps[] = {{Py_mod_create, reinterpret_cast<void*>(create_module)},
                                   {Py_mod_exec, reinterpret_cast<void*>(execute_module)},
                                   {0, nullptr}};
PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "pergola._core",
                          "The part of Pergola's Python package that is C++.",
                          0,
                          functions,
                          module_steps,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

}  // namespace pergola::python

PyMODINIT_FUNC PyInit__core(void) {
  return PyModuleDef_Init(&pergola::python::definition);
}
