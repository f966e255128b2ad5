#include "link/session.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include <pharos/net/reactor.hpp>

namespace pharos::node {
namespace {

/// A link that keeps the numbers of the FindNode messages sent over it.
class Wire final : public net::Link {
 public:
  void start(const std::shared_ptr<Handler>&) override {}
  void resume() override {}
  bool send(wire::FrameHeader, std::span<const std::byte> payload, std::vector<Fd>) override {
    numbers.push_back(std::get<wire::FindNode>(*wire::decode(payload)).number);
    return true;
  }
  void flush() override {}
  std::size_t queued() const override { return 0; }
  void wait_for_room(std::size_t, async::Deadline) override {}
  void close() override {}
  void drop() override {}

  std::vector<std::uint64_t> numbers;
};

using Numbers = std::vector<std::uint64_t>;

class SessionTest : public testing::Test, public net::Peer::Owner {
 protected:
  void on_message(net::Peer&, net::Parcel, std::optional<std::uint64_t>) override {}
  void on_peer_closed(net::Peer&, const Error&) override {}

  std::shared_ptr<Wire> new_wire() {
    auto wire = std::make_shared<Wire>();
    peers_.push_back(net::Peer::make(reactor_, wire, *this));
    return wire;
  }
  const std::shared_ptr<net::Peer>& newest() const { return peers_.back(); }
  void say(std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t number = first; number <= last; ++number) session_.send(wire::FindNode{NodeId{1}, number});
  }

  net::Reactor reactor_;
  std::vector<std::shared_ptr<net::Peer>> peers_;
  Session session_{7};
};

TEST_F(SessionTest, WhatTheOtherEndHasNotHeardIsSaidAgainInOrderOverTheNextConnection) {
  const auto first = new_wire();
  session_.begin(newest());
  say(1, 5);
  session_.confirm(2);
  session_.pause();
  say(6, 6);
  EXPECT_EQ(first->numbers, (Numbers{1, 2, 3, 4, 5}));
  EXPECT_FALSE(session_.can_resume(1)) << "it has said that it has heard more";
  EXPECT_FALSE(session_.can_resume(7)) << "nobody has said so many";
  ASSERT_TRUE(session_.can_resume(3));
  const auto second = new_wire();
  session_.resume(newest(), 3);
  say(7, 7);
  EXPECT_EQ(second->numbers, (Numbers{4, 5, 6, 7}));
  session_.pause();
  ASSERT_TRUE(session_.can_resume(7));
  const auto third = new_wire();
  session_.resume(newest(), 7);
  EXPECT_EQ(third->numbers, Numbers{});
}

TEST_F(SessionTest, WhatIsTooOldToBeKeptCannotBeSaidAgain) {
  say(1, Session::kUnconfirmedMax + 2);
  EXPECT_FALSE(session_.can_resume(1));
  EXPECT_TRUE(session_.can_resume(2));
  session_.confirm(Session::kUnconfirmedMax + 2);
  EXPECT_TRUE(session_.can_resume(Session::kUnconfirmedMax + 2));
}

TEST_F(SessionTest, OneWithoutANumberIsNotResumed) {
  EXPECT_FALSE(Session{}.can_resume(0));
  EXPECT_TRUE(Session{1}.can_resume(0));
}

}  // namespace
}  // namespace pharos::node
