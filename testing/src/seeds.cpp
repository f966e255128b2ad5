#include <cstdio>
#include <cstdlib>
#include <exception>

#include <pharos/testing/seeds.hpp>

namespace pharos::testing {
namespace {

/// Sets `number` to what this environment variable says. Returns whether it is set.
bool from_environment(const char* variable, std::uint64_t& number) {
  const char* const text = std::getenv(variable);
  if (text != nullptr) number = std::strtoull(text, nullptr, 10);
  return text != nullptr;
}

void tell(std::uint64_t seed) {
  std::fprintf(stderr, "seed %llu failed: PHAROS_TEST_SEED=%llu replays it, PHAROS_TEST_TRACE=1 shows each message\n",
               static_cast<unsigned long long>(seed), static_cast<unsigned long long>(seed));
}

}  // namespace

void for_each_seed(const Seeds& seeds, const std::function<void(std::uint64_t seed)>& test) {
  std::uint64_t first = seeds.first;
  std::uint64_t count = seeds.count;
  from_environment("PHAROS_TEST_SEEDS", count);
  if (from_environment("PHAROS_TEST_SEED", first)) count = 1;
  for (std::uint64_t seed = first; seed - first < count; ++seed) {
    try {
      test(seed);
    } catch (...) {
      tell(seed);
      throw;
    }
    if (!seeds.failed || !seeds.failed()) continue;
    tell(seed);
    return;
  }
}

}  // namespace pharos::testing
