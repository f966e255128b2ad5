#include "machine.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace pharos::node {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShown = 128;  // bytes of what makes no sense

/// What a cgroup allows, in CPUs; 0: no limit. The file holds "max 100000" or "150000 100000".
double quota_of(const fs::path& group) {
  std::ifstream file{group / "cpu.max"};
  double quota = 0;
  double period = 0;
  return file >> quota >> period && period > 0 ? quota / period : 0;
}

/// The least that this process's cgroup and those above it allow; 0: no limit.
double cgroup_cpus() {
  std::ifstream file{"/proc/self/cgroup"};
  std::string line;
  double least = 0;
  while (std::getline(file, line)) {
    if (!line.starts_with("0::/")) continue;
    const fs::path root{"/sys/fs/cgroup"};
    for (fs::path group = root / line.substr(4); group.string().size() >= root.string().size();
         group = group.parent_path()) {
      const double quota = quota_of(group);
      if (quota > 0 && (least == 0 || quota < least)) least = quota;
    }
  }
  return least;
}

std::uint32_t usable_cpus() {
  cpu_set_t cpus;
  const double allowed = ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  const double quota = cgroup_cpus();
  return static_cast<std::uint32_t>(std::max(1.0, quota > 0 ? std::min(allowed, std::ceil(quota)) : allowed));
}

std::size_t found_gpus() {
  std::error_code none;
  const auto count = std::distance(fs::directory_iterator{"/proc/driver/nvidia/gpus", none}, fs::directory_iterator{});
  return none ? 0 : static_cast<std::size_t>(count);
}

std::vector<std::string> numbers_below(std::size_t end) {
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < end; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

/// As CUDA reads it: up to the first that is none.
std::vector<std::string> names_in(std::string_view visible) {
  std::vector<std::string> names;
  while (!visible.empty()) {
    const std::string_view name = visible.substr(0, visible.find(','));
    visible.remove_prefix(std::min(name.size() + 1, visible.size()));
    if (name.empty() || name.starts_with('-')) break;
    names.emplace_back(name);
  }
  return names;
}

}  // namespace

Result<Machine> look_at_machine(const DaemonOptions& options) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const std::string& text = options.resources;
  auto parsed = scheduler::Resources::parse(text);
  if (!parsed) return std::move(parsed).error().with("reading PHAROS_RESOURCES=" + text.substr(0, kShown));
  auto labels = scheduler::parse_labels(options.labels);
  if (!labels) return std::move(labels).error().with("reading PHAROS_LABELS=" + options.labels.substr(0, kShown));
  Machine machine{*std::move(parsed), {}, *std::move(labels)};
  const auto names = [text](std::string_view name) {
    return text.starts_with(std::string{name} + "=") || text.find("," + std::string{name} + "=") != std::string::npos;
  };
  if (options.cpus != 0 || !names("cpu")) {
    PHAROS_TRY_VOID(machine.resources.set("cpu", options.cpus != 0 ? options.cpus : usable_cpus()));
  }

  // A container may show fewer GPUs than the variable names; then CUDA finds those of them that are there.
  machine.gpus = visible != nullptr ? names_in(visible) : numbers_below(found_gpus());
  if (!names("gpu")) {
    if (found_gpus() == 0) machine.gpus.clear();
    PHAROS_TRY_VOID(machine.resources.set("gpu", static_cast<double>(machine.gpus.size())));
    return machine;
  }
  const std::int64_t gpus = machine.resources.gpus();
  if (gpus % scheduler::Resources::kWhole != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "PHAROS_RESOURCES=" + text + " declares a part of a GPU: a node has whole ones"};
  }
  const auto count = static_cast<std::size_t>(gpus / scheduler::Resources::kWhole);
  if (visible == nullptr) machine.gpus = numbers_below(count);
  if (machine.gpus.size() < count) {
    return Error{
        ErrorCode::kInvalidArgument,
        "PHAROS_RESOURCES=" + text + " declares more GPUs than CUDA_VISIBLE_DEVICES=" + std::string{visible} + " names",
        "Declare at most as many, or unset CUDA_VISIBLE_DEVICES."};
  }
  machine.gpus.resize(count);
  return machine;
}

}  // namespace pharos::node
