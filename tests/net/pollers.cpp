#include "pollers.hpp"

#include <sched.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace pharos::net {

async::Deadline soon() {
  return async::Deadline::after(std::chrono::seconds{30}, SteadyClock{});
}

Pollers::Pollers(Reactor& reactor, int count)
    : reactor_{reactor}, polling_{count}, numbers_(static_cast<std::size_t>(count)) {
  for (std::size_t i = 0; i < numbers_.size(); ++i) threads_.emplace_back([this, i] { poll(i); });
}

Pollers::~Pollers() {
  stopping_ = true;
  while (polling_.load() != 0) {
    reactor_.post([] {});  // wakes one of the threads
    ::sched_yield();
  }
  for (std::thread& thread : threads_) thread.join();
}

void Pollers::poll(std::size_t index) {
  numbers_[index] = ::gettid();
  while (!stopping_) reactor_.poll_one(async::Deadline::never());
  --polling_;
}

bool sleeps(pid_t thread) {
  if (thread == 0) return false;
  FILE* const file = std::fopen(("/proc/self/task/" + std::to_string(thread) + "/stat").c_str(), "re");
  if (file == nullptr) return false;
  char text[512] = {};
  const std::size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[size] = '\0';
  const char* const after_name = std::strrchr(text, ')');
  return after_name != nullptr && std::strlen(after_name) > 2 && after_name[2] == 'S';
}

}  // namespace pharos::net
