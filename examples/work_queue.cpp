// A work queue: producers put jobs into it, and consumers take them out. Both are tasks, which know nothing of each
// other. The work: which number below a million needs the most steps to reach 1, if a step halves an even number, and
// triples an odd number and adds one?

#include <algorithm>
#include <cstdint>
#include <cstdio>
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
using Jobs = pharos::Queue<Job>;

/// Puts jobs for these numbers into the queue. Returns the number of jobs.
int produce(const Jobs& queue, Job numbers) {
  int jobs = 0;
  for (std::uint64_t begin = numbers.begin; begin < numbers.end; begin += kNumbersPerJob, ++jobs) {
    queue.put({begin, std::min(begin + kNumbersPerJob, numbers.end)}).get();  // waits while the queue is full
  }
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

/// Does jobs until the queue is closed and empty.
Found consume(const Jobs& queue) {
  Found longest;
  for (;;) {
    const std::vector<Job> jobs = queue.get_some(2).get();  // waits while the queue is empty
    if (jobs.empty()) return longest;
    for (const Job& job : jobs) {
      ++longest.jobs;
      for (std::uint64_t number = job.begin; number < job.end; ++number) {
        const int steps = steps_to_one(number);
        if (steps > longest.steps) longest = {number, steps, longest.jobs};
      }
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Producers and consumers wait for each other, so all of them must be able to run at once.
  pharos::Runtime runtime{argc, argv, {.cpus = kProducers + kConsumers}};
  const Jobs queue = Jobs::make(runtime, {.capacity = 16});

  const Job first_half{1, kNumbers / 2};
  const Job second_half{kNumbers / 2, kNumbers};
  const std::vector producers{runtime.submit<&produce>(queue, first_half),
                              runtime.submit<&produce>(queue, second_half)};
  std::vector<pharos::Ref<Found>> consumers;
  for (std::uint32_t i = 0; i < kConsumers; ++i) consumers.push_back(runtime.submit<&consume>(queue));

  int jobs = 0;
  for (const int made : pharos::get(producers)) {
    std::printf("a producer made %d jobs\n", made);
    jobs += made;
  }
  queue.close().get();
  Found longest;
  for (const Found& found : pharos::get(consumers)) {
    std::printf("a consumer did %3d of them; its longest way: from %ju, %d steps\n", found.jobs, found.number,
                found.steps);
    jobs -= found.jobs;
    if (found.steps > longest.steps) longest = found;
  }
  std::printf("the longest way down from below a million begins at %ju and takes %d steps\n", longest.number,
              longest.steps);
  return jobs == 0 && longest.number == 837'799 && longest.steps == 524 ? 0 : 1;
}
