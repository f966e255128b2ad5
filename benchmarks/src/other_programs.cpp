// Starts the other programs that measure for pharos-bench: a program that links libtorch, the peers, and ranks that
// have a network of their own. pharos-bench itself does not link libtorch, because a program that does loads libtorch,
// and so do its workers.

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include "figures.hpp"

namespace bench {
namespace {

namespace fs = std::filesystem;

/// Returns the figures of a command that prints a line for each figure: name, value and unit. Throws if it fails.
std::vector<Figure> figures_of(const std::string& command) {
  std::vector<Figure> figures;
  std::FILE* const output = ::popen(command.c_str(), "re");
  if (output == nullptr) throw std::runtime_error{command + " cannot be started"};
  char name[128];
  char unit[32];
  double value = 0;
  while (std::fscanf(output, "%127s %lf %31[^\n]", name, &value, unit) == 3) figures.push_back({name, value, unit});
  if (::pclose(output) != 0) throw std::runtime_error{command + " has failed"};
  return figures;
}

void add_all(Report& report, const std::vector<Figure>& figures) {
  for (const Figure& each : figures) report.add(each.name, each.value, each.unit);
}

/// Returns the figures of a script of benchmarks/peers, run by the Python that benchmarks/compare has set up for it.
/// Prints a line and returns no figure if that Python is missing.
std::vector<Figure> figures_of_peer(const char* name, const char* folder, const std::string& script,
                                    const std::string& what) {
  const fs::path python = fs::path{ROOT} / "build/peers" / folder / "venv/bin/python";
  if (!fs::exists(python)) {
    std::printf("%s beside it: not set up; benchmarks/compare %s does that\n", name, what.c_str());
    return {};
  }
  return figures_of(python.string() + ' ' + ROOT + "/benchmarks/peers/" + script);
}

fs::path self() {
  return fs::read_symlink("/proc/self/exe");
}

}  // namespace

void measure_with_torch(Report& report, const std::string& what) {
  const auto program = self().parent_path() / "pharos-bench-torch";
  if (!fs::exists(program)) {
    std::printf("%s: libtorch was not there when this was built\n", what.c_str());
    return;
  }
  add_all(report, figures_of(program.string() + ' ' + what + ' ' + report.only()));
}

std::vector<Figure> figures_of_pytorch(const std::string& what) {
  const std::string beside = what == "trainer" ? ' ' + (self().parent_path() / "pharos-bench-images").string() : "";
  return figures_of_peer("PyTorch", "torch", "torch_peer.py " + what + beside, what);
}

std::vector<Figure> figures_of_optuna() {
  return figures_of_peer("Optuna", "optuna", "tune_peer.py", "tune");
}

void measure_ranks_apart(Report& report) {
  if (::geteuid() != 0 || std::system("unshare -n true 2>/dev/null") != 0) {
    std::printf("ranks over TCP: network namespaces cannot be made here\n");
    return;
  }
  std::string folder = fs::temp_directory_path() / "pharos-ranks-XXXXXX";
  if (::mkdtemp(folder.data()) == nullptr) throw std::runtime_error{"no folder " + folder};
  const auto script = std::string{ROOT} + "/benchmarks/ranks_in_namespaces ";
  try {
    add_all(report, figures_of("unshare -n " + script + self().string() + ' ' + folder));
  } catch (...) {
    fs::remove_all(folder);
    throw;
  }
  fs::remove_all(folder);
}

}  // namespace bench
