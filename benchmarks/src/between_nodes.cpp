// Measures objects that go from node to node: one object over loopback, beside plain TCP, and one object to many nodes
// over links of limited bandwidth.

#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pharos/object_store/checksum.hpp>
#include <pharos/object_store/transfer.hpp>
#include <pharos/pharos.hpp>

#include "figures.hpp"
#include "plain_stream.hpp"
#include "started_cluster.hpp"

namespace bench {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kBytes = 256 * kMib;
constexpr int kPulls = 15;

// ---- A plain TCP stream between two regions of shared memory

std::span<std::byte> shared_region(const char* name) {
  const int file = ::memfd_create(name, MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, kBytes) != 0) throw std::runtime_error{"no shared memory"};
  void* const memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file, 0);
  ::close(file);
  if (memory == MAP_FAILED) throw std::runtime_error{"no shared memory"};
  std::memset(memory, 'x', kBytes);
  return {static_cast<std::byte*>(memory), kBytes};
}

enum class Looks : bool { kNever, kAtEachByte };

/// Sends all bytes of `source` to `target` in pieces of a chunk's size. With kAtEachByte both threads compute the
/// checksum of each piece, as the two sides of a pull do.
double seconds_over_tcp(const PlainStream& connection, std::span<std::byte> source, std::span<std::byte> target,
                        Looks looks) {
  using pharos::object_store::checksum_of;
  using pharos::object_store::kChunkBytes;
  static_assert(kBytes % kChunkBytes == 0);
  std::uint64_t sent_sum = 0;
  std::uint64_t received_sum = 0;
  const auto start = Clock::now();
  std::thread sender{[&] {
    for (std::size_t at = 0; at < kBytes;) {
      if (looks == Looks::kAtEachByte && at % kChunkBytes == 0)
        sent_sum += checksum_of(source.subspan(at, kChunkBytes));
      const std::size_t left = kChunkBytes - at % kChunkBytes;
      const ssize_t sent = ::send(connection.from, source.data() + at, left, MSG_NOSIGNAL);
      if (sent <= 0) return;
      at += static_cast<std::size_t>(sent);
    }
  }};
  for (std::size_t at = 0; at < kBytes; at += kChunkBytes) {
    if (::recv(connection.to, target.data() + at, kChunkBytes, MSG_WAITALL) != static_cast<ssize_t>(kChunkBytes)) break;
    if (looks == Looks::kAtEachByte) received_sum += checksum_of(target.subspan(at, kChunkBytes));
  }
  sender.join();
  if (sent_sum != received_sum) throw std::runtime_error{"the plain stream has changed a byte"};
  return seconds_since(start);
}

// ---- Between two nodes

class SizeReader {
 public:
  std::size_t size(const pharos::Bytes& bytes) { return bytes.size(); }
};

void measure_pull(Report& report, int argc, char** argv) {
  const auto source = shared_region("from");
  const auto target = shared_region("to");
  const PlainStream connection;
  const StartedCluster cluster{StartedCluster::Records::kNone};
  pharos::Runtime runtime{argc, argv};
  const auto reader = runtime.spawn<SizeReader>();
  const auto seconds_of_pull = [&] {
    auto value = runtime.create_bytes(kBytes);
    std::memset(value.data(), 'x', kBytes);
    const auto ref = std::move(value).seal();
    const auto start = Clock::now();
    static_cast<void>(reader.call<&SizeReader::size>(ref).get());
    return seconds_since(start);
  };
  const auto seconds_of_tcp = [&](Looks looks) { return seconds_over_tcp(connection, source, target, looks); };
  std::vector<double> pulls;
  std::vector<double> plain;
  std::vector<double> over_plain;
  std::vector<double> over_checked;
  for (int round = -2; round < kPulls; ++round) {
    const bool tcp_first = round % 2 == 0;
    double pull = tcp_first ? 0 : seconds_of_pull();
    const double tcp = seconds_of_tcp(Looks::kNever);
    const double checked = seconds_of_tcp(Looks::kAtEachByte);
    if (tcp_first) pull = seconds_of_pull();
    if (round < 0) continue;  // the first rounds write to memory whose pages do not exist yet
    plain.push_back(tcp);
    pulls.push_back(pull);
    over_plain.push_back(tcp / pull);
    over_checked.push_back(checked / pull);
  }
  constexpr double kGib = static_cast<double>(kBytes) / (1 << 30);
  report.add("limit_tcp_loopback", kGib / median(plain), "GiB/s");
  report.add("pull_256MiB", kGib / median(pulls), "GiB/s");
  report.add("pull_ratio_to_tcp", median(over_plain), "");
  report.add("pull_ratio_to_checked_tcp", median(over_checked), "");
}

// ---- One to many

constexpr int kFewNodes = 2;
constexpr int kManyNodes = 8;

/// Returns the seconds that the script prints for this number of nodes; nullopt if the script failed.
std::optional<double> seconds_of_broadcast(int nodes) {
  const fs::path folder = fs::temp_directory_path() / ("pharos-broadcast-" + std::to_string(::getpid()));
  fs::create_directory(folder);
  const fs::path self = fs::read_symlink("/proc/self/exe");
  const std::string pharos = self.parent_path() / "pharos";
  const std::string command = std::string{"unshare -n "} + ROOT + "/benchmarks/broadcast_in_namespaces " + pharos +
                              ' ' + self.string() + ' ' + folder.string() + ' ' + std::to_string(nodes);
  std::FILE* const output = ::popen(command.c_str(), "re");
  double seconds = 0;
  const bool came = std::fscanf(output, "%lf", &seconds) == 1;
  ::pclose(output);
  std::error_code ignored;
  fs::remove_all(folder, ignored);
  return came ? std::optional{seconds} : std::nullopt;
}

void measure_broadcast(Report& report) {
  if (::geteuid() != 0 || std::system("unshare -n true 2>/dev/null") != 0) {
    std::printf("broadcast_8_over_2: network namespaces cannot be made here\n");
    return;
  }
  const auto few = seconds_of_broadcast(kFewNodes);
  const auto many = seconds_of_broadcast(kManyNodes);
  if (!few || !many) throw std::runtime_error{"the broadcast has failed"};
  report.add("broadcast_2_nodes", *few, "s");
  report.add("broadcast_8_nodes", *many, "s");
  report.add("broadcast_8_over_2", *many / *few, "");
}

// ---- To where the data is

constexpr std::size_t kBlockBytes = std::size_t{64} << 20;
constexpr int kBlocks = 18;

/// Makes a block that begins with the node where it was made.
pharos::Bytes block_of_node() {
  std::string block(kBlockBytes, 'x');
  const std::string node = to_string(pharos::context().node);
  node.copy(block.data(), node.size());
  return pharos::Bytes{std::move(block)};
}
/// Reads the block, and returns the node where it was made and the node where this runs.
std::pair<std::string, std::string> nodes_of(const pharos::Bytes& block) {
  const std::string here = to_string(pharos::context().node);
  std::size_t sum = 0;
  for (const std::byte each : block.span()) sum += static_cast<std::size_t>(each);
  std::string made_at(here.size(), sum == 0 ? '0' : 'x');
  std::memcpy(made_at.data(), block.span().data(), made_at.size());
  return {made_at, here};
}

}  // namespace

// The script broadcast_in_namespaces starts this.
int run_broadcast(int argc, char** argv, int nodes) {
  pharos::Runtime runtime{argc, argv};
  std::vector<pharos::Actor<SizeReader>> readers;
  for (int node = 2; node <= nodes; ++node) {
    readers.push_back(runtime.spawn<SizeReader>({.resources = {{"n" + std::to_string(node), 1}}}));
  }
  for (const auto& reader : readers) static_cast<void>(reader.call<&SizeReader::size>(pharos::Bytes{}).get());
  auto value = runtime.create_bytes(kBytes);
  std::memset(value.data(), 'x', kBytes);
  const auto ref = std::move(value).seal();
  const auto start = Clock::now();
  std::vector<pharos::Ref<std::size_t>> sizes;
  for (const auto& reader : readers) sizes.push_back(reader.call<&SizeReader::size>(ref));
  for (const auto& size : sizes) {
    if (size.get() != kBytes) return 1;
  }
  std::printf("%f\n", seconds_since(start));
  return 0;
}

// The share of tasks that run where their block is: all of them want to, and each node has some of the blocks.
void measure_locality(Report& report, int argc, char** argv) {
  if (!report.wants("locality_hit_share")) return;
  const StartedCluster cluster{StartedCluster::Records::kNone};
  const std::unique_ptr<Program> nodes[] = {cluster.start_node("cpu=2"), cluster.start_node("cpu=2")};
  pharos::Runtime runtime{argc, argv};
  std::vector<pharos::Ref<pharos::Bytes>> blocks;
  for (int i = 0; i < kBlocks; ++i) blocks.push_back(runtime.submit<&block_of_node>({.spread = true}));
  static_cast<void>(pharos::wait(blocks, {.count = blocks.size()}));
  std::vector<pharos::Ref<std::pair<std::string, std::string>>> answers;
  for (const auto& block : blocks) answers.push_back(runtime.submit<&nodes_of>(block));
  int hits = 0;
  std::set<std::string> made_at;
  for (const auto& answer : answers) {
    const auto [made, ran] = answer.get();
    made_at.insert(made);
    hits += made == ran ? 1 : 0;
  }
  if (made_at.size() != 3) throw std::runtime_error{"the blocks are not on all nodes"};
  report.add("locality_hit_share", static_cast<double>(hits) / kBlocks, "");
}

void measure_between_nodes(Report& report, int argc, char** argv) {
  if (report.wants_any({"pull_ratio_to_tcp", "pull_ratio_to_checked_tcp", "pull_256MiB", "limit_tcp_loopback"}))
    measure_pull(report, argc, argv);
  if (report.wants_any({"broadcast_8_over_2", "broadcast_2_nodes", "broadcast_8_nodes"})) measure_broadcast(report);
}

}  // namespace bench
