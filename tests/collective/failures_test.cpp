// Ranks that disagree, do not come, stop or die.

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "ranks.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

TEST(Disagreement, IsToldOnAllRanksWithBothDescriptions) {
  run_threads(3, {}, [](Communicator& ranks) {
    std::vector<float> data(ranks.rank() == 1 ? 10 : 9, 1);
    const std::string text = message_of<InvalidArgument>([&] { ranks.all_reduce(std::span{data}); });
    EXPECT_SAYS(text, "called all_reduce(sum of 9 f32)");
    EXPECT_SAYS(text, "called all_reduce(sum of 10 f32)");
    EXPECT_EQ(message_of<InvalidArgument>([&] { ranks.barrier(); }), text);
  });
  run_processes(2, {}, [](Communicator& ranks) {
    double value = 0;
    std::vector<double> values(1 << 20);
    const std::string text = message_of<InvalidArgument>([&] {
      if (ranks.rank() == 0) {
        ranks.broadcast(std::span{&value, 1}, 0);
      } else {
        ranks.all_reduce(std::span{values}, Reduction::kMax);
      }
    });
    EXPECT_SAYS(
        text,
        "in round 2: rank 0 called broadcast(1 f64 from rank 0), and rank 1 called all_reduce(max of 1048576 f64)");
  });
}

TEST(Disagreement, AboutTheMemoryOfTheDataIsOneToo) {
  run_threads(2, {}, [](Communicator& ranks) {
    const auto shared = ranks.allocate<float>(100'000);
    std::vector<float> own(100'000);
    const std::string text =
        message_of<InvalidArgument>([&] { ranks.all_reduce(ranks.rank() == 0 ? shared.span() : std::span{own}); });
    EXPECT_SAYS(text, "do not use the same part of the same Buffer");
  });
  run_threads(2, {}, [](Communicator& ranks) {
    const auto shared = ranks.allocate<float>(100'010);
    EXPECT_SAYS(
        message_of<InvalidArgument>([&] { ranks.all_reduce(shared.span().subspan(ranks.rank() * 10, 100'000)); }),
        "do not use the same part of the same Buffer");
  });
  run_processes(2, {}, [](Communicator& ranks) {
    EXPECT_SAYS(message_of<InvalidArgument>([&] { static_cast<void>(ranks.allocate<float>(10 + ranks.rank())); }),
                "rank 0 called allocate(40 bytes), and rank 1 called allocate(44 bytes)");
  });
}

TEST(Absence, EndsAtTheDeadlineWithTheNameOfWhoIsMissing) {
  run_threads(3, {.timeout = 300ms}, [](Communicator& ranks) {
    std::vector<float> data(100'000);
    if (ranks.rank() == 1) return;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_SAYS(message_of<ActorDied>([&] { ranks.all_reduce(std::span{data}); }),
                "rank 1 has left the group, and all_reduce(sum of 100000 f32), round 2, waits for it");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 200ms);
  });
  run_threads(3, {.timeout = 300ms}, [](Communicator& ranks) {
    std::vector<float> data(100'000);
    if (ranks.rank() == 1) return std::this_thread::sleep_for(1s);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_SAYS(message_of<DeadlineExceeded>([&] { ranks.all_reduce(std::span{data}); }),
                "all_reduce(sum of 100000 f32), round 2, waits for rank 1");
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 200ms);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 900ms);
  });
  Communicator::Threads threads{2, {.timeout = 200ms}};
  EXPECT_SAYS(message_of<DeadlineExceeded>([&] { threads.join(0); }), "rank 1 did not join the group in time");
}

TEST(Absence, WhoGivesUpSaysWhyToTheOthersAtOnce) {
  run_processes(3, {}, [](Communicator& ranks) {
    const auto begin = std::chrono::steady_clock::now();
    if (ranks.rank() == 2) return ranks.abort("the loss is not a number");
    EXPECT_SAYS(message_of<Cancelled>([&] { ranks.barrier(); }), "rank 2 has given up: the loss is not a number");
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 1s);
  });
}

TEST(Death, IsToldOnAllOthersWithTheRankSoon) {
  const Times told;
  for (const bool while_it_waits : {false, true}) {
    const LifeSign life;
    run_processes(4, {},
                  [&](Communicator& ranks) {
                    const auto data = ranks.allocate<float>(300'000);
                    if (ranks.rank() == 2) {
                      ranks.all_reduce(data.span());
                      if (while_it_waits) [[maybe_unused]]
                        const auto begun = ranks.begin_all_reduce(data.span()).done();
                      life.give();
                      ::raise(SIGKILL);
                    }
                    EXPECT_SAYS(message_of<ActorDied>([&] {
                                  for (;;) ranks.all_reduce(data.span());
                                }),
                                "rank 2 has died, and all_reduce(sum of 300000 f32), round ");
                    told.add(life.since());
                  },
                  {2});
  }
  told.expect_within(kDeathIsToldIn);
}

TEST(Death, IsHeardOfByThoseThatAskAndDoNotWait) {
  const Times told;
  const LifeSign life;
  for (const bool over_tcp : {false, true}) {
    const auto body = [&](Communicator& ranks) {
      std::vector<float> data(300'000);
      if (ranks.rank() == 1) {
        ranks.all_reduce(std::span{data});
        life.give();
        ::raise(SIGKILL);
      }
      // The first round may end sooner at rank 1 than here, so that round may be the one that fails.
      EXPECT_SAYS(message_of<ActorDied>([&] {
                    for (;;) {
                      auto pending = ranks.begin_all_reduce(std::span{data});
                      while (!pending.done()) std::this_thread::yield();
                    }
                  }),
                  "rank 1 has died");
      told.add(life.since());
    };
    run_processes(3, {}, over_tcp ? join_streams(3, {}) : join_memory(3, 30s), body, {1});
  }
  told.expect_within(kDeathIsToldIn);
}

TEST(Absence, EndsAtTheDeadlineForThoseThatAskAndDoNotWait) {
  const CommunicatorOptions options{.timeout = 500ms};
  const auto body = [](Communicator& ranks) {
    std::vector<float> data(300'000);
    if (ranks.rank() == 1) {
      EXPECT_SAYS(message_of<DeadlineExceeded>([&] {
                    for (;; std::this_thread::sleep_for(1ms)) ranks.check();
                  }),
                  "waits for rank 1");
      return;
    }
    auto pending = ranks.begin_all_reduce(std::span{data});
    EXPECT_SAYS(message_of<DeadlineExceeded>([&] {
                  while (!pending.done()) std::this_thread::yield();
                }),
                "waits for rank 1");
  };
  run_threads(3, options, body);
  run_streams(3, options, body);
}

/// Rank 1 is never late, although all that rank 0 has begun takes longer than the timeout.
TEST(Allocation, HasItsWholeTimeBehindSlowOperations) {
  run_threads(2, {.timeout = 1s}, [](Communicator& ranks) {
    constexpr Duration kWork = 400ms;
    double first = 1;
    double second = 1;
    ranks.barrier();
    if (ranks.rank() == 0) {
      auto one = ranks.begin_all_reduce(std::span{&first, 1});
      auto two = ranks.begin_all_reduce(std::span{&second, 1});
      const auto memory = ranks.allocate<float>(10);
      one.wait();
      two.wait();
    } else {
      std::this_thread::sleep_for(kWork);
      ranks.all_reduce(std::span{&first, 1});
      std::this_thread::sleep_for(kWork);
      ranks.all_reduce(std::span{&second, 1});
      std::this_thread::sleep_for(kWork);
      const auto memory = ranks.allocate<float>(10);
    }
    EXPECT_EQ(first + second, 4);
  });
}

TEST(Leaving, IsNoDeath) {
  run_processes(2, {}, [](Communicator& ranks) {
    std::vector<std::int32_t> all(2);
    const std::int32_t process = ::getpid();
    ranks.all_gather(std::span<const std::int32_t>{&process, 1}, std::span{all});
    if (ranks.rank() == 1) return;
    const Fd other{static_cast<int>(::syscall(SYS_pidfd_open, all[1], 0))};
    pollfd ended{.fd = other.get(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&ended, 1, 20'000), 1);
    ranks.check();
  });
}

TEST(Timeout, MayBeForEver) {
  const CommunicatorOptions options{.timeout = Duration::max()};
  const auto body = [](Communicator& ranks) {
    std::vector<float> data(100'000, 1);
    const auto shared = ranks.allocate<float>(10);
    ranks.all_reduce(std::span{data});
    EXPECT_EQ(data[99'999], static_cast<float>(ranks.size()));
  };
  run_threads(2, options, body);
  run_streams(2, options, body);
  run_machines(2, 2, options, body);
}

TEST(Stop, IsADeadlineWithTheRankAndGoesOnWhenItWasShorter) {
  run_processes(2, {.timeout = 2s}, [](Communicator& ranks) {
    std::int64_t process = ::getpid();
    std::vector<std::int64_t> all(2);
    ranks.all_gather(std::span<const std::int64_t>{&process, 1}, std::span{all});
    if (ranks.rank() == 0) {
      const auto other = static_cast<pid_t>(all[1]);
      ::kill(other, SIGSTOP);
      std::thread{[other] {
        std::this_thread::sleep_for(300ms);
        ::kill(other, SIGCONT);
      }}.detach();
    }
    if (ranks.rank() != 0) {
      const std::string text = message_of<DeadlineExceeded>([&] {
        for (;;) ranks.barrier();
      });
      EXPECT_SAYS(text, "waits for rank 1");
      return;
    }
    for (int i = 0; i < 100; ++i) ranks.barrier();
    ::kill(static_cast<pid_t>(all[1]), SIGSTOP);
    EXPECT_SAYS(message_of<DeadlineExceeded>([&] {
                  for (;;) ranks.barrier();
                }),
                "waits for rank 1");
    ::kill(static_cast<pid_t>(all[1]), SIGCONT);
  });
}

// More processes want to run than there are CPUs, all the time.
TEST(CpuHog, BesideThemRanksOfEachBackendGoOn) {
  const unsigned cpus = std::max(std::thread::hardware_concurrency(), 1U);
  std::vector<pid_t> hogs;
  for (unsigned i = 0; i < 2 * cpus; ++i) {
    hogs.push_back(::fork());
    if (hogs.back() != 0) continue;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (std::atomic<int> turns = 0;; ++turns) {
    }
  }
  const CommunicatorOptions options{.timeout = 20s};
  for (const Join& join : {join_memory(4, 20s), join_streams(4, options), join_machines(2, 2, options, false)}) {
    run_processes(4, options, join, [](Communicator& ranks) {
      const auto shared = ranks.allocate<float>(100'000);
      for (int round = 0; round < 50; ++round) {
        for (float& each : shared.span()) each = static_cast<float>(ranks.rank() + 1);
        ranks.all_reduce(shared.span());
        EXPECT_EQ(shared[99'999], 10);
        std::int32_t little = 1;
        ranks.all_reduce(std::span{&little, 1});
        EXPECT_EQ(little, 4);
      }
    });
  }
  for (const pid_t each : hogs) {
    EXPECT_EQ(::kill(each, SIGKILL), 0);
    EXPECT_EQ(::waitpid(each, nullptr, 0), each);
  }
}

TEST(Waiting, TakesNoCpuWhileItIsLong) {
  run_processes(8, {}, [](Communicator& ranks) {
    ranks.barrier();
    timespec before{};
    timespec after{};
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    if (ranks.rank() == 0) std::this_thread::sleep_for(1s);
    ranks.barrier();
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    const double used =
        static_cast<double>(after.tv_sec - before.tv_sec) + static_cast<double>(after.tv_nsec - before.tv_nsec) / 1e9;
    EXPECT_LT(used, 0.02);
  });
}

}  // namespace
}  // namespace pharos::ml
