// The listening sockets of a daemon, when the process has no descriptors left.

#include "daemon/front_door.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <chrono>
#include <string>
#include <thread>

#include "no_descriptors.hpp"
#include "temporary_folder.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

TEST(FrontDoorWithoutDescriptors, AConnectionThatCameWhileThereWereNoDescriptorsIsAcceptedAfterwards) {
  const TemporaryFolder folder;
  const std::string path = folder.path() / "node.sock";
  const net::TokenRing tokens{net::Key{}};
  const net::Key& token = tokens.present();
  net::Reactor reactor;
  bool came = false;
  FrontDoor door{reactor, {net::Role::kNode, 1}, tokens, {.driver = [&](Fd) { came = true; }, .node = {}}};
  ASSERT_TRUE(door.listen_at("unix:" + path).ok());

  const Fd driver{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  sockaddr_un name{.sun_family = AF_UNIX, .sun_path = {}};
  path.copy(name.sun_path, sizeof name.sun_path - 1);
  static_cast<void>(async::Deadline::after(1s, reactor));  // UBSan needs descriptors when it first sees a clock
  {
    const NoDescriptors none;
    ASSERT_EQ(::connect(driver.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    reactor.poll_one(async::Deadline::after(1s, reactor.now()));  // the event of the new connection, which comes once
  }
  std::thread proves{[&] {
    const auto proved = net::initiate(driver.get(), token, {net::Role::kDriver, 2},
                                      async::Deadline::after(10s, std::chrono::steady_clock::now()));
    EXPECT_TRUE(proved.ok());
  }};
  const TimePoint until = reactor.now() + 10s;
  while (!came && reactor.now() < until) reactor.poll_one(async::Deadline::after(10ms, reactor.now()));
  proves.join();
  EXPECT_TRUE(came);
  door.close();
  while (!door.closed()) reactor.poll_one(async::Deadline::after(10ms, reactor.now()));
}

}  // namespace
}  // namespace pharos::node
