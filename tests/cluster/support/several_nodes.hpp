#pragma once

#include <signal.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "child_program.hpp"
#include "cluster_test.hpp"
#include "own_loopback.hpp"

namespace pharos::cluster {

namespace fs = std::filesystem;

/// Base of the tests whose cluster is started as users do: `pharos start` for the head and for each node, all on this
/// machine, and programs that join.
class SeveralNodes : public ClusterTest {
 protected:
  void SetUp() override {
    ClusterTest::SetUp();
    fs::create_directory(folder());
  }
  void TearDown() override {
    for (auto& node : nodes_) {
      if (::kill(node->pid(), 0) == 0) end(node);
    }
    end(head_);
    fs::remove_all(folder());
    ClusterTest::TearDown();
  }

  fs::path folder() const { return census().folder() / "files"; }
  std::string token_file() const { return folder() / "token"; }

  using Variables = ChildProgram::Variables;
  /// Runs `pharos` with these arguments. A test may override this function and listens_at() to choose where the
  /// processes run and at which address a head listens.
  virtual std::unique_ptr<ChildProgram> start(const std::vector<std::string>& arguments, const std::string& resources,
                                              Variables more = {}) const {
    more.emplace_back("PHAROS_RESOURCES", resources);
    return std::make_unique<ChildProgram>(PHAROS_EXECUTABLE, arguments, std::move(more));
  }
  virtual std::string listens_at() const {
    // A test that starts its head again must find the port free.
    return own_loopback() + ":0";
  }
  /// Reads lines of the program's standard output until one contains `part`. Returns that line, without its newline.
  static std::string read_until(ChildProgram& program, const std::string& part) {
    for (;;) {
      const std::string line = program.next_line();
      if (line.find(part) != std::string::npos) return line;
    }
  }

  void start_head(const std::string& resources = "cpu=1") {
    head_ = start({"start", "--head", "--block", "--listen", listens_at(), "--token-file", token_file()}, resources);
    const std::string line = read_until(*head_, "listening at ");
    const std::size_t begin = line.find("listening at ") + 13;
    address_ = line.substr(begin, line.find(';') - begin);
    read_until(*head_, "PHAROS_ADDRESS=" + address_);
  }
  ChildProgram& start_node(const std::string& resources, Variables more = {},
                           const std::vector<std::string>& options = {}) {
    std::vector<std::string> arguments{"start", "--block", "--address", address_, "--token-file", token_file()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    nodes_.push_back(start(arguments, resources, std::move(more)));
    read_until(*nodes_.back(), "joined the head at " + address_);
    return *nodes_.back();
  }
  /// Starts a head and two nodes, one with the resource "b" and one with "c".
  void start_three() {
    start_head();
    start_node("cpu=1,b=1,both=1");
    start_node("cpu=1,c=1,gpu=1");
  }
  std::unique_ptr<ChildProgram> start_driver(const std::string& mode, std::vector<std::string> more = {}) const {
    more.insert(more.begin(), mode);
    return start_program(FAR_DRIVER, std::move(more));
  }
  virtual std::unique_ptr<ChildProgram> start_program(const std::string& path, std::vector<std::string> arguments,
                                                      Variables more = {}) const {
    more.emplace_back("PHAROS_ADDRESS", address_);
    more.emplace_back("PHAROS_TOKEN_FILE", token_file());
    return std::make_unique<ChildProgram>(path, std::move(arguments), std::move(more));
  }
  /// The process id of the program's daemon, which is its child: the program itself is the keeper.
  pid_t daemon_of(const ChildProgram& program) const {
    for (const FoundProcess& process : census().processes(Part::kNode)) {
      if (process.parent == program.pid()) return process.pid;
    }
    ADD_FAILURE() << "no daemon below " << program.pid();
    return -1;
  }
  static void end(std::unique_ptr<ChildProgram>& program) {
    if (program == nullptr) return;
    program->kill(SIGTERM);
    const auto ended = program->wait();
    EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
    program.reset();
  }

  std::unique_ptr<ChildProgram> head_;
  std::vector<std::unique_ptr<ChildProgram>> nodes_;
  std::string address_;
};

}  // namespace pharos::cluster
