#include <sodium.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>
#include <utility>

#include <pharos/base/random.hpp>
#include <pharos/net/token_ring.hpp>

namespace pharos::net {
namespace {

static_assert(kSealedBytes == crypto_secretbox_NONCEBYTES + crypto_secretbox_MACBYTES + sizeof(Key));

unsigned char* as_sodium(std::byte* bytes) {
  return reinterpret_cast<unsigned char*>(bytes);
}
const unsigned char* as_sodium(const std::byte* bytes) {
  return reinterpret_cast<const unsigned char*>(bytes);
}

/// Tokens are sealed with a key of its own, so that no proof of a handshake helps to open them.
Key sealing_key(const Key& token) {
  return derive_key(token, "pharos seals a token");
}

std::optional<Key> open(std::span<const std::byte> sealed, const Key& with) {
  if (sealed.size() != kSealedBytes) return std::nullopt;
  const std::span nonce = sealed.first(crypto_secretbox_NONCEBYTES);
  const std::span rest = sealed.subspan(crypto_secretbox_NONCEBYTES);
  Key token;
  const Key key = sealing_key(with);
  const int wrong = ::crypto_secretbox_open_easy(as_sodium(token.data()), as_sodium(rest.data()), rest.size(),
                                                 as_sodium(nonce.data()), as_sodium(key.data()));
  return wrong == 0 ? std::optional{token} : std::nullopt;
}

}  // namespace

TokenRing::TokenRing(const Key& present, std::vector<Earlier> earlier)
    : present_{present}, earlier_{std::move(earlier)} {
  if (earlier_.size() > kEarlierMax) earlier_.resize(kEarlierMax);
}

std::vector<Key> TokenRing::valid(std::uint64_t now) const {
  std::vector<Key> all{present_};
  for (const Earlier& each : earlier_) {
    if (now < each.until) all.push_back(each.token);
  }
  return all;
}

std::optional<Key> TokenRing::find(std::uint64_t name, std::uint64_t now) const {
  for (const Key& token : valid(now)) {
    if (name_of(token) == name) return token;
  }
  return std::nullopt;
}

bool TokenRing::take(std::span<const std::byte> sealed, std::uint64_t until, std::uint64_t now) {
  for (const Key& with : valid(now)) {
    const auto token = open(sealed, with);
    if (!token) continue;
    const bool is_known = *token == present_ || std::ranges::find(earlier_, *token, &Earlier::token) != earlier_.end();
    if (is_known) return false;
    for (Earlier& each : earlier_) each.until = std::min(each.until, until);
    earlier_.insert(earlier_.begin(), Earlier{present_, until});
    std::erase_if(earlier_, [now](const Earlier& each) { return now >= each.until; });
    if (earlier_.size() > kEarlierMax) earlier_.resize(kEarlierMax);
    present_ = *token;
    return true;
  }
  return false;
}

std::vector<std::byte> seal(const Key& token, const Key& with) {
  std::vector<std::byte> sealed(kSealedBytes);
  const std::span nonce = std::span{sealed}.first(crypto_secretbox_NONCEBYTES);
  fill_random(nonce);
  const Key key = sealing_key(with);
  ::crypto_secretbox_easy(as_sodium(sealed.data() + nonce.size()), as_sodium(token.data()), token.size(),
                          as_sodium(nonce.data()), as_sodium(key.data()));
  return sealed;
}

std::uint64_t seconds_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::seconds>(now).count());
}

}  // namespace pharos::net
