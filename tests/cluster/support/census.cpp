#include "census.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <random>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <unordered_map>
#include <unordered_set>

namespace pharos::cluster {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMarkName = "PHAROS_TEST_RUN";

// Returns what can be read, which may be nothing: the files of a process in /proc vanish when the process ends, even in
// the middle of a read.
std::string contents(const std::string& path) {
  std::string text;
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return text;
  char buffer[8192];
  for (ssize_t n = 0; (n = ::read(file, buffer, sizeof buffer)) > 0;) text.append(buffer, static_cast<std::size_t>(n));
  ::close(file);
  return text;
}

std::string random_name() {
  std::random_device random;
  std::ostringstream name;
  name << std::hex << random() << random();
  return name.str();
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> names;
  DIR* const open = ::opendir(folder.c_str());
  if (open == nullptr) return names;  // the process has ended
  while (const dirent* const entry = ::readdir(open)) {
    if (std::strcmp(entry->d_name, ".") != 0 && std::strcmp(entry->d_name, "..") != 0)
      names.emplace_back(entry->d_name);
  }
  ::closedir(open);
  return names;
}

std::string link_target(const std::string& path) {
  char target[512];
  const ssize_t size = ::readlink(path.c_str(), target, sizeof target);
  return size <= 0 ? std::string{} : std::string{target, static_cast<std::size_t>(size)};
}

bool has_variable(const std::string& environment, const std::string& entry) {
  return environment.starts_with(entry) || environment.find('\0' + entry) != std::string::npos;
}

Part part_of(const FoundProcess& process, const std::string& environment) {
  if (process.name == "pharos-keeper") return Part::kKeeper;
  if (process.name == "pharos-node") return Part::kNode;
  if (process.name == "pharos-zygote") return Part::kZygote;
  // A worker is forked from the zygote, so /proc shows the zygote's first environment, which has this variable. A
  // program that a worker executes does not have it.
  if (has_variable(environment, "PHAROS_ROLE=")) return Part::kWorker;
  return Part::kOther;
}

/// Describes the process in its present state. The result has pid 0 if the process has ended.
FoundProcess look_at(const std::string& pid) {
  FoundProcess process;
  const std::string stat = contents("/proc/" + pid + "/stat");
  const std::size_t open = stat.find('(');
  const std::size_t close = stat.rfind(')');
  if (open == std::string::npos || close == std::string::npos) return process;
  process.name = stat.substr(open + 1, close - open - 1);
  std::istringstream rest{stat.substr(close + 1)};
  rest >> process.state >> process.parent;
  process.command = contents("/proc/" + pid + "/cmdline");
  std::replace(process.command.begin(), process.command.end(), '\0', ' ');
  process.pid = static_cast<pid_t>(std::stol(pid));
  return process;
}

std::string kind_of(const std::string& target) {
  const std::size_t bracket = target.find(":[");
  return bracket == std::string::npos ? target : target.substr(0, bracket);  // "socket:[1234]"
}

// Only shared memory with a name can be left behind: memory without one ends with the descriptors of the processes that
// hold it. Holdings compares the descriptors of the test's own process.
void add_shared_memory(std::vector<std::string>& found) {
  for (const auto& name : names_in("/dev/shm")) {
    if (name.find("pharos") != std::string::npos) found.push_back("file /dev/shm/" + name);
  }
}

void add_cgroups(std::vector<std::string>& found) {
  std::error_code error;
  for (auto it =
           fs::recursive_directory_iterator{"/sys/fs/cgroup", fs::directory_options::skip_permission_denied, error};
       !error && it != fs::recursive_directory_iterator{}; it.increment(error)) {
    if (it.depth() > 4) it.disable_recursion_pending();
    if (!it->is_directory(error)) continue;
    if (it->path().filename().string().find("pharos") != std::string::npos) {
      found.push_back("cgroup " + it->path().string());
    }
  }
}

// Finds the shared memory and the cgroups of all runs: nothing in them tells which run made them.
std::vector<std::string> of_the_machine() {
  std::vector<std::string> found;
  add_shared_memory(found);
  add_cgroups(found);
  return found;
}

}  // namespace

std::string FoundProcess::to_string() const {
  return "process " + std::to_string(pid) + " (" + name + ", " + state + ", below " + std::to_string(parent) + ") " +
         command;
}

Census::Census(std::size_t path_bytes) : mark_{random_name()}, before_{of_the_machine()} {
  std::string root = fs::temp_directory_path() / "pharos-test-XXXXXX";
  if (::mkdtemp(root.data()) == nullptr) throw std::runtime_error{"making a folder for the test failed"};
  root_ = root;
  folder_ = root_;
  while (folder_.string().size() < path_bytes) folder_ /= std::string(40, 'd');
  fs::create_directories(folder_);
  ::setenv(kMarkName, mark_.c_str(), 1);
  ::setenv("PHAROS_FOLDER", folder_.c_str(), 1);
}

Census::~Census() {
  std::error_code ignored;
  fs::remove_all(root_, ignored);
  ::unsetenv(kMarkName);
  ::unsetenv("PHAROS_FOLDER");
}

std::vector<FoundProcess> Census::processes() const {
  std::unordered_map<pid_t, FoundProcess> all;
  std::unordered_set<pid_t> ours;
  const std::string mark = std::string{kMarkName} + "=" + mark_;
  for (const auto& pid : names_in("/proc")) {
    if (std::isdigit(static_cast<unsigned char>(pid.front())) == 0) continue;
    FoundProcess process = look_at(pid);
    if (process.pid == 0) continue;
    const std::string environment = contents("/proc/" + pid + "/environ");
    process.part = part_of(process, environment);
    if (has_variable(environment, mark)) ours.insert(process.pid);
    all.emplace(process.pid, std::move(process));
  }
  std::vector<FoundProcess> found;
  for (const auto& [pid, process] : all) {
    bool below = ours.contains(pid);
    for (pid_t at = process.parent; !below && at > 1 && all.contains(at); at = all.at(at).parent) {
      below = at == ::getpid() || ours.contains(at);
    }
    if (below && pid != ::getpid()) found.push_back(process);
  }
  // In one order each time, so that the seed of a test that chooses one chooses it again.
  std::sort(found.begin(), found.end(), [](const auto& one, const auto& other) { return one.pid < other.pid; });
  return found;
}

std::vector<FoundProcess> Census::processes(Part part) const {
  std::vector<FoundProcess> found = processes();
  std::erase_if(found, [part](const FoundProcess& process) { return process.part != part || process.state == 'Z'; });
  return found;
}

std::vector<FoundProcess> Census::wait_for(Part part, std::size_t count) const {
  std::vector<FoundProcess> found;
  if (eventually([&] {
        found = processes(part);
        return found.size() == count;
      })) {
    return found;
  }
  ADD_FAILURE() << found.size() << " processes instead of " << count << " of part " << static_cast<int>(part);
  return {};
}

std::vector<std::string> Census::leftovers() const {
  std::vector<std::string> found;
  for (const auto& process : processes()) found.push_back(process.to_string());
  // A file that is removed during the search is not left behind.
  std::error_code error;
  for (auto it = fs::recursive_directory_iterator{root_, error}; !error && it != fs::recursive_directory_iterator{};
       it.increment(error)) {
    // PHAROS_FOLDER, its parents and the user's folder in it are meant to stay after a run.
    std::error_code gone;
    const bool stays = folder_.string().starts_with(it->path().string()) ||
                       (it->path().parent_path() == folder_ && it->is_directory(gone));
    if (!stays) found.push_back("file " + it->path().string());
  }
  if (error) found.push_back("a look at " + root_.string() + " that failed: " + error.message());
  if (contents("/proc/net/unix").find(root_.string()) != std::string::npos) {
    found.push_back("a socket below " + root_.string());
  }
  for (const auto& thing : of_the_machine()) {
    if (std::find(before_.begin(), before_.end(), thing) == before_.end()) found.push_back(thing);
  }
  return found;
}

void Census::expect_nothing_left(std::chrono::milliseconds within) const {
  std::vector<std::string> left;
  if (eventually([&] { return (left = leftovers()).empty(); }, within)) return;
  std::string lines;
  for (const auto& line : left) lines += "\n  " + line;
  ADD_FAILURE() << "left behind after " << within.count() << " ms:" << lines;
}

Holdings Holdings::now() {
  Holdings holdings;
  const std::string own_listing = "/proc/" + std::to_string(::getpid()) + "/fd";
  for (const auto& fd : names_in("/proc/self/fd")) {
    const std::string target = link_target("/proc/self/fd/" + fd);
    if (target.empty() || target == own_listing) continue;
    holdings.descriptors.push_back(kind_of(target));
  }
  for (const auto& thread : names_in("/proc/self/task")) {
    std::string name = contents("/proc/self/task/" + thread + "/comm");
    if (!name.empty()) name.pop_back();
    holdings.threads.push_back(name);
  }
  std::sort(holdings.descriptors.begin(), holdings.descriptors.end());
  std::sort(holdings.threads.begin(), holdings.threads.end());
  return holdings;
}

bool Holdings::are_as(const Holdings& before) const {
  return descriptors == before.descriptors &&
         std::includes(before.threads.begin(), before.threads.end(), threads.begin(), threads.end());
}

std::ostream& operator<<(std::ostream& out, const Holdings& holdings) {
  out << holdings.descriptors.size() << " descriptors:";
  for (const auto& each : holdings.descriptors) out << ' ' << each;
  out << "; " << holdings.threads.size() << " threads:";
  for (const auto& each : holdings.threads) out << ' ' << each;
  return out;
}

void pause_before_looking_again() {
  std::this_thread::sleep_for(std::chrono::milliseconds{5});
}

}  // namespace pharos::cluster
