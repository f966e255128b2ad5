#include "stream/stream_backend.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <limits>
#include <new>
#include <utility>

#include <pharos/ml/collective/failpoints.hpp>

#include "reduce/kernels.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;
using MessageKind = StreamMessage::Kind;

constexpr std::uint64_t kAheadMax = 1 << 16;  // by how many operations another rank may be ahead of this one
constexpr std::uint64_t kWakes = ~std::uint64_t{0};
constexpr Duration kFarewellTime = 200ms;  // for the last messages before the connections are closed
constexpr Duration kAskTime = 250ms;       // a rank that does not answer in this time is stopped, cut off or too busy
constexpr int kAskTimes = 2;               // messages on their way at the first time have come at the second
constexpr std::size_t kMemoryAlignment = 64;

std::string who(std::uint32_t rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace

struct StreamBackend::Running final : detail::Work {
  Running(Among among_given, const Team& team_given, const Order& order_given, const detail::Step& step,
          const detail::Places& places, Rooms& rooms)
      : among{among_given},
        team{team_given},
        order{order_given},
        operation{step.of},
        plan{step.operation, places, team.own, static_cast<std::uint32_t>(team.ranks.size()), rooms} {}

  std::string describe() const { return to_string(operation) + ", operation " + std::to_string(order.number) + ','; }
  bool is_begun_by(std::uint32_t rank) const {
    const auto place = team.place_of(rank);
    return !place || plan.is_begun_by(*place);
  }

  const Among among;
  const Team& team;
  const Order order;
  const Operation operation;  // the operation on which its ranks agree
  StreamPlan plan;            // its ranks are places in the team
  bool ended = false;         // under the mutex

  /// Floats that travel as bfloat16. The owner's thread converts them before the operation and after it.
  struct Shortened {
    Rooms& rooms;
    Room from;
    Room to;
    std::span<float> result;

    ~Shortened() {
      rooms.give_back(std::move(from));
      rooms.give_back(std::move(to));
    }
    void lengthen() const { ml::lengthen(reinterpret_cast<const BFloat16*>(to.data()), result.data(), result.size()); }
  };
  std::unique_ptr<Shortened> shortened{};
  /// Called by the owner's thread once the operation has ended.
  void take_result() {
    if (const auto its = std::exchange(shortened, nullptr)) its->lengthen();
  }
};

std::optional<std::uint32_t> StreamBackend::Team::place_of(std::uint32_t rank) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end()) return std::nullopt;
  return static_cast<std::uint32_t>(found - ranks.begin());
}

/// Handles the messages of another rank.
class StreamBackend::FromRank final : public Stream::Receiver {
 public:
  FromRank(StreamBackend& backend, std::uint32_t rank, std::uint32_t stream)
      : backend_{backend}, rank_{rank}, stream_{stream} {}

  Result<std::byte*> place(const StreamMessage& message) override {
    if (backend_.failing_) return Error{ErrorCode::kCancelled, "this rank fails"};
    if (message.kind == MessageKind::kBegun) {
      PHAROS_TRY_VOID(backend_.begun_by(rank_, message.among, message.number, message.operation));
    }
    if (message.is_failure()) {
      text_.resize(message.bytes);
      return reinterpret_cast<std::byte*>(text_.data());
    }
    if (message.kind != MessageKind::kData) return nullptr;
    const auto running = backend_.find(order_of(message));
    const auto from = running == nullptr ? std::nullopt : running->team.place_of(rank_);
    std::byte* const place = from ? running->plan.place(*from, message.tag, message.bytes) : nullptr;
    if (place == nullptr) return Error{ErrorCode::kCorrupt, "it sent data that no operation waits for"};
    return place;
  }
  void came(const StreamMessage& message) override {
    if (message.kind == MessageKind::kLeft) return backend_.left_by(rank_, stream_);
    if (message.kind == MessageKind::kAsk) return backend_.answer(rank_);
    if (message.kind == MessageKind::kAnswer) return backend_.answered(rank_, message.tag);
    if (message.is_failure()) return backend_.give_up(error_of(message.tag, text_));
    if (message.kind != MessageKind::kData) return;
    const auto running = backend_.find(order_of(message));
    if (running == nullptr) return;
    failpoint(failpoints::kPartCame);
    running->plan.came(*running->team.place_of(rank_), message.tag,
                       [&](const StreamPlan::Chunk& chunk) { backend_.send(*running, chunk); });
    backend_.end_if_done(*running);
  }

 private:
  Order order_of(const StreamMessage& message) const {
    switch (message.among) {
      case Among::kAll: return {0, message.number};
      case Among::kLane: return {backend_.lane_row(), message.number};
      case Among::kTwo: return {row_from(rank_), message.number};
    }
    return {};
  }

  StreamBackend& backend_;
  const std::uint32_t rank_;
  const std::uint32_t stream_;
  std::string text_;
};

struct StreamBackend::Peer {
  std::array<std::optional<Stream>, kStreams> streams;
  std::array<std::unique_ptr<FromRank>, kStreams> receivers;
  std::array<bool, kStreams> waits_to_write{};
  std::map<Order, Operation> begun;   // operations that it has begun before this rank
  std::array<bool, kStreams> left{};  // by stream: kLeft has come there, and nothing comes after it
  bool is_answered = false;           // an answer to it has not been sent yet: another kAsk gets no second one
};

// ---- Making

Result<std::unique_ptr<StreamBackend>> StreamBackend::make(const Fd& listener,
                                                           const std::vector<std::string>& addresses,
                                                           const net::Key& key, std::uint32_t rank,
                                                           const CommunicatorOptions& options,
                                                           const StreamSteps& steps) {
  PHAROS_TRY(auto connections, connect_ranks(listener, addresses, key, rank, kStreams, Deadline::in(options.timeout)));
  std::unique_ptr<StreamBackend> backend{new StreamBackend{rank, std::move(connections), options, steps}};
  PHAROS_TRY_VOID(backend->start());
  return backend;
}

StreamBackend::StreamBackend(std::uint32_t rank, Connections connections, const CommunicatorOptions& options,
                             const StreamSteps& steps)
    : rank_{rank},
      ranks_{static_cast<std::uint32_t>(connections.size())},
      shortens_{options.bf16_over_tcp},
      heard_{steps.heard},
      wake_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)},
      events_{::epoll_create1(EPOLL_CLOEXEC)},
      peers_(connections.size()),
      pace_{options.bytes_per_second},
      begun_(2 + 2 * ranks_),
      last_(2 + 2 * ranks_) {
  lane_.ranks = steps.lane;
  lane_.own = lane_.place_of(rank_).value_or(0);
  all_.own = rank_;
  for (std::uint32_t each = 0; each < ranks_; ++each) {
    all_.ranks.push_back(each);
    if (each == rank_) continue;
    peers_[each] = std::make_unique<Peer>();
    for (std::size_t i = 0; i < kStreams; ++i) {
      peers_[each]->streams[i].emplace(std::move(connections[each][i]), bytes_sent_);
    }
  }
}

Result<void> StreamBackend::start() {
  if (!wake_ || !events_) return Error::from_errno("creating the eventfd and the epoll of a communicator", errno);
  const auto watch = [&](int descriptor, std::uint64_t data) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u64 = data;
    return ::epoll_ctl(events_.get(), EPOLL_CTL_ADD, descriptor, &event) == 0;
  };
  bool all = watch(wake_.get(), kWakes);
  for (std::uint32_t rank = 0; rank < ranks_; ++rank) {
    for (std::uint32_t stream = 0; peers_[rank] && stream < kStreams; ++stream) {
      Peer& peer = *peers_[rank];
      peer.receivers[stream] = std::make_unique<FromRank>(*this, rank, stream);
      all = all && watch(peer.streams[stream]->descriptor(), rank * kStreams + stream);
    }
  }
  if (!all) return Error::from_errno("waiting for other ranks", errno);
  thread_ = std::thread{[this] { run(); }};
  return {};
}

StreamBackend::~StreamBackend() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock{mutex_};
    closes_ = true;
  }
  changed_.notify_all();
  ::eventfd_write(wake_.get(), 1);
  thread_.join();
}

// ---- Requests of the owner

std::shared_ptr<detail::Work> StreamBackend::begin(Among among, const detail::Step& step,
                                                   const detail::Places& places) {
  auto running = make_running(among, step, places);
  running->ended = running->plan.ended();  // true at once if there is only one rank
  if (running->ended) {
    running->take_result();
    return running;
  }
  {
    const std::lock_guard lock{mutex_};
    if (!failed_) new_.push_back(running);
  }
  ::eventfd_write(wake_.get(), 1);
  return running;
}

std::shared_ptr<StreamBackend::Running> StreamBackend::make_running(Among among, const detail::Step& step,
                                                                    const detail::Places& places) {
  const Operation& operation = step.operation;
  const Row row = *row_of(among, operation, operation.root == rank_ ? operation.to : operation.root);
  const Order order{row, ++last_[row]};
  const Team& team = among == Among::kLane ? lane_ : all_;
  const bool scatters = operation.kind == Operation::Kind::kReduceScatter;
  const bool reduces = scatters || operation.kind == Operation::Kind::kAllReduce;
  if (!shortens_ || !reduces || operation.dtype != DType::kF32) {
    return std::make_shared<Running>(among, team, order, step, places, rooms_);
  }
  const std::size_t results = scatters ? operation.count / team.ranks.size() : operation.count;
  std::unique_ptr<Running::Shortened> shortened{new Running::Shortened{rooms_,
                                                                       rooms_.take(operation.count * sizeof(BFloat16)),
                                                                       rooms_.take(results * sizeof(BFloat16)),
                                                                       {reinterpret_cast<float*>(places.to), results}}};
  shorten(reinterpret_cast<const float*>(places.from), reinterpret_cast<BFloat16*>(shortened->from.data()),
          operation.count);
  detail::Step shorter = step;
  shorter.operation.dtype = shorter.of.dtype = DType::kBF16;  // so that ranks notice if only some of them convert
  auto running = std::make_shared<Running>(among, team, order, shorter,
                                           detail::Places{shortened->from.data(), shortened->to.data()}, rooms_);
  running->shortened = std::move(shortened);
  return running;
}

Result<bool> StreamBackend::advance(detail::Work& work) {
  auto& running = static_cast<Running&>(work);
  {
    const std::lock_guard lock{mutex_};
    if (!running.ended && failed_) return *failed_;
    if (!running.ended) return false;
  }
  running.take_result();
  return true;
}

Result<void> StreamBackend::finish(detail::Work& work, Duration time) {
  auto& running = static_cast<Running&>(work);
  std::unique_lock lock{mutex_};
  const auto is_over = [&] { return running.ended || failed_.has_value(); };
  waiting_ = Waiting{running.order, {}};
  if (!changed_.wait_until(lock, Deadline::in(time).when(), is_over)) {
    overdue_ = running.describe();
    ::eventfd_write(wake_.get(), 1);
    changed_.wait(lock, is_over);  // The backend's thread makes this true soon: it waits for no rank for long.
  }
  waiting_.reset();
  overdue_.reset();
  if (!running.ended) return *failed_;
  lock.unlock();
  running.take_result();
  return {};
}

void StreamBackend::waits(const detail::Work& work) {
  const std::lock_guard lock{mutex_};
  waiting_ = Waiting{static_cast<const Running&>(work).order, {}};
}
void StreamBackend::waits(WhoIsMissing who) {
  const std::lock_guard lock{mutex_};
  waiting_ = Waiting{std::nullopt, std::move(who)};
}
void StreamBackend::waits_no_more() {
  const std::lock_guard lock{mutex_};
  waiting_.reset();
  overdue_.reset();
}

void StreamBackend::blame(const std::string& what) {
  {
    const std::lock_guard lock{mutex_};
    overdue_ = what;
  }
  ::eventfd_write(wake_.get(), 1);
}

Result<void> StreamBackend::check() {
  if (auto why = failure()) return *std::move(why);
  return {};
}

std::optional<Error> StreamBackend::failure() {
  const std::lock_guard lock{mutex_};
  return failed_;
}

Result<std::byte*> StreamBackend::allocate(std::size_t bytes, Duration time) {
  const auto work = begin({.kind = Operation::Kind::kAllocate, .count = bytes}, {});
  PHAROS_TRY_VOID(finish(*work, time));
  Memory memory{new (std::align_val_t{kMemoryAlignment}, std::nothrow) std::byte[std::max<std::size_t>(bytes, 1)]{}};
  std::byte* const begin = memory.get();
  if (begin == nullptr) {
    const Error why{ErrorCode::kExhausted,
                    "cannot allocate " + std::to_string(bytes) + " bytes of memory on " + who(rank_)};
    fail(why);
    return why;
  }
  memory_.emplace(begin, std::move(memory));
  return begin;
}

void StreamBackend::FreeAligned::operator()(std::byte* memory) const {
  ::operator delete[](memory, std::align_val_t{kMemoryAlignment});
}

void StreamBackend::free(std::byte* memory) {
  memory_.erase(memory);
}

void StreamBackend::fail(const Error& why) {
  {
    const std::lock_guard lock{mutex_};
    if (!asked_to_fail_) asked_to_fail_ = why;
  }
  ::eventfd_write(wake_.get(), 1);
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return failed_.has_value(); });
}

// ---- The backend's thread

void StreamBackend::run() {
  while (take_requests()) {
    write_all();
    if (!failing_) serve_sockets();
    if (failing_) end_failed();
  }
  for_streams([](Peer&, Stream& stream) { stream.send({.kind = MessageKind::kLeft}, nullptr); });
  say_farewell();
}

/// Returns false when the backend is being destroyed.
bool StreamBackend::take_requests() {
  std::deque<std::shared_ptr<Running>> begun;
  std::optional<Error> fails;
  std::optional<std::string> overdue;
  {
    const std::lock_guard lock{mutex_};
    if (closes_) return false;
    begun = std::exchange(new_, {});
    fails = asked_to_fail_;
    overdue = overdue_;
  }
  for (const auto& running : begun) {
    if (!failing_) begin_here(running);
  }
  if (fails) give_up(*fails);
  if (!overdue) {
    inquiry_.reset();
  } else if (!inquiry_) {
    inquiry_ = Inquiry{.what = *overdue};
    inquire();
  } else if (std::chrono::steady_clock::now() >= inquiry_->until) {
    inquiry_->times < kAskTimes ? inquire() : conclude();
  }
  return true;
}

// ---- The search for the rank that holds the others up

std::optional<std::uint32_t> StreamBackend::missing_here() {
  // The lock is held while `who` runs, because the objects that it uses may be destroyed after waits_no_more().
  const std::lock_guard lock{mutex_};
  if (!waiting_) return std::nullopt;
  if (!waiting_->order) return waiting_->who();
  const auto running = find(*waiting_->order);
  const auto place = running == nullptr ? std::nullopt : running->plan.missing();
  if (!place) return std::nullopt;
  return running->team.ranks[*place];
}

void StreamBackend::inquire() {
  ++inquiry_->times;
  inquiry_->asked.clear();
  inquiry_->until = std::chrono::steady_clock::now() + kAskTime;
  if (const auto missing = missing_here()) suspect(*missing);
}

/// Adds a rank to the chain and asks it. Stops at a rank that is in the chain already: where ranks wait for each other
/// in a circle, any of them may be named.
void StreamBackend::suspect(std::uint32_t rank) {
  std::vector<std::uint32_t>& asked = inquiry_->asked;
  if (rank == rank_ || std::find(asked.begin(), asked.end(), rank) != asked.end()) return;
  asked.push_back(rank);
  if (auto& first = peers_[rank]->streams[0]) first->send({.kind = MessageKind::kAsk}, nullptr);
}

void StreamBackend::answer(std::uint32_t to) {
  Peer& peer = *peers_[to];
  if (peer.is_answered || !peer.streams[0]) return;
  const auto missing = missing_here();
  const StreamMessage message{.kind = MessageKind::kAnswer, .tag = missing ? *missing + 1 : 0};
  peer.is_answered = true;
  peer.streams[0]->send(message, nullptr, [&peer] { peer.is_answered = false; });
}

void StreamBackend::answered(std::uint32_t by, std::uint32_t tag) {
  if (!inquiry_ || inquiry_->asked.empty() || inquiry_->asked.back() != by) return;
  if (tag != 0 && tag <= ranks_) suspect(tag - 1);
}

void StreamBackend::conclude() {
  const auto& [what, asked, until, times] = *inquiry_;
  give_up(Error{
      ErrorCode::kDeadlineExceeded, what + " waits for " + (asked.empty() ? "its data to be sent" : who(asked.back())),
      "Check the process of that rank and the network between the ranks, or raise CommunicatorOptions::timeout."});
}

// ---- Operations

void StreamBackend::begin_here(const std::shared_ptr<Running>& running) {
  const Order& order = running->order;
  begun_[order.row] = order.number;
  running_.emplace(order, running);
  std::vector<std::uint32_t> others;
  for (const std::uint32_t rank : running->team.ranks) {
    if (!running->is_begun_by(rank)) others.push_back(rank);
  }
  for (const std::uint32_t rank : others) {
    const StreamMessage begun{
        .kind = MessageKind::kBegun, .among = running->among, .number = order.number, .operation = running->operation};
    if (auto& first = peers_[rank]->streams[0]) first->send(begun, nullptr);
    failpoint(failpoints::kBeginTold);
  }
  for (const std::uint32_t rank : others) {
    if (const auto early = peers_[rank]->begun.extract(order)) {
      if (const auto same = begun_by(rank, running->among, order.number, early.mapped()); !same)
        lose(rank, same.error());
    } else if (peers_[rank]->left[0]) {
      left_by(rank, 0);
    }
  }
}

/// Returns nullopt for a message that is not between this rank and `other`.
std::optional<StreamBackend::Row> StreamBackend::row_of(Among among, const Operation& operation,
                                                        std::uint32_t other) const {
  if (among == Among::kAll) return 0;
  if (among == Among::kLane) return lane_row();
  if (operation.root == rank_ && operation.to == other) return row_to(other);
  if (operation.root == other && operation.to == rank_) return row_from(other);
  return std::nullopt;
}

std::shared_ptr<StreamBackend::Running> StreamBackend::find(const Order& order) const {
  const auto found = running_.find(order);
  return found == running_.end() ? nullptr : found->second;
}

/// Rule 1 of the class.
Result<void> StreamBackend::begun_by(std::uint32_t rank, Among among, std::uint64_t number,
                                     const Operation& operation) {
  const auto row = row_of(among, operation, rank);
  if (!row || (among == Among::kLane && !lane_.place_of(rank)))
    return Error{ErrorCode::kCorrupt, "it began an operation in which it takes no part"};
  const Order order{*row, number};
  if (number > begun_[*row]) {
    if (number > begun_[*row] + kAheadMax)
      return Error{ErrorCode::kCorrupt, "it began too many operations ahead of this rank"};
    peers_[rank]->begun.emplace(order, operation);
    return {};
  }
  const auto running = find(order);
  if (running == nullptr || running->is_begun_by(rank)) {
    return Error{ErrorCode::kCorrupt, "it began an operation twice"};
  }
  if (running->operation != operation) {
    give_up(disagreement(rank_, running->operation, rank, operation, "as operation " + std::to_string(number)));
    return {};
  }
  running->plan.begun_by(*running->team.place_of(rank), [&](const StreamPlan::Chunk& chunk) { send(*running, chunk); });
  end_if_done(*running);
  return {};
}

/// Rule 2 of the class.
void StreamBackend::send(Running& running, const StreamPlan::Chunk& chunk) {
  auto& stream = peers_[running.team.ranks[chunk.rank]]->streams[chunk.tag % kStreams];
  if (!stream) return;
  const auto sent = [this, order = running.order] {
    const auto still = find(order);
    if (still == nullptr) return;
    still->plan.sent();
    end_if_done(*still);
  };
  const StreamMessage message{.kind = MessageKind::kData,
                              .among = running.among,
                              .tag = chunk.tag,
                              .number = running.order.number,
                              .bytes = chunk.size};
  stream->send(message, chunk.bytes, sent);
  failpoint(failpoints::kPartSent);
}

void StreamBackend::end_if_done(Running& running) {
  if (!running.plan.ended()) return;
  const Order order = running.order;
  {
    const std::lock_guard lock{mutex_};
    running.ended = true;
  }
  tell();
  running_.erase(order);
}

void StreamBackend::tell() {
  changed_.notify_all();
  if (heard_) heard_();
}

template <class F>
void StreamBackend::for_streams(const F& f) {
  for (const auto& peer : peers_) {
    for (std::uint32_t i = 0; peer != nullptr && i < kStreams; ++i) {
      if (peer->streams[i]) f(*peer, *peer->streams[i]);
    }
  }
}

/// Each turn begins with another rank, so that all ranks get a share when bytes_per_second bounds what is sent.
void StreamBackend::write_all() {
  first_to_write_ = (first_to_write_ + 1) % ranks_;
  for (std::uint32_t turn = 0; turn < ranks_; ++turn) {
    const std::uint32_t rank = (first_to_write_ + turn) % ranks_;
    for (std::uint32_t i = 0; peers_[rank] && i < kStreams; ++i) {
      Peer& peer = *peers_[rank];
      auto& stream = peer.streams[i];
      if (!stream) continue;
      const std::size_t may_send = pace_.may_send();
      const auto written = stream->write(may_send);
      if (!written) {
        lose(rank, written.error());
        return;
      }
      pace_.sent(*written);
      const bool waits_to_write = stream->has_to_send() && *written < may_send;
      if (waits_to_write == peer.waits_to_write[i]) continue;
      peer.waits_to_write[i] = waits_to_write;
      epoll_event event{};
      event.events = EPOLLIN | (peer.waits_to_write[i] ? std::uint32_t{EPOLLOUT} : 0U);
      event.data.u64 = rank * kStreams + i;
      ::epoll_ctl(events_.get(), EPOLL_CTL_MOD, stream->descriptor(), &event);
    }
  }
}

void StreamBackend::serve_sockets() {
  std::array<epoll_event, 64> events{};
  bool has_to_send = false;
  if (pace_.is_bounded()) {
    for_streams([&](Peer&, Stream& stream) { has_to_send = has_to_send || stream.has_to_send(); });
  }
  int time = has_to_send ? 1 : -1;
  if (time < 0 && inquiry_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(inquiry_->until - std::chrono::steady_clock::now());
    time = static_cast<int>(std::max<std::chrono::milliseconds::rep>(left.count(), 0));
  }
  const int n = ::epoll_wait(events_.get(), events.data(), static_cast<int>(events.size()), time);
  for (int i = 0; i < n && !failing_; ++i) {
    const epoll_event& event = events[static_cast<std::size_t>(i)];
    if (event.data.u64 == kWakes) {
      eventfd_t times = 0;
      ::eventfd_read(wake_.get(), &times);
      continue;
    }
    const auto rank = static_cast<std::uint32_t>(event.data.u64 / kStreams);
    const auto which = event.data.u64 % kStreams;
    Peer& peer = *peers_[rank];
    if (!peer.streams[which] || (event.events & ~std::uint32_t{EPOLLOUT}) == 0) continue;
    const auto read = peer.streams[which]->read(*peer.receivers[which]);
    if (read) continue;
    if (!peer.left[which]) {
      lose(rank, read.error());
    } else {
      peer.streams[which].reset();
    }
  }
}

void StreamBackend::left_by(std::uint32_t rank, std::uint32_t stream) {
  peers_[rank]->left[stream] = true;
  if (stream != 0) return;  // kBegun comes by the first stream, so only kLeft there says that no more of them come
  for (const auto& [order, running] : running_) {
    if (running->is_begun_by(rank)) continue;
    return give_up(has_left(rank, running->describe()));
  }
}

void StreamBackend::lose(std::uint32_t rank, const Error& why) {
  std::string text = who(rank) + " cannot be reached any more: " + why.message();
  if (why.code() == ErrorCode::kUnavailable) text = who(rank) + " has died: its connection has ended";
  if (!running_.empty()) text += "; " + running_.begin()->second->describe() + " waits for it";
  give_up(Error{ErrorCode::kActorDied, text,
                "Connect the group again without this rank, or with another process in its place."});
}

void StreamBackend::give_up(const Error& why) {
  if (!failing_) failing_ = why;
}

/// Rule 3 of the class. An error that another rank has told is passed on, too: otherwise a rank might see the end of
/// this rank's connection before it hears the error. The owner sees the failure only when all operations are gone, so
/// that nothing uses their memory any more.
void StreamBackend::end_failed() {
  running_.clear();
  for_streams([&](Peer&, Stream& stream) {
    stream.drop_unsent();
    const auto code = static_cast<std::uint32_t>(failing_->code());
    stream.send_text({.kind = MessageKind::kFailed, .tag = code}, told(*failing_));
  });
  say_farewell();
  {
    const std::lock_guard lock{mutex_};
    failed_ = failing_;
  }
  tell();
  // All requests of the owner fail from now on, so there is nothing left to do but to wait for the destructor.
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return closes_; });
}

/// Sends what is queued, as far as the other ranks take it in kFarewellTime, and closes the connections. What other
/// ranks still send is read and dropped: to close a socket with unread bytes would reset the connection, and the other
/// rank could lose what was sent to it.
void StreamBackend::say_farewell() {
  const TimePoint end = std::chrono::steady_clock::now() + kFarewellTime;
  std::vector<std::byte> let_go(64 << 10);
  for (;;) {
    std::vector<pollfd> waited;
    for (const auto& peer : peers_) {
      for (std::uint32_t i = 0; peer != nullptr && i < kStreams; ++i) {
        auto& stream = peer->streams[i];
        if (!stream) continue;
        bool lives = static_cast<bool>(stream->write(std::numeric_limits<std::size_t>::max()));
        if (lives && !stream->has_to_send()) ::shutdown(stream->descriptor(), SHUT_WR);
        ssize_t n = 0;
        do {
          n = ::recv(stream->descriptor(), let_go.data(), let_go.size(), MSG_DONTWAIT);
        } while (n > 0);
        lives = lives && n < 0 && errno == EAGAIN;
        if (!lives) {
          stream.reset();
        } else {
          const auto events = static_cast<short>(POLLIN | (stream->has_to_send() ? POLLOUT : 0));
          waited.push_back({.fd = stream->descriptor(), .events = events, .revents = 0});
        }
      }
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (waited.empty() || left.count() <= 0) break;
    ::poll(waited.data(), waited.size(), static_cast<int>(left.count()));
  }
  for (const auto& peer : peers_) {
    for (std::uint32_t i = 0; peer != nullptr && i < kStreams; ++i) peer->streams[i].reset();
  }
}

}  // namespace pharos::ml
