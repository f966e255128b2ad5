#include "head/recovery.hpp"

namespace pharos::node::head {
namespace {

void append(wire::Report& to, wire::Report&& more) {
  const auto add = [](auto& all, auto& some) { all.insert(all.end(), some.begin(), some.end()); };
  add(to.jobs, more.jobs);
  add(to.callers, more.callers);
  add(to.holds, more.holds);
  add(to.incarnations, more.incarnations);
  add(to.bundles, more.bundles);
  add(to.unheld, more.unheld);
  add(to.lent, more.lent);
  add(to.borrowed, more.borrowed);
}

}  // namespace

void Recovery::expect(NodeId node, std::string address, TimePoint until) {
  expected_.insert_or_assign(node, Expected{std::move(address), until});
}

const std::string* Recovery::find_expected(NodeId node) const {
  const auto found = expected_.find(node);
  return found == expected_.end() ? nullptr : &found->second.address;
}

std::vector<NodeId> Recovery::expected() const {
  std::vector<NodeId> nodes;
  for (const auto& [node, expected] : expected_) nodes.push_back(node);
  return nodes;
}

std::vector<NodeId> Recovery::overdue(TimePoint now) const {
  std::vector<NodeId> nodes;
  for (const auto& [node, expected] : expected_) {
    if (expected.until <= now) nodes.push_back(node);
  }
  return nodes;
}

std::optional<std::string> Recovery::give_up(NodeId node) {
  auto found = expected_.extract(node);
  if (found.empty()) return std::nullopt;
  return std::move(found.mapped().address);
}

void Recovery::await_report(NodeId node) {
  expected_.erase(node);
  reporting_.emplace(node, wire::Report{});
}

std::optional<wire::Report> Recovery::add_report(NodeId from, wire::Report part) {
  const auto reporting = reporting_.find(from);
  if (reporting == reporting_.end()) return std::nullopt;
  const bool more = part.more;
  append(reporting->second, std::move(part));
  if (more) return std::nullopt;
  return std::move(reporting_.extract(reporting).mapped());
}

bool Recovery::end_if_all_settled() {
  if (!under_way_ || !expected_.empty() || !reporting_.empty()) return false;
  under_way_ = false;
  return true;
}

}  // namespace pharos::node::head
