// Memory that is shared with other libraries: DLPack capsules both ways, and foreign memory as arrays.
//
// Out: a capsule holds a reference to the array until its consumer calls the deleter, from any thread.
// In: the producer's object is held until no work uses the memory. The library says so from any thread and with locks
// held, where the GIL must not be waited for: the reference is put aside and dropped by the interpreter's next turn.
#include <memory>
#include <mutex>

#include "core.h"
#include "dlpack.h"

namespace pergola::python {
namespace {

// ── Out ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

constexpr const char* kNames[] = {"dltensor", "dltensor_versioned"};
constexpr const char* kUsedNames[] = {"used_dltensor", "used_dltensor_versioned"};

template <typename M>
constexpr bool kVersioned = std::is_same_v<M, dlpack::ManagedVersioned>;

template <typename M>
struct Export {
  M managed{};
  PyObject* array = nullptr;  // owned; a Memory
  std::vector<std::int64_t> shape, strides;
};

MemoryObject* owner_of(PyObject* memory) {
  auto* object = reinterpret_cast<MemoryObject*>(memory);
  return object->base != nullptr ? object->base : object;
}

template <typename M>
void delete_export(M* managed) {
  if (managed == nullptr || Py_IsInitialized() == 0) return;  // the interpreter is gone, and the array with it
  const PyGILState_STATE state = PyGILState_Ensure();
  auto* made = static_cast<Export<M>*>(managed->context);
  --owner_of(made->array)->exports;
  Py_DECREF(made->array);
  delete made;
  PyGILState_Release(state);
}

// Of a capsule that nobody consumed.
template <typename M>
void delete_capsule(PyObject* capsule) {
  const char* name = kNames[kVersioned<M>];
  if (PyCapsule_IsValid(capsule, name) == 0) return;
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) managed->deleter(managed);
}

template <typename M>
PyObject* make_capsule(PyObject* array, void* data, PyObject* shape, dlpack::DataType dtype, dlpack::Device device,
                       bool is_copied) {
  auto made = std::make_unique<Export<M>>();
  const Py_ssize_t ndim = PyTuple_Size(shape);
  for (Py_ssize_t i = 0; i < ndim; ++i) made->shape.push_back(PyLong_AsLongLong(PyTuple_GetItem(shape, i)));
  if (PyErr_Occurred() != nullptr) return nullptr;
  made->strides.resize(made->shape.size());
  std::int64_t step = 1;
  for (std::size_t i = made->shape.size(); i-- > 0; step *= made->shape[i]) made->strides[i] = step;
  M& managed = made->managed;
  managed.tensor = {data, device, static_cast<std::int32_t>(ndim), dtype, made->shape.data(), made->strides.data(), 0};
  managed.context = made.get();
  managed.deleter = delete_export<M>;
  if constexpr (kVersioned<M>) {
    managed.major = 1;
    managed.minor = 0;
    managed.flags = is_copied ? dlpack::kIsCopied : 0;
  }
  PyObject* capsule = PyCapsule_New(&managed, kNames[kVersioned<M>], delete_capsule<M>);
  if (capsule == nullptr) return nullptr;
  made->array = Py_NewRef(array);
  ++owner_of(array)->exports;
  made.release();  // NOLINT: the capsule's, then its consumer's
  return capsule;
}

// ── In ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

// The capsule of the tensor that was taken; calls its deleter.
template <typename M>
void delete_taken(PyObject* capsule) {
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, "pergola.dlpack"));
  if (managed != nullptr && managed->deleter != nullptr) managed->deleter(managed);
}

template <typename M>
PyObject* take(PyObject* capsule) {
  auto* managed = static_cast<M*>(PyCapsule_GetPointer(capsule, kNames[kVersioned<M>]));
  if (managed == nullptr) return nullptr;
  std::uint64_t flags = 0;
  if constexpr (kVersioned<M>) {
    if (managed->major != 1) {
      PyErr_Format(PyExc_BufferError, "The producer speaks DLPack %u.%u; version 1 is known here.", managed->major,
                   managed->minor);
      return nullptr;
    }
    flags = managed->flags;
  }
  const dlpack::Tensor& tensor = managed->tensor;
  constexpr std::int32_t kMostDimensions = 64;  // NumPy's own limit
  if (tensor.ndim < 0 || tensor.ndim > kMostDimensions || (tensor.ndim != 0 && tensor.shape == nullptr)) {
    PyErr_Format(PyExc_BufferError, "The producer's tensor has %d dimension%s%s: 0 to %d can be, with a shape.",
                 static_cast<int>(tensor.ndim), tensor.ndim == 1 ? "" : "s",
                 tensor.shape == nullptr ? " and no shape" : "", static_cast<int>(kMostDimensions));
    return nullptr;
  }
  const Ref shape(PyTuple_New(tensor.ndim)), strides(PyTuple_New(tensor.strides == nullptr ? 0 : tensor.ndim));
  if (!shape || !strides) return nullptr;
  for (std::int32_t i = 0; i < tensor.ndim; ++i) {
    PyObject* extent = PyLong_FromLongLong(tensor.shape[i]);
    if (extent == nullptr || PyTuple_SetItem(shape.get(), i, extent) < 0) return nullptr;
    PyObject* stride = tensor.strides == nullptr ? nullptr : PyLong_FromLongLong(tensor.strides[i]);
    if (tensor.strides != nullptr && (stride == nullptr || PyTuple_SetItem(strides.get(), i, stride) < 0))
      return nullptr;
  }
  Ref owner(PyCapsule_New(managed, "pergola.dlpack", delete_taken<M>));
  if (!owner) return nullptr;
  if (PyCapsule_SetName(capsule, kUsedNames[kVersioned<M>]) < 0) {
    PyCapsule_SetDestructor(owner.get(), nullptr);  // it is still the producer's
    return nullptr;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(tensor.data) + tensor.byte_offset;
  return Py_BuildValue("(KOO(iii)(ii)iN)", static_cast<unsigned long long>(address), shape.get(),
                       tensor.strides == nullptr ? Py_None : strides.get(), tensor.dtype.code, tensor.dtype.bits,
                       tensor.dtype.lanes, tensor.device.type, tensor.device.id,
                       (flags & dlpack::kReadOnly) != 0 ? 1 : 0, owner.release());
}

// Owners that the library has let go of, to be dropped with the GIL held.
std::mutex released_mutex;  // guards released; nothing is called under it
std::vector<PyObject*> released;

int drop_released(void*) {
  std::vector<PyObject*> owners;
  {
    const std::scoped_lock lock(released_mutex);
    owners.swap(released);
  }
  for (PyObject* owner : owners) Py_DECREF(owner);
  return 0;
}

void release_owner(void* owner) {
  {
    const std::scoped_lock lock(released_mutex);
    released.push_back(static_cast<PyObject*>(owner));
  }
  Py_AddPendingCall(drop_released, nullptr);  // where its queue is full, the next one drops this as well
}

}  // namespace

PyObject* dlpack_export(PyObject*, PyObject* args) {
  PyObject *array = nullptr, *shape = nullptr;
  int code = 0, bits = 0, device_type = 0, device_id = 0, versioned = 0, is_copied = 0;
  if (PyArg_ParseTuple(args, "O!O!(ii)(ii)pp:dlpack_export", types.memory, &array, &PyTuple_Type, &shape, &code, &bits,
                       &device_type, &device_id, &versioned, &is_copied) == 0)
    return nullptr;
  // Another thread may have freed it while the caller waited for it. From here on the GIL is held until it counts as
  // exported, which keeps free() out.
  std::uint64_t address = 0;
  if (!address_of(reinterpret_cast<MemoryObject*>(array), &address)) return nullptr;
  const dlpack::DataType dtype{static_cast<std::uint8_t>(code), static_cast<std::uint8_t>(bits), 1};
  const dlpack::Device device{device_type, device_id};
  void* data = reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
  return versioned != 0 ? make_capsule<dlpack::ManagedVersioned>(array, data, shape, dtype, device, is_copied != 0)
                        : make_capsule<dlpack::Managed>(array, data, shape, dtype, device, is_copied != 0);
}

PyObject* dlpack_import(PyObject*, PyObject* capsule) {
  if (PyCapsule_IsValid(capsule, kNames[1]) != 0) return take<dlpack::ManagedVersioned>(capsule);
  if (PyCapsule_IsValid(capsule, kNames[0]) != 0) return take<dlpack::Managed>(capsule);
  PyErr_SetString(PyExc_BufferError, "__dlpack__() gave no DLPack capsule, or one that was consumed before.");
  return nullptr;
}

PyObject* host_view(PyObject*, PyObject* args) {
  unsigned long long address = 0;
  Py_ssize_t size = 0;
  if (PyArg_ParseTuple(args, "Kn:host_view", &address, &size) == 0) return nullptr;
  return PyMemoryView_FromMemory(reinterpret_cast<char*>(static_cast<std::uintptr_t>(address)), size, PyBUF_READ);
}

namespace {

// A view of the session's memory in which another library's lies: work submitted from now on, on either, comes after
// the stream's. Null, with an exception set or without, where it lies in none.
PyObject* view_instead(PyObject* type, SessionObject* session, const pergola_foreign_memory& foreign,
                       std::uint64_t size_bytes) {
  std::string overlap;
  Ref view(view_within(type, session, foreign.address, size_bytes, &overlap));
  if (!overlap.empty())
    set_error(PyExc_BufferError, "The source's " + overlap +
                                     " of this session and do not lie in it, so that work on the two would be in no "
                                     "order: let the whole in first, by asarray() or from_dlpack(), and take parts of "
                                     "that; or free the other before.");
  if (!view) return nullptr;
  const pergola_session handle = session->state->handle;
  if (foreign.stream != 0 && (!make_room_for_stream(session->state) ||
                              !without_gil([&] { return pergola_session_wait_stream(handle, foreign.stream); })))
    return nullptr;
  return view.release();
}

}  // namespace

PyObject* memory_adopt(PyObject* type, PyObject* args) {
  PyObject *session = nullptr, *owner = nullptr;
  int element_type = 0;
  unsigned int element_bytes = 0;
  unsigned long long count = 0, address = 0, stream = 0;
  if (PyArg_ParseTuple(args, "O!iIKKKO:_adopt", types.session, &session, &element_type, &element_bytes, &count,
                       &address, &stream, &owner) == 0)
    return nullptr;
  pergola_array_options options{};
  options.struct_size = PERGOLA_STRUCT_SIZE(pergola_array_options);
  options.type = element_type;
  options.element_bytes = element_bytes;
  options.count = count;
  pergola_foreign_memory foreign{};
  foreign.struct_size = PERGOLA_STRUCT_SIZE(pergola_foreign_memory);
  foreign.address = address;
  foreign.stream = stream;
  foreign.release = release_owner;
  foreign.owner = owner;
  auto* const of = reinterpret_cast<SessionObject*>(session);
  PyObject* view = view_instead(type, of, foreign, count * element_bytes);
  if (view != nullptr || PyErr_Occurred() != nullptr) return view;
  Ref self(allocate(reinterpret_cast<PyTypeObject*>(type)));
  if (!self) return nullptr;
  auto* memory = reinterpret_cast<MemoryObject*>(self.get());
  memory->session = reinterpret_cast<SessionObject*>(Py_NewRef(session));
  const pergola_session handle = memory->session->state->handle;
  Ref held = Ref::borrow(owner);
  if (!without_gil([&] { return pergola_array_adopt(handle, &options, &foreign, &memory->handle); })) return nullptr;
  (void)held.release();  // NOLINT: release_owner() drops it
  if (!check(pergola_array_number(memory->handle, &memory->number))) return nullptr;
  memory->size_bytes = count * element_bytes;
  // Another thread may have let it in meanwhile, without the GIL: then this one goes again.
  view = view_instead(type, of, foreign, memory->size_bytes);
  if (view != nullptr || PyErr_Occurred() != nullptr) return view;
  register_memory(memory, address);
  return self.release();
}

}  // namespace pergola::python
