#include "launch/rendezvous.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <pharos/net/blocking_io.hpp>

#include "own_loopback.hpp"
#include "ranks.hpp"
#include "says.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

class RendezvousTest : public testing::Test {
 protected:
  TemporaryFolder folder_;
  const MeetingPlace at_{.address = {.unix_socket = true, .place = folder_.path() / "ranks"}};
  const net::Address& place_ = at_.address;

  static detail::RankOffer offer_of(std::uint32_t rank) {
    return {.machine = "here", .process = static_cast<int>(rank)};
  }
  auto meet(std::uint32_t rank, std::uint32_t ranks, Duration time) const {
    return meet_at(
        at_, rank, ranks, [&](const std::string&) { return Result<detail::RankOffer>{offer_of(rank)}; },
        Deadline::in(time));
  }
};

TEST_F(RendezvousTest, AllHaveTheOffersOfAllWhoeverComesFirst) {
  for (const std::uint32_t late : {0U, 1U, 3U}) {
    std::vector<std::thread> ranks;
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      ranks.emplace_back([&, rank] {
        if (rank == late) std::this_thread::sleep_for(50ms);
        const auto offers = meet(rank, 4, 20s);
        ASSERT_TRUE(offers) << offers.error().message();
        ASSERT_EQ(offers->offers.size(), 4U);
        for (std::uint32_t each = 0; each < 4; ++each) EXPECT_EQ(offers->offers[each].process, static_cast<int>(each));
      });
    }
    for (auto& each : ranks) each.join();
    EXPECT_FALSE(std::filesystem::exists(place_.place));
  }
}

TEST_F(RendezvousTest, WhoDoesNotComeIsNamedToThoseThatCame) {
  Error at_1{ErrorCode::kInternal, ""};
  std::thread rank_1{[&] { at_1 = meet(1, 4, 300ms).error(); }};
  const auto at_0 = meet(0, 4, 300ms);
  rank_1.join();
  EXPECT_SAYS(at_0.error().message(), "of 4 ranks, these did not join in time: 2, 3");
  EXPECT_SAYS(at_1.message(), "of 4 ranks, these did not join in time: 2, 3");
  EXPECT_SAYS(meet(1, 2, 50ms).error().message(), "rank 0 could not be reached");
}

TEST_F(RendezvousTest, WhoDoesNotFitIsRefusedAndAllHearWhy) {
  using Said = std::pair<std::uint32_t, std::uint32_t>;  // a rank, and the number of ranks
  const auto expect_refused = [&](const std::vector<Said>& said, const std::string& why) {
    std::vector<std::thread> all;
    for (const auto& [rank, ranks] : said) {
      all.emplace_back([&, rank = rank, ranks = ranks] {
        const auto offers = meet(rank, ranks, 20s);
        ASSERT_FALSE(offers);
        EXPECT_SAYS(offers.error().message(), why);
      });
    }
    for (auto& each : all) each.join();
  };
  expect_refused({{0, 3}, {1, 3}, {1, 3}}, "two processes say that they are rank 1 of 3");
  expect_refused({{0, 3}, {2, 2}}, "rank 2 of 2 cannot join a group of 3 ranks");
  expect_refused({{0, 3}, {7, 8}}, "rank 7 of 8 cannot join a group of 3 ranks");
}

TEST_F(RendezvousTest, ASecondRank0IsRefusedAndTheFirstGoesOn) {
  std::thread rank_0{[&] { EXPECT_TRUE(meet(0, 2, 20s)); }};
  while (!net::connect_to(place_, Deadline::in(1s))) std::this_thread::sleep_for(1ms);
  EXPECT_EQ(meet(0, 2, 20s).error().code(), ErrorCode::kAlreadyExists);
  EXPECT_TRUE(meet(1, 2, 20s));
  rank_0.join();
}

TEST_F(RendezvousTest, WhatAKilledRank0HasLeftIsNoHindrance) {
  {
    const auto left = net::listen_at(place_);
    ASSERT_TRUE(left);
  }
  ASSERT_TRUE(std::filesystem::exists(place_.place));
  std::thread rank_1{[&] { EXPECT_TRUE(meet(1, 2, 20s)); }};
  EXPECT_TRUE(meet(0, 2, 20s));
  rank_1.join();
}

TEST_F(RendezvousTest, BytesThatMakeNoSenseAreNoRank) {
  std::thread rank_0{[&] { EXPECT_TRUE(meet(0, 2, 20s)); }};
  for (const std::string& bytes : {std::string(8, '\xff'), std::string{"\x08\0\0\0 nonsense", 13}, std::string{}}) {
    auto socket = net::connect_to(place_, Deadline::in(1s));
    while (!socket) socket = net::connect_to(place_, Deadline::in(1s));
    EXPECT_TRUE(net::send_all(socket->get(), std::as_bytes(std::span{bytes}), Deadline::in(1s)));
  }
  EXPECT_TRUE(meet(1, 2, 20s));
  rank_0.join();
}

TEST_F(RendezvousTest, OverTcpOnlyThoseWithTheTokenMeet) {
  net::Key token;
  net::Key wrong;
  fill_random(token);
  fill_random(wrong);
  auto free = net::listen_at({.unix_socket = false, .place = own_loopback(), .port = 0});
  ASSERT_TRUE(free);
  const net::Address address = *net::bound_address(free->get());
  free->reset();
  const auto meet_with = [&](std::uint32_t rank, const net::Key& key) {
    std::string host;
    const auto make = [&](const std::string& reached_at) -> Result<detail::RankOffer> {
      host = reached_at;
      return offer_of(rank);
    };
    auto met = meet_at({.address = address, .token = key}, rank, 2, make, Deadline::in(20s));
    // Rank 0 is reached where it listens, and rank 1 at the address that the kernel chose for its connection.
    const std::string reached_at = rank == 0 ? own_loopback() : "127.0.0.1";
    EXPECT_EQ(host, met ? reached_at : "");
    return met;
  };
  Met at_0;
  std::thread rank_0{[&] { at_0 = *meet_with(0, token); }};
  EXPECT_EQ(meet_with(1, wrong).error().code(), ErrorCode::kPermissionDenied);
  const auto at_1 = meet_with(1, token);
  rank_0.join();
  ASSERT_TRUE(at_1);
  EXPECT_EQ(at_1->key, at_0.key);
  EXPECT_EQ(at_1->offers[0].process, 0);
  EXPECT_EQ(at_1->offers[1].process, 1);
}

/// The whole way, with processes that only know their environment.
TEST_F(RendezvousTest, ProcessesOfOneLaunchWorkTogether) {
  ::setenv("PHAROS_FOLDER", folder_.path().c_str(), 1);
  ::setenv("WORLD_SIZE", "3", 1);
  std::vector<pid_t> children;
  for (const char* const rank : {"0", "1", "2"}) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    ::setenv("RANK", rank, 1);
    try {
      auto ranks = Communicator::from_environment({.timeout = 20s});
      std::vector<float> data(100'000, static_cast<float>(ranks.rank()));
      ranks.all_reduce(std::span{data});
      ::_exit(ranks.size() == 3 && data[99'999] == 3 ? 0 : 1);
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %s: %s\n", rank, e.what());
    }
    ::_exit(2);
  }
  for (const pid_t child : children) {
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  ::unsetenv("WORLD_SIZE");
  ::unsetenv("PHAROS_FOLDER");
  EXPECT_EQ(Communicator::from_environment().size(), 1U);
}

}  // namespace
}  // namespace pharos::ml
