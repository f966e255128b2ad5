// A peer that does not know the key sends arbitrary bytes. It is never accepted, as an initiator or as an acceptor.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <pharos/base/check.hpp>
#include <pharos/net/handshake.hpp>

using pharos::net::Acceptor;
using pharos::net::Identity;
using pharos::net::Initiator;
using pharos::net::Key;
using pharos::net::kHelloBytes;
using pharos::net::kProofBytes;
using pharos::net::Role;

namespace {

/// Takes the next bytes of the input; zeros once the input has ended.
template <std::size_t Count>
std::array<std::byte, Count> next(std::span<const std::byte>& input) {
  std::array<std::byte, Count> bytes{};
  const std::size_t count = std::min(Count, input.size());
  std::copy_n(input.begin(), count, bytes.begin());
  input = input.subspan(count);
  return bytes;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Key key;
  key.fill(std::byte{42});
  auto input = std::as_bytes(std::span{data, size});

  Acceptor acceptor{Identity{Role::kNode, 1}};
  const auto hello = next<kHelloBytes>(input);
  acceptor.answer(hello, [&](Identity who, std::uint64_t) {
    PHAROS_CHECK(who.role >= Role::kNode && who.role <= Role::kWorker);
    return who.role == Role::kDriver ? std::optional{key} : std::nullopt;
  });
  PHAROS_CHECK(!acceptor.finish(next<kProofBytes>(input)).ok());

  Initiator initiator{key, Identity{Role::kDriver, 2}};
  PHAROS_CHECK(!initiator.answer(next<kHelloBytes + kProofBytes>(input)).ok());
  return 0;
}
