#include "output.hpp"

#include <cstdio>
#include <string>
#include <string_view>

namespace pharos::actors {

void print_worker_output(const wire::Output& output) {
  const std::string prefix = "(" + output.label + " pid=" + std::to_string(output.pid) + ") ";
  std::string text;
  std::string_view left = output.lines;
  while (!left.empty()) {
    const std::size_t end = left.find('\n');
    text.append(prefix).append(left.substr(0, end)).append(1, '\n');
    left = end == std::string_view::npos ? std::string_view{} : left.substr(end + 1);
  }
  FILE* const to = output.error ? stderr : stdout;
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

}  // namespace pharos::actors
