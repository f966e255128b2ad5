#include "stream/stream_loop.hpp"

#include <chrono>
#include <string>
#include <utility>

#include <pharos/ml/collective/failpoints.hpp>

namespace pharos::ml {
namespace {

using MessageKind = StreamMessage::Kind;

constexpr std::uint64_t kAheadMax = 1 << 16;  // by how many operations another rank may be ahead of this one

}  // namespace

/// Handles the messages of another rank that come by one of its connections.
class StreamLoop::FromRank final : public Stream::Receiver {
 public:
  FromRank(StreamLoop& loop, std::uint32_t rank, std::uint32_t stream) : loop_{loop}, rank_{rank}, stream_{stream} {}

  Result<std::byte*> place(const StreamMessage& message) override {
    if (loop_.failing_) return Error{ErrorCode::kCancelled, "this rank fails"};
    if (message.kind == MessageKind::kBegun) {
      PHAROS_TRY_VOID(loop_.begun_by(rank_, message.among, message.number, message.operation));
    }
    if (message.is_failure()) {
      text_.resize(message.bytes);
      return reinterpret_cast<std::byte*>(text_.data());
    }
    if (message.kind != MessageKind::kData) return nullptr;
    const auto operation = loop_.find(order_of(message));
    const auto from = operation == nullptr ? std::nullopt : operation->team.place_of(rank_);
    std::byte* const place = from ? operation->plan.place(*from, message.tag, message.bytes) : nullptr;
    if (place == nullptr) return Error{ErrorCode::kCorrupt, "it sent data that no operation waits for"};
    return place;
  }
  void came(const StreamMessage& message) override {
    if (message.kind == MessageKind::kLeft) return loop_.left_by(rank_, stream_);
    if (message.kind == MessageKind::kAsk) return loop_.answer(rank_);
    if (message.kind == MessageKind::kAnswer) {
      return loop_.search_.answered(rank_, message.tag == 0 ? std::nullopt : std::optional{message.tag - 1});
    }
    if (message.is_failure()) return loop_.give_up(error_of(message.tag, text_));
    if (message.kind != MessageKind::kData) return;
    const auto operation = loop_.find(order_of(message));
    if (operation == nullptr) return;
    failpoint(failpoints::kPartCame);
    operation->plan.came(*operation->team.place_of(rank_), message.tag,
                         [&](const StreamPlan::Chunk& chunk) { loop_.send(*operation, chunk); });
    loop_.end_if_done(*operation);
  }

 private:
  OperationId order_of(const StreamMessage& message) const {
    return {loop_.rows_.row_of_data(message.among, rank_), message.number};
  }

  StreamLoop& loop_;
  const std::uint32_t rank_;
  const std::uint32_t stream_;
  std::string text_;
};

StreamLoop::StreamLoop(const StreamRows& rows, PeerSockets& sockets, StreamRequests& requests)
    : rows_{rows},
      sockets_{sockets},
      requests_{requests},
      search_{rows.rank(), rows.ranks(), [this] { return whom_the_owner_waits_for(); },
              [this](std::uint32_t rank) { sockets_.send(rank, 0, {.kind = MessageKind::kAsk}); }},
      said_(rows.ranks()),
      begun_(rows.count()) {}

StreamLoop::~StreamLoop() = default;

Result<void> StreamLoop::start() {
  return sockets_.start(
      [this](std::uint32_t rank, std::uint32_t stream) { return std::make_unique<FromRank>(*this, rank, stream); });
}

void StreamLoop::run() {
  while (take_requests()) {
    if (const auto lost = sockets_.write_all()) lose(*lost);
    if (!failing_) {
      if (const auto lost = sockets_.serve(search_.next(), [this] { return !failing_; })) lose(*lost);
    }
    if (failing_) end_failed();
  }
  sockets_.send_to_all({.kind = MessageKind::kLeft});
  sockets_.say_farewell();
}

/// Returns false when the backend is being destroyed.
bool StreamLoop::take_requests() {
  const auto taken = requests_.take_new();
  if (!taken) return false;
  for (const auto& operation : taken->operations) {
    if (!failing_) begin(operation);
  }
  if (taken->fails) give_up(*taken->fails);
  if (const auto late = search_.go_on(taken->overdue, std::chrono::steady_clock::now())) give_up(*late);
  return true;
}

// ---- Operations

void StreamLoop::begin(const std::shared_ptr<StreamOperation>& operation) {
  const OperationId& order = operation->order;
  begun_[order.row] = order.number;
  running_.emplace(order, operation);
  std::vector<std::uint32_t> others;
  for (const std::uint32_t rank : operation->team.ranks) {
    if (!operation->is_begun_by(rank)) others.push_back(rank);
  }
  for (const std::uint32_t rank : others) {
    sockets_.send(rank, 0,
                  {.kind = MessageKind::kBegun,
                   .among = operation->among,
                   .number = order.number,
                   .operation = operation->operation});
    failpoint(failpoints::kBeginTold);
  }
  for (const std::uint32_t rank : others) {
    if (const auto early = said_[rank].begun.extract(order)) {
      if (const auto same = begun_by(rank, operation->among, order.number, early.mapped()); !same) {
        lose({rank, same.error()});
      }
    } else if (sockets_.expects_end(rank, 0)) {
      left_by(rank, 0);
    }
  }
}

std::shared_ptr<StreamOperation> StreamLoop::find(const OperationId& order) const {
  const auto found = running_.find(order);
  return found == running_.end() ? nullptr : found->second;
}

/// Rule 1 of the class.
Result<void> StreamLoop::begun_by(std::uint32_t rank, Among among, std::uint64_t number, const Operation& operation) {
  const auto row = rows_.row_with(rank, among, operation);
  if (!row) return Error{ErrorCode::kCorrupt, "it began an operation in which it takes no part"};
  const OperationId order{*row, number};
  if (number > begun_[*row]) {
    if (number > begun_[*row] + kAheadMax) {
      return Error{ErrorCode::kCorrupt, "it began too many operations ahead of this rank"};
    }
    said_[rank].begun.emplace(order, operation);
    return {};
  }
  const auto own = find(order);
  if (own == nullptr || own->is_begun_by(rank)) {
    return Error{ErrorCode::kCorrupt, "it began an operation twice"};
  }
  if (own->operation != operation) {
    give_up(disagreement(rows_.rank(), own->operation, rank, operation, "as operation " + std::to_string(number)));
    return {};
  }
  own->plan.begun_by(*own->team.place_of(rank), [&](const StreamPlan::Chunk& chunk) { send(*own, chunk); });
  end_if_done(*own);
  return {};
}

/// Rule 2 of the class.
void StreamLoop::send(StreamOperation& operation, const StreamPlan::Chunk& chunk) {
  const std::uint32_t to = operation.team.ranks[chunk.rank];
  const std::uint32_t stream = chunk.tag % PeerSockets::kStreams;
  const auto sent = [this, order = operation.order] {
    const auto still = find(order);
    if (still == nullptr) return;
    still->plan.sent();
    end_if_done(*still);
  };
  const StreamMessage message{.kind = MessageKind::kData,
                              .among = operation.among,
                              .tag = chunk.tag,
                              .number = operation.order.number,
                              .bytes = chunk.size};
  sockets_.send(to, stream, message, chunk.bytes, sent);
  failpoint(failpoints::kPartSent);
}

void StreamLoop::end_if_done(StreamOperation& operation) {
  if (!operation.plan.ended()) return;
  const OperationId order = operation.order;
  requests_.say_ended(operation);
  running_.erase(order);
}

void StreamLoop::left_by(std::uint32_t rank, std::uint32_t stream) {
  sockets_.expect_end(rank, stream);
  if (stream != 0) return;  // kBegun comes by the first stream, so only kLeft there says that no more of them come
  for (const auto& [order, operation] : running_) {
    if (!operation->is_begun_by(rank)) return give_up(has_left(rank, operation->describe()));
  }
}

// ---- Ranks that are late

std::optional<std::uint32_t> StreamLoop::whom_the_owner_waits_for() const {
  return requests_.whom_the_owner_waits_for([this](const OperationId& order) -> std::optional<std::uint32_t> {
    const auto operation = find(order);
    const auto place = operation == nullptr ? std::nullopt : operation->plan.missing();
    if (!place) return std::nullopt;
    return operation->team.ranks[*place];
  });
}

void StreamLoop::answer(std::uint32_t to) {
  Said& said = said_[to];
  if (said.waits_for_answer || !sockets_.is_open(to, 0)) return;
  const auto missing = whom_the_owner_waits_for();
  const StreamMessage message{.kind = MessageKind::kAnswer, .tag = missing ? *missing + 1 : 0};
  said.waits_for_answer = true;
  sockets_.send(to, 0, message, nullptr, [&said] { said.waits_for_answer = false; });
}

// ---- Failing

void StreamLoop::lose(const PeerSockets::Lost& lost) {
  const std::string who = "rank " + std::to_string(lost.rank);
  std::string text = who + " cannot be reached any more: " + lost.why.message();
  if (lost.why.code() == ErrorCode::kUnavailable) text = who + " has died: its connection has ended";
  if (!running_.empty()) text += "; " + running_.begin()->second->describe() + " waits for it";
  give_up(Error{ErrorCode::kActorDied, text,
                "Connect the group again without this rank, or with another process in its place."});
}

void StreamLoop::give_up(const Error& why) {
  if (!failing_) failing_ = why;
}

/// Rule 3 of the class. An error that another rank has told is passed on, too: otherwise a rank might see the end of
/// this rank's connection before it hears the error. The owner sees the failure only when all operations are gone, so
/// that nothing uses their memory any more.
void StreamLoop::end_failed() {
  running_.clear();
  sockets_.send_only({.kind = MessageKind::kFailed, .tag = static_cast<std::uint32_t>(failing_->code())},
                     told(*failing_));
  sockets_.say_farewell();
  requests_.say_failed(*failing_);
  // All requests of the owner fail from now on, so there is nothing left to do but to wait for the destructor.
  requests_.wait_for_close();
}

}  // namespace pharos::ml
