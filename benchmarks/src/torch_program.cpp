// What pharos-bench-torch measures, which links libtorch: a program that does loads it, and so do its workers.

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>

#include "figures.hpp"

namespace bench {

void measure_with_torch(Report& report, const std::string& what) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "pharos-bench-torch";
  if (!std::filesystem::exists(program)) {
    std::printf("%s: libtorch was not there when this was built\n", what.c_str());
    return;
  }
  std::FILE* const output = ::popen((program.string() + ' ' + what).c_str(), "re");
  char name[128];
  char unit[32];
  double value = 0;
  while (std::fscanf(output, "%127s %lf %31[^\n]", name, &value, unit) == 3) report.add(name, value, unit);
  if (::pclose(output) != 0) throw std::runtime_error{program.string() + " has failed"};
}

}  // namespace bench
