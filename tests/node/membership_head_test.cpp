#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <pharos/async/async_group.hpp>
#include <pharos/storage/memory_kv_store.hpp>

#include "bare_host.hpp"
#include "daemon/head_elsewhere.hpp"
#include "daemon/head_here.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using wire::FrameKind;

// ---- The head of this process

/// A store that a test can let fail.
class FailingStore final : public storage::KvStore {
 public:
  explicit FailingStore(std::shared_ptr<bool> fails)
      : fails_{std::move(fails)}, store_{storage::make_memory_kv_store()} {}

  async::Async<Result<std::optional<std::string>>> get(std::string key, async::Deadline deadline) override {
    return store_->get(std::move(key), deadline);
  }
  async::Async<Result<std::vector<storage::KeyValue>>> scan_after(std::string prefix, std::optional<std::string> after,
                                                                  std::size_t limit,
                                                                  async::Deadline deadline) override {
    return store_->scan_after(std::move(prefix), std::move(after), limit, deadline);
  }
  async::Async<Result<void>> write(storage::Batch batch, async::Deadline deadline) override {
    if (*fails_) return fail();
    return store_->write(std::move(batch), deadline);
  }

 private:
  static async::Async<Result<void>> fail() { co_return Error{ErrorCode::kExhausted, "the disk is full"}; }

  const std::shared_ptr<bool> fails_;
  const std::unique_ptr<storage::KvStore> store_;
};

class HeadHereTest : public testing::Test {
 protected:
  HeadHere::OwnNode own_node() {
    return {.id = NodeId{1}, .description = {.address = {}, .total = {}}, .hear = [this](wire::Message message) {
              heard_.push_back(std::move(message));
            }};
  }
  HeadHere::Events events() {
    return {.started = [this] { ++started_; }, .failed = [this] { ++failed_; }};
  }
  HeadHere::OpenRecords open_records() {
    return [this]() -> Result<std::unique_ptr<storage::KvStore>> {
      if (!opens_) return Error{ErrorCode::kUnavailable, "the disk is gone"};
      return std::unique_ptr<storage::KvStore>{std::make_unique<FailingStore>(fails_)};
    };
  }
  void start(HeadHere& here) {
    tests_.spawn(keep_result(here.start(), &result_));
    executor_.run_until_idle();
  }
  void close(HeadHere& here) {
    here.close();
    executor_.run_until_idle();
    EXPECT_TRUE(here.closed());
  }

  static async::Async<void> keep_result(async::Async<Result<void>> start, std::optional<Result<void>>* result) {
    *result = co_await std::move(start);
  }

  async::ManualExecutor executor_;
  BareHost host_{executor_};
  bool opens_ = true;
  const std::shared_ptr<bool> fails_ = std::make_shared<bool>(false);
  std::vector<wire::Message> heard_;
  int started_ = 0;
  int failed_ = 0;
  std::optional<Result<void>> result_;
  async::AsyncGroup tests_{executor_};
};

TEST_F(HeadHereTest, WithoutRecordsThereIsAHeadAtOnceThatKnowsTheOwnNode) {
  HeadHere here{executor_, host_, own_node(), {}, events()};
  ASSERT_NE(here.head(), nullptr);
  EXPECT_TRUE(here.head()->knows(NodeId{1}));
  EXPECT_EQ(here.records(), nullptr);
  close(here);
}

TEST_F(HeadHereTest, AMessageToTheOwnNodeIsHeardLaterAndNotInside) {
  HeadHere here{executor_, host_, own_node(), {}, events()};
  EXPECT_TRUE(heard_.empty());
  executor_.run_until_idle();
  ASSERT_FALSE(heard_.empty());
  EXPECT_TRUE(std::holds_alternative<wire::ClusterJoined>(heard_.front()));
  close(here);
}

TEST_F(HeadHereTest, AHeadWithRecordsIsThereOnceTheyAreRead) {
  HeadHere here{executor_, host_, own_node(), open_records(), events()};
  const auto none = here.find();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message(), "the head is starting");
  start(here);
  EXPECT_TRUE(result_ && result_->ok());
  EXPECT_EQ(started_, 1);
  EXPECT_TRUE(here.find());
  close(here);
}

TEST_F(HeadHereTest, RecordsThatCannotBeOpenedAreAnError) {
  opens_ = false;
  HeadHere here{executor_, host_, own_node(), open_records(), events()};
  start(here);
  ASSERT_TRUE(result_ && !result_->ok());
  EXPECT_EQ(result_->error().message(), "the disk is gone");
  close(here);
}

TEST_F(HeadHereTest, AHeadThatCannotWriteIsReplacedByAnotherOne) {
  HeadHere here{executor_, host_, own_node(), open_records(), events()};
  start(here);
  *fails_ = true;
  opens_ = false;
  here.tell(wire::AddJob{.job = JobId{5}, .program = {}});
  executor_.run_until_idle();
  EXPECT_EQ(failed_, 1);
  EXPECT_EQ(here.head(), nullptr);
  const auto none = here.find();
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message(), "the disk is gone");
  *fails_ = false;
  opens_ = true;
  executor_.advance(500ms);
  EXPECT_NE(here.head(), nullptr);
  EXPECT_EQ(started_, 2);
  close(here);
}

TEST_F(HeadHereTest, AQuestionIsRefusedWhileTheHeadCannotStart) {
  HeadHere here{executor_, host_, own_node(), open_records(), events()};
  start(here);
  *fails_ = true;
  opens_ = false;
  here.tell(wire::AddJob{.job = JobId{5}, .program = {}});
  executor_.run_until_idle();
  heard_.clear();
  here.tell(wire::FindActor{.name_space = "", .name = "a", .type = "", .asker = {JobId{5}, CallerId{6}, 9}});
  executor_.run_until_idle();
  ASSERT_EQ(heard_.size(), 1u);
  ASSERT_TRUE(std::holds_alternative<wire::Refused>(heard_.front()));
  EXPECT_EQ(std::get<wire::Refused>(heard_.front()).number, 9u);
  close(here);
}

// ---- A head elsewhere

/// Writes down what a node hears of its head.
class HeadElsewhereTest : public testing::Test, public HeadElsewhere::Listener {
 protected:
  HeadElsewhereTest() { host_.reachable = true; }
  ~HeadElsewhereTest() override {
    elsewhere_.close();
    executor_.run_until_idle();
    EXPECT_TRUE(elsewhere_.closed());
  }

  void on_joined(const wire::ClusterJoined&) override { heard_.emplace_back("joined"); }
  void on_joined_again(const wire::ClusterJoined&) override { heard_.emplace_back("joined again"); }
  void on_beat(const wire::Beat&) override { ++beats_; }
  void on_head_message(wire::Message message) override { heard_.emplace_back(wire::name_of(message)); }
  void on_head_lost(const Error&) override { heard_.emplace_back("lost"); }
  void on_given_up() override { heard_.emplace_back("given up"); }

  /// Begins to join. The head has not answered yet.
  void begin() {
    HeadElsewhere::ReachedAt reached_at = [](int) { return Result<std::string>{"here"}; };
    tests_.spawn(
        keep_result(elsewhere_.join(std::move(reached_at), async::Deadline::after(9s, executor_.now())), &result_));
    executor_.run_until_idle();
  }
  static async::Async<void> keep_result(async::Async<Result<void>> join, std::optional<Result<void>>* result) {
    *result = co_await std::move(join);
  }
  KeptWire& wire() { return *host_.wires.back(); }
  /// The head answers the request that came last.
  void answer(const wire::ClusterJoined& joined) {
    wire().receive(FrameKind::kResponse, wire().sent.front().number, joined);
    executor_.run_until_idle();
  }
  void join(bool lasts = true) {
    begin();
    answer({.lasts = lasts, .session = 77});
    ASSERT_TRUE(result_ && result_->ok());
  }
  void break_off() {
    wire().break_off();
    executor_.run_until_idle();
  }
  /// Lets the node connect again, and returns its request to join.
  wire::JoinCluster next_request() {
    const std::size_t before = host_.wires.size();
    executor_.advance(1s);
    EXPECT_EQ(host_.wires.size(), before + 1);
    return std::get<wire::JoinCluster>(wire().sent.front().message);
  }

  async::ManualExecutor executor_;
  BareHost host_{executor_};
  std::vector<std::string> heard_;
  int beats_ = 0;
  std::optional<Result<void>> result_;
  HeadElsewhere elsewhere_{executor_, host_, {.node = NodeId{2}, .address = "the head", .machine = {}}, *this};
  async::AsyncGroup tests_{executor_};
};

using Heard = std::vector<std::string>;

TEST_F(HeadElsewhereTest, ANodeJoinsOnceTheHeadHasAnswered) {
  begin();
  EXPECT_EQ(std::get<wire::JoinCluster>(wire().sent.front().message).node, NodeId{2});
  EXPECT_EQ(heard_, Heard{});
  answer({.session = 77});
  EXPECT_EQ(heard_, Heard{"joined"});
  EXPECT_TRUE(result_ && result_->ok());
}

TEST_F(HeadElsewhereTest, ANodeTriesAgainWhileTheHeadCannotBeReached) {
  host_.reachable = false;
  begin();
  EXPECT_FALSE(result_);
  host_.reachable = true;
  executor_.advance(100ms);
  answer({.session = 77});
  EXPECT_EQ(heard_, Heard{"joined"});
}

TEST_F(HeadElsewhereTest, ABeatGoesToTheHeadEachSecond) {
  join();
  const std::size_t before = wire().sent.size();
  executor_.advance(3s);
  EXPECT_EQ(wire().sent.size(), before + 3);
  EXPECT_TRUE(std::holds_alternative<wire::Beat>(wire().sent.back().message));
}

TEST_F(HeadElsewhereTest, AHeadWithoutRecordsThatSpokeJustNowHasEnded) {
  join(false);
  break_off();
  EXPECT_EQ(heard_, (Heard{"joined", "lost"}));
}

TEST_F(HeadElsewhereTest, ASilentHeadWithoutRecordsIsLookedForAgain) {
  join(false);
  executor_.advance(6s);
  break_off();
  EXPECT_EQ(heard_, Heard{"joined"});
  EXPECT_TRUE(next_request().again);
}

TEST_F(HeadElsewhereTest, TheSameHeadContinuesTheSessionAndTheNodeHearsNothingOfIt) {
  join();
  break_off();
  EXPECT_EQ(elsewhere_.queued(), std::nullopt);
  elsewhere_.tell(wire::EndJob{JobId{5}});
  EXPECT_EQ(next_request().session, 77u);
  answer({.session = 77, .resumed = true, .heard = 0});
  EXPECT_EQ(heard_, Heard{"joined"});
  ASSERT_TRUE(std::holds_alternative<wire::EndJob>(wire().sent.back().message)) << "what was said meanwhile is sent";
  EXPECT_EQ(elsewhere_.queued(), 0u);
}

TEST_F(HeadElsewhereTest, AnotherHeadIsToldWhatIsOnTheNode) {
  join();
  break_off();
  next_request();
  answer({.lasts = true, .session = 78});
  EXPECT_EQ(heard_, (Heard{"joined", "joined again"}));
}

TEST_F(HeadElsewhereTest, AHeadThatHasGivenTheNodeUpSaysSo) {
  join();
  break_off();
  next_request();
  answer({.lost = true});
  EXPECT_EQ(heard_, (Heard{"joined", "given up"}));
}

TEST_F(HeadElsewhereTest, AHeadThatIsAwayForTooLongIsLost) {
  join();
  host_.reachable = false;
  break_off();
  executor_.advance(9min);
  EXPECT_EQ(heard_, Heard{"joined"});
  executor_.advance(2min);
  EXPECT_EQ(heard_, (Heard{"joined", "lost"}));
}

TEST_F(HeadElsewhereTest, AMessageOutsideTheSessionIsDroppedWhileTheHeadIsAway) {
  join();
  break_off();
  elsewhere_.tell(wire::Output{});
  next_request();
  answer({.session = 77, .resumed = true, .heard = 0});
  for (const KeptWire::Sent& sent : wire().sent) EXPECT_FALSE(std::holds_alternative<wire::Output>(sent.message));
}

}  // namespace
}  // namespace pharos::node
