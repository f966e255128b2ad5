#pragma once

/// This header includes everything that a program needs: `#include <pharos/pharos.hpp>`.

#include <pharos/actors/actor.hpp>
#include <pharos/actors/actor_group.hpp>
#include <pharos/actors/declaration.hpp>
#include <pharos/actors/exceptions.hpp>
#include <pharos/actors/foreign_actor.hpp>
#include <pharos/actors/group_slice.hpp>
#include <pharos/actors/key_values.hpp>
#include <pharos/actors/member.hpp>
#include <pharos/actors/options.hpp>
#include <pharos/actors/placement_group.hpp>
#include <pharos/actors/queue.hpp>
#include <pharos/actors/ref.hpp>
#include <pharos/actors/reply.hpp>
#include <pharos/actors/runtime.hpp>
#include <pharos/actors/wait.hpp>
#include <pharos/actors/writable.hpp>
#include <pharos/async/async.hpp>
#include <pharos/async/completion.hpp>
#include <pharos/async/sleep.hpp>
