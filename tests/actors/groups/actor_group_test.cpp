#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <numeric>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"

namespace pharos::cluster::actor_groups {
namespace {

using namespace std::chrono_literals;

class Worker {
 public:
  explicit Worker(int start) : start_{start}, constructed_{pharos::member()} {}
  Worker(const std::string& crashes_if_there, int start) : Worker{start} {
    if (std::ifstream{crashes_if_there}.good()) throw std::runtime_error{"the file is there"};
  }

  int start() const { return start_; }
  Member constructed() const { return constructed_; }
  Member place() const { return pharos::member(); }
  Async<Member> place_later() {
    const Member before = pharos::member();
    co_await async::sleep(1ms);
    if (pharos::member() != before) throw std::runtime_error{"another place"};
    co_return before;
  }
  int process() const { return ::getpid(); }
  std::size_t sum(int a, int b) const { return pharos::member().rank * 1000 + static_cast<std::size_t>(a + b); }
  std::vector<int> times(const std::vector<int>& part, int n) const {
    std::vector<int> all;
    for (const int each : part) all.push_back(n * each);
    return all;
  }
  /// Fails so many times.
  std::uint32_t fail_at_first(std::uint32_t times) const {
    if (context().attempt < times) throw std::runtime_error{"not yet"};
    return context().attempt;
  }
  void crash() const { ::raise(SIGKILL); }
  void stay() const { std::this_thread::sleep_for(20s); }
  /// The given rank throws; all other ranks only sleep.
  int throw_at(std::uint32_t rank) const {
    if (pharos::member().rank == rank) throw std::runtime_error{"the disk of this rank is full"};
    std::this_thread::sleep_for(20s);
    return 0;
  }
  void die_at(std::uint32_t rank) const {
    if (pharos::member().rank == rank) ::raise(SIGKILL);
    std::this_thread::sleep_for(20s);
  }

 private:
  int start_;
  Member constructed_;
};

/// A group whose rank 0 is slower than the other ranks.
class Mapper {
 public:
  std::pair<int, std::uint32_t> square(int n) {
    std::this_thread::sleep_for(pharos::member().rank == 0 ? 20ms : 2ms);
    return {n * n, pharos::member().rank};
  }
  int crash_once(const std::string& path, int n) {
    if (n == 5 && !std::ifstream{path}.good()) {
      std::ofstream{path} << "was here";
      ::raise(SIGKILL);
    }
    return n;
  }
  int crash_if_first(int n) {
    if (pharos::member().term == 1 && n == 5) ::raise(SIGKILL);
    return n;
  }
  int die(int) {
    ::raise(SIGKILL);
    return 0;
  }
  int work_until_cancelled(int ms_max) {
    for (int ms = 0; ms < ms_max; ++ms) {
      if (cancelled()) return -1;
      std::this_thread::sleep_for(1ms);
    }
    return ms_max;
  }
};

/// Has a group that another process has made.
class Foreman {
 public:
  explicit Foreman(ActorGroup<Worker> group) : group_{std::move(group)} {}

  std::vector<std::size_t> sums() const { return group_.gather<&Worker::sum>(1, 2).get(); }
  std::vector<std::size_t> sums_at(std::size_t host) const {
    return when_all(group_.slice({{"host", host}}).call_all<&Worker::sum>(1, 2)).get();
  }
  Member place_of(std::size_t rank) const { return group_.call<&Worker::place>(rank).get(); }
  void resize(std::size_t size) const { group_.resize(size).get(); }
  void kill() const { group_.kill(); }
  ActorGroup<Worker> group() const { return group_; }

 private:
  ActorGroup<Worker> group_;
};

ActorGroup<Worker> group_of_a_task(std::size_t size) {
  Runtime runtime;
  return runtime.spawn_group<Worker>({.size = size}, 3);
}

class Lodger {
 public:
  explicit Lodger(int number) : number_{number} {}
  int number() const { return number_; }

 private:
  int number_;
};

/// Has a placement group that another process has made.
class Tenant {
 public:
  explicit Tenant(PlacementGroup room) : room_{std::move(room)} {}

  int let_in() const {
    Runtime runtime;
    return runtime.spawn<Lodger>({.cpus = 1, .group = room_}, 5).call<&Lodger::number>().get();
  }
  std::vector<NodeId> nodes() const { return room_.nodes().get(); }
  void remove() const { room_.remove(); }

 private:
  PlacementGroup room_;
};

std::size_t size_of(const PlacementGroup& room) {
  return room.size();
}
PlacementGroup room_of_a_task() {
  Runtime runtime;
  return runtime.reserve({.bundles = {{.cpus = 1}}});
}

Deadline soon() {
  return Deadline::in(20s);
}
template <class T>
std::vector<T> get_all(const std::vector<Ref<T>>& refs) {
  return when_all(refs).get(soon());
}

class ActorGroupTest : public ClusterTest {
 protected:
  static bool lives(int process) { return ::kill(process, 0) == 0; }
};

TEST_F(ActorGroupTest, MembersHaveRanksAndAreCalledTogetherAndOneByOne) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.size = 4}, 7);
  group.ready().get(soon());
  EXPECT_EQ(group.size(), 4U);
  EXPECT_EQ(group.term(), 1U);
  EXPECT_EQ(get_all(group.call_all<&Worker::start>()), (std::vector{7, 7, 7, 7}));
  const auto constructed = get_all(group.call_all<&Worker::constructed>());
  const auto places = get_all(group.call_all<&Worker::place>());
  const auto later = get_all(group.call_all<&Worker::place_later>());
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(constructed[rank], (Member{constructed[0].group, 1, rank, 4}));
    EXPECT_EQ(places[rank], constructed[rank]);
    EXPECT_EQ(later[rank], constructed[rank]);
    EXPECT_EQ(group.call<&Worker::place>(rank).get(soon()), constructed[rank]);
    EXPECT_EQ(group.member(rank).call<&Worker::place>().get(soon()), constructed[rank]);
  }
  EXPECT_SAYS(message_of<InvalidArgument>([&] { static_cast<void>(group.call<&Worker::place>(4)); }),
              "there is no rank 4");
  const auto processes = get_all(group.call_all<&Worker::process>());
  EXPECT_EQ(std::set<int>(processes.begin(), processes.end()).size(), 4U);
}

TEST_F(ActorGroupTest, ArgumentsOfEachAndListsThatAreCutAndResultsThatAreBroughtTogether) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.size = 3}, 1);
  EXPECT_EQ(get_all(group.call_each<&Worker::sum>(std::vector{1, 2, 3}, std::vector{10, 20, 30})),
            (std::vector<std::size_t>{11, 1022, 2033}));
  EXPECT_SAYS(message_of<InvalidArgument>([&] {
                static_cast<void>(group.call_each<&Worker::sum>(std::vector{1, 2, 3}, std::vector{10, 20}));
              }),
              "there are 3 members, and 2 arguments");
  std::vector<int> items(11);
  std::iota(items.begin(), items.end(), 0);
  const auto parts = get_all(group.scatter<&Worker::times>(items, 3));
  EXPECT_EQ(parts[0], (std::vector{0, 3, 6, 9}));
  EXPECT_EQ(parts[1], (std::vector{12, 15, 18, 21}));
  EXPECT_EQ(parts[2], (std::vector{24, 27, 30}));
  EXPECT_EQ(get_all(group.scatter<&Worker::times>(std::vector{4}, 1))[1], std::vector<int>{});
  EXPECT_EQ(group.gather<&Worker::sum>(1, 2).get(soon()), (std::vector<std::size_t>{3, 1003, 2003}));
}

TEST_F(ActorGroupTest, CallsHaveDeadlinesAndRetriesAsThoseOfAnActor) {
  must_end_within(15s);
  Runtime runtime;
  const auto slow = runtime.spawn_group<Worker>({.size = 1}, 1);
  slow.ready().get(soon());
  EXPECT_THROW(slow.call<&Worker::stay>({.deadline = Deadline::in(50ms)}, 0).get(soon()), DeadlineExceeded);
  slow.kill();
  const auto group = runtime.spawn_group<Worker>({.size = 2}, 1);
  const CallOptions again{.max_retries = 2, .retry_on = types<std::runtime_error>};
  for (const auto& each : group.call_all<&Worker::fail_at_first>(again, 2U)) EXPECT_EQ(each.get(soon()), 2U);
  EXPECT_EQ(group.gather<&Worker::fail_at_first>(again, 1U).get(soon()), (std::vector<std::uint32_t>{1, 1}));
  EXPECT_EQ(get_all(group.call_each<&Worker::fail_at_first>(again, std::vector{0U, 2U})),
            (std::vector<std::uint32_t>{0, 2}));
  EXPECT_EQ(get_all(group.map<&Worker::fail_at_first>(std::vector{1U, 2U}, {.call = again})),
            (std::vector<std::uint32_t>{1, 2}));
  EXPECT_THROW(get_all(group.call_all<&Worker::fail_at_first>({.max_retries = 1, .retry_on = again.retry_on}, 2U)),
               UserError);
  EXPECT_EQ(get_all(group.scatter<&Worker::times>({.deadline = soon()}, std::vector{1, 2}, 3))[1], std::vector{6});
}

TEST_F(ActorGroupTest, AWorkListGoesToWhoHasTheLeastToDo) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Mapper>({.size = 3});
  std::vector<int> items(60);
  std::iota(items.begin(), items.end(), 0);
  const auto results = get_all(group.map<&Mapper::square>(items));
  std::vector<int> done(3);
  for (int n = 0; n < 60; ++n) {
    EXPECT_EQ(results[static_cast<std::size_t>(n)].first, n * n);
    ++done[results[static_cast<std::size_t>(n)].second];
  }
  EXPECT_LT(done[0], 15);
  EXPECT_GE(done[0], 2);
  EXPECT_TRUE(group.map<&Mapper::square>(std::vector<int>{}).empty());
}

TEST_F(ActorGroupTest, AWorkListGoesOnWhenAMemberDies) {
  Runtime runtime;
  for (const OnDeath policy : {OnDeath::kRestart, OnDeath::kShrink, OnDeath::kSpare}) {
    const auto group = runtime.spawn_group<Mapper>({.size = 3, .on_death = policy, .spares = 1});
    std::vector<int> items(30);
    std::iota(items.begin(), items.end(), 0);
    EXPECT_EQ(get_all(group.map<&Mapper::crash_if_first>(items)), items);
    EXPECT_EQ(group.size(), policy == OnDeath::kShrink ? 2U : 3U);
    EXPECT_EQ(group.term(), 2U);
    const auto given_up = group.map<&Mapper::die>(std::vector{1}, {.max_retries = 1});
    message_of<ActorDied>([&] { given_up[0].get(soon()); });
  }
  const auto fails = runtime.spawn_group<Mapper>({.size = 2});
  for (const auto& ref : fails.map<&Mapper::die>(std::vector{1, 2, 3, 4, 5, 6, 7})) {
    message_of<ActorDied>([&] { ref.get(soon()); });
  }
}

TEST_F(ActorGroupTest, AnItemOfAWorkListCanBeCancelledBeforeAndWhileAMemberHasIt) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Mapper>({.size = 1});
  const auto results = group.map<&Mapper::work_until_cancelled>(std::vector{60'000, 60'000, 1}, {.in_flight = 1});
  EXPECT_FALSE(results[0].try_get(Deadline::in(100ms)).ok());
  results[1].cancel();
  EXPECT_EQ(results[1].try_get(soon()).error().code(), ErrorCode::kCancelled);
  EXPECT_EQ(results[1].try_get(soon()).error().outcome(), Outcome::kNotStarted);
  results[0].cancel();
  EXPECT_EQ(results[0].get(soon()), -1);
  EXPECT_EQ(results[2].get(soon()), 1);
}

TEST_F(ActorGroupTest, AGroupThatFailsWithAMemberEndsAsAWholeAndSaysWho) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.name = "trainers", .size = 3}, 1);
  const auto processes = get_all(group.call_all<&Worker::process>());
  const auto stays = group.call<&Worker::stay>(0);
  message_of<ActorDied>([&] { group.call<&Worker::crash>(2).get(soon()); });
  const std::string text = message_of<ActorDied>([&] { group.call<&Worker::start>(1).get(soon()); });
  EXPECT_SAYS(text, "group \"trainers\" has lost member 2: actor \"trainers/2\"");
  EXPECT_SAYS(text, ". Fix what ends the member, or give the group OnDeath::kRestart.");
  EXPECT_EQ(text.find("max_restarts"), std::string::npos) << text;
  message_of<ActorDied>([&] { stays.get(soon()); });
  EXPECT_SAYS(message_of<ActorDied>([&] { group.call<&Worker::start>(2).get(soon()); }), "has lost member 2");
  EXPECT_EQ(group.call_all<&Worker::start>().size(), 3U);
  for (const auto& ref : group.call_all<&Worker::start>()) message_of<ActorDied>([&] { ref.get(soon()); });
  message_of<ActorDied>([&] { group.resize(4).get(soon()); });
  for (const int process : processes) EXPECT_TRUE(eventually([&] { return !lives(process); }));
}

TEST_F(ActorGroupTest, CallsOfAllMembersSayWhichOneHasDiedAndOfWhat) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.name = "trainers", .size = 3}, 1);
  group.ready().get(soon());
  const auto calls = group.call_all<&Worker::die_at>(1U);
  const auto took = time_of([&] {
    for (const std::size_t rank : {0U, 2U}) {
      const std::string text = message_of<ActorDied>([&] { calls[rank].get(soon()); });
      EXPECT_SAYS(text, "group \"trainers\" has lost member 1: ");
      EXPECT_SAYS(text, "SIGKILL");
    }
  });
  EXPECT_LT(took, 5s);
}

TEST_F(ActorGroupTest, WhatIsGatheredFailsWithTheFirstFailureItsRankAndItsWordsAtOnce) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.name = "trainers", .size = 3}, 1);
  group.ready().get(soon());
  const auto took = time_of([&] {
    const std::string text = message_of<UserError>([&] { group.gather<&Worker::throw_at>(1U).get(soon()); });
    EXPECT_SAYS(text, "rank 1: ");
    EXPECT_SAYS(text, "the disk of this rank is full");
  });
  EXPECT_LT(took, 5s);
  const auto dies = runtime.spawn_group<Worker>({.name = "mortals", .size = 3}, 1);
  dies.ready().get(soon());
  const auto died = time_of([&] {
    const std::string text = message_of<ActorDied>([&] { dies.gather<&Worker::die_at>(1U).get(soon()); });
    EXPECT_SAYS(text, "mortals/1");
    EXPECT_SAYS(text, "SIGKILL");
  });
  EXPECT_LT(died, 5s);
}

TEST_F(ActorGroupTest, AMemberIsMadeAnewInItsPlace) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.size = 3, .on_death = OnDeath::kRestart}, 7);
  const auto before = get_all(group.call_all<&Worker::process>());
  message_of<ActorDied>([&] { group.call<&Worker::crash>(1).get(soon()); });
  const auto after = get_all(group.call_all<&Worker::process>());
  EXPECT_EQ(group.term(), 2U);
  EXPECT_EQ(after[0], before[0]);
  EXPECT_NE(after[1], before[1]);
  EXPECT_EQ(after[2], before[2]);
  const auto places = get_all(group.call_all<&Worker::place>());
  for (std::uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(places[rank], (Member{places[0].group, 2, rank, 3}));
  EXPECT_EQ(group.call<&Worker::constructed>(1).get(soon()), places[1]);
  EXPECT_EQ(group.call<&Worker::start>(1).get(soon()), 7);
}

TEST_F(ActorGroupTest, TheOthersGoOnWithoutItAndRanksHaveNoGap) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.size = 3, .on_death = OnDeath::kShrink, .size_min = 2}, 1);
  const auto before = get_all(group.call_all<&Worker::process>());
  message_of<ActorDied>([&] { group.call<&Worker::crash>(1).get(soon()); });
  EXPECT_EQ(get_all(group.call_all<&Worker::process>()), (std::vector{before[0], before[2]}));
  const auto places = get_all(group.call_all<&Worker::place>());
  EXPECT_EQ(places[1], (Member{places[0].group, 2, 1, 2}));
  EXPECT_EQ(group.call<&Worker::constructed>(1).get(soon()).rank, 2U);
  message_of<ActorDied>([&] { group.call<&Worker::crash>(0).get(soon()); });
  EXPECT_SAYS(message_of<ActorDied>([&] { group.call<&Worker::start>(0).get(soon()); }),
              "has 1 members left, and needs 2");
}

TEST_F(ActorGroupTest, ASpareTakesThePlaceAndAnotherSpareIsMade) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.size = 2, .on_death = OnDeath::kSpare, .spares = 1}, 1);
  group.ready().get(soon());
  std::set<std::uint64_t> groups;
  for (std::uint64_t death = 1; death <= 3; ++death) {
    const auto before = get_all(group.call_all<&Worker::process>());
    message_of<ActorDied>([&] { group.call<&Worker::crash>(0).get(soon()); });
    const auto after = get_all(group.call_all<&Worker::process>());
    EXPECT_NE(after[0], before[0]);
    EXPECT_EQ(after[1], before[1]);
    EXPECT_EQ(group.term(), 1 + death);
    EXPECT_EQ(group.call<&Worker::constructed>(0).get(soon()).rank, Member::kSpare);
    const Member place = group.call<&Worker::place>(0).get(soon());
    EXPECT_EQ(place, (Member{place.group, 1 + death, 0, 2}));
    groups.insert(place.group);
  }
  EXPECT_EQ(groups.size(), 1U);
  message_of<ActorDied>([&] { group.call<&Worker::crash>(0).get(soon()); });
  EXPECT_SAYS(message_of<ActorDied>([&] { group.call<&Worker::start>(0).get(soon()); }), "survives at most 3 deaths");
}

TEST_F(ActorGroupTest, AConstructorThatThrowsIsToldAndNotTriedForEver) {
  Runtime runtime;
  const std::string path = census().folder().parent_path() / "is-there";
  std::ofstream{path} << "here";
  const auto group = runtime.spawn_group<Worker>({.size = 2, .on_death = OnDeath::kRestart}, path, 1);
  EXPECT_SAYS(message_of<ActorDied>([&] { group.ready().get(soon()); }), "the file is there");
  EXPECT_TRUE(eventually([&] {
    return message_of<ActorDied>([&] {
             group.call<&Worker::start>(0).get(soon());
           }).find("survives at most 3 deaths") != std::string::npos;
  }));
  std::remove(path.c_str());
}

TEST_F(ActorGroupTest, AGroupGrowsAndShrinksWhileItRuns) {
  Runtime runtime;
  const std::string path = census().folder().parent_path() / "forbids";
  const auto group = runtime.spawn_group<Worker>({.size = 2}, path, 5);
  const auto first = get_all(group.call_all<&Worker::process>());
  const auto grown = group.resize(4);
  message_of<FailedPrecondition>([&] { group.resize(5).get(soon()); });
  grown.get(soon());
  EXPECT_EQ(group.size(), 4U);
  EXPECT_EQ(group.term(), 2U);
  const auto four = get_all(group.call_all<&Worker::process>());
  EXPECT_EQ((std::vector{four[0], four[1]}), first);
  EXPECT_EQ(group.call<&Worker::start>(3).get(soon()), 5);
  group.resize(1).get(soon());
  EXPECT_EQ(get_all(group.call_all<&Worker::process>()), std::vector{first[0]});
  for (std::size_t rank = 1; rank < 4; ++rank) EXPECT_TRUE(eventually([&] { return !lives(four[rank]); }));
  std::ofstream{path} << "here";
  EXPECT_SAYS(message_of<ActorDied>([&] { group.resize(3).get(soon()); }), "the file is there");
  EXPECT_EQ(group.size(), 1U);
  EXPECT_EQ(group.term(), 3U);
  std::remove(path.c_str());
  group.resize(3).get(soon());
  EXPECT_EQ(get_all(group.call_all<&Worker::place>())[2].size, 3U);
  message_of<InvalidArgument>([&] { group.resize(0).get(soon()); });
}

TEST_F(ActorGroupTest, AGrowthThatWaitsForRoomMayBeGivenUp) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  const auto group = runtime.spawn_group<Worker>({.size = 2, .member = {.cpus = 1}}, 1);
  group.ready().get(soon());
  const auto grown = group.resize(3);
  EXPECT_FALSE(grown.try_get(Deadline::in(100ms)));
  group.resize(2).get(soon());
  grown.cancel();
  EXPECT_FALSE(grown.try_get(soon()));
  EXPECT_TRUE(eventually([&] {
    const auto again = group.resize(3);
    const bool refused = again.ready();
    again.cancel();
    return !refused;
  }));
  EXPECT_EQ(group.size(), 2U);
  EXPECT_EQ(get_all(group.call_all<&Worker::start>()), (std::vector{1, 1}));
}

TEST_F(ActorGroupTest, AGrowthThatWaitsForRoomEndsWithWhatWantedIt) {
  Runtime runtime{RuntimeOptions{.cpus = 3}};
  const ActorGroupOptions one{.size = 1, .member = {.cpus = 1}};
  const auto is_given_up = [](const Ref<void>& grown, const char* why) {
    const auto result = grown.try_get(soon());
    ASSERT_FALSE(result);
    EXPECT_SAYS(result.error().message(), why);
  };
  std::optional other{runtime.spawn_group<Worker>(one, 1)};
  other->ready().get(soon());
  // A resize() to another size gives the growth up: no member is added when there is room later.
  std::optional group{runtime.spawn_group<Worker>({.size = 2, .member = {.cpus = 1}}, 1)};
  group->ready().get(soon());
  const auto grown = group->resize(3);
  EXPECT_FALSE(grown.try_get(Deadline::in(100ms)));
  group->resize(1).get(soon());
  is_given_up(grown, "the group was resized to 1 members");
  other.reset();
  other.emplace(runtime.spawn_group<Worker>(one, 1));
  other->ready().get(soon());
  EXPECT_EQ(group->size(), 1U);
  // The end of the group gives the growth up, and so does the end of its last handle.
  const auto more = group->resize(4);
  EXPECT_FALSE(more.try_get(Deadline::in(100ms)));
  group->kill();
  is_given_up(more, "killed by this program");
  group.emplace(runtime.spawn_group<Worker>(one, 1));
  group->ready().get(soon());
  const auto most = group->resize(3);
  EXPECT_FALSE(most.try_get(Deadline::in(100ms)));
  group.reset();
  is_given_up(most, "");
  other.reset();
  runtime.spawn_group<Worker>({.size = 3, .member = {.cpus = 1}}, 1).ready().get(soon());
}

TEST_F(ActorGroupTest, AWorkListGoesOnWhenTheGroupShrinks) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Mapper>({.size = 3});
  std::vector<int> items(60);
  std::iota(items.begin(), items.end(), 0);
  const auto refs = group.map<&Mapper::square>(items, {.max_retries = 0});
  refs[0].get(soon());
  group.resize(1).get(soon());
  const auto results = get_all(refs);
  for (int n = 0; n < 60; ++n) EXPECT_EQ(results[static_cast<std::size_t>(n)].first, n * n);
}

TEST_F(ActorGroupTest, ACallOfATermThatIsOverIsRefused) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.size = 1}, 1);
  const auto old_term = detail::term_of(*group.core());
  group.resize(2).get(soon());
  group.ready().get(soon());
  using Function = detail::GroupMethod<Worker, &Worker::process>;
  detail::Arguments& arguments = detail::scratch_arguments(*old_term->actors[0], *Function::registered);
  Function::encode(arguments, old_term->place);
  const Ref<int> refused{detail::call_actor(*old_term->actors[0], {}, *Function::registered, arguments)};
  const auto error = refused.try_get(soon());
  ASSERT_FALSE(error);
  EXPECT_EQ(error.error().code(), ErrorCode::kFailedPrecondition);
  EXPECT_SAYS(error.error().message(), "the call was made for term 1 of its group, which is in term 2 now");
}

TEST_F(ActorGroupTest, MembersArePlacedTogetherOrNotAtAll) {
  Runtime runtime{RuntimeOptions{.cpus = 4}};
  const auto never = runtime.spawn_group<Worker>({.name = "large", .size = 3, .member = {.cpus = 2}}, 1);
  EXPECT_SAYS(message_of<InvalidArgument>([&] { never.ready().get(soon()); }), "large");
  std::optional first{runtime.spawn_group<Worker>({.member = {.cpus = 3}, .members = {{.cpus = 1}, {.cpus = 2}}}, 1)};
  first->ready().get(soon());
  const auto second = runtime.spawn_group<Worker>({.size = 2, .member = {.cpus = 1}}, 1);
  const auto ready = second.ready();
  EXPECT_FALSE(ready.try_get(Deadline::in(300ms)));
  EXPECT_EQ(census().processes(Part::kWorker).size(), 2U);
  EXPECT_SAYS(message_of<InvalidArgument>([&] { first->resize(4).get(soon()); }), "growing group");
  EXPECT_EQ(first->size(), 2U);
  first.reset();
  ready.get(soon());
}

TEST_F(ActorGroupTest, MembersEndWithTheLastHandleOrWhenTheyAreToldTo) {
  Runtime runtime;
  std::optional group{runtime.spawn_group<Worker>({.size = 2}, 1)};
  const auto dropped = get_all(group->call_all<&Worker::process>());
  group.reset();
  for (const int process : dropped) EXPECT_TRUE(eventually([&] { return !lives(process); }));
  for (const bool gently : {true, false}) {
    group = runtime.spawn_group<Worker>({.size = 2}, 1);
    const auto ended = get_all(group->call_all<&Worker::process>());
    gently ? group->stop() : group->kill();
    EXPECT_SAYS(message_of<ActorDied>([&] { group->call<&Worker::start>(0).get(soon()); }), "by this program");
    for (const int process : ended) EXPECT_TRUE(eventually([&] { return !lives(process); }));
  }
}

TEST_F(ActorGroupTest, WhatMakesNoSenseIsRefused) {
  message_of<FailedPrecondition>([] { pharos::member(); });
  Runtime runtime;
  EXPECT_SAYS(message_of<InvalidArgument>([&] { runtime.spawn_group<Worker>({.name = "none"}, 1); }), "no members");
  message_of<InvalidArgument>([&] { runtime.spawn_group<Worker>({.size = 3, .members = {{}, {}}}, 1); });
  const auto alone = runtime.spawn<Mapper>();
  message_of<FailedPrecondition>([&] { alone.call<&Mapper::square>(1).get(soon()); });
}

// ---- Slices

TEST_F(ActorGroupTest, DimensionsGiveTheSizeAndSlicesCallThoseAtOnePlace) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.dimensions = {{"host", 2}, {"gpu", 3}}}, 1);
  ASSERT_EQ(group.size(), 6U);
  const auto host = group.slice({{"host", 1}});
  EXPECT_EQ(host.ranks(), (std::vector<std::size_t>{3, 4, 5}));
  EXPECT_EQ(get(host.call_all<&Worker::sum>(1, 2)), (std::vector<std::size_t>{3003, 4003, 5003}));
  EXPECT_EQ(host.gather<&Worker::sum>(0, 0).get(soon()), (std::vector<std::size_t>{3000, 4000, 5000}));
  const auto gpu = group.slice({{"gpu", 2}});
  EXPECT_EQ(gpu.ranks(), (std::vector<std::size_t>{2, 5}));
  EXPECT_EQ(get(gpu.call_each<&Worker::sum>(std::vector{1, 2}, std::vector{3, 4})),
            (std::vector<std::size_t>{2004, 5006}));
  EXPECT_EQ(host.slice({{"gpu", 0}}).ranks(), (std::vector<std::size_t>{3}));
  EXPECT_EQ(group.slice({}).size(), 6U);
}

TEST_F(ActorGroupTest, SlicesThatThereAreNotAreRefused) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.size = 4, .dimensions = {{"host", 2}, {"gpu", 2}}}, 1);
  EXPECT_SAYS(message_of<InvalidArgument>([&] { group.slice({{"rack", 0}}); }), "no dimension \"rack\"");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { group.slice({{"gpu", 2}}); }), "2 places, so there is no place 2");
  EXPECT_SAYS(message_of<InvalidArgument>([&] {
                static_cast<void>(group.slice({{"gpu", 0}}).call_each<&Worker::sum>(std::vector{1}, std::vector{1, 2}));
              }),
              "2 members, and 1 arguments");
  const auto make = [&](ActorGroupOptions options) {
    return message_of<InvalidArgument>([&] { runtime.spawn_group<Worker>(options, 1); });
  };
  EXPECT_SAYS(make({.size = 3, .dimensions = {{"host", 2}}}), "3 members, but its dimensions have 2 places");
  EXPECT_SAYS(make({.dimensions = {{"host", 0}}}), "no place in its dimension \"host\"");
  EXPECT_SAYS(make({.dimensions = {{"host", 2}, {"host", 2}}}), "two dimensions \"host\"");
  EXPECT_SAYS(make({.dimensions = {{"host", 1 << 30}, {"gpu", std::size_t{1} << 40}}}), "too many");
  group.resize(3).get(soon());
  EXPECT_SAYS(message_of<FailedPrecondition>([&] { group.slice({{"gpu", 0}}); }), "3 members now");
}

// ---- Groups that are sent

TEST_F(ActorGroupTest, AReceiverCallsTheMembersAsTheirMakerDoes) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.dimensions = {{"host", 2}, {"gpu", 2}}}, 1);
  const auto foreman = runtime.spawn<Foreman>(group);
  EXPECT_EQ(foreman.call<&Foreman::sums>().get(soon()), (std::vector<std::size_t>{3, 1003, 2003, 3003}));
  EXPECT_EQ(foreman.call<&Foreman::sums_at>(1).get(soon()), (std::vector<std::size_t>{2003, 3003}));
  EXPECT_EQ(foreman.call<&Foreman::place_of>(2).get(soon()), group.call<&Worker::place>(2).get(soon()));
  EXPECT_SAYS(message_of<FailedPrecondition>([&] { foreman.call<&Foreman::resize>(3).get(soon()); }),
              "this process has not made the group");
  const auto back = foreman.call<&Foreman::group>().get(soon());
  EXPECT_EQ(get_all(back.call_all<&Worker::process>()), get_all(group.call_all<&Worker::process>()));
}

TEST_F(ActorGroupTest, AReceiverKeepsTheMembersAndMayEndThem) {
  Runtime runtime;
  std::optional group{runtime.spawn_group<Worker>({.size = 2, .member = {.cpus = 1}}, 1)};
  const auto processes = get_all(group->call_all<&Worker::process>());
  const auto foreman = runtime.spawn<Foreman>({.cpus = 0}, *group);
  foreman.call<&Foreman::sums>().get(soon());
  group.reset();
  EXPECT_EQ(foreman.call<&Foreman::sums>().get(soon()), (std::vector<std::size_t>{3, 1003}));
  for (const int process : processes) EXPECT_TRUE(lives(process));
  foreman.call<&Foreman::kill>().get(soon());
  EXPECT_SAYS(message_of<ActorDied>([&] { foreman.call<&Foreman::sums>().get(soon()); }), "killed by this program");
  for (const int process : processes) EXPECT_TRUE(eventually([&] { return !lives(process); }));
}

TEST_F(ActorGroupTest, AReceiverDoesNotHearOfLaterTerms) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.size = 2, .on_death = OnDeath::kRestart}, 1);
  const auto foreman = runtime.spawn<Foreman>(group);
  foreman.call<&Foreman::sums>().get(soon());
  static_cast<void>(group.call<&Worker::crash>(1));
  EXPECT_TRUE(eventually([&] { return group.term() == 2; }));
  EXPECT_EQ(group.gather<&Worker::sum>(1, 2).get(soon()), (std::vector<std::size_t>{3, 1003}));
  message_of<ActorDied>([&] { foreman.call<&Foreman::place_of>(1).get(soon()); });
  EXPECT_SAYS(message_of<FailedPrecondition>([&] { foreman.call<&Foreman::place_of>(0).get(soon()); }), "term 2");
  const auto again = runtime.spawn<Foreman>(group);
  EXPECT_EQ(again.call<&Foreman::sums>().get(soon()), (std::vector<std::size_t>{3, 1003}));
}

TEST_F(ActorGroupTest, AGroupMayBeAResult) {
  Runtime runtime;
  const auto group = runtime.submit<&group_of_a_task>(std::size_t{3}).get(soon());
  EXPECT_EQ(group.size(), 3U);
  EXPECT_EQ(get_all(group.call_all<&Worker::start>()), (std::vector{3, 3, 3}));
}

TEST_F(ActorGroupTest, AFailedGroupIsSentWithItsFailure) {
  Runtime runtime;
  const auto group = runtime.spawn_group<Worker>({.name = "lost", .size = 2}, 1);
  message_of<ActorDied>([&] { group.call<&Worker::crash>(0).get(soon()); });
  EXPECT_TRUE(eventually([&] { return !group.call<&Worker::start>(1).try_get(soon()); }));
  const auto foreman = runtime.spawn<Foreman>(group);
  EXPECT_SAYS(message_of<ActorDied>([&] { foreman.call<&Foreman::sums>().get(soon()); }), "\"lost\" has lost member 0");
}

TEST_F(ActorGroupTest, APlacementGroupBelongsToAllWhoHaveIt) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  std::optional room{runtime.reserve({.bundles = {{.cpus = 1}}})};
  const auto tenant = runtime.spawn<Tenant>({.cpus = 0}, *room);
  EXPECT_EQ(tenant.call<&Tenant::nodes>().get(soon()), room->nodes().get(soon()));
  EXPECT_EQ(tenant.call<&Tenant::let_in>().get(soon()), 5);
  room.reset();
  EXPECT_EQ(tenant.call<&Tenant::let_in>().get(soon()), 5);
  const auto both = runtime.reserve({.bundles = {{.cpus = 2}}});
  EXPECT_FALSE(both.nodes().try_get(Deadline::in(200ms)));
  tenant.call<&Tenant::remove>().get(soon());
  both.nodes().get(soon());
}

TEST_F(ActorGroupTest, APlacementGroupTravelsWhenItHasItsPlaces) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  const auto first = runtime.reserve({.bundles = {{.cpus = 2}}});
  first.nodes().get(soon());
  const auto second = runtime.reserve({.bundles = {{.cpus = 1}, {.cpus = 1}}});
  const auto size = runtime.submit<&size_of>({.cpus = 0}, second);
  EXPECT_FALSE(size.try_get(Deadline::in(200ms)));
  first.remove();
  EXPECT_EQ(size.get(soon()), 2U);
  EXPECT_EQ(runtime.submit<&size_of>({.cpus = 0}, PlacementGroup{}).get(soon()), 0U);
}

TEST_F(ActorGroupTest, APlacementGroupMayBeAResult) {
  Runtime runtime{RuntimeOptions{.cpus = 2}};
  const PlacementGroup room = runtime.submit<&room_of_a_task>().get(soon());
  EXPECT_EQ(room.nodes().get(soon()).size(), 1U);
  EXPECT_EQ(runtime.spawn<Lodger>({.cpus = 1, .group = room}, 4).call<&Lodger::number>().get(soon()), 4);
  const auto both = runtime.reserve({.bundles = {{.cpus = 2}}});
  EXPECT_FALSE(both.nodes().try_get(Deadline::in(200ms)));
  room.remove();
  both.nodes().get(soon());
}

}  // namespace
}  // namespace pharos::cluster::actor_groups
