#pragma once

#include <signal.h>

#include <memory>
#include <string>
#include <utility>

#include "several_nodes.hpp"

namespace pharos::cluster {

/// Base of the tests whose head is killed and started again, with the same address and the same folder of records.
class DurableHead : public SeveralNodes {
 protected:
  std::string state() const { return folder() / "state"; }
  void start_durable_head(Variables more = {}, bool waits = true) {
    const std::string listen = address_.empty() ? listens_at() : address_;
    head_ = start({"start", "--head", "--block", "--listen", listen, "--token-file", token_file(), "--state", state()},
                  "cpu=1,seat=40", std::move(more));
    if (!waits) return;
    const std::string line = read_until(*head_, "listening at ");
    const std::size_t begin = line.find("listening at ") + 13;
    address_ = line.substr(begin, line.find(';') - begin);
    read_until(*head_, "PHAROS_ADDRESS=" + address_);
  }
  void kill_head() {
    ::kill(daemon_of(*head_), SIGKILL);
    head_->wait();
  }
};

}  // namespace pharos::cluster
