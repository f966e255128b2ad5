// A program that uses the key-value store while a test kills the head: `key_values FILE`. Each of three threads raises
// the counter "count" again and again, until FILE exists. The program prints "from N" for each time that it has raised
// it from N to N + 1, and at the end "count N".

#include <chrono>
#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "report.hpp"

namespace {

using namespace std::chrono_literals;

std::mutex output;

void raise(pharos::KeyValues values, const std::string& until) {
  while (!std::filesystem::exists(until)) {
    const auto seen = values.get<int>("count");
    if (!values.compare_and_set<int>("count", seen, seen.value_or(0) + 1)) continue;
    {
      const std::lock_guard lock{output};
      pharos::cluster::say("from " + std::to_string(seen.value_or(0)));
    }
    std::this_thread::sleep_for(2ms);
  }
}

}  // namespace

int main(int, char** argv) {
  return pharos::cluster::report([&] {
    pharos::Runtime runtime;
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) threads.emplace_back(raise, runtime.kv(), argv[1]);
    threads.clear();
    pharos::cluster::say("count " + std::to_string(runtime.kv().get<int>("count").value_or(0)));
  });
}
