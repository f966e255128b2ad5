#include <chrono>
#include <fstream>
#include <string>
#include <vector>

#include "several_nodes.hpp"

namespace pharos::cluster::start_command {
namespace {

using namespace std::chrono_literals;

/// Tests the commands `pharos start`, `pharos stop` and `pharos token`, as users give them.
class StartCommandTest : public SeveralNodes {
 protected:
  static ChildProgram::End run(std::vector<std::string> arguments) {
    return ChildProgram{PHAROS_EXECUTABLE, std::move(arguments)}.wait(30s);
  }
  /// The text that follows these words, up to the end of the line or a semicolon.
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

  const auto node = run({"start", "--address", address, "--cpus", "1"});  // finds the token by itself
  EXPECT_EQ(node.status, 0) << node.error;
  EXPECT_SAYS(node.output, "joined the head at " + address);
  EXPECT_SAYS(node.output, "look at it with: pharos status --address 127.0.0.1:");
  EXPECT_SAYS(run({"token"}).output, "/token");
  EXPECT_SAYS(run({"status"}).output, "2 nodes, 0 programs");

  const auto taken = run({"start", "--head", "--listen", address});
  EXPECT_EQ(taken.status >> 8, 1);
  EXPECT_SAYS(taken.error, "Address already in use");
  EXPECT_EQ(taken.error.find("pharos: pharos: "), std::string::npos) << taken.error;

  const auto stop = run({"stop", "--address", address, "--token-file", token});
  EXPECT_EQ(stop.status, 0);
  EXPECT_SAYS(stop.output, " ends, and with it the cluster: it has the head\n");
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kNode).empty(); }));
  EXPECT_EQ(run({"stop"}).status >> 8, 1);
}

TEST_F(StartCommandTest, StopWithoutAnAddressEndsWhatThisMachineHasOfTheCluster) {
  must_end_within(60s);
  const auto head = run({"start", "--head", "--listen", "127.0.0.1:0", "--cpus", "1"});
  ASSERT_EQ(head.status, 0) << head.error;
  for (int node = 0; node < 2; ++node) {
    ASSERT_EQ(run({"start", "--address", behind(head.output, "listening at "), "--cpus", "1"}).status, 0);
  }
  const auto stop = run({"stop"});
  EXPECT_EQ(stop.status, 0) << stop.error;
  EXPECT_SAYS(stop.output, " ends, and with it the cluster: it has the head\n");
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kNode).empty(); }));
  EXPECT_SAYS(run({"status"}).error, "no cluster of this user runs");
}

TEST_F(StartCommandTest, WhereSeveralClustersRunOneIsEndedByItsAddressAloneAndNoneByChance) {
  must_end_within(60s);
  const auto first = run({"start", "--head", "--listen", "127.0.0.1:0", "--cpus", "1"});
  ASSERT_EQ(first.status, 0) << first.error;
  ASSERT_EQ(run({"start", "--address", behind(first.output, "listening at "), "--token-file",
                 behind(first.output, "token in "), "--cpus", "1"})
                .status,
            0);
  const auto second = run({"start", "--head", "--listen", "127.0.0.1:0", "--cpus", "1"});
  ASSERT_EQ(second.status, 0) << second.error;
  const auto ask = [](const std::string& command, const ChildProgram::End& head) {
    return run(
        {command, "--address", behind(head.output, "listening at "), "--token-file", behind(head.output, "token in ")});
  };
  for (const std::string command : {"stop", "status", "token"}) {
    const auto refused = run({command});
    EXPECT_EQ(refused.status >> 8, 2) << command;
    EXPECT_EQ(refused.output, "") << command;
    EXPECT_SAYS(refused.error, "several clusters run on this machine. Choose one:\n");
    for (const auto* const head : {&first, &second}) {
      const std::string socket = fs::path{behind(head->output, "token in ")}.parent_path() / "node.sock";
      EXPECT_SAYS(refused.error,
                  "\n  --address unix:" + socket + "  # a head, listening at " + behind(head->output, "listening at "));
      EXPECT_SAYS(run({"token", "--address", "unix:" + socket}).output, behind(head->output, "token in "));
      EXPECT_EQ(run({"status", "--address", "unix:" + socket}).status, 0);
    }
  }
  EXPECT_SAYS(ask("status", first).output, "2 nodes, 0 programs");
  EXPECT_SAYS(ask("status", second).output, "1 node, 0 programs");

  EXPECT_SAYS(ask("stop", first).output, " ends, and with it the cluster: it has the head\n");
  census().wait_for(Part::kNode, 1);
  EXPECT_SAYS(ask("status", second).output, "1 node, 0 programs");
  EXPECT_EQ(ask("status", first).status >> 8, 1);
  EXPECT_SAYS(run({"status"}).output, "1 node, 0 programs");
  EXPECT_SAYS(run({"stop"}).output, " ends, and with it the cluster: it has the head\n");
  census().wait_for(Part::kNode, 0);
}

TEST_F(StartCommandTest, ANodeTellsOfItsGpusAndItsMemory) {
  start_head("cpu=1,memory=1GiB");
  start_node("cpu=1,memory=1536MiB", {{"LD_LIBRARY_PATH", TWO_GPUS_FOLDER}, {"TWO_GPUS_USER", "7"}});
  start_node("cpu=1,gpu=4,memory=0", {{"LD_LIBRARY_PATH", TWO_GPUS_FOLDER}, {"PHAROS_LABELS", "gpu_type=A10"}});
  const auto nodes = run({"list", "nodes", "--address", address_, "--token-file", token_file()}).output;
  EXPECT_SAYS(nodes, " 1 CPU, 1 GiB memory ");
  EXPECT_SAYS(nodes, " 1 CPU, 2 GPUs, 1.5 GiB memory ");
  EXPECT_SAYS(nodes, "gpu_type=NVIDIA-A100-SXM4-80GB");
  EXPECT_SAYS(nodes, " 1 CPU, 4 GPUs ");
  EXPECT_SAYS(nodes, "gpu_links=phb, gpu_memory=80GiB, gpu_type=NVIDIA-A100-SXM4-80GB");
  EXPECT_SAYS(nodes, "gpu_type=A10\n");
  const auto status = run({"status", "--address", address_, "--token-file", token_file()}).output;
  EXPECT_SAYS(status, "BUSY  MEMORY  IN USE  USED BY");
  EXPECT_SAYS(status, "0    NVIDIA A100-SXM4-80GB  40%   80 GiB  10 GiB  pid 7, no worker of this node, 3 GiB");
  EXPECT_SAYS(status, "3    -                      -     -       -       -");
  const auto refused = run({"start", "--head", "--memory-threshold", "95"});
  EXPECT_EQ(refused.status >> 8, 2) << refused.output << refused.error;
}

TEST_F(StartCommandTest, WhatIsNeitherAHeadNorANodeIsRefused) {
  EXPECT_SAYS(run({"start"}).error, "Give --head, or --address HOST:PORT.");
  EXPECT_SAYS(run({"start", "--head", "--address", "127.0.0.1:1"}).error, "Give --head, or --address HOST:PORT.");
  EXPECT_SAYS(run({"start", "--address", "127.0.0.1:1", "--block"}).error, "no cluster of this user runs");
}

TEST_F(StartCommandTest, ResourcesAndLabelsThatMakeNoSenseAreRefusedAndNothingIsStarted) {
  for (const std::string resources : {"cpu=-1", "cpu=nan", "cpu=inf", "cpu=1e300", "cpu=99999999", "gpu=0.5", "cpu",
                                      "cpu=", "=1", "cpu=1,cpu=2", "two words=1", "cpu=1x"}) {
    for (const bool is_head : {true, false}) {
      std::vector<std::string> words{"start", "--resources", resources, "--block"};
      if (is_head) {
        words.insert(words.end(), {"--head", "--listen", "127.0.0.1:0"});
      } else {
        std::ofstream{folder() / "token", std::ios::binary} << std::string(32, 't');
        fs::permissions(folder() / "token", fs::perms::owner_read | fs::perms::owner_write);
        words.insert(words.end(), {"--address", "127.0.0.1:1", "--token-file", token_file()});
      }
      const auto end = run(words);
      EXPECT_EQ(end.status >> 8, 2) << resources;
      EXPECT_SAYS(end.error, "PHAROS_RESOURCES=" + resources);
      EXPECT_LT(end.error.size(), 500u) << resources;
      EXPECT_EQ(end.output, "");
    }
  }
  const auto large = run({"start", "--head", "--listen", "127.0.0.1:0", "--resources", std::string(100'000, 'x')});
  EXPECT_EQ(large.status >> 8, 2);
  EXPECT_LT(large.error.size(), 1000u);
  for (const std::string& labels : {std::string{"zone"}, std::string{"a b=c"}, std::string(100'000, 'x')}) {
    const auto end = run({"start", "--head", "--listen", "127.0.0.1:0", "--labels", labels, "--block"});
    EXPECT_EQ(end.status >> 8, 2);
    EXPECT_SAYS(end.error, "is invalid");
    EXPECT_LT(end.error.size(), 1000u);
  }
  const std::vector<std::vector<std::string>> nonsense{{"--head", "--resources", "cpus=4"},
                                                       {"--head", "--resources", "gpu=0.000000001"},
                                                       {"--head", "--object-store", "-5"},
                                                       {"--head", "--memory-threshold", "nan"},
                                                       {"--head", "--cpus", "0"},
                                                       {"--head", "--port", "70000"},
                                                       {"--head", "--port", "1", "--listen", "127.0.0.1:0"},
                                                       {"--head", "--listen", "unix:" + (folder() / "socket").string()},
                                                       {"--head", "--listen", ":7400"},
                                                       {"--address", "127.0.0.1:1", "--port", "1"},
                                                       {"--address", "127.0.0.1:1", "--state", folder()},
                                                       {"--address", "no.such.host.invalid:1"}};
  for (std::vector<std::string> words : nonsense) {
    words.insert(words.begin(), "start");
    words.insert(words.end(), {"--block", "--token-file", token_file()});
    const auto end = run(words);
    EXPECT_EQ(end.status >> 8, 2) << words[2] << ' ' << words[3] << ": " << end.output << end.error;
    EXPECT_LT(end.error.size(), 300u) << words[2];
  }
  EXPECT_SAYS(run({"begin"}).error, "there is no command \"begin\"");
  EXPECT_EQ(run({"start", "--head", "--listen", "nonsense"}).status >> 8, 2);
}

TEST_F(StartCommandTest, AWrongTokenIsToldAtOnceByWhateverIsAskedAndEndsNothing) {
  start_head();
  const fs::path wrong = folder() / "wrong";
  std::ofstream{wrong, std::ios::binary} << std::string(32, 'w');
  fs::permissions(wrong, fs::perms::owner_read | fs::perms::owner_write);
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"status"}, {"list", "nodes"}, {"memory"}, {"stop"}}) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {"--address", address_, "--token-file", wrong});
    const auto begin = std::chrono::steady_clock::now();
    const auto end = run(all);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
    EXPECT_EQ(end.status >> 8, 1);
    EXPECT_SAYS(end.error, "does not know this cluster's token");
    EXPECT_SAYS(end.error, "PHAROS_TOKEN_FILE names its file");
    EXPECT_EQ(end.output, "");
  }
  EXPECT_SAYS(run({"status", "--address", address_, "--token-file", token_file()}).output, "1 node, 0 programs");
}

}  // namespace
}  // namespace pharos::cluster::start_command
