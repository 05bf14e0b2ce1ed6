// Device memory: an array's bytes, or a view of some of them. What they mean is pergola/_array.py's.
#include <algorithm>
#include <bit>
#include <cstring>

#include "core.h"

namespace pergola::python {
namespace {

// For "O&": an int of 64 bits, where "K" would drop what is above them.
int to_u64(PyObject* object, void* out) {
  const unsigned long long value = PyLong_AsUnsignedLongLong(object);
  if (PyErr_Occurred() != nullptr) {
    if (PyErr_ExceptionMatches(PyExc_OverflowError) != 0)
      PyErr_Format(error_class(PERGOLA_RESOURCE_EXHAUSTED), "An array of %S elements is more than any device has.",
                   object);
    return 0;
  }
  *static_cast<unsigned long long*>(out) = value;
  return 1;
}

MemoryObject* as_memory(PyObject* object) {
  return reinterpret_cast<MemoryObject*>(object);
}

MemoryObject* owner_of(MemoryObject* memory) {
  return memory->base != nullptr ? memory->base : memory;
}

// Where a write from the host, or a prefetch, queues nothing.
bool host_reaches(PyObject* memory) {
  return as_memory(memory)->session->state->host_reaches;
}

// Waits, so that Ctrl-C works, for the work that made these bytes of a memory, and for no more.
bool wait_for(MemoryObject* memory, std::uint64_t offset, std::uint64_t size) {
  pergola_array handle = nullptr;
  std::uint64_t base = 0;
  if (!wait_for_tasks(memory) || !resolve(memory, &handle, &base)) return false;
  owner_of(memory)->session->state->waits_at_last = true;
  return wait_in_slices(
      [=](std::int64_t slice_ns) { return pergola_array_wait(handle, base + offset, size, slice_ns); });
}

// What the library knows of a memory's array, and where in it the memory begins; false with an exception set.
bool describe(const MemoryObject* memory, pergola_array_info* info, std::uint64_t* offset_bytes) {
  pergola_array handle = nullptr;
  if (!resolve(memory, &handle, offset_bytes)) return false;
  info->struct_size = PERGOLA_STRUCT_SIZE(pergola_array_info);
  return check(pergola_array_get_info(handle, info));
}

void become_view(MemoryObject* memory, MemoryObject* owner, std::uint64_t offset, std::uint64_t size) {
  Py_INCREF(reinterpret_cast<PyObject*>(owner));
  Py_INCREF(reinterpret_cast<PyObject*>(owner->session));
  memory->base = owner;
  memory->session = owner->session;
  memory->offset_bytes = offset;
  memory->size_bytes = size;
}

// Memory(session, type, element_bytes, count), or Memory(base, offset_bytes, size_bytes): a view of a memory.
PyObject* memory_new(PyTypeObject* type, PyObject* args, PyObject*) {
  PyObject* first = PyTuple_Size(args) > 0 ? PyTuple_GetItem(args, 0) : nullptr;
  const bool is_view = first != nullptr && is_instance(first, types.memory);
  PyObject* parent = nullptr;
  int element_type = 0;
  unsigned int element_bytes = 0;
  unsigned long long a = 0, b = 0;
  const int parsed = is_view ? PyArg_ParseTuple(args, "O!O&O&:Memory", types.memory, &parent, to_u64, &a, to_u64, &b)
                             : PyArg_ParseTuple(args, "O!iIO&:Memory", types.session, &parent, &element_type,
                                                &element_bytes, to_u64, &a);
  if (parsed == 0)
    return refuse_direct("An Array",
                         "pergola.array(x), empty(shape), zeros(), ones() or full(), or a session's functions of these "
                         "names");
  Ref self(allocate(type));
  if (!self) return nullptr;
  MemoryObject* memory = as_memory(self.get());
  if (is_view) {
    MemoryObject* from = as_memory(parent);
    if (a > from->size_bytes || b > from->size_bytes - a) {
      PyErr_Format(PyExc_ValueError, "A view of %llu bytes from byte %llu does not lie in a memory of %llu bytes.", b,
                   a, static_cast<unsigned long long>(from->size_bytes));
      return nullptr;
    }
    become_view(memory, owner_of(from), from->offset_bytes + a, b);
    return self.release();
  }
  Py_INCREF(parent);
  memory->session = reinterpret_cast<SessionObject*>(parent);
  pergola_array_options options{};
  options.struct_size = PERGOLA_STRUCT_SIZE(pergola_array_options);
  options.type = element_type;
  options.element_bytes = element_bytes;
  options.count = a;
  const pergola_session session = memory->session->state->handle;
  if (!without_gil([&] { return pergola_array_create(session, &options, &memory->handle); }) ||
      !check(pergola_array_number(memory->handle, &memory->number)))
    return nullptr;
  memory->size_bytes = a * (element_bytes == 0 ? 1 : element_bytes);
  return self.release();
}

void forget_memory(MemoryObject* memory) {
  if (const std::uint64_t address = std::exchange(memory->address, 0); address != 0) {
    auto& memories = memory->session->state->memories;
    if (const auto found = memories.find(address); found != memories.end() && found->second == memory)
      memories.erase(found);
  }
}

// Lets go of an owner's memory; work in flight keeps it until it has ended.
void destroy(MemoryObject* memory) {
  forget_memory(memory);
  const pergola_array handle = std::exchange(memory->handle, nullptr);
  if (handle == nullptr || is_ending()) return;
  const WithoutGil free;
  pergola_array_destroy(handle);
}

void memory_dealloc(PyObject* self) {
  PyObject_GC_UnTrack(self);
  MemoryObject* memory = as_memory(self);
  destroy(memory);
  Py_XDECREF(reinterpret_cast<PyObject*>(memory->base));
  Py_XDECREF(reinterpret_cast<PyObject*>(memory->session));
  deallocate(self);
}

bool in_range(const MemoryObject* memory, unsigned long long offset, Py_ssize_t size) {
  if (offset <= memory->size_bytes && static_cast<std::uint64_t>(size) <= memory->size_bytes - offset) return true;
  PyErr_Format(PyExc_ValueError, "%zd bytes from byte %llu do not lie in a memory of %llu bytes.", size, offset,
               static_cast<unsigned long long>(memory->size_bytes));
  return false;
}

// A Python object's bytes for as long as this lives.
class Bytes {
 public:
  ~Bytes() {
    if (held_) PyBuffer_Release(&buffer_);
  }
  Bytes() = default;
  Bytes(const Bytes&) = delete;
  Bytes& operator=(const Bytes&) = delete;
  bool hold(PyObject* object, int flags) {
    held_ = PyObject_GetBuffer(object, &buffer_, flags) == 0;
    return held_;
  }
  void* data() const { return buffer_.buf; }
  Py_ssize_t size() const { return buffer_.len; }

 private:
  Py_buffer buffer_{};
  bool held_ = false;
};

// _read(offset_bytes, writable buffer)
PyObject* memory_read(PyObject* self, PyObject* args) {
  PyObject* into = nullptr;
  unsigned long long offset = 0;
  if (PyArg_ParseTuple(args, "O&O:_read", to_u64, &offset, &into) == 0) return nullptr;
  Bytes bytes;
  pergola_array handle = nullptr;
  std::uint64_t base = 0;
  if (!bytes.hold(into, PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS)) return nullptr;
  if (!in_range(as_memory(self), offset, bytes.size()) ||
      !wait_for(as_memory(self), offset, static_cast<std::uint64_t>(bytes.size())) ||
      !resolve(as_memory(self), &handle, &base))
    return nullptr;
  if (!without_gil([&] {
        return pergola_array_read(handle, base + offset, bytes.data(), static_cast<std::uint64_t>(bytes.size()));
      }))
    return nullptr;
  Py_RETURN_NONE;
}

// _write(offset_bytes, buffer): queued; the buffer may change once this has returned.
PyObject* memory_write(PyObject* self, PyObject* args) {
  PyObject* from = nullptr;
  unsigned long long offset = 0;
  if (PyArg_ParseTuple(args, "O&O:_write", to_u64, &offset, &from) == 0) return nullptr;
  Bytes bytes;
  pergola_array handle = nullptr;
  std::uint64_t base = 0;
  if (!bytes.hold(from, PyBUF_C_CONTIGUOUS)) return nullptr;
  if (!in_range(as_memory(self), offset, bytes.size()) || !wait_for_tasks(as_memory(self)) ||
      !(host_reaches(self) || make_room(as_memory(self)->session->state)) || !resolve(as_memory(self), &handle, &base))
    return nullptr;
  if (!without_gil([&] {
        return pergola_array_write(handle, base + offset, bytes.data(), static_cast<std::uint64_t>(bytes.size()));
      }))
    return nullptr;
  Py_RETURN_NONE;
}

// _fill(element's bytes): queues a fill of all of it.
PyObject* memory_fill(PyObject* self, PyObject* value) {
  Bytes bytes;
  pergola_array handle = nullptr;
  std::uint64_t base = 0;
  if (!bytes.hold(value, PyBUF_C_CONTIGUOUS)) return nullptr;
  const std::uint64_t size = as_memory(self)->size_bytes, value_bytes = static_cast<std::uint64_t>(bytes.size());
  // As LocalArray::fill() does it: where there is no word to repeat, 64 KiB are staged, of which a queue has 2 MiB
  // under way, and then copied, each time twice as much as the last.
  constexpr std::uint64_t kSeedBits = 16, kStagedBitsAPiece = 11;
  const auto* const first = static_cast<const char*>(bytes.data());
  const bool repeats = value_bytes <= 4 || std::memcmp(first, first + 4, value_bytes - 4) == 0;
  const std::uint64_t staged = std::min(size, std::uint64_t{1} << kSeedBits) >> kStagedBitsAPiece;
  const std::uint64_t pieces = repeats ? 1 : 2 + staged + static_cast<unsigned>(std::bit_width(size >> kSeedBits));
  if (!make_room(as_memory(self)->session->state, static_cast<unsigned>(pieces)) ||
      !resolve(as_memory(self), &handle, &base))
    return nullptr;
  if (!without_gil([&] { return pergola_array_fill_range(handle, base, size, bytes.data(), value_bytes); }))
    return nullptr;
  Py_RETURN_NONE;
}

// _copy(offset_bytes, source memory): queues a copy of all of the source.
PyObject* memory_copy(PyObject* self, PyObject* args) {
  PyObject* source = nullptr;
  unsigned long long offset = 0;
  if (PyArg_ParseTuple(args, "O&O!:_copy", to_u64, &offset, types.memory, &source) == 0) return nullptr;
  const MemoryObject* from = as_memory(source);
  pergola_array handle = nullptr, from_handle = nullptr;
  std::uint64_t base = 0, from_base = 0;
  if (!in_range(as_memory(self), offset, static_cast<Py_ssize_t>(from->size_bytes)) ||
      !make_room(as_memory(self)->session->state) || !resolve(as_memory(self), &handle, &base) ||
      !resolve(from, &from_handle, &from_base))
    return nullptr;
  const std::uint64_t size = from->size_bytes;
  if (!without_gil([&] { return pergola_array_copy(handle, base + offset, from_handle, from_base, size); }))
    return nullptr;
  Py_RETURN_NONE;
}

PyObject* memory_location(PyObject* self, void*) {
  pergola_array_info info{};
  std::uint64_t base = 0;
  if (!describe(as_memory(self), &info, &base)) return nullptr;
  const char* const names[] = {"", "device", "host", "both"};
  return PyUnicode_FromString(names[info.location]);
}

PyObject* memory_number(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(owner_of(as_memory(self))->number);
}

PyObject* memory_free(PyObject* self, PyObject*) {
  MemoryObject* owner = owner_of(as_memory(self));
  if (owner->handle != nullptr && owner->session->state->process != getpid()) {  // which says so
    pergola_array_info info{};
    std::uint64_t base = 0;
    if (!describe(owner, &info, &base)) return nullptr;
  }
  if (owner->exports != 0) {
    PyErr_Format(PyExc_BufferError, "The array cannot be freed: %u consumer%s its memory by DLPack or host().",
                 owner->exports, owner->exports == 1 ? " shares" : "s share");
    return nullptr;
  }
  destroy(owner);
  Py_RETURN_NONE;
}

PyObject* memory_wait(PyObject* self, PyObject*) {
  if (!wait_for(as_memory(self), 0, as_memory(self)->size_bytes)) return nullptr;
  Py_RETURN_NONE;
}

PyObject* memory_address(PyObject* self, void*) {
  std::uint64_t address = 0;
  return address_of(as_memory(self), &address) ? PyLong_FromUnsignedLongLong(address) : nullptr;
}
// _apart(memory): how many bytes lie between where the two begin; 2^64 - 1 where they are of two arrays. Nobody is told
// an address.
PyObject* memory_apart(PyObject* self, PyObject* other) {
  if (!is_instance(other, types.memory)) return PyErr_Format(PyExc_TypeError, "_apart() wants another memory.");
  MemoryObject *const a = as_memory(self), *const b = as_memory(other);
  const std::uint64_t apart =
      a->offset_bytes < b->offset_bytes ? b->offset_bytes - a->offset_bytes : a->offset_bytes - b->offset_bytes;
  return PyLong_FromUnsignedLongLong(owner_of(a) == owner_of(b) ? apart : ~std::uint64_t{0});
}
PyObject* memory_nbytes(PyObject* self, void*) {
  return PyLong_FromUnsignedLongLong(as_memory(self)->size_bytes);
}
PyObject* memory_is_view(PyObject* self, void*) {
  return PyBool_FromLong(as_memory(self)->base != nullptr ? 1 : 0);
}
PyObject* memory_is_freed(PyObject* self, void*) {
  const MemoryObject* memory = as_memory(self);
  return PyBool_FromLong((memory->base != nullptr ? memory->base : memory)->handle == nullptr ? 1 : 0);
}
PyObject* memory_session(PyObject* self, void*) {
  return Py_NewRef(reinterpret_cast<PyObject*>(as_memory(self)->session));
}

PyMethodDef memory_methods[] = {
    {"_read", memory_read, METH_VARARGS, nullptr},
    {"_write", memory_write, METH_VARARGS, nullptr},
    {"_fill", memory_fill, METH_O, nullptr},
    {"_copy", memory_copy, METH_VARARGS, nullptr},
    {"_apart", memory_apart, METH_O, nullptr},
    {"_host", memory_host, METH_VARARGS, nullptr},
    {"_prefetch", memory_prefetch, METH_VARARGS, nullptr},
    {"_adopt", memory_adopt, METH_VARARGS | METH_CLASS, nullptr},
    {"_within", memory_within, METH_VARARGS | METH_CLASS, nullptr},
    {"_wait", memory_wait, METH_NOARGS, nullptr},
    {"free", memory_free, METH_NOARGS,
     "free($self, /)\n--\n\nLet go of the memory now; of a view, of the array that it is of. Work in flight keeps it "
     "until it has ended; using the array or a view of it is an error."},
    {nullptr, nullptr, 0, nullptr}};
PyGetSetDef memory_getset[] = {
    {"address", memory_address, nullptr, "Where it starts on the device. It does not keep the array alive.", nullptr},
    {"location", memory_location, nullptr,
     "Where its newest contents are: \"device\", \"host\" (written by host(), not yet used on the device) or \"both\".",
     nullptr},
    {"number", memory_number, nullptr,
     "By which pictures, traces and messages speak of it (\"array 3\"), in its session; a view's is the array's.",
     nullptr},
    {"nbytes", memory_nbytes, nullptr, "Its size in bytes.", nullptr},
    {"session", memory_session, nullptr, "The session that it belongs to.", nullptr},
    {"freed", memory_is_freed, nullptr, "Whether free() was called.", nullptr},
    {"_is_view", memory_is_view, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot memory_slots[] = {{Py_tp_new, reinterpret_cast<void*>(memory_new)},
                              {Py_tp_dealloc, reinterpret_cast<void*>(memory_dealloc)},
                              traversed<MemoryObject, &MemoryObject::session, &MemoryObject::base>(),
                              {Py_tp_methods, memory_methods},
                              {Py_tp_getset, memory_getset},
                              {0, nullptr}};

}  // namespace

bool resolve(const MemoryObject* memory, pergola_array* handle, std::uint64_t* offset_bytes) {
  const MemoryObject* owner = memory->base != nullptr ? memory->base : memory;
  *handle = owner->handle;
  *offset_bytes = memory->offset_bytes;
  if (owner->handle != nullptr) return true;
  raise(PERGOLA_FAILED_PRECONDITION, "The array was freed by free(); it cannot be used any more.");
  return false;
}

bool address_of(MemoryObject* memory, std::uint64_t* address) {
  pergola_array_info info{};
  std::uint64_t base = 0;
  if (!describe(memory, &info, &base)) return false;
  *address = info.address + base;
  register_memory(owner_of(memory), info.address);
  return true;
}

void register_memory(MemoryObject* memory, std::uint64_t address) {
  if (memory->size_bytes == 0 || address == 0 || memory->address != 0) return;  // for good
  memory->address = address;
  memory->session->state->memories.insert_or_assign(address, memory);
}

// The memories overlap none of each other, so that it is the last to begin at the address or before, or the first
// after.
PyObject* view_within(PyObject* type, const SessionObject* session, std::uint64_t address, std::uint64_t size_bytes,
                      std::string* overlap) {
  const auto& memories = session->state->memories;
  if (size_bytes == 0 || memories.empty()) return nullptr;
  const auto after = memories.upper_bound(address);
  MemoryObject* found = after == memories.begin() ? nullptr : std::prev(after)->second;
  if (found == nullptr || address - found->address >= found->size_bytes)
    found = after != memories.end() && after->first - address < size_bytes ? after->second : nullptr;
  // Nobody has one any more that is on its way out, where other code of Python may run.
  if (found == nullptr || Py_REFCNT(reinterpret_cast<PyObject*>(found)) == 0) return nullptr;
  const bool is_within = address >= found->address && size_bytes <= found->size_bytes - (address - found->address);
  if (!is_within) {
    if (overlap != nullptr)
      *overlap = std::to_string(size_bytes) + " bytes from address " + std::to_string(address) +
                 " overlap an array of " + std::to_string(found->size_bytes) + " bytes from address " +
                 std::to_string(found->address);
    return nullptr;
  }
  Ref self(allocate(reinterpret_cast<PyTypeObject*>(type)));
  if (self) become_view(as_memory(self.get()), found, address - found->address, size_bytes);
  return self.release();
}

PyObject* memory_within(PyObject* type, PyObject* args) {
  PyObject* session = nullptr;
  unsigned long long address = 0, size = 0;
  if (PyArg_ParseTuple(args, "O!O&O&:_within", types.session, &session, to_u64, &address, to_u64, &size) == 0)
    return nullptr;
  PyObject* const view = view_within(type, reinterpret_cast<SessionObject*>(session), address, size, nullptr);
  if (view == nullptr && PyErr_Occurred() == nullptr) Py_RETURN_NONE;
  return view;
}

// What is known here is what this package has spawned, which is what the library knows of an array: how often it was
// given to tasks, and that these have ended. A wait for no bytes of it is one for its tasks alone.
bool wait_for_tasks(MemoryObject* memory) {
  MemoryObject* owner = owner_of(memory);
  const SessionState* session = owner->session->state;
  const std::uint64_t begun = owner->tasks_begun;
  if (session->tasks == nullptr || (begun == owner->tasks_ended && !session->universal_tasks)) return true;
  pergola_array handle = nullptr;
  std::uint64_t base = 0;
  if (!resolve(memory, &handle, &base)) return false;
  if (!wait_in_slices([=](std::int64_t slice_ns) { return pergola_array_wait(handle, base, 0, slice_ns); }))
    return false;
  owner->tasks_ended = begun;
  return true;
}

void note_tasks(PyObject* memory) {
  ++owner_of(as_memory(memory))->tasks_begun;
}

PyType_Spec memory_spec = {"pergola._core.Memory", sizeof(MemoryObject), 0, kCollected | Py_TPFLAGS_BASETYPE,
                           memory_slots};

}  // namespace pergola::python
