#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <deque>
#include <mutex>
#include <optional>

#include <pharos/base/mutex.hpp>
#include <pharos/net/socket_link.hpp>

#include "frame_reader.hpp"
#include "system_calls.hpp"

namespace pharos::net {
namespace {

using wire::FrameHeader;

constexpr std::size_t kKeptBytes = 256 << 10;  // memory that an empty send queue keeps

// How reading works: `edges_` counts readiness events. The thread that moves it from 0 becomes the only reader. The
// reader leaves by moving it from the number that it saw back to 0. If an event came meanwhile, that exchange fails and
// the reader reads again. So no event is lost, and no thread waits for another.
class Socket final : public SocketLink, public Reactor::Watcher, public std::enable_shared_from_this<Socket> {
 public:
  Socket(Reactor& reactor, Fd socket, Descriptors descriptors)
      : reactor_{reactor}, socket_{std::move(socket)}, reader_{descriptors == Descriptors::kAccepted} {}

  void start(const std::shared_ptr<Handler>& handler) override {
    handler_ = handler;
    const std::lock_guard lock{send_mutex_};
    reactor_.watch(socket_.get(), EPOLLIN, shared_from_this());
    // Frames that were sent before may have filled the socket. Its events could not be watched then.
    if (blocked_) reactor_.change(socket_.get(), EPOLLIN | EPOLLOUT);
  }

  bool send(FrameHeader header, std::span<const std::byte> payload, std::vector<Fd> descriptors) override {
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    PHAROS_CHECK(descriptors.size() <= FrameReader::kDescriptorsMax, descriptors.size());
    const std::lock_guard lock{send_mutex_};
    if (closed_.load(std::memory_order_relaxed) || given_up_) return false;
    if (payload.size() > wire::kCallPayloadMax.bytes()) {
      give_up({ErrorCode::kInvalidArgument, "a payload of " + to_string(ByteCount{payload.size()}) +
                                                " cannot be sent; at most " + to_string(wire::kCallPayloadMax) +
                                                " are allowed"});
      return false;
    }
    if (queued_.load(std::memory_order_relaxed) > 2 * kQueuedMax) {
      give_up({ErrorCode::kOverloaded, "the peer does not read: " + to_string(ByteCount{queued()}) + " are queued"});
      return false;
    }
    if (!descriptors.empty()) attachments_.push_back({waiting_.size(), std::move(descriptors)});
    const auto* const bytes = reinterpret_cast<const std::byte*>(&header);
    waiting_.insert(waiting_.end(), bytes, bytes + sizeof header);
    waiting_.insert(waiting_.end(), payload.begin(), payload.end());
    const std::size_t added = sizeof header + payload.size();
    if (queued_.fetch_add(added, std::memory_order_relaxed) + added > kQueuedMax) over_full_.store(true);
    return true;
  }

  void flush() override {
    do {
      std::unique_lock lock{send_mutex_};
      if (writing_ || waiting_.empty()) return;
      writing_ = true;
      write_out(lock);
    } while (tell_of_room());
  }

  std::size_t queued() const override { return queued_.load(std::memory_order_relaxed); }

  void wait_for_room(std::size_t queued_max, async::Deadline deadline) override {
    if (queued() <= queued_max) return;
    const void* const left_callback = reactor_.begin_detour();
    wait_until_written(queued_max, deadline);
    reactor_.end_detour(left_callback);
  }
  void wait_until_written(std::size_t queued_max, async::Deadline deadline) {
    while (queued() > queued_max && !closed_.load(std::memory_order_relaxed)) {
      const Duration left = deadline.left(reactor_.now());
      if (left == Duration::zero()) return;
      constexpr Duration kLookAgain = std::chrono::milliseconds{50};
      pollfd waited{.fd = socket_.get(), .events = POLLOUT, .revents = 0};
      ::poll(&waited, 1,
             static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(std::min(left, kLookAgain)).count()));
      continue_writing();
      flush();
    }
  }

  void close() override {
    if (closed_.exchange(true)) return;
    let_go();
  }

  void drop() override {
    close();
    // For TCP this discards the bytes that the kernel has not sent or would send again. A Unix socket has delivered all
    // bytes already.
    sockaddr none{};
    none.sa_family = AF_UNSPEC;
    [[maybe_unused]] const int dropped = ::connect(socket_.get(), &none, sizeof none);
  }

  void resume() override {
    if (more_.exchange(false)) on_ready(EPOLLIN);
  }

  void on_ready(std::uint32_t events) override {
    if ((events & EPOLLOUT) != 0) continue_writing();
    if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) return;
    if ((events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0) ended_.store(true);
    const auto handler = handler_.lock();
    if (handler == nullptr) return close();
    const auto keep = shared_from_this();
    for (;;) {
      if (!handler->wants_more()) {
        more_.store(true);  // makes resume() continue reading
        // The handler is asked again, because it may have caught up and called resume() before `more_` was set.
        if (!handler->wants_more() || !more_.exchange(false)) return;
      }
      if (edges_.fetch_add(1) != 0) return;
      const Read outcome = read_edges(*handler);
      if (outcome == Read::kClosed) return;
      if (outcome != Read::kNothing) handler->on_idle();
      // Bytes may be left in the socket, because on_idle() came first. This thread reads them unless another thread has
      // taken `more_` and does so.
      if (!more_.exchange(false)) return;
    }
  }

 private:
  enum class Read : std::uint8_t { kNothing, kDrained, kMore, kClosed };
  struct Attachment {
    std::size_t offset;  // of the frame's first byte, in the buffer in which the frame is queued
    std::vector<Fd> descriptors;
  };

  // Reads, as the only reader, until the socket is drained, bytes may be left after a delivery, or the handler wants no
  // more.
  Read read_edges(Handler& handler) {
    bool delivered = false;
    for (;;) {
      std::uint32_t seen = edges_.load();
      const Read outcome = read_some(handler);
      if (outcome == Read::kClosed) return outcome;  // edges_ stays above 0, so that no thread reads again
      delivered = delivered || outcome != Read::kNothing;
      if (outcome == Read::kMore || !handler.wants_more()) {
        // edges_ first: a resume() that took `more_` while this thread still counts as the reader would be lost.
        edges_.store(0);
        more_.store(true);
        return Read::kMore;
      }
      if (edges_.compare_exchange_strong(seen, 0)) return delivered ? Read::kDrained : Read::kNothing;
    }
  }

  Read read_some(Handler& handler) {
    if (closed_.load(std::memory_order_relaxed)) return Read::kClosed;
    const auto [n, had_room_left] = reader_.receive(socket_.get());
    if (n < 0) {
      if (errno == EAGAIN) return Read::kNothing;
      return fail(handler, Error::from_errno("reading from the peer", errno));
    }
    if (n == 0) return fail(handler, Error{ErrorCode::kUnavailable, "the peer closed the connection"});
    // A short read has drained the socket, so another read is not needed, with two exceptions. Where descriptors
    // travel, a read also ends in front of the next descriptors. And when the peer has ended the stream, the end must
    // be read too, because its event comes only once.
    const bool more = !had_room_left || reader_.accepts_descriptors() || ended_.load();
    if (auto error = reader_.deliver(handler)) return fail(handler, std::move(*error));
    return more ? Read::kMore : Read::kDrained;
  }

  Read fail(Handler& handler, Error why) {
    if (!closed_.exchange(true)) {
      let_go();
      {
        const std::lock_guard lock{send_mutex_};
        if (given_up_) why = *given_up_;
      }
      handler.on_closed(std::move(why));
    }
    return Read::kClosed;
  }

  void let_go() {
    reactor_.unwatch(socket_.get());
    ::shutdown(socket_.get(), SHUT_RDWR);  // the peer sees the end at once, even while this object is still shared
  }

  // Called with send_mutex_ held. Nothing more is sent, and the reader finds the end of the stream and passes `why` to
  // the handler.
  void give_up(Error why) {
    if (!given_up_) given_up_ = std::move(why);
    ::shutdown(socket_.get(), SHUT_RDWR);
  }

  void continue_writing() {
    {
      std::unique_lock lock{send_mutex_};
      if (!blocked_) return;
      blocked_ = false;
      reactor_.change(socket_.get(), EPOLLIN);
      write_out(lock);
    }
    if (tell_of_room()) flush();
  }

  // Called without locks. Returns true if the handler was told, and may have sent more.
  bool tell_of_room() {
    if (!over_full_.load(std::memory_order_relaxed)) return false;
    {
      // Checked and cleared under one lock: a sender that fills the queue afterwards sets the flag again, and the
      // handler is told again.
      const std::lock_guard lock{send_mutex_};
      if (!over_full_ || queued() > kQueuedMax) return false;
      over_full_ = false;
    }
    const auto handler = handler_.lock();
    if (handler == nullptr || closed_.load(std::memory_order_relaxed)) return false;
    handler->on_room();
    return true;
  }

  // Called with writing_ set by this thread. Writes until the queue is empty or the peer accepts no more.
  void write_out(std::unique_lock<Mutex>& lock) {
    for (;;) {
      if (written_ == writing_out_.size()) {
        writing_out_.clear();
        // The memory of a burst is freed when the burst is over.
        if (writing_out_.capacity() > kKeptBytes) writing_out_.shrink_to_fit();
        written_ = 0;
        if (waiting_.empty() || closed_.load(std::memory_order_relaxed)) {
          writing_ = false;
          return;
        }
        writing_out_.swap(waiting_);
        attachments_out_.swap(attachments_);
      }
      lock.unlock();
      const ssize_t n = write_some();
      const int why = errno;
      lock.lock();
      if (n >= 0) {
        written_ += static_cast<std::size_t>(n);
        queued_.fetch_sub(static_cast<std::size_t>(n), std::memory_order_relaxed);
        continue;
      }
      if (why == EINTR) continue;
      if (why == EAGAIN) {
        blocked_ = true;
        reactor_.change(socket_.get(), EPOLLIN | EPOLLOUT);
        return;
      }
      // If the peer is gone, this is not the error to report: the reader sees the end too, after the bytes that the
      // peer has sent.
      if (why != EPIPE && why != ECONNRESET) give_up(Error::from_errno("writing to the peer", why));
      writing_out_.clear();
      attachments_out_.clear();
      waiting_.clear();
      attachments_.clear();
      written_ = 0;
      queued_.store(0, std::memory_order_relaxed);
      writing_ = false;
      return;
    }
  }

  ssize_t write_some() {
    std::size_t end = writing_out_.size();
    Attachment* attached = nullptr;
    if (!attachments_out_.empty()) {
      Attachment& next = attachments_out_.front();
      if (next.offset > written_) {
        end = next.offset;
      } else {
        attached = &next;
        if (attachments_out_.size() > 1) end = attachments_out_[1].offset;
      }
    }
    if (attached == nullptr)
      return send_bytes(socket_.get(), writing_out_.data() + written_, end - written_, kSendFlags);

    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * FrameReader::kDescriptorsMax)] = {};
    iovec part{.iov_base = writing_out_.data() + written_, .iov_len = end - written_};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    const std::size_t count = attached->descriptors.size();
    message.msg_controllen = CMSG_SPACE(sizeof(int) * count);
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int) * count);
    for (std::size_t i = 0; i < count; ++i) {
      const int fd = attached->descriptors[i].get();
      std::memcpy(CMSG_DATA(c) + i * sizeof fd, &fd, sizeof fd);
    }
    const ssize_t n = ::sendmsg(socket_.get(), &message, kSendFlags);
    if (n >= 0) attachments_out_.pop_front();
    return n;
  }

  static constexpr int kSendFlags = MSG_DONTWAIT | MSG_NOSIGNAL;

  Reactor& reactor_;
  const Fd socket_;
  std::weak_ptr<Handler> handler_;
  std::atomic<bool> closed_ = false;  // publishes nothing: later reads and writes only fail, or do nothing

  // The state of reading. Only the reader touches the members that are not atomic.
  std::atomic<std::uint32_t> edges_ = 0;
  std::atomic<bool> more_ = false;
  std::atomic<bool> ended_ = false;  // the peer sends no more: the socket must be read to its end
  FrameReader reader_;

  Mutex send_mutex_;
  std::vector<std::byte> waiting_;
  std::deque<Attachment> attachments_;
  std::optional<Error> given_up_;
  bool writing_ = false;  // a thread is the writer; the buffers "_out_" and written_ below belong to the writer
  bool blocked_ = false;  // the writer waits until the socket accepts more
  std::vector<std::byte> writing_out_;
  std::deque<Attachment> attachments_out_;
  std::size_t written_ = 0;
  std::atomic<std::size_t> queued_ = 0;  // changed under send_mutex_, which orders it; read without it as an estimate
  std::atomic<bool> over_full_ = false;  // more than kQueuedMax was queued; on_room() will be called
};

}  // namespace

std::shared_ptr<SocketLink> SocketLink::make(Reactor& reactor, Fd socket, Descriptors descriptors) {
  return std::make_shared<Socket>(reactor, std::move(socket), descriptors);
}

}  // namespace pharos::net
