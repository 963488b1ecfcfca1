// Machines: ranks, memory, links, and what is shipped of them.
#pragma once

#include "plimsoll/topology/machine.h"
#include "plimsoll/topology/presets.h"
#include "plimsoll/topology/storage.h"
#include "plimsoll/topology/topology.h"
