#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "store/memory_requests.hpp"
#include "store_fixture.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using object_store::Location;

/// Processes that have opened the store, each with a peer.
class RequestsTest : public StoreTest {
 protected:
  RequestsTest()
      : imports_{executor_,
                 host_,
                 NodeId{1},
                 store_,
                 NodePins::open(store_, CallerId{1}).value(),
                 [](NodeId) { return finds_nobody(); },
                 [](std::uint32_t, const Location&, MemoryRequests::Brought) {}},
        idle_{executor_, store_, work_, [this] { requests_.progress(); }},
        spilling_{executor_,
                  store_,
                  work_,
                  {.folder = "none", .make_file = {}, .elsewhere = [](const object_store::Place&) { return false; }},
                  {.left = [this] { requests_.progress(); }, .failed = [this] { requests_.serve(); }}},
        requests_{executor_,
                  {.store = store_, .processes = processes_, .imports = imports_, .idle = idle_, .spilling = spilling_},
                  [this](TimePoint when) { look_at(when); }} {}

  struct Process {
    std::shared_ptr<KeptWire> wire = std::make_shared<KeptWire>();
    std::shared_ptr<net::Peer> peer;
    std::uint32_t table = 0;
  };
  Process start(CallerId id) {
    Process process;
    process.peer = net::Peer::make(executor_, process.wire, nobody_);
    process.table = store_->open(id).value();
    processes_.add(process.table, process.peer, nullptr);
    return process;
  }
  static StoreProcesses::Asker asker(const Process& process, std::uint64_t request) {
    return {process.peer, process.table, request};
  }
  /// The answer to a request; nullopt as long as there is none.
  static std::optional<wire::Message> answer(const Process& process, std::uint64_t request) {
    const auto found = std::find_if(process.wire->sent.begin(), process.wire->sent.end(),
                                    [&](const KeptWire::Sent& sent) { return sent.number == request; });
    return found == process.wire->sent.end() ? std::nullopt : std::optional{found->message};
  }
  template <class T>
  static bool is(const std::optional<wire::Message>& answer) {
    return answer && std::holds_alternative<T>(*answer);
  }

  void look_at(TimePoint when) {
    if (when >= next_look_) return;
    next_look_ = when;
    executor_.run_at(when, [this, when] {
      if (next_look_ != when) return;
      next_look_ = TimePoint::max();
      requests_.serve();
    });
  }

  TimePoint next_look_ = TimePoint::max();
  Ignores nobody_;
  StoreProcesses processes_;
  ImportedObjects imports_;
  IdleMemory idle_;
  Spilling spilling_;
  MemoryRequests requests_;

 private:
  static async::Async<Result<std::string>> finds_nobody() {
    co_return Error{ErrorCode::kNotFound, "there is no other node"};
  }
};

TEST_F(RequestsTest, ASlabIsLentAtOnceWhileThereIsRoom) {
  const Process process = start(CallerId{11});
  requests_.lease(asker(process, 100), kObjectBytes);
  EXPECT_TRUE(is<wire::SlabLeased>(answer(process, 100)));
  EXPECT_EQ(requests_.waiting(), 0u);
}

TEST_F(RequestsTest, ARequestThatDoesNotFitIsRefusedAfterASecondInWhichNothingBecameFree) {
  const Process process = start(CallerId{11});
  for (std::uint64_t i = 0; i < 4; ++i) requests_.lease(asker(process, 100 + i), kObjectBytes);
  requests_.lease(asker(process, 200), kObjectBytes);
  executor_.advance(900ms);
  EXPECT_FALSE(answer(process, 200));
  executor_.advance(200ms);
  ASSERT_TRUE(is<wire::Failure>(answer(process, 200)));
  EXPECT_EQ(std::get<wire::Failure>(*answer(process, 200)).error.code(), ErrorCode::kExhausted);
}

TEST_F(RequestsTest, ARequestLargerThanTheStoreIsRefusedAtOnce) {
  const Process process = start(CallerId{11});
  requests_.lease(asker(process, 100), 2 * kCapacity);
  EXPECT_TRUE(is<wire::Failure>(answer(process, 100)));
}

TEST_F(RequestsTest, ASmallRequestDoesNotPassALargeOneThatWaits) {
  const Process process = start(CallerId{11});
  for (std::uint64_t i = 0; i < 3; ++i) requests_.lease(asker(process, 100 + i), kObjectBytes);
  requests_.lease(asker(process, 200), 2 * kObjectBytes);
  requests_.lease(asker(process, 201), kObjectBytes);
  EXPECT_FALSE(answer(process, 201)) << "although there is room";
  executor_.advance(1100ms);
  EXPECT_TRUE(is<wire::Failure>(answer(process, 200)));
  EXPECT_TRUE(is<wire::SlabLeased>(answer(process, 201)));
}

TEST_F(RequestsTest, ProcessesAreAskedToReturnWhatTheyDoNotUse) {
  const Process idle = start(CallerId{10});
  const Process process = start(CallerId{11});
  for (std::uint64_t i = 0; i < 4; ++i) requests_.lease(asker(idle, 100 + i), kObjectBytes);
  requests_.lease(asker(process, 200), kObjectBytes);
  ASSERT_TRUE(std::holds_alternative<wire::TrimStore>(idle.wire->sent.back().message));
  store_->book.give_back(idle.table, std::get<wire::SlabLeased>(*answer(idle, 100)).first_slot);
  executor_.advance(20ms);
  EXPECT_TRUE(is<wire::SlabLeased>(answer(process, 200)));
}

TEST_F(RequestsTest, TheNextProcessWithTheSameTableGetsNoAnswerOfTheOneBefore) {
  const Process before = start(CallerId{11});
  for (std::uint64_t i = 0; i < 4; ++i) requests_.lease(asker(before, 100 + i), kObjectBytes);
  requests_.lease(asker(before, 200), kObjectBytes);
  processes_.remove(before.table);
  static_cast<void>(store_->book.process_ended(before.table));
  const Process after = start(CallerId{12});
  ASSERT_EQ(after.table, before.table);
  requests_.serve();
  EXPECT_EQ(requests_.waiting(), 0u);
  EXPECT_FALSE(answer(before, 200));
  EXPECT_FALSE(answer(after, 200));
}

TEST_F(RequestsTest, AnObjectInMemoryIsThereAtOnceAndOneThatHasEndedIsLost) {
  const Process process = start(CallerId{11});
  Location object = make_object();
  requests_.bring(asker(process, 100), object);
  EXPECT_TRUE(is<wire::Done>(answer(process, 100)));
  ++object.place.generation;
  requests_.bring(asker(process, 101), object);
  EXPECT_TRUE(is<wire::Failure>(answer(process, 101)));
}

TEST_F(RequestsTest, TheNodeItselfIsAnsweredLaterAndNotInside) {
  const Location object = make_object();
  std::optional<bool> brought;
  requests_.bring_for_node(table_, object, [&brought](Result<void> result) { brought = result.ok(); });
  EXPECT_FALSE(brought);
  executor_.run_until_idle();
  EXPECT_EQ(brought, true);
}

}  // namespace
}  // namespace pharos::node
