#pragma once

#include <sys/types.h>

#include <cstddef>
#include <optional>
#include <vector>

#include <pharos/base/error.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/net/link.hpp>

namespace pharos::net {

/// The bytes and descriptors that have come from a socket, until they make complete frames.
/// Owned by the link of the socket. Only one thread may use it at a time. The batches of frames that it has passed on
/// may outlive it; its destructor closes the descriptors that no frame has taken. Memory: a header is checked before
/// memory is allocated for its payload, and a large payload gets memory only as its bytes arrive.
class FrameReader {
 public:
  /// The most descriptors of one frame, and of those that are received before their frame is complete.
  static constexpr std::size_t kDescriptorsMax = 64;

  explicit FrameReader(bool accepts_descriptors) : accepts_descriptors_{accepts_descriptors} {}

  bool accepts_descriptors() const { return accepts_descriptors_; }

  struct Received {
    ssize_t bytes;       ///< as from recv(): 0 at the end of the stream, and -1 with errno set
    bool had_room_left;  ///< there was room for more bytes
  };
  /// Reads once from the socket, without waiting. Keeps the bytes for deliver().
  Received receive(int socket);
  /// Passes the complete frames to the handler, if there are any. Returns kCorrupt if the peer has sent what is no
  /// frame, or more than kDescriptorsMax descriptors. The complete frames in front of the fault are then dropped.
  std::optional<Error> deliver(Link::Handler& handler);

 private:
  ssize_t read_into(std::byte* to, std::size_t room, int socket);
  /// Moves the start of an incomplete frame to the front of a buffer that has room for the rest of the frame.
  void make_room();

  const bool accepts_descriptors_;
  ReceiveBuffer buffer_;
  std::size_t begin_ = 0;   // begin of the bytes that are not delivered
  std::size_t filled_ = 0;  // end of the received bytes
  std::vector<Fd> descriptors_;
};

}  // namespace pharos::net
