#pragma once

#include <string>
#include <utility>
#include <variant>

#include <pharos/async/block_on.hpp>
#include <pharos/base/result.hpp>
#include <pharos/wire/message.hpp>

#include "caller/node_line.hpp"
#include "caller/refused.hpp"

namespace pharos::actors {

/// The coroutine of ask_node().
template <class Answer>
async::Async<Result<Answer>> request_answer(NodeLine* line, wire::Message question) {
  const std::string name{wire::name_of(question)};
  auto answer = co_await line->request(std::move(question));
  if (!answer) {
    const auto why = line->over();
    co_return why ? *why : std::move(answer).error();
  }
  const auto* const found = std::get_if<Answer>(&answer->message);
  if (found == nullptr)
    co_return Error{ErrorCode::kInternal, "the node answered " + name + " with an unexpected message"};
  co_return *found;
}

/// Asks the node, or by way of it the head, and waits for the answer without a limit. Not to be called on the strand.
/// Fails with kRuntimeStopped, or as NodeLine::request() does.
template <class Answer>
Result<Answer> ask_node(NodeLine& line, wire::Message question) {
  if (line.abandoned()) return forked();
  if (const auto why = line.over()) return *why;
  return async::block_on(line.executor(), request_answer<Answer>(&line, std::move(question)));
}

}  // namespace pharos::actors
