#pragma once

namespace pharos::simulated {

/// For the drill (see the script beside this file): whether this step of the device, asked for at this place of the
/// program, is to be left out in this run. Says no unless PHAROS_DRILL names the step and the place. Any thread.
///
/// `place` is where the caller will return to, so that each use of an event in the tested code is a place of its own.
/// nullptr: the step belongs to the simulated device itself.
bool is_left_out(const char* step, const void* place = nullptr);

}  // namespace pharos::simulated
