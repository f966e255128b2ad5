// Decodes arbitrary bytes behind a valid header as a control message. A message that is accepted can be encoded again,
// and the result is accepted again.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <pharos/base/check.hpp>
#include <pharos/wire/message.hpp>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kHeaderBytes = 16;
  std::vector<std::byte> given = pharos::wire::encode(pharos::wire::Done{});
  given.resize(kHeaderBytes);
  given.insert(given.end(), std::as_bytes(std::span{data, size}).begin(), std::as_bytes(std::span{data, size}).end());
  const auto message = pharos::wire::decode(given);
  if (!message) return 0;
  const std::vector<std::byte> bytes = pharos::wire::encode(*message);
  const auto again = pharos::wire::decode(bytes);
  PHAROS_CHECK(again.ok(), pharos::wire::name_of(*message));
  PHAROS_CHECK(again->index() == message->index());
  PHAROS_CHECK(pharos::wire::encode(*again) == bytes, pharos::wire::name_of(*message));
  return 0;
}
