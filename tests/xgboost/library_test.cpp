#include "library.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "says.hpp"
#include "search.hpp"
#include "temporary_folder.hpp"

namespace pharos::ml::xgboost {
namespace {

/// Sets or unsets an environment variable until the end of the test.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_{name} {
    if (const char* const before = std::getenv(name)) before_ = before;
    put(value);
  }
  Variable(Variable&&) = delete;
  ~Variable() { put(before_ ? before_->c_str() : nullptr); }

 private:
  void put(const char* value) {
    if (value == nullptr) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, value, 1);
    }
  }

  const char* name_;
  std::optional<std::string> before_;
};

TEST(LibraryTest, TheVersionIsThatOfTheFileThatWasFound) {
  const char* const expected = std::getenv("EXPECTED_XGBOOST");
  if (expected == nullptr) GTEST_SKIP() << "EXPECTED_XGBOOST is not set";
  const Installed its = installed();
  EXPECT_EQ(std::to_string(its.major) + "." + std::to_string(its.minor) + "." + std::to_string(its.patch), expected);
  EXPECT_EQ(its.path, its.major == 1 ? XGBOOST_1_7 : XGBOOST_3_2);
}

TEST(LibraryTest, OneThatIsMissingIsSaidWithWhereItWasLookedForAndWhatToDo) {
  const auto missing = load({"/nowhere/libxgboost.so", "libnone.so.0"});
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code(), ErrorCode::kNotFound);
  const std::string says = missing.error().to_string();
  EXPECT_SAYS(says, "XGBoost cannot be loaded: /nowhere/libxgboost.so: cannot open shared object file");
  EXPECT_SAYS(says, "libnone.so.0");
  EXPECT_SAYS(says, "pip install xgboost-cpu");
  EXPECT_SAYS(says, "PHAROS_XGBOOST");
}

TEST(LibraryTest, AnotherLibraryIsNoXgboost) {
  const auto other = load({"libm.so.6"});
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().code(), ErrorCode::kUnsupported);
  EXPECT_SAYS(other.error().to_string(), "libm.so.6 is not an XGBoost library");
}

TEST(LibraryTest, TheVariableNamesTheOnlyPlace) {
  const Variable named{"PHAROS_XGBOOST", "/some/libxgboost.so"};
  EXPECT_EQ(places_to_look(), std::vector<std::string>{"/some/libxgboost.so"});
}

TEST(LibraryTest, TheSystemsComesFirstAndThenThatOfThePythonEnvironmentThatIsActive) {
  const TemporaryFolder folder;
  const std::string root = folder.path();
  for (const char* const python : {"python3.9", "python3.11"}) {
    const auto place = folder.path() / "lib" / python / "site-packages";
    std::filesystem::create_directories(place);
    for (const char* const part : {"xgboost", "xgboost_cpu.libs"}) {
      std::filesystem::create_directory_symlink(
          std::filesystem::path{XGBOOST_3_2}.parent_path().parent_path().parent_path() / part, place / part);
    }
  }
  const Variable named{"PHAROS_XGBOOST", nullptr};
  const Variable active{"VIRTUAL_ENV", root.c_str()};
  const Variable other{"CONDA_PREFIX", nullptr};
  const Variable home{"HOME", "/nowhere"};
  const auto places = places_to_look();
  ASSERT_GE(places.size(), 4U);
  EXPECT_EQ(places[0], "libxgboost.so.0");
  EXPECT_EQ(places[1], "libxgboost.so");
  EXPECT_EQ(places[2], root + "/lib/python3.11/site-packages/xgboost/lib/libxgboost.so");
  EXPECT_EQ(places[3], root + "/lib/python3.9/site-packages/xgboost/lib/libxgboost.so");
}

}  // namespace
}  // namespace pharos::ml::xgboost
