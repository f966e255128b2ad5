#include <signal.h>

#include <chrono>
#include <string>

#include "child_program.hpp"
#include "cluster_test.hpp"

namespace pharos::cluster::programs {
namespace {

using namespace std::chrono_literals;

using ProgramsTest = ClusterTest;

TEST_F(ProgramsTest, AProgramWithoutTheStartObjectIsToldHowToLink) {
  ChildProgram program{WITHOUT_START_OBJECT};
  const auto end = program.wait();
  EXPECT_EQ(end.status, 0);
  EXPECT_SAYS(end.output, "FailedPrecondition");
  EXPECT_SAYS(end.output, "start object");
  EXPECT_SAYS(end.output, "pharos::pharos");
}

TEST_F(ProgramsTest, StaticFunctionsOfOneNameAreToldApartAndSoAreTheirLambdas) {
  ChildProgram program{TWO_FUNCTIONS};
  const auto end = program.wait();
  EXPECT_EQ(end.status, 0);
  EXPECT_EQ(end.output, "12 24\n");
}

TEST_F(ProgramsTest, TwoLocalClassesOfOneNameAreNeverMistakenForEachOther) {
  ChildProgram program{TWO_CLASSES};
  const auto end = program.wait();
  EXPECT_EQ(end.status, 0);
  EXPECT_EQ(end.output, "12\n");
}

TEST_F(ProgramsTest, AStaticInitialiserThatStartsAThreadMakesWorkersSlowAndSaysWhy) {
  ChildProgram program{THREAD_AT_START};
  const auto end = program.wait();
  EXPECT_EQ(end.status, 0);
  EXPECT_EQ(end.output, "2 42\n");
  EXPECT_SAYS(end.error, "early-bird");
}

TEST_F(ProgramsTest, AFunctionLoadedAfterTheRuntimeBeganIsNamed) {
  ChildProgram program{LATE_DRIVER, {"after", LATE_LIBRARY}};
  const auto end = program.wait();
  EXPECT_EQ(end.status, 0);
  EXPECT_SAYS(end.output, "30 300\nFunctionNotFound");
  EXPECT_SAYS(end.output, "a_late_function");
}

TEST_F(ProgramsTest, AFunctionLoadedBeforeTheRuntimeDoesNotMakeOthersRunInItsPlace) {
  ChildProgram program{LATE_DRIVER, {"before", LATE_LIBRARY}};
  const auto end = program.wait();
  EXPECT_EQ(end.status, 0);
  EXPECT_SAYS(end.output, "30 300\nFunctionNotFound");
  EXPECT_SAYS(end.output, "a_late_function");
}

}  // namespace
}  // namespace pharos::cluster::programs
