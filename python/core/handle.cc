// What copying and pickling mean of a handle: a copy is the object itself, and in another process there is none.
#include "core.h"

namespace pergola::python {

PyObject* handle_itself(PyObject* self, PyObject*) {
  return Py_NewRef(self);
}

PyObject* handle_reduce(PyObject* self, PyObject*) {
  const Ref name(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(self)), "__name__"));
  if (name)
    PyErr_Format(PyExc_TypeError,
                 "A %U is a handle of this process, and is not pickled: make it again where it is used, of what this "
                 "one was made of.",
                 name.get());
  return nullptr;
}

}  // namespace pergola::python
