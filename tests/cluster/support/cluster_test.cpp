#include "cluster_test.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstring>
#include <thread>

namespace pharos::cluster {
namespace {

char late_test[256];

void end_late_test(int) {
  const auto say = [](const char* text) {
    [[maybe_unused]] const auto n = ::write(STDERR_FILENO, text, std::strlen(text));
  };
  say("\nthe test did not end in its time: ");
  say(late_test);
  say("\n");
  ::_exit(124);
}

}  // namespace

ClusterTest::ClusterTest(std::size_t path_bytes) : census_{std::in_place, path_bytes} {}

void ClusterTest::SetUp() {
  const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
  std::strncpy(late_test, test->name(), sizeof late_test - 1);
  struct sigaction action {};
  action.sa_handler = &end_late_test;
  ::sigaction(SIGALRM, &action, nullptr);
  must_end_within(kTime);
  // The thread sanitizer starts a thread of its own, and keeps it, when the program starts its first thread. The
  // sanitizer does that here, before the threads are counted.
  std::thread{[] {}}.join();
  before_ = Holdings::now();
}

void ClusterTest::TearDown() {
  census_->expect_nothing_left();
  // A thread that was joined disappears from /proc a moment later.
  EXPECT_TRUE(eventually([this] { return Holdings::now().are_as(before_); }, std::chrono::seconds{2}))
      << "before: " << before_ << "\nafter: " << Holdings::now();
  ::alarm(0);
}

void ClusterTest::must_end_within(std::chrono::seconds time) {
  ::alarm(static_cast<unsigned>(time.count()));
}

}  // namespace pharos::cluster
