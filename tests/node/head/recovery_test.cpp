#include "head/recovery.hpp"

#include <gtest/gtest.h>

#include <chrono>

namespace pharos::node::head {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kStart{1h};

class HeadRecovery : public testing::Test {
 protected:
  HeadRecovery() {
    recovery_.begin();
    recovery_.expect(NodeId{1}, "10.0.0.1", kStart + 10s);
  }
  Recovery recovery_;
};

TEST_F(HeadRecovery, ItIsOverWhenEachExpectedNodeHasReportedOrIsGivenUp) {
  recovery_.expect(NodeId{2}, "10.0.0.2", kStart + 10s);
  recovery_.await_report(NodeId{1});
  EXPECT_FALSE(recovery_.expects(NodeId{1}));
  EXPECT_FALSE(recovery_.end_if_all_settled());
  EXPECT_TRUE(recovery_.add_report(NodeId{1}, {}));
  EXPECT_FALSE(recovery_.end_if_all_settled());
  EXPECT_EQ(recovery_.give_up(NodeId{2}), "10.0.0.2");
  EXPECT_TRUE(recovery_.end_if_all_settled());
  EXPECT_FALSE(recovery_.is_under_way());
  EXPECT_FALSE(recovery_.end_if_all_settled());
}

TEST_F(HeadRecovery, PartsOfAReportMakeOne) {
  recovery_.await_report(NodeId{1});
  wire::Report first;
  first.more = true;
  first.jobs = {JobId{7}};
  EXPECT_FALSE(recovery_.add_report(NodeId{1}, first));
  wire::Report last;
  last.jobs = {JobId{8}};
  const auto whole = recovery_.add_report(NodeId{1}, last);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->jobs, (std::vector{JobId{7}, JobId{8}}));
  EXPECT_TRUE(recovery_.is_settled(NodeId{1}));
}

TEST_F(HeadRecovery, AReportThatNoNodeIsAskedForIsIgnored) {
  EXPECT_FALSE(recovery_.add_report(NodeId{1}, {}));
  EXPECT_FALSE(recovery_.add_report(NodeId{9}, {}));
}

TEST_F(HeadRecovery, OnlyNodesWhoseTimeIsOverAreOverdue) {
  recovery_.expect(NodeId{2}, "10.0.0.2", kStart + 20s);
  EXPECT_TRUE(recovery_.overdue(kStart + 9s).empty());
  EXPECT_EQ(recovery_.overdue(kStart + 10s), (std::vector{NodeId{1}}));
}

TEST_F(HeadRecovery, ANodeThatIsLostWhileItReportsHasNotReported) {
  recovery_.await_report(NodeId{1});
  EXPECT_TRUE(recovery_.drop_report(NodeId{1}));
  EXPECT_FALSE(recovery_.add_report(NodeId{1}, {}));
}

TEST_F(HeadRecovery, MessagesThatArePutOffAreTakenOnceInTheirOrder) {
  recovery_.put_off(NodeId{1}, wire::PlaceGroup{GroupId{5}});
  recovery_.put_off(NodeId{2}, wire::RemoveGroup{GroupId{5}});
  const auto messages = recovery_.take_put_off();
  ASSERT_EQ(messages.size(), 2u);
  EXPECT_EQ(messages[0].first, NodeId{1});
  EXPECT_TRUE(std::holds_alternative<wire::RemoveGroup>(messages[1].second));
  EXPECT_TRUE(recovery_.take_put_off().empty());
}

}  // namespace
}  // namespace pharos::node::head
