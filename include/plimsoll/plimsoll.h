// All rooms: what plans, judges, and reads or writes documents. Programs that need less include the
// headers of rooms.
#pragma once

#include "plimsoll/balance.h"
#include "plimsoll/check.h"
#include "plimsoll/checkpoint.h"
#include "plimsoll/core.h"
#include "plimsoll/embedding.h"
#include "plimsoll/experts.h"
#include "plimsoll/io.h"
#include "plimsoll/math.h"
#include "plimsoll/partition.h"
#include "plimsoll/study.h"
#include "plimsoll/topology.h"
