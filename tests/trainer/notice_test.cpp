// Trainings whose nodes are to be empty.

#include <chrono>
#include <string>
#include <utility>

#include "says.hpp"
#include "several_nodes.hpp"

namespace pharos::cluster {
namespace {

using namespace std::chrono_literals;

class NoticeTest : public SeveralNodes {
 protected:
  std::string pharos(std::vector<std::string> arguments) const {
    arguments.insert(arguments.end(), {"--address", address_, "--token-file", token_file()});
    ChildProgram program{PHAROS_EXECUTABLE, std::move(arguments)};
    const auto end = program.wait();
    EXPECT_EQ(end.status, 0) << end.output << end.error;
    return end.output;
  }
};

TEST_F(NoticeTest, RanksSaveTheSameStepAndGoOnElsewhereAndNoRestartIsUsedUp) {
  start_head("cpu=1");
  start_node("cpu=2");
  const auto program = start_program(TRAINING_PROGRAM, {folder() / "run"});
  read_until(*program, "training");
  start_node("cpu=2");
  const std::string nodes = pharos({"list", "actors", "--filter", "name=training/0", "--format", "json"});
  const std::string key = "\"node\": \"";
  const std::size_t begin = nodes.find(key);
  ASSERT_NE(begin, std::string::npos) << nodes;
  const std::string node = nodes.substr(begin + key.size(), nodes.find('"', begin + key.size()) - begin - key.size());
  pharos({"drain", node});
  const auto end = program->wait(30s);
  EXPECT_EQ(end.status, 0) << end.error;
  EXPECT_SAYS(end.output, "each step once, with its sum\nmoved before step later ones\nagain: its place was wanted\n");
}

}  // namespace
}  // namespace pharos::cluster
