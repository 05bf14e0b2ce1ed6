// The module itself: its types and functions, and what happens when the interpreter ends.
#include <unistd.h>

#include "core.h"

namespace pergola::python {

Types types;

namespace {

PyMethodDef functions[] = {
    {"launch", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(launch_function)),
     METH_FASTCALL | METH_KEYWORDS, nullptr},
    {"wait_any", wait_any, METH_VARARGS, nullptr},
    {"dlpack_export", dlpack_export, METH_VARARGS, nullptr},
    {"dlpack_import", dlpack_import, METH_O, nullptr},
    {"host_view", host_view, METH_VARARGS, nullptr},
    {"end", end, METH_NOARGS, "Called once at the interpreter's end: from now on nothing is destroyed."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "pergola._core",
                          "The part of Pergola's Python package that is C++.",
                          -1,
                          functions,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

bool add_type(PyObject* module, PyType_Spec* spec, const char* name, PyTypeObject** out) {
  PyObject* type = PyType_FromSpec(spec);
  *out = reinterpret_cast<PyTypeObject*>(type);
  return type != nullptr && PyModule_AddObjectRef(module, name, type) == 0;
}

}  // namespace

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

PyObject* make_module() {
  Ref module(PyModule_Create(&definition));
  if (!module || add_errors(module.get()) < 0) return nullptr;
  const bool added = add_type(module.get(), &session_spec, "Session", &types.session) &&
                     add_type(module.get(), &module_spec, "Module", &types.module) &&
                     add_type(module.get(), &kernel_spec, "Kernel", &types.kernel) &&
                     add_type(module.get(), &launcher_spec, "Launcher", &types.launcher) &&
                     add_type(module.get(), &event_spec, "Event", &types.event) &&
                     add_type(module.get(), &memory_spec, "Memory", &types.memory) &&
                     add_type(module.get(), &host_memory_spec, "HostMemory", &types.host_memory) &&
                     add_type(module.get(), &task_pool_spec, "TaskPool", &types.task_pool) &&
                     add_type(module.get(), &task_kind_spec, "TaskKind", &types.task_kind) &&
                     add_type(module.get(), &task_spec, "Task", &types.task) &&
                     PyModule_AddStringConstant(module.get(), "version", pergola_version()) == 0;
  return added ? module.release() : nullptr;
}

}  // namespace pergola::python

PyMODINIT_FUNC PyInit__core(void) {
  return pergola::python::make_module();
}
