#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "several_nodes.hpp"

namespace pharos::cluster::run_command {
namespace {

using namespace std::chrono_literals;

/// Tests `pharos run`, and the sending of executables to nodes that lack them.
class RunCommandTest : public SeveralNodes {
 protected:
  void SetUp() override {
    SeveralNodes::SetUp();
    fs::create_directory(hidden());
    fs::copy_file(SHIPPED, program());
  }

  /// A folder that the node of start_node_elsewhere() cannot see.
  fs::path hidden() const { return folder() / "hidden"; }
  fs::path program() const { return hidden() / "app"; }

  static bool can_hide() { return ::geteuid() == 0 && std::system("unshare -m true 2>/dev/null") == 0; }
  /// Starts the node "b" in a mount namespace where the folder hidden() is empty. The shell runs the
  /// commands `prepare` there before it starts the node.
  void start_node_elsewhere(const std::string& prepare = {}, Variables more = {}) {
    more.emplace_back("PHAROS_RESOURCES", "cpu=1,b=1");
    const std::string script = "mount -t tmpfs none '" + hidden().string() + "' && " + prepare + "exec \"$@\"";
    const std::vector<std::string> arguments{
        "-m",    "sh",      "-c",        script,   "sh",           PHAROS_EXECUTABLE,
        "start", "--block", "--address", address_, "--token-file", token_file()};
    nodes_.push_back(std::make_unique<ChildProgram>("/usr/bin/unshare", arguments, more));
    read_until(*nodes_.back(), "joined the head at " + address_);
  }
  void start_two() {
    start_head("cpu=0");
    start_node_elsewhere();
  }

  std::unique_ptr<ChildProgram> run(std::vector<std::string> command, std::vector<std::string> options = {},
                                    Variables more = {}) const {
    std::vector<std::string> arguments{"run", "--address", address_, "--token-file", token_file()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    arguments.emplace_back("--");
    arguments.insert(arguments.end(), command.begin(), command.end());
    return std::make_unique<ChildProgram>(PHAROS_EXECUTABLE, arguments, std::move(more));
  }
  /// The executables that nodes have received or are receiving.
  std::vector<fs::path> received() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator{census().folder()}) {
      if (entry.is_regular_file() && entry.path().parent_path().filename() == "programs") found.push_back(entry);
    }
    return found;
  }
};

TEST_F(RunCommandTest, ANodeThatLacksTheProgramIsSentItAndRunsItWithItsEnvironment) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  start_two();
  fs::create_directory(hidden() / "place");
  const auto end = run({program()}, {"--folder", hidden() / "place", "--env", "SHIPPED_WORD=a=b c"})->wait(30s);
  EXPECT_EQ(end.status, 0) << end.output << end.error << nodes_[0]->error();
  ASSERT_EQ(received().size(), 1U);
  EXPECT_SAYS(end.output, "runs " + received()[0].string() + "\n");
  EXPECT_EQ(fs::file_size(received()[0]), fs::file_size(SHIPPED));
  EXPECT_SAYS(end.output, "word a=b c\n");
  const std::string instead = (received()[0].parent_path() / "work").string();
  EXPECT_SAYS(end.output, "in " + instead + "\n");
  EXPECT_SAYS(end.error, "the folder " + (hidden() / "place").string() + " is not on node ");
  EXPECT_SAYS(end.error, "workers there start in " + instead);
}

TEST_F(RunCommandTest, TheSameBuildIsSentOnceAndOneThatIsThereNever) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  must_end_within(60s);
  start_two();
  EXPECT_EQ(run({program()})->wait(30s).status, 0);
  const Variables dies_if_it_sends{{"PHAROS_FAILPOINT", "program_sent:kill"}};
  const auto again = run({program()}, {}, dies_if_it_sends)->wait();
  EXPECT_EQ(again.status, 0) << again.output << again.error;
  end(nodes_[0]);
  nodes_.clear();
  start_node("cpu=1,b=1");  // this node sees the folder hidden()
  const auto seen = run({program()}, {}, dies_if_it_sends)->wait();
  EXPECT_EQ(seen.status, 0) << seen.output << seen.error;
  EXPECT_SAYS(seen.output, "runs " + program().string() + "\n");
}

TEST_F(RunCommandTest, TwoProgramsOfOneBuildShareOneFile) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  must_end_within(60s);
  start_head("cpu=0");
  start_node_elsewhere();
  fs::copy_file(SHIPPED, hidden() / "same");
  const auto one = run({program()});
  const auto other = run({hidden() / "same"});
  for (const auto* each : {&one, &other}) {
    const auto end = (*each)->wait(30s);
    EXPECT_EQ(end.status, 0) << end.output << end.error;
    ASSERT_EQ(received().size(), 1U);
    EXPECT_SAYS(end.output, "runs " + received()[0].string() + "\n");
  }
}

TEST_F(RunCommandTest, AnotherBuildAtTheProgramsPathIsNotRun) {
  start_head("cpu=0");
  start_node("cpu=1,b=1");
  const fs::path other = folder() / "other";
  fs::copy_file(CLUSTER_DRIVER, other);
  const auto end = run({program(), "replaced", other})->wait(30s);
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  ASSERT_EQ(received().size(), 1U);
  EXPECT_SAYS(end.output, "runs " + received()[0].string() + "\n");
}

TEST_F(RunCommandTest, WhatIsDamagedOnItsWayIsSentAgain) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  start_head("cpu=0");
  start_node_elsewhere({}, {{"PHAROS_LOG", "info"}});
  const auto end = run({program()}, {}, {{"PHAROS_FAILPOINT", "program_sent:fail_once:5"}})->wait(30s);
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_TRUE(nodes_[0]->error_with("a part of the program was damaged on its way")) << nodes_[0]->error();
  ASSERT_EQ(received().size(), 1U);
  EXPECT_EQ(std::system(("cmp -s '" + received()[0].string() + "' " + SHIPPED).c_str()), 0);
}

TEST_F(RunCommandTest, ADetachedActorWhoseProgramHasEndedMovesToANodeThatLacksIt) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  must_end_within(90s);
  start_two();
  const auto node_in = [](const ChildProgram::End& end) {
    return end.output.substr(end.output.find("node ") + 5, std::size_t{16});
  };
  const auto first = run({program(), "leaves"})->wait(30s);
  ASSERT_EQ(first.status, 0) << first.output << first.error;
  start_node_elsewhere();
  ChildProgram drain{PHAROS_EXECUTABLE, {"drain", node_in(first), "--address", address_, "--token-file", token_file()}};
  EXPECT_EQ(drain.wait().status, 0);
  EXPECT_EQ(nodes_.front()->wait(30s).status, 0);
  nodes_.erase(nodes_.begin());
  const auto found = run({program(), "finds"})->wait(30s);
  EXPECT_EQ(found.status, 0) << found.output << found.error;
  EXPECT_NE(node_in(found), node_in(first));
  ASSERT_EQ(received().size(), 1U);
  EXPECT_SAYS(found.output, "runs " + received()[0].string() + "\n");
}

TEST_F(RunCommandTest, ANodeThatDiesWhileItSendsLeavesAReasonAndNoHalfFile) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  start_two();
  const auto program_of_it = run({program()}, {}, {{"PHAROS_FAILPOINT", "program_sent:kill:5"}});
  const auto end = program_of_it->wait(30s);
  EXPECT_EQ(WEXITSTATUS(end.status), 1) << end.output << end.error;
  EXPECT_SAYS(end.output, "RuntimeStopped: ");
  EXPECT_TRUE(nodes_[0]->error_with("a program cannot run here")) << nodes_[0]->error();
  EXPECT_SAYS(nodes_[0]->error(), "fetching " + program().string());
  EXPECT_TRUE(eventually([&] { return received().empty(); }));
  const auto next = run({program()})->wait(30s);
  EXPECT_EQ(next.status, 0) << next.output << next.error;
}

TEST_F(RunCommandTest, ANodeWithoutRoomForItSaysWithNumbersWhatToDo) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  start_head("cpu=0");
  const fs::path small = folder() / "small";
  fs::create_directory(small);
  start_node_elsewhere("mount -t tmpfs -o size=32m none '" + small.string() + "' && ", {{"PHAROS_FOLDER", small}});
  const auto end = run({program()})->wait(30s);
  EXPECT_EQ(WEXITSTATUS(end.status), 1) << end.error;
  EXPECT_SAYS(end.output, "has 32.0 MiB left, of which 64 MiB must stay free");
  EXPECT_SAYS(end.output, "Set PHAROS_FOLDER for that node to a folder on another disk");
}

TEST_F(RunCommandTest, ANodeWithoutPharossLibraryIsSentIt) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  must_end_within(60s);
  start_head("cpu=0");
  start_node_elsewhere("mount -t tmpfs none '" + fs::path{PHAROS_LIBRARY}.parent_path().string() + "' && ");
  const auto end = run({program()})->wait(30s);
  EXPECT_EQ(end.status, 0) << end.output << end.error << nodes_[0]->error();
  EXPECT_EQ(received().size(), 2U);
}

/// Programs with a library and files of their own.
class CarriedFiles : public RunCommandTest {
 protected:
  void SetUp() override {
    RunCommandTest::SetUp();
    fs::create_directories(hidden() / "lib");
    fs::create_directories(hidden() / "data");
    fs::copy_file(CARRIED, carried());
    fs::copy_file(CARRIED_LIBRARY, library());
    std::ofstream{hidden() / "data/words"} << "words";
  }
  fs::path carried() const { return hidden() / "carried"; }
  fs::path library() const { return hidden() / "lib" / fs::path{CARRIED_LIBRARY}.filename(); }
  /// The folders of jobs' own on all nodes.
  std::vector<fs::path> own_folders() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator{census().folder()}) {
      if (entry.is_directory() && entry.path().parent_path().filename() == "jobs") found.push_back(entry);
    }
    return found;
  }
};

TEST_F(CarriedFiles, LibrariesAndFilesGoWithTheProgramOnce) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  must_end_within(90s);
  start_two();
  const auto end = run({carried()}, {"--folder", hidden(), "--with", "data"})->wait(30s);
  EXPECT_EQ(end.status, 0) << end.output << end.error << nodes_[0]->error();
  EXPECT_SAYS(end.output, "loads /");
  EXPECT_SAYS(end.output, "/lib/" + library().filename().string() + "\n");
  EXPECT_SAYS(end.output, "/programs/jobs/");
  EXPECT_SAYS(end.output, "reads words\n");
  EXPECT_EQ(end.error.find("is not on node"), std::string::npos) << end.error;
  EXPECT_EQ(received().size(), 3U);
  EXPECT_TRUE(eventually([&] { return own_folders().empty(); }));
  const Variables dies_if_it_sends{{"PHAROS_FAILPOINT", "program_sent:kill"}};
  const auto again = run({carried()}, {"--folder", hidden(), "--with", "data/"}, dies_if_it_sends)->wait(30s);
  EXPECT_EQ(again.status, 0) << again.output << again.error;
  std::ofstream{hidden() / "data/words"} << "other";
  const auto other = run({carried()}, {"--folder", hidden(), "--with", "data"})->wait(30s);
  EXPECT_SAYS(other.output, "reads other\n");
}

TEST_F(CarriedFiles, ANodeThatSeesThemUsesThemWhereTheyLie) {
  start_head("cpu=0");
  start_node("cpu=1,b=1");
  const auto end = run({carried()}, {"--folder", hidden(), "--with", "data"})->wait(30s);
  EXPECT_EQ(end.status, 0) << end.output << end.error;
  EXPECT_SAYS(end.output, "loads " + library().string() + "\nin " + hidden().string() + "\nreads words\n");
  EXPECT_TRUE(received().empty());
}

TEST_F(CarriedFiles, ALibraryThatNobodyHasAnyMoreIsNamed) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  start_two();
  const auto end = run({carried(), "removes"}, {"--folder", hidden()})->wait(30s);
  EXPECT_EQ(WEXITSTATUS(end.status), 1) << end.error;
  EXPECT_SAYS(end.output, library().string() + " is not there any more, or was changed since");
}

TEST_F(CarriedFiles, WithoutALibraryOfTheSystemItDoesNotLoad) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  start_head("cpu=0");
  start_node_elsewhere("mount --bind /dev/null /lib/$(uname -m)-linux-gnu/libresolv.so.2 && ");
  const auto end = run({carried()}, {"--folder", hidden()})->wait(30s);
  EXPECT_EQ(WEXITSTATUS(end.status), 1) << end.error;
  EXPECT_SAYS(end.output, "FailedPrecondition: ");
  EXPECT_SAYS(end.output, carried().string() + " does not load: ");
  EXPECT_SAYS(end.output, "those of the system (/lib, /usr) are not sent");
  EXPECT_TRUE(nodes_[0]->error_with("error while loading shared libraries: ")) << nodes_[0]->error();
  EXPECT_SAYS(nodes_[0]->error(), "libresolv.so.2");
}

TEST_F(CarriedFiles, TheProgramOfAJobGoesToItsNodeWithWhatItNeeds) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  must_end_within(60s);
  start_two();
  const std::string submit = std::string{PHAROS_EXECUTABLE} + " job submit --wait --cpus 1 --with data --address " +
                             address_ + " --token-file " + token_file();
  const auto end =
      ChildProgram{"/bin/sh", {"-c", "cd " + hidden().string() + " && " + submit + " -- ./carried"}}.wait(30s);
  EXPECT_EQ(WEXITSTATUS(end.status), 0) << end.output << end.error << nodes_[0]->error();
  EXPECT_SAYS(end.output, "/lib/" + library().filename().string() + "\n");
  EXPECT_SAYS(end.output, "reads words\n");
  EXPECT_TRUE(eventually([&] { return own_folders().empty(); }));
}

TEST_F(CarriedFiles, WhatCannotGoAlongIsSaidAtTheStart) {
  start_head();
  const auto fails_with = [&](const std::string& path, const std::string& words) {
    const auto end = run({carried()}, {"--folder", hidden() / "data", "--with", path})->wait();
    EXPECT_EQ(WEXITSTATUS(end.status), 1) << end.error;
    EXPECT_SAYS(end.output, words);
  };
  fails_with("nothing", "\"nothing\", which is to go with the program, is not there");
  fails_with("../lib", "\"../lib\" is to go with the program, but is not in its folder ");
  for (int i = 0; i <= 4096; ++i) std::ofstream{hidden() / "data" / std::to_string(i)};
  fails_with(".", "more goes with this program than 4096 files");
}

TEST_F(RunCommandTest, ANodeWhoseFolderForbidsProgramsSaysSo) {
  if (!can_hide()) GTEST_SKIP() << "mount namespaces cannot be made here";
  start_head("cpu=0");
  const fs::path barred = folder() / "barred";
  fs::create_directory(barred);
  start_node_elsewhere("mount -t tmpfs -o noexec none '" + barred.string() + "' && ", {{"PHAROS_FOLDER", barred}});
  const auto end = run({program()})->wait(30s);
  EXPECT_EQ(WEXITSTATUS(end.status), 1) << end.error;
  EXPECT_SAYS(end.output, "no program may be run from " + barred.string());
}

TEST_F(RunCommandTest, ArgumentsFolderClusterAndExitCodeAreThePrograms) {
  start_head();
  const auto end = run({program(), "arguments", "--env", "two words", "--", ""}, {"--folder", hidden()})->wait();
  EXPECT_EQ(WEXITSTATUS(end.status), 7) << end.error;
  EXPECT_EQ(end.output,
            "--env\ntwo words\n--\n\nat " + address_ + " with " + token_file() + "\nin " + hidden().string() + "\n");
}

TEST_F(RunCommandTest, TheOnlyClusterHereIsFoundAndIsAnAddressOfAnyFolder) {
  start_head();
  const auto end = ChildProgram{PHAROS_EXECUTABLE, {"run", "--", program(), "arguments"}}.wait();
  EXPECT_EQ(WEXITSTATUS(end.status), 7) << end.error;
  EXPECT_SAYS(end.output, "at unix:/");
  EXPECT_SAYS(end.output, "/node.sock with /");
}

TEST_F(RunCommandTest, SignalsReachTheProgram) {
  start_head();
  const auto told = run({program(), "signal"});
  EXPECT_EQ(told->next_line(), "ready");
  told->kill(SIGTERM);
  const auto end = told->wait();
  EXPECT_EQ(end.output, "told to end\n");
  EXPECT_EQ(WEXITSTATUS(end.status), 3);
  const std::string command = std::string{PHAROS_EXECUTABLE} + " run --address " + address_ + " --token-file " +
                              token_file() + " -- " + program().string() + " signal; echo $?";
  ChildProgram shell{"/bin/sh", {"-c", command}};
  EXPECT_EQ(shell.next_line(), "ready");
  for (const FoundProcess& process : census().processes()) {
    if (process.parent == shell.pid()) ::kill(process.pid, SIGKILL);
  }
  EXPECT_EQ(shell.next_line(), "137");
}

TEST_F(RunCommandTest, WhatCannotBeRunHasTheExitCodesOfAShell) {
  const auto lost = ChildProgram{PHAROS_EXECUTABLE, {"run", "--", program()}}.wait();
  EXPECT_EQ(WEXITSTATUS(lost.status), 125);
  EXPECT_SAYS(lost.error, "no cluster of this user runs on this machine");
  start_head();
  const auto none = run({"no-such-program"})->wait();
  EXPECT_EQ(WEXITSTATUS(none.status), 127);
  EXPECT_SAYS(none.error, "no-such-program: there is no such program");
  const fs::path text = folder() / "text";
  std::ofstream{text} << "words";
  const auto barred = run({text})->wait();
  EXPECT_EQ(WEXITSTATUS(barred.status), 126);
  EXPECT_SAYS(barred.error, "it cannot be run: Permission denied");
  const auto nowhere = run({program()}, {"--folder", folder() / "nowhere"})->wait();
  EXPECT_EQ(WEXITSTATUS(nowhere.status), 125);
  EXPECT_SAYS(nowhere.error, "entering the folder ");
  const auto odd = run({program()}, {"--env", "=1"})->wait();
  EXPECT_EQ(WEXITSTATUS(odd.status), 2);
  EXPECT_SAYS(odd.error, "\"=1\" is not of the form NAME=VALUE");
  const fs::path wrong = folder() / "wrong";
  std::ofstream{wrong, std::ios::binary} << std::string(32, 't');
  fs::permissions(wrong, fs::perms::owner_read | fs::perms::owner_write);
  const auto stranger =
      ChildProgram{PHAROS_EXECUTABLE, {"run", "--address", address_, "--token-file", wrong, "--", program()}}.wait();
  EXPECT_EQ(WEXITSTATUS(stranger.status), 125) << stranger.output << stranger.error;
  EXPECT_EQ(WEXITSTATUS(ChildProgram(PHAROS_EXECUTABLE, {"run"}).wait().status), 2);
}

}  // namespace
}  // namespace pharos::cluster::run_command
