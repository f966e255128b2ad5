#include "simulator/network.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include <pharos/base/check.hpp>

namespace pharos::simulator {

using wire::FrameHeader;
using wire::FrameKind;

/// One end of a connection, with the interface that the shipped code uses.
class Network::SimulatedLink final : public net::Link, public std::enable_shared_from_this<SimulatedLink> {
 public:
  SimulatedLink(Network& network, Process& process, std::shared_ptr<Connection> connection, int side)
      : network_{network}, process_{process}, connection_{std::move(connection)}, side_{side} {}
  ~SimulatedLink() override { network_.close(connection_, side_); }

  void start(const std::shared_ptr<Handler>& handler) override {
    handler_ = handler;
    come();
  }
  void resume() override {
    if (!here().arrived.empty() || here().over) come();
  }

  bool send(FrameHeader header, std::span<const std::byte> payload, std::vector<Fd> descriptors) override {
    if (here().closed || !process_.alive()) return false;
    header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    Segment frame{std::vector<std::byte>(sizeof header + payload.size()), std::move(descriptors)};
    std::memcpy(frame.bytes.data(), &header, sizeof header);
    if (!payload.empty()) std::memcpy(frame.bytes.data() + sizeof header, payload.data(), payload.size());
    queued_ += frame.bytes.size();
    over_full_ = over_full_ || queued_ > kQueuedMax;
    waiting_.push_back(std::move(frame));
    return true;
  }

  void flush() override {
    do {
      write();
    } while (tell_of_room());
  }

  std::size_t queued() const override { return queued_; }
  void wait_for_room(std::size_t queued_max, async::Deadline deadline) override {
    flush();
    while (queued_ > queued_max && !here().closed && !deadline.expired(process_.now())) {
      process_.park_until_something(deadline);
    }
  }
  void close() override { network_.close(connection_, side_); }
  void drop() override { close(); }

  /// Delivers the segments that have arrived, as soon as a thread of the process runs.
  void come() {
    process_.soon([weak = weak_from_this()] {
      if (const auto link = weak.lock()) link->deliver();
    });
  }

 private:
  // Stands for the buffers of a socket: at most this many bytes are on their way or arrived and unread.
  static constexpr std::size_t kUnreadMax = std::size_t{1} << 20;

  End& here() const { return connection_->ends[side_]; }
  End& there() const { return connection_->ends[1 - side_]; }

  // Joins a random number of frames into each write.
  void write() {
    while (!waiting_.empty() && !here().closed && there().unread < kUnreadMax) {
      Segment write = std::move(waiting_.front());
      waiting_.pop_front();
      while (!waiting_.empty() && write.descriptors.empty() && waiting_.front().descriptors.empty() &&
             !network_.world_.lots().one_in(4)) {
        write.bytes.insert(write.bytes.end(), waiting_.front().bytes.begin(), waiting_.front().bytes.end());
        waiting_.pop_front();
      }
      queued_ -= write.bytes.size();
      network_.transmit(connection_, 1 - side_, std::move(write));
    }
  }

  bool tell_of_room() {
    if (queued_ > kQueuedMax || !std::exchange(over_full_, false)) return false;
    const auto handler = handler_.lock();
    if (handler == nullptr || here().closed) return false;
    handler->on_room();
    return true;
  }

  /// Called when the other end has read some bytes and there is room again.
  void write_on() {
    if (waiting_.empty()) return;
    process_.soon([weak = weak_from_this()] {
      if (const auto link = weak.lock()) link->flush();
    });
  }

  void deliver() {
    const auto handler = handler_.lock();
    if (handler == nullptr) return close();
    if (delivering_) return;
    delivering_ = true;
    bool delivered = false;
    while (!here().closed && !here().arrived.empty() && handler->wants_more()) {
      Segment segment = std::move(here().arrived.front());
      here().arrived.pop_front();
      const bool was_full = here().unread >= kUnreadMax;
      here().unread -= segment.bytes.size();
      if (const auto other = there().link.lock(); was_full && other != nullptr) other->write_on();
      const net::ReceiveBuffer buffer{segment.bytes.size()};
      std::memcpy(buffer.bytes(), segment.bytes.data(), segment.bytes.size());
      delivered = true;
      handler->on_frames(net::FrameBatch{buffer, 0, segment.bytes.size()}, std::move(segment.descriptors));
    }
    if (!here().closed && here().arrived.empty() && here().over) {
      here().closed = true;
      handler->on_closed(*here().over);
    }
    delivering_ = false;
    if (delivered) handler->on_idle();
  }

  Network& network_;
  Process& process_;
  const std::shared_ptr<Connection> connection_;
  const int side_;
  std::weak_ptr<Handler> handler_;
  std::deque<Segment> waiting_;
  std::size_t queued_ = 0;
  bool over_full_ = false;  // more than kQueuedMax was queued; the handler has to be told when there is room
  bool delivering_ = false;
};

Network::~Network() {
  for (const auto& connection : connections_) {
    for (const End& end : connection->ends) {
      PHAROS_CHECK(end.link.expired(), connection->number, end.process->name(), "somebody still has this connection");
    }
  }
}

std::vector<Fd> some_file() {
  std::vector<Fd> files;
  files.emplace_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  return files;
}

std::pair<Fd, Fd> Network::connect(bool may_break, bool is_patient) {
  look_after_unopened();  // the new pipes may get the numbers of descriptors that were closed
  const auto connection = std::make_shared<Connection>();
  connection->number = ++last_number_;
  connection->may_break = may_break;
  connection->is_patient = is_patient;
  connections_.push_back(connection);
  Fd ends[2];
  for (int side = 0; side < 2; ++side) {
    int pipe[2];
    PHAROS_CHECK(::pipe2(pipe, O_CLOEXEC) == 0, errno);
    connection->ends[side].unopened = Fd{pipe[0]};
    ends[side] = Fd{pipe[1]};
    unopened_[pipe[1]] = {connection, side};
  }
  return {std::move(ends[0]), std::move(ends[1])};
}

std::shared_ptr<net::Link> Network::open(Fd descriptor, Process& process) {
  const auto found = unopened_.find(descriptor.get());
  PHAROS_CHECK(found != unopened_.end(), process.name());
  const auto [connection, side] = found->second;
  unopened_.erase(found);
  End& end = connection->ends[side];
  end.unopened.reset();
  end.process = &process;
  auto link = std::make_shared<SimulatedLink>(*this, process, connection, side);
  end.link = link;
  if (process.alive()) {
    tell_about_other(connection->ends[1 - side], true);
  } else {
    close(connection, side);
  }
  return link;
}

void Network::when_other_opens(int end, async::UniqueFunction<void(bool opened)> then) {
  const auto found = unopened_.find(end);
  PHAROS_CHECK(found != unopened_.end());
  const auto [connection, side] = found->second;
  connection->ends[side].waits_for_other = std::move(then);
  const End& other = connection->ends[1 - side];
  if (other.closed || other.process != nullptr) tell_about_other(connection->ends[side], !other.closed);
}

void Network::tell_about_other(End& end, bool opened) {
  if (!end.waits_for_other) return;
  world_.after(delay(), [then = std::exchange(end.waits_for_other, {}), opened]() mutable { then(opened); });
}

void Network::look_after_unopened() {
  if (unopened_.empty()) return;
  std::vector<pollfd> polled;
  std::vector<int> descriptors;
  for (const auto& [descriptor, place] : unopened_) {
    polled.push_back({.fd = place.first->ends[place.second].unopened.get(), .events = 0, .revents = 0});
    descriptors.push_back(descriptor);
  }
  if (::poll(polled.data(), polled.size(), 0) <= 0) return;
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents == 0) continue;
    const auto [connection, side] = unopened_.extract(descriptors[i]).mapped();
    connection->ends[side].unopened.reset();
    close(connection, side);
  }
}

Duration Network::delay() {
  Lots& lots = world_.lots();
  return lots.one_in(delays_.one_in) ? lots.between(delays_.most, delays_.longest)
                                     : lots.between(delays_.least, delays_.most);
}

// A message arrives after all earlier ones of its connection.
TimePoint Network::next_arrival(const Connection& connection, int to) {
  TimePoint when = world_.now() + delay();
  const Process* const sender = connection.ends[1 - to].process;
  const Process* const receiver = connection.ends[to].process;
  if (!held_.empty() && sender != nullptr && receiver != nullptr) {
    const auto held = held_.find({std::string{sender->what()}, std::string{receiver->what()}});
    if (held != held_.end()) when = std::max(when, held->second + (when - world_.now()));
  }
  for (const auto& [machine, until] : cut_off_) {
    if (until > world_.now() && is_cut_off(connection, machine)) when = std::max(when, until + (when - world_.now()));
  }
  return std::max(connection.ends[to].last_arrival + Duration{1}, when);
}

void Network::transmit(const std::shared_ptr<Connection>& connection, int to, Segment segment) {
  End& end = connection->ends[to];
  if (connection->cut || end.closed) return;
  end.unread += segment.bytes.size();
  end.on_its_way.push_back(std::move(segment));
  end.last_arrival = next_arrival(*connection, to);
  world_.at(end.last_arrival, [this, connection, to] { arrive(connection, to); });
}

/// Returns nullopt for calls and replies.
std::optional<wire::Message> Network::message_in(const Segment& segment) {
  FrameHeader header;
  std::memcpy(&header, segment.bytes.data(), sizeof header);
  if (header.kind != FrameKind::kControl && header.kind != FrameKind::kRequest && header.kind != FrameKind::kResponse) {
    return std::nullopt;
  }
  auto message = wire::decode(std::span{segment.bytes}.subspan(sizeof header, header.payload_bytes));
  PHAROS_CHECK(message.ok());
  return *std::move(message);
}

Network::Fault Network::fault_of(const Connection& connection, const Segment& segment) {
  if (!choose_ && !choose_frame_) return Fault::kNone;
  if (const auto message = message_in(segment)) return choose_ ? choose_(*message) : Fault::kNone;
  if (!choose_frame_) return Fault::kNone;
  FrameHeader header;
  for (std::size_t at = 0; at < segment.bytes.size(); at += sizeof header + header.payload_bytes) {
    std::memcpy(&header, segment.bytes.data() + at, sizeof header);
    if (const Fault fault = choose_frame_(header, connection.may_break); fault != Fault::kNone) return fault;
  }
  return Fault::kNone;
}

void Network::print(const Connection& connection, int to, const Segment& segment) {
  const auto message = message_in(segment);
  const auto name_of = [&](int side) {
    return connection.ends[side].process == nullptr ? "?" : connection.ends[side].process->name().c_str();
  };
  std::printf("%14s %s -> %s: %s\n", "", name_of(1 - to), name_of(to),
              message ? std::string{wire::name_of(*message)}.c_str() : "calls or replies");
}

void Network::arrive(const std::shared_ptr<Connection>& connection, int to) {
  End& end = connection->ends[to];
  if (end.on_its_way.empty()) return;  // the segment was lost
  Segment segment = std::move(end.on_its_way.front());
  end.on_its_way.pop_front();
  if (end.closed) return;
  world_.note("link", "arrives", connection->number * 2 + static_cast<std::uint64_t>(to), segment.bytes.size());
  world_.trace().note_bytes(segment.bytes);
  if (world_.trace().printed()) print(*connection, to, segment);
  const auto pass_on = [&](Segment it) {
    end.arrived.push_back(std::move(it));
    if (const auto link = end.link.lock()) link->come();
  };
  Process* const sender = connection->ends[1 - to].process;
  switch (fault_of(*connection, segment)) {
    case Fault::kNone: pass_on(std::move(segment)); break;
    case Fault::kLost:
      end.on_its_way.clear();  // nothing may arrive after a message that was lost
      cut(connection);
      break;
    case Fault::kReplyLost:
      pass_on(std::move(segment));
      cut(connection);
      break;
    case Fault::kSenderDies:
      pass_on(std::move(segment));
      if (sender != nullptr) sender->kill("killed");
      break;
    case Fault::kReceiverDies:
      if (end.process == nullptr) return pass_on(std::move(segment));  // no process has opened this end
      end.process->kill("killed");
      break;
    case Fault::kTwice: {
      Segment again{segment.bytes, {}};
      end.unread += again.bytes.size();
      pass_on(std::move(segment));
      pass_on(std::move(again));
    } break;
  }
}

// Tells the end, after all segments on their way to it, that nothing more comes.
void Network::finish(const std::shared_ptr<Connection>& connection, int at, Error why) {
  End& end = connection->ends[at];
  if (end.closed) return;
  end.last_arrival = next_arrival(*connection, at);
  world_.at(end.last_arrival, [connection, at, why = std::move(why)] {
    End& told = connection->ends[at];
    if (told.closed || told.over) return;
    told.over = why;
    if (const auto link = told.link.lock()) link->come();
  });
}

void Network::close(const std::shared_ptr<Connection>& connection, int from) {
  End& end = connection->ends[from];
  if (std::exchange(end.closed, true)) return;
  end.arrived.clear();
  end.on_its_way.clear();
  tell_about_other(connection->ends[1 - from], false);
  finish(connection, 1 - from, Error{ErrorCode::kUnavailable, "the peer closed the connection"});
  forget_closed();
}

void Network::forget_closed() {
  std::erase_if(connections_, [](const auto& each) {
    return each->ends[0].closed && each->ends[1].closed && each->ends[0].link.expired() && each->ends[1].link.expired();
  });
}

void Network::cut(const std::shared_ptr<Connection>& connection) {
  if (std::exchange(connection->cut, true)) return;
  world_.note("link", "is cut", connection->number);
  for (int side = 0; side < 2; ++side) {
    End& end = connection->ends[side];
    const std::size_t kept = world_.lots().below(end.on_its_way.size() + 1);
    end.on_its_way.resize(kept);
    finish(connection, side, Error{ErrorCode::kUnavailable, "the connection was cut"});
  }
}

bool Network::cut_one() {
  std::vector<std::shared_ptr<Connection>> breakable;
  for (const auto& each : connections_) {
    if (each->may_break && !each->cut && !each->ends[0].closed && !each->ends[1].closed) breakable.push_back(each);
  }
  if (breakable.empty()) return false;
  cut(breakable[world_.lots().below(breakable.size())]);
  return true;
}

void Network::hold(const std::string& from, const std::string& to, TimePoint until) {
  world_.note(from, "is not heard");
  held_[{from, to}] = until;
}

TimePoint Network::cut_off_until(const std::string& one, const std::string& other) const {
  TimePoint until;
  for (const auto& [machine, when] : cut_off_) {
    if (one != other && (machine == one || machine == other)) until = std::max(until, when);
  }
  return until;
}

TimePoint Network::held_until(const std::string& one, const std::string& other) const {
  TimePoint until = cut_off_until(one, other);
  for (const auto& pair : {std::pair{one, other}, std::pair{other, one}}) {
    if (const auto held = held_.find(pair); held != held_.end()) until = std::max(until, held->second);
  }
  return until;
}

bool Network::is_cut_off(const Connection& connection, const std::string& machine) const {
  const Process* const one = connection.ends[0].process;
  const Process* const other = connection.ends[1].process;
  if (one == nullptr || other == nullptr) return false;
  return (machine_of_(*one) == machine) != (machine_of_(*other) == machine);
}

void Network::cut_off(const std::string& machine, TimePoint until, MachineOf machine_of) {
  world_.note(machine, "is cut off");
  machine_of_ = std::move(machine_of);
  cut_off_[machine] = until;
  if (until - world_.now() > kTimeout) world_.after(kTimeout, [this, machine] { time_out(machine); });
}

// Each end notices the timeout at a different time, so the seed draws one for each.
void Network::time_out(const std::string& machine) {
  const auto connections = connections_;
  for (const auto& connection : connections) {
    if (connection->is_patient || connection->cut || !is_cut_off(*connection, machine)) continue;
    connection->cut = true;
    world_.note("link", "times out", connection->number);
    for (End& end : connection->ends) {
      end.on_its_way.clear();
      world_.after(world_.lots().between(Duration{0}, std::chrono::milliseconds{900}), [connection, &end] {
        if (end.closed || end.over) return;
        end.over = Error{ErrorCode::kUnavailable, "nothing came from the other machine"};
        if (const auto link = end.link.lock()) link->come();
      });
    }
  }
}

void Network::end_of(Process& process) {
  const auto connections = connections_;
  for (const auto& connection : connections) {
    for (int side = 0; side < 2; ++side) {
      if (connection->ends[side].process == &process) close(connection, side);
    }
  }
}

}  // namespace pharos::simulator
