#define XXH_INLINE_ALL
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <pharos/base/check.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/process/build_id.hpp>

namespace pharos::process {
namespace {

constexpr std::size_t kNotesMax = 64 << 10;
constexpr std::size_t kReadBytes = 256 << 10;

/// Returns false if the file is too short or cannot be read.
template <class T>
bool read_at(int file, std::uint64_t place, std::span<T> into) {
  const auto bytes = std::as_writable_bytes(into);
  return ::pread(file, bytes.data(), bytes.size(), static_cast<off_t>(place)) == static_cast<ssize_t>(bytes.size());
}

std::optional<wire::BuildId> look_at_notes(std::span<const std::byte> notes, std::size_t align) {
  const auto padded = [align](std::size_t n) { return (n + align - 1) / align * align; };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t total = sizeof note + padded(note.n_namesz) + padded(note.n_descsz);
    if (total > notes.size()) return {};
    const std::byte* const name = notes.data() + sizeof note;
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      wire::BuildId found{};
      std::memcpy(found.data(), name + padded(note.n_namesz), std::min<std::size_t>(note.n_descsz, found.size()));
      return found;
    }
    notes = notes.subspan(total);
  }
  return {};
}

std::optional<wire::BuildId> linkers_build_id(int file) {
  ElfW(Ehdr) head;
  if (!read_at(file, 0, std::span{&head, 1}) || std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0) return {};
  constexpr int kOwnClass = sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32;
  if (head.e_ident[EI_CLASS] != kOwnClass || head.e_phentsize != sizeof(ElfW(Phdr))) return {};
  std::vector<ElfW(Phdr)> parts(head.e_phnum);
  if (!read_at(file, head.e_phoff, std::span{parts})) return {};
  for (const auto& part : parts) {
    if (part.p_type != PT_NOTE || part.p_filesz > kNotesMax) continue;
    std::vector<std::byte> notes(part.p_filesz);
    if (!read_at(file, part.p_offset, std::span{notes})) return {};
    if (const auto found = look_at_notes(notes, std::clamp<std::size_t>(part.p_align, 4, 8))) return found;
  }
  return {};
}

Result<wire::BuildId> hash_of(int file) {
  const std::unique_ptr<XXH3_state_t, decltype(&XXH3_freeState)> state{XXH3_createState(), &XXH3_freeState};
  XXH3_128bits_reset(state.get());
  std::vector<std::byte> some(kReadBytes);
  for (off_t place = 0;;) {
    const ssize_t size = ::pread(file, some.data(), some.size(), place);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return Error::from_errno("reading a file of a program", errno);
    if (size == 0) break;
    XXH3_128bits_update(state.get(), some.data(), static_cast<std::size_t>(size));
    place += size;
  }
  XXH128_canonical_t hash;
  XXH128_canonicalFromHash(&hash, XXH3_128bits_digest(state.get()));
  wire::BuildId found{};
  std::memcpy(found.data(), &hash, sizeof hash);
  return found;
}

}  // namespace

Result<wire::BuildId> build_id_of(int file) {
  if (const auto linked = linkers_build_id(file)) return *linked;
  return hash_of(file);
}

wire::BuildId own_build_id() {
  const Fd executable{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  PHAROS_CHECK(executable, errno);
  const auto found = build_id_of(executable.get());
  PHAROS_CHECK(found.ok(), found.error());
  return *found;
}

}  // namespace pharos::process
