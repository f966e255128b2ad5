#include <iterator>

#include <pharos/net/peer.hpp>

namespace pharos::net {
namespace {

using wire::FrameHeader;
using wire::FrameKind;

constexpr std::size_t kUnclaimedMax = 64;

bool is_control(FrameKind kind) {
  return kind == FrameKind::kControl || kind == FrameKind::kRequest || kind == FrameKind::kResponse;
}

Error gone() {
  return {ErrorCode::kUnavailable, "the connection is closed"};
}

}  // namespace

std::shared_ptr<Peer> Peer::make(async::Executor& executor, std::shared_ptr<Link> link, Owner& owner) {
  return std::shared_ptr<Peer>{new Peer{executor, std::move(link), owner}};
}

Result<void> Peer::send_frame(FrameKind kind, std::uint64_t number, const wire::Message& message,
                              std::vector<Fd> descriptors) {
  PHAROS_CHECK(descriptors.size() == wire::descriptors_of(message), wire::name_of(message), descriptors.size());
  FrameHeader header;
  header.kind = kind;
  header.number = number;
  const auto bytes = wire::encode(message);
  if (bytes.size() > wire::kControlPayloadMax.bytes()) {
    return Error{ErrorCode::kInvalidArgument,
                 std::string{wire::name_of(message)} + " has " + to_string(ByteCount{bytes.size()}) +
                     "; a control message has at most " + to_string(wire::kControlPayloadMax)};
  }
  if (!link_->send(header, bytes, std::move(descriptors))) return gone();
  link_->flush();
  return {};
}

bool Peer::send(const wire::Message& message, std::vector<Fd> descriptors) {
  const std::lock_guard lock{told_mutex_};  // held until the frame is queued, so that numbers are sent in order
  return send_frame(FrameKind::kControl, ++last_told_, message, std::move(descriptors)).ok();
}

bool Peer::respond(std::uint64_t request, const wire::Message& message, std::vector<Fd> descriptors) {
  const auto sent = send_frame(FrameKind::kResponse, request, message, std::move(descriptors));
  if (sent || sent.error().code() != ErrorCode::kInvalidArgument) return sent.ok();
  return respond(request, sent.error());
}

async::Async<Result<Parcel>> Peer::request(wire::Message message, std::vector<Fd> descriptors,
                                           async::Deadline deadline) {
  if (owner_ == nullptr) co_return gone().with_outcome(Outcome::kNotStarted);
  const std::uint64_t number = ++last_number_;
  async::Completion<Parcel> completion;
  waiting_.emplace(number, completion);
  auto sent = send_frame(FrameKind::kRequest, number, message, std::move(descriptors));
  if (!sent && sent.error().code() == ErrorCode::kInvalidArgument) {
    waiting_.erase(number);
    co_return std::move(sent).error().with_outcome(Outcome::kNotStarted);
  }
  // Even if the link has ended and the send failed, this coroutine waits, so that the owner is told of the end first.
  auto parcel = co_await wait_for_response(shared_from_this(), number, std::move(completion), deadline);
  if (!sent && !parcel) co_return std::move(parcel).error().with_outcome(Outcome::kNotStarted);
  co_return parcel;
}

async::Async<Result<Parcel>> Peer::wait_for_response(std::shared_ptr<Peer> peer, std::uint64_t number,
                                                     async::Completion<Parcel> completion, async::Deadline deadline) {
  auto parcel = co_await completion.wait(deadline);
  peer->waiting_.erase(number);
  if (!parcel) co_return std::move(parcel).error().with_outcome(Outcome::kUnknown);
  if (auto* const failure = std::get_if<wire::Failure>(&parcel->message)) co_return std::move(failure->error);
  co_return std::move(parcel);
}

void Peer::on_frames(FrameBatch frames, std::vector<Fd> descriptors) {
  std::move(descriptors.begin(), descriptors.end(), std::back_inserter(unclaimed_));
  while (!frames.empty()) {
    const wire::FrameView frame = frames.next();
    auto message = is_control(frame.header.kind)
                       ? wire::decode(frame.payload)
                       : Error{ErrorCode::kCorrupt, "received a call on a connection for control messages"};
    const std::size_t count = message ? wire::descriptors_of(*message) : 0;
    if (message && count > unclaimed_.size()) {
      message = Error{ErrorCode::kCorrupt, "received a message without the descriptors that belong to it"};
    }
    if (!message) {
      link_->close();
      return on_closed(std::move(message).error());
    }
    Parcel parcel{*std::move(message), {}};
    const auto end = unclaimed_.begin() + static_cast<std::ptrdiff_t>(count);
    std::move(unclaimed_.begin(), end, std::back_inserter(parcel.descriptors));
    unclaimed_.erase(unclaimed_.begin(), end);
    untaken_bytes_.fetch_add(frame.payload.size());
    executor_.post([self = shared_from_this(), header = frame.header, parcel = std::move(parcel)]() mutable {
      self->take(header, std::move(parcel));
      const std::size_t before = self->untaken_bytes_.fetch_sub(header.payload_bytes);
      if (before >= kUntakenMax && before - header.payload_bytes < kUntakenMax) self->link_->resume();
    });
  }
  // The descriptors that are left may belong to a frame that has not arrived completely, but one frame has no more than
  // kUnclaimedMax of them.
  if (unclaimed_.size() > kUnclaimedMax) {
    link_->close();
    on_closed(Error{ErrorCode::kCorrupt, "received file descriptors that belong to no message"});
  }
}

void Peer::take(FrameHeader header, Parcel parcel) {
  if (owner_ == nullptr) return;
  if (header.kind == FrameKind::kResponse) {
    // If the request has given up, its answer is dropped.
    if (const auto found = waiting_.find(header.number); found != waiting_.end()) {
      found->second.complete(std::move(parcel));
    }
    return;
  }
  const bool asks = header.kind == FrameKind::kRequest;
  std::uint64_t& heard = asks ? last_request_heard_ : last_told_heard_;
  if (header.number <= heard) return;
  heard = header.number;
  owner_->on_message(*this, std::move(parcel), asks ? std::optional{header.number} : std::nullopt);
}

void Peer::on_closed(Error why) {
  executor_.post([self = shared_from_this(), why = std::move(why)] {
    Owner* const owner = self->owner_;
    self->end(why);
    if (owner != nullptr) owner->on_peer_closed(*self, why);
  });
}

void Peer::close() {
  link_->close();
  end(gone());
}

void Peer::end(const Error& why) {
  owner_ = nullptr;
  for (auto& [number, completion] : waiting_) completion.fail(why);
}

}  // namespace pharos::net
