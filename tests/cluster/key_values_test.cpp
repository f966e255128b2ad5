// The key-value store: what programs put there, and what becomes of it when the head dies.

#include <algorithm>
#include <chrono>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <pharos/pharos.hpp>

#include "cluster_test.hpp"
#include "durable_head.hpp"

namespace pharos::cluster::key_values {
namespace {

using namespace std::chrono_literals;

/// A type of a program.
struct Place {
  std::string host;
  std::vector<int> ports;
  auto pharos_fields() { return std::tie(host, ports); }
  friend bool operator==(const Place&, const Place&) = default;
};

std::optional<int> read_in_task(const std::string& key) {
  return Runtime{}.kv().get<int>(key);
}

class Leader {
 public:
  bool lead(const std::string& name) {
    return Runtime{}.kv().compare_and_set<std::string>("leader", std::nullopt, name);
  }
};

using KeyValuesTest = ClusterTest;

TEST_F(KeyValuesTest, WhatIsPutIsThereForAllProcessesUntilItIsErased) {
  Runtime runtime;
  KeyValues values = runtime.kv();
  EXPECT_EQ(values.get<int>("answer"), std::nullopt);
  values.put("answer", 42);
  EXPECT_EQ(values.get<int>("answer"), 42);
  EXPECT_EQ(runtime.submit<&read_in_task>("answer").get(), 42);
  EXPECT_EQ(runtime.kv("mine").get<int>("answer"), std::nullopt);
  const Place place{"node7", {80, 443}};
  values.put("place", place);
  EXPECT_EQ(values.get<Place>("place"), place);
  EXPECT_EQ(values.keys(), (std::vector<std::string>{"answer", "place"}));
  EXPECT_EQ(values.keys("pl"), std::vector<std::string>{"place"});
  values.erase("answer");
  values.erase("never there");
  EXPECT_EQ(runtime.submit<&read_in_task>("answer").get(), std::nullopt);
  EXPECT_EQ(values.keys(), std::vector<std::string>{"place"});
}

TEST_F(KeyValuesTest, OneOfManyWhoCompareAndSetWins) {
  Runtime runtime;
  std::vector<Actor<Leader>> actors;
  for (int i = 0; i < 4; ++i) actors.push_back(runtime.spawn<Leader>());
  std::vector<Ref<bool>> answers;
  for (int i = 0; i < 4; ++i) answers.push_back(actors[i].call<&Leader::lead>("actor" + std::to_string(i)));
  const std::vector<bool> leads = get(answers);
  ASSERT_EQ(std::count(leads.begin(), leads.end(), true), 1);
  const auto winner = std::find(leads.begin(), leads.end(), true) - leads.begin();
  KeyValues values = runtime.kv();
  EXPECT_EQ(values.get<std::string>("leader"), "actor" + std::to_string(winner));
  EXPECT_FALSE(values.compare_and_set<std::string>("leader", "nobody", "somebody"));
  EXPECT_TRUE(values.compare_and_set<std::string>("leader", "actor" + std::to_string(winner), std::nullopt));
  EXPECT_EQ(values.keys("leader"), std::vector<std::string>{});
}

TEST_F(KeyValuesTest, WhatIsWrongIsSaid) {
  Runtime runtime;
  KeyValues values = runtime.kv();
  values.put("text", std::string{"seven"});
  const std::string type = message_of<FailedPrecondition>([&] { values.get<int>("text"); });
  EXPECT_SAYS(type, "the value of key \"text\" is a std::__cxx11::basic_string");
  EXPECT_SAYS(type, "not a int");
  message_of<InvalidArgument>([&] { values.put("", 1); });
  EXPECT_SAYS(message_of<InvalidArgument>([&] { values.put("much", std::string((1 << 20) + 1, 'x')); }),
              "key \"much\"");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { values.put("much", std::string(9 << 20, 'x')); }), "key \"much\"");
  EXPECT_SAYS(message_of<InvalidArgument>([&] { values.put("actor", runtime.spawn<Leader>()); }), "key \"actor\"");
  EXPECT_EQ(values.keys(), std::vector<std::string>{"text"});
}

TEST_F(KeyValuesTest, AfterTheRuntimesEndNothingWaits) {
  std::optional<KeyValues> values;
  {
    Runtime runtime;
    values = runtime.kv();
  }
  message_of<RuntimeStopped>([&] { values->put("late", 1); });
}

using DurableValuesTest = DurableHead;

// Each number is raised by one thread, and no raise is lost, however often the head dies in between.
TEST_F(DurableValuesTest, WhatWasWrittenIsThereOnceThoughTheHeadDies) {
  must_end_within(120s);
  start_durable_head();
  start_node("cpu=1,b=1");
  const std::string until = folder() / "enough";
  const auto program = start_program(KEY_VALUES, {until});
  std::vector<int> raised;
  const auto read_one = [&] { raised.push_back(std::stoi(read_until(*program, "from ").substr(5))); };
  for (int deaths = 0; deaths < 3; ++deaths) {
    read_one();
    std::this_thread::sleep_for(300ms);  // writes go on
    kill_head();
    start_durable_head();
  }
  read_one();
  std::ofstream{until} << "yes";
  const auto end = program->wait(60s);
  EXPECT_EQ(end.status, 0) << end.error;
  int count = -1;
  std::istringstream lines{end.output};
  for (std::string word; lines >> word;) {
    if (word == "from") lines >> raised.emplace_back();
    if (word == "count") lines >> count;
  }
  std::sort(raised.begin(), raised.end());
  ASSERT_GT(count, 50);
  ASSERT_EQ(raised.size(), static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) ASSERT_EQ(raised[static_cast<std::size_t>(i)], i);
}

}  // namespace
}  // namespace pharos::cluster::key_values
