#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include <pharos/actors/cell_handle.hpp>
#include <pharos/actors/codec_context.hpp>
#include <pharos/base/error.hpp>

namespace pharos::detail {

// Encode the result of a Ref inside of a value. It begins with a flag that tells a value from an error. Then comes the
// error; or the actors of the value, its count if it has a separate one, and the number of its bytes, which the caller
// appends. encode_ref() and ArgumentFiller call these, on their own thread. For begin_outcome() the cell must be ready
// with a value, and the encoder must have a context, which then keeps the actors.
void encode_failed_outcome(const Error& error, Encoder& to);
void begin_outcome(const CellHandle& cell, std::size_t size, Encoder& to);

}  // namespace pharos::detail
