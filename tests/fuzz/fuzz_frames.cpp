// A peer sends arbitrary bytes through a link. The frames that come out must be a prefix of the sent bytes, and the
// link must end exactly once. The first byte sets the size of the pieces in which the bytes are sent.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <pharos/base/check.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/net/socket_link.hpp>

namespace {

using namespace pharos;

constexpr std::size_t kInputMax = 64 << 10;  // as many bytes as a socket accepts at once

class Listener : public net::Link::Handler {
 public:
  void on_frames(net::FrameBatch frames, std::vector<Fd> descriptors) override {
    PHAROS_CHECK(closed_ == 0 && descriptors.empty() && !frames.empty());
    while (!frames.empty()) {
      const wire::FrameView frame = frames.next();
      PHAROS_CHECK(wire::check(frame.header).ok());
      PHAROS_CHECK(frame.payload.size() == frame.header.payload_bytes);
      received_.insert(received_.end(), std::as_bytes(std::span{&frame.header, 1}).begin(),
                       std::as_bytes(std::span{&frame.header, 1}).end());
      received_.insert(received_.end(), frame.payload.begin(), frame.payload.end());
    }
  }
  void on_closed(Error) override { ++closed_; }

  int closed() const { return closed_; }
  std::span<const std::byte> received() const { return received_; }

 private:
  std::vector<std::byte> received_;
  int closed_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0 || size > kInputMax) return 0;
  const std::size_t piece = std::size_t{data[0]} * 16 + 1;
  const auto bytes = std::as_bytes(std::span{data, size}).subspan(1);

  net::Reactor reactor;
  auto ends = *net::socket_pair();
  const auto listener = std::make_shared<Listener>();
  const auto link = net::SocketLink::make(reactor, std::move(ends.first), net::Descriptors::kRefused);
  link->start(listener);
  const auto deadline = async::Deadline::after(std::chrono::seconds{3}, reactor);
  const auto at_once = async::Deadline::at(reactor.now());
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    if (!net::send_all(ends.second.get(), bytes.subspan(at, std::min(piece, bytes.size() - at)), deadline)) break;
    reactor.poll_one(at_once);
  }
  ends.second.reset();
  while (listener->closed() == 0 && !deadline.expired(reactor.now())) reactor.poll_one(deadline);
  PHAROS_CHECK(listener->closed() == 1);
  const auto received = listener->received();
  PHAROS_CHECK(received.size() <= bytes.size());
  PHAROS_CHECK(std::equal(received.begin(), received.end(), bytes.begin()));
  return 0;
}
