#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <string>

#include <pharos/base/fd.hpp>
#include <pharos/net/blocking_io.hpp>
#include <pharos/process/build_id.hpp>
#include <pharos/process/inherited.hpp>

#include "processes.hpp"

namespace pharos::process {
namespace {

TEST(BuildId, IsTheSameEachTimeAndInAnotherProcessOfThisProgram) {
  const wire::BuildId mine = own_build_id();
  EXPECT_EQ(own_build_id(), mine);
  EXPECT_FALSE(std::all_of(mine.begin(), mine.end(), [](std::uint8_t byte) { return byte == 0; }));
  EXPECT_EQ(in_a_child([&] { return own_build_id() == mine ? 0 : 1; }), 0);
}

TEST(BuildId, OfACopyIsTheSameAndOfWhatTheLinkerGaveNoneIsAHashOfItsBytes) {
  const Fd own{::open("/proc/self/exe", O_RDONLY | O_CLOEXEC)};
  EXPECT_EQ(build_id_of(own.get()).value(), own_build_id());
  const auto of_bytes = [](const std::string& bytes) {
    const Fd file{::memfd_create("program", MFD_CLOEXEC)};
    EXPECT_EQ(::write(file.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    return build_id_of(file.get()).value();
  };
  EXPECT_EQ(of_bytes("#!/bin/sh"), of_bytes("#!/bin/sh"));
  EXPECT_NE(of_bytes("#!/bin/sh"), of_bytes("#!/bin/sh "));
  std::string bytes(std::filesystem::file_size("/proc/self/exe"), '\0');
  ASSERT_EQ(::pread(own.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(of_bytes(bytes), own_build_id());
  for (std::size_t size = 0; size < 4096; size += 7) of_bytes(bytes.substr(0, size));  // must not crash
  EXPECT_FALSE(build_id_of(-1).ok());
}

TEST(Preamble, ComesThroughWhole) {
  const auto ends = *net::socket_pair();
  Preamble sent;
  for (std::size_t i = 0; i < sent.key.size(); ++i) sent.key[i] = static_cast<std::byte>(i + 1);
  sent.id = 0x1122334455667788;
  sent.set_name("trainer");
  ASSERT_TRUE(send_preamble(ends.first.get(), sent).ok());
  const auto received = receive_preamble(ends.second.get(), soon());
  ASSERT_TRUE(received.ok());
  EXPECT_EQ(received->key, sent.key);
  EXPECT_EQ(received->id, sent.id);
  EXPECT_STREQ(received->name, "trainer");
}

TEST(Preamble, ANameIsCutToWhatTheProcessListShows) {
  Preamble preamble;
  preamble.set_name(std::string(100, 'n'));
  EXPECT_EQ(std::string{preamble.name}, std::string(15, 'n'));
  preamble.set_name("");
  EXPECT_STREQ(preamble.name, "");
}

TEST(Preamble, ANameWithoutAnEndIsGivenOne) {
  const auto ends = *net::socket_pair();
  Preamble sent;
  std::memset(sent.name, 'n', sizeof sent.name);
  ASSERT_TRUE(send_preamble(ends.first.get(), sent).ok());
  EXPECT_EQ(std::string{receive_preamble(ends.second.get(), soon())->name}, std::string(15, 'n'));
}

TEST(Preamble, HalfOfOneIsTheEndAndNoneIsADeadline) {
  auto ends = *net::socket_pair();
  const auto shortly = async::Deadline::after(std::chrono::milliseconds{10}, SteadyClock{});
  EXPECT_EQ(receive_preamble(ends.second.get(), shortly).error().code(), ErrorCode::kDeadlineExceeded);
  const std::array<std::byte, sizeof(Preamble) / 2> half{};
  ASSERT_TRUE(net::send_all(ends.first.get(), half, soon()).ok());
  ends.first.reset();
  EXPECT_EQ(receive_preamble(ends.second.get(), soon()).error().code(), ErrorCode::kUnavailable);
}

TEST(Inherited, AProcessThatWasStartedByAPersonHasNoRole) {
  EXPECT_FALSE(take_inherited().has_value());
  EXPECT_EQ(role_variable(InheritedRole::kZygote, 3), "PHAROS_ROLE=zygote:3");
  EXPECT_EQ(role_variable(InheritedRole::kWorker, 12), "PHAROS_ROLE=worker:12");
}

}  // namespace
}  // namespace pharos::process
