#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <pharos/async/deadline.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/result.hpp>
#include <pharos/net/handshake.hpp>

namespace pharos::ml {

/// Who comes to a socket that listens, and proves to know the key. Strangers hold nobody up: all that come are heard at
/// the same time. Bounds: so many at once; whoever came first makes room.
class Greeting {
 public:
  struct Guest {
    std::uint64_t id = 0;  ///< that it has proved
    Fd socket{};
  };

  Greeting(const Fd& listener, const net::Key& key, net::Identity self);
  Greeting(Greeting&&) = delete;
  ~Greeting();

  /// The next one. Nothing: it is late, or the other end of one of `those` sockets has been closed.
  std::optional<Guest> next(Deadline deadline, std::span<const int> those = {});

 private:
  static constexpr std::size_t kHeardMax = 256;
  struct Heard;

  void accept_all();
  bool hear(Heard& heard, std::optional<Guest>& guest) const;

  const Fd& listener_;
  const net::Key key_;
  const net::Identity self_;
  std::vector<std::unique_ptr<Heard>> heard_;
};

}  // namespace pharos::ml
