#include "src/device/cpu/jit/object_cache.h"

#include <elf.h>
#include <link.h>

#include <cstdint>
#include <cstring>

#include "src/base/file.h"
#include "src/base/log.h"

namespace pergola::device::cpu::jit {
namespace {

void anchor() {}  // an address of this library

struct Search {
  std::uintptr_t address = 0;
  std::string build_id;
};

// Keeps the build id of the object that `search->address` lies in (the linker's note NT_GNU_BUILD_ID).
int visit(dl_phdr_info* object, std::size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool ours = false;
  for (int n = 0; n < object->dlpi_phnum; ++n) {
    const ElfW(Phdr)& part = object->dlpi_phdr[n];
    const std::uintptr_t start = object->dlpi_addr + part.p_vaddr;
    ours |= part.p_type == PT_LOAD && search.address - start < part.p_memsz;
  }
  if (!ours) return 0;
  for (int n = 0; n < object->dlpi_phnum; ++n) {
    const ElfW(Phdr)& part = object->dlpi_phdr[n];
    if (part.p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(object->dlpi_addr + part.p_vaddr);
    const char* const end = at + part.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* const name = at + sizeof note;
      const char* const bytes = name + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        search.build_id.assign(bytes, note.n_descsz);
        return 1;
      }
      at = bytes + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return 1;
}

std::string own_build_id() {
  Search search{reinterpret_cast<std::uintptr_t>(&anchor), {}};
  dl_iterate_phdr(visit, &search);
  return search.build_id;
}

}  // namespace

ObjectCache::ObjectCache(std::string target)
    : target_(std::move(target)), build_(own_build_id()), enabled_(!build_.empty()), cache_(cache_directory() / "object") {
  if (!enabled_) PERGOLA_DEBUG("The JIT's library has no build id: compiled kernels are not kept on disk.");
}

CacheKey ObjectCache::key(std::string_view module_text, std::string_view unit) const {
  return cache_key("jit object", {build_, target_, module_text, unit});
}

}  // namespace pergola::device::cpu::jit
