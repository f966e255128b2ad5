#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include <pharos/base/check.hpp>

namespace pharos::detail {

void check_failed(const char* condition, const char* names, const std::string& values, const char* file, int line) {
  std::string text = std::string{"pharos: check failed: "} + condition;
  if (!values.empty()) text += std::string{"\n  with "} + names + " = " + values;
  text += std::string{"\n  at "} + file + ":" + std::to_string(line) + "\n";
  // Written directly to the descriptor, because the failed check may mean that the streams are broken.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
  std::abort();
}

}  // namespace pharos::detail
