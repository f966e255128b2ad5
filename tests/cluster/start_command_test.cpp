#include <string>

#include "several_nodes.hpp"

namespace pharos::cluster::start_command {
namespace {

using namespace std::chrono_literals;

/// `pharos start`, `stop` and `token`, as people give them.
class StartCommandTest : public SeveralNodes {
 protected:
  static ChildProgram::End run(std::vector<std::string> arguments) {
    return ChildProgram{PHAROS_EXECUTABLE, std::move(arguments)}.wait(30s);
  }
  /// What comes behind these words, to the end of the line or a semicolon.
  static std::string behind(const std::string& text, const std::string& words) {
    const std::size_t begin = text.find(words);
    if (begin == std::string::npos) return "not said";
    return text.substr(begin + words.size(), text.find_first_of(";\n", begin) - begin - words.size());
  }
};

TEST_F(StartCommandTest, AClusterInTheBackgroundSaysHowToGoOnAndEndsAsAWhole) {
  must_end_within(60s);
  const auto head = run({"start", "--head", "--listen", "127.0.0.1:0", "--cpus", "1"});
  EXPECT_EQ(head.status, 0) << head.error;
  const std::string address = behind(head.output, "listening at ");
  const std::string token = behind(head.output, "token in ");
  EXPECT_SAYS(head.output, "join with: pharos start --address " + address + " --token-file " + token);
  EXPECT_SAYS(head.output, "end it with: pharos stop --address " + address);
  EXPECT_SAYS(head.output, "it runs in the background; its log is ");

  const auto node = run({"start", "--address", address, "--cpus", "1"});  // which finds the token
  EXPECT_EQ(node.status, 0) << node.error;
  EXPECT_SAYS(node.output, "joined the head at " + address);
  EXPECT_SAYS(run({"token"}).output, "/token");
  EXPECT_SAYS(run({"status"}).output, "2 nodes, 0 programs");

  const auto taken = run({"start", "--head", "--listen", address});
  EXPECT_EQ(taken.status >> 8, 1);
  EXPECT_SAYS(taken.error, "Address already in use");
  EXPECT_EQ(taken.error.find("pharos: pharos: "), std::string::npos) << taken.error;

  EXPECT_EQ(run({"stop", "--address", address, "--token-file", token}).status, 0);
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kNode).empty(); }));
  EXPECT_EQ(run({"stop"}).status >> 8, 1);
}

TEST_F(StartCommandTest, WhatIsNeitherAHeadNorANodeIsRefused) {
  EXPECT_SAYS(run({"start"}).error, "Give --head, or --address HOST:PORT.");
  EXPECT_SAYS(run({"start", "--head", "--address", "127.0.0.1:1"}).error, "Give --head, or --address HOST:PORT.");
  EXPECT_SAYS(run({"start", "--address", "127.0.0.1:1", "--block"}).error, "no cluster of this user runs");
}

}  // namespace
}  // namespace pharos::cluster::start_command
