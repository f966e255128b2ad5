#include "logs/logs.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace pharos::node {

Logs::Logs(RunAside run_blocking, Settings settings, NodeId node, std::string role)
    : run_blocking_{std::move(run_blocking)}, settings_{std::move(settings)}, node_{node}, role_{std::move(role)} {}

template <class Work, class Done>
void Logs::work_at(WorkerId worker, Work work, Done done) {
  run_blocking_(std::move(work), [this, alive = std::weak_ptr{alive_}, worker, done = std::move(done)] {
    if (alive.expired()) return;
    const auto found = logs_.find(worker);
    done(found == logs_.end() ? nullptr : &found->second);
  });
}

void Logs::begin(const Writer& writer) {
  if (settings_.folder.empty()) return;
  const std::string path = settings_.folder + "/" + to_string(writer.worker) + ".log";
  logs_.emplace(writer.worker, Log{.writer = writer, .file = std::make_shared<LogFile>(path)});
}

void Logs::note_process(WorkerId worker, pid_t pid) {
  if (const auto found = logs_.find(worker); found != logs_.end()) found->second.pid = pid;
}

void Logs::write(WorkerId worker, std::string_view text) {
  const auto found = logs_.find(worker);
  if (found == logs_.end()) return;
  Log& log = found->second;
  // If output comes faster than the disk takes it, its end is kept. The log on disk keeps the end, too.
  if (log.unwritten.size() + text.size() > kUnwrittenMax) log.left_out += std::exchange(log.unwritten, {}).size();
  log.unwritten += text;
  write_down(log);
}

void Logs::write_down(Log& log) {
  if (log.unwritten.empty() || std::exchange(log.being_written, true)) return;
  const std::uint64_t living = std::max<std::uint64_t>(logs_.size() - ended_.size(), 1);
  const std::uint64_t share = std::min(settings_.worker_max, settings_.total_max / living);
  std::string text = std::exchange(log.unwritten, {});
  if (const std::uint64_t left_out = std::exchange(log.left_out, 0); left_out != 0) {
    text.insert(0, "*** " + std::to_string(left_out) + " bytes are missing: the disk was too slow\n");
  }
  work_at(
      log.writer.worker, [file = log.file, text = std::move(text), share] { file->append(text, share); },
      [this](Log* written) {
        if (written == nullptr) return;
        written->being_written = false;
        note_bytes(*written);
        write_down(*written);
        make_room();
      });
}

void Logs::note_bytes(Log& log) {
  total_ -= log.bytes;
  log.bytes = log.file->kept();
  total_ += log.bytes;
}

void Logs::end(WorkerId worker, const std::string& reason) {
  const auto found = logs_.find(worker);
  if (found == logs_.end()) return;
  found->second.reason = reason;
  ended_.push_back(worker);
  make_room();
}

void Logs::make_room() {
  while (!ended_.empty() && (total_ > settings_.total_max || ended_.size() > kEndedMax)) {
    const auto oldest = logs_.extract(ended_.front());
    ended_.pop_front();
    total_ -= oldest.mapped().bytes;
    run_blocking_([file = oldest.mapped().file] { file->remove(); }, [] {});
  }
  if (total_ <= settings_.total_max || std::exchange(makes_room_, true)) return;
  const auto largest = std::max_element(logs_.begin(), logs_.end(), [](const auto& a, const auto& b) {
    return std::pair{a.second.bytes, a.first} < std::pair{b.second.bytes, b.first};
  });
  work_at(
      largest->first, [file = largest->second.file] { file->drop_older(); },
      [this](Log* smaller) {
        makes_room_ = false;
        if (smaller != nullptr) note_bytes(*smaller);
        make_room();
      });
}

wire::Rows Logs::list() const {
  wire::Rows all{{"id", "what", "actor", "incarnation", "node", "pid", "state", "bytes"}, {}, 0, 0};
  const auto text_of = [](auto id) { return id ? to_string(id) : std::string{}; };
  for (const auto& [worker, log] : logs_) {
    const Writer& writer = log.writer;
    all.rows.push_back({to_string(worker), writer.label, text_of(writer.actor),
                        writer.actor ? std::to_string(writer.incarnation) : "", to_string(node_),
                        log.pid == 0 ? "" : std::to_string(log.pid),
                        log.reason.empty() ? "alive" : "ended: " + log.reason, std::to_string(log.bytes)});
  }
  if (!settings_.own.empty()) {
    struct stat status {};
    const bool there = ::stat(settings_.own.c_str(), &status) == 0;
    all.rows.push_back({to_string(node_), role_, "", "", to_string(node_), std::to_string(::getpid()), "alive",
                        std::to_string(there ? status.st_size : 0)});
  }
  return all;
}

void Logs::read(const wire::ReadLog& asked, TakePart take) {
  struct Reading {
    TakePart take;
    wire::LogPart part;
  };
  const auto reading = std::make_shared<Reading>(Reading{std::move(take), {}});
  const auto done = [reading] { reading->take(std::move(reading->part)); };
  const std::uint32_t most = std::min(asked.most, kPartMax);
  if (!settings_.own.empty() && asked.log == to_string(node_)) {
    return run_blocking_(
        [reading, path = settings_.own, from = asked.from, most] {
          struct stat status {};
          if (::stat(path.c_str(), &status) == 0) reading->part.size = static_cast<std::uint64_t>(status.st_size);
          reading->part.from = std::min(from, reading->part.size);
          reading->part.text = read_part(path, reading->part.from, most);
        },
        done);
  }
  const auto found =
      std::find_if(logs_.begin(), logs_.end(), [&](const auto& each) { return to_string(each.first) == asked.log; });
  if (found == logs_.end()) {
    return reading->take(Error{ErrorCode::kNotFound, "the node has no log " + asked.log + " any more",
                               "\"pharos logs\" lists the logs that exist."});
  }
  const Log& log = found->second;
  // If the worker writes more after this, the next question finds it: so `ended` is decided before the file is read.
  const bool ended = !log.reason.empty() && log.unwritten.empty() && !log.being_written;
  run_blocking_(
      [reading, file = log.file, from = asked.from, most, ended] {
        reading->part = file->read(from, most);
        reading->part.ended = ended;
      },
      done);
}

}  // namespace pharos::node
