// Whatever dies, what was acknowledged stands. A program changes the cluster 200 times a second and says what was
// acknowledged to it; this process writes that down, and kills heads, nodes and workers meanwhile.

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "child_program.hpp"
#include "seed.hpp"
#include "several_nodes.hpp"

namespace pharos::cluster::head_deaths {
namespace {

using namespace std::chrono_literals;

int rounds_wanted() {
  const char* const text = ::getenv("PHAROS_TEST_ROUNDS");
  return text == nullptr ? 5 : std::stoi(text);
}

/// What its program was told, the last of each actor.
class Oracle {
 public:
  void note(const std::string& line) {
    const std::string name = line.substr(1);
    switch (line.front()) {
      case '?': known_[name] = State::kAsked; break;
      case '+':
        known_[name] = State::kThere;
        ++acknowledged_;
        break;
      case '-':
        known_[name] = State::kGone;
        ++acknowledged_;
        break;
      default: wrong_ += line + '\n';
    }
  }
  void compare(const std::string& name, bool is_there) {
    ++compared_;
    const auto known = known_.find(name);
    if (known == known_.end()) {
      wrong_ += name + " was never heard of\n";
    } else if (known->second == State::kThere && !is_there) {
      wrong_ += name + " was acknowledged, and is lost\n";
    } else if (known->second == State::kGone && is_there) {
      wrong_ += name + " was acknowledged to be gone, and is there\n";
    }
  }
  const std::string& wrong() const { return wrong_; }
  int acknowledged() const { return acknowledged_; }
  std::size_t compared() const { return compared_; }
  std::size_t known() const { return known_.size(); }

 private:
  enum class State { kAsked, kThere, kGone };
  std::map<std::string, State> known_;
  int acknowledged_ = 0;
  std::size_t compared_ = 0;
  std::string wrong_;
};

class HeadDeathsTest : public SeveralNodes {
 protected:
  std::string state() const { return folder() / "state"; }
  void start_durable_head(Variables more = {}) {
    const std::string listen = address_.empty() ? "127.0.0.1:0" : address_;
    head_ = start({"head", "--listen", listen, "--token-file", token_file(), "--state", state()}, "cpu=1,seat=40",
                  std::move(more));
    const std::string line = read_until(*head_, "listening at ");
    const std::size_t begin = line.find("listening at ") + 13;
    address_ = line.substr(begin, line.find(';') - begin);
    read_until(*head_, "PHAROS_ADDRESS=" + address_);
  }
  void kill_head() {
    ::kill(daemon_of(*head_), SIGKILL);
    head_->wait();
  }
  /// The lines that have come.
  void listen_for(ChildProgram& program, std::chrono::milliseconds time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) oracle_.note(program.next_line(60s));
  }
  void finish(ChildProgram& program) {
    std::ofstream{stop_file()} << "stop";
    for (std::string line = program.next_line(90s); line != "ended"; line = program.next_line(90s)) oracle_.note(line);
    for (std::string line = program.next_line(90s); line != "done"; line = program.next_line(90s)) {
      const bool is_there = line.starts_with("is ");
      if (is_there || line.starts_with("no ")) {
        oracle_.compare(line.substr(3), is_there);
      } else {
        oracle_.note(line);
      }
    }
    EXPECT_EQ(oracle_.wrong(), "");
    EXPECT_EQ(oracle_.compared(), oracle_.known());
    std::printf("%d changes acknowledged, %zu actors looked for\n", oracle_.acknowledged(), oracle_.compared());
  }
  std::string stop_file() const { return folder() / "stop"; }

  Oracle oracle_;
};

TEST_F(HeadDeathsTest, WhateverIsKilledUnderTwoHundredChangesASecondNoneThatWasAcknowledgedIsLost) {
  const int rounds = rounds_wanted();
  must_end_within(60s + rounds * 12s);
  std::mt19937_64 random{seed_of_test()};
  start_durable_head();
  for (int i = 0; i < 2; ++i) start_node("cpu=1,seat=40");
  const auto program = start_program(CHANGING, {stop_file(), "8"});
  ASSERT_EQ(program->next_line(), "begins");
  const auto pause = [&] { return std::chrono::milliseconds{200 + random() % 600}; };
  for (int round = 0; round < rounds; ++round) {
    listen_for(*program, pause());
    kill_head();
    if (random() % 3 == 0) std::this_thread::sleep_for(std::chrono::milliseconds{random() % 1500});  // it is away
    start_durable_head();
    listen_for(*program, pause());
    const auto workers = census().processes(Part::kWorker);
    if (!workers.empty()) ::kill(workers[random() % workers.size()].pid, SIGKILL);
    listen_for(*program, pause());
    auto& node = nodes_[random() % nodes_.size()];
    ::kill(daemon_of(*node), SIGKILL);
    node->wait();
    std::swap(node, nodes_.back());
    nodes_.pop_back();
    start_node("cpu=1,seat=40");
  }
  listen_for(*program, pause());
  finish(*program);
  EXPECT_GT(oracle_.acknowledged(), rounds * 50);
}

}  // namespace
}  // namespace pharos::cluster::head_deaths
