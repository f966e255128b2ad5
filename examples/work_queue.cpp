// A work queue: an actor that producers and consumers find by its name. Producers and consumers are tasks, which know
// nothing of each other. The work: which number below a million needs the most steps to reach 1, if a step halves an
// even number, and triples an odd number and adds one?

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <optional>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

namespace {

constexpr std::uint32_t kProducers = 2;
constexpr std::uint32_t kConsumers = 3;
constexpr std::uint64_t kNumbers = 1'000'000;
constexpr std::uint64_t kNumbersPerJob = 5'000;

struct Job {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class WorkQueue {
 public:
  WorkQueue(std::size_t jobs_max, std::uint32_t producers) : jobs_max_{jobs_max}, producers_{producers} {}

  /// Returns false if the queue is full. The producer then tries again later.
  bool put(Job job) {
    if (jobs_.size() == jobs_max_) return false;
    jobs_.push_back(job);
    return true;
  }
  void producer_is_done() { --producers_; }

  /// Returns nullopt if there is no job. The consumer then tries again later, unless the queue is finished.
  std::optional<Job> take() {
    if (jobs_.empty()) return std::nullopt;
    const Job job = jobs_.front();
    jobs_.pop_front();
    return job;
  }
  bool finished() const { return producers_ == 0 && jobs_.empty(); }

 private:
  std::deque<Job> jobs_;
  std::size_t jobs_max_;
  std::uint32_t producers_;
};

// A method that waits would hold up all other calls of its actor, so producers and consumers wait in their own
// processes.
void wait_a_little() {
  std::this_thread::sleep_for(std::chrono::milliseconds{1});
}

/// Puts jobs for these numbers into the queue. Returns the number of jobs.
int produce(Job numbers) {
  pharos::Runtime runtime;  // in a worker: its place in the cluster
  const auto queue = runtime.actor<WorkQueue>("queue");
  int jobs = 0;
  for (std::uint64_t begin = numbers.begin; begin < numbers.end; begin += kNumbersPerJob, ++jobs) {
    const Job job{begin, std::min(begin + kNumbersPerJob, numbers.end)};
    while (!queue.call<&WorkQueue::put>(job).get()) wait_a_little();
  }
  queue.call<&WorkQueue::producer_is_done>().get();
  return jobs;
}

struct Found {
  std::uint64_t number = 0;
  int steps = 0;
  int jobs = 0;  // that this consumer has done
};

int steps_to_one(std::uint64_t number) {
  int steps = 0;
  for (; number != 1; ++steps) number = number % 2 == 0 ? number / 2 : 3 * number + 1;
  return steps;
}

/// Does jobs until there are no more.
Found consume() {
  pharos::Runtime runtime;
  const auto queue = runtime.actor<WorkQueue>("queue");
  Found longest;
  while (!queue.call<&WorkQueue::finished>().get()) {
    const std::optional<Job> job = queue.call<&WorkQueue::take>().get();
    if (!job) {
      wait_a_little();
      continue;
    }
    ++longest.jobs;
    for (std::uint64_t number = job->begin; number < job->end; ++number) {
      const int steps = steps_to_one(number);
      if (steps > longest.steps) longest = {number, steps, longest.jobs};
    }
  }
  return longest;
}

}  // namespace

int main(int argc, char** argv) {
  // Producers and consumers wait for each other, so all of them must be able to run at once.
  pharos::Runtime runtime{argc, argv, {.cpus = kProducers + kConsumers}};
  const auto queue = runtime.spawn<WorkQueue>({.name = "queue"}, std::size_t{16}, kProducers);

  const Job first_half{1, kNumbers / 2};
  const Job second_half{kNumbers / 2, kNumbers};
  const std::vector<pharos::Ref<int>> producers{runtime.submit<&produce>(first_half),
                                                runtime.submit<&produce>(second_half)};
  std::vector<pharos::Ref<Found>> consumers;
  for (std::uint32_t i = 0; i < kConsumers; ++i) consumers.push_back(runtime.submit<&consume>());

  int jobs = 0;
  for (const auto& producer : producers) {
    const int made = producer.get();
    std::printf("a producer made %d jobs\n", made);
    jobs += made;
  }
  Found longest;
  for (const auto& consumer : consumers) {
    const Found found = consumer.get();
    std::printf("a consumer did %3d of them; its longest way: from %ju, %d steps\n", found.jobs, found.number,
                found.steps);
    jobs -= found.jobs;
    if (found.steps > longest.steps) longest = found;
  }
  std::printf("the longest way down from below a million begins at %ju and takes %d steps\n", longest.number,
              longest.steps);
  return jobs == 0 && longest.number == 837'799 && longest.steps == 524 ? 0 : 1;
}
