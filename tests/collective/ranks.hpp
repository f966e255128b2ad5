#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <pharos/actors/exceptions.hpp>
#include <pharos/base/random.hpp>
#include <pharos/ml/collective/core.hpp>
#include <pharos/ml/communicator.hpp>
#include <pharos/net/address.hpp>

#include "hierarchical/hierarchical_backend.hpp"
#include "promised.hpp"
#include "rank_threads.hpp"
#include "says.hpp"
#include "shared/meeting.hpp"
#include "shared/shared_backend.hpp"
#include "stream/stream_backend.hpp"

namespace pharos::ml {

/// Joins the ranks as one of them, in the calling process or thread.
using Join = std::function<Result<std::unique_ptr<detail::Backend>>(std::uint32_t rank)>;

using JoinStreams = std::function<Result<std::unique_ptr<StreamBackend>>(std::uint32_t rank, const StreamSteps&)>;
inline JoinStreams listen_all(std::uint32_t count, const CommunicatorOptions& options) {
  auto listeners = std::make_shared<std::vector<Fd>>();
  std::vector<std::string> addresses;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    auto listener = net::listen_at({.unix_socket = false, .place = "127.0.0.1", .port = 0});
    EXPECT_TRUE(listener);
    addresses.push_back(net::bound_address(listener->get())->to_string());
    listeners->push_back(*std::move(listener));
  }
  net::Key key;
  fill_random(key);
  return [=](std::uint32_t rank, const StreamSteps& steps) {
    return StreamBackend::make((*listeners)[rank], addresses, key, rank, options, steps);
  };
}

/// Joins ranks over TCP, on the loopback of this machine.
inline Join join_streams(std::uint32_t count, const CommunicatorOptions& options) {
  return [join = listen_all(count, options)](std::uint32_t rank) -> Result<std::unique_ptr<detail::Backend>> {
    PHAROS_TRY(auto backend, join(rank, {}));
    return std::unique_ptr<detail::Backend>{std::move(backend)};
  };
}

/// Joins ranks as if each `on_each` of them were on a machine of their own: in memory there, and over TCP between. The
/// ranks are threads or children of this process.
inline Join join_machines(std::uint32_t machines, std::uint32_t on_each, const CommunicatorOptions& options,
                          bool are_threads) {
  std::vector<std::shared_ptr<Mapping>> memories;
  std::vector<std::shared_ptr<ThreadMemory>> thread_memories;
  for (std::uint32_t machine = 0; machine < machines; ++machine) {
    auto memory = Mapping::of(-1, Meeting::bytes_for(on_each));
    EXPECT_TRUE(memory);
    if (are_threads) {
      thread_memories.push_back(std::make_shared<ThreadMemory>(*std::move(memory)));
    } else {
      memories.push_back(std::make_shared<Mapping>(*std::move(memory)));
    }
  }
  const JoinStreams join = listen_all(machines * on_each, options);
  return [=](std::uint32_t rank) -> Result<std::unique_ptr<detail::Backend>> {
    const HierarchicalBackend::Layout layout{.rank = rank, .machines = machines, .on_each = on_each};
    const auto make_far = [&](const StreamSteps& steps) { return join(rank, steps); };
    const auto neighbours = layout.neighbours();
    auto near =
        are_threads
            ? std::make_unique<SharedBackend>(thread_memories[layout.machine()], layout.place(), neighbours)
            : std::make_unique<SharedBackend>(std::move(*memories[layout.machine()]), layout.place(), neighbours);
    PHAROS_TRY(auto backend, HierarchicalBackend::make(layout, std::move(near), {}, options.timeout, make_far));
    return std::unique_ptr<detail::Backend>{std::move(backend)};
  };
}

/// Joins ranks in memory that is shared with children of this process.
inline Join join_memory(std::uint32_t count, Duration time) {
  auto memory = Mapping::of(-1, Meeting::bytes_for(count));
  EXPECT_TRUE(memory);
  const auto shared = std::make_shared<Mapping>(*std::move(memory));
  return [=](std::uint32_t rank) -> Result<std::unique_ptr<detail::Backend>> {
    PHAROS_TRY(auto backend, SharedBackend::make(std::move(*shared), rank, count, time));
    return std::unique_ptr<detail::Backend>{std::move(backend)};
  };
}

inline void run_as_rank(std::uint32_t rank, const CommunicatorOptions& options, const Join& join, const Rank& body) {
  try {
    auto backend = join(rank);
    if (!backend) throw_error(backend.error());
    Communicator ranks{std::make_shared<detail::Core>(*std::move(backend), options)};
    body(ranks);
  } catch (const std::exception& e) {
    ADD_FAILURE() << "rank " << rank << ": " << e.what();
  }
}

/// Runs ranks as threads of this process.
inline void run_threads(std::uint32_t count, const CommunicatorOptions& options, const Join& join, const Rank& body) {
  std::vector<std::thread> all;
  for (std::uint32_t rank = 0; rank < count; ++rank)
    all.emplace_back([&, rank] { run_as_rank(rank, options, join, body); });
  for (std::thread& each : all) each.join();
}

inline void run_streams(std::uint32_t count, const CommunicatorOptions& options, const Rank& body) {
  run_threads(count, options, join_streams(count, options), body);
}
inline void run_machines(std::uint32_t machines, std::uint32_t on_each, const CommunicatorOptions& options,
                         const Rank& body) {
  run_threads(machines * on_each, options, join_machines(machines, on_each, options, true), body);
}

/// The last time at which a rank was alive, in memory that children of this process share.
class LifeSign {
 public:
  LifeSign() : memory_{*Mapping::of(-1, sizeof(std::atomic<Duration::rep>))} {}

  /// The calling rank is alive.
  void give() const { last().store(now().count()); }
  /// Gives a sign each millisecond, until this process dies or is stopped.
  void keep_giving() const {
    give();
    std::thread{[this] {
      for (;;) {
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
        give();
      }
    }}.detach();
  }
  Duration since() const { return now() - Duration{last().load()}; }

 private:
  static Duration now() { return std::chrono::steady_clock::now().time_since_epoch(); }
  std::atomic<Duration::rep>& last() const { return *reinterpret_cast<std::atomic<Duration::rep>*>(memory_.memory()); }

  const Mapping memory_;
};

/// Runs children of this process. The children in `may_die` may end in any way. Stopped children are continued when the
/// others have ended.
inline void run_children(std::uint32_t count, const std::function<void(std::uint32_t)>& body,
                         const std::vector<std::uint32_t>& may_die = {}) {
  std::vector<pid_t> children;
  std::fflush(nullptr);
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    body(rank);
    std::fflush(nullptr);
    ::_exit(testing::Test::HasFailure() ? 1 : 0);
  }
  for (const bool dies : {false, true}) {
    for (std::uint32_t rank = 0; rank < count; ++rank) {
      if (dies != (std::find(may_die.begin(), may_die.end(), rank) != may_die.end())) continue;
      if (dies) ::kill(children[rank], SIGCONT);
      int status = 0;
      ASSERT_EQ(::waitpid(children[rank], &status, 0), children[rank]);
      EXPECT_TRUE(dies || status == 0) << "rank " << rank << " ended with " << status;
    }
  }
}
/// Runs ranks as child processes.
inline void run_processes(std::uint32_t count, const CommunicatorOptions& options, const Join& join, const Rank& body,
                          const std::vector<std::uint32_t>& may_die = {}) {
  run_children(
      count, [&](std::uint32_t rank) { run_as_rank(rank, options, join, body); }, may_die);
}
inline void run_processes(std::uint32_t count, const CommunicatorOptions& options, const Rank& body,
                          const std::vector<std::uint32_t>& may_die = {}) {
  run_processes(count, options, join_memory(count, options.timeout), body, may_die);
}

}  // namespace pharos::ml
