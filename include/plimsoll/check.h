// Judges of plans: they share estimates with the planners, and no search.
#pragma once

#include "plimsoll/check/balance_check.h"
#include "plimsoll/check/certificate_judgement.h"
#include "plimsoll/check/certificate_status.h"
#include "plimsoll/check/checkpoint_check.h"
#include "plimsoll/check/critical_path_check.h"
#include "plimsoll/check/expert_check.h"
#include "plimsoll/check/finding.h"
#include "plimsoll/check/frontier_check.h"
#include "plimsoll/check/latency_check.h"
#include "plimsoll/check/options_check.h"
#include "plimsoll/check/pipeline_check.h"
#include "plimsoll/check/placement_check.h"
#include "plimsoll/check/replicated_stages_check.h"
#include "plimsoll/check/sharding_check.h"
#include "plimsoll/check/transfer_check.h"
