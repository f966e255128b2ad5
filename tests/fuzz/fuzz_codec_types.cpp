// Decodes arbitrary bytes as values of many types: decoding fails, or the value survives another round trip, both
// through the codec and as a stored value. The first byte selects the type.

#include <array>
#include <chrono>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/base/check.hpp>
#include <pharos/wire/stored_codec.hpp>

namespace {

using namespace pharos;

enum class Colour : std::uint8_t { kRed, kGreen };
constexpr bool pharos_valid(Colour colour) {
  return colour <= Colour::kGreen;
}

struct Empty {};
struct Leaf {
  std::uint8_t small = 0;
  std::int64_t large = 0;
  bool flags[3] = {};
  Colour colour = {};
  Empty nothing;
};
struct Tree {
  std::variant<std::monostate, bool, std::string, Leaf, std::vector<Tree>> value;
  std::map<std::string, Tree> named;
  std::unique_ptr<Tree> next;
  std::optional<std::pair<Leaf, std::deque<std::u16string>>> extra;
  Bytes bytes;
};
class Account {
 public:
  auto pharos_fields() { return std::tie(owner_, amounts_); }

 private:
  std::string owner_;
  std::unordered_multimap<std::int8_t, std::list<bool>> amounts_;
};

template <class T>
std::vector<std::byte> encoded(const T& value) {
  Encoder encoder;
  Codec<T>::encode(value, encoder);
  PHAROS_CHECK(!encoder.failed());
  return encoder.flattened();
}

/// Whether T has unordered elements, so that the order of its encoded bytes is not fixed.
template <class T>
constexpr bool kHashed = std::is_same_v<T, Account> || requires {
  typename T::hasher;
};

template <class T>
void check_as(std::span<const std::byte> bytes) {
  const auto owner = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
  Decoder decoder{*owner, owner};
  const T value = Codec<T>::decode(decoder);
  if (decoder.failed()) {
    PHAROS_CHECK(decoder.left() == 0);
    return;
  }
  const auto once = encoded(value);
  PHAROS_CHECK(once.size() == bytes.size() - decoder.left());
  Decoder again{once};
  const T same = Codec<T>::decode(again);
  PHAROS_CHECK(!again.failed() && again.left() == 0);
  PHAROS_CHECK(encoded(same).size() == once.size());
  if constexpr (!kHashed<T>) {
    PHAROS_CHECK(encoded(same) == once);  // bytes and not values, because a NaN is not equal to itself
  } else if constexpr (requires { value == same; }) {
    PHAROS_CHECK(value == same);
  }

  auto stored = to_bytes(value);
  PHAROS_CHECK(stored.ok() && from_bytes<T>(*stored).ok());
  PHAROS_CHECK(!from_bytes<std::vector<T>>(*stored).ok());
}

using Check = void (*)(std::span<const std::byte>);
constexpr Check kChecks[] = {
    &check_as<bool>,
    &check_as<Colour>,
    &check_as<std::string>,
    &check_as<Bytes>,
    &check_as<std::vector<std::int32_t>>,
    &check_as<std::vector<bool>>,
    &check_as<std::vector<std::monostate>>,
    &check_as<std::deque<std::string>>,
    &check_as<std::set<std::string>>,
    &check_as<std::multiset<std::int8_t>>,
    &check_as<std::unordered_set<std::uint16_t>>,
    &check_as<std::map<std::int8_t, std::vector<std::string>>>,
    &check_as<std::unordered_map<std::string, std::optional<bool>>>,
    &check_as<std::variant<std::monostate, int, std::string>>,
    &check_as<std::tuple<bool, std::optional<std::optional<char>>, std::array<std::string, 2>>>,
    &check_as<std::pair<std::chrono::nanoseconds, std::chrono::system_clock::time_point>>,
    &check_as<std::filesystem::path>,
    &check_as<std::list<std::unique_ptr<std::list<bool>>>>,
    &check_as<std::array<std::tuple<>, 3>>,
    &check_as<Leaf>,
    &check_as<Tree>,
    &check_as<Account>,
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  kChecks[data[0] % std::size(kChecks)](std::as_bytes(std::span{data + 1, size - 1}));

  // The input as a stored value, as it is in a file.
  const auto bytes = std::as_bytes(std::span{data, size});
  if (auto stored = from_bytes<Tree>(bytes); stored.ok()) {
    PHAROS_CHECK(*to_bytes(*stored) == std::vector<std::byte>(bytes.begin(), bytes.end()));
  }
  return 0;
}
