// A program that calls the actors of the program "offering", whose classes it does not have: `foreign MODE`. It prints
// what comes back.

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace shop {

struct Price {
  std::string currency;
  double amount = 0;
};
/// The same name as in the other program, and other fields.
struct Receipt {
  double sum = 0;
  int things = 0;
};
class Till {
 public:
  int add(int amount) { return amount; }
};

}  // namespace shop

namespace {

using namespace std::chrono_literals;
using pharos::cluster::say;

template <class Exception>
void say_error(const std::function<void()>& call) {
  try {
    call();
    say("no error");
  } catch (const Exception& e) {
    say(e.what());
  }
}

int total_from_a_task(const pharos::ForeignActor& till) {
  return till.method<int()>("total").call().get();
}

void run_calls(pharos::Runtime& runtime, const pharos::ForeignActor& till) {
  const auto add = till.method<int(int)>("add");
  const auto total = till.method<int()>("total");
  say("added: " + std::to_string(add.call(add.call(2)).get()));  // 1 + 2, and the sum once more
  for (int i = 0; i < 1000; ++i) add.send(1);
  say("sent: " + std::to_string(total.call().get()));
  const auto price_of = till.method<shop::Price(const std::string&, shop::Price)>("price_of");
  const shop::Price price = price_of.call("bread", shop::Price{"EUR", 1.5}).get();
  say("price: " + price.currency + ' ' + std::to_string(price.amount));
  const std::vector<double> many(1 << 20, 1.5);
  const auto doubled = till.method<std::vector<double>(std::vector<double>)>("doubled").call(many).get();
  say("doubled: " + std::to_string(doubled.size()) + " of " + std::to_string(doubled.back()));
  say("later: " + std::to_string(till.method<int(int)>("later").call(1).get()));
  say("in a task: " + std::to_string(runtime.submit<&total_from_a_task>(till).get()));
}

void run_mismatches(pharos::Runtime& runtime, const pharos::ForeignActor& till) {
  say_error<pharos::FunctionNotFound>([&] { till.method<int(double)>("add"); });
  say_error<pharos::FunctionNotFound>([&] { till.method<int(int)>("subtract"); });
  say_error<pharos::FunctionNotFound>([&] { till.method<int(shop::Receipt)>("file"); });
  const auto safe = runtime.foreign_actor("safe", "shop");
  say_error<pharos::FunctionNotFound>([&] { safe.method<int()>("code"); });
  say_error<pharos::FailedPrecondition>([&] { runtime.actor<shop::Till>("till", "shop"); });
  say_error<pharos::NotFound>([&] { runtime.foreign_actor("till", "elsewhere"); });
}

void run_failures(const pharos::ForeignActor& till) {
  const auto fail = till.method<void()>("fail");
  say_error<pharos::UserError>([&] { fail.call().get(); });
  const auto types = pharos::types<std::runtime_error>;
  say_error<pharos::InvalidArgument>([&] { fail.call({.max_retries = 1, .retry_on = types}).get(); });
  const auto busy = till.method<void(int)>("busy");
  say_error<pharos::DeadlineExceeded>([&] { busy.call({.deadline = pharos::Deadline::in(100ms)}, 500).get(); });
  say_error<pharos::DeadlineExceeded>([&] { till.method<int()>("total", pharos::Deadline::in(50ms)); });
  const auto waits = till.method<int(int)>("later").call(600'000);
  waits.cancel();
  say_error<pharos::Cancelled>([&] { waits.get(); });
}

void run_deaths(pharos::Runtime& runtime, const pharos::ForeignActor& till) {
  const auto add = till.method<int(int)>("add");
  const auto die = till.method<void()>("die");
  add.call(5).get();
  say_error<pharos::ActorDied>([&] { die.call().get(); });
  say("restarted: " + std::to_string(add.call(1).get()));
  die.send();  // the process dies while it has the next question
  say("asked again: " + std::to_string(till.method<int()>("total").call().get()));
  till.stop();
  say_error<pharos::ActorDied>([&] {
    for (;;) add.call(1).get();
  });
  say_error<pharos::ActorDied>([&] { till.method<int()>("total"); });
  say_error<pharos::NotFound>([&] { runtime.foreign_actor("till", "shop"); });
}

}  // namespace

int main(int, char** argv) {
  return pharos::cluster::report([&] {
    const std::string mode = argv[1];
    pharos::Runtime runtime;
    const pharos::ForeignActor till = runtime.foreign_actor("till", "shop");
    if (mode == "calls") run_calls(runtime, till);
    if (mode == "mismatches") run_mismatches(runtime, till);
    if (mode == "failures") run_failures(till);
    if (mode == "deaths") run_deaths(runtime, till);
  });
}
