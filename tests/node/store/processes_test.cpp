#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "store/store_processes.hpp"
#include "store_fixture.hpp"

namespace pharos::node {
namespace {

/// Processes that use a store, each with a peer and a watch. The store itself is not needed.
class StoreProcessesTest : public testing::Test {
 protected:
  using Tables = std::multiset<std::uint32_t>;
  using Watch = std::weak_ptr<async::UniqueFunction<void()>>;

  struct Process {
    std::shared_ptr<KeptWire> wire = std::make_shared<KeptWire>();
    std::shared_ptr<net::Peer> peer;
    std::uint32_t table = 0;
    Watch watch{};
  };
  /// A process that has not opened the store.
  Process start() {
    Process process;
    process.peer = net::Peer::make(executor_, process.wire, nobody_);
    return process;
  }
  Process add(std::uint32_t table) {
    Process process = start();
    process.table = table;
    processes_->add(table, process.peer, host_.make_life([] {}).value().watch);
    process.watch = host_.lives.back();
    return process;
  }
  Tables tables() const {
    const auto all = processes_->tables();
    return {all.begin(), all.end()};
  }
  static StoreProcesses::Asker asker(const Process& process, std::uint64_t request = 100) {
    return {process.peer, process.table, request};
  }

  async::ManualExecutor executor_;
  BareHost host_{executor_};
  Ignores nobody_;
  std::optional<StoreProcesses> processes_{std::in_place};
};

TEST_F(StoreProcessesTest, AProcessIsFoundByItsTableAndByItsPeer) {
  const Process first = add(3);
  const Process second = add(5);
  EXPECT_TRUE(processes_->has(3));
  EXPECT_FALSE(processes_->has(4));
  EXPECT_TRUE(processes_->has(5));
  EXPECT_EQ(processes_->table_of(*first.peer), 3U);
  EXPECT_EQ(processes_->table_of(*second.peer), 5U);
  EXPECT_EQ(tables(), (Tables{3, 5}));
  EXPECT_EQ(processes_->size(), 2U);
}

TEST_F(StoreProcessesTest, AProcessThatHasNotOpenedTheStoreHasNoTable) {
  add(3);
  EXPECT_EQ(processes_->table_of(*start().peer), std::nullopt);
}

TEST_F(StoreProcessesTest, AProcessIsRemovedOnce) {
  const Process first = add(3);
  const Process second = add(5);
  EXPECT_FALSE(processes_->remove(4));
  EXPECT_TRUE(processes_->remove(3));
  EXPECT_FALSE(processes_->remove(3));
  EXPECT_FALSE(processes_->has(3));
  EXPECT_EQ(processes_->table_of(*first.peer), std::nullopt);
  EXPECT_EQ(processes_->table_of(*second.peer), 5U);
  EXPECT_EQ(tables(), Tables{5});
  EXPECT_EQ(processes_->size(), 1U);
}

TEST_F(StoreProcessesTest, TheWatchLivesAsLongAsTheEntry) {
  const Process first = add(3);
  const Process second = add(5);
  EXPECT_FALSE(first.watch.expired());
  processes_->remove(3);
  EXPECT_TRUE(first.watch.expired());
  EXPECT_FALSE(second.watch.expired());
}

TEST_F(StoreProcessesTest, TheWatchesAreGoneWithTheDestructor) {
  const Process first = add(3);
  const Process second = add(5);
  ASSERT_FALSE(first.watch.expired());
  ASSERT_FALSE(second.watch.expired());
  processes_.reset();
  EXPECT_TRUE(first.watch.expired());
  EXPECT_TRUE(second.watch.expired());
}

TEST_F(StoreProcessesTest, AProcessUsesTheStoreUntilItIsRemovedAlthoughItsConnectionHasEnded) {
  Process process = add(3);
  process.wire->break_off();
  executor_.run_until_idle();
  const std::weak_ptr<net::Peer> peer = std::exchange(process.peer, nullptr);
  EXPECT_TRUE(processes_->has(3));
  EXPECT_FALSE(process.watch.expired());
  EXPECT_FALSE(peer.expired()) << "another peer could have its address and be taken for this process";
  processes_->remove(3);
  EXPECT_TRUE(peer.expired());
}

TEST_F(StoreProcessesTest, AnAskerIsKnownByPeerAndTableTogether) {
  const Process before = add(3);
  Process mistaken = add(5);
  mistaken.table = 3;
  EXPECT_TRUE(processes_->has(asker(before)));
  EXPECT_FALSE(processes_->has(asker(mistaken))) << "this is the table of another process";
  processes_->remove(3);
  EXPECT_FALSE(processes_->has(asker(before)));
  const Process after = add(3);
  EXPECT_FALSE(processes_->has(asker(before))) << "the table is used again";
  EXPECT_TRUE(processes_->has(asker(after)));
}

TEST_F(StoreProcessesTest, ARequestIsAnsweredByItsNumber) {
  const Process process = add(3);
  const Process other = add(5);
  processes_->answer(asker(process, 100), wire::SlabLeased{.first_slot = 7});
  processes_->answer(asker(process, 101), Error{ErrorCode::kExhausted, "the store is full"});
  const auto& sent = process.wire->sent;
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[0].kind, wire::FrameKind::kResponse);
  EXPECT_EQ(sent[0].number, 100U);
  ASSERT_TRUE(std::holds_alternative<wire::SlabLeased>(sent[0].message));
  EXPECT_EQ(std::get<wire::SlabLeased>(sent[0].message).first_slot, 7U);
  EXPECT_EQ(sent[1].kind, wire::FrameKind::kResponse);
  EXPECT_EQ(sent[1].number, 101U);
  ASSERT_TRUE(std::holds_alternative<wire::Failure>(sent[1].message));
  EXPECT_EQ(std::get<wire::Failure>(sent[1].message).error.code(), ErrorCode::kExhausted);
  EXPECT_EQ(std::get<wire::Failure>(sent[1].message).error.message(), "the store is full");
  EXPECT_TRUE(other.wire->sent.empty());
}

TEST_F(StoreProcessesTest, AProcessThatHasEndedIsNotAnswered) {
  const Process process = add(3);
  processes_->remove(3);
  processes_->answer(asker(process), wire::Done{});
  processes_->answer(asker(process), Error{ErrorCode::kExhausted, "the store is full"});
  EXPECT_TRUE(process.wire->sent.empty());
}

TEST_F(StoreProcessesTest, AnAnswerDoesNotGoToTheNextProcessWithTheSameTable) {
  const Process before = add(3);
  processes_->remove(3);
  const Process after = add(3);
  processes_->answer(asker(before), wire::Done{});
  processes_->answer(asker(before), Error{ErrorCode::kExhausted, "the store is full"});
  EXPECT_TRUE(before.wire->sent.empty());
  EXPECT_TRUE(after.wire->sent.empty());
}

TEST_F(StoreProcessesTest, AllProcessesAreAskedOnceToReturnWhatTheyDoNotUse) {
  const Process gone = add(2);
  const Process first = add(3);
  const Process second = add(5);
  processes_->remove(2);
  processes_->ask_to_trim();
  for (const Process* each : {&first, &second}) {
    ASSERT_EQ(each->wire->sent.size(), 1U);
    EXPECT_EQ(each->wire->sent[0].kind, wire::FrameKind::kControl);
    EXPECT_TRUE(std::holds_alternative<wire::TrimStore>(each->wire->sent[0].message));
  }
  EXPECT_TRUE(gone.wire->sent.empty());
}

}  // namespace
}  // namespace pharos::node
