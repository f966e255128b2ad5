#include "stream/stream.hpp"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include <pharos/net/blocking_io.hpp>

namespace pharos::ml {
namespace {

constexpr std::size_t kReadsInTurn = 32;  // messages of one stream, before other streams get their turn

}  // namespace

bool StreamMessage::makes_sense() const {
  return kind <= Kind::kAnswer && among <= Among::kTwo && operation.kind <= Operation::Kind::kAllocate &&
         operation.dtype <= DType::kF64 && operation.reduction <= Reduction::kMin &&
         (kind == Kind::kData || bytes <= (is_failure() ? kTextMax : 0));
}

void Stream::send(const StreamMessage& message, const std::byte* bytes, std::function<void()> sent) {
  going_.push_back({message, bytes, {}, std::move(sent)});
}

void Stream::send_text(StreamMessage message, const std::string& text) {
  const auto* const begin = reinterpret_cast<const std::byte*>(text.data());
  std::vector<std::byte> bytes(begin, begin + std::min(text.size(), StreamMessage::kTextMax));
  message.bytes = bytes.size();
  going_.push_back({message, nullptr, std::move(bytes), {}});
}

void Stream::drop_unsent() {
  while (!going_.empty() && going_.back().done == 0) going_.pop_back();
}

Result<std::size_t> Stream::write(std::size_t most) {
  std::size_t written = 0;
  while (!going_.empty() && written < most) {
    Going& front = going_.front();
    auto* const head = reinterpret_cast<std::byte*>(&front.message);
    const std::byte* const bytes = front.bytes != nullptr ? front.bytes : front.text.data();
    const std::size_t all = sizeof front.message + front.message.bytes;
    const std::size_t in_head = std::min(front.done, sizeof front.message);
    const std::size_t in_bytes = front.done - in_head;
    const std::size_t of_head = std::min(sizeof front.message - in_head, most - written);
    const std::size_t of_bytes = std::min(front.message.bytes - in_bytes, most - written - of_head);
    std::array<iovec, 2> parts{iovec{head + in_head, of_head},
                               iovec{const_cast<std::byte*>(bytes) + in_bytes, of_bytes}};
    msghdr header{};
    header.msg_iov = parts.data();
    header.msg_iovlen = of_bytes == 0 ? 1 : 2;
    const ssize_t n = ::sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EAGAIN) break;
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Error::from_errno("sending to the rank", errno);
    front.done += static_cast<std::size_t>(n);
    written += static_cast<std::size_t>(n);
    bytes_sent_.fetch_add(static_cast<std::uint64_t>(n), std::memory_order_relaxed);
    if (front.done < all) continue;
    const auto sent = std::move(front.sent);
    going_.pop_front();
    if (sent) sent();
  }
  return written;
}

Result<void> Stream::read(Receiver& receiver) {
  for (std::size_t i = 0; i < kReadsInTurn; ++i) {
    PHAROS_TRY(const bool more, read_message(receiver));
    if (!more) break;
  }
  return {};
}

/// Returns false if nothing more can be read now.
Result<bool> Stream::read_message(Receiver& receiver) {
  if (come_ < sizeof coming_) {
    const auto rest = std::as_writable_bytes(std::span{&coming_, 1}).subspan(come_);
    PHAROS_TRY(const std::size_t n, net::receive_some(socket_.get(), rest));
    come_ += n;
    if (come_ < sizeof coming_) return n != 0;
    if (!coming_.makes_sense()) return Error{ErrorCode::kCorrupt, "it sent an invalid message"};
    PHAROS_TRY(place_, receiver.place(coming_));
  }
  while (come_ < sizeof coming_ + coming_.bytes) {
    const std::size_t done = come_ - sizeof coming_;
    PHAROS_TRY(const std::size_t n, net::receive_some(socket_.get(), {place_ + done, coming_.bytes - done}));
    come_ += n;
    if (n == 0) return false;
  }
  come_ = 0;
  receiver.came(coming_);
  return true;
}

}  // namespace pharos::ml
