// What Array.host() works on: the host's side of an array as a buffer, which keeps the array, and free() out.
#include <utility>

#include "core.h"

namespace pergola::python {
namespace {

struct HostMemoryObject {
  PyObject_HEAD MemoryObject* owner;
  char* data;
  Py_ssize_t size;
  int is_readonly;
};

int host_memory_buffer(PyObject* self, Py_buffer* buffer, int flags) {
  auto* memory = reinterpret_cast<HostMemoryObject*>(self);
  return PyBuffer_FillInfo(buffer, self, memory->data, memory->size, memory->is_readonly, flags);
}

void host_memory_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  if (MemoryObject* owner = reinterpret_cast<HostMemoryObject*>(self)->owner; owner != nullptr) {
    --owner->exports;
    Py_DECREF(reinterpret_cast<PyObject*>(owner));
  }
  deallocate(self);
}

PyType_Slot host_memory_slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(host_memory_dealloc)},
                                   traversed<HostMemoryObject, &HostMemoryObject::owner>(),
                                   {Py_bf_getbuffer, reinterpret_cast<void*>(host_memory_buffer)},
                                   {0, nullptr}};

}  // namespace

PyObject* memory_host(PyObject* self, PyObject* args) {
  int access = 0;
  if (PyArg_ParseTuple(args, "i:_host", &access) == 0) return nullptr;
  auto* memory = reinterpret_cast<MemoryObject*>(self);
  pergola_array handle = nullptr;
  std::uint64_t base = 0;
  if (!resolve(memory, &handle, &base)) return nullptr;
  Ref made(allocate(types.host_memory));
  if (!made) return nullptr;
  void* data = nullptr;
  std::uint64_t size = 0;
  MemoryObject* owner = memory->base != nullptr ? memory->base : memory;
  auto* host = reinterpret_cast<HostMemoryObject*>(made.get());
  host->owner = reinterpret_cast<MemoryObject*>(Py_NewRef(reinterpret_cast<PyObject*>(owner)));
  ++owner->exports;  // keeps free() out from here on
  owner->session->state->waits_at_last = true;
  if (!wait_for_tasks(memory) || !wait_in_slices([&](std::int64_t slice_ns) {
        return pergola_array_host(handle, access, slice_ns, &data, &size);
      }))
    return nullptr;
  host->data = static_cast<char*>(data) + base;
  // Of memory that others own, which is known by its address, the host's side is another.
  if (owner->session->state->host_reaches && owner->address == 0)
    register_memory(owner, reinterpret_cast<std::uintptr_t>(data));
  host->size = static_cast<Py_ssize_t>(memory->size_bytes);
  host->is_readonly = access == PERGOLA_ACCESS_READ ? 1 : 0;
  return made.release();
}

PyObject* memory_prefetch(PyObject* self, PyObject* args) {
  int to = 0;
  pergola_array handle = nullptr;
  std::uint64_t base = 0;
  auto* const memory = reinterpret_cast<MemoryObject*>(self);
  // To the host there is a copy, and a word that tells of its end.
  if (PyArg_ParseTuple(args, "i:_prefetch", &to) == 0 || !wait_for_tasks(memory) ||
      !make_room(memory->session->state, 2) || !resolve(memory, &handle, &base))
    return nullptr;
  if (!without_gil([&] { return pergola_array_prefetch(handle, to); })) return nullptr;
  Py_RETURN_NONE;
}

PyType_Spec host_memory_spec = {"pergola._core.HostMemory", sizeof(HostMemoryObject), 0,
                                kCollected | Py_TPFLAGS_DISALLOW_INSTANTIATION, host_memory_slots};

}  // namespace pergola::python
