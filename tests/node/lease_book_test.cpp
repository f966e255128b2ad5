// The book of leases, and the two parts of TaskLeases that follow it: reports of the load, and recalls.

#include "leases/lease_book.hpp"

#include <chrono>
#include <cstdint>

#include "leases/load_report.hpp"
#include "leases/recall_timer.hpp"
#include "parts_fixture.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using scheduler::LeaseRequestId;
using scheduler::Resources;

class LeaseBookTest : public PartsTest {
 protected:
  static Resources cpus(std::int64_t count) { return Resources{wire::Amounts{{"cpu", count * Resources::kWhole}}}; }
  /// Asks for one CPU. Each granted worker starts at once, with the id of its request.
  void request(std::uint64_t id, CallerId caller) {
    book.apply(*book.leases().request(LeaseRequestId{id}, {JobId{1}, caller}, cpus(1), executor.now()));
  }
  void carry_out(const scheduler::LeaseEffect& effect) {
    if (const auto* const start = std::get_if<scheduler::StartWorker>(&effect)) {
      seen.push_back("start " + std::to_string(start->request.value()));
      book.apply(book.starting(start->request).worker_started(start->request, WorkerId{start->request.value()}));
      seen.push_back("started");
    } else if (const auto* const granted = std::get_if<scheduler::Grant>(&effect)) {
      seen.push_back("grant " + std::to_string(granted->request.value()));
    } else if (std::holds_alternative<scheduler::Recall>(effect)) {
      seen.push_back("recall");
    }
  }

  Names seen;
  LeaseBook book{scheduler::Leases{cpus(1), 8, 10s}, [this](const auto& effect) { carry_out(effect); },
                 [this] { seen.push_back("settled"); }};
};

TEST_F(LeaseBookTest, WhatAnEffectLeadsToIsCarriedOutAfterIt) {
  request(1, CallerId{1});
  EXPECT_EQ(seen, (Names{"start 1", "started", "grant 1", "settled"}));
}

TEST_F(LeaseBookTest, TheLoadIsToldAfterAPauseAndOnlyIfItHasChanged) {
  LoadReport load{executor, book, site.head};
  request(1, CallerId{1});
  load.note_change();
  EXPECT_EQ(take_told(), Names{});
  executor.advance(100ms);
  EXPECT_EQ(take_told(), (Names{"NodeLoad"}));
  load.note_change();
  executor.advance(10s);
  EXPECT_EQ(take_told(), Names{});
}

TEST_F(LeaseBookTest, ALoadThatIsGoneAfterThePauseIsNotTold) {
  LoadReport load{executor, book, site.head};
  request(1, CallerId{1});
  load.note_change();
  book.apply(book.leases().worker_ended(WorkerId{1}));
  executor.advance(100ms);
  EXPECT_EQ(take_told(), Names{});
}

TEST_F(LeaseBookTest, AnotherHeadIsToldALoadThatIsNotNothing) {
  LoadReport load{executor, book, site.head};
  load.tell_again();
  EXPECT_EQ(take_told(), Names{});
  request(1, CallerId{1});
  load.tell();
  load.tell_again();
  EXPECT_EQ(take_told(), (Names{"NodeLoad", "NodeLoad"}));
}

TEST_F(LeaseBookTest, ALeaseIsRecalledWhenAnotherCallerHasWaitedForLong) {
  RecallTimer recalls{executor, book};
  request(1, CallerId{1});
  request(2, CallerId{2});
  seen.clear();
  recalls.note_change();
  executor.advance(30ms);
  EXPECT_EQ(seen, Names{});
  executor.advance(200ms);
  EXPECT_EQ(seen, (Names{"recall", "settled"}));
}

TEST_F(LeaseBookTest, NoTimerRunsWhileOneCallerHasAllLeases) {
  RecallTimer recalls{executor, book};
  request(1, CallerId{1});
  recalls.note_change();
  EXPECT_FALSE(executor.next_timer().has_value());
}

TEST_F(LeaseBookTest, WhatABundleHasIsGivenOutByItsOwnLeases) {
  const BundleKey key{GroupId{3}, 1};
  EXPECT_EQ(book.find(key), nullptr);
  book.apply(book.leases().reserve(scheduler::ReservationId{9}, {cpus(1), {}}, executor.now()));
  book.open(scheduler::ReservationId{9}, key, {cpus(1), {}});
  ASSERT_NE(book.find(key), nullptr);
  EXPECT_EQ(book.find({}), &book.leases());
  book.apply(*book.find(key)->request(LeaseRequestId{1}, {JobId{1}, CallerId{1}}, cpus(1), executor.now()));
  EXPECT_EQ(book.lessee_of(WorkerId{1}), CallerId{1});
  EXPECT_EQ(book.held_by(WorkerId{1}), cpus(1));
  request(2, CallerId{2});
  EXPECT_EQ(book.waiting(), 1U) << "the node has given all it has to the bundle";
  EXPECT_EQ(book.check(), "");

  seen.clear();
  book.close(scheduler::ReservationId{9}, executor.now());
  EXPECT_EQ(seen, (Names{"recall", "settled"}));
  EXPECT_EQ(book.find(key), nullptr);
  EXPECT_FALSE(book.drop_if_unused(scheduler::ReservationId{9}));
  book.tell_all([&](scheduler::Leases& leases) { return leases.returned(WorkerId{1}, CallerId{1}, executor.now()); });
  EXPECT_TRUE(book.drop_if_unused(scheduler::ReservationId{9}));
  book.apply(book.leases().release(scheduler::ReservationId{9}));
  EXPECT_EQ(book.lessee_of(WorkerId{2}), CallerId{2});
}

}  // namespace
}  // namespace pharos::node
