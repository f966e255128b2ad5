#include "drill.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

// The first byte of this program in memory, and the byte behind its code. The linker defines both.
// NOLINTNEXTLINE(readability-identifier-naming, bugprone-reserved-identifier): the name is the linker's
extern "C" const char __ehdr_start;
extern "C" const char etext;

namespace pharos::simulated {
namespace {

/// Names the step. The place is an offset in the program, which is the same in each run. Places in libraries have no
/// such offset, and count as one.
std::string name_of(const char* step, const void* place) {
  const auto* const at = static_cast<const char*>(place);
  if (at == nullptr) return step;
  if (at < &__ehdr_start || at >= &etext) return std::string{step} + " of a library";
  return std::string{step} + " at " + std::to_string(at - &__ehdr_start);
}

/// Appends a line to the file. The ranks of a run may be several processes.
void append(const char* file, const std::string& line) {
  const int opened = ::open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  [[maybe_unused]] const auto written = ::write(opened, line.data(), line.size());
  ::close(opened);
}

}  // namespace

bool is_left_out(const char* step, const void* place) {
  static const char* const left_out = std::getenv("PHAROS_DRILL");
  static const char* const list = std::getenv("PHAROS_DRILL_LIST");
  if (left_out == nullptr && list == nullptr) return false;
  const std::string name = name_of(step, place);
  if (list != nullptr) {
    static std::mutex mutex;
    static std::set<std::string> known;
    const std::lock_guard lock{mutex};
    if (known.insert(name).second) append(list, name + '\n');
  }
  return left_out != nullptr && name == left_out;
}

}  // namespace pharos::simulated
