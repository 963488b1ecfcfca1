// What surrounds a plan: answers, explanations, comparisons, other machines, moves.
#pragma once

#include "plimsoll/study/answer.h"
#include "plimsoll/study/checkpoint_answer.h"
#include "plimsoll/study/machine_size.h"
#include "plimsoll/study/no_plan.h"
#include "plimsoll/study/placement_answer.h"
#include "plimsoll/study/plan_difference.h"
#include "plimsoll/study/plan_explanation.h"
#include "plimsoll/study/plan_failure.h"
#include "plimsoll/study/plan_outline.h"
#include "plimsoll/study/plan_report.h"
#include "plimsoll/study/replan.h"
#include "plimsoll/study/robust.h"
#include "plimsoll/study/search_aid.h"
#include "plimsoll/study/sharding_answer.h"
#include "plimsoll/study/step_timeline.h"
#include "plimsoll/study/what_if.h"
