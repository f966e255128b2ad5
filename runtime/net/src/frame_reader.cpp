#include "frame_reader.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <pharos/wire/frame.hpp>

#include "system_calls.hpp"

namespace pharos::net {
namespace {

using wire::FrameHeader;

constexpr std::size_t kReadBytes = 64 << 10;
constexpr std::size_t kClaimBytes = 16 << 20;

}  // namespace

FrameReader::Received FrameReader::receive(int socket) {
  make_room();
  const std::size_t room = buffer_.capacity() - filled_;
  const ssize_t n = read_into(buffer_.bytes() + filled_, room, socket);
  if (n > 0) filled_ += static_cast<std::size_t>(n);
  return {.bytes = n, .had_room_left = n < static_cast<ssize_t>(room)};
}

ssize_t FrameReader::read_into(std::byte* to, std::size_t room, int socket) {
  ssize_t n = 0;
  if (!accepts_descriptors_) {
    do {
      n = receive_bytes(socket, to, room, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return n;
  }
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kDescriptorsMax)];
  iovec part{.iov_base = to, .iov_len = room};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  do {
    n = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (n < 0 && errno == EINTR);
  if (n < 0) return n;
  for (cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = 0; at + sizeof(int) <= c->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + at, sizeof fd);
      descriptors_.emplace_back(fd);
    }
  }
  return n;
}

void FrameReader::make_room() {
  if (!buffer_) buffer_ = ReceiveBuffer{kReadBytes};
  const std::size_t kept = filled_ - begin_;
  std::size_t needed = kReadBytes;
  if (kept >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, buffer_.bytes() + begin_, sizeof header);
    // deliver() has checked the header. A large size in a header alone gets at most kClaimBytes of memory; the buffer
    // grows further only as the bytes arrive.
    const std::size_t claimed = sizeof header + header.payload_bytes;
    const std::size_t grown = kept == buffer_.capacity() ? 2 * kept : buffer_.capacity();
    needed = std::max(needed, std::min(claimed, std::max(kClaimBytes, grown)));
  }
  const bool shared = !buffer_.unshared();
  if (!shared && begin_ == 0 && buffer_.capacity() >= needed && filled_ < buffer_.capacity()) return;
  if (shared || buffer_.capacity() < needed || buffer_.capacity() > std::max(needed, kReadBytes)) {
    ReceiveBuffer next{needed};
    std::memcpy(next.bytes(), buffer_.bytes() + begin_, kept);
    buffer_ = std::move(next);
  } else {
    std::memmove(buffer_.bytes(), buffer_.bytes() + begin_, kept);
  }
  begin_ = 0;
  filled_ = kept;
}

std::optional<Error> FrameReader::deliver(Link::Handler& handler) {
  std::size_t end = begin_;
  while (filled_ - end >= sizeof(FrameHeader)) {
    FrameHeader header;
    std::memcpy(&header, buffer_.bytes() + end, sizeof header);
    if (auto sane = wire::check(header); !sane) return std::move(sane).error();
    if (filled_ - end < sizeof header + header.payload_bytes) break;
    end += sizeof header + header.payload_bytes;
  }
  if (descriptors_.size() > kDescriptorsMax) {
    return Error{ErrorCode::kCorrupt, "received too many file descriptors without a frame for them"};
  }
  if (end == begin_) return std::nullopt;
  FrameBatch batch{buffer_, begin_, end};
  begin_ = end;
  handler.on_frames(std::move(batch), std::move(descriptors_));
  descriptors_.clear();
  return std::nullopt;
}

}  // namespace pharos::net
