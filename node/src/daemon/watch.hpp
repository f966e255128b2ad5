#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include <pharos/net/reactor.hpp>

namespace pharos::node {

/// Runs a function whenever a descriptor becomes ready: the function has to read all that is there, because the reactor
/// is edge-triggered. Owned by the reactor until unwatch(). The function runs on the thread that polls the reactor, and
/// must not throw. The daemon has only one such thread, on which it also calls unwatch(). So the function does not run
/// after unwatch(), and what the function refers to must live until then.
class Watch final : public net::Reactor::Watcher {
 public:
  explicit Watch(std::function<void()> then) : then_{std::move(then)} {}
  void on_ready(std::uint32_t) override { then_(); }

 private:
  const std::function<void()> then_;
};

}  // namespace pharos::node
