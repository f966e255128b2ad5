// Peers that are let in at a listening socket.

#include "stream/greeting.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <thread>

#include <pharos/base/random.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/handshake.hpp>

#include "no_descriptors.hpp"

namespace pharos::ml {
namespace {

using namespace std::chrono_literals;

Duration time_on_cpu() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds{time.tv_sec} + std::chrono::nanoseconds{time.tv_nsec};
}

class GreetingTest : public testing::Test {
 protected:
  GreetingTest() { fill_random(key); }

  const Fd listener = *net::listen_at({.unix_socket = false, .place = "127.0.0.1", .port = 0});
  const net::Address address = *net::bound_address(listener.get());
  net::Key key{};
};

TEST_F(GreetingTest, APeerThatKnowsTheKeyIsLetIn) {
  Greeting greeting{listener, key, {net::Role::kWorker, 0}};
  std::jthread peer{[&] {
    const auto socket = net::connect_to(address, Deadline::in(5s));
    ASSERT_TRUE(socket);
    EXPECT_TRUE(net::initiate(socket->get(), key, {net::Role::kWorker, 7}, Deadline::in(5s)));
  }};
  const auto guest = greeting.next(Deadline::in(10s));
  ASSERT_TRUE(guest);
  EXPECT_EQ(guest->id, 7U);
}

TEST_F(GreetingTest, WithoutADescriptorItWaitsAndDoesNotSpin) {
  Greeting greeting{listener, key, {net::Role::kWorker, 0}};
  const auto waiting = net::connect_to(address, Deadline::in(5s));
  ASSERT_TRUE(waiting);
  const NoDescriptors none;
  const Duration before = time_on_cpu();
  EXPECT_FALSE(greeting.next(Deadline::in(500ms)));
  EXPECT_LT(time_on_cpu() - before, 100ms);
}

TEST_F(GreetingTest, APeerThatCameWithoutADescriptorIsLetInLater) {
  Greeting greeting{listener, key, {net::Role::kWorker, 0}};
  auto socket = net::connect_to(address, Deadline::in(5s));
  ASSERT_TRUE(socket);
  {
    const NoDescriptors none;
    EXPECT_FALSE(greeting.next(Deadline::in(10ms)));
  }
  std::jthread peer{[&] { EXPECT_TRUE(net::initiate(socket->get(), key, {net::Role::kWorker, 7}, Deadline::in(5s))); }};
  EXPECT_TRUE(greeting.next(Deadline::in(10s)));
}

}  // namespace
}  // namespace pharos::ml
