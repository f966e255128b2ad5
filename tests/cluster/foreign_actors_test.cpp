#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "several_nodes.hpp"

namespace pharos::cluster::foreign_actors {
namespace {

// Two programs, which are different builds: "offering" leaves detached actors behind, and "foreign" calls them by the
// names and types of their methods.
class ForeignActorsTest : public SeveralNodes {
 protected:
  /// Starts the actors, on the node that has this resource, or anywhere if the name is empty.
  void offer(const std::string& resource = {}) {
    const auto offering =
        start_program(OFFERING, resource.empty() ? std::vector<std::string>{} : std::vector{resource});
    const auto end = offering->wait();
    ASSERT_EQ(end.output, "done\n") << end.error;
  }
  std::string output_of(const std::string& mode) {
    auto end = start_program(FOREIGN, {mode})->wait();
    EXPECT_EQ(end.status, 0) << end.error;
    return end.output;
  }
};

constexpr const char* kCalled =
    "added: 6\n"
    "sent: 1006\n"
    "price: EUR 3.500000\n"
    "doubled: 1048576 of 3.000000\n"
    "later: 1006\n"
    "in a task: 1006\n"
    "done\n";

TEST_F(ForeignActorsTest, AProgramOfAnotherBuildCallsADetachedActorByNameAndTypes) {
  start_head();
  offer();
  EXPECT_EQ(output_of("calls"), kCalled);
}

TEST_F(ForeignActorsTest, ItDoesSoOnAnotherNode) {
  start_three();
  offer("b");
  EXPECT_EQ(output_of("calls"), kCalled);
}

TEST_F(ForeignActorsTest, AMismatchShowsWhatWasAskedForAndWhatThereIs) {
  start_head();
  offer();
  const std::string said = output_of("mismatches");
  EXPECT_SAYS(
      said,
      "actor \"till\": it offers no method \"int add(double)\"; it offers \"int add(int)\". Ask for a method as "
      "it is declared there.");
  EXPECT_SAYS(said,
              "it offers no method \"int subtract(int)\"; it offers \"int add(int)\", \"int total()\", "
              "\"shop::Price price_of(std::string, shop::Price), where shop::Price is {std::string, double}\", ");
  EXPECT_SAYS(said,
              "it offers no method \"int file(shop::Receipt), where shop::Receipt is {double, int}\"; it offers "
              "\"int file(shop::Receipt), where shop::Receipt is {int, double}\"");
  EXPECT_SAYS(said, "actor \"safe\": it offers no methods to programs of other builds; \"int code()\" was asked for");
  EXPECT_SAYS(said, "actor \"till\" belongs to another build of the program");
  EXPECT_SAYS(said, "Runtime::foreign_actor()");
  EXPECT_SAYS(said, "there is no actor named \"till\"");
}

TEST_F(ForeignActorsTest, CallsFailAsOthersDo) {
  start_head();
  offer();
  const std::string said = output_of("failures");
  EXPECT_SAYS(said, "shop::Till::fail threw shop::SoldOut: nothing is left");
  EXPECT_SAYS(said, "an actor of another build does not know the types in retry_on");
  EXPECT_SAYS(said, "a foreign method void (int): the deadline of the call has passed");
  EXPECT_SAYS(said, "a foreign method int (): the deadline of the call has passed");
  EXPECT_SAYS(said, "cancelled");
  EXPECT_EQ(said.find("no error"), std::string::npos) << said;
}

TEST_F(ForeignActorsTest, AMethodOutlivesRestartsAndEndsWithItsActor) {
  start_head();
  offer();
  const std::string said = output_of("deaths");
  EXPECT_SAYS(said, "restarted: 1\nasked again: 0\n");
  EXPECT_EQ(said.find("no error"), std::string::npos) << said;
  EXPECT_SAYS(said, "there is no actor named \"till\"");
  EXPECT_SAYS(said, "done\n");
}

}  // namespace
}  // namespace pharos::cluster::foreign_actors
