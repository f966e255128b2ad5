#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "network.hpp"
#include "several_nodes.hpp"

namespace pharos::cluster {

/// Base of the tests in which the head, the nodes "b" and "c" and the program each run in a place of their own in a
/// Network: places 1 to 4.
class NodesApart : public SeveralNodes {
 protected:
  static constexpr int kHead = 1;
  static constexpr int kB = 2;
  static constexpr int kC = 3;
  static constexpr int kProgram = 4;

  void SetUp() override {
    SeveralNodes::SetUp();
    if (!Network::can_be_made()) GTEST_SKIP() << "network namespaces cannot be made here";
    network_.emplace(kProgram, delay());
  }
  void TearDown() override {
    for (auto& node : nodes_) end(node);
    nodes_.clear();
    end(head_);
    network_.reset();
    SeveralNodes::TearDown();
  }

  virtual Network::Delay delay() const { return {}; }

  std::unique_ptr<ChildProgram> start_at(int place, std::vector<std::string> arguments,
                                         const std::string& resources) const {
    arguments.insert(arguments.begin(), {"start", "--block", "--token-file", token_file()});
    return network_->start(place, PHAROS_EXECUTABLE, std::move(arguments), {{"PHAROS_RESOURCES", resources}});
  }
  /// Starts the head. If it keeps records, its nodes come back to it after the head was away.
  void start_head_at(bool keeps_records, const std::string& resources = "cpu=1", const std::string& port = "7400") {
    address_ = Network::address_of(kHead) + ":" + port;
    std::vector<std::string> arguments{"--head", "--listen", address_};
    if (keeps_records) arguments.insert(arguments.end(), {"--state", folder() / "state"});
    head_ = start_at(kHead, std::move(arguments), resources);
    read_until(*head_, "listening at ");
  }
  ChildProgram& start_node_at(int place, const std::string& resources) {
    nodes_.push_back(start_at(place, {"--address", address_}, resources));
    read_until(*nodes_.back(), "joined the head at " + address_);
    return *nodes_.back();
  }
  std::unique_ptr<ChildProgram> start_far(const std::string& program, std::vector<std::string> arguments) const {
    return network_->start(kProgram, program, std::move(arguments),
                           {{"PHAROS_ADDRESS", address_}, {"PHAROS_TOKEN_FILE", token_file()}});
  }
  std::string file(const std::string& name) const { return folder() / name; }
  void make(const std::string& name) const { std::ofstream{file(name)} << "there"; }

  /// Ends the program `under_faults steady`, and expects that the fault caused no wrong result, no wrong order and no
  /// loss of a node.
  void expect_steady(ChildProgram& program) const {
    make("stop");
    const auto ended = program.wait(std::chrono::seconds{60});
    EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
    EXPECT_SAYS(ended.output, "calls, 0 wrong\nc: ");
    EXPECT_SAYS(ended.output, "calls, 0 wrong\nout of order: 0\n");
    expect_nobody_is_given_up();
  }
  void expect_nobody_is_given_up() const {
    EXPECT_EQ(head_->error().find("given up"), std::string::npos) << head_->error();
    for (const auto& node : nodes_) EXPECT_EQ(node->error().find("the head is gone"), std::string::npos);
  }

  /// The number of TCP sockets of a process whose peer is at this place.
  static std::size_t sockets_to(int place, pid_t process) {
    const std::string its = "/proc/" + std::to_string(process);
    std::set<std::string> held;
    for (const auto& each : std::filesystem::directory_iterator{its + "/fd"}) {
      std::error_code closed_meanwhile;
      held.insert(std::filesystem::read_symlink(each, closed_meanwhile));
    }
    std::ostringstream address;  // as the kernel prints it: a hexadecimal number in the machine's byte order
    address << std::hex << std::uppercase << std::setfill('0') << std::setw(8)
            << ::inet_addr(Network::address_of(place).c_str());
    std::size_t found = 0;
    std::ifstream table{its + "/net/tcp"};
    for (std::string line; std::getline(table, line);) {
      std::istringstream columns{line};
      std::vector<std::string> words{std::istream_iterator<std::string>{columns}, {}};
      found += words.at(2).starts_with(address.str() + ":") && held.contains("socket:[" + words.at(9) + "]") ? 1 : 0;
    }
    return found;
  }

  std::optional<Network> network_;
};

}  // namespace pharos::cluster
