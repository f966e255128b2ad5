#include <pharos/base/machine.hpp>
#include <pharos/base/random.hpp>

namespace pharos {

void fill_random(std::span<std::byte> bytes) {
  detail::Machine::present().fill_random(bytes);
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  while (value == 0) fill_random(std::as_writable_bytes(std::span{&value, 1}));
  return value;
}

}  // namespace pharos
