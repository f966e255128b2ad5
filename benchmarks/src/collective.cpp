// Measures collectives between ranks that are processes of this machine, beside a floor that the same memory allows:
// each rank adds in place over its own bytes.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/ml/collective/core.hpp>

#include "figures.hpp"
#include "shared/meeting.hpp"
#include "shared/shared_backend.hpp"

namespace bench {
namespace {

using pharos::ml::Communicator;
namespace ml = pharos::ml;

/// The times, or other numbers, that rank 0 has measured.
struct Found {
  double ours;
  double floor;
};

/// Runs `body` on `count` ranks, each in a forked process. Returns the result of rank 0. Throws if a rank fails.
Found on_ranks(std::uint32_t count, const std::function<Found(Communicator& ranks)>& body) {
  auto meeting = ml::Mapping::of(-1, ml::Meeting::bytes_for(count));
  auto result = ml::Mapping::of(-1, sizeof(Found));
  if (!meeting || !result) throw std::runtime_error{"no memory for ranks to meet in"};
  auto* const found = reinterpret_cast<Found*>(result->memory());
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < count; ++rank) {
    std::fflush(nullptr);
    const pid_t child = ::fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    try {
      auto backend = ml::SharedBackend::make(*std::move(meeting), rank, count, std::chrono::seconds{30});
      if (!backend) throw std::runtime_error{backend.error().to_string()};
      Communicator ranks{std::make_shared<ml::detail::Core>(*std::move(backend), ml::CommunicatorOptions{})};
      const Found own = body(ranks);
      if (rank == 0) *found = own;
      ranks.barrier();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "rank %u: %s\n", rank, e.what());
      ::_exit(1);
    }
    ::_exit(0);
  }
  for (const pid_t child : children) {
    int status = 0;
    if (::waitpid(child, &status, 0) != child || status != 0) throw std::runtime_error{"a rank has failed"};
  }
  return *found;
}

std::int64_t nanoseconds_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch()).count();
}

/// Returns the time from the start of the first rank to the end of the last one. With more ranks than CPUs the ranks do
/// not run at once, so the time of one rank alone says too little.
template <class Work>
double time_us(Communicator& ranks, Work work) {
  ranks.barrier();
  std::int64_t begin = nanoseconds_now();
  work();
  std::int64_t end = nanoseconds_now();
  ranks.all_reduce(std::span{&begin, 1}, ml::Reduction::kMin);
  ranks.all_reduce(std::span{&end, 1}, ml::Reduction::kMax);
  return static_cast<double>(end - begin) / 1e3;
}

enum class Kind { kAllReduce, kReduceScatter, kAllGather };
constexpr std::pair<Kind, const char*> kKinds[] = {
    {Kind::kAllReduce, "allreduce"}, {Kind::kReduceScatter, "reducescatter"}, {Kind::kAllGather, "allgather"}};

/// Measures the collective and the floor in turns. `bytes` is the size of the larger buffer: of the data of all ranks
/// together after an all-gather, and of the data before a reduce-scatter.
Found beside_floor(Communicator& ranks, Kind kind, std::size_t bytes, int rounds) {
  const auto data = ranks.allocate<float>(bytes / sizeof(float));
  const auto own = ranks.allocate<float>(data.size() / ranks.size());
  for (float& each : data.span()) each = 1;
  const auto time = [&](auto work) { return time_us(ranks, work); };
  const auto operation = [&] {
    switch (kind) {
      case Kind::kAllReduce: return ranks.all_reduce(data.span(), ml::Reduction::kMean);
      case Kind::kReduceScatter:
        return ranks.reduce_scatter(std::span<const float>{data.span()}, own.span(), ml::Reduction::kMean);
      case Kind::kAllGather: return ranks.all_gather(std::span<const float>{own.span()}, data.span());
    }
  };
  std::vector<double> ours;
  std::vector<double> floor;
  for (int round = 0; round < rounds; ++round) {
    ours.push_back(time(operation));
    floor.push_back(time([&] {
      for (float& each : data.span()) each += 1;
    }));
  }
  return {median(ours), median(floor)};
}

Found all_reduce_latency(Communicator& ranks, std::size_t bytes, int rounds) {
  const auto data = ranks.allocate<float>(bytes / sizeof(float));
  for (int i = 0; i < 200; ++i) ranks.all_reduce(data.span());
  return {median_us(rounds, [&] { ranks.all_reduce(data.span()); }), 0};
}

/// Returns the percentage of one CPU that the busiest rank uses while the other ranks wait for rank 0, which sleeps.
Found parked_cpu(Communicator& ranks) {
  ranks.barrier();
  rusage before{};
  rusage after{};
  ::getrusage(RUSAGE_SELF, &before);
  if (ranks.rank() == 0) std::this_thread::sleep_for(std::chrono::seconds{2});
  ranks.barrier();
  ::getrusage(RUSAGE_SELF, &after);
  const auto seconds = [](const rusage& use) {
    const auto of = [](const timeval& time) {
      return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
    };
    return of(use.ru_utime) + of(use.ru_stime);
  };
  double used = (seconds(after) - seconds(before)) / 2 * 100;
  ranks.all_reduce(std::span{&used, 1}, ml::Reduction::kMax);
  return {used, 0};
}

// ---- Beside Gloo

/// The memory that an all-reduce works on.
enum class Memory {
  kOrdinary,        ///< of the program, as Gloo's tensors are: the ranks copy it to shared memory and back
  kOfCommunicator,  ///< from Communicator::allocate(): the ranks work in place
};

/// Returns the median time of an all-reduce, measured as torch_peer.py measures Gloo's.
Found all_reduce_us(Communicator& ranks, Memory memory, std::size_t bytes, int rounds) {
  std::vector<float> ordinary(memory == Memory::kOrdinary ? bytes / sizeof(float) : 0);
  std::optional<ml::Buffer<float>> own;
  if (memory == Memory::kOfCommunicator) own.emplace(ranks.allocate<float>(bytes / sizeof(float)));
  const std::span<float> data = own ? own->span() : std::span{ordinary};
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) times.push_back(time_us(ranks, [&] { ranks.all_reduce(data); }));
  return {median(times), 0};
}

/// Measures the all-reduce of PyTorch's Gloo in the same run.
void measure_beside_gloo(Report& report) {
  struct Size {
    const char* name;
    std::size_t bytes;
    int rounds;
  };
  constexpr Size kSizes[] = {{"4KiB_2", 4 << 10, 2000}, {"32MiB_2", 32 << 20, 101}};
  constexpr std::pair<Memory, const char*> kMemories[] = {{Memory::kOrdinary, "ordinary"},
                                                          {Memory::kOfCommunicator, "in_place"}};
  std::vector<std::string> names;
  for (const Size& size : kSizes) {
    names.push_back(std::string{"gloo_allreduce_us_"} + size.name);
    for (const auto& [memory, kind] : kMemories) {
      names.push_back(std::string{"allreduce_"} + kind + "_us_" + size.name);
      names.push_back(std::string{"allreduce_"} + kind + "_over_gloo_" + size.name);
    }
  }
  if (!report.wants_any(names)) return;
  const std::vector<Figure> gloo = figures_of_pytorch("collective");
  for (const Figure& each : gloo) report.add(each.name, each.value, each.unit);
  for (const Size& size : kSizes) {
    const auto theirs = std::ranges::find(gloo, std::string{"gloo_allreduce_us_"} + size.name, &Figure::name);
    for (const auto& [memory, kind] : kMemories) {
      const auto us = [&, in = memory](Communicator& ranks) {
        return all_reduce_us(ranks, in, size.bytes, size.rounds);
      };
      const double ours = on_ranks(2, us).ours;
      report.add(std::string{"allreduce_"} + kind + "_us_" + size.name, ours, "us");
      if (theirs == gloo.end()) continue;
      report.add(std::string{"allreduce_"} + kind + "_over_gloo_" + size.name, theirs->value / ours, "times as fast");
    }
  }
}

}  // namespace

void measure_collective(Report& report) {
  for (const std::uint32_t count : {2U, 4U, 8U}) {
    for (const std::size_t kib : {4UL, 64UL, 1UL << 10, 16UL << 10, 32UL << 10, 256UL << 10}) {
      const std::string size = kib < 1024 ? std::to_string(kib) + "KiB_" : std::to_string(kib >> 10) + "MiB_";
      for (const auto& [each, kind_name] : kKinds) {
        const Kind kind = each;
        const std::string name = std::string{kind_name} + "_floor_ratio_" + size + std::to_string(count);
        if (!report.wants(name)) continue;
        const int rounds = kib > 32 << 10 ? 15 : 101;
        const Found found =
            on_ranks(count, [&](Communicator& ranks) { return beside_floor(ranks, kind, kib << 10, rounds); });
        report.add(name, found.floor / found.ours, "of the floor");
      }
    }
    for (const std::size_t kib : {4U, 64U, 256U}) {
      const std::string name = "allreduce_" + std::to_string(kib) + "KiB_us_" + std::to_string(count);
      if (!report.wants(name)) continue;
      const int rounds = count > 2 ? 300 : 2000;
      // Several turns, because the CPUs on which the kernel puts the processes, and the load of the machine, change.
      std::vector<double> found;
      for (int turn = 0; turn < 7; ++turn) {
        const auto latency = [&](Communicator& ranks) { return all_reduce_latency(ranks, kib << 10, rounds); };
        found.push_back(on_ranks(count, latency).ours);
      }
      report.add(name, median(found), "us");
    }
  }
  if (report.wants("parked_cpu_percent")) {
    report.add("parked_cpu_percent", on_ranks(8, [](Communicator& ranks) { return parked_cpu(ranks); }).ours, "%");
  }
  measure_beside_gloo(report);
  if (report.wants_any({"tcp_allreduce_over_plain_32MiB_2", "tcp_allreduce_4KiB_us_2"})) measure_ranks_apart(report);
}

}  // namespace bench
