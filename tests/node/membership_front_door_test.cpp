#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/net/blocking_io.hpp>

#include "daemon/front_door.hpp"
#include "temporary_folder.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

net::Key key_of(std::uint8_t byte) {
  net::Key key{};
  key.fill(static_cast<std::byte>(byte));
  return key;
}

/// A front door that listens at a Unix socket and at a TCP port.
class FrontDoorTest : public testing::Test {
 protected:
  static constexpr net::Identity kSelf{net::Role::kNode, 1};

  ~FrontDoorTest() override {
    door_.close();
    while (!door_.closed()) reactor_.poll_one(soon());
  }
  async::Deadline soon() const { return async::Deadline::after(30s, reactor_.now()); }

  /// Connects and proves itself in another thread, while this one polls until the visitor is done. Returns whether the
  /// door has proved itself to the visitor.
  bool visit(
      const net::Address& address, const net::Key& key, net::Identity visitor,
      const std::function<void(int socket)>& then = [](int) {}) {
    std::atomic<bool> done = false;
    bool greeted = false;
    std::thread thread{[&] {
      auto socket = net::connect_to(address, soon());
      ASSERT_TRUE(socket);
      greeted = net::initiate(socket->get(), key, visitor, soon()).ok();
      if (greeted) then(socket->get());
      sockets_.push_back(*std::move(socket));
      done = true;
      reactor_.post([] {});
    }};
    while (!done) reactor_.poll_one(soon());
    thread.join();
    return greeted;
  }
  void poll_until(const std::function<bool()>& condition) {
    const auto deadline = soon();
    while (!condition() && !deadline.expired(reactor_.now())) reactor_.poll_one(deadline);
  }

  const TemporaryFolder folder_;
  net::Reactor reactor_;
  std::vector<Fd> drivers_;
  std::vector<Introduction> nodes_;
  std::vector<Fd> sockets_;
  net::TokenRing tokens_{key_of(7)};
  FrontDoor door_{reactor_,
                  kSelf,
                  tokens_,
                  {.driver = [this](Fd socket) { drivers_.push_back(std::move(socket)); },
                   .node = [this](const Introduction& introduction, Fd) { nodes_.push_back(introduction); }}};
};

TEST_F(FrontDoorTest, ADriverThatKnowsTheTokenIsLetInAtTheUnixSocket) {
  const auto address = door_.listen_at("unix:" + (folder_.path() / "door").string());
  ASSERT_TRUE(address);
  EXPECT_EQ(door_.listening_at(), "") << "it is no TCP address";
  EXPECT_TRUE(visit(*address, key_of(7), {net::Role::kDriver, 5}));
  poll_until([this] { return !drivers_.empty(); });
  EXPECT_EQ(drivers_.size(), 1u);
}

TEST_F(FrontDoorTest, AStrangerIsNotLetIn) {
  const auto address = door_.listen_at("unix:" + (folder_.path() / "door").string());
  ASSERT_TRUE(address);
  EXPECT_FALSE(visit(*address, key_of(8), {net::Role::kDriver, 5}));
  EXPECT_TRUE(drivers_.empty());
}

TEST_F(FrontDoorTest, ANodeIsNotLetInAtTheUnixSocket) {
  const auto address = door_.listen_at("unix:" + (folder_.path() / "door").string());
  ASSERT_TRUE(address);
  EXPECT_FALSE(visit(*address, key_of(7), {net::Role::kNode, 5}));
  EXPECT_TRUE(drivers_.empty());
  EXPECT_TRUE(nodes_.empty());
}

TEST_F(FrontDoorTest, ANodeSaysAtTheTcpPortWhatItsConnectionIsFor) {
  const auto address = door_.listen_at("127.0.0.1:0");
  ASSERT_TRUE(address);
  EXPECT_EQ(door_.listening_at(), address->to_string());
  EXPECT_FALSE(door_.listening_at().ends_with(":0"));
  const Introduction introduction{.purpose = Introduction::Purpose::kClaims, .caller = 5};
  EXPECT_TRUE(visit(*address, key_of(7), {net::Role::kNode, 5}, [&](int socket) {
    EXPECT_TRUE(net::send_all(socket, std::as_bytes(std::span{&introduction, 1}), soon()));
  }));
  poll_until([this] { return !nodes_.empty(); });
  ASSERT_EQ(nodes_.size(), 1u);
  EXPECT_EQ(nodes_.front().purpose, Introduction::Purpose::kClaims);
  EXPECT_EQ(nodes_.front().caller, 5u);
}

TEST_F(FrontDoorTest, WhoKnowsAnEarlierTokenThatIsStillValidIsLetIn) {
  const auto address = door_.listen_at("unix:" + (folder_.path() / "door").string());
  ASSERT_TRUE(address);
  const std::uint64_t now = net::seconds_now();
  ASSERT_TRUE(tokens_.take(net::seal(key_of(8), key_of(7)), now + 1000, now));
  EXPECT_TRUE(visit(*address, key_of(8), {net::Role::kDriver, 2}));
  EXPECT_TRUE(visit(*address, key_of(7), {net::Role::kDriver, 2}));
  ASSERT_TRUE(tokens_.take(net::seal(key_of(9), key_of(8)), now, now));
  EXPECT_TRUE(visit(*address, key_of(9), {net::Role::kDriver, 2}));
  EXPECT_FALSE(visit(*address, key_of(8), {net::Role::kDriver, 2}));
}

}  // namespace
}  // namespace pharos::node
