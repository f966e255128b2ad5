// The first page of Pharos: a function that runs in another process, an object that lives in another process, and a
// result that is passed on before it is there.

#include <iostream>
#include <string>
#include <utility>

#include <pharos/pharos.hpp>

namespace {

std::string full_name(const std::string& first, const std::string& last) {
  return first + ' ' + last;
}

class Greeter {
 public:
  explicit Greeter(std::string greeting) : greeting_{std::move(greeting)} {}

  std::string greet(const std::string& name) {
    ++visitors_;
    return greeting_ + ", " + name + "! You are visitor number " + std::to_string(visitors_) + '.';
  }

 private:
  std::string greeting_;
  int visitors_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  pharos::Runtime runtime{argc, argv};  // joins the cluster it was started for, or embeds one of its own

  // A task: submit() returns at once, the function runs in a worker process, and the Ref stands for what it returns.
  const pharos::Ref<std::string> ada = runtime.submit<&full_name>("Ada", "Lovelace");
  const pharos::Ref<std::string> grace = runtime.submit<&full_name>("Grace", "Hopper");

  // An actor: a Greeter in a process of its own, which keeps its members from call to call.
  const pharos::Actor<Greeter> greeter = runtime.spawn<Greeter>("Hello");

  // A Ref is an argument like any other, whether its result is there or not. An actor runs calls in the order in which
  // they were made.
  const pharos::Ref<std::string> first = greeter.call<&Greeter::greet>(ada);
  const pharos::Ref<std::string> second = greeter.call<&Greeter::greet>(grace);

  std::cout << first.get() << '\n' << second.get() << '\n';
  return second.get() == "Hello, Grace Hopper! You are visitor number 2." ? 0 : 1;
}
