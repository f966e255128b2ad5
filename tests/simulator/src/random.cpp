#include <pharos/base/random.hpp>

#include "world.hpp"

// The linker takes these functions instead of those in runtime/base. True random numbers would make each run different.
namespace pharos {

void fill_random(std::span<std::byte> bytes) {
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(simulator::World::of_this_program().lots().next());
}

std::uint64_t random_u64() {
  std::uint64_t value = 0;
  while (value == 0) value = simulator::World::of_this_program().lots().next();
  return value;
}

}  // namespace pharos
