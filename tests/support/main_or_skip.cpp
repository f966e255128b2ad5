// main() of a test program that may have to skip all of its tests. It then ends with 77, which ctest is told to report
// as "Skipped". If a test fails, the program ends with 1, even if others were skipped.

#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  const auto& tests = *testing::UnitTest::GetInstance();
  const bool skipped_all = tests.skipped_test_count() != 0 && tests.skipped_test_count() == tests.test_to_run_count();
  return status == 0 && skipped_all ? 77 : status;
}
