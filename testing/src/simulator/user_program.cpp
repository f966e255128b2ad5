#include "simulator/user_program.hpp"

#include <utility>

namespace pharos::simulator {

UserProgram::UserProgram(Process& process, Fd node, std::vector<wire::Message> questions, Unanswered unanswered)
    : process_{process}, unanswered_{std::move(unanswered)}, open_{questions.size()}, background_{process.executor()} {
  const auto link = process.network().open(std::move(node), process);
  node_ = net::Peer::make(process.executor(), link, *this);
  link->start(node_);
  for (wire::Message& each : questions) background_.spawn(ask(std::move(each)));
}

void UserProgram::end() {
  background_.cancel();
  node_->close();
}

async::Async<void> UserProgram::ask(wire::Message question) {
  const std::string name{wire::name_of(question)};
  const auto deadline = async::Deadline::after(kAnswerTime, process_.executor());
  const auto answer = co_await node_->request(std::move(question), std::vector<Fd>{}, deadline);
  if (!process_.alive()) co_return;
  if (!answer && answer.error().code() == ErrorCode::kDeadlineExceeded) unanswered_(name);
  if (--open_ == 0) process_.exit();
}

}  // namespace pharos::simulator
