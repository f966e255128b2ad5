#include "daemon/head_here.hpp"

#include <chrono>
#include <utility>

#include <pharos/async/completion.hpp>
#include <pharos/async/sleep.hpp>
#include <pharos/base/log.hpp>
#include <pharos/node/failpoints.hpp>

#include "node/demands.hpp"

namespace pharos::node {
namespace {

constexpr auto kReopenTime = std::chrono::milliseconds{500};  // between attempts to replace the head

}  // namespace

HeadHere::HeadHere(async::Executor& executor, Host& host, OwnNode own_node, OpenRecords open_records, Events events)
    : executor_{executor},
      host_{host},
      own_node_{std::move(own_node)},
      open_records_{std::move(open_records)},
      events_{std::move(events)},
      background_{executor} {
  if (open_records_) return;
  head_ = std::make_unique<Head>(executor);
  head_->add_node(own_node_.id, own_node_.description, tell_own_node());
}

Head::Tell HeadHere::tell_own_node() {
  return [this](wire::Message message) {
    executor_.post([this, message = std::move(message)]() mutable { own_node_.hear(std::move(message)); });
  };
}

Result<Head*> HeadHere::find() {
  if (head_ != nullptr) return head_.get();
  return Error{ErrorCode::kUnavailable, trouble_ ? trouble_->message() : "the head is starting"};
}

void HeadHere::tell(wire::Message message) {
  if (head_ != nullptr) {
    executor_.post([this, to = heads_, message = std::move(message)]() mutable {
      if (head_ != nullptr && heads_ == to) head_->on_message(own_node_.id, std::move(message));
    });
  } else if (const wire::Asker* const asker = asker_of(message); asker != nullptr && trouble_) {
    tell_own_node()(wire::Refused{asker->number, *trouble_});
  }
}

async::Async<Result<std::unique_ptr<storage::KvStore>>> HeadHere::open_records() {
  struct Opening {
    Result<std::unique_ptr<storage::KvStore>> store = Error{ErrorCode::kCancelled, "not opened"};
    async::Completion<void> done;
  };
  const auto opening = std::make_shared<Opening>();
  host_.run_blocking([opening, open = open_records_] { opening->store = open(); },
                     [opening] { opening->done.complete(); });
  PHAROS_CO_TRY_VOID(co_await opening->done.wait(async::Deadline::never()));
  co_return std::move(opening->store);
}

async::Async<Result<void>> HeadHere::start() {
  PHAROS_CO_TRY(store_, co_await open_records());
  failpoint(failpoints::kRecordsOpened);
  PHAROS_CO_TRY(Records::Found found, co_await Records::load(store_.get()));
  if (closing_) co_return Error{ErrorCode::kCancelled, "the daemon ends"};
  records_ =
      std::make_unique<Records>(executor_, *store_, [this](const Error& why) { background_.spawn(replace(why)); });
  ++heads_;
  const OwnNode& own = own_node_;
  head_ = std::make_unique<Head>(executor_, own.id, records_.get());
  head_->restore(std::move(found));
  failpoint(failpoints::kRecordsRead);
  if (head_->expects(own.id)) {
    head_->return_node(own.id, own.description, tell_own_node());
  } else {
    head_->add_node(own.id, own.description, tell_own_node());
  }
  events_.started();
  co_return {};
}

/// The head cannot write to its records any more, so another one is made from what they contain.
async::Async<void> HeadHere::replace(Error why) {
  log(LogLevel::kError, "the head cannot write, and starts again from what it has written", {kv("error", why)});
  head_.reset();
  events_.failed();
  co_await Records::end(std::exchange(records_, nullptr));
  for (;;) {
    host_.run_blocking([store = std::shared_ptr{std::move(store_)}]() mutable { store.reset(); }, [] {});
    const auto started = co_await start();
    if (started) break;
    if (started.error().code() == ErrorCode::kCancelled) co_return;
    if (!trouble_ || trouble_->message() != started.error().message()) {
      log(LogLevel::kError, "the head cannot start", {kv("error", started.error())});
    }
    trouble_ = started.error();
    const auto slept = co_await async::sleep(kReopenTime);
    if (!slept) co_return;
  }
  trouble_.reset();
  log(LogLevel::kWarn, "the head goes on");
}

void HeadHere::close() {
  closing_ = true;
  background_.cancel();
  if (records_ != nullptr) records_->close();
}

}  // namespace pharos::node
