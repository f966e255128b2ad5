#include "daemon/head_elsewhere.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/base/random.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

constexpr auto kBeatTime = 1s;
constexpr auto kJoinPause = 100ms;
constexpr auto kRejoinTime = 5s;
constexpr Duration kFirstPause = 50ms;  // before the head is looked for again
constexpr Duration kLongestPause = 500ms;
// If the connection ends after so much silence, the network has ended it, and not the head's process.
constexpr auto kQuietTime = 5s;
// A head without records takes no node back that was silent for longer than 70 s, and after a restart it takes back no
// node at all. So it is useless to look for such a head for longer.
constexpr Duration kAwayMaxWithoutRecords = 90s;

/// Varies a pause at random, so that a thousand nodes do not come back at the same moment.
Duration about(Duration pause) {
  return pause / 2 + Duration{static_cast<std::int64_t>(random_u64() % static_cast<std::uint64_t>(pause.count()))};
}

}  // namespace

HeadElsewhere::HeadElsewhere(async::Executor& executor, Host& host, Settings settings, Listener& listener)
    : executor_{executor}, host_{host}, settings_{std::move(settings)}, listener_{listener}, background_{executor} {}

void HeadElsewhere::tell(wire::Message message) {
  if (Session::belongs(message)) {
    session_.send(std::move(message));
  } else if (link_ != nullptr && state_ != State::kComingBack) {
    link_->send(message);
  }
}

std::optional<std::size_t> HeadElsewhere::queued() const {
  if (link_ == nullptr || state_ == State::kComingBack) return std::nullopt;
  return link_->queued();
}

// ---- Joining

void HeadElsewhere::connect(Fd socket) {
  if (link_ != nullptr) link_->close();
  const auto link = host_.make_link(std::move(socket), net::Descriptors::kRefused);
  link_ = net::Peer::make(executor_, link, *this);
  link->start(link_);
}

async::Async<Result<wire::ClusterJoined>> HeadElsewhere::ask_to_join(Fd socket, bool again, async::Deadline deadline) {
  connect(std::move(socket));
  const auto link = link_;
  if (!again) {
    session_ = Session{};
    session_.begin(link);
  }
  const wire::Beat asked{executor_.now()};
  const std::uint64_t heard_before = session_.received();
  wire::Message ask = wire::JoinCluster{.node = settings_.node,
                                        .address = reached_at_,
                                        .amounts = settings_.machine.resources.amounts(),
                                        .labels = settings_.machine.labels,
                                        .again = again,
                                        .session = session_.number(),
                                        .heard = heard_before};
  PHAROS_CO_TRY(const net::Parcel answer, co_await link->request(std::move(ask), std::vector<Fd>{}, deadline));
  const auto* const joined = std::get_if<wire::ClusterJoined>(&answer.message);
  if (joined == nullptr)
    co_return Error{ErrorCode::kInternal, "the head sent an invalid answer to the request to join"};
  if (joined->resumed && !session_.can_resume(joined->heard)) {
    session_ = Session{};  // so that the head gives this node up at the next attempt
    co_return Error{ErrorCode::kExhausted, "this node has sent more messages than it can keep while the head was away"};
  }
  if (!joined->lost) listener_.on_beat(asked);
  if (!joined->lost) go_on_with(*joined, heard_before);
  spoke_ = executor_.now();
  tick_later();
  co_return *joined;
}

/// The head has taken this node. If the connection has ended since, nothing goes on yet. Messages that came after the
/// answer have been counted already, so a new session begins with that count. Nothing is said between the end of the
/// old session and the reports with which the new one begins.
void HeadElsewhere::go_on_with(const wire::ClusterJoined& joined, std::uint64_t heard_before) {
  if (joined.resumed) {
    if (link_ == nullptr) return;
    session_.resume(link_, joined.heard);
    return note_back();
  }
  lasts_ = joined.lasts;
  if (state_ != State::kComingBack) return session_.set_number(joined.session);
  const std::uint64_t heard = session_.received() - heard_before;
  session_ = Session{link_ == nullptr ? 0 : joined.session};
  if (link_ == nullptr) return;
  for (std::uint64_t i = 0; i < heard; ++i) session_.note_received();
  session_.begin(link_);
  note_back();
  listener_.on_joined_again(joined);
}

void HeadElsewhere::note_back() {
  state_ = State::kJoined;
  ++returns_;
}

async::Async<Result<void>> HeadElsewhere::join(ReachedAt reached_at, async::Deadline deadline) {
  for (;;) {
    auto joined = co_await try_to_join(reached_at, deadline);
    if (joined || joined.error().code() != ErrorCode::kUnavailable) co_return joined;
    const auto slept = co_await async::sleep(kJoinPause);
    if (!slept || deadline.expired(executor_.now() + kJoinPause)) co_return joined;
  }
}

async::Async<Result<void>> HeadElsewhere::try_to_join(ReachedAt reached_at, async::Deadline deadline) {
  const Introduction introduction{.purpose = Introduction::Purpose::kJoin};
  PHAROS_CO_TRY(Fd socket, co_await host_.reach(settings_.address, introduction, deadline));
  PHAROS_CO_TRY(reached_at_, reached_at(socket.get()));
  PHAROS_CO_TRY(const auto cluster, co_await ask_to_join(std::move(socket), false, deadline));
  state_ = State::kJoined;
  listener_.on_joined(cluster);
  // The connection may have ended since.
  if (link_ == nullptr) lose(Error{ErrorCode::kUnavailable, "the head has ended"});
  co_return {};
}

// ---- A head that is gone

void HeadElsewhere::lose(const Error& why) {
  link_.reset();
  session_.pause();
  if (state_ != State::kJoined) return;
  state_ = State::kComingBack;
  // A head without records that was heard just now has ended for good. Otherwise a head may still be there.
  const TimePoint now = executor_.now();
  const bool may_be_there = lasts_ || now - spoke_ >= kQuietTime || now < after_silence_;
  if (!may_be_there) return listener_.on_head_lost(why);
  background_.spawn(come_back(why));
}

/// A message has come from the head. It may have been sent before a cut of the network, or while this process was
/// stopped, and the connection may end just after it. So a silence before it still counts for some seconds.
void HeadElsewhere::note_spoke() {
  const TimePoint now = executor_.now();
  if (state_ != State::kNotJoined && now - spoke_ >= kQuietTime) after_silence_ = now + kQuietTime;
  spoke_ = now;
}

async::Async<void> HeadElsewhere::come_back(Error why) {
  const std::string& head = settings_.address;
  log(LogLevel::kWarn, "the head is gone, and is looked for again", {kv("head", head), kv("error", why)});
  const TimePoint since = executor_.now();
  const Duration longest = settings_.away_max;
  const Duration away_max = lasts_ ? longest : std::min(longest, kAwayMaxWithoutRecords);
  for (Duration pause = kFirstPause; executor_.now() - since < away_max; pause = std::min(2 * pause, kLongestPause)) {
    const auto slept = co_await async::sleep(about(pause));
    if (!slept) co_return;
    const auto deadline = async::Deadline::after(kRejoinTime, executor_.now());
    const Introduction introduction{.purpose = Introduction::Purpose::kJoin};
    auto socket = co_await host_.reach(head, introduction, deadline);
    if (!socket) {
      why = std::move(socket).error();
      continue;
    }
    const std::uint64_t returns_before = returns_;
    // A head that starts has much to do, perhaps on a slow disk. So the answer has all the time that is left; only the
    // end of the connection ends the attempt before.
    const auto patience = async::Deadline::after(away_max - (executor_.now() - since), executor_.now());
    const auto joined = co_await ask_to_join(*std::move(socket), true, patience);
    if (!joined) {
      if (joined.error().code() == ErrorCode::kCancelled) co_return;
      why = joined.error();
      continue;
    }
    if (joined->lost) {
      listener_.on_given_up();
      co_return;
    }
    if (returns_ == returns_before) continue;
    log(LogLevel::kInfo, "the head is back", {kv("head", head)});
    co_return;
  }
  listener_.on_head_lost(why);
}

// ---- Messages

void HeadElsewhere::tick_later() {
  if (std::exchange(ticks_, true)) return;
  executor_.run_at(executor_.now() + kBeatTime, [this, life = std::weak_ptr<void>{life_}] {
    if (life.expired()) return;
    ticks_ = false;
    tick();
  });
}

void HeadElsewhere::tick() {
  if (closing_ || state_ == State::kNotJoined || link_ == nullptr) return;
  link_->send(wire::Beat{executor_.now(), state_ == State::kComingBack ? 0 : session_.received()});
  tick_later();
}

void HeadElsewhere::on_message(net::Peer& from, net::Parcel parcel, std::optional<std::uint64_t>) {
  if (&from != link_.get()) return;
  note_spoke();
  if (const auto* const beat = std::get_if<wire::Beat>(&parcel.message)) {
    if (state_ != State::kComingBack) session_.confirm(beat->heard);
    return listener_.on_beat(*beat);
  }
  if (Session::belongs(parcel.message)) session_.note_received();
  listener_.on_head_message(std::move(parcel.message));
}

void HeadElsewhere::on_peer_closed(net::Peer& peer, const Error& why) {
  if (&peer == link_.get()) lose(why);
}

void HeadElsewhere::close() {
  closing_ = true;
  background_.cancel();
  if (link_ != nullptr) link_->close();
}

}  // namespace pharos::node
