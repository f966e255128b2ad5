#include "rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <variant>
#include <vector>

#include "program/function_table.hpp"
#include "workload.hpp"

namespace pharos::simulator {
namespace {

using Fault = Network::Fault;

constexpr std::uint64_t kSeedsMax = 200;  // seeds to try for a run that sends such a message
constexpr int kStrikes = 2;

template <class... Messages>
std::vector<std::string> names_of(std::type_identity<std::variant<Messages...>>) {
  std::vector<std::string> names;
  for (const char* const mangled : {typeid(Messages).name()...}) {
    const std::string name = actors::readable_name(mangled);
    names.push_back(name.substr(name.rfind(':') + 1));
  }
  return names;
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<std::size_t, Fault>>& test) {
  constexpr const char* kFaults[] = {"None", "Lost", "ReplyLost", "SenderDies", "ReceiverDies", "Twice"};
  const auto [row, fault] = test.param;
  return names_of(std::type_identity<wire::MessageKinds>{})[row] + kFaults[static_cast<int>(fault)];
}

class Rows : public ::testing::TestWithParam<std::tuple<std::size_t, Fault>> {};

// The fault strikes one message of this type in each run; the seed decides which one.
TEST_P(Rows, OneThatIsLostOrComesTwiceOrWhoseEndDiesLeavesEveryInvariantStanding) {
  const auto [row, fault] = GetParam();
  int strikes = 0;
  for (std::uint64_t seed = 1; seed <= kSeedsMax && strikes < kStrikes; ++seed) {
    std::uint64_t until = seed % 3;  // number of such messages that pass unharmed first
    bool struck = false;
    Network::Choose choose = [&, wanted = row, what = fault](const wire::Message& message) {
      if (message.index() != wanted || struck || until-- != 0) return Fault::kNone;
      struck = true;
      return what;
    };
    Plan plan{.drivers_max = 2, .calls_max = 12, .asks = kRows[row].asked, .choose = std::move(choose)};
    if (kRows[row].drains) plan = {.drains = true, .choose = std::move(plan.choose)};  // with objects in several places
    const SeedRun run = run_workload(seed, std::move(plan));
    ASSERT_EQ(run.wrong, "") << "seed " << seed;
    strikes += struck ? 1 : 0;
  }
  EXPECT_GT(strikes, 0) << "no seed sends such a message: let workload.cpp do what needs it";
}

using wire::FrameKind;

class FrameRows : public ::testing::TestWithParam<std::tuple<FrameKind, Fault>> {};

TEST_P(FrameRows, OneThatIsLostOrComesTwiceOrWhoseEndDiesLeavesEveryInvariantStanding) {
  const auto [kind, fault] = GetParam();
  const bool needs_distance = fault == Fault::kLost || fault == Fault::kReplyLost || fault == Fault::kTwice;
  int strikes = 0;
  for (std::uint64_t seed = 1; seed <= kSeedsMax && strikes < kStrikes; ++seed) {
    std::uint64_t until = seed % 5;
    bool struck = false;
    Network::ChooseFrame choose = [&, wanted = kind, what = fault](const wire::FrameHeader& sent, bool may_break) {
      if (sent.kind != wanted || struck || (needs_distance && !may_break)) return Fault::kNone;
      // A frame arrives twice only over two connections. Only an actor on another machine has two with a caller.
      if ((what == Fault::kTwice && sent.actor == 0) || until-- != 0) return Fault::kNone;
      struck = true;
      return what;
    };
    const SeedRun run = run_workload(seed, {.choose_frame = std::move(choose)});
    ASSERT_EQ(run.wrong, "") << "seed " << seed;
    strikes += struck ? 1 : 0;
  }
  EXPECT_GT(strikes, 0) << "no seed sends such a frame: let workload.cpp do what needs it";
}

std::string name_of_frame(const ::testing::TestParamInfo<std::tuple<FrameKind, Fault>>& test) {
  constexpr const char* kKinds[] = {"", "", "Call", "Reply", "Cancel", "", "", "", "Acknowledge", "Retry", "Received"};
  constexpr const char* kFaults[] = {"None", "Lost", "ReplyLost", "SenderDies", "ReceiverDies", "Twice"};
  return std::string{kKinds[static_cast<int>(std::get<0>(test.param))]} +
         kFaults[static_cast<int>(std::get<1>(test.param))];
}

INSTANTIATE_TEST_SUITE_P(EachFrame, FrameRows,
                         ::testing::Combine(::testing::Values(FrameKind::kCall, FrameKind::kReply, FrameKind::kCancel,
                                                              FrameKind::kAcknowledge, FrameKind::kRetry,
                                                              FrameKind::kReceived),
                                            ::testing::Values(Fault::kLost, Fault::kReplyLost, Fault::kSenderDies,
                                                              Fault::kReceiverDies, Fault::kTwice)),
                         name_of_frame);

/// The rows that this test covers. The other rows name the tests that cover their messages.
std::vector<std::size_t> simulated_rows() {
  std::vector<std::size_t> rows;
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    if (std::string_view{kRows[row].tested}.starts_with("Rows")) rows.push_back(row);
  }
  return rows;
}

TEST(RowsTest, OnlyTheRecordsOfTheHeadWhichAreNeverSentAreLeftOut) {
  const auto names = names_of(std::type_identity<wire::MessageKinds>{});
  const auto rows = simulated_rows();
  std::vector<std::string> left_out;
  for (std::size_t row = 0; row < kRows.size(); ++row) {
    if (std::find(rows.begin(), rows.end(), row) == rows.end()) left_out.push_back(names[row]);
  }
  EXPECT_EQ(left_out, (std::vector<std::string>{"ActorLife", "GroupPlaces", "StoredValue", "WriteOutcome"}));
}

INSTANTIATE_TEST_SUITE_P(EachMessage, Rows,
                         ::testing::Combine(::testing::ValuesIn(simulated_rows()),
                                            ::testing::Values(Fault::kLost, Fault::kReplyLost, Fault::kSenderDies,
                                                              Fault::kReceiverDies, Fault::kTwice)),
                         name_of);

}  // namespace
}  // namespace pharos::simulator
