// A program that makes and kills named actors while a test kills processes of the cluster: `changing FILE THREADS`.
// Each thread makes at most 25 changes a second. The program prints "?name" before it asks for a change, "+name" when
// the actor is acknowledged to be there, and "-name" when it is acknowledged to be gone. Once FILE exists, the program
// looks up each actor that it has ever asked for, and prints "is name" or "no name".

#include <chrono>
#include <deque>
#include <filesystem>
#include <iostream>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 60s;
constexpr std::size_t kLivingMax = 4;  // actors of each thread
constexpr const char* kNameSpace = "changing";

class Marked {
 public:
  explicit Marked(std::string mark) : mark_{std::move(mark)} {}
  std::string mark() const { return mark_; }

 private:
  std::string mark_;
};

std::mutex output;
void say(const std::string& line) {
  const std::lock_guard lock{output};
  pharos::cluster::say(line);
}

template <class T>
T wait_for(const pharos::Ref<T>& ref) {
  return ref.get(pharos::Deadline::after(kPatience, std::chrono::steady_clock::now()));
}

bool is_there(pharos::Runtime& runtime, const std::string& name) {
  try {
    const auto found = runtime.actor<Marked>(name, kNameSpace);
    const std::string mark = wait_for(found.call<&Marked::mark>());
    if (mark != name) say("wrong: " + name + " is " + mark);
    return true;
  } catch (const pharos::NotFound&) {
    return false;
  }
}

class Changer {
 public:
  Changer(pharos::Runtime& runtime, int number, std::string until)
      : runtime_{runtime}, number_{number}, until_{std::move(until)}, thread_{[this] { run(); }} {}
  void join() { thread_.join(); }
  void look() {
    for (int i = 0; i < made_; ++i) say((is_there(runtime_, name_of(i)) ? "is " : "no ") + name_of(i));
  }

 private:
  std::string name_of(int i) const { return std::to_string(number_) + '.' + std::to_string(i); }

  void run() {
    try {
      while (!std::filesystem::exists(until_)) {
        const auto next = std::chrono::steady_clock::now() + 40ms;  // eight threads make 200 changes a second
        living_.size() < kLivingMax ? make() : end();
        std::this_thread::sleep_until(next);  // limits the rate
      }
    } catch (const std::exception& e) {
      say(std::string{"wrong: "} + e.what());
    }
  }
  void make() {
    const std::string name = name_of(made_++);
    say("?" + name);
    auto actor = runtime_.spawn<Marked>({.name = name,
                                         .name_space = kNameSpace,
                                         .resources = {{"seat", 1}},
                                         .max_restarts = -1,
                                         .max_task_retries = 100},
                                        name);
    if (wait_for(actor.call<&Marked::mark>()) != name) say("wrong: " + name);
    living_.emplace_back(name, std::move(actor));
    say("+" + name);
  }
  void end() {
    const auto [name, actor] = living_.front();
    living_.pop_front();
    say("?" + name);
    actor.kill();
    const auto give_up = std::chrono::steady_clock::now() + kPatience;
    while (true) {
      try {
        static_cast<void>(runtime_.actor<Marked>(name, kNameSpace));
      } catch (const pharos::NotFound&) {
        break;
      }
      if (std::chrono::steady_clock::now() > give_up) return say("wrong: " + name + " is not killed");
    }
    say("-" + name);
  }

  pharos::Runtime& runtime_;
  const int number_;
  const std::string until_;
  int made_ = 0;
  std::deque<std::pair<std::string, pharos::Actor<Marked>>> living_;
  std::thread thread_;
};

}  // namespace

int main(int argc, char** argv) {
  return pharos::cluster::report([&] {
    pharos::Runtime runtime{argc, argv};
    say("begins");
    std::vector<std::unique_ptr<Changer>> changers;
    const int threads = std::stoi(argv[2]);
    for (int i = 0; i < threads; ++i) changers.push_back(std::make_unique<Changer>(runtime, i, argv[1]));
    for (const auto& changer : changers) changer->join();
    say("ended");
    for (const auto& changer : changers) changer->look();
  });
}
