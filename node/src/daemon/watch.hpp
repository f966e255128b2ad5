#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include <pharos/net/reactor.hpp>

namespace pharos::node {

/// Runs a function whenever a descriptor is ready.
class Watch final : public net::Reactor::Watcher {
 public:
  explicit Watch(std::function<void()> then) : then_{std::move(then)} {}
  void on_ready(std::uint32_t) override { then_(); }

 private:
  const std::function<void()> then_;
};

}  // namespace pharos::node
