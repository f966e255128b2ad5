#pragma once

#include <c10/core/Device.h>

#include <functional>
#include <memory>

#include <pharos/base/export.hpp>

namespace pharos::ml {

namespace detail {

/// Records the work that a thread gives to a GPU. Made by the library of the device's kind; Graph owns it, and calls it
/// on one thread. begin() and end() are called with the same stream as the thread's current one. The destructor waits
/// until the GPU has done what run() gave it, and forgets a recording that has not ended.
class Recording {
 public:
  Recording() = default;
  Recording(Recording&&) = delete;
  virtual ~Recording() = default;
  virtual void begin() = 0;
  virtual void end() = 0;
  /// Gives the work to the current stream.
  virtual void run() = 0;
};

/// libpharos_cuda.so calls register_recordings() when it is loaded.
using MakeRecording = std::unique_ptr<Recording> (*)();
PHAROS_API void register_recordings(MakeRecording make);

}  // namespace detail

/// Work for a GPU that is the same each time: forward and backward of batches that all have one shape. The constructor
/// calls the function three times, as libraries choose their kernels when they are called first, and then once more, to
/// record what it gives to the GPU. run() gives all of that to the GPU in one call, where the function needs a launch
/// for each operator. That helps where the host is slower than the GPU: with small models, or small batches.
///
///   Graph step{device, [&] {
///     optimizer.zero_grad();
///     loss = loss_of(model, x, y);
///     loss.backward();
///   }};
///   for (const Batch& batch : batches) {
///     x.copy_(batch.x);
///     y.copy_(batch.y);
///     step.run();
///     optimizer.step();
///   }
///
/// The work always uses the memory that it used when it was recorded: the tensors that it reads, and those that it has
/// made, such as the loss and the gradients. They have values once run() was called. What the host does in the function
/// is not done again: a number that it computes stays as it was. Random numbers are new each time, the same that the
/// function would draw. A function that computes gradients first makes those of the last time undefined, as in the
/// example, so that the new ones are in memory of its own. The function may neither wait for the GPU, as item() does,
/// nor communicate with other ranks, nor save or set the state of a random generator, as ml::checkpoint() does; the
/// optimizer's step() counts on the host, so it stays outside. What the function changes besides, such as the running
/// statistics of a batch norm, it changes three times while it is recorded.
///
/// On the CPU nothing is recorded, and run() calls the function. The device is one that gpu() or own_device() has
/// returned. The constructor throws FailedPrecondition if the function does what cannot be recorded, and what the
/// function throws. The destructor waits for the GPU, and frees the memory that the recorded work has made and that no
/// tensor uses. One thread at a time. What the function refers to has to live as long as the object.
class PHAROS_API Graph {
 public:
  Graph(at::Device device, std::function<void()> work);
  Graph(Graph&&) = delete;
  ~Graph();

  /// Gives the work to the current stream. Throws what libtorch throws.
  void run();

 private:
  const std::function<void()> work_;
  std::unique_ptr<detail::Recording> recording_;
};

}  // namespace pharos::ml
