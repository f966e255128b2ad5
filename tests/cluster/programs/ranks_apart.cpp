// Ranks on several nodes that compute sums. If a launcher has started this process, it is one rank and computes one
// sum. Otherwise it makes a group of ranks, which compute sums until a node is lost, and then once more with the ranks
// that are left.

#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include <pharos/ml/group.hpp>
#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

namespace ml = pharos::ml;
using pharos::cluster::say;

class Ranks {
 public:
  double sum(std::size_t elements) {
    ml::Communicator& ranks = ml::communicator();
    std::vector<double> data(elements, ranks.rank() + 1);
    ranks.all_reduce(std::span{data});
    ranks.broadcast(std::span{data}, ranks.size() - 1);
    return data.back();
  }
  void sum_until_it_fails() {
    for (;;) static_cast<void>(sum(100'000));
  }
};

}  // namespace

int main() {
  return pharos::cluster::report([] {
    // A size over 1 means that a launcher has started this process as one of several ranks.
    ml::Communicator launched = ml::Communicator::from_environment({.timeout = std::chrono::seconds{20}});
    if (launched.size() > 1) {
      std::vector<double> data(1000, launched.rank() + 1);
      launched.all_reduce(std::span{data});
      return say("sum " + std::to_string(data.back()));
    }
    pharos::Runtime runtime;
    const auto group = runtime.spawn_group<Ranks>({.name = "ranks",
                                                   .size = 4,
                                                   .member = {.resources = {{"rank", 1}}},
                                                   .on_death = pharos::OnDeath::kShrink,
                                                   .deaths_max = 4});
    ml::connect(group);
    for (const std::size_t elements : {std::size_t{1}, std::size_t{1000}, std::size_t{1'000'000}}) {
      for (const double sum : group.gather<&Ranks::sum>(elements).get()) say("sum " + std::to_string(sum));
    }
    const auto loops = group.call_all<&Ranks::sum_until_it_fails>();
    say("ready");
    for (const auto& loop : loops) {
      const auto ended = loop.try_get();
      say("failed: " + ended.error().message());
    }
    while (group.size() != 2) ::usleep(1000);
    ml::connect(group);
    for (const double sum : group.gather<&Ranks::sum>(std::size_t{1000}).get()) say("then " + std::to_string(sum));
  });
}
