#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include <pharos/async/block_on.hpp>
#include <pharos/net/address.hpp>
#include <pharos/net/blocking_io.hpp>

#include "own_loopback.hpp"
#include "pollers.hpp"

namespace pharos::net {
namespace {

namespace fs = std::filesystem;

class AddressTest : public testing::Test {
 protected:
  AddressTest() {
    std::string name = fs::temp_directory_path() / "pharos-net-XXXXXX";
    PHAROS_CHECK(::mkdtemp(name.data()) != nullptr, name);
    folder_ = name;
  }
  ~AddressTest() override { fs::remove_all(folder_); }

  Address unix_address(const fs::path& path) const { return {.unix_socket = true, .place = path.string()}; }

  fs::path folder_;
};

Fd accepted_from(const Fd& listening) {
  return Fd{::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
}

TEST_F(AddressTest, TextsOfBothKindsParseAndPrint) {
  for (const std::string text : {"unix:/run/node.sock", "127.0.0.1:7000", "10.1.2.3:0", "0.0.0.0:65535"}) {
    const auto address = parse_address(text);
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->to_string(), text);
  }
  EXPECT_EQ(parse_address("localhost:80")->to_string(), "127.0.0.1:80");
  EXPECT_TRUE(parse_address("unix:x")->unix_socket);
  EXPECT_TRUE(parse_address("unix:/x")->loopback());
  EXPECT_TRUE(parse_address("127.5.5.5:1")->loopback());
  EXPECT_FALSE(parse_address("10.0.0.1:1")->loopback());
}

TEST_F(AddressTest, WhatIsNoAddressIsRefusedWithTheText) {
  for (const std::string text : {"", ":", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1", "127.0.0.1:+1",
                                 "127.0.0.1:80x", "127.0.0.1: 80", ":80", "example.org:80", "256.0.0.1:80", "1.2.3:80",
                                 "[::1]:80", "unix:", "127.0.0.1:7000:1"}) {
    const auto address = parse_address(text);
    ASSERT_FALSE(address.ok()) << text;
    EXPECT_EQ(address.error().code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(address.error().message().find('"'), std::string::npos) << address.error().to_string();
  }
}

TEST_F(AddressTest, BothKindsListenConnectAndCarryBytes) {
  for (const Address& address : {unix_address(folder_ / "s"), Address{.place = "127.0.0.1"}}) {
    const auto listening = listen_at(address);
    ASSERT_TRUE(listening.ok()) << listening.error().to_string();
    const Address where = address.unix_socket ? address : *bound_address(listening->get());
    const auto connected = connect_to(where, soon());
    ASSERT_TRUE(connected.ok()) << connected.error().to_string();
    const Fd accepted = accepted_from(*listening);
    ASSERT_TRUE(accepted);
    const std::string text = "bytes";
    EXPECT_TRUE(send_all(connected->get(), std::as_bytes(std::span{text}), soon()).ok());
    std::string received(text.size(), ' ');
    EXPECT_TRUE(receive_all(accepted.get(), std::as_writable_bytes(std::span{received}), soon()).ok());
    EXPECT_EQ(received, text);
  }
}

TEST_F(AddressTest, ABusyPortOrPathIsNamed) {
  const auto first = listen_at({.place = "127.0.0.1"});
  const Address taken = *bound_address(first->get());
  const auto second = listen_at(taken);
  EXPECT_EQ(second.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_NE(second.error().message().find("127.0.0.1:" + std::to_string(taken.port)), std::string::npos);
  EXPECT_FALSE(second.error().remedy().empty());

  const Address path = unix_address(folder_ / "s");
  const auto third = listen_at(path);
  const auto fourth = listen_at(path);
  EXPECT_EQ(fourth.error().code(), ErrorCode::kAlreadyExists);
  EXPECT_NE(fourth.error().message().find(path.place), std::string::npos);
}

TEST_F(AddressTest, AUnixSocketMayLieInAFolderOfAnyDepth) {
  fs::path deep = folder_;
  while (deep.string().size() < 200) deep /= "a-folder-with-a-name";
  fs::create_directories(deep);
  const Address address = unix_address(deep / "node.sock");
  const auto listening = listen_at(address);
  ASSERT_TRUE(listening.ok()) << listening.error().to_string();
  EXPECT_TRUE(fs::exists(deep / "node.sock"));
  EXPECT_TRUE(connect_to(address, soon()).ok());
}

TEST_F(AddressTest, AUnixSocketIsItsOwnersAloneWhateverTheMask) {
  const mode_t mask = ::umask(0);
  const auto listening = listen_at(unix_address(folder_ / "s"));
  const mode_t after = ::umask(mask);
  ASSERT_TRUE(listening.ok());
  EXPECT_EQ(after, 0u) << "the mask belongs to the whole process";
  struct stat status {};
  ASSERT_EQ(::stat((folder_ / "s").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
}

TEST_F(AddressTest, ConnectingToNothingSaysWhereAndWhatToLookAt) {
  std::uint16_t free_port = 0;
  {
    const auto closed = listen_at({.place = own_loopback()});
    free_port = bound_address(closed->get())->port;
  }
  const auto refused = connect_to({.place = own_loopback(), .port = free_port}, soon());
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message().find(std::to_string(free_port)), std::string::npos);
  EXPECT_FALSE(refused.error().remedy().empty());

  const auto missing = connect_to(unix_address(folder_ / "none"), soon());
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(connect_to(unix_address(folder_ / "no-folder" / "none"), soon()).error().code(), ErrorCode::kNotFound);
  {
    const auto dead = listen_at(unix_address(folder_ / "dead"));
    ASSERT_TRUE(dead.ok());
  }
  EXPECT_EQ(connect_to(unix_address(folder_ / "dead"), soon()).error().code(), ErrorCode::kUnavailable);
}

TEST_F(AddressTest, AUnixSocketsFileNameMayNotBeTooLong) {
  const auto listening = listen_at(unix_address(folder_ / std::string(120, 'x')));
  EXPECT_EQ(listening.error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(AddressTest, TheProcessAtTheOtherEndMustBeThisUsers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root may become another user";
  const Address address = unix_address(folder_ / "s");
  const auto listening = listen_at(address);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  ASSERT_EQ(::chmod((folder_ / "s").c_str(), 0777), 0);
  const auto mine = connect_to(address, soon());
  ASSERT_TRUE(mine.ok());
  const Fd first = accepted_from(*listening);
  EXPECT_TRUE(check_peer_is_this_user(first.get()).ok());

  ASSERT_EQ(::seteuid(12345), 0);
  const auto theirs = connect_to(address, soon());
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(theirs.error().code(), ErrorCode::kPermissionDenied) << "the one who listens is root";
  const Fd second = accepted_from(*listening);
  ASSERT_TRUE(second);
  EXPECT_EQ(check_peer_is_this_user(second.get()).error().code(), ErrorCode::kPermissionDenied);
}

TEST(BlockingIo, NoWaitGoesPastItsDeadline) {
  auto pair = *socket_pair();
  std::byte one[1];
  const auto deadline = async::Deadline::after(std::chrono::milliseconds{10}, SteadyClock{});
  EXPECT_EQ(receive_all(pair.first.get(), one, deadline).error().code(), ErrorCode::kDeadlineExceeded);
  const std::vector<std::byte> much(std::size_t{8} << 20);
  const auto later = async::Deadline::after(std::chrono::milliseconds{10}, SteadyClock{});
  EXPECT_EQ(send_all(pair.first.get(), much, later).error().code(), ErrorCode::kDeadlineExceeded);
  pair.second.reset();
  EXPECT_EQ(receive_all(pair.first.get(), one, soon()).error().code(), ErrorCode::kUnavailable);
}

TEST_F(AddressTest, AnEventLoopConnectsOrSaysWhyNot) {
  Reactor reactor;
  const Pollers pollers{reactor, 1};
  const auto listening = listen_at({.place = "127.0.0.1", .port = 0});
  ASSERT_TRUE(listening.ok());
  const Address place = *bound_address(listening->get());
  const auto connected = async::block_on(reactor, connect_to(&reactor, place, soon()));
  ASSERT_TRUE(connected.ok()) << connected.error().to_string();
  EXPECT_TRUE(set_up_far_socket(connected->get()).ok());
  EXPECT_FALSE(set_up_far_socket(socket_pair()->first.get()).ok()) << "only TCP has these timeouts";
  EXPECT_TRUE(make_patient(connected->get()).ok());
  EXPECT_FALSE(make_patient(socket_pair()->first.get()).ok());
  EXPECT_EQ(far_address(connected->get())->to_string(), place.to_string());
  EXPECT_FALSE(far_address(socket_pair()->first.get()).ok());
  const auto no_file = async::block_on(reactor, connect_to(&reactor, unix_address(folder_ / "none"), soon()));
  EXPECT_EQ(no_file.error().code(), ErrorCode::kNotFound);
}

TEST_F(AddressTest, AnEventLoopSaysThatNobodyListens) {
  Reactor reactor;
  const Pollers pollers{reactor, 1};
  Address nobody;
  {
    const auto gone = listen_at({.place = own_loopback(), .port = 0});
    nobody = *bound_address(gone->get());
  }
  const auto refused = async::block_on(reactor, connect_to(&reactor, nobody, soon()));
  EXPECT_EQ(refused.error().code(), ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message().find(nobody.to_string()), std::string::npos);
}

}  // namespace
}  // namespace pharos::net
