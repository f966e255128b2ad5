#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <pharos/base/random.hpp>
#include <pharos/process/token.hpp>

namespace pharos::process {
namespace {

namespace fs = std::filesystem;

net::Key some_token() {
  net::Key token;
  fill_random(token);
  return token;
}

class TokenFileTest : public testing::Test {
 protected:
  TokenFileTest() { fs::create_directory(folder_); }
  ~TokenFileTest() override { fs::remove_all(folder_); }

  const fs::path folder_ = fs::temp_directory_path() / ("pharos-token-" + std::to_string(::getpid()));
  const std::string path_ = folder_ / "token";
};

TEST_F(TokenFileTest, TheTokensOfAClusterAreKeptWithTheirTimes) {
  const net::TokenRing one{some_token()};
  ASSERT_TRUE(replace_token_ring(path_, one));
  EXPECT_EQ(fs::file_size(path_), 32U);
  EXPECT_EQ(*read_token_ring(path_), one);
  const net::TokenRing several{some_token(), {{one.present(), 77}, {some_token(), 5}}};
  ASSERT_TRUE(replace_token_ring(path_, several));
  EXPECT_EQ(*read_token_ring(path_), several);
  EXPECT_EQ(*read_token(path_), several.present());
  EXPECT_EQ(fs::status(path_).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(std::distance(fs::directory_iterator{folder_}, {}), 1) << "nothing is left beside it";
}

TEST_F(TokenFileTest, WhatAProcessLeftBehindThatDiedHereIsInNobodysWay) {
  std::ofstream{path_ + ".new"} << "a part";
  const net::TokenRing one{some_token()};
  ASSERT_TRUE(replace_token_ring(path_, one));
  EXPECT_EQ(*read_token_ring(path_), one);
}

TEST_F(TokenFileTest, AFileThatCannotBeReplacedStaysAsItIs) {
  const net::TokenRing one{some_token()};
  ASSERT_TRUE(replace_token_ring(path_, one));
  fs::create_directories(path_ + ".new/full");  // in the way of the new file
  EXPECT_FALSE(replace_token_ring(path_, net::TokenRing{some_token()}));
  EXPECT_EQ(*read_token_ring(path_), one);
}

TEST_F(TokenFileTest, AFileOfAnotherSizeIsRefused) {
  for (const std::size_t size : {0, 31, 33, 40, 71, 73, 32 + 9 * 40}) {
    fs::remove(path_);
    std::ofstream{path_} << std::string(size, 't');
    ::chmod(path_.c_str(), 0600);
    EXPECT_EQ(read_token_ring(path_).error().code(), ErrorCode::kPermissionDenied) << size;
  }
}

}  // namespace
}  // namespace pharos::process
