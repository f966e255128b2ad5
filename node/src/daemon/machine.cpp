#include "daemon/machine.hpp"

#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <string_view>

#include <pharos/base/log.hpp>
#include <pharos/base/machine_limits.hpp>
#include <pharos/object_store/shared_file.hpp>

#include "daemon/nvml.hpp"

namespace pharos::node {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShown = 128;  // bytes of a malformed option that an error message shows

std::uint32_t usable_cpus(const MachineLimits& limits) {
  cpu_set_t cpus;
  const double allowed = ::sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : 1;
  const double quota = limits.cpus();
  return static_cast<std::uint32_t>(std::max(1.0, quota > 0 ? std::min(allowed, std::ceil(quota)) : allowed));
}

/// Memory for actors and tasks: objects lie in memory, too, so their part is taken off.
ByteCount memory_beside_objects(const MachineLimits& limits, const DaemonOptions& options) {
  const ByteCount objects =
      options.object_store == 0 ? object_store::default_capacity() : ByteCount{options.object_store};
  const ByteCount all = limits.memory();
  return all > objects ? all - objects : ByteCount{};
}

/// Without NVIDIA's library the driver's folder in /proc still shows how many GPUs there are, and nothing else.
std::vector<Gpu> found_gpus(const fs::path& root) {
  auto found = find_gpus();
  if (found) {
    for (const Gpu& gpu : *found) {
      log(LogLevel::kInfo, "a GPU", {kv("type", gpu.type), kv("uuid", gpu.uuid), kv("memory", gpu.memory)});
    }
    return *std::move(found);
  }
  log(LogLevel::kDebug, "no GPUs by NVML", {kv("error", found.error())});
  std::error_code none;
  const auto count =
      std::distance(fs::directory_iterator{root / "proc/driver/nvidia/gpus", none}, fs::directory_iterator{});
  return std::vector<Gpu>(none ? 0 : static_cast<std::size_t>(count));
}

/// The places in the list of the GPUs of these names, or nothing if one of them is not known.
std::vector<std::size_t> places_of(const std::vector<std::string>& names, const std::vector<Gpu>& gpus) {
  std::vector<std::size_t> places;
  for (const std::string& name : names) {
    const Gpu* const gpu = find_gpu(gpus, name);
    if (gpu == nullptr) return {};
    places.push_back(static_cast<std::size_t>(gpu - gpus.data()));
  }
  return places;
}

std::string_view name_of(GpuLink link) {
  switch (link) {
    case GpuLink::kNvLink: return "nvlink";
    case GpuLink::kOneSwitch: return "pix";
    case GpuLink::kSwitches: return "pxb";
    case GpuLink::kHostBridge: return "phb";
    case GpuLink::kNumaNode: return "node";
    case GpuLink::kBetweenNodes: return "sys";
    case GpuLink::kUnknown: break;
  }
  return {};
}

/// The slowest link between two of the GPUs at these places.
GpuLink slowest_link(const std::vector<Gpu>& gpus, const std::vector<std::size_t>& places) {
  GpuLink slowest = GpuLink::kNvLink;
  for (const std::size_t one : places) {
    const auto& links = gpus[one].links;  // to those before it; none without NVML
    for (const std::size_t other : places) {
      if (other < one) slowest = std::max(slowest, other < links.size() ? links[other] : GpuLink::kUnknown);
    }
  }
  return slowest;
}

/// Adds labels that describe the GPUs at these places.
void describe_gpus(scheduler::Labels& labels, const std::vector<Gpu>& gpus, const std::vector<std::size_t>& places) {
  if (places.empty()) return;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty() && labels.size() < scheduler::kLabelsMax) labels.emplace(name, value);
  };
  const std::string& type = gpus[places.front()].type;
  const bool is_one_type =
      std::all_of(places.begin(), places.end(), [&](auto place) { return gpus[place].type == type; });
  if (is_one_type) add("gpu_type", scheduler::as_label(type));
  ByteCount least = gpus[places.front()].memory;
  for (const std::size_t place : places) least = std::min(least, gpus[place].memory);
  if (least >= 1_GiB) add("gpu_memory", std::to_string(least.bytes() >> 30) + "GiB");
  if (places.size() > 1) add("gpu_links", std::string{name_of(slowest_link(gpus, places))});
}

std::vector<std::string> numbers_below(std::size_t end) {
  std::vector<std::string> numbers;
  for (std::size_t i = 0; i < end; ++i) numbers.push_back(std::to_string(i));
  return numbers;
}

/// Reads CUDA_VISIBLE_DEVICES as CUDA does: up to the first entry that names no device.
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

/// Cuts the GPUs of the machine to the number that the resources declare. GPUs may be declared where there are none.
Result<void> cut_to_declared(Machine& machine, const std::string& text, const char* visible) {
  const std::int64_t gpus = machine.resources.gpus();
  if (gpus % scheduler::Resources::kWhole != 0) {
    return Error{ErrorCode::kInvalidArgument,
                 "PHAROS_RESOURCES=" + text + " declares a fraction of a GPU, but a node offers whole GPUs only"};
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
  return {};
}

}  // namespace

Result<Machine> look_at_machine(const DaemonOptions& options, const fs::path& root) {
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
  const MachineLimits limits{root};
  if (options.cpus != 0 || !names("cpu")) {
    PHAROS_TRY_VOID(machine.resources.set("cpu", options.cpus != 0 ? options.cpus : usable_cpus(limits)));
  }
  if (!names("memory")) PHAROS_TRY_VOID(machine.resources.set_memory(memory_beside_objects(limits, options)));

  const std::vector<Gpu> gpus = names("gpu") && machine.resources.gpus() == 0 ? std::vector<Gpu>{} : found_gpus(root);
  machine.gpus = visible != nullptr ? names_in(visible) : numbers_below(gpus.size());
  if (names("gpu")) {
    PHAROS_TRY_VOID(cut_to_declared(machine, text, visible));
  } else {
    // A container may show fewer GPUs than the variable names; CUDA stops at the first that is not there.
    const auto there = [&](const std::string& name) { return find_gpu(gpus, name) != nullptr; };
    machine.gpus.erase(std::find_if_not(machine.gpus.begin(), machine.gpus.end(), there), machine.gpus.end());
    PHAROS_TRY_VOID(machine.resources.set("gpu", static_cast<double>(machine.gpus.size())));
  }
  describe_gpus(machine.labels, gpus, places_of(machine.gpus, gpus));
  return machine;
}

}  // namespace pharos::node
