#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <pharos/net/handshake.hpp>

namespace pharos::net {

/// The tokens of a cluster that are valid: the present one, and earlier ones until their time is over. A cluster gets a
/// new token while it runs; processes that do not have it yet prove themselves with the earlier one.
/// A value. Times are in seconds since 1970, because they also apply after a restart.
class TokenRing {
 public:
  static constexpr std::size_t kEarlierMax = 8;
  struct Earlier {
    Key token{};
    std::uint64_t until = 0;

    friend bool operator==(const Earlier&, const Earlier&) = default;
  };

  TokenRing() = default;
  /// Keeps the first kEarlierMax of the earlier tokens, which are the newest.
  explicit TokenRing(const Key& present, std::vector<Earlier> earlier = {});

  const Key& present() const { return present_; }
  const std::vector<Earlier>& earlier() const { return earlier_; }
  /// All tokens that are valid at this time, the newest first.
  std::vector<Key> valid(std::uint64_t now) const;
  /// Returns the valid token with this name (name_of()). nullopt if there is none.
  std::optional<Key> find(std::uint64_t name, std::uint64_t now) const;

  /// Takes a new token, which was sealed with the present one or with an earlier one that is valid. The present one is
  /// then an earlier one, and none of the earlier ones is valid longer than until the given time. Returns false, and
  /// changes nothing, if it was not sealed with one of these, or is known already.
  bool take(std::span<const std::byte> sealed, std::uint64_t until, std::uint64_t now);

  friend bool operator==(const TokenRing&, const TokenRing&) = default;

 private:
  Key present_{};
  std::vector<Earlier> earlier_;  // newest first
};

/// The size of a sealed token.
inline constexpr std::size_t kSealedBytes = 72;
/// Encrypts a new token, so that only who knows `with` can read it, and nobody else can make one. Never fails.
std::vector<std::byte> seal(const Key& token, const Key& with);

/// The present time in seconds since 1970.
std::uint64_t seconds_now();

}  // namespace pharos::net
