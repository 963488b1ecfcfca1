// Activation checkpointing: statistics, problems, policies.
#pragma once

#include "plimsoll/checkpoint/checkpoint_policy.h"
#include "plimsoll/checkpoint/checkpoint_problem.h"
#include "plimsoll/checkpoint/frontier_search.h"
#include "plimsoll/checkpoint/module_stats.h"
#include "plimsoll/checkpoint/module_tree.h"
#include "plimsoll/checkpoint/operator_choices.h"
#include "plimsoll/checkpoint/sac_milp.h"
#include "plimsoll/checkpoint/variant.h"
