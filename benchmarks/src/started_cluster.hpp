#pragma once

#include <chrono>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "figures.hpp"
#include "folder.hpp"
#include "program.hpp"

namespace bench {

/// A head that is started by `pharos start --head`, as users start it. A Runtime of this program joins it over TCP with
/// a node of its own, because the constructor sets PHAROS_ADDRESS. start_node() adds more nodes. The destructor ends
/// the head.
class StartedCluster {
 public:
  enum class Records { kNone, kOnDisk };

  explicit StartedCluster(Records records)
      : pharos_{std::filesystem::read_symlink("/proc/self/exe").parent_path() / "pharos"}, records_{records} {
    ::setenv("PHAROS_TOKEN_FILE", token().c_str(), 1);
    ::setenv("PHAROS_LOG", "off", 1);  // the nodes would log every failure that the benchmark causes
    start_head("127.0.0.1:0");
    address_ = head_->word_behind("listening at ");
    ::setenv("PHAROS_ADDRESS", address_.c_str(), 1);
  }
  StartedCluster(StartedCluster&&) = delete;
  ~StartedCluster() {
    ::unsetenv("PHAROS_ADDRESS");
    ::unsetenv("PHAROS_LOG");
    ::unsetenv("PHAROS_TOKEN_FILE");
  }

  std::unique_ptr<Program> start_node(const std::string& resources) const {
    return std::make_unique<Program>(std::vector<std::string>{pharos_, "start", "--block", "--address", address_,
                                                              "--token-file", token(), "--resources", resources},
                                     "joined the head");
  }
  /// Starts a node for which `hidden` is an empty folder, and whose own files lie in `folder`. Only root can.
  std::unique_ptr<Program> start_node_without(const std::string& hidden, const std::string& folder,
                                              const std::string& resources) const {
    const std::string script = "mount -t tmpfs none '" + hidden + "' && PHAROS_FOLDER='" + folder + "' exec \"$@\"";
    return std::make_unique<Program>(
        std::vector<std::string>{"/usr/bin/unshare", "-m", "sh", "-c", script, "sh", pharos_, "start", "--block",
                                 "--address", address_, "--token-file", token(), "--resources", resources},
        "joined the head");
  }
  /// Runs `pharos` with these words against the cluster, and waits for its end. Throws if its exit code is not 0.
  void run(std::vector<std::string> words) const {
    words.insert(words.begin(), pharos_);
    Program command{words, {}};
    if (const int status = command.wait(); status != 0) {
      throw std::runtime_error{"pharos " + words[1] + " has ended with status " + std::to_string(status)};
    }
  }
  /// Kills the head and starts it again on the same port. Retries for ten seconds, because the processes below the
  /// killed head end a moment later and keep the port until then.
  void restart_head() {
    head_->kill();
    const auto patience = Clock::now() + std::chrono::seconds{10};
    for (;;) {
      try {
        return start_head(address_);
      } catch (const std::exception&) {
        if (Clock::now() > patience) throw;
      }
    }
  }

 private:
  std::string token() const { return folder_.path() / "token"; }
  void start_head(const std::string& listen) {
    std::vector<std::string> words{pharos_, "start",        "--head", "--block",     "--listen",
                                   listen,  "--token-file", token(),  "--resources", "cpu=2"};
    if (records_ == Records::kOnDisk) words.insert(words.end(), {"--state", folder_.path() / "state"});
    head_ = std::make_unique<Program>(words, "run prog");
  }

  const Folder folder_;
  const std::string pharos_;
  const Records records_;
  std::string address_;
  std::unique_ptr<Program> head_;
};

}  // namespace bench
