// Measures how soon a program works on a node that lacks one of its libraries, beside a copy of the same bytes by TCP.

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <pharos/base/fd.hpp>
#include <pharos/base/random.hpp>
#include <pharos/pharos.hpp>
#include <pharos/process/build_id.hpp>

#include "figures.hpp"
#include "folder.hpp"
#include "plain_stream.hpp"
#include "started_cluster.hpp"

namespace bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLibraryBytes = 512 * kMib;  // libtorch has about as many
constexpr std::size_t kCopyBytes = std::size_t{256} << 10;
constexpr int kShipments = 5;

pharos::Fd opened(const fs::path& path, int flags) {
  pharos::Fd file{::open(path.c_str(), flags | O_CLOEXEC, 0700)};
  if (!file) throw std::runtime_error{"cannot open " + path.string()};
  return file;
}

/// A folder in memory, because the speed of a disk is not what is compared. Only root can make it. The destructor
/// removes it.
class MemoryFolder {
 public:
  MemoryFolder() {
    if (::mount("none", folder_.path().c_str(), "tmpfs", 0, nullptr) != 0) throw std::runtime_error{"no tmpfs"};
  }
  MemoryFolder(MemoryFolder&&) = delete;
  ~MemoryFolder() { ::umount2(folder_.path().c_str(), MNT_DETACH); }
  const fs::path& path() const { return folder_.path(); }

 private:
  const Folder folder_;
};

/// A shared library of this size: this program's file, whose linker's build id stands for the content, and bytes behind
/// it that no loader reads.
class LargeLibrary {
 public:
  explicit LargeLibrary(fs::path path) : path_{std::move(path)} {
    fs::copy_file("/proc/self/exe", path_);
    std::ifstream file{path_, std::ios::binary};
    const std::string bytes{std::istreambuf_iterator<char>{file}, {}};
    const auto build = pharos::process::own_build_id();
    const std::string_view id{reinterpret_cast<const char*>(build.data()), build.size()};
    place_ = bytes.find(id);
    if (place_ == std::string::npos) throw std::runtime_error{"this program has no build id"};
    std::string more(kLibraryBytes - bytes.size(), 'x');
    for (std::size_t at = 0; at + sizeof(std::uint64_t) < more.size(); at += 64) {
      const std::uint64_t some = pharos::random_u64();
      more.replace(at, sizeof some, reinterpret_cast<const char*>(&some), sizeof some);
    }
    std::ofstream{path_, std::ios::binary | std::ios::app} << more;
  }
  /// Makes it another build, which no node has.
  void rebuild() const {
    const std::uint64_t some = pharos::random_u64();
    const auto file = opened(path_, O_WRONLY);
    if (::pwrite(file.get(), &some, sizeof some, static_cast<off_t>(place_)) != sizeof some) {
      throw std::runtime_error{"cannot write to " + path_.string()};
    }
  }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
  std::size_t place_ = 0;
};

/// Reads one file, sends it over the connection, and writes the other file.
double seconds_of_copy(const PlainStream& connection, const fs::path& from, const fs::path& to) {
  fs::remove(to);
  const auto start = Clock::now();
  std::thread sender{[&] {
    const auto source = opened(from, O_RDONLY);
    std::vector<std::byte> some(kCopyBytes);
    for (ssize_t size = 0; (size = ::read(source.get(), some.data(), some.size())) > 0;) {
      if (::send(connection.from, some.data(), static_cast<std::size_t>(size), MSG_NOSIGNAL) != size) return;
    }
  }};
  const auto target = opened(to, O_WRONLY | O_CREAT);
  std::vector<std::byte> some(kCopyBytes);
  std::size_t copied = 0;
  while (copied < kLibraryBytes) {
    const ssize_t size = ::recv(connection.to, some.data(), std::min(some.size(), kLibraryBytes - copied), MSG_WAITALL);
    if (size <= 0 || ::write(target.get(), some.data(), static_cast<std::size_t>(size)) != size) break;
    copied += static_cast<std::size_t>(size);
  }
  sender.join();
  if (copied != kLibraryBytes) throw std::runtime_error{"the copy has failed"};
  return seconds_since(start);
}

class Guest {
 public:
  int answer() const { return 1; }
};

/// Starts a program that has the library with it, and returns the time in which an actor on the other node answers.
double seconds_of_shipment(const fs::path& library) {
  pharos::Runtime runtime{{.with = {library.string()}}};
  const auto start = Clock::now();
  const auto guest = runtime.spawn<Guest>({.resources = {{"far", 1}}});
  static_cast<void>(guest.call<&Guest::answer>().get());
  return seconds_since(start);
}

}  // namespace

void measure_shipping(Report& report) {
  if (!report.wants_any({"library_ship_s", "limit_tcp_copy_s", "library_ship_over_tcp_copy"})) return;
  if (::geteuid() != 0 || std::system("unshare -m true 2>/dev/null") != 0) {
    std::printf("library_ship_s: a node cannot be given a file system of its own here\n");
    return;
  }
  const MemoryFolder folder;
  const fs::path hidden = folder.path() / "hidden";
  fs::create_directory(hidden);
  fs::create_directory(folder.path() / "node");
  const LargeLibrary library{hidden / "liblarge.so"};
  const PlainStream connection;
  const StartedCluster cluster{StartedCluster::Records::kNone};
  const auto node = cluster.start_node_without(hidden, folder.path() / "node", "cpu=1,far=1");
  std::vector<double> shipments;
  std::vector<double> copies;
  std::vector<double> ratios;
  for (int round = -1; round < kShipments; ++round) {
    library.rebuild();
    const bool copy_first = round % 2 == 0;
    double copy = copy_first ? seconds_of_copy(connection, library.path(), folder.path() / "copy") : 0;
    const double shipment = seconds_of_shipment(library.path());
    if (!copy_first) copy = seconds_of_copy(connection, library.path(), folder.path() / "copy");
    if (round < 0) continue;
    copies.push_back(copy);
    shipments.push_back(shipment);
    ratios.push_back(shipment / copy);
  }
  report.add("limit_tcp_copy_s", median(copies), "s");
  report.add("library_ship_s", median(shipments), "s");
  report.add("library_ship_over_tcp_copy", median(ratios), "");
}

}  // namespace bench
