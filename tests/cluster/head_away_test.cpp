// A cluster whose head is away: which work goes on, and what the head knows again when it is back.

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "durable_head.hpp"

namespace pharos::cluster::head_away {
namespace {

using namespace std::chrono_literals;

long now_in_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

/// A call that was answered, as the program without_head writes it to its file.
struct Call {
  long made = 0;
  long answered = 0;
  std::string by;  ///< process id and incarnation of the actor that answered
};
std::vector<Call> calls_in(const std::string& sink) {
  std::ifstream lines{sink};
  std::vector<Call> calls;
  for (Call call; lines >> call.made >> call.answered && std::getline(lines >> std::ws, call.by);) {
    calls.push_back(call);
  }
  return calls;
}
std::size_t count_between(const std::vector<Call>& calls, long from, long until) {
  return static_cast<std::size_t>(std::count_if(
      calls.begin(), calls.end(), [&](const Call& call) { return call.made >= from && call.answered <= until; }));
}

class HeadAwayTest : public DurableHead {
 protected:
  std::string file(const std::string& name) const { return folder() / name; }
  void make(const std::string& name) const { std::ofstream{file(name)} << "there"; }
  /// The rest of the program's line that contains "NAME is ".
  static std::string who_is(ChildProgram& program, const std::string& name) {
    const std::string words = name + " is ";
    return read_until(program, words).substr(words.size());
  }
  std::string ask(std::vector<std::string> words) const {
    words.insert(words.end(), {"--address", address_, "--token-file", token_file()});
    return ChildProgram{PHAROS_EXECUTABLE, words}.wait().output;
  }
};

TEST_F(HeadAwayTest, ActorsCallEachOtherAndGoOnAsTheyWereWhenItIsBack) {
  must_end_within(120s);
  start_durable_head();
  start_node("cpu=1,b=2");
  start_node("cpu=1,c=2");
  const auto program = start_program(WITHOUT_HEAD, {"each_other", folder()});
  const std::string on_b = who_is(*program, "on b");
  const std::string on_c = who_is(*program, "on c");
  read_until(*program, "ready");
  const auto both_call_since = [&](long then) {
    return eventually([&] {
      return count_between(calls_in(file("from b")), then, now_in_ms()) > 10 &&
             count_between(calls_in(file("from c")), then, now_in_ms()) > 10;
    });
  };
  EXPECT_TRUE(both_call_since(0));
  const pid_t head = daemon_of(*head_);
  kill_head();
  ASSERT_NE(::kill(head, 0), 0);
  const long gone = now_in_ms();
  std::this_thread::sleep_for(10s);  // the time during which the head is away
  const long back = now_in_ms();
  start_durable_head();
  const long restarted = now_in_ms();
  make("restarted");
  EXPECT_NE(who_is(*program, "new on b"), on_b);
  EXPECT_NE(who_is(*program, "new on c"), on_c);
  EXPECT_EQ(who_is(*program, "on b"), on_b);
  EXPECT_EQ(who_is(*program, "on c"), on_c);
  read_until(*program, "placed");
  EXPECT_TRUE(both_call_since(restarted));
  make("stop");
  const auto ended = program->wait();
  EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
  for (const auto& [sink, other] : {std::pair{"from b", on_c}, std::pair{"from c", on_b}}) {
    const auto calls = calls_in(file(sink));
    const long middle = (gone + back) / 2;
    EXPECT_GE(count_between(calls, gone, middle), 50U) << sink;
    EXPECT_GE(count_between(calls, middle, back), 50U) << sink;
    for (const Call& call : calls) EXPECT_EQ(call.by, other) << sink;
  }
}

TEST_F(HeadAwayTest, ADetachedActorWhoseProgramHasGoneAndItsChildAreThereOnceAsTheyWere) {
  must_end_within(90s);
  start_durable_head();
  start_node("cpu=1,b=2");
  start_node("cpu=1,c=2");
  const auto run = [&](const std::string& mode) {
    const auto ended = start_program(WITHOUT_HEAD, {mode})->wait(30s);
    EXPECT_EQ(ended.status, 0) << ended.output << ended.error;
    return ended.output;
  };
  const std::string left = run("leaves_family");
  EXPECT_SAYS(left, "parent is ");
  EXPECT_EQ(run("finds_family"), left) << "its program has gone";
  const auto alive = [&] { return ask({"list", "actors", "--filter", "state=alive", "--format", "json"}); };
  const std::string before = alive();
  EXPECT_SAYS(before, "\"parent\"");
  EXPECT_SAYS(before, "\"child\"");
  kill_head();
  EXPECT_EQ(census().wait_for(Part::kWorker, 2).size(), 2U);
  start_durable_head();
  EXPECT_EQ(run("finds_family"), left);
  EXPECT_TRUE(eventually([&] {
    return ask({"status"}).starts_with("3 nodes, 0 programs, and detached actors of 1 more\n");
  })) << ask({"status"});
  EXPECT_EQ(run("finds_family"), left) << "who has found them has let them go";
  EXPECT_EQ(alive(), before);
  EXPECT_EQ(census().wait_for(Part::kWorker, 2).size(), 2U);
  run("ends_family");
  EXPECT_TRUE(eventually([&] { return census().processes(Part::kWorker).empty(); }));
}

}  // namespace
}  // namespace pharos::cluster::head_away
