#include <fcntl.h>
#include <netinet/in.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>

#include <pharos/base/byte_count.hpp>
#include <pharos/base/fd.hpp>
#include <pharos/base/machine_limits.hpp>
#include <pharos/base/result.hpp>
#include <pharos/node/machine_check.hpp>
#include <pharos/object_store/shared_file.hpp>
#include <pharos/process/run_folder.hpp>

#include "daemon/nvml.hpp"

namespace pharos::node {
namespace {

using namespace std::chrono_literals;

// A worker has a socket to each process that it calls, and each object that it reads may have a descriptor for a while.
constexpr rlim_t kFilesMin = 4096;
constexpr rlim_t kProcessesMin = 1024;
constexpr ByteCount kMemoryMin{std::uint64_t{512} << 20};
constexpr auto kClockMax = 500ns;

MachineCheck check_folder() {
  MachineCheck check{.what = "folder for sockets"};
  const auto base = process::ensure_base_folder();
  if (!base) {
    check.found = base.error().message();
    check.remedy =
        base.error().remedy().empty() ? "Set PHAROS_FOLDER to a folder that you own." : base.error().remedy();
    return check;
  }
  check.found = *base;
  struct statvfs disk {};
  if (::statvfs(base->c_str(), &disk) == 0 && (disk.f_flag & ST_NOEXEC) != 0) {
    check.found += " is mounted with noexec, so programs that other nodes send cannot run there";
    check.remedy = "Set PHAROS_FOLDER to a folder from which programs may run.";
  }
  return check;
}

MachineCheck check_shared_memory() {
  const auto can_be_taken = []() -> Result<void> {
    const Fd file{::memfd_create("pharos-doctor", MFD_CLOEXEC)};
    if (!file) return Error::from_errno("making a memory file", errno);
    if (::fallocate(file.get(), 0, 0, std::int64_t{1} << 20) == 0) return {};
    return Error::from_errno("taking 1 MiB of shared memory", errno);
  };
  const auto taken = can_be_taken();
  if (taken) return {.what = "shared memory", .found = "it can be taken"};
  return {.what = "shared memory",
          .found = taken.error().message(),
          .remedy = "Objects need memfd_create() and tmpfs: allow them in the container, or give it more memory."};
}

MachineCheck check_memory() {
  const ByteCount all = MachineLimits{}.memory();
  MachineCheck check{
      .what = "memory",
      .found = to_string(all) + ", of which objects may take " + to_string(object_store::default_capacity())};
  if (all < kMemoryMin) check.remedy = "Give the machine or the container " + to_string(kMemoryMin) + " or more.";
  return check;
}

MachineCheck check_limit(std::string what, const rlim_t most, rlim_t least, const std::string& remedy) {
  const std::string number = most == RLIM_INFINITY ? "any number" : std::to_string(most);
  return {.what = std::move(what),
          .found = "the limit is " + number,
          .remedy = most < least ? "At least " + std::to_string(least) + " are needed. " + remedy : ""};
}

rlimit limit_of(__rlimit_resource resource) {
  rlimit limit{};
  ::getrlimit(resource, &limit);
  return limit;
}

/// Each call reads the clock several times.
MachineCheck check_clock() {
  std::array<std::chrono::nanoseconds, 101> times{};
  for (auto& each : times) {
    const auto began = std::chrono::steady_clock::now();
    each = std::chrono::steady_clock::now() - began;
  }
  std::ranges::nth_element(times, times.begin() + times.size() / 2);
  const auto time = times[times.size() / 2];
  MachineCheck check{.what = "clock", .found = "reading it takes " + std::to_string(time.count()) + " ns"};
  if (time > kClockMax) {
    check.remedy = "The kernel reads a slow device: see /sys/devices/system/clocksource/clocksource0.";
  }
  return check;
}

MachineCheck check_gpus() {
  MachineCheck check{.what = "GPUs"};
  const auto gpus = find_gpus();
  if (gpus) {
    check.found = gpus->empty() ? "none" : "";
    for (const Gpu& each : *gpus) check.found += (check.found.empty() ? "" : ", ") + each.type;
    return check;
  }
  std::error_code none;
  if (gpus.error().code() == ErrorCode::kNotFound && !std::filesystem::exists("/proc/driver/nvidia", none)) {
    check.found = "none";
    return check;
  }
  check.found = gpus.error().message();
  check.remedy = "Install the driver's libraries (libnvidia-ml.so.1) in the driver's version; nvidia-smi must work.";
  return check;
}

}  // namespace

std::vector<MachineCheck> check_machine() {
  return {check_folder(),
          check_shared_memory(),
          check_memory(),
          check_limit("open files", limit_of(RLIMIT_NOFILE).rlim_max, kFilesMin,
                      "Raise the hard limit: LimitNOFILE= in a unit of systemd, or /etc/security/limits.conf."),
          check_limit("processes", limit_of(RLIMIT_NPROC).rlim_cur, kProcessesMin,
                      "Raise the limit: ulimit -u, or LimitNPROC= in a unit of systemd."),
          check_clock(),
          check_gpus()};
}

MachineCheck check_port(std::uint16_t port) {
  MachineCheck check{.what = "port " + std::to_string(port), .found = "it is free"};
  const Fd socket{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return check;
  check.found = Error::from_errno("listening at 127.0.0.1:" + std::to_string(port), errno).message();
  check.remedy = "Give a head another port: pharos start --head --port PORT.";
  return check;
}

}  // namespace pharos::node
