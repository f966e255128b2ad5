#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "seed.hpp"

namespace pharos::cluster::order {
namespace {

using namespace std::chrono_literals;

// The calls of one caller to one actor run in order, even if processes die. The actor records the order, and the caller
// checks the order from the results.

/// The actor's record of one call.
struct Entry {
  std::uint32_t incarnation;
  std::uint64_t position;  ///< place among all calls of this incarnation
  int previous;            ///< previous call of the same caller in this incarnation; 0 for the first
};

class Log {
 public:
  Entry append(int caller, int call) {
    int& last = last_[caller];
    const Entry entry{context().incarnation, ++position_, last};
    last = call;
    return entry;
  }
  int process() { return ::getpid(); }

 private:
  std::uint64_t position_ = 0;
  std::map<int, int> last_;
};

/// Makes the calls of one caller; some have the result of another call as an argument. Returns "in order", or the first
/// call that ran out of order.
std::string append_all(const Actor<Log>& log, int caller, int calls, std::uint64_t seed) {
  Runtime runtime;
  std::mt19937_64 random{seed};
  const auto late = [](int value) { return value; };
  std::vector<Ref<Entry>> entries;
  for (int call = 1; call <= calls; ++call) {
    entries.push_back(random() % 8 == 0 ? log.call<&Log::append>(caller, runtime.submit<late>({.max_retries = 9}, call))
                                        : log.call<&Log::append>(caller, call));
    if (random() % 16 == 0) entries.back().get(Deadline::in(20s));
  }
  Entry before{};
  for (int call = 1; call <= calls; ++call) {
    const Entry entry = entries[static_cast<std::size_t>(call - 1)].get(Deadline::in(20s));
    const std::string where = "call " + std::to_string(call) + " of caller " + std::to_string(caller) + " ";
    if (entry.previous >= call) return where + "ran after call " + std::to_string(entry.previous);
    if (entry.incarnation < before.incarnation)
      return where + "was answered by an older incarnation than one before it";
    if (entry.incarnation == before.incarnation && entry.position <= before.position) {
      return where + "ran before the call before it";
    }
    before = entry;
  }
  return "in order";
}

class Writer {
 public:
  std::string write(const Actor<Log>& log, int caller, int calls, std::uint64_t seed) {
    return append_all(log, caller, calls, seed);
  }
};

class OrderTest : public ClusterTest {
 protected:
  static constexpr int kCalls = 10'000;
  static constexpr int kDeaths = 5;  // each restart waits longer than the one before

  const std::uint64_t seed_ = seed_of_test();
  std::mt19937_64 random_{seed_};
};

// The callers are three actors and this program.
TEST_F(OrderTest, CallsOfEachCallerRunInTheirOrderWhileTheActorIsKilledAgainAndAgain) {
  Runtime runtime;
  const auto log = runtime.spawn<Log>({.max_restarts = -1, .max_task_retries = 100});
  std::vector<Actor<Writer>> writers;
  std::vector<Ref<std::string>> verdicts;
  for (int caller = 1; caller <= 3; ++caller) {
    writers.push_back(runtime.spawn<Writer>());
    verdicts.push_back(writers.back().call<&Writer::write>(log, caller, kCalls, random_()));
  }
  std::string own;
  std::thread program{[&, seed = random_()] { own = append_all(log, 4, kCalls, seed); }};
  for (int deaths = 0; deaths < kDeaths; ++deaths) {
    const int process = log.call<&Log::process>({.unordered = true}).get(Deadline::in(20s));
    std::this_thread::sleep_for(std::chrono::microseconds{random_() % 20'000});  // the moment of the kill is random
    ::kill(process, SIGKILL);
    ASSERT_TRUE(eventually([&] { return ::kill(process, 0) != 0; }));
  }
  program.join();
  EXPECT_EQ(own, "in order");
  for (const auto& verdict : verdicts) EXPECT_EQ(verdict.get(Deadline::in(20s)), "in order");
}

}  // namespace
}  // namespace pharos::cluster::order
