// Members of a group as ranks: actor processes that the cluster has started.

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <random>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/ml/group.hpp>
#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "promised.hpp"

namespace pharos::cluster::collective {
namespace {

using namespace std::chrono_literals;

class Trainer {
 public:
  bool shares_memory() const { return ml::communicator().shares_memory(); }
  std::pair<std::uint32_t, std::uint32_t> place() const {
    return {ml::communicator().rank(), ml::communicator().size()};
  }
  /// Each rank gives its number plus one.
  double sum(std::size_t elements) const {
    auto& ranks = ml::communicator();
    std::vector<double> data(elements, ranks.rank() + 1);
    ranks.all_reduce(std::span{data});
    for (const double each : data) {
      if (each != data[0]) throw std::runtime_error{"elements differ"};
    }
    return data[0];
  }
  std::vector<double> summed(std::vector<double> own) const {
    ml::communicator().all_reduce(std::span{own});
    return own;
  }
  void reduce_until_it_fails() const {
    std::vector<float> data(100'000, 1);
    for (;;) ml::communicator().all_reduce(std::span{data}, ml::Reduction::kMean);
  }
  /// One rank throws, while the other ranks wait for it.
  double throw_at(std::uint32_t rank) const {
    if (ml::communicator().rank() == rank) throw std::runtime_error{"the disk of this rank is full"};
    return sum(1000);
  }
  int process() const { return ::getpid(); }
};

Deadline soon() {
  return Deadline::in(20s);
}

class GroupCommunicators : public ClusterTest {
 protected:
  static ActorGroup<Trainer> connected(Runtime& runtime, const ActorGroupOptions& options) {
    auto group = runtime.spawn_group<Trainer>(options);
    ml::connect(group);
    return group;
  }
  static void expect_sums(const ActorGroup<Trainer>& group) {
    const double n = static_cast<double>(group.size());
    for (const double sum : group.gather<&Trainer::sum>(std::size_t{100'000}).get(soon())) {
      EXPECT_EQ(sum, n * (n + 1) / 2);
    }
  }
};

TEST_F(GroupCommunicators, MembersWorkTogetherAsTheirRanks) {
  Runtime runtime;
  const auto group = connected(runtime, {.name = "trainers", .size = 4});
  const auto places = group.gather<&Trainer::place>().get(soon());
  for (std::uint32_t rank = 0; rank < 4; ++rank) EXPECT_EQ(places[rank], (std::pair{rank, 4U}));
  expect_sums(group);
}

TEST_F(GroupCommunicators, MembersOfOneMachineMayDoAsIfEachHadItsOwn) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Trainer>({.name = "trainers", .size = 3});
  ml::connect(group, {.share_memory = false});
  EXPECT_FALSE(group.call<&Trainer::shares_memory>(0).get(soon()));
  expect_sums(group);
  ml::connect(group);
  EXPECT_TRUE(group.call<&Trainer::shares_memory>(0).get(soon()));
  expect_sums(group);
}

/// Two ranks each, as if they were on two machines.
TEST_F(GroupCommunicators, OnSeveralMachinesSumsAreOfMachinesOrInTheOrderOfTheRanks) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Trainer>({.name = "trainers", .size = 4});
  std::mt19937 random{7};
  std::normal_distribution<double> normal;
  std::vector<std::vector<double>> given(4, std::vector<double>(10'000));
  for (auto& of_rank : given) {
    for (double& each : of_rank) each = normal(random);
  }
  for (const bool sums_by_rank : {false, true}) {
    const ml::CommunicatorOptions options{.share_memory = false, .sums_by_rank = sums_by_rank};
    auto offers = group.gather<&ml::detail::offer<Trainer>>(options).get(soon());
    for (std::size_t rank = 0; rank < 4; ++rank) offers[rank].machine = rank < 2 ? "one" : "other";
    group.gather<&ml::detail::join<Trainer>>(offers, ml::detail::new_rank_key(), options).get(soon());
    for (const auto& sums : when_all(group.call_each<&Trainer::summed>(given)).get(soon())) {
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const double first = given[0][i] + given[1][i];
        const double by_rank = first + given[2][i] + given[3][i];
        ASSERT_EQ(sums[i], sums_by_rank ? by_rank : first + (given[2][i] + given[3][i])) << i;
      }
    }
  }
}

TEST_F(GroupCommunicators, AWorldOfOne) {
  Runtime runtime;
  expect_sums(connected(runtime, {.name = "alone", .size = 1}));
}

TEST_F(GroupCommunicators, AGroupThatNobodyHasConnectedSaysSo) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Trainer>({.name = "trainers", .size = 2});
  EXPECT_SAYS(message_of<FailedPrecondition>([&] { group.call<&Trainer::place>(0).get(soon()); }),
              "the group is not connected in term 1");
  ml::connect(group);
  ml::connect(group);
  expect_sums(group);
  group.resize(3).get(soon());
  EXPECT_SAYS(message_of<FailedPrecondition>([&] { group.call<&Trainer::place>(0).get(soon()); }),
              "the group is not connected in term 2");
  ml::connect(group);
  expect_sums(group);
}

TEST_F(GroupCommunicators, WhenOneIsKilledTheOthersHearWhoAndGoOnInANewTerm) {
  Runtime runtime;
  const Times told;
  for (const OnDeath on_death : {OnDeath::kRestart, OnDeath::kShrink, OnDeath::kSpare}) {
    const auto group = connected(runtime, {.name = "trainers", .size = 3, .on_death = on_death, .spares = 1});
    const auto processes = group.gather<&Trainer::process>().get(soon());
    const auto loops = group.call_all<&Trainer::reduce_until_it_fails>();
    ::kill(processes[1], SIGKILL);
    told.add(time_of([&] {
      EXPECT_SAYS(message_of<ActorDied>([&] { loops[0].get(soon()); }), "rank 1");
      EXPECT_SAYS(message_of<ActorDied>([&] { loops[2].get(soon()); }), "rank 1");
    }));
    message_of<ActorDied>([&] { loops[1].get(soon()); });
    ml::connect(group);
    EXPECT_EQ(group.term(), 2U);
    EXPECT_EQ(group.size(), on_death == OnDeath::kShrink ? 2U : 3U);
    expect_sums(group);
  }
  told.expect_within(kDeathIsToldIn);
}

TEST_F(GroupCommunicators, WhenOneThrowsTheOthersHearWhoAndItsWordsAtOnce) {
  Runtime runtime;
  for (const bool share_memory : {true, false}) {
    const auto group = runtime.spawn_group<Trainer>({.name = "trainers", .size = 3});
    ml::connect(group, {.share_memory = share_memory});
    const auto calls = group.call_all<&Trainer::throw_at>(1U);
    const auto took = time_of([&] {
      for (const std::size_t rank : {0U, 2U}) {
        const std::string text = message_of<Cancelled>([&] { calls[rank].get(soon()); });
        EXPECT_SAYS(text, "rank 1 has given up: ");
        EXPECT_SAYS(text, "the disk of this rank is full");
      }
    });
    EXPECT_LT(took, 5s);
    message_of<UserError>([&] { calls[1].get(soon()); });
    const std::string first = message_of<UserError>([&] {
      ml::connect(group, {.share_memory = share_memory});
      group.gather<&Trainer::throw_at>(1U).get(soon());
    });
    EXPECT_SAYS(first, "rank 1: ");
    EXPECT_SAYS(first, "the disk of this rank is full");
    ml::connect(group, {.share_memory = share_memory});
    expect_sums(group);
  }
}

TEST_F(GroupCommunicators, WhenOneIsStoppedItIsKilledAndTheOthersGoOnInANewTerm) {
  Runtime runtime;
  const Times told;
  for (const bool share_memory : {true, false}) {
    constexpr Duration kTimeout = kIsSanitized ? 3s : 500ms;
    const auto group = runtime.spawn_group<Trainer>({.name = "trainers", .size = 3, .on_death = OnDeath::kRestart});
    ml::connect(group, {.timeout = kTimeout, .share_memory = share_memory});
    const auto processes = group.gather<&Trainer::process>().get(soon());
    const auto loops = group.call_all<&Trainer::reduce_until_it_fails>();
    ::kill(processes[1], SIGSTOP);
    const Duration time = time_of([&] {
      EXPECT_SAYS(message_of<DeadlineExceeded>([&] { loops[0].get(soon()); }), "waits for rank 1");
      EXPECT_SAYS(message_of<DeadlineExceeded>([&] { loops[2].get(soon()); }), "waits for rank 1");
    });
    told.add(time - kTimeout);
    EXPECT_EQ(group.term(), 1U);
    group.member(1).kill();
    message_of<ActorDied>([&] { loops[1].get(soon()); });
    ASSERT_TRUE(eventually([&] { return group.term() == 2; }));
    ml::connect(group, {.share_memory = share_memory});
    EXPECT_TRUE(eventually([&] { return ::kill(processes[1], 0) != 0; })) << "it is there still";
    EXPECT_EQ(group.size(), 3U);
    EXPECT_EQ(group.call<&Trainer::shares_memory>(0).get(soon()), share_memory);
    expect_sums(group);
  }
  told.expect_within(kDeadlineIsToldIn);
}

TEST_F(GroupCommunicators, WhoDiesBeforeItHasComeIsMissedAtOnce) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Trainer>({.name = "trainers", .size = 3, .on_death = OnDeath::kRestart});
  const Times told;
  for (int i = 0; i < 3; ++i) {
    const auto processes = group.gather<&Trainer::process>().get(soon());
    auto offers = group.gather<&ml::detail::offer<Trainer>>(ml::CommunicatorOptions{}).get(soon());
    const auto first = group.call<&ml::detail::join<Trainer>>(0, offers, ml::detail::new_rank_key(),
                                                              ml::CommunicatorOptions{.timeout = 20s});
    ::kill(processes[1], SIGKILL);
    told.add(time_of([&] { EXPECT_SAYS(message_of<ActorDied>([&] { first.get(soon()); }), "rank 1"); }));
    ml::connect(group);
    expect_sums(group);
  }
  told.expect_within(kDeathIsToldIn);
}

TEST_F(GroupCommunicators, WhoIsStoppedBeforeItHasComeIsNamedInTime) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Trainer>({.name = "trainers", .size = 3});
  const auto processes = group.gather<&Trainer::process>().get(soon());
  const ml::CommunicatorOptions options{.timeout = kIsSanitized ? 3s : 500ms};
  const Times told;
  const auto expect_named = [&](const auto& call) {
    const Duration time =
        time_of([&] { EXPECT_SAYS(message_of<DeadlineExceeded>(call), "1 of 3 ranks did not answer: rank 1"); });
    EXPECT_GE(time, options.timeout);
    told.add(time - options.timeout - ml::detail::kAnswerTime);
  };
  const auto offers = group.gather<&ml::detail::offer<Trainer>>(options).get(soon());
  ::kill(processes[1], SIGSTOP);
  expect_named([&] {
    ml::detail::answers(group.call_all<&ml::detail::join<Trainer>>(offers, ml::detail::new_rank_key(), options),
                        options);
  });
  expect_named([&] { ml::connect(group, options); });
  told.expect_within(kDeadlineIsToldIn);
  ::kill(processes[1], SIGCONT);
  ml::connect(group);
  expect_sums(group);
}

TEST_F(GroupCommunicators, MemoryOfAnotherProcessIsNotTakenForTheirs) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Trainer>({.name = "trainers", .size = 2});
  auto offers = group.gather<&ml::detail::offer<Trainer>>(ml::CommunicatorOptions{}).get(soon());
  const auto join = [&] {
    for (const auto& joined : group.call_all<&ml::detail::join<Trainer>>(offers, ml::detail::RankKey{},
                                                                         ml::CommunicatorOptions{.timeout = 200ms}))
      joined.get(soon());
  };
  auto given = offers;
  offers[0].process = ::getpid();
  offers[0].meeting = 0;
  EXPECT_THROW(join(), Exception);
  offers = given;
  std::swap(offers[0], offers[1]);
  EXPECT_SAYS(message_of<FailedPrecondition>(join), "another connect() of this group runs at the same time");
  ml::connect(group);
  expect_sums(group);
}

TEST_F(GroupCommunicators, ConnectingGoesOnWithWhoIsThereWhenOneDiesMeanwhile) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Trainer>({.size = 3, .on_death = OnDeath::kRestart, .deaths_max = 8});
  for (int i = 0; i < 4; ++i) {
    const auto processes = group.gather<&Trainer::process>().get(soon());
    std::thread killer{[&] { ::kill(processes[static_cast<std::size_t>(i) % 3], SIGKILL); }};
    ml::connect(group);
    killer.join();
    try {
      expect_sums(group);
    } catch (const Exception&) {  // a member was killed after the group had been connected
      ml::connect(group);
      expect_sums(group);
    }
  }
}

}  // namespace
}  // namespace pharos::cluster::collective
