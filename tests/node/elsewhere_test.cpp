#include "leases/elsewhere.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <set>
#include <vector>

#include <pharos/async/manual_executor.hpp>

namespace pharos::node {
namespace {

using namespace std::chrono_literals;
using scheduler::LeaseRequestId;

class ElsewhereTest : public testing::Test {
 protected:
  void add(std::uint64_t request) {
    waiting_.insert(LeaseRequestId{request});
    elsewhere_.add({}, LeaseRequestId{request});
  }
  std::vector<std::uint64_t> take_asked() { return std::exchange(asked_, {}); }

  async::ManualExecutor executor_;
  std::set<LeaseRequestId> waiting_;
  std::vector<std::uint64_t> asked_;
  Elsewhere elsewhere_{executor_, [this](LeaseRequestId request) { return waiting_.contains(request); },
                       [this](LeaseRequestId request) { asked_.push_back(request.value()); }};
};

using Requests = std::vector<std::uint64_t>;

TEST_F(ElsewhereTest, TheHeadIsAskedWhenARequestHasWaitedForAMoment) {
  add(1);
  executor_.advance(9ms);
  EXPECT_EQ(take_asked(), Requests{});
  executor_.advance(1ms);
  EXPECT_EQ(take_asked(), (Requests{1}));
  EXPECT_EQ(elsewhere_.asked(), 1U);
}

TEST_F(ElsewhereTest, ARequestThatIsServedHereMeanwhileIsNotAskedFor) {
  add(1);
  waiting_.clear();
  executor_.advance(10ms);
  EXPECT_EQ(take_asked(), Requests{});
}

TEST_F(ElsewhereTest, ALineThatFoundNoRoomAsksAgainInTheNextRound) {
  add(1);
  add(2);
  executor_.advance(10ms);
  EXPECT_EQ(take_asked(), (Requests{1}));
  elsewhere_.found_none(LeaseRequestId{1});
  elsewhere_.look();
  EXPECT_EQ(take_asked(), Requests{});
  executor_.advance(100ms);
  EXPECT_EQ(take_asked().size(), 1U);
}

TEST_F(ElsewhereTest, ARequestThatNobodyWantsAnyMoreLeavesNothing) {
  add(1);
  executor_.advance(10ms);
  elsewhere_.forget(LeaseRequestId{1});
  EXPECT_EQ(elsewhere_.asked(), 0U);
}

}  // namespace
}  // namespace pharos::node
