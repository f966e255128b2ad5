#include <sys/random.h>

#include <cerrno>

#include <pharos/base/check.hpp>
#include <pharos/base/random.hpp>

namespace pharos {

void fill_random(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const auto n = ::getrandom(bytes.data(), bytes.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    PHAROS_CHECK(n > 0, errno);
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  while (value == 0) fill_random(std::as_writable_bytes(std::span{&value, 1}));
  return value;
}

}  // namespace pharos
